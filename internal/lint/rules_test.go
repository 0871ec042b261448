package lint

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

// breach is one place where a rule is broken.
type breach struct {
	rule string
	file string
	at   string // file:line
	text string // what is wrong and what to do
}

func (b breach) String() string { return b.at + ": " + b.text }

// rule looks at one file that is not a test.
type rule struct {
	name  string
	check func(s *source, report func(n ast.Node, format string, args ...any))
}

var rules = []rule{
	{"imports", checkImports},
	{"goroutines", checkGoroutines},
	{"clock", checkClock},
	{"names", checkNames},
	{"panics", checkPanics},
}

// run applies the rules to the files and leaves out what an exception allows. An exception that allows nothing is a breach.
func run(files []*source, allowed []exception) []breach {
	var found []breach
	used := make([]bool, len(allowed))
	for _, r := range rules {
		for _, s := range files {
			if s.test {
				continue
			}
			r.check(s, func(n ast.Node, format string, args ...any) {
				i := slices.IndexFunc(allowed, func(e exception) bool { return e.rule == r.name && e.file == s.path })
				if i >= 0 {
					used[i] = true
					return
				}
				found = append(found, breach{r.name, s.path, s.at(n.Pos()), fmt.Sprintf(format, args...)})
			})
		}
	}
	for i, e := range allowed {
		if !used[i] {
			found = append(found, breach{e.rule, e.file, e.file + ":1", "this exception allows nothing any more: delete it from table_test.go"})
		}
	}
	return found
}

// under tells whether a package stands at or below one of the paths.
func under(dir string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return dir == p || strings.HasPrefix(dir, p+"/") })
}

// place returns where a package stands in the table: the path of its line, and its level.
func place(dir string) (line string, level int, ok bool) {
	for _, l := range levels {
		for _, p := range l.paths {
			if (dir == p || strings.HasPrefix(dir, p+"/")) && len(p) > len(line) {
				line, level, ok = p, l.level, true
			}
		}
	}
	return line, level, ok
}

// checkImports holds imports to the table of levels and to the names of who may import what.
func checkImports(s *source, report func(ast.Node, string, ...any)) {
	line, level, listed := place(s.dir)
	isBeside := under(s.dir, beside)
	if !listed && !isBeside {
		report(s.ast.Name, "package %s is not in the table of levels: add it in internal/lint/table_test.go", s.dir)
	}
	for _, spec := range s.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			report(spec, "%v", err)
			continue
		}
		checkImporter(s, spec, imported, report)
		dir, ours := ownPackage(imported)
		if !ours || isBeside || !listed {
			continue
		}
		if strings.HasPrefix(dir, "internal/") && under(s.dir, publicOnly) {
			report(spec, "%s imports %s, but is written on the public API only", s.dir, dir)
		}
		if under(dir, beside) {
			report(spec, "%s imports %s, which stands beside the levels: only tests may", s.dir, dir)
			continue
		}
		line2, level2, listed2 := place(dir)
		switch {
		case !listed2: // reported where it stands
		case line == line2:
		case level2 > level:
			report(spec, "%s (level %d) imports %s (level %d): imports point down", s.dir, level, dir, level2)
		case level2 == level && !slices.Contains(sameLevel, [2]string{line, line2}):
			report(spec, "%s imports %s of its own level %d: list it under sameLevel in internal/lint/table_test.go, or move the border",
				s.dir, dir, level)
		}
	}
}

// ownPackage returns the package of this module that an import path names.
func ownPackage(imported string) (dir string, ok bool) {
	if imported == modulePath {
		return ".", true
	}
	return strings.CutPrefix(imported, modulePath+"/")
}

func checkImporter(s *source, spec *ast.ImportSpec, imported string, report func(ast.Node, string, ...any)) {
	for _, i := range importers {
		if !under(imported, []string{i.prefix}) || under(s.dir, i.by) {
			continue
		}
		if dir, ours := ownPackage(i.prefix); ours && under(s.dir, []string{dir}) {
			continue
		}
		report(spec, "%s imports %s: %s", s.dir, imported, i.why)
	}
}

// checkGoroutines finds what starts a goroutine: the go statement, and methods called Go (of sync.WaitGroup and
// errgroup.Group) and functions called AfterFunc, which start one for their caller.
func checkGoroutines(s *source, report func(ast.Node, string, ...any)) {
	if under(s.dir, goroutines) || under(s.dir, commandLike) {
		return
	}
	const text = "%s starts a goroutine: only internal/runtime and the clients do, so that everything else can be stepped"
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n, text, s.dir)
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Go" || f.Sel.Name == "AfterFunc") {
				report(n, text, s.dir)
			}
		}
		return true
	})
}

// clockReads and clockWaits are the functions of package time that read the wall clock, or wait for it.
var (
	clockReads = []string{"Now", "Since", "Until", "Sleep"}
	clockWaits = []string{"After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
)

// checkClock finds uses, and not calls only: time.Now as a value reads the clock later.
func checkClock(s *source, report func(ast.Node, string, ...any)) {
	if under(s.dir, wallClock) || under(s.dir, commandLike) {
		return
	}
	eachUse(s, "time", report, func(n ast.Node, name string) {
		if slices.Contains(clockReads, name) || slices.Contains(clockWaits, name) && !under(s.dir, networkWaits) {
			report(n, "%s uses time.%s: take the time from a clock.Clock, so that tests can move it", s.dir, name)
		}
	})
}

// eachUse calls fn for each use of a package's name in a file, under whatever name it is imported. A dot import hides them,
// and is reported.
func eachUse(s *source, pkg string, report func(ast.Node, string, ...any), fn func(n ast.Node, name string)) {
	local := ""
	for _, spec := range s.ast.Imports {
		if spec.Path.Value != strconv.Quote(pkg) {
			continue
		}
		local = path.Base(pkg)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." {
			report(spec, "%s imports %s with a dot: import it by its name", s.dir, pkg)
			return
		}
	}
	if local == "" {
		return
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			// The parser resolves names that a file declares; that of an import stays open.
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == local && x.Obj == nil {
				fn(sel, sel.Sel.Name)
			}
		}
		return true
	})
}

// checkNames finds packages whose name says nothing.
func checkNames(s *source, report func(ast.Node, string, ...any)) {
	for _, name := range []string{s.ast.Name.Name, path.Base(s.dir)} {
		if slices.Contains(emptyNames, name) {
			report(s.ast.Name, "package %s: call it by the noun that it is about", name)
			return
		}
	}
}

// checkPanics finds what ends a program, or seems to: errors are returned.
func checkPanics(s *source, report func(ast.Node, string, ...any)) {
	if under(s.dir, commandLike) || under(s.dir, testTools) {
		return
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "panic" && f.Obj == nil {
				report(n, "%s panics: return an error that says what to do", s.dir)
			}
		}
		return true
	})
	eachUse(s, "os", report, func(n ast.Node, name string) {
		if name == "Exit" {
			report(n, "%s uses os.Exit: return an error", s.dir)
		}
	})
	eachUse(s, "log", report, func(n ast.Node, name string) {
		if strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic") {
			report(n, "%s uses log.%s: return an error", s.dir, name)
		}
	})
}
