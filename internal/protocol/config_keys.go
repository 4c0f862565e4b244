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
