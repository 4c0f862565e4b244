#!/bin/sh
# docs/deploy/Dockerfile built by buildah, and a member of the image that runs commands, in namespaces of its own. Needs root, unshare
# and buildah. Where no registry answers it needs debootstrap: Debian and this machine's Go stand in for the images that it begins with.
set -eu
cd "$(dirname "$0")/../.."

buildah() { command buildah --root "$dir/images" --runroot "$dir/run" --storage-driver vfs "$@"; }
fail() {
	echo "FAIL: $*" >&2
	"$dir/coordd" status >&2 || true
	tail -20 "$dir/m1.log" >&2 || true
	exit 1
}

if [ "${1:-}" != --inside ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	go build -o "$dir/coordd" ./cmd/coordd
	debian=docker.io/library/$(sed -n 's/^FROM \(debian:.*\)/\1/p' docs/deploy/Dockerfile)
	golang=docker.io/library/$(sed -n 's/^FROM \(golang:.*\) AS .*/\1/p' docs/deploy/Dockerfile)
	if ! buildah pull -q "$debian" >"$dir/pull.log" 2>&1 || ! buildah pull -q "$golang" >>"$dir/pull.log" 2>&1; then
		echo "no registry answers: the base images are made here"
		base=$(buildah from scratch)
		debootstrap --variant=minbase "$(expr "$debian" : '.*:\([a-z]*\)')" "$(buildah mount "$base")" >"$dir/debootstrap.log"
		buildah commit -q "$base" "$debian" >/dev/null
		cp -a "$(go env GOROOT)" "$(buildah mount "$base")/usr/local/go"
		buildah config --env PATH=/usr/local/go/bin:/usr/bin:/bin --env GOPATH=/go --env GOPROXY=off --env GOTOOLCHAIN=local "$base"
		buildah commit -q "$base" "$golang" >/dev/null
	fi
	go mod download
	buildah build -q --isolation chroot --pull=never -v "$(go env GOMODCACHE):/go/pkg/mod:ro" -f docs/deploy/Dockerfile -t coordd . >/dev/null
	echo "ok: the image is built"
	unshare --mount --pid --fork --net --mount-proc --kill-child "$0" --inside "$dir"
	exit
fi

dir=$2
ip link set lo up
export CONSUL_HTTP_ADDR=127.0.0.1:8500
"$dir/coordd" dev --consul-only --consul-addr $CONSUL_HTTP_ADDR >"$dir/consul.log" 2>&1 &
# buildah runs a command and not the image's entry point, which is therefore asked for.
image=$(buildah from --pull-never localhost/coordd)
run=$(buildah inspect --format '{{range .OCIv1.Config.Entrypoint}}{{.}} {{end}}{{range .OCIv1.Config.Cmd}}{{.}}{{end}}' "$image")
# shellcheck disable=SC2086
buildah run --isolation chroot --env CONSUL_HTTP_ADDR=$CONSUL_HTTP_ADDR "$image" -- $run --id m1 --exec 'exec sleep 1000' >"$dir/m1.log" 2>&1 &
for _ in $(seq 300); do
	"$dir/coordd" members | grep -q '^m1 *alive' && break
	sleep 0.2
done
"$dir/coordd" work add a b c 2>/dev/null
for _ in $(seq 300); do
	"$dir/coordd" status | grep -q '3 items: 3 running' && break
	sleep 0.2
done
[ "$(pgrep -u 10001 -cx sleep)" = 3 ] || fail "not three commands run as the image's user"
echo "ok: a member of the image runs three commands, as user 10001"
pkill -TERM -u 10001 -xf "$run.*"
for _ in $(seq 300); do
	pgrep -u 10001 >/dev/null || break
	sleep 0.2
done
[ -z "$(pgrep -u 10001)" ] || fail "something is left after SIGTERM"
"$dir/coordd" status | grep -q '3 items: 3 free' || fail "it has not given its items up"
echo "ok: it stops at SIGTERM, and gives its items up"
