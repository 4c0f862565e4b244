package protocol

import (
	"fmt"
	"strings"

	"github.com/coordd/coordd/internal/store"
)

// The config store's keys: the values lie where the system before this one had
// them, so that its data is read as it is.

// MaxConfigKeyBytes bounds a config key.
const MaxConfigKeyBytes = 512

// ConfigData returns the prefix of the config values.
func (k Keys) ConfigData() string { return k.root + "config_data/" }

// ConfigKey returns the key of config value key, which may hold slashes.
func (k Keys) ConfigKey(key string) string { return k.ConfigData() + key }

// ParseConfigKey returns the name of a key under ConfigData. The prefix itself, and
// names that end in a slash (what Consul's page makes of a folder), are not ok.
func (k Keys) ParseConfigKey(key string) (name string, ok bool) {
	name, ok = strings.CutPrefix(key, k.ConfigData())
	return name, ok && name != "" && !strings.HasSuffix(name, "/")
}

// ConfigMarker returns the key in which a writer of config values keeps the number of its last
// write. It lies outside of ConfigData, so that it wakes nobody. Of "" it is the prefix of them
// all.
func (k Keys) ConfigMarker(writer string) string { return k.root + "config_log/" + writer }

// CheckConfigKey checks a config key where it enters, as [CheckID] does an id;
// slashes inside are allowed. Errors: [store.ErrInvalid].
func CheckConfigKey(key string) error {
	op := fmt.Sprintf("config key %q", key)
	switch {
	case key == "":
		return store.Invalid("config key", "it is empty")
	case len(key) > MaxConfigKeyBytes:
		return store.Invalid("config key", "it has %d bytes; at most %d", len(key),
			MaxConfigKeyBytes)
	case strings.HasSuffix(key, "/"):
		return store.Invalid(op, "it ends in a slash, as only prefixes do")
	}
	return store.CheckKey(op, key)
}

// Marker is the value of config_log/<writer>: how far a writer has come. Every
// write of its changes this key in the same transaction, on the condition that nobody else did; so
// what is written here has been applied, and once.
type Marker struct {
	Seq   uint64  `json:"n"`            // of the last write that was applied
	At    uint64  `json:"at,omitempty"` // its ModifyIndex; 0: that of this key
	Claim uint64  `json:"claim"`        // raised whenever a process begins to write
	By    Process `json:"by"`           // that process
	Round uint64  `json:"r,omitempty"`  // raised to outdate what is under way, between two writes
	Since int64   `json:"t,omitempty"`  // when that process last wrote or claimed it, in Unix seconds
	// Lost is the number of the last write of which this key cannot tell what became of it: others
	// had deleted it or written over it meanwhile. 0, or not above Seq: there is none.
	Lost uint64 `json:"lost,omitempty"`
	// Denied is the run of denials of logged writes that this key's writer is in.
	Denied Denials `json:"denied,omitzero"`
}

// Denials is a run of denials of logged writes whose callers had gone, by a token that may write
// the marker.
type Denials struct {
	Seq  uint64 `json:"n"`   // of the write that was denied last
	Last int64  `json:"t"`   // when, in Unix milliseconds
	For  int64  `json:"for"` // how long such writes have been tried, in milliseconds
}

// Encode returns the JSON form.
func (m Marker) Encode() []byte { return encode(m) }

// mostCounted is more than anything that is counted in a marker comes to: what is above was not
// counted. It leaves room for sums.
const mostCounted = 1 << 62

// ParseMarker reads a marker.
func ParseMarker(value []byte) (Marker, error) {
	var m Marker
	if err := decode("config marker", value, &m); err != nil {
		return Marker{}, err
	}
	if most := max(m.Seq, m.At, m.Claim, m.Round, m.Lost); most > mostCounted {
		return Marker{}, store.Invalid("config marker",
			"one of its numbers is %d, which nothing has been counted to", most)
	}
	return m, nil
}
