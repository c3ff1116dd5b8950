//! A server that asks for passwords: they come from where users of libpq keep them.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt;

use windlass_testbed::postgres::Server;

use super::SECRET;
use super::support::Place;

/// Lets in `postgres` as before, and `ada` with her password.
fn strict() -> Server {
    let server = Server::builder().setting("fsync", "off").start().unwrap();
    server.sql(&format!("CREATE ROLE ada LOGIN PASSWORD '{SECRET}'")).unwrap();
    server.sql("CREATE DATABASE app OWNER ada").unwrap();
    let rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
    std::fs::write(server.sql("SHOW hba_file").unwrap(), rules).unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    server
}

/// Without a password the server is asked until it has read its rules, and refuses.
fn refuses(place: &Place) {
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !place.run(&["stats"]).err.contains("password missing") {
        assert!(std::time::Instant::now() < until, "the server lets everybody in");
    }
}

#[test]
fn passwords_come_from_where_libpq_looks() {
    let server = strict();
    let (host, port) = (server.addr().ip().to_string(), server.addr().port().to_string());
    let address = format!("postgres://ada@{host}:{port}/app");
    let at_home = |place: Place| {
        let home = place.path().to_str().unwrap().to_owned();
        place.with("HOME", home)
    };
    let place = at_home(Place::with_store(&address));
    refuses(&place);
    assert!(!place.run(&["stats"]).err.contains(".pgpass"), "there is none");

    let by_variable = at_home(Place::with_store(&address)).with("PGPASSWORD", SECRET);
    let said = by_variable.run(&["submit", "x"]);
    assert_eq!(said.code, 0, "{}", said.err);

    // The first line that fits counts; the others are for somebody else.
    let lines = format!("# hosts\n{host}:1:app:ada:wrong\n{host}:*:app:ada:{SECRET}\n*:*:*:*:wrong\n");
    let file = place.file(".pgpass", &lines);
    for mode in [0o640, 0o604] {
        set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let said = place.run(&["stats"]);
        said.told(1, "others can read it; chmod 600");
    }
    set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let said = place.run(&["stats"]);
    assert_eq!((said.code, &*said.err), (0, ""));

    // A file that is named counts, and so does the rest of what libpq reads, where the address says nothing.
    let elsewhere = Place::with_store("postgres://")
        .with("PGPASSFILE", file.to_str().unwrap())
        .with("PGHOST", &host)
        .with("PGPORT", &port)
        .with("PGUSER", "ada")
        .with("PGDATABASE", "app");
    let said = elsewhere.run(&["submit", "x"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(server.sql_in("app", "SELECT count(*) FROM windlass.tasks").unwrap(), "2");

    // What the address says counts first.
    let wrong =
        Place::with_store(format!("postgres://ada:wrong@{host}:{port}/app")).with("PGPASSWORD", SECRET);
    let said = wrong.run(&["stats"]);
    said.told(1, "password authentication failed");
    for said in [said, place.run(&["doctor"])] {
        assert!(!said.err.contains(SECRET) && !said.out.contains(SECRET), "{}", said.err);
    }
}
