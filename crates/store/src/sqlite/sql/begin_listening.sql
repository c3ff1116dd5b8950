UPDATE listening SET begun = max(begun + 1, ?1), until = ?2,
    since = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'events'), 0)
