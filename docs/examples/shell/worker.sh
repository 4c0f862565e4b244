#!/bin/sh
# One item's work: it reads something every few seconds and keeps the last result.
#
#	coordd work add device-1 device-2 --payload 5 --service demo     # the payload: seconds
#	coordd run --service demo --id n1 --exec 'exec ./worker.sh'
#
# COORDD_ITEM, COORDD_TOKEN and COORDD_MEMBER come from coordd, RESULTS (a directory) from its user.
set -eu
every=$(cat) # the payload, on standard input
results=${RESULTS:-.}

# put keeps a result, unless an owner with a higher token has written already: that is what the token
# is for. Whatever the work writes to has to look like this, in one step.
put() {
	(
		flock 9
		last=$(cut -d' ' -f1 "$results/$COORDD_ITEM" 2>/dev/null || echo 0)
		if [ "$COORDD_TOKEN" -lt "${last:-0}" ]; then
			echo "$COORDD_ITEM: token $COORDD_TOKEN is older than $last: not written" >&2
			exit 1
		fi
		echo "$COORDD_TOKEN $COORDD_MEMBER $1" >"$results/$COORDD_ITEM"
	) 9>"$results/.$COORDD_ITEM.lock"
}

# SIGTERM is the order to give the item up. A sleep in the foreground would delay it.
trap 'echo "$COORDD_ITEM: given up" >&2; exit 0' TERM
while :; do
	put "$(date +%s)"
	sleep "${every:-5}" &
	wait $!
done
