package config

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
)

// ParseProperties reads a Java .properties file in UTF-8: comments, escapes (\t \n \r \f \uXXXX), continuation lines, and
// keys that end at =, : or a blank. Of a key that stands there twice the last value counts.
//
// In Java: java.util.Properties#load(Reader).
func ParseProperties(r io.Reader) (map[string]string, error) {
	props := make(map[string]string)
	in := &logicalLines{in: bufio.NewReader(r)}
	for {
		line, number, err := in.next()
		if errors.Is(err, io.EOF) {
			return props, nil
		}
		if err != nil {
			return nil, fmt.Errorf("millrace: reading properties: %w", err)
		}
		key, value := splitProperty(line)
		k, err := unescapeProperty(key)
		if err == nil {
			value, err = unescapeProperty(value)
		}
		if err != nil {
			return nil, fmt.Errorf("millrace: properties, line %d: %w", number, err)
		}
		props[k] = value
	}
}

// logicalLines joins natural lines that end with an odd number of backslashes, and leaves out blank ones and comments.
type logicalLines struct {
	in     *bufio.Reader
	number int
	skipLF bool
	ended  bool
}

// next returns a logical line with its blanks at the start removed and the number of its first natural line.
func (l *logicalLines) next() (line string, number int, err error) {
	var b strings.Builder
	for continued := false; ; {
		natural, err := l.natural()
		if err != nil {
			if continued && errors.Is(err, io.EOF) {
				return b.String(), number, nil
			}
			return "", 0, err
		}
		natural = strings.TrimLeft(natural, " \t\f")
		if !continued {
			if natural == "" || natural[0] == '#' || natural[0] == '!' {
				continue
			}
			number = l.number
		}
		backslashes := len(natural) - len(strings.TrimRight(natural, `\`))
		if backslashes%2 == 0 {
			b.WriteString(natural)
			return b.String(), number, nil
		}
		b.WriteString(natural[:len(natural)-1])
		continued = true
	}
}

// natural returns the text up to the next \n, \r or \r\n.
func (l *logicalLines) natural() (string, error) {
	if l.ended {
		return "", io.EOF
	}
	var b []byte
	for {
		c, err := l.in.ReadByte()
		if errors.Is(err, io.EOF) {
			l.ended = true
			if len(b) == 0 {
				return "", io.EOF
			}
			break
		}
		if err != nil {
			return "", err
		}
		if skip := l.skipLF; skip {
			l.skipLF = false
			if c == '\n' {
				continue
			}
		}
		if c == '\r' {
			l.skipLF = true
		}
		if c == '\n' || c == '\r' {
			break
		}
		b = append(b, c)
	}
	l.number++
	return string(b), nil
}

// splitProperty parts a logical line at the first unescaped =, : or blank.
func splitProperty(line string) (key, value string) {
	end := len(line)
	for i := 0; i < len(line); i++ {
		if line[i] == '\\' {
			i++
			continue
		}
		if strings.IndexByte("=: \t\f", line[i]) >= 0 {
			end = i
			break
		}
	}
	value = strings.TrimLeft(line[end:], " \t\f")
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], " \t\f")
	}
	return line[:end], value
}

func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		if i++; i == len(s) {
			break
		}
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			r, n, err := unicodeEscape(s[i-1:])
			if err != nil {
				return "", err
			}
			b.WriteRune(r)
			i += n - 2
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), nil
}

// unicodeEscape reads one \uXXXX, or two that form a surrogate pair, and returns how many bytes it took.
func unicodeEscape(s string) (rune, int, error) {
	one := func(s string) (rune, bool) {
		if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
			return 0, false
		}
		v, err := strconv.ParseUint(s[2:6], 16, 16)
		return rune(v), err == nil
	}
	r, ok := one(s)
	if !ok {
		return 0, 0, errors.New(`a \u escape needs four hexadecimal digits`)
	}
	if utf16.IsSurrogate(r) {
		if low, ok := one(s[6:]); ok {
			if pair := utf16.DecodeRune(r, low); pair != '\uFFFD' {
				return pair, 12, nil
			}
		}
	}
	return r, 6, nil
}
