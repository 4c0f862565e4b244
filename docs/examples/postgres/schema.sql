-- Jobs wait in queues. Each queue is an item of coordd: its owner takes the jobs, one after the
-- other.
CREATE TABLE jobs (
	id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	queue text NOT NULL,
	done  text -- the member that did it, and its token
);
CREATE INDEX jobs_open ON jobs (queue, id) WHERE done IS NULL;

-- The highest fencing token that has written for each item.
CREATE TABLE fences (
	item  text PRIMARY KEY,
	token numeric(20) NOT NULL -- 64 bits without a sign
);

-- fence begins every transaction that writes for an item. It refuses a token that is older than one
-- that has written. The row stays locked until the transaction ends, so a newer owner waits for
-- what an older one has begun, and nothing of an older one is committed after the newer one's first
-- write.
CREATE FUNCTION fence(of_item text, with_token numeric) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO fences AS f VALUES (of_item, with_token)
		ON CONFLICT (item) DO UPDATE SET token = excluded.token WHERE f.token <= excluded.token;
	IF NOT FOUND THEN
		RAISE EXCEPTION 'item %: token % is older than one that has written', of_item, with_token
			USING HINT = 'Another member owns the item now: stop working on it.';
	END IF;
END $$;
