package conformance_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	uuidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// Index numbers also stand in the texts of errors: "current modify index 12 != 11".
	indexInText = regexp.MustCompile(`(index |!= )([0-9]+)`)
	marker      = regexp.MustCompile("\x01([0-9]+)\x02")
	portPattern = regexp.MustCompile(`127\.0\.0\.1:[0-9]+`)
)

// maxShown keeps a transcript readable: a longer text is cut, and says how long it is.
const maxShown = 1500

// names gives stable names to what differs from run to run.
type names struct {
	known   map[string]string
	order   []string
	uuids   int
	indexes map[uint64]bool
	// unranked shows every index as "#": for the tables that a real server writes to on its own as
	// well.
	unranked bool
}

func newNames() *names { return &names{known: map[string]string{}, indexes: map[uint64]bool{}} }

func (n *names) call(value, name string) {
	if _, ok := n.known[value]; !ok {
		n.order = append(n.order, value)
	}
	n.known[value] = name
}

// index marks a number as an index; its rank is known only when the whole script has run. Zero
// means "none" and stays.
func (n *names) index(text string) string {
	i, err := strconv.ParseUint(text, 10, 64)
	if err != nil || i == 0 {
		return text
	}
	n.indexes[i] = true
	return "\x01" + text + "\x02"
}

func (n *names) finish(text string) string {
	sorted := slices.Sorted(maps.Keys(n.indexes))
	text = marker.ReplaceAllStringFunc(text, func(m string) string {
		i, _ := strconv.ParseUint(m[1:len(m)-1], 10, 64)
		if n.unranked {
			return "#"
		}
		rank, _ := slices.BinarySearch(sorted, i)
		return "#" + strconv.Itoa(rank+1)
	})
	return text
}

func (n *names) string(s string) string {
	for _, value := range n.order {
		s = strings.ReplaceAll(s, value, n.known[value])
	}
	s = uuidPattern.ReplaceAllStringFunc(s, func(id string) string {
		n.uuids++
		name := fmt.Sprintf("<uuid %d>", n.uuids)
		n.call(id, name)
		return name
	})
	s = portPattern.ReplaceAllString(s, "127.0.0.1:<port>")
	return indexInText.ReplaceAllStringFunc(s, func(m string) string {
		parts := indexInText.FindStringSubmatch(m)
		return parts[1] + n.index(parts[2])
	})
}

// text renders a body that is not JSON on one line.
func (n *names) text(s string) string {
	s = n.string(s)
	if len(s) > maxShown {
		return fmt.Sprintf("%q... (%d bytes)", s[:60], len(s))
	}
	if strings.Contains(s, "\n") {
		return strings.ReplaceAll(strings.ReplaceAll(s, "\\", `\\`), "\n", `\n`)
	}
	return s
}

// json renders a value with sorted keys, in place of the order and the white space that the server
// chose.
func (n *names) json(value any) string {
	var b strings.Builder
	n.write(&b, "", value)
	if b.Len() > maxShown {
		return fmt.Sprintf("%s... (%d bytes)", b.String()[:60], b.Len())
	}
	return b.String()
}

func (n *names) write(b *strings.Builder, key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		b.WriteByte('{')
		for i, k := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(b, "%s:", quote(n.string(k)))
			n.write(b, k, v[k])
		}
		b.WriteByte('}')
	case []any:
		b.WriteByte('[')
		for i, item := range v {
			if i > 0 {
				b.WriteString(",\n ")
			}
			n.write(b, "", item)
		}
		b.WriteByte(']')
	case string:
		b.WriteString(quote(n.string(v)))
	case json.Number:
		if key == "CreateIndex" || key == "ModifyIndex" {
			b.WriteString(n.index(v.String()))
		} else {
			b.WriteString(v.String())
		}
	default:
		fmt.Fprint(b, quote(v))
	}
}

func quote(v any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err.Error()
	}
	// The markers of indexes are control characters, which JSON escapes.
	return strings.NewReplacer(`\u0001`, "\x01", `\u0002`,
		"\x02").Replace(strings.TrimSuffix(b.String(), "\n"))
}

// headers writes the headers that matter to clients, or all that the server chooses when the script
// asks for it.
func (n *names) headers(b *strings.Builder, header http.Header, all bool) {
	for _, name := range slices.Sorted(maps.Keys(header)) {
		shown := name == "X-Consul-Index" || name == "Allow"
		if all {
			// How the body is cut for the wire is net/http's business. The consistency is what the
			// client has asked for: the embedded server does not say it again.
			shown = name != "Date" && name != "Content-Length" && name != "Content-Type" &&
				name != "X-Consul-Effective-Consistency"
		}
		if !shown {
			continue
		}
		value := strings.Join(header[name], ", ")
		if name == "X-Consul-Index" {
			value = n.index(value)
		}
		fmt.Fprintf(b, "%s: %s\n", name, value)
	}
}

// dig follows a path such as 0.ModifyIndex; "#" is the number of items or keys, and "." the whole.
func dig(value any, path string) (any, error) {
	if path == "." {
		return value, nil
	}
	for _, part := range strings.Split(path, ".") {
		switch v := value.(type) {
		case map[string]any:
			if part == "#" {
				value = json.Number(strconv.Itoa(len(v)))
				continue
			}
			inner, ok := v[part]
			if !ok {
				return nil, fmt.Errorf("no %q", path)
			}
			value = inner
		case []any:
			if part == "#" {
				value = json.Number(strconv.Itoa(len(v)))
				continue
			}
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("no %q", path)
			}
			value = v[i]
		default:
			return nil, fmt.Errorf("no %q", path)
		}
	}
	return value, nil
}

func randomName() string { return strings.ToLower(rand.Text()) }
