package main

import (
	"bytes"
	"errors"
	"testing"
)

// stream is input without an end.
type stream struct{ read int }

func (s *stream) Read(b []byte) (int, error) {
	if s.read > 2*maxStdin {
		return 0, errors.New("it reads on and on")
	}
	s.read += len(b)
	return len(b), nil
}

func TestInputWithoutAnEndIsNotReadForEver(t *testing.T) {
	for _, args := range [][]string{
		{"work", "add", "a", "--payload-file", "-"}, {"work", "import", "-"},
		{"config", "put", "a", "-"}, {"config", "import", "-"},
	} {
		var out bytes.Buffer
		none := func(string) (string, bool) { return "", false }
		in := &stream{}
		if code := run(t.Context(), surroundings{args: args, env: none, in: in, out: &out,
			err: &out}); code != 2 || in.read > 2*maxStdin {
			t.Errorf("%v: code %d after %d bytes: %.200s", args, code, in.read, out.String())
		}
	}
}
