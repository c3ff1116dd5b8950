SELECT coalesce(sum(tasks), 0) FROM counts WHERE state = 'pending'
