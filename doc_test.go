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
