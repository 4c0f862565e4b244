package onconsul_test

import (
	"errors"
	"testing"

	"github.com/coordd/coordd/actors/election"
	"github.com/coordd/coordd/actors/election/onconsul"
	"github.com/hashicorp/consul/api"
)

func TestAHoldBackAboveTheBoundIsRefused(t *testing.T) {
	client, err := api.NewClient(api.DefaultConfig())
	must(t, err)
	cfg := onconsul.Config{Client: client, HoldBack: election.MaxHoldBack + 1}
	if _, err := onconsul.Connect(cfg); !errors.Is(err, election.ErrInvalid) {
		t.Errorf("it is %v", err)
	}
}
