package config

import (
	"errors"
	"fmt"
	"strings"
)

// parseJAAS reads the value of sasl.jaas.config: one entry "module flag (option=value)*;", as Kafka's clients do.
func parseJAAS(s string) (module string, options map[string]string, err error) {
	toks, err := jaasTokens(s)
	if err != nil {
		return "", nil, err
	}
	if len(toks) == 0 {
		return "", nil, errors.New("names no login module")
	}
	next := func() (jaasToken, bool) {
		if len(toks) == 0 {
			return jaasToken{}, false
		}
		t := toks[0]
		toks = toks[1:]
		return t, true
	}
	name, _ := next()
	if !name.word {
		return "", nil, fmt.Errorf("must begin with the class of a login module, not with %q", name.text)
	}
	flag, ok := next()
	if !ok {
		return "", nil, errors.New("lacks the control flag (required) behind the login module")
	}
	switch strings.ToLower(flag.text) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return "", nil, fmt.Errorf("has %q where the control flag (required) belongs", flag.text)
	}
	options = make(map[string]string)
	for {
		key, ok := next()
		if !ok {
			return "", nil, errors.New("does not end with a semicolon")
		}
		if !key.word && key.text == ";" {
			break
		}
		equals, ok1 := next()
		value, ok2 := next()
		if !key.word || !ok1 || !ok2 || equals.word || equals.text != "=" || !value.word {
			return "", nil, fmt.Errorf("has no value for the option %q", key.text)
		}
		options[key.text] = value.text
	}
	if len(toks) > 0 {
		return "", nil, errors.New("must hold exactly one entry")
	}
	return name.text, options, nil
}

// jaasToken is a word (quoted ones included) or a single other character.
type jaasToken struct {
	text string
	word bool
}

func jaasTokens(s string) ([]jaasToken, error) {
	var out []jaasToken
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c <= ' ':
			i++
		case strings.HasPrefix(s[i:], "//"):
			if end := strings.IndexByte(s[i:], '\n'); end >= 0 {
				i += end
			} else {
				i = len(s)
			}
		case strings.HasPrefix(s[i:], "/*"):
			end := strings.Index(s[i+2:], "*/")
			if end < 0 {
				return nil, errors.New("has a comment without an end")
			}
			i += 2 + end + 2
		case c == '"' || c == '\'':
			text, n, err := jaasQuoted(s[i:])
			if err != nil {
				return nil, err
			}
			out = append(out, jaasToken{text, true})
			i += n
		case jaasWordByte(c):
			j := i
			for j < len(s) && jaasWordByte(s[j]) {
				j++
			}
			out = append(out, jaasToken{s[i:j], true})
			i = j
		default:
			out = append(out, jaasToken{string(c), false})
			i++
		}
	}
	return out, nil
}

func jaasWordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c >= 0x80 ||
		c == '_' || c == '-' || c == '$' || c == '.'
}

// jaasQuoted reads a quoted word with its escapes and returns how many bytes it took.
func jaasQuoted(s string) (text string, n int, err error) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), i + 1, nil
		case c == '\n' || c == '\r':
			return "", 0, errors.New("has a quote without an end")
		case c == '\\' && i+1 < len(s):
			i++
			if s[i] >= '0' && s[i] <= '7' {
				v, digits := 0, 3
				if s[i] > '3' {
					digits = 2
				}
				start := i
				for ; i < len(s) && i < start+digits && s[i] >= '0' && s[i] <= '7'; i++ {
					v = v*8 + int(s[i]-'0')
				}
				i--
				b.WriteRune(rune(v))
				continue
			}
			if at := strings.IndexByte("abfnrtv", s[i]); at >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v"[at])
			} else {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", 0, errors.New("has a quote without an end")
}

// loginOf turns a JAAS entry into a Login. An option that has no effect here is an error: it may be a misspelt one.
func loginOf(module string, options map[string]string) (Login, error) {
	l := Login{Module: module, TLS: defaultTLS()}
	var allowed []string
	switch module {
	case plainModule:
		allowed = []string{"username", "password", "serviceName"}
	case scramModule:
		allowed = []string{"username", "password", "tokenauth", "serviceName"}
	case oauthModule:
		allowed = []string{"clientId", "clientSecret", "scope", "unsecuredLoginStringClaim_sub", "unsecuredLoginPrincipalClaimName",
			"unsecuredLoginLifetimeSeconds", "unsecuredLoginScopeClaimName", "extension_<name>"}
	default:
		return Login{}, fmt.Errorf("has the login module %s, which is not supported: %s, %s and %s are", module, plainModule, scramModule, oauthModule)
	}
	for _, key := range sortedKeys(options) {
		value := options[key]
		switch oauth := module == oauthModule; {
		case !oauth && key == "username":
			l.Username = value
		case !oauth && key == "password":
			l.Password = Secret(value)
		case !oauth && key == "serviceName":
		case module == scramModule && key == "tokenauth":
			if strings.EqualFold(value, "true") {
				return Login{}, errors.New("has the option tokenauth: delegation tokens are not supported")
			}
		case oauth && key == "clientId":
			l.ClientID = value
		case oauth && key == "clientSecret":
			l.ClientSecret = Secret(value)
		case oauth && key == "scope":
			l.Scope = value
		case oauth && strings.HasPrefix(key, "unsecuredLoginExtension_"):
			l.extend(strings.TrimPrefix(key, "unsecuredLoginExtension_"), value)
		case oauth && strings.HasPrefix(key, "extension_"):
			l.extend(strings.TrimPrefix(key, "extension_"), value)
		case oauth && strings.HasPrefix(key, "unsecuredLogin"):
			if l.Claims == nil {
				l.Claims = make(map[string]string)
			}
			l.Claims[key] = value
		case oauth && strings.HasPrefix(key, "ssl."):
			if err := applyTLSOption(&l.TLS, key, value); err != nil {
				return Login{}, err
			}
		default:
			return Login{}, fmt.Errorf("has the unknown option %q; the nearest known one is %q", key, nearest(key, allowed))
		}
	}
	if _, ok := l.Extensions["auth"]; ok {
		return Login{}, errors.New("has the extension \"auth\", which the protocol reserves")
	}
	return l, nil
}

func (l *Login) extend(name, value string) {
	if l.Extensions == nil {
		l.Extensions = make(map[string]string)
	}
	l.Extensions[name] = value
}
