SELECT holder, term, until FROM leader
