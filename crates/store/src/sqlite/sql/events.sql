SELECT seq, at, namespace, what, subject, queue, name, state, attempt FROM events WHERE seq > ?1 ORDER BY seq LIMIT ?2
