package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// servers is the codec of bootstrap.servers.
func servers() codec[[]string] {
	return codec[[]string]{
		parse: func(s string) ([]string, error) {
			var out []string
			for _, part := range splitList(s) {
				if _, rest, ok := strings.Cut(part, "://"); ok { // a listener's address, PLAINTEXT://host:port
					part = rest
				}
				out = append(out, part)
			}
			return out, nil
		},
		format: list().format,
		check: func(v []string) error {
			for _, s := range v {
				if err := checkServer(s); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// checkServer checks the form of host:port; the host may be an IPv6 address in brackets.
func checkServer(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		if strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "[") {
			return fmt.Errorf("must be a list of host:port: write the IPv6 address in %q in brackets, as in [::1]:9092", s)
		}
		return fmt.Errorf("must be a list of host:port: %q has no port, as in %s:9092", s, strings.TrimSuffix(s, ":"))
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("must be a list of host:port: the port of %q must be a number from 1 to 65535", s)
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("must be a list of host:port: %q is no IPv6 address", host)
		}
		return nil
	}
	if host == "" || strings.ContainsFunc(host, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	}) {
		return fmt.Errorf("must be a list of host:port: %q has no host name", s)
	}
	return nil
}
