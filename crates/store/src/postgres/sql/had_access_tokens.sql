SELECT EXISTS (SELECT FROM windlass.had_access_tokens)
