//! What expressions give.

use serde_json::{Value, json};
use windlass::flow::{self, Expressions, Scope};
use windlass::{Blueprint, Json, Step, WorkflowId};

pub(crate) fn scope(input: &Value, results: &[(&str, Value)]) -> Scope {
    let id: WorkflowId = "01890a5d-ac96-774b-bcce-b30000000000".parse().unwrap();
    let mut scope = Scope::new(id, "test", "3", &Json::payload(&input.to_string()).unwrap()).unwrap();
    for (step, result) in results {
        scope.add(step, Some(&Json::stored(&result.to_string()))).unwrap();
    }
    scope
}

pub(crate) fn step(fields: Value) -> Step {
    let mut step: Step = serde_json::from_value(fields).unwrap();
    step.name = windlass::Name::stored("it");
    step
}

pub(crate) fn with_input(input: Value) -> Expressions {
    Expressions::of(&step(json!({"run": "x", "input": input}))).unwrap()
}

/// The value of one expression.
pub(crate) fn value(expression: &str, scope: &Scope) -> Result<Value, String> {
    let expressions = Expressions::of(&step(json!({"run": "x", "input": format!("${{{expression}}}")})));
    let payload = expressions.map_err(|flaws| flaws[0].to_string())?.bind(scope).input()?;
    Ok(serde_json::from_str(payload.as_str()).unwrap())
}

fn day() -> Scope {
    let input = json!({"day": "monday", "big": u64::MAX, "half": 0.5, "list": [3, 1, 2], "no": null, "b": {"z": 1, "a": 2}});
    scope(
        &input,
        &[("extract", json!({"errors": 5, "regions": ["eu", "us"]})), ("fetch-data", json!("text"))],
    )
}

#[test]
fn expressions_give_json() {
    let scope = day();
    for (expression, expected) in [
        ("input.day", json!("monday")),
        ("extract.errors + 1", json!(6)),
        ("extract.regions", json!(["eu", "us"])),
        ("extract.regions[1]", json!("us")),
        (r#"steps["fetch-data"]"#, json!("text")),
        ("steps.extract.errors", json!(5)),
        (r#"steps["fetch-" + "data"]"#, json!("text")),
        ("workflow", json!({"id": "01890a5d-ac96-774b-bcce-b30000000000", "name": "test", "version": "3"})),
        (r#"{"a": 1}.a"#, json!(1)),
        (r#""}""#, json!("}")),
        (r#"{"a": [1, 2.5, true, null, "x"]}"#, json!({"a": [1, 2.5, true, null, "x"]})),
        ("size(input.list)", json!(3)),
        ("input.list.map(x, x * 2)", json!([6, 2, 4])),
        ("input.list.filter(x, x > 1)", json!([3, 2])),
        ("input.list.all(x, x > 0) && input.list.exists(x, x == 2)", json!(true)),
        ("input.list.exists_one(x, x == 2)", json!(true)),
        ("input.b.map(key, key)", json!(["a", "z"])),
        ("[[1, 2], [3]].map(x, x.map(y, y + 1))", json!([[2, 3], [4]])),
        ("has(input.day) && !has(input.night)", json!(true)),
        ("input.?night.orValue(\"dark\")", json!("dark")),
        ("input.?day.orValue(\"dark\")", json!("monday")),
        ("input.no == null", json!(true)),
        ("skipped == null", json!(true)),
        ("input.day == \"monday\" ? 1 : 2", json!(1)),
        ("\"mon\" in [\"mon\", \"tue\"]", json!(true)),
        ("\"day\" in input", json!(true)),
        (r"input.day.matches('^m.*y$')", json!(true)),
        (r"matches(input.day, '^x')", json!(false)),
        ("type(input.day) == string", json!(true)),
        // Numbers.
        ("input.big", json!(u64::MAX)),
        ("3 == 3.0 && 3 < 3.5 && input.big > 1 && input.big > 1.5", json!(true)),
        ("input.half + 1.0", json!(1.5)),
        ("double(extract.errors) / 2.0", json!(2.5)),
        ("7 / 2", json!(3)),
        ("-extract.errors", json!(-5)),
        ("int(\"12\") + int(3.9)", json!(15)),
    ] {
        assert_eq!(value(expression, &scope), Ok(expected), "{expression}");
    }
}

#[test]
fn errors_say_what_was_wrong() {
    let scope = day();
    for (expression, expected) in [
        (
            "input.night",
            "there is no field \"night\"; has() tells, and .?field.orValue() gives something else",
        ),
        ("skipped.value", "null has no fields"),
        ("input.day.x", "string has no fields"),
        ("1 + 1.5", "add cannot be used with int and double; double() and int() convert numbers"),
        ("1 < \"a\"", "< cannot be used with int and string"),
        ("1 / 0", "division by zero"),
        ("9223372036854775807 + 1", "add gives a number that is too large"),
        ("input.list[7]", "there are not so many elements"),
        ("[1][\"a\"]", "[_] cannot be used with list and string"),
        ("input.?night", "it is a value that may be absent; say what to use then, with .orValue()"),
        ("b\"abc\"", "it is of type bytes, which has no form in JSON"),
        ("string", "it is of type type, which has no form in JSON"),
        ("1.0 / 0.0", "the number has no form in JSON"),
        ("{1: 2}", "an object has a key that is not a text; use string()"),
        ("input.day.matches(\"(\")", "the pattern \"(\" cannot be read, or is too large"),
        ("int(\"x\")", "string parse error: invalid digit found in string"),
    ] {
        let error = value(expression, &scope).unwrap_err();
        let (quoted, said) = error.strip_prefix("input: ").unwrap().split_once("\": ").unwrap();
        assert!(quoted.starts_with('"'), "{error}");
        assert_eq!(said, expected, "{expression}");
    }
}

#[test]
fn templates_are_filled_in() {
    let scope = day();
    let input = json!({
        "whole": "${extract.regions}",
        "text": "day ${input.day}: ${extract.errors} of ${input.half}, ${input.no}, ${extract}",
        "literal": "$${input.day} costs $5",
        "${key}": ["${ input.list[0] }", 7, null],
        "none": "x"
    });
    let payload = with_input(input).bind(&scope).input().unwrap();
    let filled: Value = serde_json::from_str(payload.as_str()).unwrap();
    assert_eq!(
        filled,
        json!({
            "whole": ["eu", "us"],
            "text": r#"day monday: 5 of 0.5, null, {"errors":5,"regions":["eu","us"]}"#,
            "literal": "${input.day} costs $5",
            "${key}": [3, 7, null],
            "none": "x"
        })
    );
}

#[test]
fn without_input_a_step_is_given_that_of_the_workflow_to_the_letter() {
    let id: WorkflowId = "01890a5d-ac96-774b-bcce-b30000000000".parse().unwrap();
    let text = r#" {"a" : 1.10, "a": 2} "#;
    let scope = Scope::new(id, "test", "1", &Json::payload(text).unwrap()).unwrap();
    let step = Expressions::of(&step(json!({"run": "x"}))).unwrap();
    assert_eq!(step.bind(&scope).input().unwrap().as_str(), text);
    assert_eq!(step.bind(&scope).item(0, &json!({"b": 1})).unwrap().as_str(), r#"{"b":1}"#);
    assert_eq!((step.bind(&scope).condition(), step.bind(&scope).list()), (Ok(None), Ok(None)));
}

#[test]
fn a_condition_is_true_or_false() {
    let scope = day();
    let condition = |source: &str| {
        let step = Expressions::of(&step(json!({"run": "x", "if": source}))).unwrap();
        step.bind(&scope).condition()
    };
    assert_eq!(condition("extract.errors > 3"), Ok(Some(true)));
    assert_eq!(condition("${ extract.errors > 30 }"), Ok(Some(false)));
    assert_eq!(condition("extract.errors"), Err("if: it gives 5, not true or false".into()));
    assert_eq!(
        condition("extract"),
        Err(r#"if: it gives {"errors":5,"regions":["eu","us"]}, not true or false"#.into())
    );
    assert!(
        condition("input.nothing > 3")
            .unwrap_err()
            .starts_with("if: \"input.nothing > 3\": there is no field")
    );
}

#[test]
fn a_map_has_items() {
    let scope = day();
    let list = |over: Value| {
        let step = Expressions::of(&step(json!({"run": "x", "map": {"over": over}}))).unwrap();
        step.bind(&scope).list()
    };
    let regions = Ok(Some(vec![json!("eu"), json!("us")]));
    assert_eq!(list(json!("extract.regions")), regions);
    assert_eq!(list(json!("${extract.regions}")), regions);
    assert_eq!(list(json!(["eu", "${extract.regions[1]}"])), regions);
    assert_eq!(list(json!("extract.errors")), Err("map.over: it gives 5, not a list".into()));
    assert_eq!(list(json!("a ${extract.errors}")), Err("map.over: it gives \"a 5\", not a list".into()));

    let expressions = with_input(json!({"it": "${item}", "n": "${index}", "of": "${size(extract.regions)}"}));
    let bound = expressions.bind(&scope);
    assert_eq!(bound.item(1, &json!("us")).unwrap().as_str(), r#"{"it":"us","n":1,"of":2}"#);
    assert_eq!(bound.item(2, &json!({"a": 1})).unwrap().as_str(), r#"{"it":{"a":1},"n":2,"of":2}"#);
    assert!(bound.input().unwrap_err().contains("\"item\" is not known here"));
}

#[test]
fn references_are_found() {
    let references = |input: &str| {
        let expressions = with_input(json!(input));
        let names: Vec<String> = expressions.references().into_iter().collect();
        (names.join(" "), expressions.refers_to_all())
    };
    for (input, names, all) in [
        ("${a.b + c[d].e}", "a c d", false),
        ("${input.x} ${workflow.id} ${item} ${index}", "", false),
        (r#"${steps["a-b"].x + steps.c}"#, "a-b c", false),
        ("${steps[input.which]}", "", true),
        ("${size(steps) + a}", "a", true),
        ("${[1].map(a, a + b)}", "b", false),
        ("${[1].map(steps, steps)}", "", false),
        ("${a.map(a, a)}", "a", false),
        ("${has(a.b) ? a.?c.orValue(d) : e}", "a d e", false),
        ("${has(steps.a)}", "a", false),
        ("${optional.of(a).optMap(x, x + y).orValue(1)}", "a y", false),
        ("no expression", "", false),
    ] {
        assert_eq!(references(input), (names.to_string(), all), "{input}");
    }
}

#[test]
fn what_a_step_wants_is_known_before_it_is_read() {
    let text = "
name: wanted
steps:
  a: {run: x}
  b-b: {run: x, needs: a}
  c: {run: x, needs: b-b, input: '${steps[\"b-b\"]}'}
  d: {run: x, needs: c, input: '${steps[input.which]}'}
  e: {run: x, needs: c, if: a.ok && c.ok}
";
    let blueprint: Blueprint = flow::read(text).unwrap().into_blueprint();
    let wanted = |name: &str| {
        let number = blueprint.number(name).unwrap();
        Expressions::of(blueprint.step(number).unwrap()).unwrap().wanted(&blueprint, number)
    };
    assert!(wanted("a").is_empty());
    assert_eq!(wanted("c"), [1]);
    assert_eq!(wanted("d"), [0, 1, 2]);
    assert_eq!(wanted("e"), [0, 2]);
}
