SELECT EXISTS (SELECT 1 FROM had_access_tokens)
