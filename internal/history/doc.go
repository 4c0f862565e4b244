// Package history writes down what happened to a service and judges it.
//
// A history is text, one line for each event, in the form that [Event] states.
// The simulation, tests on real clusters and `coordd run --history` write it; [Check] and
// `coordd verify` read any of them, one file or several together, and prove of what is in them:
//
//	I1  no item was worked on by two processes at once
//	I2  the tokens of an item rose with each start of its work, the epochs of
//	    leaderships rose, no two processes led at once, no write of a deposed leader was accepted,
//	    and an item never had two keys
//	I3  after the faults had stopped (a line "calm"), each item had one living
//	    owner within the bound that the line names, evenly shared if it says so
//	I4  no item of the workload was deleted by a member, and no value that was
//	    acknowledged to its writer was lost. For config values ("ask" and what follows): an
//	    acknowledged write was applied once, in the order of its process; a refused one was never
//	    applied; one that was only logged was applied in the end, over nothing that others had
//	    written meanwhile, or it was reported; and a process reads its own writes
//
// Each rule is proven for what the lines tell and for no more. Without "set" and "del" lines,
// which only an embedded Consul can write in full, nothing is known of keys;
// without "calm" nothing is said of I3.
//
// What counts as work. It lasts from "start" to "stop" or to the "end" of its process. If a history
// breaks off, the process has worked up to its last line and no longer. So a kill -9 is no breach,
// and a process writes "alive" now and then to be held to what it does. Time in which a process was
// frozen ("freeze" to "thaw") does not count: a process that stands still works on nothing. Who
// stops it writes that. A member writes it itself, of the times for which it and its guard process
// stood still together; without commands it has no guard, and stands still alone. A "step" or a
// "stop" outside of the work with its token is a breach: there was work of which nothing had been
// said.
//
// A guard on a busy host finds late that a command is gone. So it tells two moments: "ran", when
// the command was killed or last seen to run, and "stop", when it was found gone. It ended between
// them. That time counts as work only up to the last "step" in it. [Report] counts overlaps in the
// rest as uncertain.
//
// A line "dead" says that a process was killed. It says nothing of the process's commands. If they
// write lines of their own (in tests they do), each of them counts as working up to its own last
// line. A dead process owns nothing (I3) and leads no more.
//
// No lease can stop a thawed process before it has looked at the clock; only the fencing token can.
// So work within [Notice] of a thaw that overlaps with another's counts as fenced, not as a breach,
// if its token is the lower one: its receiver can refuse it. [Report] counts these apart.
//
// What counts as leading. A process leads from "lead" to "unlead" or to its "end". If its history
// breaks off, it led up to its last line. Two may lead at once in two cases only: while the one
// with the older epoch is frozen, and within [Notice] of its thaw; or after a line "early" has said
// that its lock was taken away before its lease was over, or may have been, with the health check
// of a member that was cut off. How long a lease lasts the history does not say. In the same cases
// a leader may say late that it leads, with an epoch below its successor's.
//
// A Consul that was restored from a snapshot, or came back empty, has forgotten what it had
// promised. A line "restored" says so and names an amnesty: overlaps that begin within it are
// counted apart, and tokens and epochs are compared only with those after it.
//
// A process does not wait for its history. When a full pipe or a slow disk does not take a line, the
// history breaks off there.
//
// Not proven: anything about clocks. Histories of several hosts are merged by their stamps;
// Options.Skew says how far these may be apart. A history in which a clock was set back is not in
// the order in which things happened.
package history
