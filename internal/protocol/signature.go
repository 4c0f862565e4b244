package protocol

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/coordd/coordd/internal/store"
)

// The names of the orders: their keys without [Keys.Control].
const (
	FreezeOrder   = "freeze"
	OverrideOrder = "override"
)

// DrainOrder is the name of the order to empty member m.
func DrainOrder(m string) string { return "drain/" + m }

// PinOrder is the name of the order to keep item w on one member.
func PinOrder(w string) string { return "pins/" + w }

// PreferOrder is the name of the order to have item w on one member.
func PreferOrder(w string) string { return "prefers/" + w }

// RestartItemOrder is the name of the order to start the work of item w once more.
func RestartItemOrder(w string) string { return "restart/items/" + w }

// RestartMemberOrder is the name of the order to start all work of member m once more.
func RestartMemberOrder(m string) string { return "restart/members/" + m }

// signatureValue is the value of the key [Keys.Signature]: who gave the orders of the transaction
// that wrote it. Which those are the ModifyIndex says, which they have in common; of those that it
// took back, which have none any more, the value says it.
type signatureValue struct {
	By string `json:"by"`
	// At makes each value a new one: Consul does not raise the index for an identical value.
	At    time.Time `json:"at"`
	Ended []string  `json:"ended,omitempty"` // the names of orders
}

// Signature returns the key that says who gave the orders of the last transaction of an operator.
// It is for people, and nothing depends on it.
func (k Keys) Signature() string { return k.Control() + "by" }

// Sign returns ops with a signature for what they do to orders; by empty, or such that no reader
// would believe it, or no orders among ops: ops as they are.
func (k Keys) Sign(by string, ops []store.Op) []store.Op {
	value, orders := signatureValue{By: by, At: time.Now().UTC()}, false
	for _, op := range ops {
		name, ok := strings.CutPrefix(op.Key(), k.Control())
		orders = orders || ok
		if ok && op.Deletes() {
			value.Ended = append(value.Ended, name)
		}
	}
	if !orders || !signature(by) {
		return ops
	}
	return append(ops[:len(ops):len(ops)], store.Set(k.Signature(), encode(value), 0))
}

// signAll notes who gave the orders of the transaction that wrote the signature.
func (k Keys) signAll(entries []store.Entry, e store.Entry, o Orders) {
	var value signatureValue
	if json.Unmarshal(e.Value, &value) != nil || !signature(value.By) {
		return
	}
	for _, name := range value.Ended {
		o.By[name] = value.By
	}
	for _, order := range entries {
		name := strings.TrimPrefix(order.Key, k.Control())
		delete(o.By, name) // it stands, so it was given since
		if order.ModifyIndex == e.ModifyIndex && order.Key != e.Key {
			o.By[name] = value.By
		}
	}
}
