DELETE FROM windlass.workers w WHERE {alive_until} < $1
