package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the tables of docs/kafka-streams.md anew")

const docsPage = "../../docs/kafka-streams.md"

// section is a table of the page that is made from the settings.
type section struct {
	begin string // of the comment before it
	has   func(Setting) bool
}

func sections(streams map[string]javaKey) []section {
	security := func(s Setting) bool {
		return strings.HasPrefix(s.Name, "ssl.") || strings.HasPrefix(s.Name, "sasl.") || s.Name == "security.providers"
	}
	own := func(s Setting) bool { return s.Java == "" && strings.HasPrefix(s.Name, "millrace.") }
	inStreams := func(s Setting) bool { _, ok := streams[s.Name]; return ok }
	return []section{
		{"<!-- streams settings", inStreams},
		{"<!-- own settings", own},
		{"<!-- client settings", func(s Setting) bool {
			return s.Scope&ScopeClients != 0 && !inStreams(s) && !security(s)
		}},
		{"<!-- security settings", security},
	}
}

func table(has func(Setting) bool) string {
	var b strings.Builder
	b.WriteString("| setting | default | here | what it does |\n|---|---|---|---|\n")
	for _, s := range Settings() {
		if !has(s) {
			continue
		}
		status := s.Status.String()
		if s.Status == Fixed {
			var values []string
			for _, v := range s.Values {
				values = append(values, code(v[strings.LastIndexByte(v, '.')+1:], "empty"))
			}
			status += ": " + strings.Join(values, ", ")
		}
		text := s.Doc
		if s.ReplacedBy != "" {
			text += " That one wins."
		}
		if s.Note != "" {
			text += " *" + s.Note + "*"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Name, code(defaultText(s), "none"), status, strings.ReplaceAll(text, "|", "\\|"))
	}
	return b.String()
}

// defaultText is our default for what is supported, and Java's for the rest.
func defaultText(s Setting) string {
	v, ok := s.Default()
	if !ok {
		v = strings.Trim(strings.TrimPrefix(s.Java, "class "), "[]")
		if v == "null" || v == "-" {
			v = ""
		}
	}
	switch {
	case s.Name == "state.dir":
		return "<temporary files>/millrace"
	case s.Kind == Class:
		return v[strings.LastIndexByte(v, '.')+1:]
	case s.Name == "partition.assignment.strategy" || s.Name == "metric.reporters":
		return ""
	case v == "0" && strings.HasPrefix(s.Note, "Unset, "):
		return ""
	}
	return v
}

func code(s, empty string) string {
	if s == "" {
		return empty
	}
	return "`" + s + "`"
}

func TestDocs_listEverySetting(t *testing.T) {
	data, err := os.ReadFile(docsPage)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	streams := javaSettings(t)["streams"]
	shown := make(map[string]int)
	for _, s := range sections(streams) {
		before, rest, ok := strings.Cut(page, s.begin)
		comment, rest, ok2 := strings.Cut(rest, "\n")
		old, after, ok3 := strings.Cut(rest, "<!-- end -->")
		if !ok || !ok2 || !ok3 {
			t.Fatalf("the page has no section between %q and its end", s.begin)
		}
		want := table(s.has)
		for line := range strings.Lines(want) {
			if name, ok := strings.CutPrefix(line, "| `"); ok {
				name, _, _ = strings.Cut(name, "`")
				shown[name]++
			}
		}
		if old == want {
			continue
		}
		if !*rewrite {
			t.Errorf("the table behind %q is not what the settings say; run: go test ./internal/config -run Docs -rewrite", s.begin)
			continue
		}
		page = before + s.begin + comment + "\n" + want + "<!-- end -->" + after
	}
	for _, s := range Settings() {
		private := strings.HasPrefix(s.Name, "__") || strings.HasPrefix(s.Name, "internal.")
		if n := shown[s.Name]; n != 1 && !private {
			t.Errorf("%s stands in %d tables of the page", s.Name, n)
		}
	}
	for name := range streams {
		if shown[name] != 1 {
			t.Errorf("the page lacks %s", name)
		}
	}
	if *rewrite {
		if err := os.WriteFile(docsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
