//! Schemas: that of a workflow file itself, and those that files give for the input of their workflows.

use serde_json::Value;
use windlass_core::{Definition, Invalid};

/// The JSON Schema (draft 2020-12) of a workflow file, for editors and other programs. It says less than
/// [`read`](super::read()) checks: a schema knows nothing of cycles and expressions.
pub const SCHEMA: &str = include_str!("definition.schema.json");

#[cfg(feature = "json-schema")]
mod cost;

/// Bytes of stack for a schema and what it is applied to: the library follows references as deep as they go.
#[cfg(feature = "json-schema")]
const STACK: usize = 256 << 20;

/// Whether a value is a JSON Schema that can be checked against in bounded time. References to other
/// documents are refused.
#[cfg(feature = "json-schema")]
pub(super) fn check(schema: &Value) -> Result<(), String> {
    deep(|| {
        cost::check(schema)
            .map_err(|why| format!("the schema cannot be used: {why}"))
            .and_then(|_| compile(schema).map(drop))
    })
}

/// A validator. Its patterns are as large as they may be, and go back as often.
#[cfg(feature = "json-schema")]
fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    let patterns = jsonschema::PatternOptions::fancy_regex()
        .backtrack_limit(cost::STEPS_BACK)
        .size_limit(cost::PATTERN_BYTES)
        .dfa_size_limit(cost::PATTERN_BYTES);
    let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
    compiled.map_err(|error| format!("it is not a JSON Schema: {}", short(&error.to_string())))
}

/// Runs what may recurse deeply.
#[cfg(feature = "json-schema")]
fn deep<T: Send>(work: impl FnOnce() -> Result<T, String> + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let thread = thread.map_err(|error| format!("no thread could be started: {error}"))?;
        thread.join().map_err(|_| "it cannot be checked".to_string())?
    })
}

/// Without the library, what can be seen at a glance.
#[cfg(not(feature = "json-schema"))]
pub(super) fn check(schema: &Value) -> Result<(), String> {
    match schema.get("required") {
        None => Ok(()),
        Some(Value::Array(names)) if names.iter().all(Value::is_string) => Ok(()),
        Some(_) => Err("it is not a JSON Schema: \"required\" is not a list of texts".into()),
    }
}

/// Whether workflows of this definition can have this input.
///
/// With the feature `json-schema` the whole schema counts; without it, only `required` does.
pub fn check_input(definition: &Definition, input: &str) -> Result<(), Invalid> {
    let Some(schema) = &definition.input else { return Ok(()) };
    let refused = |expected: String| Invalid::new("input", input, expected);
    let value: Value =
        serde_json::from_str(input).map_err(|error| refused(format!("JSON that can be read ({error})")))?;
    let fields = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    let is_missing =
        |field: &&str| value.is_null() || value.as_object().is_some_and(|value| !value.contains_key(*field));
    let missing: Vec<&str> = fields.filter_map(Value::as_str).filter(is_missing).collect();
    if !missing.is_empty() {
        return Err(refused(format!("the field(s) {}, which {} needs", missing.join(", "), definition.name)));
    }
    #[cfg(feature = "json-schema")]
    if let Err(expected) = deep(|| check_value(schema, &value)) {
        return Err(refused(expected));
    }
    Ok(())
}

/// What would be expected instead of a value that a schema does not admit.
#[cfg(feature = "json-schema")]
fn check_value(schema: &Value, value: &Value) -> Result<(), String> {
    let cost = cost::check(schema).map_err(|why| format!("a schema that can be used ({why})"))?;
    cost.check_input(value).map_err(|why| format!("one that can be checked ({why})"))?;
    let validator = compile(schema).map_err(|why| format!("a schema that is one ({why})"))?;
    validator.validate(value).map_err(|error| {
        let at = error.instance_path().to_string();
        format!("what its schema says (at {at:?}: {})", short(&error.to_string()))
    })
}

#[cfg(feature = "json-schema")]
fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(300)]
}

#[cfg(test)]
#[cfg(feature = "json-schema")]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde::Deserialize;
    use serde_json::json;

    use super::*;
    use crate::flow::decode::Decoder;
    use crate::flow::node::parse;

    /// Broken files in which the flaw is in what a schema sees.
    const STRUCTURAL: [&str; 15] = [
        "actions",
        "duration",
        "identity",
        "join-word",
        "list",
        "map-missing",
        "map-over",
        "missing",
        "name",
        "on-failure",
        "reserved-name",
        "steps-list",
        "unknown-field",
        "version",
        "wrong-type",
    ];

    fn files(directory: &str) -> Vec<PathBuf> {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.extension().is_some_and(|kind| kind == "yaml" || kind == "json"));
        files.sort();
        files
    }

    fn value(file: &Path) -> Value {
        let root = parse(&fs::read_to_string(file).unwrap()).unwrap();
        Value::deserialize(Decoder::new(&root)).unwrap()
    }

    fn validator() -> jsonschema::Validator {
        jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap()
    }

    /// A schema that doubles at each level.
    fn doubling(levels: usize) -> Value {
        let mut definitions = json!({ "l0": { "type": "object" } });
        for level in 1..=levels {
            let below = json!({ "$ref": format!("#/$defs/l{}", level - 1) });
            definitions[format!("l{level}")] = json!({ "allOf": [below, below] });
        }
        json!({ "$defs": definitions, "$ref": format!("#/$defs/l{levels}") })
    }

    #[test]
    fn schemas_that_cost_too_much_are_refused_when_they_are_stored() {
        assert_eq!(check(&doubling(10)), Ok(()));
        let many: Vec<Value> = (0..40).map(|n| json!({ "pattern": format!(r"\pL{{{n}}}") })).collect();
        for (schema, told) in [
            (doubling(25), "more than 10000 keywords"),
            (doubling(60), "levels deep"),
            (json!({ "properties": { "a": { "items": doubling(0) } } }), "refers to nothing"),
            (json!({ "$ref": "#" }), "leads back to itself"),
            (
                json!({ "properties": { "a": { "anyOf": [{ "$ref": "#/properties/a" }] } } }),
                "leads back to itself",
            ),
            (json!({ "$ref": "https://example.com/x" }), "another document"),
            (json!({ "$defs": { "a": { "$id": "x" } } }), "$id"),
            (json!({ "items": { "$dynamicRef": "#a" } }), "$dynamicRef"),
            (
                json!({ "$ref": "#a", "$defs": { "a": { "$anchor": "a" }, "b": { "$anchor": "a" } } }),
                "several",
            ),
            (json!({ "pattern": r"(\pL{50}){50}" }), "too large"),
            (json!({ "anyOf": many }), "too large together"),
            (json!({ "description": "x".repeat(300_000) }), "at most 262144"),
        ] {
            let error = check(&schema).unwrap_err();
            assert!(error.contains(told), "{told}: {error}");
        }
    }

    fn input_of(schema: &Value, input: &Value) -> Result<(), String> {
        let definition = json!({ "name": "x", "input": schema, "steps": { "a": { "task": "y" } } });
        let definition: Definition = serde_json::from_value(definition).unwrap();
        check_input(&definition, &input.to_string()).map_err(|invalid| invalid.to_string())
    }

    #[test]
    fn inputs_that_are_too_much_work_for_their_schema_are_refused() {
        let tree = json!({
            "type": "object", "additionalProperties": false,
            "properties": { "name": { "type": "string" }, "children": { "type": "array", "items": { "$ref": "#" } } },
        });
        let leaf = json!({ "name": "leaf", "children": [] });
        let forest = json!({ "children": (0..1_000).map(|_| json!({ "children": [leaf, leaf] })).collect::<Vec<_>>() });
        assert_eq!(input_of(&tree, &forest), Ok(()));
        assert!(input_of(&tree, &json!({ "children": [{ "nam": 1 }] })).unwrap_err().contains("/children/0"));
        // Each level of the input is checked twice as often as the one above it.
        let twice = json!({ "properties": { "a": { "allOf": [{ "$ref": "#" }, { "$ref": "#" }] } } });
        let deep = |levels| (0..levels).fold(json!({}), |inner, _| json!({ "a": inner }));
        assert_eq!((check(&twice), input_of(&twice, &deep(10))), (Ok(()), Ok(())));
        assert!(input_of(&twice, &deep(60)).unwrap_err().contains("too much work"));
        let patterns = json!({ "items": { "pattern": "(a|aa|aaa){500}c" } });
        assert!(!input_of(&patterns, &json!(["ac", "b"])).unwrap_err().contains("too much work"));
        let long: Vec<String> = (0..100).map(|_| "a".repeat(1_000)).collect();
        assert!(input_of(&patterns, &json!(long)).unwrap_err().contains("too much work"));
        let back = json!({ "items": { "pattern": "^(?=(a+)+$)b" } });
        assert!(input_of(&back, &json!(long)).unwrap_err().contains("too much work"));
        assert_eq!(input_of(&json!({ "pattern": "^(?!x)a" }), &json!("abc")), Ok(()));
    }

    /// The library follows references as deep as they go, and so does what counts them.
    #[test]
    fn long_ways_through_a_schema_fit_on_the_stack() {
        let mut definitions = serde_json::Map::new();
        for n in 0..4_000 {
            let next = json!({ "properties": { "a": { "$ref": format!("#/$defs/d{}", n + 1) } } });
            definitions.insert(format!("d{n}"), next);
        }
        definitions.insert("d4000".into(), json!({}));
        let schema = json!({ "$defs": definitions, "$ref": "#/$defs/d0" });
        assert_eq!(check(&schema), Ok(()));
        assert_eq!(input_of(&schema, &json!({ "a": { "a": 1 } })), Ok(()));
    }

    #[test]
    fn good_files_satisfy_the_schema() {
        let validator = validator();
        for file in files("tests/flow/good").into_iter().chain(files("../../examples/workflows")) {
            let told: Vec<String> = validator
                .iter_errors(&value(&file))
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(told.is_empty(), "{}: {told:?}", file.display());
        }
    }

    #[test]
    fn what_is_broken_in_form_does_not() {
        let validator = validator();
        for name in STRUCTURAL {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/flow/broken/{name}.yaml"));
            assert!(!validator.is_valid(&value(&file)), "{name}");
        }
    }

    /// Each field of the model is in the schema, and none else: what serde writes of a full definition, and
    /// what it refuses.
    #[test]
    fn the_schema_has_the_fields_of_the_model() {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        for (pointer, wrong) in [
            ("", r#"{"name": "x", "steps": {}, "?": 1}"#),
            ("/properties/defaults", r#"{"name": "x", "defaults": {"?": 1}, "steps": {}}"#),
            ("/$defs/step", r#"{"name": "x", "steps": {"a": {"?": 1}}}"#),
            ("/$defs/retry", r#"{"name": "x", "defaults": {"retry": {"?": 1}}, "steps": {}}"#),
            ("/$defs/step/properties/map", r#"{"name": "x", "steps": {"a": {"map": {"?": 1}}}}"#),
            ("/$defs/step/properties/lane", r#"{"name": "x", "steps": {"a": {"lane": {"?": 1}}}}"#),
        ] {
            let error = serde_json::from_str::<Definition>(wrong).unwrap_err().to_string();
            let mut model: Vec<&str> = error.split('`').skip(3).step_by(2).collect();
            let properties = schema.pointer(&format!("{pointer}/properties")).unwrap().as_object().unwrap();
            let mut known: Vec<&str> = properties.keys().map(String::as_str).collect();
            model.sort_unstable();
            known.sort_unstable();
            assert_eq!(known, model, "{pointer}");
        }
    }
}
