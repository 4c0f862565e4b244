package dispatch

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"unicode/utf8"
)

// Gathered is the JSON document that a broadcast is answered with. Its status is 200 when every
// registered member answered, whatever it answered; 207 when some did not; 503 when none did.
type Gathered struct {
	Answers map[string]Answer `json:"answers"` // by member
	Missing map[string]string `json:"missing"` // by member: why there is no answer
}

// Answer is one member's.
type Answer struct {
	Status      int    `json:"status"`
	ContentType string `json:"content_type,omitempty"`
	Body        string `json:"body"`
	// Base64: the body is not text, so it is in base64.
	Base64 bool `json:"base64,omitempty"`
	// Truncated: the body was longer than is kept, which is 1 MiB, less with more than 64 members.
	Truncated bool `json:"truncated,omitempty"`
}

// gathering is what a [Gathered] is written from. In JSON a byte may take six: that is made as the
// client takes it, and never as a whole.
type gathering struct {
	answers map[string]reply
	missing map[string]string
	room    int64 // that the answers take of Dispatcher.answers
	// one of those that are missing may have carried the request out
	maybeDone bool
}

// reply is one member's answer as it came.
type reply struct {
	status      int
	contentType string
	body        []byte
	truncated   bool
}

// writtenPiece is how much of a body is in JSON at one time.
const writtenPiece = 8 << 10

// write writes the document as json.MarshalIndent would. An error of to's is for whoever made it.
func (g *gathering) write(to io.Writer) {
	w := bufio.NewWriterSize(to, 4*writtenPiece)
	defer w.Flush()
	object(w, "{\n  \"answers\": ", slices.Sorted(maps.Keys(g.answers)), func(id string) {
		a := g.answers[id]
		fmt.Fprintf(w, "{\n      \"status\": %d,\n", a.status)
		if a.contentType != "" {
			fmt.Fprintf(w, "      \"content_type\": %s,\n", quoted(a.contentType))
		}
		_, _ = w.WriteString("      \"body\": \"")
		text := utf8.Valid(a.body)
		if text {
			writeText(w, a.body)
		} else {
			b := base64.NewEncoder(base64.StdEncoding, w)
			_, _ = b.Write(a.body)
			_ = b.Close()
		}
		_, _ = w.WriteString("\"")
		if !text {
			_, _ = w.WriteString(",\n      \"base64\": true")
		}
		if a.truncated {
			_, _ = w.WriteString(",\n      \"truncated\": true")
		}
		_, _ = w.WriteString("\n    }")
	})
	object(w, ",\n  \"missing\": ", slices.Sorted(maps.Keys(g.missing)), func(id string) {
		_, _ = w.Write(quoted(g.missing[id]))
	})
	_, _ = w.WriteString("\n}\n")
}

// object writes a JSON object behind what names it.
func object(w *bufio.Writer, name string, keys []string, value func(key string)) {
	_, _ = w.WriteString(name + "{")
	for i, key := range keys {
		if i > 0 {
			_ = w.WriteByte(',')
		}
		fmt.Fprintf(w, "\n    %s: ", quoted(key))
		value(key)
	}
	if len(keys) > 0 {
		_, _ = w.WriteString("\n  ")
	}
	_ = w.WriteByte('}')
}

// writeText writes a text as the inside of a JSON string.
func writeText(w *bufio.Writer, text []byte) {
	for len(text) > 0 {
		n := min(writtenPiece, len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n--
		}
		piece := quoted(string(text[:n]))
		if _, err := w.Write(piece[1 : len(piece)-1]); err != nil {
			return
		}
		text = text[n:]
	}
}

func quoted(text string) []byte {
	b, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("dispatch: a string is no JSON: %v", err)) // every string is
	}
	return b
}
