package configstore_test

import "github.com/coordd/coordd/internal/devconsul"

// consulClient stands for the client of Consul that an example's host has.
var consulClient = devconsul.Quiet
