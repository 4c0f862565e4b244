// Package openapi_test holds what the HTTP API answers to its OpenAPI file.
package openapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/actors"
	"github.com/coordd/coordd/actors/actorstest"
	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/actors/web"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checker holds answers to the file.
type checker struct {
	*testing.T
	doc     *openapi3.T
	handler http.Handler
	asked   map[string]bool // paths of the file that were answered with 200
}

// ask asks for a path of the file as url names it, and holds the answer to the file.
func (c *checker) ask(path, url string, headers ...string) *httptest.ResponseRecorder {
	c.Helper()
	item := c.doc.Paths.Find(path)
	if item == nil {
		c.Fatalf("%s is not in the file", path)
	}
	r := testkit.Request(http.MethodGet, url, headers...)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	answer := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r,
			Route: &routers.Route{Spec: c.doc, Path: path, PathItem: item,
				Method: http.MethodGet, Operation: item.Get}},
		Status: w.Code, Header: w.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true}}
	if err := openapi3filter.ValidateResponse(c.Context(),
		answer.SetBodyBytes(w.Body.Bytes())); err != nil {
		c.Errorf("%s: %d: %v", url, w.Code, err)
	}
	if w.Code == http.StatusOK {
		c.asked[path] = true
	}
	return w
}

// get is a path without variables.
func (c *checker) get(url string, want int) *httptest.ResponseRecorder {
	c.Helper()
	path, _, _ := strings.Cut(url, "?")
	w := c.ask(path, url)
	if w.Code != want {
		c.Errorf("%s: %d, want %d: %.300s", url, w.Code, want, w.Body)
	}
	return w
}

// A tree that runs, in trouble of many kinds: each path answers as the file says.
func TestEachAnswerIsAsTheOpenAPIFileSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := actorstest.New(t)
		op := cluster.Operator()
		cluster.AddWork("bad", "device 1", "device-2", "device-3", "pinned")
		failing := func(ctx context.Context, item actors.Item) error {
			if item.ID == "bad" {
				return errors.New("cannot reach it")
			}
			<-ctx.Done()
			return nil
		}
		roomy := func(c *actors.Config) {
			c.Capacity, c.Zone, c.Version, c.WorkVersion = 10, "a", "1.0", "2"
		}
		n1, n2 := cluster.Start("n1", failing, roomy), cluster.Start("n2", failing, roomy)
		lost := cluster.Start("n3", failing, roomy)
		if err := op.Pin(t.Context(), "pinned", "n9"); err != nil {
			t.Fatal(err)
		}
		metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
		})
		handler := web.New(n1.Coordinator(), web.Options{Metrics: metrics,
			Members: []*actors.Coordinator{n2.Coordinator()}})
		doc, err := openapi3.NewLoader().LoadFromData(testkit.Send(handler, "GET",
			"/v1/openapi.json").Body.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := doc.Validate(t.Context()); err != nil {
			t.Fatal(err)
		}
		c := &checker{T: t, doc: doc, asked: map[string]bool{}, handler: handler}
		time.Sleep(30 * time.Second)
		everything := func() {
			t.Helper()
			for _, url := range []string{"/v1/status", "/v1/members", "/v1/holders", "/v1/items",
				"/v1/items?limit=2&state=running,free&member=n1", "/v1/tree", "/v1/events",
				"/v1/events?about=n1&since=1h&after=3&limit=2", "/v1/plan", "/v1/openapi.json",
				"/v1/plan?drain=n1&without=n2&add=2", "/healthz", "/metrics",
				"/readyz?verbose&exclude=work"} {
				c.get(url, http.StatusOK)
				time.Sleep(2 * time.Second)
			}
			c.ask("/v1/items/{id}", "/v1/items/bad")
			c.ask("/v1/items/{id}", "/v1/items/pinned")
			c.ask("/v1/items/{id}/payload", "/v1/items/bad/payload")
		}
		everything()
		lost.Lose()
		if err := op.Drain(t.Context(), "n2"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		everything()
		if err := op.Freeze(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		everything()
		c.get("/readyz", http.StatusServiceUnavailable)
		for _, url := range []string{"/v1/items?state=odd", "/v1/items?limit=0",
			"/v1/items?limit=10001", "/v1/status?x=1", "/v1/events?follow=perhaps",
			"/v1/events?since=-1h", "/v1/events?after=x", "/v1/events?about=a/b",
			"/v1/plan?add=1001", "/v1/plan?drain=a%2Fb", "/readyz?exclude=odd"} {
			c.get(url, http.StatusBadRequest)
		}
		c.get("/v1/plan?drain=nobody", http.StatusNotFound)
		if w := c.ask("/v1/items/{id}", "/v1/items/none"); w.Code != http.StatusNotFound {
			t.Errorf("an item that is not there: %d", w.Code)
		}
		c.ask("/v1/items/{id}/payload", "/v1/items/none/payload")
		for path := range doc.Paths.Map() {
			if !c.asked[path] {
				t.Errorf("%s was never answered", path)
			}
			if w := c.ask(path, path, "Host", "evil.example"); w.Code != http.StatusForbidden {
				t.Errorf("%s for another host: %d", path, w.Code)
			}
		}
		var items []operator.ItemStatus
		if err := json.Unmarshal(c.get("/v1/items?id=bad&id=pinned", 200).Body.Bytes(),
			&items); err != nil || len(items) != 2 {
			t.Errorf("two items by their ids: %v %v", items, err)
		}
	})
}
