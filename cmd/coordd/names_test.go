package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// sameIn are the names of types that several packages of the module have: each is the same idea
// everywhere, and the package says of what.
var sameIn = map[string]string{
	"Config":    "the settings of what the package makes",
	"Options":   "the settings of a handler",
	"Conn":      "a connection to a store of elections",
	"Lead":      "what runs while its caller leads",
	"Item":      "an item of the workload",
	"Member":    "a member",
	"Candidate": "who would lead",
	"Status":    "all that there is to say of a service, or of an election",
	"Store":     "where something is stored",
}

// A host that imports several packages meets each name once, or the same idea under it.
func TestOneNameIsOneThing(t *testing.T) {
	where := map[string][]string{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if slices.Contains([]string{".git", "bin", "test", "internal", "cmd", "docs"}, d.Name()) {
			return filepath.SkipDir
		}
		files, err := filepath.Glob(filepath.Join(path, "*.go"))
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, decl := range file.Decls {
				types, ok := decl.(*ast.GenDecl)
				if !ok || types.Tok != token.TYPE || strings.HasSuffix(name, "_test.go") {
					continue
				}
				for _, spec := range types.Specs {
					spec := spec.(*ast.TypeSpec)
					if spec.Name.IsExported() && !spec.Assign.IsValid() { // an alias is the same thing
						where[spec.Name.Name] = append(where[spec.Name.Name], file.Name.Name)
					}
				}
			}
		}
		return err
	})
	if err != nil || len(where) < 100 {
		t.Fatalf("%d types were looked at (%v)", len(where), err)
	}
	for name, packages := range where {
		if len(packages) > 1 && sameIn[name] == "" {
			t.Errorf("%s is a type of the packages %q", name, packages)
		} else if len(packages) < 2 && sameIn[name] != "" {
			t.Errorf("%s is a type of one package: take it out of sameIn", name)
		}
	}
}

// A Go host has no flags: the texts of the packages name settings by package words.
func TestTextsOfTheLibraryNameNoFlags(t *testing.T) {
	library := regexp.MustCompile(
		`^../../(actors|messages|supervisor|internal/(store|protocol))/.*\.go$`)
	flag, texts := regexp.MustCompile(`(^|[\s("'])--[a-z]`), 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") ||
			!library.MatchString(path) {
			return err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if texts++; flag.MatchString(text.Value[1 : len(text.Value)-1]) {
					t.Errorf("%s: %s", set.Position(text.Pos()), text.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || texts < 1000 {
		t.Errorf("%d texts were looked at (%v)", texts, err)
	}
}
