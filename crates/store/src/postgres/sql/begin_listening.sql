UPDATE windlass.listening SET until = $2, ready = false WHERE until <= $1 RETURNING 1
