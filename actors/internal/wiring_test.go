// Package internal_test holds the actors of a member to what docs/design.md says of messages.
package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostsOwn are the parameters of function type that an actor may be made with. They are no actor's:
// the tree of a term is made by package actors, because members and leaders do not know each other.
var hostsOwn = []string{"NewTermRunner term"}

// Actors speak to one another by states and mailboxes alone: no constructor takes a callback, no
// atomic is shared, and no name of a child is parsed.
func TestActorsSpeakByStatesAndMailboxesAlone(t *testing.T) {
	for _, room := range []string{"actor", "member", "leader"} {
		files, err := filepath.Glob(filepath.Join(room, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", room, len(files), err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range file.Imports {
				if i.Path.Value == `"sync/atomic"` {
					t.Errorf("%s imports sync/atomic", set.Position(i.Pos()))
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if x, ok := n.X.(*ast.Ident); ok && x.Name == "fmt" &&
						strings.HasPrefix(n.Sel.Name, "Sscan") {
						t.Errorf("%s calls fmt.%s", set.Position(n.Pos()), n.Sel.Name)
					}
				case *ast.FuncDecl:
					if n.Recv == nil && strings.HasPrefix(n.Name.Name, "New") {
						callbacks(t, set, n)
					}
				}
				return true
			})
		}
	}
}

// callbacks names the parameters of function type of a constructor of actors.
func callbacks(t *testing.T, set *token.FileSet, f *ast.FuncDecl) {
	if strings.HasSuffix(f.Name.Name, "Watcher") {
		return // a watch hands each view to a function of its own actor
	}
	for _, p := range f.Type.Params.List {
		if _, ok := p.Type.(*ast.FuncType); !ok {
			continue
		}
		for _, name := range p.Names {
			if !slices.Contains(hostsOwn, f.Name.Name+" "+name.Name) {
				t.Errorf("%s: %s takes a callback, %s", set.Position(p.Pos()), f.Name.Name,
					name.Name)
			}
		}
	}
}
