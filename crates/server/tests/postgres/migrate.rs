//! `windlass migrate` in its three forms.

use serde_json::json;

use crate::support::Place;
use crate::{Database, server};

#[test]
fn a_dry_run_only_looks() {
    let database = Database::new();
    let place = database.place();
    let planned = place.json(&["migrate", "--dry-run"]);
    let migrations = planned["migrations"].as_array().unwrap();
    let names: Vec<_> = migrations.iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names[..3], ["tasks", "functions", "documents"]);
    assert!(migrations.iter().all(|one| one["applied_at"].is_null() && one["new"] == true), "{planned}");
    let said = place.run(&["migrate", "--dry-run"]);
    assert!(said.out.contains("not yet") && said.out.ends_with(" to be applied\n"), "{}", said.out);
    assert_eq!(database.schemas(), [""; 0], "nothing was made");
    let done = place.json(&["migrate"]);
    let is_done = |one: &serde_json::Value| one["applied_at"].is_string() && one["new"] == true;
    assert!(done["migrations"].as_array().unwrap().iter().all(is_done), "{done}");
    assert!(place.run(&["migrate"]).out.ends_with("up to date\n"));
    assert!(place.run(&["migrate", "--dry-run"]).out.ends_with("up to date\n"));
    // What has been applied and what has not.
    database.sql("DELETE FROM windlass.migrations WHERE version > 1");
    let half = place.json(&["migrate", "--dry-run"]);
    let new: Vec<_> = half["migrations"].as_array().unwrap().iter().map(|one| one["new"].clone()).collect();
    assert_eq!(new[..3], [json!(false), json!(true), json!(true)]);
}

#[test]
fn what_is_applied_by_hand_is_accepted() {
    let database = Database::new();
    let owner = Place::with_store(format!("{}?schema=app", database.address()));
    let said = owner.run(&["migrate", "--sql"]);
    assert_eq!((said.code, &*said.err), (0, ""));
    assert!(said.out.starts_with("BEGIN;\n") && said.out.ends_with("COMMIT;\n"), "{}", said.out);
    assert_eq!(owner.json(&["migrate", "--sql"]), json!({ "schema": "app", "sql": said.out }));
    assert_eq!(database.schemas(), [""; 0], "printing makes nothing");
    database.sql(&said.out);
    // The program itself may use the schema, and nothing more: it could not make anything.
    let role = format!("worker_of_{}", database.name);
    let schemas = database.schemas().join(", ");
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN;
         GRANT USAGE ON SCHEMA {schemas} TO {role};
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA app TO {role};
         GRANT USAGE ON ALL SEQUENCES IN SCHEMA app TO {role};
         REVOKE CREATE ON DATABASE {} FROM {role}, PUBLIC",
        database.name
    ));
    let user = format!("postgres://{role}@{}/{}?schema=app", server().addr(), database.name);
    let user = Place::with_store(user);
    assert!(user.run(&["migrate", "--dry-run"]).out.ends_with("up to date\n"));
    assert!(user.run(&["migrate"]).out.ends_with("up to date\n"));
    let id = user.submit(&["x", "1"]);
    user.drain(&["--exec", "x=cat"]);
    assert_eq!(user.task(&id)["state"], "completed");
    assert_eq!(user.json(&["prune", "--keep", "completed=0s"])["deleted"], 1);
    let other = format!("postgres://{role}@{}/{}?schema=other", server().addr(), database.name);
    Place::with_store(other).run(&["migrate"]).told(1, "permission denied");
    assert!(!database.schemas().contains(&"other".into()));
}

#[test]
fn no_server_is_needed_to_print() {
    let place = Place::with_store("postgres://ada@127.0.0.1:1/app");
    let said = place.run(&["migrate", "--sql"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("CREATE SCHEMA IF NOT EXISTS \"windlass\";"));
    place.run(&["migrate", "--dry-run"]).told(1, "cannot be reached");
    place.run(&["migrate"]).told(1, "cannot be reached");
}

#[test]
fn ten_at_once() {
    let database = Database::new();
    let place = database.place();
    let all: Vec<i32> = std::thread::scope(|scope| {
        let starting: Vec<_> = (0..10).map(|_| scope.spawn(|| place.run(&["migrate"]).code)).collect();
        starting.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(all, [0; 10]);
    assert_eq!(database.sql("SELECT count(*) > 0 AND count(*) = max(version) FROM windlass.migrations"), "t");
}
