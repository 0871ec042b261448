// Package docs holds no code: its test checks that the names in the documentation are those of the API.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// exported returns the exported names of a package folder: functions, types, variables, constants, methods as
// "Type.Method", and methods alone.
func exported(t *testing.T, dir string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", dir, err)
	}
	names := make(map[string]bool)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				names[d.Name.Name] = true
				if d.Recv != nil {
					names[receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.TypeSpec:
						names[s.Name.Name] = true
						var members *ast.FieldList
						switch x := s.Type.(type) {
						case *ast.InterfaceType:
							members = x.Methods
						case *ast.StructType:
							members = x.Fields
						}
						if members != nil {
							for _, m := range members.List {
								for _, n := range m.Names {
									names[n.Name] = true
									names[s.Name.Name+"."+n.Name] = true
								}
							}
						}
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[n.Name] = true
						}
					}
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// TestNamesExist checks what stands in backquotes in the millrace columns of kafka-streams.md, and qualified names in all
// pages for users.
func TestNamesExist(t *testing.T) {
	packages := map[string]map[string]bool{
		"millrace": exported(t, ".."), "window": exported(t, "../window"), "serde": exported(t, "../serde"),
		"processor": exported(t, "../processor"), "store": exported(t, "../store"), "milltest": exported(t, "../milltest"),
	}
	qualified := regexp.MustCompile(`\b(millrace|window|serde|processor|store|milltest)\.([A-Z]\w*)`)
	for _, page := range []string{"kafka-streams.md", "../README.md"} {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(data), "\n") {
			for _, m := range qualified.FindAllStringSubmatch(line, -1) {
				if !packages[m[1]][m[2]] && (packages["millrace"]["NewApp"] || m[1] != "millrace") {
					t.Errorf("%s:%d: package %s has no %s", page, n+1, m[1], m[2])
				}
			}
		}
	}

	page, err := os.ReadFile("kafka-streams.md")
	if err != nil {
		t.Fatal(err)
	}
	// The tables of differences have sentences in the second column, and those of settings values.
	text, rest, ok := strings.Cut(string(page), "## Deliberate differences")
	_, settings, ok2 := strings.Cut(rest, "\n## Settings")
	options, _, ok3 := strings.Cut(settings, "### Keys of StreamsConfig")
	if !ok || !ok2 || !ok3 {
		t.Fatal("kafka-streams.md has lost a heading that this test goes by")
	}
	text += strings.Repeat("\n", strings.Count(rest, "\n")-strings.Count(settings, "\n")) + options
	name := regexp.MustCompile(`^[A-Z]\w*(\.[A-Z]\w*)?`)
	code := regexp.MustCompile("`[^`]*`")
	// What comes with the App is checked as soon as there is one.
	ofApp := make(map[string]bool)
	for name := range strings.FieldsSeq(`NewApp App.Run App.State App.Lag OnState OnRestore StayInGroup ApplicationID Brokers ClientID
		StateDir InMemoryState Guarantee CommitInterval Workers MemoryLimit CacheBytes MaxTaskIdle SessionTimeout ReplicationFactor TLS
		SASLPlain SASLScram256 SASLScram512 SASLOAuthBearer OnDeserializationError OnProcessingError OnProductionError FromProperties
		LogAndFail LogAndContinue DeadLetters MetricsSnapshot.Drops Dropped DroppedFor Processed Commits InputMetrics.Lag Buffered
		Restoring State Phase TasksGivenUp TasksReplaced StateDropped StateCleanupDelay App.CleanUp OnUncaughtError App.Pause App.Resume App.Paused App.SetWorkers RecordsOversized StreamTime`) {
		ofApp[name] = true
	}
	checked := 0
	for n, line := range strings.Split(text, "\n") {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 || strings.HasPrefix(cells[1], "---") {
			continue
		}
		for _, c := range code.FindAllString(cells[2], -1) {
			found := name.FindString(strings.Trim(c, "`"))
			if found == "" || found == "Try" { // Try… stands for many
				continue
			}
			if !packages["millrace"]["NewApp"] && ofApp[found] {
				continue
			}
			checked++
			ok := false
			for _, p := range packages {
				ok = ok || p[found]
			}
			if !ok {
				t.Errorf("kafka-streams.md:%d: nothing in the API is called %s", n+1, found)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d names were found in the tables", checked)
	}
}
