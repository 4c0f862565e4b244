package web

import _ "embed"

//go:embed page.html
var page []byte

// pagePolicy: everything is in the page. It asks nobody but this address, and nothing else may run
// in it.
const pagePolicy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
	"connect-src 'self'; img-src data:; frame-ancestors 'none'"
