-- What happened to workflows in each minute and namespace. Durations are sums. Rows from before this migration have no namespace: they
-- are kept under '', which is no namespace's name, and count only in the sums of all.
CREATE TABLE new_activity (
    minute       INTEGER NOT NULL,
    namespace    TEXT    NOT NULL,
    started      INTEGER NOT NULL,
    completed    INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    lasted       INTEGER NOT NULL,
    steps        INTEGER NOT NULL,
    failed_steps INTEGER NOT NULL,
    steps_lasted INTEGER NOT NULL,
    PRIMARY KEY (minute, namespace)
) STRICT, WITHOUT ROWID;
INSERT INTO new_activity SELECT minute, '', started, completed, failed, lasted, steps, failed_steps, steps_lasted FROM activity;
DROP TABLE activity;
ALTER TABLE new_activity RENAME TO activity;
