SELECT holder, term, until FROM windlass.leader
