// Command limits holds the product's functions and structs to their limits:
//
//	go run ./test/limits test/lint/limits.txt
//
// A function has at most 80 lines, from func to its closing brace, and at most 25 branches: each
// if, for, case, && and || is one, also in the function literals inside. A struct has at most 25
// fields.
//
// Tables are excepted: a function of which more than half of the lines are one composite literal,
// without the function literals in it, or one switch whose cases have no branch. Settings are
// excepted: the structs in the list below.
//
// The file names what is above a limit today, one a line. What is above and has no line fails, and
// so does a line of something that is not above any more: the file only shrinks. Without a file,
// limits prints what is above.
package main

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	mostLines    = 80
	mostBranches = 25
	mostFields   = 25
)

// settings are structs that only hold what a user may set.
var settings = []string{"actors.Config", "actors/internal/actor.Settings", "cmd/coordd.runFlags"}

func main() {
	found, err := scan(".")
	if err == nil && len(os.Args) > 1 {
		err = compare(found, os.Args[1])
	} else {
		for _, f := range found {
			fmt.Println(f)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "limits:", err)
		os.Exit(1)
	}
}

// finding is a function or struct above a limit.
type finding struct{ name, why string }

func (f finding) String() string { return f.name + ": " + f.why }

// scan looks at the product below root: all Go files but tests, test/ and docs/.
func scan(root string) (found []finding, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if base := d.Name(); rel == "test" || rel == "docs" || rel == "bin" ||
				base == "testdata" || rel != "." && strings.HasPrefix(base, ".") {
				return filepath.SkipDir
			}
			return nil
		case !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		src, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		more, err := inFile(filepath.ToSlash(rel), src)
		found = append(found, more...)
		return err
	})
	return found, err
}

func inFile(path string, src []byte) (found []finding, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	pkg, _, _ := strings.Cut(path, "/"+filepath.Base(path))
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			name := pkg + "." + receiver(decl) + decl.Name.Name
			lines, branches := linesOf(fset, decl), branchesOf(decl)
			if (lines > mostLines || branches > mostBranches) && !isTable(fset, decl) {
				found = append(found, finding{name, fmt.Sprintf("%d lines, %d branches", lines,
					branches)})
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				name := pkg + "." + t.Name.Name
				if s, ok := t.Type.(*ast.StructType); ok && s.Fields.NumFields() > mostFields &&
					!slices.Contains(settings, name) {
					found = append(found, finding{name, fmt.Sprintf("%d fields",
						s.Fields.NumFields())})
				}
			}
		}
	}
	return found, nil
}

// receiver is the type of a method with a dot.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	t := f.Recv.List[0].Type
	for {
		switch of := t.(type) {
		case *ast.StarExpr:
			t = of.X
		case *ast.IndexExpr:
			t = of.X
		case *ast.IndexListExpr:
			t = of.X
		case *ast.Ident:
			return of.Name + "."
		default:
			return ""
		}
	}
}

func linesOf(fset *token.FileSet, n ast.Node) int {
	return fset.Position(n.End()).Line - fset.Position(n.Pos()).Line + 1
}

func branchesOf(n ast.Node) (count int) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			count++
		case *ast.CaseClause:
			if n.List != nil { // else it is the default
				count++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				count++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				count++
			}
		}
		return true
	})
	return count
}

// isTable tells whether more than half of a function is one literal or one flat switch.
func isTable(fset *token.FileSet, f *ast.FuncDecl) (table bool) {
	half := linesOf(fset, f) / 2
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			lines := linesOf(fset, n)
			ast.Inspect(n, func(inner ast.Node) bool {
				if lit, ok := inner.(*ast.FuncLit); ok {
					lines -= linesOf(fset, lit)
					return false
				}
				return true
			})
			table = table || lines > half
		case *ast.SwitchStmt:
			table = table || linesOf(fset, n) > half && flat(n.Body)
		case *ast.TypeSwitchStmt:
			table = table || linesOf(fset, n) > half && flat(n.Body)
		}
		return !table
	})
	return table
}

// flat means that no case of a switch has a branch.
func flat(body *ast.BlockStmt) bool {
	for _, clause := range body.List {
		for _, stmt := range clause.(*ast.CaseClause).Body {
			if branchesOf(stmt) > 0 {
				return false
			}
		}
	}
	return true
}

// compare holds what is found to the file of what may be above.
func compare(found []finding, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	allowed := map[string]bool{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); line != "" && !strings.HasPrefix(line, "#") {
			allowed[line] = true
		}
	}
	var bad []string
	for _, f := range found {
		if !allowed[f.name] {
			bad = append(bad, f.String()+": split it")
		}
	}
	for name := range allowed {
		if !slices.ContainsFunc(found, func(f finding) bool { return f.name == name }) {
			bad = append(bad, name+": no longer above a limit: remove its line from "+path)
		}
	}
	if slices.Sort(bad); len(bad) > 0 {
		return fmt.Errorf("at most %d lines, %d branches, %d fields (see the doc of test/limits):\n%s",
			mostLines, mostBranches, mostFields, strings.Join(bad, "\n"))
	}
	return nil
}
