// Package words names settings in texts for people: a Go host knows a setting by its field, and a
// user of the binary by its flag.
package words

import (
	"strings"
	"unicode"
)

var byFlag bool

// ByFlags has settings named by the flags of the binary. It is called before anything else runs.
func ByFlags() { byFlag = true }

// flags are those that are not called as their fields.
var flags = map[string]string{
	"SessionTimeout": "ttl",
	"Digest":         "zookeeper-auth-file",
	"Root":           "prefix",
	"Networks":       "route-allow",
	"Client":         "consul",
}

// Setting names a setting by its field, such as Config.StopTimeout, or as --stop-timeout.
func Setting(field string) string {
	if !byFlag {
		return field
	}
	name := field[strings.LastIndexByte(field, '.')+1:]
	if flag := flags[name]; flag != "" {
		return "--" + flag
	}
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return "-" + b.String()
}
