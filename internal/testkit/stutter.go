package testkit

import "strings"

// Stutter finds what the text of an error says twice in a row; empty: nothing.
func Stutter(text string) string {
	for _, line := range strings.Split(text, "\n") {
		parts := strings.Split(line, ": ")
		for i, part := range parts[1:] {
			if before := strings.Fields(parts[i]); part == parts[i] ||
				len(before) > 0 && part == before[len(before)-1] {
				return part
			}
		}
	}
	return ""
}
