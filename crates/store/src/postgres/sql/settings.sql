SELECT current_setting('server_version'), current_setting('synchronous_commit'), current_setting('fsync'),
    current_setting('full_page_writes'), current_database(), (SELECT max(version) FROM windlass.migrations)
