package store

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckKey reports, as [ErrInvalid], a key that Consul would refuse or silently change: it cleans
// the path of a single GET, PUT or DELETE (so "a//b" means "a/b") but takes the keys of a
// transaction as they are. A key must mean the same to both. Op begins the message. Of what
// does not print Consul takes a key in transactions, and answers 400 to a path.
func CheckKey(op, key string) error {
	switch {
	case key == "":
		return Invalid(op, "the key is empty")
	case !utf8.ValidString(key):
		return Invalid(op, "it is not valid UTF-8")
	case strings.ContainsRune(key, utf8.RuneError):
		return Invalid(op, "it holds U+FFFD, which Consul shows in place of each byte that is no "+
			"UTF-8: there may be no key of that name; choose another character")
	case strings.ContainsFunc(key, unicode.IsControl):
		return Invalid(op, "it holds a control character")
	case strings.ContainsFunc(key, unprintable):
		return Invalid(op, "it holds %U, which does not print: Consul refuses to be asked for "+
			"such a name", []rune(key)[slices.IndexFunc([]rune(key), unprintable)])
	case strings.HasPrefix(key, "/"):
		return Invalid(op, "a key does not begin with a slash")
	case strings.HasPrefix(key, " "), strings.HasSuffix(key, " "):
		return Invalid(op, "Consul refuses keys that begin or end with a space")
	}
	for part := range strings.SplitSeq(strings.TrimSuffix(key, "/"), "/") {
		if part == "" || part == "." || part == ".." {
			return Invalid(op, "it holds the path element %q, which Consul cleans away or refuses",
				part)
		}
	}
	if plain, err := url.PathUnescape(key); err == nil && plain != key {
		if strings.Contains(plain, "..") || strings.Contains(plain, " ") {
			return Invalid(op, "it holds a percent escape that Consul refuses")
		}
	}
	return nil
}

// checkPrefix is CheckKey for prefixes, which must end in "/".
func checkPrefix(op, prefix string) error {
	if !strings.HasSuffix(prefix, "/") {
		return Invalid(op,
			`the prefix %q does not end in "/": it would meet its neighbours as well (m1 and m10)`,
			prefix)
	}
	return CheckKey(op, prefix)
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
