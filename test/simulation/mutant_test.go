package simulation_test

import "net/http"

// mutant is a deliberate breakage of the protocol on the wire.
type mutant struct {
	name string
	// body changes what a process sends.
	body func(w *world, p *process, ops []txnOp) []txnOp
	// twice sends a transaction in two.
	twice func(ops []txnOp) (first, second []txnOp)
}

func broken() string { return "" }

func (w *world) rewire(p *process, r *request) []byte { return r.body }

func (w *world) send(out *http.Request, r *request, p *process) (*http.Response, error) {
	return w.consul.RoundTripper().RoundTrip(out)
}
