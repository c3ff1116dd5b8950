SELECT last FROM sequence
