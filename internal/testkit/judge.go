package testkit

import "fmt"

// Judge holds work to two promises: nobody starts an item while another one works on it, and the
// token of an item rises with each start. Its user guards it with a lock.
type Judge struct {
	Working map[string]string // item -> member
	Tokens  map[string]uint64 // the largest that an item was worked on with
}

// NewJudge returns a judge that has seen nothing yet.
func NewJudge() Judge {
	return Judge{Working: map[string]string{}, Tokens: map[string]uint64{}}
}

// Begin notes that a member starts work on an item, and returns the promises that this breaks.
func (j *Judge) Begin(member, item string, token uint64) (breaches []string) {
	if other, taken := j.Working[item]; taken {
		breaches = append(breaches, fmt.Sprintf("%s starts %s with token %d while %s still works"+
			" on it: does its function return when its context ends?", member, item, token, other))
	}
	last := j.Tokens[item]
	if token <= last {
		breaches = append(breaches, fmt.Sprintf("%s starts %s with token %d after one of %d",
			member, item, token, last))
	}
	j.Tokens[item] = max(token, last)
	j.Working[item] = member
	return breaches
}

// End notes that a member's work on an item has ended.
func (j *Judge) End(member, item string) {
	if j.Working[item] == member {
		delete(j.Working, item)
	}
}
