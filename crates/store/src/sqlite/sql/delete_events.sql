DELETE FROM events WHERE seq IN (
    SELECT seq FROM events WHERE seq <= (SELECT since FROM listening) ORDER BY seq LIMIT ?1)
