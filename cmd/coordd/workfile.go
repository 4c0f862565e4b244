package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/internal/printable"
)

// The file of a workload: one item on each line. Without a line of columns a line is an id, or an
// id, a tab and a payload, which may hold tabs. A first line that begins with columnsLine names the
// columns: they are divided by tabs, and the last one takes the rest of the line.
const columnsLine = "#columns:"

// The columns of a file.
const (
	columnID         = "id"
	columnWeight     = "weight"
	columnIDEncoding = "id-encoding" // text or base64
	columnEncoding   = "encoding"    // of the payload: text or base64
	columnPayload    = "payload"
)

// parseColumns reads what follows columnsLine.
func parseColumns(text string) ([]string, error) {
	columns := strings.Fields(text)
	for i, c := range columns {
		switch {
		case !slices.Contains([]string{columnID, columnWeight, columnIDEncoding, columnEncoding,
			columnPayload}, c):
			return nil, fmt.Errorf("column %q: known are id, weight, id-encoding, encoding and "+
				"payload", c)
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
	said := map[string]string{}
	for i, field := range strings.SplitN(line, "\t", len(columns)) {
		said[columns[i]] = field
		if columns[i] != columnWeight {
			continue
		}
		if w.Weight, err = strconv.ParseUint(field, 10, 64); err != nil || w.Weight == 0 {
			return w, fmt.Errorf("weight %q: give a whole number from 1", field)
		}
	}
	id, err := decoded(said, columnID, columnIDEncoding)
	if err != nil {
		return w, err
	}
	w.ID = string(id)
	w.Payload, err = decoded(said, columnPayload, columnEncoding)
	return w, err
}

// decoded reads one column, by what another says of it. Nil: it is empty, or the line has none.
func decoded(said map[string]string, column, encodedBy string) ([]byte, error) {
	text, there := said[column]
	switch encoding, encoded := said[encodedBy]; {
	case !there:
		return nil, nil
	case encoded && encoding == "base64":
		field, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", column, err)
		}
		return field, nil
	case encoded && encoding != "text":
		return nil, fmt.Errorf("encoding %q: known are text and base64", encoding)
	case text == "":
		return nil, nil
	}
	return []byte(text), nil
}

// encoded writes what decoded reads.
func encoded(field []byte) (encoding, text string) {
	if plainText(field) {
		return "text", string(field)
	}
	return "base64", base64.StdEncoding.EncodeToString(field)
}

// formatItems writes the file of a workload, which parseItems reads as the same items.
func formatItems(work []actors.WorkStatus) []byte {
	columns := []string{columnID, columnWeight}
	if slices.ContainsFunc(work, func(w actors.WorkStatus) bool {
		return strings.HasPrefix(w.ID, "#")
	}) {
		slices.Reverse(columns) // a line that begins with # is a comment
	}
	if slices.ContainsFunc(work, func(w actors.WorkStatus) bool {
		return !plainText([]byte(w.ID))
	}) {
		columns = append(columns, columnIDEncoding)
	}
	if slices.ContainsFunc(work, func(w actors.WorkStatus) bool { return !plainText(w.Payload) }) {
		columns = append(columns, columnEncoding)
	}
	columns = append(columns, columnPayload)
	var b bytes.Buffer
	fmt.Fprintln(&b, columnsLine, strings.Join(columns, " "))
	for _, w := range work {
		said := map[string]string{columnWeight: strconv.FormatUint(w.Weight, 10)}
		said[columnIDEncoding], said[columnID] = encoded([]byte(w.ID))
		said[columnEncoding], said[columnPayload] = encoded(w.Payload)
		fields := make([]string, len(columns))
		for i, c := range columns {
			fields[i] = said[c]
		}
		fmt.Fprintln(&b, strings.Join(fields, "\t"))
	}
	return b.Bytes()
}

// plainText tells whether an id or a payload can stand on a line as it is: it is text, and a
// terminal obeys nothing of it but tabs.
func plainText(field []byte) bool {
	return !bytes.ContainsFunc(field, func(r rune) bool {
		return printable.Hidden(r) && r != '\t'
	})
}
