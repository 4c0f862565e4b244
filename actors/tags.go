package actors

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/coordd/coordd/actors/internal/member"
)

// Limits of the tags of a host's own: MostTags of at most MostTagBytes bytes each.
const (
	MostTags     = 64
	MostTagBytes = 255
)

// CheckTags returns an error that names the first tag that cannot be one: see [Config.Tags].
func CheckTags(tags []string) error {
	if len(tags) > MostTags {
		return fmt.Errorf("%d tags: give at most %d", len(tags), MostTags)
	}
	for i, tag := range tags {
		switch {
		case tag == "" || len(tag) > MostTagBytes:
			return fmt.Errorf("tag %.40q has %d bytes: give 1 to %d", tag, len(tag), MostTagBytes)
		case !utf8.ValidString(tag) || strings.ContainsRune(tag, utf8.RuneError) ||
			strings.ContainsFunc(tag, unicode.IsControl) || strings.TrimSpace(tag) != tag:
			return fmt.Errorf("tag %.40q: give text without control characters, and without "+
				"spaces around it", tag)
		// Consul's DNS knows no capital letters.
		case strings.EqualFold(tag, member.TagLeader), strings.EqualFold(tag, member.TagDraining):
			return fmt.Errorf("tag %q: coordd gives it itself, to the member that it is true of",
				tag)
		case slices.Contains(tags[:i], tag):
			return fmt.Errorf("tag %q is named twice", tag)
		}
	}
	return nil
}

// SetTags changes the host's own tags of this member's instance: see [Config.Tags]. It may be
// called at any time. Consul's agent has them within 15 s, or when it takes them. Error:
// [ErrConfig]; then nothing has changed. Settings goes on to name the first ones.
func (c *Coordinator) SetTags(tags ...string) error {
	if err := CheckTags(tags); err != nil {
		return fmt.Errorf("%w: %v", ErrConfig, err)
	}
	c.cells.tags.Set(slices.Clone(tags))
	return nil
}
