//! Definitions: applied, listed, shown and checked.

use serde_json::json;

use crate::support::Place;
use crate::{NIGHTLY, UNKNOWN, place, run_with, text};

const SMALL: &str = "name: small\nsteps:\n  only: { task: x }\n";

#[test]
fn the_same_content_has_the_same_version() {
    let place = crate::empty();
    place.file("nightly.yaml", NIGHTLY);
    place.file("small.json", r#"{"name": "small", "steps": {"only": {"task": "x"}}}"#);
    let applied = place.json(&["definition", "apply", "nightly.yaml", "small.json"]);
    let expected = json!([
        { "name": "nightly", "version": "1", "created": true },
        { "name": "small", "version": "1", "created": true },
    ]);
    assert_eq!(applied["definitions"], expected);
    let again = run_with(&place, &["definition", "apply", "-"], SMALL);
    assert_eq!(again.out, "small  version 1  existed already\n", "YAML and JSON are the same to it");
    let other = run_with(&place, &["definition", "apply", "-", "--json"], &SMALL.replace('x', "y"));
    assert_eq!(other.json()["definitions"][0]["version"], "2");
    let named = |content: &str| {
        run_with(&place, &["definition", "apply", "-"], &format!("version: 2030.1\n{content}"))
    };
    named("name: small\nsteps: { only: { task: x } }\n").told(2, "-:1:10: version:");
    let quoted = SMALL.replace("name: small", "name: small\nversion: \"2030.1\"");
    assert_eq!(run_with(&place, &["definition", "apply", "-"], &quoted).out, "small  version 2030.1\n");
    let changed = quoted.replace('x', "z");
    run_with(&place, &["definition", "apply", "-"], &changed).told(1, "versions never change");

    let newest = place.json(&["definition", "list"]);
    assert_eq!(newest["definitions"].as_array().unwrap().len(), 2);
    assert_eq!(
        (&newest["definitions"][0]["name"], &newest["definitions"][0]["steps"]),
        (&json!("nightly"), &json!(6))
    );
    let all = text(&place, &["definition", "list", "small"]);
    let versions: Vec<&str> = all.lines().map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(versions, ["VERSION", "1", "2", "2030.1"], "{all}");
    place.run(&["definition", "list", "nothing"]).told(1, "there is no definition \"nothing\"");
    assert_eq!(text(&place, &["definition", "list", "--namespace", "tenant"]), "no definitions\n");
}

#[test]
fn a_definition_is_shown_in_every_form() {
    let place = place(&[NIGHTLY, SMALL]);
    let page = text(&place, &["definition", "show", "nightly"]);
    assert!(page.contains("Version     1\n") && page.contains("all done"), "{page}");
    assert!(page.contains("extract.errors > 3") && page.contains("${extract.regions}"), "{page}");
    let said = place.run(&["definition", "show", "nightly", "--json"]);
    let shown = said.json();
    assert_eq!((&shown["name"], &shown["version"]), (&json!("nightly"), &json!("1")));
    assert_eq!(shown["definition"]["steps"]["regions"]["map"]["max_parallel"], 2);
    assert!(said.out.find("\"publish\"") > said.out.find("\"after\""), "steps are in their order");

    let yaml = text(&place, &["definition", "show", "nightly", "--version", "1", "--yaml"]);
    let again = run_with(&place, &["definition", "apply", "-", "--json"], &yaml);
    assert_eq!(again.json()["definitions"][0]["created"], false, "{yaml}");

    let graph = |format: &str| text(&place, &["definition", "show", "nightly", "--graph", format]);
    assert!(graph("mermaid").contains("flowchart TD"));
    assert!(graph("dot").starts_with("digraph"));
    assert!(graph("svg").starts_with("<svg "));
    let json = place.json(&["definition", "show", "small", "--graph", "mermaid"]);
    assert!(json["format"] == "mermaid" && json["graph"].as_str().unwrap().contains("only"), "{json}");

    for (arguments, code, told) in [
        (&["nothing"][..], 1, "there is no definition \"nothing\"; `windlass definition list`"),
        (&["small", "--version", "7"], 1, "\"small\" with version \"7\""),
        (&["a b"], 2, "definition is \"a b\""),
        (&["small", "--graph", "png"], 2, "mermaid, dot, svg"),
        (&["small", "--yaml", "--graph", "svg"], 2, "cannot be used with"),
        (&["small", "--yaml", "--json"], 2, "cannot be used with"),
    ] {
        place.run(&[&["definition", "show"], arguments].concat()).told(code, told);
    }
}

/// A step below would wait for ever for a lane that the step above it holds: told for files that are checked
/// together, and for what the store has.
#[test]
fn lanes_that_are_held_above_are_told() {
    let place = Place::new();
    place.file("inner.yaml", "name: inner\nsteps:\n  write: { task: x, lane: { key: db, limit: 1 } }\n");
    place.file(
        "outer.yaml",
        "name: outer\nsteps:\n  call: { workflow: inner, lane: { key: db, limit: 2 } }\n",
    );
    let told = "the step \"write\" of the workflow \"inner\" asks for the lane \"db\", which \"call\" holds until that workflow has ended";
    assert_eq!(
        text(&place, &["definition", "lint", "outer.yaml"]),
        "outer.yaml: ok\n",
        "the other is not known"
    );
    let both = place.run(&["definition", "lint", "outer.yaml", "inner.yaml"]);
    assert_eq!(both.code, 2);
    assert!(both.out.starts_with(&format!("outer.yaml:3:41: steps.call.lane.key: {told}")), "{}", both.out);
    text(&place, &["definition", "apply", "inner.yaml"]);
    place.run(&["definition", "apply", "outer.yaml"]).told(1, told);
    place
        .run(&["workflow", "start", "--file", "outer.yaml"])
        .told(1, "\"inner/write\" asks for the lane \"db\"");
}

#[test]
fn problems_are_told_with_their_places() {
    let place = Place::new();
    place.file("good.yaml", SMALL);
    place.file("odd.yaml", "name: odd\nsteps:\n  a: { task: x, retry: { max_attempts: 1, initial: 5s } }\n");
    place.file("bad.yaml", "name: bad\nsteps:\n  list: { run: ls }\n  count: { run: wc, needs: [lst] }\n  loop: { run: x, needs: [loop] }\n");
    place.file("cycle.yaml", "name: c\nsteps:\n  a: { task: x, needs: b }\n  b: { task: x, needs: a }\n");
    place.file("latin.yaml", b"name: \xff\n");

    assert_eq!(text(&place, &["definition", "lint", "good.yaml"]), "good.yaml: ok\n");
    let odd = text(&place, &["definition", "lint", "good.yaml", "odd.yaml"]);
    assert!(odd.contains("odd.yaml:3:") && odd.contains(": warning: steps.a.retry.max_attempts: "), "{odd}");
    let bad = place.run(&["definition", "lint", "bad.yaml", "odd.yaml"]);
    assert_eq!((bad.code, &*bad.err), (2, "windlass: there are 2 errors\n"), "{}", bad.out);
    let first = "bad.yaml:4:29: steps.count.needs[0]: there is no step \"lst\"; did you mean \"list\"?\n";
    assert!(bad.out.starts_with(first), "{}", bad.out);
    let json = place.run(&["definition", "lint", "bad.yaml", "odd.yaml", "--json"]);
    let files = &json.json()["files"];
    let problem = &files[0]["problems"][0];
    assert_eq!((json.code, &problem["line"], &problem["column"]), (2, &json!(4), &json!(29)));
    assert_eq!((&problem["severity"], &problem["path"]), (&json!("error"), &json!("steps.count.needs[0]")));
    assert_eq!(files[1]["problems"][0]["severity"], "warning");
    let read = run_with(&place, &["definition", "lint", "-"], "name: [");
    assert!(read.code == 2 && read.out.starts_with("-:1:"), "{}{}", read.out, read.err);

    let told = "bad.yaml:4:29: steps.count.needs[0]: there is no step \"lst\"; did you mean \"list\"? (and 1 more: see `windlass definition lint bad.yaml`)";
    place.run(&["definition", "apply", "good.yaml", "bad.yaml"]).told(2, told);
    place.run(&["definition", "apply", "cycle.yaml"]).told(2, "cycle.yaml:");
    place
        .run(&["definition", "apply", "latin.yaml"])
        .told(2, "definition from latin.yaml: it is not UTF-8 text");
    place.run(&["definition", "apply", "no-such-file"]).told(2, "definition from no-such-file");
    place.run(&["definition", "lint", "no-such-file"]).told(2, "definition from no-such-file");
    place.run(&["definition", "apply", "-", "-"]).told(2, "- is named twice");
    place.run(&["definition", "apply"]).told(2, "<FILE>");
    place.run(&["workflow", "start", "--file", "bad.yaml"]).told(2, "bad.yaml:4:29");
    assert!(!place.files().contains(&"windlass.db".into()), "nothing was kept");
    if place.server().is_none() {
        place.run(&["definition", "list"]).told(1, "there is no database");
        place.run(&["workflow", "get", UNKNOWN]).told(1, "there is no database");
    }
}

#[test]
fn the_schema_is_printed() {
    let place = Place::new();
    let schema: serde_json::Value = serde_json::from_str(&text(&place, &["definition", "schema"])).unwrap();
    assert!(schema["$schema"].as_str().unwrap().contains("2020-12"), "{schema}");
    assert_eq!(place.json(&["definition", "schema"]), schema);
    assert_eq!(place.files(), [""; 0]);
}
