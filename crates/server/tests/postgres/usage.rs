//! What cannot be meant: one clear line, exit code 2, and nothing has changed.

use crate::{Database, SECRET};

#[test]
fn what_cannot_be_meant_is_told_in_a_line() {
    let database = Database::new();
    let place = database.place();
    let with = |settings: &str| format!("{}?{settings}", database.address());
    let (schema, long) = (with("schema=My-App"), with(&format!("schema={}", "a".repeat(49))));
    let (none, many) = (with("connections=0"), with("connections=many"));
    let (unknown, mode) = (with("frobnicate=1"), with("sslmode=perhaps"));
    let port = format!("postgres://postgres:{SECRET}@127.0.0.1:port/app");
    let forgotten = format!("postgres://postgres:{SECRET}");
    for (arguments, told) in [
        (&["--store", &schema, "stats"][..], "1 to 48 of a-z, 0-9 and _"),
        (&["--store", &long, "submit", "x"], "1 to 48 of a-z, 0-9 and _"),
        (&["--store", &none, "submit", "x"], "connections is \"0\"; expected the most connections to hold"),
        (&["--store", &many, "doctor"], "connections is \"many\""),
        (&["--store", &unknown, "submit", "x"], "unknown option `frobnicate`"),
        (&["--store", &mode, "migrate"], "invalid value for option `sslmode`"),
        (&["--store", &port, "stats"], "invalid value for option `port`"),
        (&["--store", &forgotten, "submit", "x"], "postgres://USER:PASSWORD@HOST:PORT/DATABASE"),
        (&["--store", "postgre://db/app", "stats"], "postgres://USER:PASSWORD@HOST/DATABASE"),
        (&["--store", &schema, "bench"], "1 to 48 of a-z, 0-9 and _"),
        (&["migrate", "--sql", "--dry-run"], "cannot be used with"),
        (&["--store", "sqlite:a.db", "migrate", "--sql"], "--sql is for PostgreSQL"),
        (&["--store", &schema, "migrate", "--sql"], "1 to 48 of a-z, 0-9 and _"),
        (&["bench", "--durability", "normal"], "a PostgreSQL server decides itself"),
        (&["task", "retry", "--all"], "--all alone would retry everything"),
        (&["task", "retry", "--older-than", "1h"], "filters are for --all"),
        (&["task", "retry", "--all", "--state", "dead_letter", "--older-than", "soon"], "such as 10s"),
        (&["task", "delete", "--all", "--state", "dead_letter,running"], "running tasks cannot be deleted"),
        (&["doctor", "--namespace", "x"], "all namespaces"),
    ] {
        let said = place.run(arguments);
        said.told(2, told);
        assert_eq!(said.err.matches("; expected").count().max(1), 1, "told once: {}", said.err);
        assert!(!said.err.contains(SECRET), "{}", said.err);
        place.run(&[arguments, &["--json"]].concat()).told(2, told);
    }
    assert_eq!(database.schemas(), [""; 0]);
    assert_eq!(place.files(), [""; 0]);
}
