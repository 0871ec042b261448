package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
)

// source is one Go file.
type source struct {
	path string // relative to the module, with slashes
	dir  string // its package, "." for the root
	test bool
	fset *token.FileSet
	ast  *ast.File
}

// at returns "file:line" of a position.
func (s *source) at(p token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(p).Line)
}

// parse reads one file. text is its content, nil reads it from disk below root.
func parse(root, file string, text any) (*source, error) {
	s := &source{path: file, dir: path.Dir(file), test: strings.HasSuffix(file, "_test.go"), fset: token.NewFileSet()}
	var err error
	s.ast, err = parser.ParseFile(s.fset, filepath.Join(root, filepath.FromSlash(file)), text, 0)
	return s, err
}

// load reads every Go file of the module, whatever its build tags. The go command would list those only that one set of
// tags selects, and a rule must hold for all.
func load(root string) ([]*source, error) {
	var all []*source
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			return skipDir(root, p, name)
		}
		if !strings.HasSuffix(name, ".go") || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		s, err := parse(root, filepath.ToSlash(rel), nil)
		if err != nil {
			return err
		}
		all = append(all, s)
		return nil
	})
	return all, err
}

// skipDir leaves out what the go command leaves out of ./..., and modules of their own.
func skipDir(root, p, name string) error {
	if p == root {
		return nil
	}
	if name == "testdata" || name == "vendor" || strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(p, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// moduleRoot returns the directory of go.mod, above the working directory.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			if !strings.HasPrefix(string(text), "module "+modulePath+"\n") {
				return "", fmt.Errorf("%s is not the go.mod of %s", filepath.Join(dir, "go.mod"), modulePath)
			}
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", fmt.Errorf("no go.mod above the working directory: %w", err)
		}
		dir = up
	}
}
