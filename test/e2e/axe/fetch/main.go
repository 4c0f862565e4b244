// Command fetch puts axe-core into the cache, for test/tools.sh.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/coordd/coordd/test/e2e/axe"
)

func main() {
	if err := axe.Fetch(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
