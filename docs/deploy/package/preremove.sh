#!/bin/sh
# The members of this machine stop when the package goes, and not when a newer one comes.
set -e
[ -z "$DPKG_ROOT" ] || exit 0
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl stop 'coordd@*.service'
	fi
	;;
esac
