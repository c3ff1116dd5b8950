SELECT (SELECT min(l.due_at) FROM windlass.live l WHERE l.due_at > $1),
    (SELECT min(s.next_at) FROM windlass.schedules s WHERE NOT s.paused AND s.next_at > $1 AND s.next_at < {max}),
    (SELECT min({alive_until}) FROM windlass.workers w WHERE {alive_until} > $1)
