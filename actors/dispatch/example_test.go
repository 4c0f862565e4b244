package dispatch_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/coordd/coordd/actors/dispatch"
	"github.com/coordd/coordd/actors/routing"
)

// oneMember owns every item. A host passes a *routing.Router instead.
type oneMember string

func (m oneMember) Locate(context.Context, string) (routing.Location, error) {
	return routing.Location{Member: "n1", Address: string(m), Grant: 7}, nil
}

func (m oneMember) Await(ctx context.Context, item string) (routing.Location, error) {
	return m.Locate(ctx, item)
}

func (m oneMember) Members(context.Context) ([]routing.Member, error) {
	return []routing.Member{{ID: "n1", Address: string(m)}}, nil
}

// A request for an item arrives at its owner, with the item's grant.
func Example() {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s for %s, grant %s", r.URL, r.Header.Get(dispatch.HeaderItem),
			r.Header.Get(dispatch.HeaderGrant))
	}))
	defer service.Close()

	d, err := dispatch.New(dispatch.Config{Locator: oneMember(service.Listener.Addr().String())})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.CloseIdleConnections()
	front := httptest.NewServer(d)
	defer front.Close()

	answer, err := front.Client().Get(front.URL + "/device_1/readings?last=5")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	fmt.Println(answer.StatusCode, string(body))
	// Output: 200 /device_1/readings?last=5 for device_1, grant 7
}
