//! Files and expressions that were made to do harm. Each ends soon, with an error or with an answer, on a
//! small stack.

use serde_json::{Value, json};
use windlass::flow::{self, Expressions};
use windlass::limits;

use super::evaluation::{scope, step, value, with_input};

/// Runs on the stack that threads of a runtime have.
fn soon<T: Send>(what: &str, work: impl FnOnce() -> T + Send) -> T {
    on_stack(2 << 20, what, work)
}

fn on_stack<T: Send>(bytes: usize, what: &str, work: impl FnOnce() -> T + Send) -> T {
    println!("{what}");
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(bytes).spawn_scoped(scope, work).unwrap();
        thread.join().unwrap()
    })
}

#[test]
fn files_cannot_do_harm() {
    let laughs: String = ('b'..='l')
        .zip('a'..)
        .map(|(name, before)| format!("{name}: &{name} [{}]\n", vec![format!("*{before}"); 9].join(",")))
        .collect();
    let nested =
        |depth: usize| -> String { (0..depth).map(|at| format!("{}a:\n", " ".repeat(at))).collect() };
    for (what, text, said) in [
        ("brackets", "[".repeat(1_000_000), "not YAML"),
        ("braces", "{a: ".repeat(1_000_000), "not YAML"),
        ("levels", nested(2_000), "not YAML"),
        ("dashes", "- ".repeat(1_000_000), "not YAML"),
        ("questions", "? ".repeat(1_000_000), "not YAML"),
        ("quotes", "\"".repeat(1_000_000), "not YAML"),
        ("open quote", format!("\"{}", "x".repeat(30_000_000)), "not YAML"),
        ("many", format!("[{}0]", "0,".repeat(2_500_000)), "too much"),
        ("laughs", format!("a: &a [x,x,x,x,x,x,x,x,x]\n{laughs}"), "too much"),
        ("within itself", "a: &a [*a]\n".into(), "it holds itself"),
        (
            "anchors in anchors",
            (0..60).map(|n| format!("&a{n} [")).collect::<String>() + &"x,".repeat(1_000_000),
            "not YAML",
        ),
        (
            "large text many times",
            format!("a: &a {}\nb: [{}0]\n", "x".repeat(1_000_000), "*a,".repeat(200_000)),
            "too much",
        ),
        ("keys", (0..200_000).map(|n| format!("k{n}: 1\n")).collect(), "there is no field"),
        ("long key", format!("{}: 1", "k".repeat(1_000_000)), "not YAML"),
        ("too large", " ".repeat(limits::DEFINITION_BYTES + 1), "33554433 bytes"),
        ("zero", "a\0: b".into(), "not YAML"),
        ("merged", format!("a: &a {{x: 1}}\nb: {{<<: [{}]}}\n", "*a,".repeat(100_000)), "there is no field"),
    ] {
        let problems = soon(what, || flow::read(&text).unwrap_err());
        assert!(problems[0].to_string().contains(said), "{what}: {}", problems[0]);
        assert!(problems.len() <= 20);
    }
}

#[test]
fn texts_of_expressions_cannot_do_harm() {
    let chain = |part: &str, times: usize| vec!["1"; times].join(part);
    for (what, text) in [
        ("parentheses", "(".repeat(10_000)),
        ("closed parentheses", "(".repeat(4_000) + "1" + &")".repeat(4_000)),
        ("brackets", "[".repeat(8_000)),
        ("nots", "!".repeat(8_000) + "true"),
        ("minuses", "-".repeat(8_000) + "1"),
        ("sums", chain("+", 4_000)),
        ("ands", chain("&&", 2_000)),
        ("conditions", "true?1:".repeat(1_000) + "1"),
        ("fields", "a".to_string() + &".a".repeat(4_000)),
        ("indexes", "a".to_string() + &"[0]".repeat(2_000)),
        ("calls", "a".to_string() + &".f()".repeat(2_000)),
        ("ins", chain(" in ", 1_600)),
        ("loops", "[1].map(x,".repeat(20) + "x" + &")".repeat(20)),
        ("long", " ".repeat(limits::EXPRESSION_BYTES) + "1"),
        ("quotes", "'".repeat(8_001)),
        ("backslashes", "'".to_string() + &"\\".repeat(8_000)),
        ("messages", "a{".repeat(4_000)),
        ("no letters", "\u{0}\u{1}\u{fffd}\u{10ffff}".repeat(100)),
        ("comment", "// nothing".into()),
        ("number", "9".repeat(8_000)),
        ("escape", r#""\ud800""#.into()),
    ] {
        let step = step(json!({"run": "x", "if": text}));
        let flaws = soon(what, || Expressions::of(&step).unwrap_err());
        assert!(flaws[0].to_string().len() < 600, "{what}: {}", flaws[0]);
    }
}

/// As much as is allowed fits on half of a small stack, to be compiled and to be evaluated.
#[test]
fn the_largest_expressions_fit_on_a_small_stack() {
    let scope = scope(&json!({"a": {"a": 1}}), &[]);
    for (what, text) in [
        ("sums", vec!["1"; 250].join("+")),
        ("minuses", vec!["1"; 250].join(" - ")),
        ("ands", vec!["true"; 250].join(" && ")),
        ("ors", vec!["false"; 250].join(" || ")),
        ("conditions", "true ? 1 : ".repeat(90) + "1"),
        ("nots", "!".repeat(240) + "true"),
        ("parentheses", "(".repeat(32) + "1" + &")".repeat(32)),
        ("lists", "[".repeat(32) + "1" + &"]".repeat(32)),
        ("objects", "{'a':".repeat(32) + "1" + &"}".repeat(32)),
        ("fields", "{'a': 1}".to_string() + &".a".repeat(39)),
        ("indexes", "[1]".to_string() + &"[0]".repeat(39)),
        ("calls", "'a'".to_string() + &".size()".repeat(20)),
        ("relations", vec!["1"; 250].join(" == ")),
        ("members of members", "{'a': ".repeat(8) + "1" + &("}".to_string() + &".a".repeat(6)).repeat(8)),
        ("operators in brackets", "(1+1+1+1+1+".repeat(20) + "1" + &")".repeat(20)),
        ("members in brackets", "[1].size(".repeat(13) + "1" + &")".repeat(13)),
    ] {
        let result = on_stack(1 << 20, what, || value(&text, &scope));
        let refused = result.err().unwrap_or_default();
        assert!(!refused.contains("too long"), "{what}: {refused}");
    }
}

#[test]
fn evaluation_cannot_do_harm() {
    let numbers: Vec<u32> = (0..150_000).collect();
    let objects: Vec<Value> = (0..20_000).map(|n| json!({"n": n, "t": "a text of some length"})).collect();
    let deep = (0..120).fold(json!(1), |inner, _| json!([inner]));
    let results = [
        ("list", json!(numbers)),
        ("objects", json!(objects)),
        ("text", json!("a".repeat(1_000_000))),
        ("words", json!(vec!["some words to look at"; 30_000])),
        ("deep", deep),
    ];
    let scope = scope(&json!(null), &results);
    let many = |part: &str, times: usize, between: &str| vec![part; times].join(between);
    for (what, expression) in [
        ("two loops", "list.all(x, list.all(y, x != y || true))".to_string()),
        ("two loops of objects", "objects.map(x, objects.map(y, y))".into()),
        ("a loop that compares much", "list.all(x, list == list)".into()),
        ("a loop that looks for something", "list.all(x, !(-1 in list))".into()),
        ("a loop that passes over errors", "list.exists(x, list.all(y, z.z))".into()),
        ("long texts", many("text", 240, "+")),
        ("lists of lists", format!("[{}]", many("list", 1_500, ","))),
        (
            "objects of texts",
            format!("{{{}}}", (0..600).map(|n| format!("'{n}': text")).collect::<Vec<_>>().join(",")),
        ),
        ("long sums of lists", many("list", 240, "+")),
        ("texts in a loop", "list.map(x, text)".into()),
        ("comparing texts in a loop", "list.all(x, text + 'a' != text)".into()),
        ("sizes in a loop", "list.all(x, size(text) > 0)".into()),
        ("patterns in a loop", r"words.all(x, x.matches('(\\w+\\s*)*' + x))".into()),
        ("patterns that differ", r"list.all(x, text.matches(string(x)))".into()),
        ("a large pattern", r"text.matches('(\\pL{50}){50}')".into()),
        ("a pattern that goes back", r"text.matches('(a*)*b')".into()),
        ("a pattern with many states", r"text.matches('(a|b|ab){200}c')".into()),
        ("a pattern with many counts", r"text.matches('[ab]{1,400}[ac]{1,400}d')".into()),
        ("many loops", many("list.all(x, true)", 60, "&&")),
        ("absent values in a loop", "list.map(x, list.?a)".into()),
        ("conversions", "list.map(x, string(x) + string(double(x)))".into()),
        ("depth", format!("[{}]", many("deep == deep", 20, ","))),
    ] {
        let result = soon(what, || value(&expression, &scope));
        println!(
            "  {}",
            result.map_or_else(|error| error, |value| value.to_string().chars().take(60).collect())
        );
    }
    for (what, expression) in [
        ("two loops", "list.all(x, list.all(y, x != y || true))"),
        (
            "an error that would be passed over",
            "list.exists(x, list.all(y, list.all(z, true) || true) || true) || true",
        ),
    ] {
        let error = value(expression, &scope).unwrap_err();
        assert!(error.contains("too much work") || error.contains("loops"), "{what}: {error}");
    }
}

/// Patterns that have to be compiled anew each time, and looked for in a text that leads through most of what
/// they can be in.
#[test]
fn patterns_that_differ_cost_what_they_are() {
    let numbers: Vec<u32> = (0..100).collect();
    let scope = scope(&json!({"l": numbers, "s": "a".repeat(1_000)}), &[]);
    let attack = "input.l.all(i, !input.s.matches('(a|aa|aaa){500}c' + string(i)))";
    let error = soon("patterns that differ", || value(attack, &scope)).unwrap_err();
    assert!(error.contains("too much work"), "{error}");
}

#[test]
fn items_cannot_grow_without_bounds() {
    let scope = scope(&json!("x".repeat(60_000)), &[]);
    let large = with_input(json!({"all": "${input}"}));
    let bound = large.bind(&scope);
    let refused =
        (0..100_000).find_map(|index| bound.item(index, &json!(index)).err().map(|error| (index, error)));
    let (index, error) = refused.unwrap();
    println!("refused after {index} items");
    assert!(index > 500 && error.contains("with all its items"), "{error}");
}

/// What people do with the largest results is not refused.
#[test]
fn large_results_can_be_used() {
    let objects: Vec<Value> =
        (0..10_000).map(|n| json!({"id": n, "big": n % 2 == 0, "name": format!("region {n}")})).collect();
    let scope = scope(&json!({"limit": 10}), &[("list", json!(objects))]);
    let count = |expression: &str| value(expression, &scope).map(|value| value.as_array().unwrap().len());
    assert_eq!(count("list.filter(x, x.big).map(x, x.id)"), Ok(5_000));
    assert_eq!(count("list.filter(x, x.name.matches('^region [0-9]$') && x.id < input.limit)"), Ok(10));
    assert_eq!(count("list.map(x, {'id': x.id, 'name': x.name})"), Ok(10_000));
}

#[test]
fn templates_cannot_grow_without_bounds() {
    let scope = scope(&json!("x".repeat(500_000)), &[]);
    let text = "${input}".repeat(1_000);
    let error = soon("a long text", || with_input(json!(text)).bind(&scope).input().unwrap_err());
    assert!(error.contains("more than 1048576 bytes"), "{error}");
    let list: Vec<&str> = vec!["${input}"; 1_000];
    assert!(soon("a long list", || with_input(json!(list)).bind(&scope).input().is_err()));
    let many = step(json!({"run": "x", "input": "${1}".repeat(1_001)}));
    let flaws = soon("many expressions", || Expressions::of(&many).unwrap_err());
    assert_eq!(flaws[0].problem, "there are too many expressions");
    assert_eq!(flaws.len(), 1);
    let most = with_input(json!("${1}".repeat(1_000)));
    assert_eq!(most.bind(&scope).input().unwrap().as_str().len(), 1_002);
}

/// Many items cost what they cost one by one, not what all results cost each time.
#[test]
fn items_share_what_they_read() {
    let scope = scope(&json!(null), &[("list", json!((0..100_000).collect::<Vec<u32>>()))]);
    let expressions = with_input(json!({"it": "${item}", "of": "${list[index]}"}));
    let bound = expressions.bind(&scope);
    for index in 0..10_000 {
        let payload = bound.item(index, &json!(index)).unwrap();
        assert_eq!(payload.as_str(), format!(r#"{{"it":{index},"of":{index}}}"#));
    }
}
