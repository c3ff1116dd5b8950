SELECT next_in FROM windlass.announce_messages()
