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
	complaints := 0
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
			// Named before it is given to Await, a complaint is known by its form alone.
			complaint, ok := n.(*ast.FuncLit)
			if !ok || !complains(complaint) {
				return true
			}
			complaints++
			inspectReturns(complaint, func(r *ast.ReturnStmt) {
				if mayBeEmpty(r.Results[0]) {
					t.Errorf("%s: it may be empty: return testkit.Instead(...)",
						set.Position(r.Pos()))
				}
			})
			return true
		})
		return nil
	})
	if err != nil || complaints < 50 {
		t.Errorf("%d complaints were looked at: %v", complaints, err)
	}
}

// complains tells whether a function is one that Await may be given: it takes nothing, returns a
// text, and in one place the empty one.
func complains(f *ast.FuncLit) (empty bool) {
	results := f.Type.Results
	if len(f.Type.Params.List) > 0 || results == nil || len(results.List) != 1 {
		return false
	}
	if of, ok := results.List[0].Type.(*ast.Ident); !ok || of.Name != "string" {
		return false
	}
	inspectReturns(f, func(r *ast.ReturnStmt) {
		text, ok := r.Results[0].(*ast.BasicLit)
		empty = empty || ok && text.Value == `""`
	})
	return empty
}

// inspectReturns calls look with each return of a function that returns one value, and with none of
// the functions in it.
func inspectReturns(f *ast.FuncLit, look func(*ast.ReturnStmt)) {
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
			look(r)
		}
		_, inner := n.(*ast.FuncLit)
		return !inner
	})
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
