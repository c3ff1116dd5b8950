UPDATE listening SET until = ?
