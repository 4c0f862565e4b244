package devconsul_test

import (
	"fmt"

	"github.com/coordd/coordd/internal/devconsul"
	"github.com/hashicorp/consul/api"
)

// A session takes a lock; a second one is refused, and wins once the first has released it.
func Example() {
	consul := devconsul.New(devconsul.Config{})
	defer consul.Close()
	client := consul.Client()

	alice, _, _ := client.Session().CreateNoChecks(&api.SessionEntry{Name: "alice", TTL: "10s"},
		nil)
	bob, _, _ := client.Session().CreateNoChecks(&api.SessionEntry{Name: "bob", TTL: "10s"}, nil)
	acquire := func(session string) bool {
		ok, _, err := client.KV().Acquire(&api.KVPair{Key: "lock", Session: session}, nil)
		return ok && err == nil
	}
	fmt.Println("alice:", acquire(alice))
	fmt.Println("bob:", acquire(bob))
	client.KV().Release(&api.KVPair{Key: "lock", Session: alice}, nil)
	fmt.Println("bob again:", acquire(bob))
	// Output:
	// alice: true
	// bob: false
	// bob again: true
}
