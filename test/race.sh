#!/bin/sh
# race.sh LANE FLAGS...: go test -count=1 with the flags, on the lane's packages: those of $PACKAGES
# in each of the directories $WHERE. The lanes are jobs of `make long`, which runs three at a time.
#
# Lanes with the race detector: `actors` is the package with the most tests in virtual time, `virtual`
# are the other packages that have some, `others` those that have none. Without it: `programs` are
# the packages that test the binary, which is built without it.
#
# Packages with tests in virtual time run on one processor each. In a bubble of testing/synctest
# every timer channel that is looked at before its timer is in the heap is served under the bubble's
# one race context (runtime.maybeRunChan, Go 1.25 and 1.26), and two goroutines on two processors
# that do so at once corrupt it: the race detector dies with "ThreadSanitizer: CHECK failed" or a
# segmentation violation, no test having failed. What races the detector finds does not depend on
# the number of processors: it goes by what happens before what.
#
# Packages that start real servers run one after the other: beside a hundred processes of another
# package a Consul server does not answer in time.
#
# No lane has what `make test` has run and the race detector does not look at. The states of
# test/model/ownership are counted by the explorer that runs with it in test/model and
# test/model/leading. Elections on ZooKeeper run without it: the ZooKeeper client (v1.0.4) reads what
# another goroutine writes when it connects again. The same scenarios run with it on Consul.
set -eu
lane=$1
shift
code=0
run() { # run CONDITION FLAGS...: the packages of which a condition of awk is true
	condition=$1
	shift
	# shellcheck disable=SC2086 # words on purpose: no package's path holds a space
	for dir in $WHERE; do
		list=$(go -C "$dir" list -tags coordd_long -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' $PACKAGES)
		packages=$(echo "$list" | awk "
			function virtual() { return /testing\/synctest/ }
			function servers() { return /\/test\/(e2e\/)?real/ }
			function actors() { return \$1 ~ /\/coordd\/actors\$/ }
			function programs() { return \$1 ~ /\/test\/(e2e|deploy)\$/ }
			function plain() { return programs() || \$1 ~ /\/(test\/model\/ownership|test\/realconsul|election\/onzk)\$/ }
			$condition { print \$1 }")
		[ -z "$packages" ] || go -C "$dir" test -count=1 -vet=off "$@" $packages || code=1
	done
}
case $lane in
actors) run 'actors()' -race -cpu 1 "$@" ;;
virtual)
	run 'virtual() && servers() && !plain()' -race -p 1 -cpu 1 "$@"
	run 'virtual() && !servers() && !actors() && !plain()' -race -p 1 -cpu 1 "$@"
	;;
others)
	run '!virtual() && servers() && !plain()' -race -p 1 "$@"
	run '!virtual() && !servers() && !plain()' -race "$@"
	;;
programs) run 'programs()' -p 1 "$@" ;;
*)
	echo "race.sh: no lane is called $lane" >&2
	code=2
	;;
esac
exit "$code"
