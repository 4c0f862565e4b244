module github.com/coordd/coordd/test/suture

go 1.26.7

require (
	github.com/coordd/coordd v0.0.0
	github.com/thejerf/suture/v4 v4.0.6
)

require github.com/cenkalti/backoff/v4 v4.3.0 // indirect

replace github.com/coordd/coordd => ../..
