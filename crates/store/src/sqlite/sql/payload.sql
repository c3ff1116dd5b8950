SELECT payload FROM payloads WHERE task = ?
