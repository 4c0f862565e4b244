#!/bin/sh
# go test -race -count=1 with the given flags, on the packages of $PKG (default: all). $CHECK, where
# it is set, is a command that runs beside the tests and has to succeed.
#
# Three lanes run side by side, as long as each other where two processors are free. One works: it
# has the package with the most tests in virtual time, which cannot use a second processor. One
# waits for real servers, and has the packages without virtual time behind them, and $CHECK. One has
# the scripts of cmd/coordd, which wait for programs, and then all others in virtual time.
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
# The states of test/model/ownership are counted without the race detector, which makes that six
# times as slow and has nothing to look at: the same explorer runs with it in test/model and
# test/model/leading. Elections on ZooKeeper run without it too: the ZooKeeper client (v1.0.4) reads
# what another goroutine writes when it connects again. The same scenarios run with it on Consul.
#
# go test does not vet (-vet=off): `make check` has vetted more.
set -eu
code=0
run() { # run "PACKAGES" FLAGS...
	packages=$1
	shift
	# shellcheck disable=SC2086 # words on purpose: no package's path holds a space
	[ -z "$packages" ] || go test -count=1 -vet=off "$@" $packages || code=1
}
of() { # the packages of which a condition of awk is true: $1 is the path, the rest is what the tests import
	echo "$list" | awk "function virtual() { return /testing\/synctest/ } function servers() { return /\/test\/real/ }
		function scripts() { return \$1 ~ /\/cmd\/coordd\$/ } function most() { return \$1 ~ /\/coordd\/actors\$/ }
		function plain() { return \$1 ~ /\/(test\/model\/ownership|election\/onzk)\$/ } $1 { print \$1 }"
}
case ${LANE:-} in
?*) list=$(go list -tags coordd_long -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ${PKG:-./...}) ;;
esac
case ${LANE:-} in
works)
	run "$(of 'virtual() && most()')" -race -p 1 -cpu 1 "$@"
	run "$(of 'plain()')" "$@"
	;;
waits)
	run "$(of '!virtual() && servers()')" -race -p 1 "$@"
	run "$(of '!virtual() && !servers() && !plain()')" -race "$@"
	sh -c "${CHECK:-:}" || code=1
	;;
scripts)
	run "$(of 'virtual() && scripts()')" -race -p 1 -cpu 1 "$@"
	run "$(of 'virtual() && !scripts() && !most() && !plain()')" -race -p 1 -cpu 1 "$@"
	;;
*)
	# Not with &: what a shell runs in the background ignores SIGINT, and so would all that the tests start.
	printf '%s\n' works waits scripts | xargs -P 3 -I '{}' env LANE='{}' "$0" "$@" || code=1
	;;
esac
exit "$code"
