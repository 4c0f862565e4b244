// Command overlay applies the patches of test/mutations to copies of the product's files and writes
// them, with an overlay.json for `go build -overlay`, into the directory that it is given. It runs
// in the root of the repository.
package main

import (
	"fmt"
	"os"

	"github.com/coordd/coordd/test/mutations"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./test/mutations/overlay DIRECTORY")
		os.Exit(2)
	}
	path, err := mutations.Overlay(".", "test/mutations", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(path)
}
