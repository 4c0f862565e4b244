package testkit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// Await ends when the complaint is empty. The output of a command is empty before the command has
// printed anything, so it is no complaint by itself. This test reads all tests of the module: each
// complaint has words of its own (testkit.Instead), or comes from a function that has some.
func TestNoComplaintOfAWaitMayBeEmptyByChance(t *testing.T) {
	waits := 0
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, _ := n.(*ast.CallExpr)
			if call == nil {
				return true
			}
			name, _ := call.Fun.(*ast.SelectorExpr)
			if name == nil || name.Sel.Name != "Await" && name.Sel.Name != "Look" ||
				len(call.Args) == 0 {
				return true
			}
			if complaint, ok := call.Args[len(call.Args)-1].(*ast.FuncLit); ok {
				waits++
				ast.Inspect(complaint.Body, func(n ast.Node) bool {
					if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 &&
						mayBeEmpty(r.Results[0]) {
						t.Errorf("%s: it may be empty: return testkit.Instead(...)",
							set.Position(r.Pos()))
					}
					_, inner := n.(*ast.FuncLit)
					return !inner
				})
			}
			return true
		})
		return nil
	})
	if err != nil || waits < 50 {
		t.Errorf("%d waits were looked at: %v", waits, err)
	}
}

// mayBeEmpty tells whether a text can be empty by its form: a variable that is not called
// complaint, a field, a result of package strings, a String(), and sums of these.
func mayBeEmpty(text ast.Expr) bool {
	switch text := text.(type) {
	case *ast.Ident:
		return text.Name != "complaint"
	case *ast.SelectorExpr:
		return true
	case *ast.BinaryExpr:
		return mayBeEmpty(text.X) && mayBeEmpty(text.Y)
	case *ast.CallExpr:
		of, ok := text.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		from, _ := of.X.(*ast.Ident)
		return of.Sel.Name == "String" || from != nil && from.Name == "strings"
	}
	return false
}
