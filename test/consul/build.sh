#!/bin/sh
# Builds the real Consul server that the tests run against, once, into a cache.
#
#   build.sh           build unless it is there already, then print its path
#   build.sh --path    print the path only
#
# The path is $COORDD_TEST_CONSUL, or else ${XDG_CACHE_HOME:-$HOME/.cache}/coordd/consul-VERSION.
# Consul is licensed under the BUSL: it is built for tests, never linked, never shipped.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
version=$(sed -n 's|^[[:space:]]*github.com/hashicorp/consul v\([0-9.]*\).*|\1|p' "$here/go.mod")
[ -n "$version" ] || { echo "build.sh: no github.com/hashicorp/consul in $here/go.mod" >&2; exit 1; }

# Not a `:-` expansion with $HOME inside: set -u would refuse a machine where HOME is unset but not needed.
if [ -n "${COORDD_TEST_CONSUL:-}" ]; then
	out=$COORDD_TEST_CONSUL
else
	out=${XDG_CACHE_HOME:-${HOME:?set HOME, XDG_CACHE_HOME or COORDD_TEST_CONSUL}/.cache}/coordd/consul-$version
fi

if [ "${1:-}" != --path ] && [ ! -x "$out" ]; then
	mkdir -p "$(dirname -- "$out")"
	# A build that is cut short must not leave half a binary under the real name.
	tmp=$out.building.$$
	trap 'rm -f "$tmp"' EXIT
	trap 'exit 1' HUP INT TERM
	echo "building consul $version, once (some minutes, 180 MB): $out" >&2
	(cd "$here" && GOFLAGS='' GOWORK=off go build -mod=readonly -buildvcs=false -o "$tmp" github.com/hashicorp/consul) >&2
	mv -f "$tmp" "$out"
fi
echo "$out"
