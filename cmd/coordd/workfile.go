package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/coordd/coordd/actors"
)

// The file of a workload: one item on each line. Without a line of columns a line is an id, or an
// id, a tab and a payload, which may hold tabs. A first line that begins with columnsLine names the
// columns: they are divided by tabs, and the last one takes the rest of the line.
const columnsLine = "#columns:"

// The columns of a file.
const (
	columnID       = "id"
	columnWeight   = "weight"
	columnEncoding = "encoding" // of the payload: text or base64
	columnPayload  = "payload"
)

// parseColumns reads what follows columnsLine.
func parseColumns(text string) ([]string, error) {
	columns := strings.Fields(text)
	for i, c := range columns {
		switch {
		case !slices.Contains([]string{columnID, columnWeight, columnEncoding, columnPayload}, c):
			return nil, fmt.Errorf("column %q: known are id, weight, encoding and payload", c)
		case slices.Contains(columns[:i], c):
			return nil, fmt.Errorf("column %q comes twice", c)
		case c == columnPayload && i != len(columns)-1:
			return nil, errors.New("the payload is the last column, for it may hold tabs")
		}
	}
	if !slices.Contains(columns, columnID) {
		return nil, errors.New("there is no column id")
	}
	return columns, nil
}

// parseLine reads an item. Columns nil: the id and the payload. Weight 0: the line says none.
func parseLine(line string, columns []string) (w actors.WorkInput, err error) {
	if columns == nil {
		columns = []string{columnID, columnPayload}
	}
	encoding, fields := "text", strings.SplitN(line, "\t", len(columns))
	for i, field := range fields {
		switch columns[i] {
		case columnID:
			w.ID = field
		case columnWeight:
			w.Weight, err = strconv.ParseUint(field, 10, 64)
			if err != nil || w.Weight == 0 {
				return w, fmt.Errorf("weight %q: give a whole number from 1", field)
			}
		case columnEncoding:
			encoding = field
		case columnPayload:
			switch {
			case encoding == "base64":
				if w.Payload, err = base64.StdEncoding.DecodeString(field); err != nil {
					return w, fmt.Errorf("payload: %w", err)
				}
			case encoding != "text":
				return w, fmt.Errorf("encoding %q: known are text and base64", encoding)
			case field != "":
				w.Payload = []byte(field)
			}
		}
	}
	return w, nil
}

// formatItems writes the file of a workload, which parseItems reads as the same items.
func formatItems(work []actors.WorkStatus) []byte {
	columns := []string{columnID, columnWeight}
	if slices.ContainsFunc(work, func(w actors.WorkStatus) bool {
		return strings.HasPrefix(w.ID, "#")
	}) {
		slices.Reverse(columns) // a line that begins with # is a comment
	}
	if slices.ContainsFunc(work, func(w actors.WorkStatus) bool { return !plainText(w.Payload) }) {
		columns = append(columns, columnEncoding)
	}
	columns = append(columns, columnPayload)
	var b bytes.Buffer
	fmt.Fprintln(&b, columnsLine, strings.Join(columns, " "))
	for _, w := range work {
		fields := make([]string, len(columns))
		for i, c := range columns {
			switch plain := plainText(w.Payload); {
			case c == columnID:
				fields[i] = w.ID
			case c == columnWeight:
				fields[i] = strconv.FormatUint(w.Weight, 10)
			case c == columnEncoding && plain:
				fields[i] = "text"
			case c == columnEncoding:
				fields[i] = "base64"
			case plain:
				fields[i] = string(w.Payload)
			default:
				fields[i] = base64.StdEncoding.EncodeToString(w.Payload)
			}
		}
		fmt.Fprintln(&b, strings.Join(fields, "\t"))
	}
	return b.Bytes()
}

// plainText tells whether a payload can stand on a line as it is, and be read by people.
func plainText(payload []byte) bool {
	return utf8.Valid(payload) && !bytes.ContainsFunc(payload, func(r rune) bool {
		return r < ' ' && r != '\t' || r == 0x7f
	})
}
