#!/bin/sh
# What the tests need beside Go and make: a C compiler for the race detector, systemd-analyze, a
# Java with the jars of a ZooKeeper server, PostgreSQL, a Prometheus, a Chromium, and axe-core. What
# is missing is installed if this may do so (Debian or Ubuntu, as root, or by sudo with --sudo);
# otherwise it says what to install. axe-core is fetched from the npm registry into the cache.
set -eu
# It needs Go alone: neither npm nor root, and no C compiler.
(cd "$(dirname -- "$0")/.." && CGO_ENABLED=0 go -C test/e2e run -trimpath ./axe/fetch)
missing=
# The race detector needs a C compiler; nothing else here does.
command -v "$(go env CC)" >/dev/null || missing="$missing gcc libc6-dev"
# The jars, and not the package zookeeper, which adds a system service to them.
[ -n "${COORDD_TEST_ZOOKEEPER:-}" ] || { [ -e /usr/share/java/zookeeper.jar ] &&
	[ -e /usr/share/java/slf4j-simple.jar ]; } ||
	missing="$missing libzookeeper-java libslf4j-java"
# systemd-analyze and systemd-sysusers read the unit of docs/deploy; nothing is started by them.
command -v systemd-analyze >/dev/null || missing="$missing systemd"
# Its programs; no database of the machine's is made or started for the tests.
postgres=
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || postgres=postgresql
[ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null || missing="$missing default-jre-headless"
# The browser that the tests of the page drive.
[ -n "${COORDD_TEST_CHROMIUM:-}" ] || command -v chromium >/dev/null || missing="$missing chromium"
# Its programs, and not the package, which adds a system service: they are unpacked into the cache.
prometheus=${XDG_CACHE_HOME:-${HOME:-}/.cache}/coordd/prometheus
if [ -n "${COORDD_TEST_PROMETHEUS:-}" ] || [ -x "$prometheus/usr/bin/promtool" ] ||
	{ command -v prometheus >/dev/null && command -v promtool >/dev/null; }; then
	prometheus=
fi
[ -n "$missing$postgres$prometheus" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	[ "${1:-}" = --sudo ] && sudo=sudo
fi
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && [ -z "$sudo" ]; }; then
	missing="$missing${postgres:+ postgresql}${prometheus:+ prometheus}"
	cat >&2 <<-END
		the tests need what is not here: sudo apt-get install --no-install-recommends$missing
		(elsewhere: a C compiler, systemd-analyze, PostgreSQL below /usr/lib/postgresql, Java, in
		COORDD_TEST_ZOOKEEPER the class path of a ZooKeeper server, in COORDD_TEST_PROMETHEUS the
		directory of prometheus and promtool, and in COORDD_TEST_CHROMIUM a Chromium)
	END
	exit 1
fi
$sudo apt-get update -qq
if [ -n "$missing" ]; then
	echo "installing for the tests:$missing" >&2
	# shellcheck disable=SC2086 # words on purpose
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		$missing >/dev/null
fi
if [ -n "$postgres" ]; then
	echo "installing for the tests: postgresql" >&2
	if ! [ -e /etc/postgresql-common/createcluster.conf ]; then
		$sudo mkdir -p /etc/postgresql-common
		echo "create_main_cluster = false" |
			$sudo tee /etc/postgresql-common/createcluster.conf >/dev/null
	fi
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
		-o Dpkg::Options::=--force-confold postgresql >/dev/null
fi
if [ -n "$prometheus" ]; then
	echo "unpacking Prometheus for the tests (96 MB): $prometheus" >&2
	tmp=$prometheus.unpacking.$$
	trap 'rm -rf "$tmp"' EXIT
	trap 'exit 1' HUP INT TERM
	mkdir -p "$tmp"
	# As root apt fetches as another user, who may not be let into the cache, and warns.
	(cd "$tmp" && apt-get download -qq -o APT::Sandbox::User=root prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb)
	rm -rf "$prometheus"
	mv "$tmp" "$prometheus"
fi
