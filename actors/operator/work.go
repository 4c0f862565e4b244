package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coordd/coordd/internal/protocol"
	"github.com/coordd/coordd/internal/store"
)

// MaxPayload is the largest payload of an item, in bytes: what fits into one
// transaction of Consul's, where values are written in base64.
const MaxPayload = 380 << 10

// WorkInput is an item as an operator gives it. What is not given stays as the item has it.
type WorkInput struct {
	ID string
	// Payload has at most MaxPayload bytes. Nil: not given; a new item has an empty one.
	Payload []byte
	// Weight 0: not given; that of a new item is 1.
	Weight uint64
	// BasedOn makes the write a conditional one. It is refused with [ErrConflict] when another has
	// written the item since [Client.ReadWork] returned this index. 0: when there is such an item.
	BasedOn *uint64
}

// Check reports what is wrong with an item, as [ErrInvalid].
func (w WorkInput) Check() error {
	if err := itemIDs(w.ID); err != nil {
		return err
	}
	if len(w.Payload) > MaxPayload {
		return fmt.Errorf("%w: payload of item %q: %d bytes, and at most %d can be written: "+
			"store it elsewhere and put its address here",
			ErrInvalid, w.ID, len(w.Payload), MaxPayload)
	}
	return nil
}

// CheckWork reports what is wrong with items that are to be written together,
// an id that comes twice included, as [ErrInvalid].
func CheckWork(items []WorkInput) error {
	seen := make(map[string]bool, len(items))
	for _, w := range items {
		if err := w.Check(); err != nil {
			return err
		}
		if seen[w.ID] {
			return fmt.Errorf("%w: item %q is given twice", ErrInvalid, w.ID)
		}
		seen[w.ID] = true
	}
	return nil
}

// AddWork writes items into the workload. One that is there already gets the payload and the weight
// that are given; where they are the same nothing changes. Work that runs sees its new payload when
// it is next started.
//
// All items are checked before anything is written. They are written in transactions of up to 127;
// when one fails the error says how many items were written before it, and the call may be
// repeated. Errors: [ErrInvalid], [ErrConflict], [ErrUnreachable], [ErrDenied].
func (c *Client) AddWork(ctx context.Context, items ...WorkInput) error {
	if err := CheckWork(items); err != nil {
		return err
	}
	for done := 0; done < len(items); {
		n, err := c.writeSome(ctx, items[done:])
		again := "; do it again to go on"
		if errors.Is(err, ErrConflict) {
			again = ""
		}
		if err != nil {
			return fmt.Errorf("adding work: %d of %d items are written%s: %w", done, len(items), again,
				err)
		}
		done += n
	}
	return nil
}

// writeSome writes the first of items in one transaction, and tells how many. What is not given is
// read before, and the write holds for what was read: when another comes between, it begins again.
func (c *Client) writeSome(ctx context.Context, items []WorkInput) (int, error) {
	for ladder := store.NewLadder(); ; {
		items = items[:min(len(items), store.MaxOps-1)]
		there, err := c.readSome(ctx, items)
		if err != nil {
			return 0, err
		}
		whole := slices.Clone(items)
		for i, w := range items {
			if w.Payload == nil {
				whole[i].Payload = there[i].Value
			}
			whole[i].Weight = cmp.Or(w.Weight, there[i].Flags)
		}
		whole = whole[:workBatch(whole, c.keys)]
		ops := make([]store.Op, len(whole))
		for i, w := range whole {
			key, index := c.keys.WorkItem(w.ID), &there[i].ModifyIndex
			if w.BasedOn != nil {
				index = w.BasedOn
			}
			if ops[i] = store.Set(key, w.Payload, w.Weight); items[i].conditional() {
				ops[i] = store.CAS(key, w.Payload, w.Weight, *index)
			}
		}
		err = c.write(ctx, c.work, ops...)
		refused, ok := errors.AsType[*store.RefusedError](err)
		switch {
		case !ok || refused.Op < 0:
			return len(whole), err
		case whole[refused.Op].BasedOn != nil:
			return 0, c.conflict(ctx, whole[refused.Op])
		case !store.Pause(ctx, ladder.NextBackOff()):
			return 0, err
		}
	}
}

// partial tells whether a part of the item is to stay as it is.
func (w WorkInput) partial() bool { return w.Payload == nil || w.Weight == 0 }

// conditional tells whether the write holds for one state of the item.
func (w WorkInput) conditional() bool { return w.partial() || w.BasedOn != nil }

// readSome reads the items of which a part is to stay; the entries of all others are empty.
func (c *Client) readSome(ctx context.Context, items []WorkInput) ([]store.Entry, error) {
	there, at, gets := make([]store.Entry, len(items)), []int{}, []store.Op{}
	for i, w := range items {
		if w.partial() {
			at, gets = append(at, i), append(gets, store.GetOrEmpty(c.keys.WorkItem(w.ID)))
		}
	}
	if len(gets) == 0 {
		return there, nil
	}
	res, err := c.store.Txn(ctx, gets...)
	for i, e := range res.Entries {
		there[at[i]] = e
	}
	return there, err
}

// conflict says what came between.
func (c *Client) conflict(ctx context.Context, w WorkInput) error {
	e, _, _, err := c.store.Get(ctx, c.keys.WorkItem(w.ID), store.Consistent)
	return cmp.Or(err, error(&ConflictError{What: "item", Key: w.ID, Want: *w.BasedOn,
		Have: e.ModifyIndex}))
}

// ReadWork returns an item as it is now, with BasedOn: to be changed and given to AddWork. Errors:
// [ErrNotFound], [ErrInvalid], [ErrUnreachable], [ErrDenied].
func (c *Client) ReadWork(ctx context.Context, id string) (WorkInput, error) {
	if err := itemIDs(id); err != nil {
		return WorkInput{}, err
	}
	e, found, _, err := c.store.Get(ctx, c.keys.WorkItem(id), store.Consistent)
	if err == nil && !found {
		err = fmt.Errorf("not in the workload: %w", ErrNotFound)
	}
	if err != nil {
		return WorkInput{}, fmt.Errorf("reading item %q: %w", id, err)
	}
	return inputOf(id, e), nil
}

// SetWeight changes the weight of an item of the workload and nothing else. Errors: [ErrNotFound],
// and as for AddWork.
func (c *Client) SetWeight(ctx context.Context, id string, weight uint64) error {
	if weight == 0 {
		return fmt.Errorf("%w: the weight of item %q: give 1 or more", ErrInvalid, id)
	}
	for {
		w, err := c.ReadWork(ctx, id)
		if err != nil {
			return err
		}
		w.Weight = weight
		if err := c.AddWork(ctx, w); !errors.Is(err, ErrConflict) {
			return err
		}
	}
}

// workBatch tells how many of items fit into one transaction: one always does.
func workBatch(items []WorkInput, keys protocol.Keys) int {
	const around = 100 // of JSON around the key and the value of an operation
	most, size := store.MaxOps-1, 2+store.SequenceBytes+6*len(keys.Sequence("work"))
	for i, w := range items[:min(len(items), most)] {
		// Of a key's bytes each may become six in JSON.
		size += around + len(keys.Workload()) + 6*len(w.ID) + (len(w.Payload)+2)/3*4
		if size > store.MaxBodyBytes && i > 0 {
			return i
		}
	}
	return min(len(items), most)
}

// RemoveWork takes items out of the workload: their owners stop and release
// them. Each transaction also says that the removal is meant, so that a leader
// does not hold back because most of the workload has gone.
//
// Those that exist are removed also when others do not; those others are named
// in an error that matches [ErrNotFound]. Other errors as for AddWork.
func (c *Client) RemoveWork(ctx context.Context, ids ...string) error {
	if err := itemIDs(ids...); err != nil {
		return err
	}
	there, err := c.names(ctx, "removing work: nothing is removed", c.keys.Workload(),
		c.keys.ParseWorkItem)
	if err != nil {
		return err
	}
	var missing, found []string
	for _, id := range ids {
		if _, ok := slices.BinarySearch(there, id); ok {
			found = append(found, id)
		} else {
			missing = append(missing, id)
		}
	}
	done, err := c.each(ctx, c.work, found, func(id string) store.Op {
		return store.Delete(c.keys.WorkItem(id))
	}, store.Set(c.keys.Override(), stamp(), 0))
	if err != nil {
		return fmt.Errorf("removing work: %d of %d items are removed; do it again to go on: %w",
			done, len(ids), err)
	}
	if len(missing) > 0 {
		return fmt.Errorf("removing work: not in the workload: %s: %w", someOf(missing),
			ErrNotFound)
	}
	return nil
}

// each writes one operation for each id, in transactions that begin with first. It tells how many
// are written.
func (c *Client) each(ctx context.Context, once *store.Once, ids []string,
	op func(id string) store.Op, first ...store.Op) (done int, err error) {
	for part := range slices.Chunk(ids, store.MaxOps-2-len(first)) {
		ops := slices.Clone(first)
		for _, id := range part {
			ops = append(ops, op(id))
		}
		if err := c.write(ctx, once, ops...); err != nil {
			return done, err
		}
		done += len(part)
	}
	return done, nil
}

// someOf names a few of many.
func someOf(ids []string) string {
	const few = 5
	if len(ids) <= few {
		return strings.Join(ids, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(ids[:few], ", "), len(ids)-few)
}

// ListWork reads the workload with its payloads, in the order of the ids, each item as ReadWork
// returns it. Errors as for Status.
func (c *Client) ListWork(ctx context.Context) ([]WorkInput, error) {
	entries, _, err := c.store.List(ctx, c.keys.Workload(), store.Consistent)
	if err != nil {
		return nil, fmt.Errorf("listing work: %w", err)
	}
	work := make([]WorkInput, 0, len(entries))
	for e, w := range protocol.Read(entries, c.keys.ReadWorkItem, skip) {
		work = append(work, inputOf(w.ID, e))
	}
	return work, nil
}

// inputOf is an item as it is, to be given to AddWork.
func inputOf(id string, e store.Entry) WorkInput {
	return WorkInput{ID: id, Payload: append([]byte{}, e.Value...), Weight: max(1, e.Flags),
		BasedOn: &e.ModifyIndex}
}

// weigh reads the weights as of v's index of the workload. A read that fails is not tried again
// before the workload changes: it may be too large, and no more is missing than the loads.
func (c *Client) weigh(ctx context.Context, v *view) {
	last, index := c.weights.Load(), v.workload
	defer func() { v.weights, v.changed = last.weights, last.changed }()
	if last != nil && last.workload == index {
		return
	}
	last = &view{workload: index}
	all, index, err := c.store.List(ctx, c.keys.Workload(), store.Consistent)
	if err == nil {
		last.workload, last.weights, last.changed = index, map[string]uint64{}, map[string]uint64{}
	}
	for e, w := range protocol.Read(all, c.keys.ReadWorkItem, skip) {
		last.weights[w.ID], last.changed[w.ID] = e.Flags, e.ModifyIndex
	}
	c.weights.Store(last)
}

// ItemIDs lists the ids of the workload, in order, without reading payloads. Errors as for Status.
func (c *Client) ItemIDs(ctx context.Context) ([]string, error) {
	return c.names(ctx, "listing work", c.keys.Workload(), c.keys.ParseWorkItem)
}

// MemberIDs lists the ids of the registered members, in order. Errors as for Status.
func (c *Client) MemberIDs(ctx context.Context) ([]string, error) {
	return c.names(ctx, "listing members", c.keys.Members(), c.keys.ParseMember)
}

// Unused tells whether the service has neither members nor work: nobody has used its name yet, or
// nobody does any more. A service with members costs one small read; one without costs the names of
// its items as well. Errors: [ErrUnreachable], [ErrDenied].
func (c *Client) Unused(ctx context.Context) (bool, error) {
	members, err := c.MemberIDs(ctx)
	if err != nil || len(members) > 0 {
		return false, err
	}
	items, err := c.ItemIDs(ctx)
	return err == nil && len(items) == 0, err
}
