package main

import (
	"cmp"
	"slices"
	"strings"
)

// alike returns those of names that a slip of the pen makes name of, the nearest first: at most
// three. Upper and lower case, and dashes and underscores, count as the same.
func alike(name string, names []string) []string {
	type candidate struct {
		name     string
		distance int
	}
	most := max(1, min(3, len([]rune(name))/3))
	var found []candidate
	plain := smooth(name)
	for _, n := range names {
		other := smooth(n)
		d := slips(plain, other)
		if n == name || d > most && (len(plain) < 3 || !strings.HasPrefix(other, plain)) {
			continue
		}
		found = append(found, candidate{n, d})
	}
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), cmp.Compare(a.name, b.name))
	})
	var best []string
	for _, c := range found[:min(3, len(found))] {
		best = append(best, c.name)
	}
	return best
}

// slips counts the letters that are to be added, left out, changed, or swapped with the next one,
// to make one word of the other.
func slips(from, to string) int {
	a, b := []rune(from), []rune(to)
	// before, above and row are the last three rows of the table of distances of all beginnings.
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := range a {
		row[0] = i + 1
		for j := range b {
			differs := 1
			if a[i] == b[j] {
				differs = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+differs)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

// didYouMean is the question about names that are alike; empty: there are none.
func didYouMean(best []string) string {
	if len(best) == 0 {
		return ""
	}
	return "did you mean " + strings.Join(best, " or ") + "?"
}
