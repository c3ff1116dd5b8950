//! What programs may be run, and what they are told of the store.

use serde_json::json;

use super::support::Place;

const FLOW: &str = "name: flow\nsteps:\n  a: { run: 'echo ran > ran' }\n";

#[test]
fn programs_of_ad_hoc_workflows_are_run_only_where_that_is_asked_for() {
    let place = Place::new();
    place.file("flow.yaml", FLOW);
    let started = place.json(&["workflow", "start", "--file", "flow.yaml"]);
    let id = started["id"].as_str().unwrap();
    place.drain(&["--run-steps"]);
    assert!(!place.files().contains(&"ran".into()), "nobody has stored what it would run");
    let step = format!("{id}/a");
    assert_eq!(place.json(&["workflow", "get", id])["steps"][0]["state"], "pending");
    let why = place.run(&["why", &step]);
    assert!(why.out.contains("windlass work --run-steps --run-ad-hoc --queue default"), "{}", why.out);
    let doctor = place.run(&["doctor"]);
    assert!(doctor.out.contains("windlass work --run-steps --run-ad-hoc"), "{}", doctor.out);
    place.run(&["work", "--run-ad-hoc"]).told(2, "--run-steps");
    place.drain(&["--run-steps", "--run-ad-hoc"]);
    assert_eq!(place.read("ran"), "ran\n");
    assert_eq!(place.json(&["workflow", "get", id])["state"], "complete");
}

#[test]
fn programs_of_stored_definitions_need_no_more_than_run_steps() {
    let place = Place::new();
    place.file("flow.yaml", FLOW);
    place.json(&["definition", "apply", "flow.yaml"]);
    place.json(&["workflow", "start", "flow"]);
    place.drain(&["--run-steps"]);
    assert_eq!(place.read("ran"), "ran\n");
}

/// An ad hoc workflow that is repeated is still one.
#[test]
fn a_repeated_ad_hoc_workflow_is_ad_hoc() {
    let place = Place::new();
    place.file("flow.yaml", FLOW);
    let started = place.json(&["workflow", "start", "--file", "flow.yaml"]);
    place.drain(&["--run-steps", "--run-ad-hoc"]);
    let again = place.json(&["workflow", "rerun", started["id"].as_str().unwrap(), "--from", "a"]);
    place.drain(&["--run-steps"]);
    let again = place.json(&["workflow", "get", again["id"].as_str().unwrap()]);
    assert_eq!(again["steps"][0]["state"], "pending", "{again}");
}

/// What a worker on this store has in its environment.
fn secretive(place: Place) -> Place {
    place
        .with("WINDLASS_TOKEN", "wl_secret")
        .with("WINDLASS_CONFIG", "/etc/windlass.toml")
        .with("PGPASSWORD", "hunter2")
        .with("OTHER", "kept")
}

const LOOK: &str =
    "env | grep -E '^(WINDLASS_(STORE|SERVER|TOKEN|CONFIG|CA_FILE)|PG|OTHER)' | sort > seen; true";

#[test]
fn programs_find_neither_the_store_nor_the_token_unless_it_is_passed() {
    let place = secretive(Place::with_store("sqlite:x.db"));
    for (pass, expected) in [
        (&[][..], "OTHER=kept\nPGPASSWORD=hunter2\n".to_string()),
        (
            &["--pass-store"],
            format!(
                "OTHER=kept\nPGPASSWORD=hunter2\nWINDLASS_CONFIG=/etc/windlass.toml\nWINDLASS_STORE=sqlite:{}\nWINDLASS_TOKEN=wl_secret\n",
                std::path::absolute(place.path().join("x.db")).unwrap().display()
            ),
        ),
    ] {
        place.submit(&["look"]);
        place.drain(&[&["--exec", &format!("look={LOOK}")], pass].concat());
        assert_eq!(place.read("seen"), expected, "--exec {pass:?}");
        place.file("flow.yaml", json!({ "name": "flow", "steps": { "a": { "run": LOOK } } }).to_string());
        place.json(&["workflow", "start", "--file", "flow.yaml"]);
        place.drain(&[&["--run-steps", "--run-ad-hoc"], pass].concat());
        assert_eq!(place.read("seen"), expected, "--run-steps {pass:?}");
        let said = place.run(&[&["run", "flow.yaml"], pass].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(place.read("seen"), expected, "run {pass:?}");
    }
}
