package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// `make man` has this test write the man pages: cobra's generator is a dependency of tests alone.
var manDir = flag.String("man", "", "the `directory` to write the man pages to")

var header = doc.GenManHeader{Section: "1", Source: "coordd", Manual: "coordd"}

func TestEachCommandHasAManPage(t *testing.T) {
	dir := *manDir
	if dir == "" {
		dir = t.TempDir()
	}
	root := (&app{}).root()
	root.DisableAutoGenTag = true // the day of the build is no part of what is built
	must(t, doc.GenManTree(root, &header, dir))
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		name := filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1")
		page, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		first := regexp.MustCompile(`\S+`).FindString(c.Long)
		if !bytes.Contains(page, []byte(".SH SYNOPSIS")) || !bytes.Contains(page, []byte(first)) {
			t.Errorf("the page of %s has no synopsis, or does not say what its help says",
				c.CommandPath())
		}
		eachCommand(c, each)
	}
	each(root)
}
