//! Looking at workflows and their steps.

use serde_json::json;

use crate::{NIGHTLY, UNKNOWN, blocked, place, start, step, text};

#[test]
fn a_workflow_is_shown_with_its_steps() {
    let place = place(&[NIGHTLY]);
    let id = start(&place, &["nightly", "--input", r#"{"big": 123456789012345678901234567890}"#]);
    let fresh = place.json(&["workflow", "get", &id]);
    assert_eq!((&fresh["state"], &fresh["counts"]["waiting"]), (&json!("steps_in_process"), &json!(5)));
    assert_eq!(
        (&fresh["execution_status"], &fresh["recommended_action"]),
        (&json!("has_ready_steps"), &json!("execute_ready_steps"))
    );
    assert_eq!((&fresh["health_status"], &fresh["completion_percentage"]), (&json!("healthy"), &json!(0.0)));
    assert!(
        text(&place, &["workflow", "get", &id]).contains("123456789012345678901234567890"),
        "to the letter"
    );
    let publish = step(&fresh, "publish");
    assert_eq!(
        (&publish["level"], &publish["blocking_reason"]),
        (&json!(2), &json!("dependencies_not_satisfied"))
    );
    assert_eq!(publish["waiting_for"][1], json!({ "step": "alert", "state": "waiting" }));

    let id = blocked(&place);
    let seen = place.json(&["workflow", "get", &id]);
    assert_eq!((&seen["state"], &seen["health_status"]), (&json!("blocked_by_failures"), &json!("blocked")));
    assert_eq!((&seen["counts"]["total"], &seen["counts"]["failed"]), (&json!(9), &json!(1)));
    assert_eq!(step(&seen, "regions[2]")["state"], "completed");
    assert_eq!(step(&seen, "alert")["state"], "skipped");
    let after = step(&seen, "after");
    assert_eq!(
        (&after["waiting_for"], &after["waiting_for_total"]),
        (&json!([{ "step": "bad", "state": "failed" }]), &json!(1))
    );
    assert_eq!(seen["history"].as_array().unwrap().last().unwrap()["to"], "blocked_by_failures");
    let page = text(&place, &["workflow", "get", &id]);
    assert!(page.contains("    regions[0]  completed") && page.contains("bad (failed)"), "{page}");

    let few = place.json(&["workflow", "get", &id, "--steps", "2", "--items", "1"]);
    let names: Vec<_> = few["steps"].as_array().unwrap().iter().map(|step| step["name"].clone()).collect();
    assert_eq!(
        (names, &few["steps_left_out"]),
        (vec![json!("extract"), json!("regions"), json!("regions[0]")], &json!(6))
    );
    assert!(text(&place, &["workflow", "get", &id, "--items", "0"]).contains("… and 3 more"));
}

#[test]
fn workflows_are_listed_page_by_page() {
    let place = place(&[NIGHTLY, "name: small\nsteps: { only: { task: x } }\n"]);
    assert_eq!(text(&place, &["workflow", "list"]), "no such workflows\n");
    let ids: Vec<String> = (0..3).map(|_| start(&place, &["small"])).collect();
    let nightly = start(&place, &["nightly"]);
    place.json(&["workflow", "cancel", &ids[1]]);
    let listed = |arguments: &[&str]| {
        let page = place.json(&[&["workflow", "list"], arguments].concat());
        let all: Vec<_> = page["workflows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["id"].as_str().unwrap().to_owned())
            .collect();
        (all, page["next_cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(listed(&[]).0, [&nightly, &ids[2], &ids[1], &ids[0]].map(String::clone));
    assert_eq!(listed(&["--name", "nightly"]).0, [&*nightly]);
    assert_eq!(listed(&["--state", "cancelled,error"]).0, [ids[1].clone()]);
    let (first, next) = listed(&["--name", "small", "--limit", "2", "--oldest-first"]);
    assert_eq!(first, ids[..2]);
    let rest = listed(&["--name", "small", "--limit", "2", "--oldest-first", "--cursor", &next.unwrap()]);
    assert_eq!(rest, (vec![ids[2].clone()], None));
    assert!(text(&place, &["workflow", "list", "--limit", "1"]).contains("more with --cursor "));
    assert_eq!(listed(&["--namespace", "tenant"]).0, [""; 0]);
    assert_eq!(listed(&["--all-namespaces"]).0.len(), 4);
    let table = text(&place, &["workflow", "list", "--state", "cancelled"]);
    assert!(table.contains("small 1") && table.contains("1 of 1"), "{table}");
    place.run(&["workflow", "list", "--state", "done"]).told(2, "resolved_manually");
    place.run(&["workflow", "list", "--limit", "0"]).told(2, "1 to 1000");
}

#[test]
fn tasks_know_their_workflow() {
    let place = place(&[NIGHTLY]);
    let id = blocked(&place);
    place.submit(&["lone"]);
    let steps = place.json(&["task", "list", "--workflow", &id]);
    assert_eq!(steps["tasks"].as_array().unwrap().len(), 9);
    assert!(steps["tasks"].as_array().unwrap().iter().all(|task| task["workflow_id"] == *id));
    let item = step(&place.json(&["workflow", "get", &id]), "regions[1]");
    let task = place.task(item["id"].as_str().unwrap());
    assert_eq!(
        (&task["workflow_id"], &task["step"], &task["result"]),
        (&json!(id), &json!("regions[1]"), &json!(21))
    );
    let page = text(&place, &["task", "get", item["id"].as_str().unwrap()]);
    assert!(page.contains(&format!("Workflow  {id}\nStep      regions[1]\n")), "{page}");
    let lone = place.task(&place.submit(&["lone"]));
    assert_eq!((&lone["workflow_id"], lone.get("step")), (&json!(null), None));
    place.run(&["task", "list", "--workflow", "x"]).told(2, "a UUID such as");
    assert_eq!(text(&place, &["task", "list", "--workflow", UNKNOWN]), "no such tasks\n");
}

#[test]
fn ancestors_are_listed_nearest_first() {
    let place = place(&[NIGHTLY]);
    let id = blocked(&place);
    let all = place.json(&["workflow", "ancestors", &format!("{id}/publish")]);
    let of = |n: usize| {
        let one = &all["ancestors"][n];
        (one["step"].clone(), one["distance"].clone(), one["state"].clone(), one["result"].clone())
    };
    assert_eq!(of(0), (json!("regions"), json!(1), json!("completed"), json!([11, 21, 31])));
    assert_eq!(of(1), (json!("alert"), json!(1), json!("skipped"), json!(null)));
    assert_eq!(
        of(2),
        (json!("extract"), json!(2), json!("completed"), json!({ "errors": 1, "regions": [10, 20, 30] }))
    );
    assert!(text(&place, &["workflow", "ancestors", &format!("{id}/publish")]).contains("[11,21,31]"));
    assert_eq!(
        text(&place, &["workflow", "ancestors", &format!("{id}/extract")]),
        "nothing comes before it\n"
    );
    place.run(&["workflow", "ancestors", &format!("{id}/nope")]).told(2, "expected one of extract, regions");
    place.run(&["workflow", "ancestors", &format!("{UNKNOWN}/a")]).told(1, "does not exist");
    place.run(&["workflow", "ancestors", &id]).told(2, "ID/STEP");
}

#[test]
fn a_workflow_is_drawn_as_it_stands() {
    let place = place(&[NIGHTLY]);
    let id = blocked(&place);
    let mermaid = text(&place, &["workflow", "graph", &id]);
    assert!(mermaid.contains("flowchart TD") && mermaid.contains("failed"), "{mermaid}");
    assert!(text(&place, &["workflow", "graph", &id, "--format", "dot"]).starts_with("digraph"));
    let written = place.json(&["workflow", "graph", &id, "--format", "svg", "--output", "it.svg"]);
    assert_eq!(written, json!({ "format": "svg", "file": "it.svg" }));
    assert!(place.read("it.svg").starts_with("<svg "));
    place
        .run(&["workflow", "graph", &id, "--output", "no/such/directory"])
        .told(2, "picture to no/such/directory");
    place.run(&["workflow", "graph", UNKNOWN]).told(1, "does not exist");
}

#[test]
fn what_is_ready_slow_and_healthy_is_shown() {
    let place = place(&[NIGHTLY]);
    assert_eq!(text(&place, &["workflow", "list", "--ready"]), "no workflow has steps to claim\n");
    assert!(text(&place, &["stats", "--slowest", "steps"]).starts_with("nothing has ended in the last "));
    assert_eq!(text(&place, &["stats", "--stale"]), "no workflow rests for too long\n");
    let blocked = blocked(&place);
    let fresh = start(&place, &["nightly", "--priority", "3"]);
    let ready = place.json(&["workflow", "list", "--ready"]);
    let first = &ready["workflows"][0];
    assert_eq!((&first["workflow"]["id"], &first["ready_steps"]), (&json!(fresh), &json!(1)));
    assert!(first["computed_priority"].as_f64().unwrap() >= 3.0, "{ready}");
    assert_eq!(ready["workflows"].as_array().unwrap().len(), 1, "{blocked} has none");
    assert!(text(&place, &["workflow", "list", "--ready"]).contains("COMPUTED"));
    for (flags, many) in [
        (&["--all-namespaces"][..], 1),
        (&["--namespace", "tenant"], 0),
        (&["--name", "nightly", "--limit", "1"], 1),
        (&["--name", "daily"], 0),
    ] {
        let ready = place.json(&[&["workflow", "list", "--ready"], flags].concat());
        assert_eq!(ready["workflows"].as_array().unwrap().len(), many, "{flags:?}");
    }
    let seen = place.json(&["workflow", "get", &fresh]);
    assert_eq!((&seen["ready_steps"], &step(&seen, "extract")["blocking_reason"]), (&json!(1), &json!(null)));

    let steps = place.json(&["stats", "--slowest", "steps", "--name", "nightly"]);
    let regions = steps["slowest"].as_array().unwrap().iter().find(|one| one["step"] == "regions").unwrap();
    assert_eq!(
        (&regions["executions"], &regions["errors"], &regions["version"]),
        (&json!(4), &json!(0), &json!("1"))
    );
    let bad = steps["slowest"].as_array().unwrap().iter().find(|one| one["step"] == "bad").unwrap();
    assert_eq!((&bad["errors"], &bad["error_rate"]), (&json!(1), &json!(100.0)));
    let each = place.json(&["stats", "--slowest", "steps", "--each", "--limit", "2"]);
    assert_eq!(each["slowest"].as_array().unwrap().len(), 2);
    assert!(each["slowest"][0]["task"].is_string());
    assert!(text(&place, &["stats", "--slowest", "steps"]).contains("LONGEST"));
    assert_eq!(place.json(&["stats", "--slowest", "workflows"])["slowest"], json!([]), "none is over");

    // Each flag lets through what it should, and keeps out the rest.
    let many = |flags: &[&str]| {
        let found = place.json(&[&["stats", "--slowest", "steps"], flags].concat());
        found["slowest"].as_array().unwrap().len()
    };
    let all = many(&[]);
    assert!(all >= 4, "{all}");
    for (flags, found) in [
        (["--since", "1h"], all),
        (["--since", "1ms"], 0),
        (["--name", "nightly"], all),
        (["--name", "daily"], 0),
        (["--definition-version", "1"], all),
        (["--definition-version", "2"], 0),
        (["--min-executions", "4"], 1),
        (["--min-executions", "5"], 0),
        (["--namespace", "default"], all),
        (["--namespace", "tenant"], 0),
        (["--limit", "2"], 2),
    ] {
        assert_eq!(many(&flags), found, "{flags:?}");
    }
    assert_eq!(many(&["--all-namespaces"]), all);

    let health = place.json(&["stats", "--health"]);
    assert_eq!(
        (&health["total_workflows"], &health["active_workflows"], &health["started"]),
        (&json!(2), &json!(2), &json!(2))
    );
    assert_eq!(
        (&health["workflows"]["blocked_by_failures"], &health["steps"]["error"]),
        (&json!(1), &json!(1))
    );
    assert!(text(&place, &["stats", "--health"]).contains("health score"));
    let stats = place.json(&["stats"]);
    assert_eq!(stats["workflows"][0]["name"], "nightly");
    assert!(text(&place, &["stats"]).contains("WORKFLOW"));
    place.run(&["stats", "--health", "--stale"]).told(2, "cannot be used with");
    place.run(&["stats", "--each"]).told(2, "--slowest");
}
