package devzookeeper

import (
	"encoding/binary"

	"github.com/go-zookeeper/zk"
)

// reader takes a packet apart. Beyond its end there are zeroes.
type reader struct{ left []byte }

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.left) {
		n, r.left = 0, nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *reader) int() int32 {
	if b := r.take(4); len(b) == 4 {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) long() int64 {
	if b := r.take(8); len(b) == 8 {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (r *reader) bool() bool {
	b := r.take(1)
	return len(b) == 1 && b[0] != 0
}

func (r *reader) bytes() []byte {
	n := r.int()
	if n <= 0 {
		return nil
	}
	return append([]byte(nil), r.take(int(n))...)
}

func (r *reader) string() string { return string(r.bytes()) }

func (r *reader) strings() (all []string) {
	for n := r.int(); n > 0 && len(r.left) > 0; n-- {
		all = append(all, r.string())
	}
	return all
}

func (r *reader) create() *zk.CreateRequest {
	c := &zk.CreateRequest{Path: r.string(), Data: r.bytes()}
	for n := r.int(); n > 0 && len(r.left) > 0; n-- { // the rules
		r.int()
		r.bytes()
		r.bytes()
	}
	c.Flags = r.int()
	return c
}

// writer puts a packet together.
type writer struct{ text []byte }

func (w *writer) int(n int32) *writer {
	w.text = binary.BigEndian.AppendUint32(w.text, uint32(n))
	return w
}

func (w *writer) long(n int64) *writer {
	w.text = binary.BigEndian.AppendUint64(w.text, uint64(n))
	return w
}

func (w *writer) bool(yes bool) *writer {
	b := byte(0)
	if yes {
		b = 1
	}
	w.text = append(w.text, b)
	return w
}

func (w *writer) bytes(b []byte) *writer {
	w.int(int32(len(b)))
	w.text = append(w.text, b...)
	return w
}

func (w *writer) stat(s zk.Stat) *writer {
	return w.long(s.Czxid).long(s.Mzxid).long(s.Ctime).long(s.Mtime).int(s.Version).int(s.Cversion).
		int(s.Aversion).long(s.EphemeralOwner).int(s.DataLength).int(s.NumChildren).long(s.Pzxid)
}

// packet is what was written, with its length before it.
func (w *writer) packet() []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(w.text))), w.text...)
}
