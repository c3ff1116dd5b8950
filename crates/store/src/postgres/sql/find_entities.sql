SELECT e.namespace, e.entity FROM unnest($1::text[], $2::text[]) AS u (namespace, entity)
JOIN windlass.entities e ON e.namespace = u.namespace AND e.entity = u.entity
