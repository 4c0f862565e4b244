#!/bin/sh
# go test -race -count=1 with the given flags, on the packages of $PKG (default: all).
#
# Packages with tests in virtual time run on one processor each. In a bubble of testing/synctest every timer channel that is looked at
# before its timer is in the heap is served under the bubble's one race context (runtime.maybeRunChan, Go 1.25 and 1.26), and two goroutines on two processors
# that do so at once corrupt it: the race detector dies with "ThreadSanitizer: CHECK failed" or a segmentation violation, no test having failed. What
# races the detector finds does not depend on the number of processors: it goes by what happens before what.
#
# Packages that start real servers run one after the other, and last: beside a hundred processes of another package a Consul server does not
# answer in time.
set -eu
list=$(go list -f '{{.ImportPath}} {{.TestImports}} {{.XTestImports}}' ${PKG:-./...})
bubbles=$(echo "$list" | awk '/testing\/synctest/ { print $1 }')
servers=$(echo "$list" | awk '!/testing\/synctest/ && /\/test\/real/ { print $1 }')
others=$(echo "$list" | awk '!/testing\/synctest/ && !/\/test\/real/ { print $1 }')
code=0
# shellcheck disable=SC2086 # words on purpose: no package's path holds a space
[ -z "$bubbles" ] || go test -race -count=1 -cpu 1 "$@" $bubbles || code=$?
# shellcheck disable=SC2086
[ -z "$others" ] || go test -race -count=1 "$@" $others || code=$?
# shellcheck disable=SC2086
[ -z "$servers" ] || go test -race -count=1 -p 1 "$@" $servers || code=$?
exit "$code"
