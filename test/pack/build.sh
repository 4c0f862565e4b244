#!/bin/sh
# The deb and the rpm into a directory: test/pack/build.sh DIR. VERSION and GOARCH may be set. The same commit makes the same files.
set -eu
cd "$(dirname "$0")/../.."
out=$1
ARCH=${GOARCH:-$(go env GOARCH)}
VERSION=${VERSION:-0.0.0~dev}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
STAGE=$(mktemp -d)
export ARCH VERSION SOURCE_DATE_EPOCH STAGE
unset GOARCH # what runs here is built for here
trap 'rm -rf "$STAGE"' EXIT
mkdir -p "$out" "$STAGE/man" "$STAGE/completion"
GOOS=linux GOARCH=$ARCH CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.release=$VERSION" -o "$STAGE/coordd" ./cmd/coordd
go test -count=1 -run 'TestEachCommandHasAManPage' ./cmd/coordd -man "$STAGE/man" >/dev/null
gzip -9n "$STAGE"/man/*
for shell in bash zsh fish; do
	go run ./cmd/coordd completion $shell >"$STAGE/completion/$shell"
done
for kind in deb rpm; do
	go tool -modfile=test/pack/go.mod nfpm package -f docs/deploy/package/nfpm.yaml -p $kind -t "$out" >/dev/null
done
