package store

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// CheckKey reports, as [ErrInvalid], a key that Consul would refuse or silently change: it cleans
// the path of a single GET, PUT or DELETE (so "a//b" means "a/b") but takes the keys of a
// transaction as they are. A key must mean the same to both. Op begins the message. A key that does
// not print passes, for there may be one: see [CheckPrints].
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

// CheckPrints reports, as [ErrInvalid], a character of a prefix that does not print, such as a
// no-break space. Consul answers 400 to each path that holds one, and takes it in transactions. So
// what is below such a prefix cannot be listed; a single key is read all the same, see [Store.Get].
// Op begins the message.
func CheckPrints(op, name string) error {
	i := strings.IndexFunc(name, unprintable)
	if i < 0 {
		return nil
	}
	r, _ := utf8.DecodeRuneInString(name[i:])
	return Invalid(op, "it holds %U, which does not print, and Consul refuses to be asked for "+
		"such a name: write it with another character in that place", r)
}

// unprintable tells what Consul refuses in a path. An older one knows fewer characters, and refuses
// those as well.
func unprintable(r rune) bool { return !unicode.IsPrint(r) }

// foreign tells what some Consul may refuse in a path. Control characters are in no key.
func foreign(r rune) bool { return r > unicode.MaxASCII }

// checkPrefix is CheckKey for prefixes, which must end in "/".
func checkPrefix(op, prefix string) error {
	if !strings.HasSuffix(prefix, "/") {
		return Invalid(op,
			`the prefix %q does not end in "/": it would meet its neighbours as well (m1 and m10)`,
			prefix)
	}
	return CheckKey(op, prefix)
}
