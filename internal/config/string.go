package config

import "strings"

// String lists all settings with their values, a line each, in the order of their names; secrets are hidden. A setting
// that differs between the clients stands there once for each of them, with its prefix.
func (c *Config) String() string {
	var b strings.Builder
	line := func(name, value string) {
		b.WriteString(name + " = " + value + "\n")
	}
	for _, s := range Settings() {
		if s.Status != Supported || s.ReplacedBy != "" {
			continue
		}
		targets := s.targets()
		first := s.bind.get(target{cfg: c, client: targets[0]})
		same := true
		for _, cl := range targets[1:] {
			same = same && s.bind.get(target{cfg: c, client: cl}) == first
		}
		if same {
			line(s.Name, first)
			continue
		}
		for _, cl := range targets {
			line(cl.prefix()+s.Name, s.bind.get(target{cfg: c, client: cl}))
		}
	}
	for _, name := range sortedKeys(c.TopicConfigs) {
		line("topic."+name, c.TopicConfigs[name])
	}
	return b.String()
}
