SELECT begun, since, until, max(since, coalesce((SELECT max(seq) FROM events), 0)) FROM listening
