SELECT input FROM inputs WHERE workflow = ?
