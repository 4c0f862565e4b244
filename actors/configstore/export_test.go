package configstore

import "context"

// WithFault makes actors fail where they have just taken a message.
func WithFault(f func(context.Context) error) func(*Config) {
	return func(c *Config) { c.fault = f }
}
