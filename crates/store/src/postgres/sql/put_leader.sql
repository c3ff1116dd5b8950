UPDATE windlass.leader SET holder = $1, term = $2, until = $3
