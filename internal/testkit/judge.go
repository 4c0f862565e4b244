package testkit

import "fmt"

// Judge holds work to two promises: nobody starts an item while another one works on it, and the
// token of an item rises with each change of hands. Its user guards it with a lock.
type Judge struct {
	Working map[string]string // item -> member
	Granted map[string]Grant  // by item
}

// Grant is the largest token that an item was worked on with.
type Grant struct {
	Token uint64
	Run   any // the run of a member that had it
}

// NewJudge returns a judge that has seen nothing yet.
func NewJudge() Judge {
	return Judge{Working: map[string]string{}, Granted: map[string]Grant{}}
}

// Begin notes that a member starts work on an item, and returns the promises that this breaks. Two
// runs of one member are two, and may not have one token.
func (j *Judge) Begin(member string, run any, item string, token uint64) (breaches []string) {
	if other, taken := j.Working[item]; taken {
		breaches = append(breaches, fmt.Sprintf("%s starts %s with token %d while %s still works"+
			" on it: does its function return when its context ends?", member, item, token, other))
	}
	last := j.Granted[item]
	if token < last.Token || (token == last.Token && last.Run != run) {
		breaches = append(breaches, fmt.Sprintf("%s starts %s with token %d after one of %d",
			member, item, token, last.Token))
	}
	j.Granted[item] = Grant{max(token, last.Token), run}
	j.Working[item] = member
	return breaches
}

// End notes that a member's work on an item has ended.
func (j *Judge) End(member, item string) {
	if j.Working[item] == member {
		delete(j.Working, item)
	}
}
