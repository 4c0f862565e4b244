package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"

	"github.com/hashicorp/consul/api"
)

// txnReply is the body of 200 and of 409. Consul always sends both fields; a
// body without them is someone else's.
type txnReply struct {
	Results *[]txnResult // nil: the body has none
	Errors  []api.TxnError
}

type txnResult struct{ KV *api.KVPair }

// UnmarshalJSON reads a body of 200 in the form in which Consul writes it without reflection,
// because a plan may bring 100,000 results. Whatever has another form goes to encoding/json.
func (r *txnReply) UnmarshalJSON(data []byte) error {
	if results, ok := readResults(data); ok {
		r.Results = &results
		return nil
	}
	type any txnReply // without this method
	return json.Unmarshal(data, (*any)(r))
}

// readResults reads the body of a transaction that was applied. It is not ok if the body has not
// exactly the form that Consul's own encoder gives it.
func readResults(data []byte) (results []txnResult, ok bool) {
	n := bytes.Count(data, []byte(`{"KV":{`))
	results, pairs := make([]txnResult, 0, n), make([]api.KVPair, n)
	f := form{rest: data, ok: true}
	f.word(`{"Results":[`)
	for i := 0; f.ok && i < n; i++ {
		if i > 0 {
			f.word(",")
		}
		p := &pairs[i]
		f.word(`{"KV":{"LockIndex":`)
		p.LockIndex = f.number()
		f.word(`,"Key":`)
		p.Key = f.text()
		f.word(`,"Flags":`)
		p.Flags = f.number()
		f.word(`,"Value":`)
		p.Value = f.value()
		if f.next(`,"Session":`) {
			p.Session = f.text()
		}
		f.word(`,"CreateIndex":`)
		p.CreateIndex = f.number()
		f.word(`,"ModifyIndex":`)
		p.ModifyIndex = f.number()
		f.word(`}}`)
		results = append(results, txnResult{KV: p})
	}
	f.word(`],"Errors":null}`)
	return results, f.ok && len(f.rest) == 0
}

// form reads a text of a known form. Once something does not fit it reads nothing more.
type form struct {
	rest []byte
	ok   bool
}

// next takes word if it comes next.
func (f *form) next(word string) bool {
	if !f.ok || len(f.rest) < len(word) || string(f.rest[:len(word)]) != word {
		return false
	}
	f.rest = f.rest[len(word):]
	return true
}

func (f *form) word(word string) { f.ok = f.next(word) }

func (f *form) number() (n uint64) {
	i := 0
	for i < len(f.rest) && '0' <= f.rest[i] && f.rest[i] <= '9' {
		i++
	}
	if f.ok {
		var err error
		n, err = strconv.ParseUint(string(f.rest[:i]), 10, 64)
		f.ok, f.rest = err == nil, f.rest[i:]
	}
	return n
}

// quoted takes a string that stands in JSON as it is.
func (f *form) quoted() (s []byte) {
	if !f.next(`"`) {
		f.ok = false
		return nil
	}
	i := bytes.IndexByte(f.rest, '"')
	if i < 0 || !plain(string(f.rest[:i])) {
		f.ok = false
		return nil
	}
	s, f.rest = f.rest[:i], f.rest[i+1:]
	return s
}

func (f *form) text() string { return string(f.quoted()) }

func (f *form) value() []byte {
	if f.next("null") {
		return nil
	}
	text := f.quoted()
	value := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(value, text)
	f.ok = f.ok && err == nil
	return value[:n]
}
