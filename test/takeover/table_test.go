//go:build linux && coordd_takeover

package takeover_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table is what docs/takeover.md has.
func table(events []event, all []contender, results map[string]*measured) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "\n**When %s:**\n\n", e.name)
		if e.window > 0 {
			b.WriteString("| who | kept its work | else it stopped after |\n|---|---|---|\n")
		} else {
			b.WriteString("| who | min | median | max | at most |\n|---|---|---|---|---|\n")
		}
		for _, c := range all {
			m := results[e.name+c.name]
			switch {
			case e.window > 0:
				total := m.kept + max(len(m.lost), len(m.took))
				fmt.Fprintf(&b, "| %s | %d of %d | %s |\n", c.name, m.kept, total, span(m.lost))
			default:
				most := "not promised"
				if m.bound.Seconds > 0 {
					most = fmt.Sprintf("%v s", m.bound.time().Round(10*time.Millisecond).Seconds())
				}
				slices.Sort(m.took)
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.name, seconds(m.took[0]),
					seconds(m.took[len(m.took)/2]), seconds(m.took[len(m.took)-1]), most)
			}
		}
	}
	return b.String()
}

func seconds(d time.Duration) string {
	if d >= longest {
		return "over " + longest.String()
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// span is the least and the most of them.
func span(all []time.Duration) string {
	if len(all) == 0 {
		return ""
	}
	least, most := slices.Min(all), slices.Max(all)
	if seconds(least) == seconds(most) {
		return seconds(most)
	}
	return seconds(least) + " to " + seconds(most)
}
