package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// This package is the one room that knows Consul. What is above it takes a client from its host and
// passes it on; actors/client.go and the command make one of its settings.
func TestNothingAboveThisPackageUsesConsulsClient(t *testing.T) {
	passes := []string{"Client"}
	makes := append(passes, "Config", "DefaultConfig", "NewClient", "HttpBasicAuth")
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(path, "../../"))
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "test", "docs", "internal/store",
			"internal/devconsul"}, rel):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil || !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool {
			return i.Path.Value == `"github.com/hashicorp/consul/api"`
		}) {
			return err
		}
		allowed := passes
		if rel == "actors/client.go" || strings.HasPrefix(rel, "cmd/") ||
			strings.HasPrefix(rel, "actors/actorstest/") {
			allowed = makes
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && of.Name == "api" &&
					!slices.Contains(allowed, s.Sel.Name) {
					t.Errorf("%s uses api.%s", rel, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
