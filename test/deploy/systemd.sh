#!/bin/sh
# The unit of docs/deploy under a real systemd: a user manager in namespaces of its own, so that this machine's is not touched. Two
# members on the embedded Consul: one is the unit's, which is killed, reloaded, frozen, restarted and stopped. Needs root and unshare.
set -eu
cd "$(dirname "$0")/../.."

if [ "${1:-}" != --inside ]; then
	dir=$(mktemp -d)
	trap 'rm -rf "$dir"' EXIT
	go build -o "$dir/coordd" ./cmd/coordd
	unshare --mount --pid --fork --cgroup --net --mount-proc --kill-child "$0" --inside "$dir"
	exit
fi

dir=$2
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir -p /run/systemd/system "$dir/xdg" "$dir/.config/systemd/user"
ip link set lo up
# What the manager and its clients look at.
export XDG_RUNTIME_DIR="$dir/xdg" HOME="$dir" SYSTEMD_IGNORE_CHROOT=1 PATH="$dir:$PATH"
export CONSUL_HTTP_ADDR=127.0.0.1:8500 COORDD_SERVICE=demo
unit=coordd@demo
settings() {
	printf 'exec: exec sleep 1000\nlease: 5s\nkeep-items: 30s\nconsul: %s\ncapacity: %s\n' "$CONSUL_HTTP_ADDR" "$1" >"$dir/demo.yaml"
}
settings 100
# A user manager has no other users, and the watchdog is to bite sooner. All else is as it is shipped.
sed -e "s|/usr/bin/coordd|$dir/coordd|; s|/etc/coordd/|$dir/|; s|WatchdogSec=.*|WatchdogSec=6|; s|COORDD_ID=%l|COORDD_ID=n1|" \
	-e '/^\(User\|Group\|Protect.*\|NoNewPrivileges\)=/d' -e "/^\[Service\]/a StandardError=append:$dir/n1.log" \
	'docs/deploy/systemd/coordd@.service' >"$dir/.config/systemd/user/coordd@.service"

fail() {
	echo "FAIL: $*" >&2
	coordd status >&2 || true
	systemctl --user --no-pager status $unit >&2 || true
	tail -20 "$dir/n1.log" >&2 || true
	exit 1
}
# until_is WHAT COMMAND...: waits until the command succeeds.
until_is() {
	what=$1
	shift
	for _ in $(seq 300); do
		if "$@" >/dev/null 2>&1; then
			echo "ok: $what"
			return
		fi
		sleep 0.2
	done
	fail "not within a minute: $what"
}
is() { [ "$(systemctl --user show -P "$1" $unit)" = "$2" ]; }
has() { coordd status | grep -qE "^$1 +alive[a-z, ]* +$2 "; }
owners() { coordd items | awk '{ print $1, $3 }'; }
main() { systemctl --user show -P MainPID $unit; }

/lib/systemd/systemd --user >"$dir/systemd.log" 2>&1 &
coordd dev --consul-only --consul-addr $CONSUL_HTTP_ADDR >"$dir/consul.log" 2>&1 &
coordd run --id n2 --exec 'exec sleep 1000' >"$dir/n2.log" 2>&1 &
until_is 'Consul answers' coordd status
coordd work add a b c d e f 2>/dev/null
until_is 'systemd answers' systemctl --user show

systemctl --user start $unit
has n1 '[0-9]+' || fail 'systemctl start has returned before the member was registered'
echo 'ok: started means registered'
until_is 'it has its share' has n1 3
until_is 'its status says so' is StatusText '3 items run; n2 leads'

before=$(owners) killed=$(main)
kill -9 "$killed"
until_is 'systemd has started it again' is NRestarts 1
until_is 'it is ready again' is SubState running
until_is 'it runs its items' is StatusText '3 items run; n2 leads'
[ "$(owners)" = "$before" ] || fail "items have moved: $(owners)"
grep -q said-goodbye "$dir/n1.log" && fail 'its guard has handed the items over'
echo 'ok: no item has moved'

settings 1
systemctl --user reload $unit
until_is 'the smaller capacity is obeyed' has n1 1
is NRestarts 1 || fail 'a reload has restarted it'

kill -STOP "$(main)"
until_is 'the watchdog has ended a member that hangs, and systemd has started it again' is NRestarts 2
until_is 'it runs again' is StatusText '1 item runs; n2 leads'

before=$(owners) frozen=$(main)
systemctl --user restart $unit
has n1 '[0-9]+' || fail 'systemctl restart has returned before the member was registered'
[ "$(main)" != "$frozen" ] || fail 'it is the same process'
echo 'ok: restarted means registered'
until_is 'it runs its item again' is StatusText '1 item runs; n2 leads'
[ "$(owners)" = "$before" ] || fail "items have moved: $(owners)"
echo 'ok: no item has moved, by keep-items'

coordd drain n1
until_is 'it is empty' has n1 0
systemctl --user stop $unit
is Result success || fail "the stop was no success: $(systemctl --user show -P Result $unit)"
until_is 'the other member has all' has n2 6
[ -z "$(pgrep -f "$dir/demo.yaml" || true)" ] || fail "something is left: $(pgrep -af "$dir/demo.yaml")"
echo 'ok: a stop leaves nothing'
