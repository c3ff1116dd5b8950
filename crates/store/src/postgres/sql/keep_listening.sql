UPDATE windlass.listening SET until = greatest(until, $2) WHERE until > $1
