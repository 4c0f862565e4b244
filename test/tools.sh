#!/bin/sh
# What the tests need beside Go and make: a C compiler for the race detector, and a Java with the jars of a ZooKeeper server. What is
# missing is installed if this may do so (Debian or Ubuntu, as root, or by sudo with --sudo); otherwise it says what to install.
set -eu
missing=
# The race detector needs a C compiler; nothing else here does.
command -v "$(go env CC)" >/dev/null || missing="$missing gcc libc6-dev"
# The jars, and not the package zookeeper, which adds a system service to them.
[ -n "${COORDD_TEST_ZOOKEEPER:-}" ] || { [ -e /usr/share/java/zookeeper.jar ] && [ -e /usr/share/java/slf4j-simple.jar ]; } ||
	missing="$missing libzookeeper-java libslf4j-java"
[ -n "${JAVA_HOME:-}" ] || command -v java >/dev/null || missing="$missing default-jre-headless"
[ -n "$missing" ] || exit 0

sudo=
if [ "$(id -u)" -ne 0 ]; then
	[ "${1:-}" = --sudo ] && sudo=sudo
fi
if ! command -v apt-get >/dev/null || { [ "$(id -u)" -ne 0 ] && [ -z "$sudo" ]; }; then
	echo "the tests need what is not here: sudo apt-get install --no-install-recommends$missing" >&2
	echo "(elsewhere: a C compiler, Java, and in COORDD_TEST_ZOOKEEPER the class path of a ZooKeeper server)" >&2
	exit 1
fi
echo "installing for the tests:$missing" >&2
$sudo apt-get update -qq
# shellcheck disable=SC2086 # words on purpose
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
