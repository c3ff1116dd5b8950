//! Whatever is written: no panic, and the same answer twice.

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass::flow::{self, Expressions};

use super::evaluation::{scope, step};

/// Pieces that expressions are made of, so that many of the random ones mean something.
const WORDS: [&str; 56] = [
    "input",
    "a",
    "b",
    "steps",
    "item",
    "1",
    "2u",
    "0.5",
    "-",
    "+",
    "*",
    "/",
    "%",
    "==",
    "!=",
    "<",
    ">=",
    "&&",
    "||",
    "!",
    "?",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ".",
    ",",
    "'x'",
    "\"y\"",
    "true",
    "null",
    "in",
    ".map(x, x)",
    ".filter(x, x > 1)",
    ".all(x, true)",
    ".exists(y, y)",
    ".size()",
    "size(",
    "has(a.b)",
    ".?c",
    "[?0]",
    ".orValue(1)",
    "string(",
    "int(",
    "x",
    ".matches('a+')",
    " ",
    "\n",
    "r'\\'",
    "// c\n",
    "b'z'",
    "'",
    "`",
];

fn expressions() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(&WORDS[..]), 0..24).prop_map(|words| words.concat()),
        prop::collection::vec(prop::sample::select(&WORDS[..]), 0..12).prop_map(|words| words.join(" ")),
        "\\PC{0,40}",
        any::<String>(),
    ]
}

fn outcome(fields: &Value) -> String {
    let input = json!({"a": [1, 2, 3], "b": {"z": 1, "y": [true], "x": "t"}, "c": null});
    let scope = scope(&input, &[("a", json!({"b": 1, "c": [4, 5.5]})), ("b", json!(["p", "q"]))]);
    match Expressions::of(&step(fields.clone())) {
        Err(flaws) => format!("{flaws:?}"),
        Ok(expressions) => {
            let bound = expressions.bind(&scope);
            let item = bound.item(3, &json!({"k": "v"}));
            format!("{:?} {:?} {:?} {item:?}", bound.condition(), bound.list(), bound.input())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn expressions_never_panic_and_always_give_the_same(one in expressions(), other in expressions()) {
        let fields = json!({
            "run": "x", "if": one, "map": {"over": other}, "input": [format!("${{{one}}}"), format!("a ${{{other}}} b {one}")],
        });
        prop_assert_eq!(outcome(&fields), outcome(&fields));
    }

    #[test]
    fn files_never_panic(text in prop_oneof![
        "[a-z:\\-\\[\\]{}&*!|>'\"%@`#,? \n\t~<]{0,80}",
        any::<String>(),
        "(name: x\n)?steps:\n(  [a-c]: \\{(run: x, )?(needs: [a-c], )?(if: [a-z.>]{0,6})?\\}\n){0,4}",
    ]) {
        let told = |result: Result<_, Vec<flow::Problem>>| match result {
            Ok((_, problems)) => format!("{problems:?}"),
            Err(problems) => format!("{problems:?}"),
        };
        let lines = text.split('\n').count();
        if let Err(problems) = flow::check(&text) {
            for problem in problems {
                prop_assert!(problem.line.is_some_and(|line| line <= lines + 1), "{problem:?}");
            }
        }
        let check = |text| flow::check(text).map(|(document, problems)| (document.into_blueprint(), problems));
        prop_assert_eq!(told(check(&text)), told(check(&text)));
    }
}
