INSERT INTO leader (only, holder, term, until) VALUES (1, ?, ?, ?)
ON CONFLICT DO UPDATE SET holder = excluded.holder, term = excluded.term, until = excluded.until
