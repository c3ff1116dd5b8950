-- What the present attempts of these tasks have told.
SELECT n.task, n.lease, n.progress::text, n.details::text, n.dropped, n.lines::text
FROM unnest($1::bigint[], $2::bigint[]) AS u (task, lease)
JOIN windlass.notes n ON n.task = u.task AND n.lease = u.lease
