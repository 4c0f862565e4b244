# `make test` needs Go and make, and builds a real Consul. What `make long` needs beside them test/tools.sh installs, or names.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help build packages man test long check vulns tools consul conformance record official chaos storms stories simulate attack elections mutations model fuzz bench takeover pictures unit image clean

# The real Consul server, built once from the module proxy (see test/consul).
# Exported, so that every test process finds it; a test without it fails, it does not skip.
export COORDD_TEST_CONSUL := $(shell test/consul/build.sh --path)

# Without the paths of this checkout in what is built, Go's caches serve every checkout: what a
# machine has vetted and compiled in one clone it need not in the next.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath)

# One package's tests may take this long before go test kills them with every stack printed.
# A busy machine takes several times as long as a quiet one.
TIMEOUT ?= 60m
PKG ?= ./...
RUN ?= .
BENCH ?= .
BENCHTIME ?= 1s
FUZZTIME ?= 30s
# Another consul for `make official` than the embedded one.
CONSUL ?=
# How often the events of `make takeover` happen, and which of them to whom: expressions for names.
ROUNDS ?= 3
EVENTS ?=
WHO ?=
# The database of govulncheck, such as https://vuln.go.dev: without it `make check` does not ask.
VULNDB ?=
# The pinned tools of `make check`: a module of their own, so that they are none of the product's.
LINT := go tool '-modfile=$(CURDIR)/test/lint/go.mod'
TAGS := coordd_elections,coordd_long,coordd_mutations,coordd_official,coordd_takeover
# The tests of the program in test/e2e are a module of their own: no user of the library gets what
# drives their browser. In the directories WHERE the patterns PACKAGES are those of PKG.
WHERE = $(if $(filter ./...,$(PKG)),. test/e2e,$(if $(filter ./test/e2e%,$(PKG)),test/e2e,.))
PACKAGES = $(patsubst ./test/e2e%,.%,$(PKG))
# Of what `make packages` makes.
VERSION ?= 0.0.0~dev
# Tests of more than a minute on real servers, which `make test` leaves to `make long`: storms of
# faults over real clusters, and stories of a night, of every alert, and of the pictures of the page.
STORMS := SurviveStorms
STORIES := ANightOnCall|EachAlertFires|ThePicturesOfThePage

# Not $(MAKE) in a recipe that tests: `make -n` would run it.
SELF := $(MAKE) --no-print-directory

# How long the targets that go on and on begin new rounds.
MINUTES ?= 15

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/coordd
	go build -o bin/coordd ./cmd/coordd

packages: ## a deb and an rpm into bin/packages (VERSION, GOARCH), with man pages and completions
	VERSION=$(VERSION) test/pack/build.sh bin/packages

man: ## the man pages into bin/man
	mkdir -p bin/man
	go test -count=1 -run TestEachCommandHasAManPage ./cmd/coordd -man '$(CURDIR)/bin/man'

test: consul ## all tests that need Go and the Consul that this builds: at most 4 minutes on two idle cores (PKG, RUN, TIMEOUT)
	printf '%s\n' $(WHERE) | xargs -P 2 -I '{}' go -C '{}' test -p 4 -count=1 -vet=off -timeout $(TIMEOUT) \
		'-run=$(RUN)' $(if $(filter ./....,$(PKG)$(RUN)),'-skip=$(STORMS)') $(PACKAGES)

# Jobs, three at a time: of the longest ones two compute on one processor each, and others wait for
# real servers. Before them: limits in the official client's tests are of seconds.
# Not with &: what a shell runs in the background ignores SIGINT, and so would all that the tests start.
long: ## what make test leaves out: check, the race detector, ZooKeeper, a browser, Prometheus, PostgreSQL; mutations, storms, stories, elections
	@echo "make long takes at most 15 minutes on two idle cores. It needs a C compiler, Java with ZooKeeper's"
	@echo "jars, PostgreSQL, a Prometheus, a Chromium and axe-core: what is missing is installed, or named."
	$(SELF) tools consul official
	printf '%s\n' lane-actors mutations lane-virtual lane-programs stories storms lane-others check elections | \
		xargs -P 3 -I '{}' $(SELF) '{}'

lane-%: consul
	WHERE='$(WHERE)' PACKAGES='$(PACKAGES)' test/race.sh $* -tags coordd_long -timeout $(TIMEOUT) '-skip=$(STORMS)|$(STORIES)'

check: ## gofmt, go vet (for macOS too), the limits of test/limits, staticcheck, deadcode; with VULNDB govulncheck as well
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "not formatted, run gofmt -w on:" >&2; echo "$$unformatted" >&2; exit 1; fi
	go vet ./...
	CGO_ENABLED=0 GOOS=darwin go vet ./...
	go vet -tags $(TAGS) ./actors/... ./internal/... ./test/official ./test/simulation ./test/takeover
	cd test/e2e && go vet -tags $(TAGS) ./... && CGO_ENABLED=0 GOOS=darwin go vet ./...
	go run ./test/limits test/lint/limits.txt
	@for dir in . test/e2e; do cd '$(CURDIR)'/$$dir || exit 1; $(LINT) staticcheck -tags $(TAGS) ./... || exit 1; \
		dead=$$($(LINT) deadcode -test -tags $(TAGS) ./...) || exit 1; \
		if [ -n "$$dead" ]; then echo "nothing in $$dir calls this, and no test does:" >&2; echo "$$dead" >&2; exit 1; fi; done
ifneq ($(VULNDB),)
	$(LINT) govulncheck -db '$(VULNDB)' ./...
else
	@echo "govulncheck was left out: it needs a database (make check VULNDB=https://vuln.go.dev)"
endif

vulns: ## govulncheck with the database VULNDB, or https://vuln.go.dev
	$(LINT) govulncheck -db '$(or $(VULNDB),https://vuln.go.dev)' ./...

tools: ## a C compiler, Java, ZooKeeper, Prometheus and Chromium for the tests: installed, or named; axe-core: fetched
	@test/tools.sh

consul: ## build the real Consul server for the tests, once, into the cache
	@test/consul/build.sh >/dev/null

conformance: consul ## the embedded server and a real one, case by case
	go test -race -count=1 -timeout $(TIMEOUT) -v -run '$(RUN)' ./test/conformance

record: consul ## write test/conformance/testdata anew from the real server's answers
	go test -count=1 -timeout $(TIMEOUT) -run 'TestTranscripts|TestElection' ./test/conformance -update

official: ## the official Go client's own tests of keys, locks, semaphores, sessions, transactions on the embedded server; CONSUL=PATH is a real one instead
	go test -count=1 -timeout $(TIMEOUT) -tags coordd_official -v ./test/official $(if $(CONSUL),-official.consul='$(CONSUL)')

chaos: consul ## storms of faults over real clusters for MINUTES; COORDD_CHAOS_SEED=N draws the same ones again, COORDD_CHAOS_FAULTS names the only ones
	COORDD_CHAOS_MINUTES=$(MINUTES) go test -race -count=1 -timeout $$(( $(MINUTES) + 10 ))m -v -run '$(STORMS)' ./test/chaos

simulate: ## seeds of the simulation for MINUTES; SEED=N is the first, else the time of day is
	go test -count=1 -timeout $$(( $(MINUTES) + 10 ))m -v -run 'TestSeeds$$' ./test/simulation -sim.minutes=$(MINUTES) -sim.from=$${SEED:-$$(date +%s)}

storms: consul ## one storm of faults over two real clusters, the same each time
	go test -count=1 -timeout $(TIMEOUT) -run '$(STORMS)' ./test/chaos

stories: tools consul ## a night on call as docs/night.md tells it (with COORDD_NIGHT_ITEMS=10000 a larger one), each alert made to fire and to clear by a real Prometheus, the pictures of the page
	go -C test/e2e test -count=1 -tags coordd_long -timeout $(TIMEOUT) -run '$(STORIES)' .

attack: ## pairs of faults of docs/faults.md in the simulation for MINUTES, under random settings; SEED=N is the first; FAULTS=5,22 are the only ones
	go test -count=1 -timeout $$(( $(MINUTES) + 10 ))m -v -run 'TestPairs$$' ./test/simulation -sim.minutes=$(MINUTES) -sim.from=$${SEED:-$$(date +%s)} -sim.faults=$${FAULTS:-}

mutations: ## each rule of the protocol and of elections broken on purpose, to be noticed
	go run ./test/mutations/overlay bin/mutations
	go test -count=1 -vet=off -timeout $(TIMEOUT) -overlay bin/mutations/overlay.json -tags coordd_mutations -v -run TestMutations ./test/simulation
	go test -count=1 -vet=off -timeout $(TIMEOUT) -overlay bin/mutations/overlay.json -tags coordd_mutations -v -run 'IsARegister|BrokenRules' ./actors/election/onconsul ./actors/election/onzk -seeds=100

# Not with the race detector: the ZooKeeper client (v1.0.4) has a data
# race of its own; the same scenarios run with it on the embedded Consul.
elections: consul ## the scenarios of elections on a real Consul and a real ZooKeeper
	go test -p 1 -count=1 -parallel 16 -timeout $(TIMEOUT) -tags coordd_elections -skip TestEmbedded -run '$(RUN)' ./actors/election/...

model: ## the protocol explored exhaustively within bounds, and the story of each rule that is left out
	go test -count=1 -timeout 30m -v ./test/model/... -model.whole

fuzz: ## each fuzz target for FUZZTIME (30s)
	@set -e; for dir in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for target in $$(grep -h '^func Fuzz' $$dir/*_test.go | sed 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/'); do \
			out=$$(go test -run '^$$' -fuzz "^$$target$$" -fuzztime $(FUZZTIME) $$dir) || { echo "$$out"; exit 1; }; \
			echo "$$target: $$(echo "$$out" | grep '^fuzz: elapsed' | tail -1)"; \
		done; done

bench: consul ## all benchmarks (PKG, BENCH, BENCHTIME)
	go test -timeout 30m -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem $(PKG)

# Not a Go test: it needs root and namespaces, which the machines of a CI need not have.
unit: ## the unit of docs/deploy under a real systemd in namespaces of its own (as root, with unshare): killed, reloaded, hung, restarted
	test/deploy/systemd.sh

image: ## docs/deploy/Dockerfile built by buildah, and a member of it started (as root, with unshare; debootstrap where there is no registry)
	test/deploy/image.sh

pictures: consul ## the pictures of the page in docs/, of a real take-over in Chromium
	COORDD_PICTURES=$(CURDIR)/docs go -C test/e2e test -count=1 -tags coordd_long -run TestThePicturesOfThePage .

# Alone on its machine: what it prints is times.
takeover: consul ## how long a take-over takes, ROUNDS times, on three Consul servers and six agents, beside api.Lock: writes the tables of docs/takeover.md and README.md; EVENTS=killed and WHO=elect play some alone, and write nothing
	TAKEOVER_ROUNDS=$(ROUNDS) TAKEOVER_EVENTS='$(EVENTS)' TAKEOVER_WHO='$(WHO)' go test -count=1 -timeout $$(( $(ROUNDS) * 15 + 10 ))m -tags coordd_takeover -v ./test/takeover

clean: ## remove bin/; the cached Consul server stays
	rm -rf bin
