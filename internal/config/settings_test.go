package config

import (
	"os"
	"slices"
	"strings"
	"testing"
)

type javaKey struct{ kind, standard string }

// javaSettings reads the keys of Kafka 4.4.0 by client.
func javaSettings(t *testing.T) map[string]map[string]javaKey {
	t.Helper()
	data, err := os.ReadFile("testdata/kafka-4.4.0-settings.tsv")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]map[string]javaKey)
	for line := range strings.Lines(string(data)) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if len(f) != 4 {
			continue
		}
		if out[f[0]] == nil {
			out[f[0]] = make(map[string]javaKey)
		}
		out[f[0]][f[1]] = javaKey{f[2], f[3]}
	}
	if n := len(out["streams"]); n != 79 {
		t.Fatalf("the file has %d keys of StreamsConfig, want 79", n)
	}
	return out
}

func settingsByName(t *testing.T) map[string]Setting {
	t.Helper()
	out := make(map[string]Setting)
	for _, s := range Settings() {
		if _, twice := out[s.Name]; twice {
			t.Errorf("%s stands in the table twice", s.Name)
		}
		out[s.Name] = s
	}
	return out
}

func TestSettings_knowEveryKafkaKey(t *testing.T) {
	known := settingsByName(t)
	java := javaSettings(t)
	scopes := map[string]Scope{"streams": ScopeApp, "consumer": ScopeConsumer, "producer": ScopeProducer, "admin": ScopeAdmin}
	for client, keys := range java {
		for name := range keys {
			s, ok := known[name]
			if !ok {
				t.Errorf("the %s key %s is missing", client, name)
				continue
			}
			// What is set once for the App cannot be given to a client.
			if s.Scope&scopes[client] == 0 && (client == "streams" || s.Scope != ScopeApp) {
				t.Errorf("%s lacks the scope of the %s", name, client)
			}
		}
	}
	for name, s := range known {
		for client, scope := range scopes {
			if _, ok := java[client][name]; !ok && s.Scope&scope != 0 && s.Java != "" {
				t.Errorf("%s has the scope of the %s, which does not know it", name, client)
			}
		}
	}
}

func TestSettings_javaDefaults(t *testing.T) {
	java := javaSettings(t)
	for name, s := range settingsByName(t) {
		var of []string
		for _, client := range []string{"streams", "consumer", "producer", "admin"} {
			if k, ok := java[client][name]; ok {
				of = append(of, strings.Replace(k.standard, "REQUIRED", "-", 1))
			}
		}
		if len(of) == 0 {
			continue
		}
		if s.Java != of[0] {
			t.Errorf("%s: the default is given as %q, in Kafka it is %q", name, s.Java, of[0])
		}
		mine, ok := s.Default()
		if !ok {
			continue
		}
		simple := func(v string) string {
			v = strings.Trim(strings.TrimPrefix(v, "class "), "[]")
			v = strings.ReplaceAll(v, ", ", ",")
			if v == "null" || v == "-" {
				v = ""
			}
			return v[strings.LastIndexByte(v, '$')+1:][strings.LastIndexByte(v[strings.LastIndexByte(v, '$')+1:], '.')+1:]
		}
		if name == "ssl.enabled.protocols" { // the dots are not those of a class
			simple = func(v string) string { return strings.ReplaceAll(strings.Trim(v, "[]"), ", ", ",") }
		}
		if simple(mine) != simple(s.Java) && s.Note == "" {
			t.Errorf("%s: the default is %q, Java's is %q, and no note says why", name, mine, s.Java)
		}
	}
}

func TestSettings_sayWhatIsNeeded(t *testing.T) {
	for name, s := range settingsByName(t) {
		if s.Doc == "" || !strings.HasSuffix(s.Doc, ".") {
			t.Errorf("%s: doc %q is no sentence", name, s.Doc)
		}
		if s.Status != Supported && s.Note == "" {
			t.Errorf("%s is %s and no note says why", name, s.Status)
		}
		if (s.Status == Supported) != (s.bind != nil) {
			t.Errorf("%s is %s and has a field: %v", name, s.Status, s.bind != nil)
		}
		if (s.Status == Fixed) != (len(s.Values) > 0) {
			t.Errorf("%s is %s with the values %q", name, s.Status, s.Values)
		}
		if s.ReplacedBy != "" && !slices.ContainsFunc(Settings(), func(o Setting) bool { return o.Name == s.ReplacedBy }) {
			t.Errorf("%s is replaced by %s, which is not known", name, s.ReplacedBy)
		}
	}
}

// What a setting prints for a value that it took must give the same value again, and reach the field of each client.
func TestSettings_roundTrip(t *testing.T) {
	for name, s := range settingsByName(t) {
		if s.Status != Supported || s.Kind == Password {
			continue
		}
		for _, cl := range s.targets() {
			cfg := Default()
			at := target{cfg: &cfg, client: cl}
			before := s.bind.get(at)
			set, err := s.bind.parse(before)
			if err != nil && before != "" && name != "processing.guarantee" {
				t.Errorf("%s: its own default %q is refused: %v", name, before, err)
				continue
			}
			if err == nil {
				set(at)
			}
			if after := s.bind.get(at); after != before {
				t.Errorf("%s: %q became %q", name, before, after)
			}
		}
	}
}

func TestTopicConfigs_areSorted(t *testing.T) {
	if c := topicConfigs(); !slices.IsSorted(c) || len(c) != 38 {
		t.Errorf("%d configs, sorted: %v; Kafka 4.4.0 has 38 (LogConfig.configNames)", len(c), slices.IsSorted(c))
	}
}
