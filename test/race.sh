#!/bin/sh
# go test -race with the given arguments. The race detector's runtime now and then gives up by itself ("ThreadSanitizer: CHECK failed
# ... kEpochLast": a thread that ends in the moment in which its clock overflows), which says nothing about the tests. Only then, and
# only if no test has failed, the packages that it took down are run once more.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
{ go test -race "$@" 2>&1; echo $? >"$log.code"; } | tee "$log"
code=$(cat "$log.code")
rm -f "$log.code"
if [ "$code" -ne 0 ] && grep -q 'ThreadSanitizer: CHECK failed' "$log" && ! grep -q -e '--- FAIL' -e '^panic:' -e 'DATA RACE' -e 'build failed' -e 'setup failed' "$log"; then
	echo "test/race.sh: the race detector's runtime gave up: once more" >&2
	flags=
	for a in "$@"; do case $a in ./*) ;; *) flags="$flags $a" ;; esac; done
	# shellcheck disable=SC2046,SC2086 # words on purpose: no flag here holds a space
	go test -race $flags $(awk '/^FAIL\t/ { print $2 }' "$log")
	exit
fi
exit "$code"
