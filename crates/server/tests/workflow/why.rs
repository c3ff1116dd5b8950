//! `windlass why` of steps.

use serde_json::{Value, json};

use crate::support::Place;
use crate::{NIGHTLY, UNKNOWN, blocked, place, start, step, text};

fn why(place: &Place, step: &str) -> Value {
    place.json(&["why", step])
}

#[test]
fn parents_that_are_not_done_are_named() {
    let place = place(&[NIGHTLY]);
    let fresh = start(&place, &["nightly"]);
    let waiting = why(&place, &format!("{fresh}/publish"));
    assert_eq!((&waiting["reason"], &waiting["step"]), (&json!("waiting_for_parents"), &json!("publish")));
    assert_eq!((&waiting["workflow_id"], &waiting["blockers_total"]), (&json!(fresh), &json!(2)));
    assert_eq!(waiting["blockers"][0]["step"], "regions");
    assert_eq!(
        waiting["detail"],
        "it waits for the end of all its parents; of 2, 2 are missing: regions is waiting, alert is waiting"
    );
    assert_eq!(why(&place, &format!("{fresh}/extract"))["reason"], "no_worker");

    let id = blocked(&place);
    let after = format!("{id}/after");
    let said = text(&place, &["why", &after]);
    assert!(
        said.contains("It waits for all of its 2 parents; this one is missing:\n  bad failed\n"),
        "{said}"
    );
    assert!(said.contains(&format!("`windlass workflow retry {id}/bad`")), "{said}");
    let by_id = step(&place.json(&["workflow", "get", &id]), "after")["id"].as_str().unwrap().to_owned();
    assert_eq!(why(&place, &by_id), why(&place, &after), "by its task, too");
    let bad = text(&place, &["why", &format!("{id}/bad")]);
    assert!(
        bad.contains("exit code 3") && bad.contains(&format!("`windlass workflow retry {id}/bad`")),
        "{bad}"
    );
    let alert = text(&place, &["why", &format!("{id}/alert")]);
    assert!(
        alert.contains("is skipped.") && alert.contains("its condition is false: extract.errors > 3"),
        "{alert}"
    );
    assert_eq!(why(&place, &format!("{id}/regions[1]"))["reason"], "final");
    place.json(&["workflow", "cancel", &id, "--reason", "enough"]);
    let over = text(&place, &["why", &after]);
    assert!(over.contains("Its history says: enough.\n") && !over.contains("workflow retry"), "{over}");
    assert!(over.contains(&format!("`windlass workflow rerun {id} --from after`")), "{over}");
}

#[test]
fn ten_parents_are_named_and_the_others_counted() {
    let steps: String = (0..13).map(|n| format!("  s{n}: {{ task: x }}\n")).collect();
    let needs: Vec<String> = (0..13).map(|n| format!("s{n}")).collect();
    let all = format!(
        "name: wide\nsteps:\n{steps}  all: {{ task: x, needs: [{0}] }}\n  two: {{ task: x, needs: [{0}], join: {{ at_least: 2 }} }}\n",
        needs.join(", ")
    );
    let place = place(&[&all]);
    let id = start(&place, &["wide"]);
    let said = why(&place, &format!("{id}/all"));
    assert_eq!((said["blockers"].as_array().unwrap().len(), &said["blockers_total"]), (10, &json!(13)));
    assert!(said["detail"].as_str().unwrap().ends_with("s9 is pending and 3 more"), "{said}");
    assert!(text(&place, &["why", &format!("{id}/all")]).ends_with("  s9 pending\n  … and 3 more\n"));
    assert!(text(&place, &["why", &format!("{id}/two")]).contains("It waits for 2 of its 13 parents"));
}

#[test]
fn a_pause_is_told() {
    let place = place(&[NIGHTLY]);
    let id = start(&place, &["nightly"]);
    place.json(&["workflow", "pause", &id]);
    let extract = why(&place, &format!("{id}/extract"));
    assert_eq!((&extract["reason"], &extract["workflow_paused"]), (&json!("workflow_paused"), &json!(true)));
    let said = text(&place, &["why", &format!("{id}/extract")]);
    assert!(said.contains(&format!("Its workflow is paused: `windlass workflow resume {id}`")), "{said}");
    let publish = text(&place, &["why", &format!("{id}/publish")]);
    assert!(
        publish.contains("these are missing") && publish.contains("Besides, its workflow is paused"),
        "{publish}"
    );
    assert!(why(&place, &format!("{id}/publish"))["detail"].as_str().unwrap().contains("besides"));
}

#[test]
fn items_that_are_left_are_named() {
    let place = place(&["name: each\nsteps:\n  each: { task: odd, map: { over: [1, 2, 3] } }\n"]);
    let _worker = place.work(&["--exec=odd=grep -v 2 || exit 4"]);
    let said = place.run(&["workflow", "start", "each", "--wait", "--json"]);
    assert_eq!(said.code, 1, "{}", said.err);
    let id = said.json()["id"].as_str().unwrap().to_owned();
    let each = why(&place, &format!("{id}/each"));
    assert_eq!((&each["reason"], &each["blockers_total"]), (&json!("waiting_for_items"), &json!(1)));
    assert_eq!(
        (&each["blockers"][0]["step"], &each["blockers"][0]["state"]),
        (&json!("each[1]"), &json!("failed"))
    );
    let told = text(&place, &["why", &format!("{id}/each")]);
    assert!(told.contains("It waits for its 3 items; this one is missing:\n  each[1] failed\n"), "{told}");
    assert!(told.contains(&format!("`windlass workflow retry {id}/each[1]`")), "{told}");
    let seen = place.json(&["workflow", "get", &id]);
    assert_eq!(step(&seen, "each")["items"]["of"], 3);
}

#[test]
fn a_step_that_is_a_workflow_names_it() {
    let inner = "name: inner\nsteps:\n  one: { task: echo, input: 1 }\n  two: { task: nobody, needs: one, input: 2 }\n";
    let outer = "name: outer\nsteps:\n  call: { workflow: inner }\n  then: { task: echo, needs: call, input: \"${call.two}\" }\n";
    let place = place(&[inner, outer]);
    let id = start(&place, &["outer"]);
    let call = format!("{id}/call");
    assert!(text(&place, &["why", &call]).contains("`windlass work --workflows --queue default`"));
    let mut worker = place.work(&["--exec=echo=cat", "--workflows"]);
    worker.until("echo attempt 1 completed");
    let said = why(&place, &call);
    assert_eq!(said["reason"], "waiting_for_workflow");
    let child = said["blockers"][0]["workflow"].as_str().unwrap();
    assert!(
        text(&place, &["why", &call])
            .contains(&format!("It is the workflow {child}, which is steps_in_process"))
    );
    let seen = place.json(&["workflow", "get", child]);
    assert_eq!((&seen["definition"], &seen["parent_workflow_id"]), (&json!("inner"), &json!(id)));
    assert!(text(&place, &["workflow", "list"]).contains(&format!("within {id}")));
    place.json(&["workflow", "complete", &format!("{child}/two"), "--result", "7"]);
    worker.until("echo attempt 1 completed");
    drop(worker);
    let call = place.json(&["workflow", "ancestors", &format!("{id}/then")]);
    assert_eq!(call["ancestors"][0]["result"], json!({ "two": 7 }));
}

#[test]
fn what_is_no_step_is_told() {
    let place = place(&[NIGHTLY]);
    let id = start(&place, &["nightly"]);
    place.run(&["why", &format!("{id}/nope")]).told(2, "expected one of extract, regions");
    place.run(&["why", &format!("{id}/regions[x]")]).told(2, "an item of one such as name[0]");
    place.run(&["why", &format!("{id}/regions[0]")]).told(1, "does not exist");
    place.run(&["why", &format!("{UNKNOWN}/a")]).told(1, "does not exist");
    place.run(&["why", &id]).told(1, "is a workflow; `windlass workflow get");
    place.run(&["why", UNKNOWN]).told(1, "does not exist");
    place.run(&["why", "x/y"]).told(2, "a UUID such as");
}
