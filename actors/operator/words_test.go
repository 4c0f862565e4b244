package operator_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/coordd/coordd/actors/operator"
)

// sightings are the words that scenarios have said of items, in their order.
type sightings struct {
	last          string
	reached, left map[string]bool
}

var words = sightings{reached: map[string]bool{}, left: map[string]bool{}}

// see notes what is said of an item now.
func (s *sightings) see(e operator.Explanation) {
	now := map[string]bool{string(e.State): true, string(e.Cause): true}
	for _, w := range strings.Fields(s.last) {
		s.left[w] = s.left[w] || !now[w]
	}
	s.last = string(e.State) + " " + string(e.Cause)
	for w := range now {
		s.reached[w] = true
	}
}

// wordsAreAllSaid checks that each word for an item is reached by a scenario of testdata/words.txt
// and left again, and that each text about what comes next is said there.
func wordsAreAllSaid(t *testing.T) {
	script, err := os.ReadFile("testdata/words.txt")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("item_status.go")
	if err != nil {
		t.Fatal(err)
	}
	all := regexp.MustCompile(`\t(?:Cause|Item)\w+ +(?:Cause|ItemState) = "([a-z-]+)"`).
		FindAllStringSubmatch(string(source), -1)
	if len(all) < 25 {
		t.Fatalf("%d words were found: they are written otherwise now", len(all))
	}
	for _, w := range all {
		if !words.reached[w[1]] || !words.left[w[1]] {
			t.Errorf("%s is reached: %v, and left again: %v", w[1], words.reached[w[1]],
				words.left[w[1]])
		}
	}
	file, err := parser.ParseFile(token.NewFileSet(), "explain.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if f, is := n.(*ast.FuncDecl); is {
			return f.Name.Name == "next" || f.Name.Name == "running" || f.Name.Name == "then" ||
				f.Name.Name == "pinnedAway"
		}
		if _, is := n.(*ast.GenDecl); is {
			return false
		}
		if text, is := n.(*ast.BasicLit); is && text.Kind == token.STRING {
			said, err := strconv.Unquote(text.Value)
			for part := range strings.SplitSeq(said, "%s") {
				if err != nil || !strings.Contains(string(script), part) {
					t.Errorf("no scenario comes to %s", text.Value)
				}
			}
		}
		return true
	})
}
