//! A definition as a file. What is written is YAML that people would write, not all that YAML could be: maps
//! in blocks, everything else on one line. The order of steps is kept, which a `Value` could not do.

use std::fmt;

use anyhow::Result;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::escape;

/// JSON whose maps keep their order.
#[derive(Debug)]
enum Tree {
    Scalar(Value),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// YAML with the same meaning as a JSON text.
pub(super) fn text(json: &str) -> Result<String> {
    let mut text = String::new();
    match serde_json::from_str(json)? {
        Tree::Map(entries) if !entries.is_empty() => block(&entries, 0, &mut text),
        other => text = format!("{}\n", line(&other)),
    }
    Ok(text)
}

fn block(entries: &[(String, Tree)], depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    for (key, value) in entries {
        let key = scalar(key);
        match value {
            Tree::Map(entries) if !entries.is_empty() => {
                *text += &format!("{indent}{key}:\n");
                block(entries, depth + 1, text);
            }
            other => *text += &format!("{indent}{key}: {}\n", line(other)),
        }
    }
}

fn line(tree: &Tree) -> String {
    match tree {
        Tree::Scalar(Value::String(text)) => scalar(text),
        Tree::Scalar(value) => value.to_string(),
        Tree::List(items) => format!("[{}]", items.iter().map(line).collect::<Vec<_>>().join(", ")),
        Tree::Map(entries) => {
            let entry = |(key, value): &(String, Tree)| format!("{}: {}", quoted(key), line(value));
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(", "))
        }
    }
}

/// A text, in quotes unless it can only be a text.
fn scalar(text: &str) -> String {
    let is_word = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/'));
    let is_something_else = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
        .iter()
        .any(|word| text.eq_ignore_ascii_case(word));
    if is_word && !is_something_else { text.into() } else { quoted(text) }
}

/// A text in quotes: what JSON writes is YAML too, once everything unusual is escaped.
fn quoted(text: &str) -> String {
    escape::json(&Value::from(text).to_string())
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;

        impl<'de> Visitor<'de> for Any {
            type Value = Tree;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E: Error>(self) -> Result<Tree, E> {
                Ok(Tree::Scalar(Value::Null))
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<Tree, E> {
                Ok(Tree::Scalar(value.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Tree::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Tree, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Tree::Map(map))
            }
        }

        deserializer.deserialize_any(Any)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use windlass::flow;

    #[test]
    fn a_definition_reads_back_as_it_was() {
        let file = r#"
name: all-of-it
version: "0.10"
description: "odd: # \u0085 \u202e\u001b \" 'text' ünï👍\nof two lines"
input: { type: object, properties: { "a b": { enum: [null, true, "true", 1, 1.5, -3, "3", {}, [], {"x": [1]}] } } }
defaults: { retry: { max_attempts: 5, initial: 1s, max: 1m, factor: 1.5 }, timeout: 90s, priority: -3 }
steps:
  zebra: { run: "echo '${input}' | cat\nexit 1" }
  apple: { task: "a:b", needs: zebra, if: "zebra.n > 3", input: { on: "${zebra}", y: "no", "~": "~" } }
  mango: { workflow: { name: other, version: 2 }, needs: [zebra, apple], join: { at_least: 1 } }
  each: { task: each, map: { over: "[1, 2]", max_parallel: 2 } }
  some: { task: some, map: { over: [1, { a: b }] }, lane: { key: "a b", limit: 3 } }
on_failure: fail_fast
"#;
        let read =
            |text: &str| flow::read(text).map_err(|it| format!("{it:?}: {text}")).unwrap().into_blueprint();
        let before = read(file);
        let written = text(&serde_json::to_string(before.definition()).unwrap()).unwrap();
        assert_eq!(*read(&written).definition(), *before.definition(), "{written}");
        assert!(written.starts_with("name: all-of-it\nversion: \"0.10\"\n"), "{written}");
        assert!(written.contains("\n  apple:\n    task: \"a:b\"\n    needs: [zebra]\n"), "{written}");
    }

    #[test]
    fn every_example_reads_back_as_it_was() {
        let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/workflows");
        for file in std::fs::read_dir(examples).unwrap() {
            let path = file.unwrap().path();
            let before = flow::read(&std::fs::read_to_string(&path).unwrap()).unwrap().into_blueprint();
            let written = text(&serde_json::to_string(before.definition()).unwrap()).unwrap();
            assert_eq!(flow::read(&written).unwrap().definition(), before.definition(), "{}", path.display());
        }
    }

    #[test]
    fn what_is_no_map_is_a_line() {
        assert_eq!(text("[1, {\"a\": null}, \"null\"]").unwrap(), "[1, {\"a\": null}, \"null\"]\n");
        assert_eq!(text("{}").unwrap(), "{}\n");
    }
}
