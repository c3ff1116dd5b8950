-- Which of these transactions are not over.
SELECT DISTINCT k.virtualtransaction FROM pg_locks k
WHERE k.locktype = 'relation' AND k.mode = 'RowExclusiveLock' AND k.granted AND k.virtualtransaction = ANY ($1)
