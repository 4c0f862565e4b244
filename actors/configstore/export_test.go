package configstore

import (
	"context"
	"os"
)

// WithFault makes actors fail where they have just taken a message.
func WithFault(f func(context.Context) error) func(*Config) {
	return func(c *Config) { c.fault = f }
}

// WithSync is a disk in the place of the log's.
func WithSync(f func(*os.File) error) func(*Config) {
	return func(c *Config) { c.sync = f }
}
