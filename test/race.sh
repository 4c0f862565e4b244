#!/bin/sh
# go test -race -count=1 with the given flags, on the packages of $PKG (default: all).
#
# Packages with tests in virtual time run on one processor each. In a bubble of testing/synctest every timer channel that is looked at
# before its timer is in the heap is served under the bubble's one race context (runtime.maybeRunChan, Go 1.25 and 1.26), and two goroutines on two processors
# that do so at once corrupt it: the race detector dies with "ThreadSanitizer: CHECK failed" or a segmentation violation, no test having failed. What
# races the detector finds does not depend on the number of processors: it goes by what happens before what.
#
# Packages without servers and without virtual time wait more than they work, and so they run beside those.
#
# Packages that start real servers run one after the other, and last: beside a hundred processes of another package a Consul server does not
# answer in time.
set -eu
case ${LANE:-} in
bubbles | others | servers)
	list=$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ${PKG:-./...})
	case $LANE in
	bubbles) how='-cpu 1' packages=$(echo "$list" | awk '/testing\/synctest/ { print $1 }') ;;
	others) how='' packages=$(echo "$list" | awk '!/testing\/synctest/ && !/\/test\/real/ { print $1 }') ;;
	servers) how='-p 1' packages=$(echo "$list" | awk '!/testing\/synctest/ && /\/test\/real/ { print $1 }') ;;
	esac
	[ -n "$packages" ] || exit 0
	# shellcheck disable=SC2086 # words on purpose: no package's path holds a space
	exec go test -race -count=1 $how "$@" $packages
	;;
esac
code=0
# Not with &: what a shell runs in the background ignores SIGINT, and so would all that the tests start.
printf '%s\n' bubbles others | xargs -P 2 -I '{}' env LANE='{}' "$0" "$@" || code=1
LANE=servers "$0" "$@" || code=1
exit "$code"
