#!/bin/sh
# Members are not restarted: that is the operator's to do, one machine after the other.
set -e
[ -z "$DPKG_ROOT" ] || exit 0
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers coordd.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
