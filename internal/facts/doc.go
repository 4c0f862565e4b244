// Package facts holds what the actors of one member tell one another by the cells and mailboxes of
// package messages: immutable records, and the events of which an [Observer] is told.
package facts
