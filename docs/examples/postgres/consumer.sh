#!/bin/sh
# One item's work: it does the jobs of one queue of a PostgreSQL database, and each of its writes
# carries the item's fencing token, so that an owner of before can write nothing any more.
#
#	psql -f schema.sql
#	coordd work add mails invoices --service queues
#	coordd run --service queues --id n1 --exec 'exec ./consumer.sh'
#
# COORDD_ITEM, COORDD_TOKEN and COORDD_MEMBER come from coordd; PGHOST and the like from its user,
# or from its service file.
set -eu

# SIGTERM is the order to give the item up. What psql has begun is committed, or not, by then.
trap 'exit 0' TERM
while :; do
	# One transaction: the fence, and the oldest job. A refusal by the fence ends the work (exit 3
	# of psql): coordd calls it again if this member is to have the item still.
	psql --no-psqlrc --quiet --tuples-only --no-align --single-transaction \
		-v ON_ERROR_STOP=1 --file - -v item="$COORDD_ITEM" -v token="$COORDD_TOKEN" \
		-v by="$COORDD_MEMBER $COORDD_TOKEN" <<'SQL' &
SELECT fence(:'item', :'token') \g /dev/null
UPDATE jobs SET done = :'by'
	WHERE id = (SELECT id FROM jobs WHERE queue = :'item' AND done IS NULL ORDER BY id LIMIT 1)
	RETURNING 'did job ' || id;
SQL
	wait $!
	sleep "${PAUSE:-1}" &
	wait $!
done
