//! What a JSON Schema costs, counted before the library is given it: references can make a small schema
//! double its work at each level, and the library has no meter.
//!
//! [`check`] looks at the schema alone, when it is stored: how much is applied to one place of an input, with
//! references replaced by what they refer to. [`Cost::of`] counts what one input takes: it goes through
//! schema and input as a validator does, and does nothing but count. Both count and keep no time, so the
//! answer is the same on every machine.

use std::collections::HashMap;

use regex_automata::nfa::thompson;
use serde_json::{Map, Value};

/// Bytes of a schema as JSON.
const SCHEMA_BYTES: usize = 256 << 10;

/// Keywords that are applied to one place of an input.
const EXPANDED: usize = 10_000;

/// References and conditions within one another that are applied to one place of an input.
const WITHIN: usize = 100;

/// States of all patterns.
const PATTERN_STATES: usize = 200_000;

/// Bytes of one compiled pattern.
pub(super) const PATTERN_BYTES: usize = 1 << 20;

/// Steps back of a pattern that needs them: one with look-around.
pub(super) const STEPS_BACK: usize = 10_000;

/// Steps that one input may take. A step is about ten nanoseconds at the very most.
const STEPS: usize = 100_000_000;

/// Steps that it takes to apply a schema, beside what it looks at.
const APPLIED: usize = 20;

/// Places of an input and of a schema within one another.
const NESTED: usize = 400;

/// In-place applicators that hold a list of schemas, one schema, and schemas by name.
const LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
const SINGLE: [&str; 4] = ["not", "if", "then", "else"];
const BY_PROPERTY: [&str; 2] = ["dependentSchemas", "dependencies"];

/// Applicators to what is within a value.
const TO_ITEMS: [&str; 4] = ["items", "contains", "additionalItems", "unevaluatedItems"];
const TO_PROPERTIES: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
const NAMED: [&str; 2] = ["properties", "patternProperties"];

/// A schema whose references were found to be its own.
pub(super) struct Schema<'s> {
    root: &'s Value,
    /// By pattern, the states that it has as an automaton; none, if it needs steps back.
    patterns: HashMap<&'s str, Option<usize>>,
}

/// Checks that a schema costs no more than may be, whatever the input is.
pub(super) fn check(root: &Value) -> Result<Schema<'_>, String> {
    let bytes = serde_json::to_string(root).map_or(usize::MAX, |text| text.len());
    if bytes > SCHEMA_BYTES {
        return Err(format!("the schema has {bytes} bytes; at most {SCHEMA_BYTES} are possible"));
    }
    let is_old = root.get("$schema").and_then(Value::as_str).is_some_and(|draft| draft.contains("draft-04"));
    check_references(root, if is_old { "id" } else { "$id" }, true)?;
    let mut schema = Schema { root, patterns: HashMap::new() };
    let (mut sizes, mut states) = (HashMap::new(), 0);
    let mut left = vec![root];
    while let Some(next) = left.pop() {
        let known = sizes.len();
        let SchemaSize { size, .. } = schema.size(next, &mut sizes, &mut left, WITHIN)?;
        if size > EXPANDED {
            return Err(format!(
                "with its references replaced by what they refer to, more than {EXPANDED} keywords of the schema are applied to one place of an input"
            ));
        }
        if sizes.len() > known {
            states = schema.patterns.values().flatten().sum();
        }
        if states > PATTERN_STATES {
            return Err("its patterns are too large together".into());
        }
    }
    Ok(schema)
}

/// Refuses references whose meaning depends on more than the place in this document that they name.
fn check_references(value: &Value, id: &str, is_root: bool) -> Result<(), String> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| check_references(item, id, false)),
        Value::Object(entries) => entries.iter().try_for_each(|(key, value)| match (&**key, value) {
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                Err(format!("{key} is not supported; use $ref"))
            }
            (key, Value::String(_)) if key == id && !is_root => {
                Err(format!("a schema within it has an {id}; write references as #/$defs/name instead"))
            }
            _ => check_references(value, id, false),
        }),
        _ => Ok(()),
    }
}

/// How much of a schema is applied to one place.
#[derive(Clone, Copy)]
struct SchemaSize {
    size: usize,
    /// The same where a schema around it asks what was evaluated: that goes through it again at each level.
    twice: usize,
}

impl<'s> Schema<'s> {
    /// What a reference refers to.
    fn resolve(&self, reference: &str) -> Result<&'s Value, String> {
        let unknown = || format!("the reference {reference:?} refers to nothing in the schema");
        let Some(place) = reference.strip_prefix('#') else {
            return Err(format!(
                "the reference {reference:?} is to another document; write one such as #/$defs/name"
            ));
        };
        if place.is_empty() || place.starts_with('/') {
            let place = percent_decoded(place).ok_or_else(unknown)?;
            return self.root.pointer(&place).ok_or_else(unknown);
        }
        let mut found = Vec::new();
        find_anchors(self.root, place, &mut found);
        match found[..] {
            [one] => Ok(one),
            [] => Err(unknown()),
            _ => Err(format!("several schemas have the anchor {place:?}; give each its own")),
        }
    }

    /// The schemas that are applied to the same place as this one, with whether that is so only for some
    /// inputs.
    fn beside(&self, schema: &'s Map<String, Value>) -> Result<Vec<&'s Value>, String> {
        let mut beside = Vec::new();
        for (key, value) in schema {
            match (&**key, value) {
                ("$ref", Value::String(reference)) => beside.push(self.resolve(reference)?),
                (key, Value::Array(list)) if LISTS.contains(&key) => beside.extend(list),
                (key, value) if SINGLE.contains(&key) => beside.push(value),
                (key, Value::Object(entries)) if BY_PROPERTY.contains(&key) => {
                    beside.extend(entries.values().filter(|value| !value.is_array()));
                }
                _ => {}
            }
        }
        Ok(beside)
    }

    /// How much is applied to one place; the schemas that are applied to what is within it are gathered in
    /// `within`.
    fn size(
        &mut self,
        schema: &'s Value,
        known: &mut HashMap<*const Value, Option<SchemaSize>>,
        within: &mut Vec<&'s Value>,
        levels: usize,
    ) -> Result<SchemaSize, String> {
        let Value::Object(entries) = schema else { return Ok(SchemaSize { size: 1, twice: 1 }) };
        match known.get(&std::ptr::from_ref(schema)) {
            Some(Some(size)) => return Ok(*size),
            Some(None) => {
                return Err("a reference leads back to itself without going further into the input".into());
            }
            None => {}
        }
        if levels == 0 {
            return Err(format!("references, conditions and the like are more than {WITHIN} levels deep"));
        }
        known.insert(schema, None);
        let mut own = 1 + entries.len();
        for (key, value) in entries {
            match (&**key, value) {
                ("pattern", Value::String(pattern)) => self.weigh_pattern(pattern)?,
                ("enum" | "required", Value::Array(list)) => own += list.len(),
                (key, Value::Object(named)) if NAMED.contains(&key) => {
                    own += named.len();
                    within.extend(named.values());
                    if key == "patternProperties" {
                        named.keys().try_for_each(|pattern| self.weigh_pattern(pattern))?;
                    }
                }
                ("prefixItems" | "items", Value::Array(list)) => {
                    own += list.len();
                    within.extend(list);
                }
                (key, value)
                    if TO_ITEMS.contains(&key) || TO_PROPERTIES.contains(&key) || key == "propertyNames" =>
                {
                    within.push(value);
                }
                _ => {}
            }
        }
        let mut sum = SchemaSize { size: own, twice: own };
        let asks = asks_what_was_evaluated(entries);
        for beside in self.beside(entries)? {
            let size = self.size(beside, known, within, levels - 1)?;
            sum.size = sum.size.saturating_add(if asks { size.twice.saturating_mul(2) } else { size.size });
            sum.twice = sum.twice.saturating_add(size.twice.saturating_mul(2));
        }
        known.insert(schema, Some(sum));
        Ok(sum)
    }

    fn weigh_pattern(&mut self, pattern: &'s str) -> Result<(), String> {
        if self.patterns.contains_key(pattern) {
            return Ok(());
        }
        let config = thompson::Config::new().nfa_size_limit(Some(PATTERN_BYTES));
        let states = match thompson::Compiler::new().configure(config).build(pattern) {
            Ok(automaton) => Some(automaton.states().len()),
            Err(error) if error.size_limit().is_some() => {
                return Err(format!("the pattern {} is too large", super::super::problem::quote(pattern)));
            }
            Err(_) => None,
        };
        self.patterns.insert(pattern, states);
        Ok(())
    }

    /// Counts what validating an input takes; fails if that is more than it may.
    pub(super) fn check_input(&self, input: &Value) -> Result<(), String> {
        let mut cost = Cost { schema: self, left: STEPS };
        cost.apply(self.root, input, size(input), 1, false, NESTED)
    }
}

fn asks_what_was_evaluated(schema: &Map<String, Value>) -> bool {
    schema.contains_key("unevaluatedProperties") || schema.contains_key("unevaluatedItems")
}

/// Counts the steps that validation takes.
struct Cost<'a, 's> {
    schema: &'a Schema<'s>,
    left: usize,
}

impl<'s> Cost<'_, 's> {
    fn spend(&mut self, steps: usize) -> Result<(), String> {
        self.left = self.left.checked_sub(steps).ok_or_else(|| {
            format!("the input and its schema together are too much work: checking it takes more than {STEPS} steps")
        })?;
        Ok(())
    }

    /// Counts a schema at one place, so many times. `seen` is how large that place is; `asks`, whether
    /// something around it asks what was evaluated.
    fn apply(
        &mut self,
        schema: &'s Value,
        value: &Value,
        seen: usize,
        times: usize,
        asks: bool,
        levels: usize,
    ) -> Result<(), String> {
        self.spend(times.saturating_mul(APPLIED + seen))?;
        let Value::Object(entries) = schema else { return Ok(()) };
        let Some(levels) = levels.checked_sub(1) else {
            return Err(format!(
                "the input and its schema are nested more than {NESTED} levels deep together"
            ));
        };
        for (key, schema) in entries {
            let steps = match (&**key, schema, value) {
                ("pattern", Value::String(pattern), Value::String(text)) => self.pattern(pattern, text),
                ("format", _, Value::String(text)) => text.len() * 100,
                ("enum", Value::Array(list), _) => list.len() * APPLIED + size(schema),
                ("const", ..) => size(schema),
                ("uniqueItems", ..) => seen * 4,
                ("required" | "dependentRequired", ..) => size(schema) * APPLIED,
                _ => 1,
            };
            self.spend(steps.saturating_mul(times))?;
        }
        let asks = asks || asks_what_was_evaluated(entries);
        let again = if asks { times.saturating_mul(2) } else { times };
        for beside in self.schema.beside(entries)? {
            self.apply(beside, value, seen, again, asks, levels)?;
        }
        match value {
            Value::Array(items) => self.items(entries, items, times, levels),
            Value::Object(properties) => self.properties(entries, properties, times, levels),
            _ => Ok(()),
        }
    }

    fn items(
        &mut self,
        schema: &'s Map<String, Value>,
        items: &[Value],
        times: usize,
        levels: usize,
    ) -> Result<(), String> {
        let single = TO_ITEMS.iter().filter_map(|key| schema.get(*key)).filter(|value| !value.is_array());
        let single: Vec<&Value> = single.collect();
        let lists = ["prefixItems", "items"].iter().filter_map(|key| schema.get(*key)?.as_array());
        let lists: Vec<&Vec<Value>> = lists.collect();
        if single.is_empty() && lists.is_empty() {
            return Ok(());
        }
        for (at, item) in items.iter().enumerate() {
            let own = lists.iter().filter_map(|list| list.get(at));
            for schema in own.chain(single.iter().copied()) {
                self.apply(schema, item, size(item), times, false, levels)?;
            }
        }
        Ok(())
    }

    fn properties(
        &mut self,
        schema: &'s Map<String, Value>,
        properties: &Map<String, Value>,
        times: usize,
        levels: usize,
    ) -> Result<(), String> {
        let named = schema.get("properties").and_then(Value::as_object);
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let others: Vec<&Value> = TO_PROPERTIES.iter().filter_map(|key| schema.get(*key)).collect();
        let names = schema.get("propertyNames");
        if named.is_none() && patterns.is_none() && others.is_empty() && names.is_none() {
            return Ok(());
        }
        for (name, value) in properties {
            let seen = size(value);
            if let Some(schema) = named.and_then(|named| named.get(name)) {
                self.apply(schema, value, seen, times, false, levels)?;
            }
            // Whether a pattern matches is not looked at: it is counted as if it did.
            for (pattern, schema) in patterns.into_iter().flatten() {
                let steps = self.pattern(pattern, name).saturating_mul(2 + others.len());
                self.spend(steps.saturating_mul(times))?;
                self.apply(schema, value, seen, times, false, levels)?;
            }
            for schema in &others {
                self.apply(schema, value, seen, times, false, levels)?;
            }
            if let Some(schema) = names {
                self.apply(schema, &Value::String(name.clone()), name.len() / 16 + 1, times, false, levels)?;
            }
        }
        Ok(())
    }

    /// How many steps a pattern takes in a text: as many as it has states, for each byte.
    fn pattern(&self, pattern: &str, text: &str) -> usize {
        let states = self.schema.patterns.get(pattern).copied().flatten().unwrap_or(STEPS_BACK);
        states.saturating_mul(text.len() + 1)
    }
}

/// How large a value is: its parts, and 16 bytes of text each.
fn size(value: &Value) -> usize {
    match value {
        Value::String(text) => 1 + text.len() / 16,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(entries) => {
            1 + entries.iter().map(|(key, value)| key.len() / 16 + size(value)).sum::<usize>()
        }
        _ => 1,
    }
}

fn find_anchors<'s>(value: &'s Value, name: &str, found: &mut Vec<&'s Value>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| find_anchors(item, name, found)),
        Value::Object(entries) => {
            let is_name = |key: &str| entries.get(key).and_then(Value::as_str) == Some(name);
            if is_name("$anchor") || is_name("$dynamicAnchor") {
                found.push(value);
            }
            entries.values().for_each(|value| find_anchors(value, name, found));
        }
        _ => {}
    }
}

/// A pointer as it is written in a reference: `%20` is a blank.
fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(decoded).ok()
}
