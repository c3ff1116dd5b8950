//! Schemas: that of a workflow file itself, and those that files give for the input of their workflows.

use serde_json::Value;
use windlass_core::{Definition, Invalid};

/// The JSON Schema (draft 2020-12) of a workflow file, for editors and other programs. It says less than [`read`](super::read()) checks: a
/// schema knows nothing of cycles and expressions.
pub const SCHEMA: &str = include_str!("definition.schema.json");

#[cfg(feature = "json-schema")]
mod cost;

/// Bytes of stack for a schema and what it is applied to: the library follows references as deep as they go.
#[cfg(feature = "json-schema")]
const STACK: usize = 256 << 20;

/// Whether a value is a JSON Schema that can be checked against in bounded time. References to other documents are refused.
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

    /// Each field of the model is in the schema, and none else: what serde writes of a full definition, and what it refuses.
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
