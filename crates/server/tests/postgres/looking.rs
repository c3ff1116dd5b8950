//! Looking makes nothing, the doctor knows the server, and no password is ever told.

use serde_json::Value;

use crate::support::Place;
use crate::{Database, SECRET, server};

const UNKNOWN: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

/// One line for each finding: `LEVEL: WHAT`.
fn findings(place: &Place) -> (i32, Vec<String>) {
    let said = place.run(&["doctor", "--json"]);
    let line = |finding: &Value| {
        format!("{}: {}", finding["level"].as_str().unwrap(), finding["what"].as_str().unwrap())
    };
    (said.code, said.json()["findings"].as_array().unwrap().iter().map(line).collect())
}

#[test]
fn looking_at_nothing_makes_nothing() {
    let database = Database::new();
    let place = database.place();
    for arguments in [
        &["stats"][..],
        &["task", "list"],
        &["task", "get", UNKNOWN],
        &["task", "retry", "--all", "--state", "dead_letter"],
        &["why", UNKNOWN],
        &["queue", "list"],
        &["worker", "list"],
        &["schedule", "list"],
        &["entity", "list"],
        &["prune", "--keep", "completed=1d"],
        &["doctor"],
    ] {
        let said = place.run(arguments);
        said.told(1, "there is no schema windlass in postgres://postgres@127.0.0.1:");
        said.told(1, "`windlass submit` or `windlass migrate` makes it");
        assert!(!said.err.contains(SECRET), "{}", said.err);
    }
    assert_eq!(database.schemas(), [""; 0]);
    assert_eq!(place.files(), [""; 0]);
}

#[test]
fn the_doctor_knows_the_server() {
    let database = Database::new();
    let place = database.place();
    place.submit(&["x", "--delay", "1d"]);
    let before = database.sql("SELECT * FROM windlass.task_rows; SELECT * FROM windlass.leader");
    let (code, found) = findings(&place);
    assert_eq!(code, 1, "the server of these tests does not wait for its disk, which is dangerous");
    let has = |part: &str| assert!(found.iter().any(|line| line.contains(part)), "{part:?} in {found:#?}");
    has("ok: store: postgres");
    has(&format!("ok: address: postgres://{}/{}?schema=windlass", server().addr(), database.name));
    has("problem: durability: none: fsync or full_page_writes is off");
    has(&format!("ok: postgresql version: {}", server().version().split('.').next().unwrap()));
    let migrations = place.json(&["migrate", "--dry-run"])["migrations"].as_array().unwrap().len();
    has(&format!("ok: schema version: {migrations}"));
    has("ok: wake-up: notifications");
    has("note: no worker is alive");
    has("note: 1 task(s) of kind \"x\"");
    has("ok: all 1 tasks can be read");
    assert_eq!(database.sql("SELECT * FROM windlass.task_rows; SELECT * FROM windlass.leader"), before);
}

#[test]
fn the_doctor_does_not_migrate() {
    let database = Database::new();
    let place = database.place();
    place.submit(&["x"]);
    database.sql("DELETE FROM windlass.migrations WHERE version > 2");
    let (code, found) = findings(&place);
    assert_eq!((code, found.len()), (1, 1), "{found:#?}");
    assert!(found[0].contains("is behind this version by ") && !found[0].contains(SECRET), "{found:#?}");
    assert_eq!(database.sql("SELECT count(*) FROM windlass.migrations"), "2");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let database = Database::new();
    let place = database.place();
    place.submit(&["x"]);
    database.sql("INSERT INTO windlass.migrations VALUES (99, 'future', 'x', now())");
    for arguments in [&["stats"][..], &["submit", "x"], &["migrate"], &["migrate", "--dry-run"], &["doctor"]]
    {
        place.run(arguments).told(1, "use a newer windlass");
    }
}

#[test]
fn no_password_is_told() {
    let database = Database::new();
    let place = database.place();
    let id = place.submit(&["x", "--max-attempts", "1"]);
    let at = server().addr();
    let name = &database.name;
    let good = database.address();
    for address in [
        good.clone(),
        format!("{good}?frob=1"),
        format!("{good}?schema=A-b"),
        format!("{good}?connections=0"),
        format!("{good}?sslmode=require"),
        format!("{good}?sslrootcert=no.pem"),
        format!("postgres://{at}/{name}?user=postgres&password={SECRET}"),
        format!("postgres://{at}/{name}?user=postgres&password={SECRET}&frob=1"),
        format!("postgres://postgres:{SECRET}@{at}/no_such_database"),
        format!("postgres://nobody:{SECRET}@{at}/{name}"),
        format!("postgres://postgres:{SECRET}@127.0.0.1:1/{name}"),
        format!("postgres://postgres:{SECRET}@{SECRET}@{at}:x/{name}"),
        format!("postgres://postgres:?{SECRET}@{at}/{name}"),
        format!("postgres://postgres:{SECRET}"),
        format!("postgres:/postgres:{SECRET}@{at}/{name}"),
        format!("postgress://postgres:{SECRET}@{at}/{name}"),
        format!("postgres:{SECRET}@{at}/{name}"),
        format!("host=127.0.0.1 password={SECRET}"),
    ] {
        for arguments in [
            &["stats"][..],
            &["doctor"],
            &["task", "get", &id],
            &["migrate", "--dry-run"],
            &["migrate", "--sql"],
            &["bench", "--tasks", "1", "--samples", "1", "--rounds", "1", "--entities", "0"],
            &["submit", "x"],
        ] {
            let said = place.run(&[&["--store", &address], arguments].concat());
            let told = format!("{}{}", said.out, said.err);
            assert!(!told.contains(SECRET), "{arguments:?} at {address}: {told}");
            assert!(said.err.lines().count() <= 1, "{arguments:?} at {address}: {}", said.err);
        }
    }
    let help = place.run(&["--help"]);
    assert!(help.out.contains("postgres://USER:PASSWORD@HOST/DATABASE") && !help.out.contains(SECRET));
    let said = place.drain(&["--exec", "x=exit 75"]);
    assert!(!said.err.contains(SECRET), "{}", said.err);
}
