#!/bin/sh
set -e
[ -z "$DPKG_ROOT" ] || exit 0
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
