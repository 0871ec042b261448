package millrace_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// Every exported name of the package says what it means.
func TestDocComments(t *testing.T) {
	files := token.NewFileSet()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(files, parsed, "github.com/millrace-io/millrace")
	if err != nil {
		t.Fatal(err)
	}
	check := func(what, name, text string) {
		if ast.IsExported(name) && strings.TrimSpace(text) == "" {
			t.Errorf("%s %s has no doc comment", what, name)
		}
	}
	values := func(vs []*doc.Value) {
		for _, v := range vs {
			for _, spec := range v.Decl.Specs {
				s := spec.(*ast.ValueSpec)
				for _, name := range s.Names {
					check("value", name.Name, v.Doc+s.Doc.Text()+s.Comment.Text())
				}
			}
		}
	}
	functions := func(of string, fs []*doc.Func) {
		for _, f := range fs {
			check("function", of+f.Name, f.Doc)
			if ast.IsExported(f.Name) && !strings.Contains(f.Doc, f.Name) && !strings.Contains(f.Doc, "error") {
				t.Errorf("the comment of %s%s does not begin with its name: %q", of, f.Name, f.Doc)
			}
		}
	}
	if len(strings.TrimSpace(p.Doc)) == 0 {
		t.Error("the package has no doc comment")
	}
	values(p.Consts)
	values(p.Vars)
	functions("", p.Funcs)
	checked := len(p.Funcs)
	for _, typ := range p.Types {
		checked++
		check("type", typ.Name, typ.Doc)
		values(typ.Consts)
		values(typ.Vars)
		functions("", typ.Funcs)
		functions(typ.Name+".", typ.Methods)
		checked += len(typ.Funcs) + len(typ.Methods)
	}
	if checked < 100 {
		t.Errorf("only %d names were looked at", checked)
	}
}

// Every step has an Example: some function of an example file calls it. A twin that can fail has that of the step itself.
func TestExamples(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	steps, called := make(map[string]string), make(map[string]bool)
	for _, name := range names {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "example_") {
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					called[s.Sel.Name] = true
				}
				return true
			})
			continue
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && !strings.HasPrefix(fn.Name.Name, "Try") && takesStepOptions(fn) {
				steps[fn.Name.Name] = name
			}
		}
	}
	if len(steps) < 60 {
		t.Errorf("only %d steps were found", len(steps))
	}
	for step, file := range steps {
		if !called[step] {
			t.Errorf("%s: no Example calls %s", file, step)
		}
	}
}

func takesStepOptions(f *ast.FuncDecl) bool {
	params := f.Type.Params.List
	if len(params) == 0 {
		return false
	}
	rest, ok := params[len(params)-1].Type.(*ast.Ellipsis)
	if !ok {
		return false
	}
	of, ok := rest.Elt.(*ast.Ident)
	return ok && of.Name == "StepOption"
}
