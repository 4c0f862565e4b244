package supervisor

import "time"

// Waited is how long ago one that started at a time and was asked to stop later had been asked.
func Waited(started, asked, now time.Time) time.Duration {
	r := &run{c: &child{l: &loop{began: started}}}
	r.ask(asked)
	return r.waited(now)
}
