//! `windlass bench` on a database: all figures, and nothing is left behind.

use rustix::process::Signal;
use serde_json::json;

use crate::Database;
use crate::support::Running;

const SMALL: [&str; 7] = ["bench", "--tasks", "300", "--samples", "3", "--rounds", "1"];

#[test]
fn all_figures_on_a_schema_of_its_own() {
    let database = Database::new();
    let place = database.place();
    place.submit(&["mine"]);
    let before = database.schemas();
    let answer = place.json(&SMALL);
    assert_eq!((&answer["tasks"], &answer["pool"]), (&json!(300), &json!(24)));
    let one = &answer["figures"][0];
    assert_eq!((&one["durability"], &answer["figures"][1]), (&json!("none"), &json!(null)));
    let number = |name: &str| one[name].as_f64().unwrap_or_else(|| panic!("{name} in {one}"));
    for rate in
        ["submit_per_second", "drain_per_second", "cycle_per_second", "drain_with_entities_per_second"]
    {
        assert!(number(rate) > 1.0, "{rate} in {one}");
    }
    assert!(number("p50_seconds") > 0.0 && number("p50_seconds") <= number("p99_seconds"));
    let said = place.run(&[&SMALL[..], &["--entities", "0"]].concat());
    assert!(said.out.starts_with("DURABILITY") && said.out.lines().count() == 3, "{}", said.out);
    assert_eq!(database.schemas(), before, "its schemas are dropped");
    assert_eq!(place.json(&["stats"])["tasks"], 1, "those of others are not touched");
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn interrupted_it_leaves_nothing_behind() {
    let database = Database::new();
    // At once, as soon as there is a schema, and in the middle of it.
    let is_begun = [
        "SELECT true",
        "SELECT count(*) > 0 FROM pg_namespace WHERE nspname LIKE 'windlass_bench_%'",
        "SELECT count(*) > 0 FROM pg_stat_user_tables WHERE relname = 'tasks' AND n_tup_ins > 0",
    ];
    for begun in is_begun {
        let place = database.place();
        let mut command = place.program();
        let mut bench = Running::start(command.args(["bench", "--tasks", "200000", "--json"]));
        // It listens for signals before it connects.
        while database.sql("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()") == "0" {}
        while database.sql(begun) != "t" {}
        bench.signal(Signal::TERM);
        let said = bench.end();
        assert_eq!((said.code, &*said.out, &*said.err), (130, "", ""), "{begun}");
        assert_eq!(database.schemas(), [""; 0], "{begun}");
        assert_eq!(place.files(), [""; 0]);
    }
}

#[test]
fn without_a_server_nothing_is_begun() {
    let place = crate::support::Place::with_store("postgres://ada@127.0.0.1:1/app?schema=x");
    place.run(&["bench"]).told(1, "postgres://ada@127.0.0.1:1/app?schema=x cannot be reached");
    assert_eq!(place.files(), [""; 0]);
}
