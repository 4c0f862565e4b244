package web

import (
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/coordd/coordd/actors/operator"
	"github.com/coordd/coordd/internal/testkit"
	"github.com/coordd/coordd/supervisor"
)

// description is what these tests read of the OpenAPI file. That the file is valid, and that each
// answer is as it says, is tested in test/e2e/openapi.
type description struct {
	Security []map[string][]string
	Paths    map[string]struct {
		Get struct {
			Parameters []struct{ In, Name string }
			Security   []map[string][]string
		}
	}
	Components struct {
		SecuritySchemes map[string]struct{ Type, Scheme string }
		Schemas         map[string]struct {
			Required, Enum []string
			Properties     map[string]struct {
				Ref         string `json:"$ref"`
				Description string
			}
		}
	}
}

func described(t *testing.T) (doc description) {
	t.Helper()
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// Each path that is served is in the file, with its parameters, and no other one is.
func TestTheOpenAPIFileNamesEachPathAndParameter(t *testing.T) {
	doc := described(t)
	want := map[string][]string{"/healthz": nil, "/readyz": {"exclude", "verbose"},
		"/metrics": nil}
	for _, route := range (&site{}).routes() {
		want["/v1/"+route.path] = route.params
	}
	for path, params := range want {
		item, found := doc.Paths[path]
		if !found {
			t.Errorf("%s is not in the file", path)
			continue
		}
		var has []string
		for _, p := range item.Get.Parameters {
			if p.In == "query" {
				has = append(has, p.Name)
			}
		}
		if !slices.Equal(has, params) {
			t.Errorf("%s takes %v, and the file has %v", path, params, has)
		}
	}
	for path := range doc.Paths {
		if _, served := want[path]; !served {
			t.Errorf("%s is in the file and is not served", path)
		}
	}
}

// The fields of each schema are those of the type that the commands print as JSON.
func TestTheOpenAPIFileHasTheFieldsOfTheTypes(t *testing.T) {
	doc := described(t)
	types := map[string]reflect.Type{}
	for _, v := range []any{operator.Status{}, operator.StatusLeader{}, operator.StatusMember{},
		operator.StatusOrder{}, operator.StatusWork{}, operator.Problem{}, operator.Holders{},
		operator.Holder{}, operator.ItemStatus{}, operator.Explanation{}, operator.Event{},
		operator.Plan{}, operator.PlanMove{}, operator.PlanUnplaced{}, operator.PlanMember{},
		supervisor.Report{}} {
		types[reflect.TypeOf(v).Name()] = reflect.TypeOf(v)
	}
	for name, schema := range doc.Components.Schemas {
		of := types[name]
		if of == nil {
			if !slices.Contains([]string{"Error", "ItemState", "Cause"}, name) {
				t.Errorf("%s is not held to a type", name)
			}
			continue
		}
		delete(types, name)
		required, all := fieldsOf(of)
		var has []string
		for field, p := range schema.Properties {
			has = append(has, field)
			if p.Ref == "" && p.Description == "" {
				t.Errorf("%s.%s has no description", name, field)
			}
		}
		slices.Sort(has)
		must := slices.Sorted(slices.Values(schema.Required))
		if !slices.Equal(has, all) || !slices.Equal(must, required) {
			t.Errorf("%s has %v, always %v; the type has %v, always %v", name, has, must, all,
				required)
		}
	}
	for name := range types {
		t.Errorf("%s has no schema", name)
	}
	states := doc.Components.Schemas["ItemState"].Enum
	for _, state := range operator.ItemStates {
		if !slices.Contains(states, string(state)) {
			t.Errorf("the file does not know the state %q", state)
		}
	}
}

// Who is asked for the token is not served without it, and is with it by each scheme of the file.
// That a client certificate is asked for is a matter of TLS: package main holds it to that.
func TestTheOpenAPIFileSaysWhereTheTokenIsAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, h := guarded(t)
		doc := described(t)
		schemes := doc.Components.SecuritySchemes
		if len(schemes) != 3 || schemes["certificate"].Type != "mutualTLS" {
			t.Fatalf("the schemes are %v", schemes)
		}
		headers := map[string][]string{}
		for name, s := range schemes {
			switch strings.ToLower(s.Scheme) {
			case "bearer":
				headers[name] = bearer(aToken)
			case "basic":
				headers[name] = basic("", aToken)
			}
		}
		for path, item := range doc.Paths {
			security := doc.Security
			if own := item.Get.Security; own != nil {
				security = own
			}
			url := strings.ReplaceAll(path, "{id}", "x")
			asks := testkit.Send(h, "GET", url).Code == http.StatusUnauthorized
			used := map[string]bool{}
			for _, together := range security {
				for name := range together {
					used[name] = true
					if given := headers[name]; given != nil &&
						testkit.Send(h, "GET", url, given...).Code == http.StatusUnauthorized {
						t.Errorf("%s: %s is not taken", path, name)
					}
				}
			}
			delete(used, "certificate")
			if asks != (len(used) == len(headers)) || !asks && len(used) > 0 {
				t.Errorf("%s asks for the token: %v; the file has %v", path, asks, security)
			}
		}
	})
}

// fieldsOf are the names of the JSON fields of a type: those that are always there, and all.
func fieldsOf(of reflect.Type) (required, all []string) {
	for f := range of.Fields() {
		if f.Anonymous {
			r, a := fieldsOf(f.Type)
			required, all = append(required, r...), append(all, a...)
		}
		if f.Anonymous || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	slices.Sort(required)
	slices.Sort(all)
	return required, all
}
