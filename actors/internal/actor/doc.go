// Package actor is what all actors of one member share: their settings and access to Consul, the
// timer of their loops, the actor behind every watch, and what tells that one of them hangs.
package actor
