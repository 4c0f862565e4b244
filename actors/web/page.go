package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
)

//go:embed page
var pageFiles embed.FS

// pageScripts are the parts of the page's one script, in their order.
var pageScripts = []string{"base.js", "tiles.js", "flights.js", "members.js", "actions.js",
	"timeline.js", "drawer.js", "main.js"}

// page is one document, with its style and its script in it. pagePolicy lets it run these two and
// nothing else, and ask nobody but this address.
var page, pagePolicy = assemble()

// actingPage is the page that asks for actions. The other one never does.
var actingPage = bytes.Replace(page, []byte(`<body class="empty">`),
	[]byte(`<body class="empty" data-acts>`), 1)

func assemble() ([]byte, string) {
	part := func(name string) []byte {
		text, err := pageFiles.ReadFile("page/" + name)
		if err != nil {
			panic("web: " + err.Error()) // it was compiled in
		}
		return text
	}
	script := []byte("\"use strict\";\n{\n") // what it names is in no other one's way
	for _, name := range pageScripts {
		script = append(script, part(name)...)
	}
	script = append(script, "}\n"...)
	style, html := part("page.css"), part("page.html")
	for tag, text := range map[string][]byte{"style": style, "script": script} {
		empty := fmt.Appendf(nil, "<%s></%s>", tag, tag)
		html = bytes.Replace(html, empty, fmt.Appendf(nil, "<%s>%s</%s>", tag, text, tag), 1)
	}
	hash := func(text []byte) string {
		sum := sha256.Sum256(text)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return html, "default-src 'none'; style-src " + hash(style) + "; script-src " + hash(script) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'"
}
