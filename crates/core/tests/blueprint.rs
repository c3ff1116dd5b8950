//! What makes a definition sound.
#![allow(clippy::unwrap_used, clippy::panic)]

use serde_json::{Value, json};
use windlass_core::{Blueprint, Definition, Flaw, Rejected, Step, StepBuilder, limits};

fn flaws(steps: impl IntoIterator<Item = StepBuilder>) -> Vec<Flaw> {
    match Definition::builder("d").steps(steps).build() {
        Ok(_) => Vec::new(),
        Err(Rejected::Unsound { flaws }) => flaws,
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_step_is_not_said_to_be_meant_by_its_own_need() {
    let steps = |other: &str| flaws([Step::run("publish", "x").needs(["publsh"]), Step::run(other, "x")]);
    assert_eq!(steps("extract")[0].advice, "the steps are the keys below `steps`");
    assert_eq!(steps("polish")[0].advice, "did you mean \"polish\"?");
}

#[test]
fn what_a_map_is_over_is_bounded() {
    let over = |over: Value| flaws([Step::run("a", "x").map(over)]);
    let text = "x".repeat(limits::EXPRESSION_BYTES);
    assert_eq!(over(json!(text)), []);
    let long = over(json!(format!("{text}x")));
    assert_eq!((&*long[0].path, &*long[0].problem), ("steps.a.map.over", "it has 8193 bytes"));
    let list = |texts: usize| json!(vec!["x".repeat(1_021); texts]);
    assert_eq!(over(list(63)), []);
    assert_eq!(over(list(64))[0].path, "steps.a.map.over");
}

#[test]
fn null_is_an_input_and_nothing_is_none() {
    let read = |text: &str| -> Definition { serde_json::from_str(text).unwrap() };
    let null = read(r#"{"name": "d", "steps": {"a": {"run": "x", "input": null}}}"#);
    let none = read(r#"{"name": "d", "steps": {"a": {"run": "x"}}}"#);
    assert_eq!((&null.steps[0].input, &none.steps[0].input), (&Some(Value::Null), &None));
    // A store gives back what it was given.
    for definition in [null, none] {
        assert_eq!(*Blueprint::stored(&definition.content()).unwrap().definition(), definition);
    }
}
