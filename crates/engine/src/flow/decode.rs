//! From the tree of a file to the model of a definition, with errors that know their path and place.

use std::fmt;

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess, Unexpected,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::node::{Content, Entry, Node};
use super::problem::{Place, Problem, did_you_mean, quote};

/// Why a node is not what the model wants. The path grows from its end while the error goes up the tree.
#[derive(Debug)]
pub(super) struct Fault {
    place: Option<Place>,
    path: Vec<String>,
    /// None: what the node is, which is said where it is known.
    problem: Option<String>,
    advice: String,
}

impl Fault {
    fn new(problem: Option<String>, advice: impl Into<String>) -> Self {
        Self { place: None, path: Vec::new(), problem, advice: advice.into() }
    }

    /// Fills in what only the node knows.
    fn of(mut self, node: &Node) -> Self {
        self.place.get_or_insert(node.place);
        self.problem.get_or_insert_with(|| format!("it is {}", node.describe()));
        self
    }

    /// As a problem below `path`.
    pub(super) fn below(self, path: &str) -> Problem {
        let mut whole = path.to_string();
        for part in self.path.iter().rev() {
            if !part.starts_with('[') && !whole.is_empty() {
                whole.push('.');
            }
            whole += part;
        }
        let problem = Problem::new(whole, self.problem.unwrap_or_default(), self.advice);
        match self.place {
            Some(place) => problem.at(place),
            None => problem,
        }
    }
}

impl std::error::Error for Fault {}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.problem.as_deref().unwrap_or("it is something else"), self.advice)
    }
}

impl de::Error for Fault {
    /// Values that refuse a text say `field is "value"; expected what`; choices say what they expect.
    fn custom<T: fmt::Display>(message: T) -> Self {
        let message = message.to_string();
        match message.split_once("; expected ") {
            Some((problem, expected)) => {
                let value = problem.split_once(" is ").map_or(problem, |(_, value)| value);
                Self::new(Some(format!("it is {value}")), format!("write {expected}"))
            }
            None => Self::new(None, format!("write {message}")),
        }
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(None, format!("write {}", plain(&expected.to_string())))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::new(None, format!("write {}", plain(&expected.to_string())))
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let near = did_you_mean(variant, expected.iter().copied());
        let advice = near.unwrap_or_else(|| format!("possible are {}", expected.join(", ")));
        Self::new(Some(format!("it is {}", quote(variant))), advice)
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        let near = did_you_mean(field, expected.iter().copied());
        let advice = near.unwrap_or_else(|| format!("possible are {}", expected.join(", ")));
        Self::new(Some(format!("there is no field {}", quote(field))), advice)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Some(format!("{field:?} is missing")), "add it")
    }
}

/// What serde calls types, in words.
fn plain(expected: &str) -> String {
    match expected {
        "a string" => "a text; numbers and truth values need quotes to be one".into(),
        "u8" => "a whole number from 0 to 255".into(),
        "u32" => "a whole number from 0 to 4294967295".into(),
        "i32" => "a whole number from -2147483648 to 2147483647".into(),
        "u64" | "usize" => "a whole number".into(),
        "f64" => "a number".into(),
        _ if expected.starts_with("struct ") => "fields, each as `name: value`".into(),
        _ if expected.starts_with("enum ") || expected.starts_with("variant ") => "one of its words".into(),
        _ => expected.into(),
    }
}

/// Reads a node as a type of the model.
pub(super) struct Decoder<'a> {
    node: &'a Node,
    /// The key whose value is passed over as if it were `{}`.
    without: Option<&'static str>,
}

impl<'a> Decoder<'a> {
    pub(super) fn new(node: &'a Node) -> Self {
        Self { node, without: None }
    }

    /// The steps of a file are read one by one, so that each can have its own error.
    pub(super) fn without(node: &'a Node, key: &'static str) -> Self {
        Self { node, without: Some(key) }
    }
}

impl<'de> Deserializer<'de> for Decoder<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let decoded = match &self.node.content {
            Content::Null => visitor.visit_unit(),
            Content::Bool(truth) => visitor.visit_bool(*truth),
            Content::Signed(number) => visitor.visit_i64(*number),
            Content::Unsigned(number) => visitor.visit_u64(*number),
            Content::Float(number) => visitor.visit_f64(*number),
            Content::Text(text) => visitor.visit_str(text),
            Content::List(items) => visitor.visit_seq(Items { items, next: 0 }),
            Content::Map(entries) => {
                visitor.visit_map(Entries { entries: entries.iter(), value: None, without: self.without })
            }
        };
        decoded.map_err(|fault| fault.of(self.node))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.node.content {
            Content::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let node = self.node;
        let decoded = match &node.content {
            Content::Text(text) => {
                let word: StrDeserializer<'_, Fault> = (**text).into_deserializer();
                visitor.visit_enum(word)
            }
            Content::Map(entries) if entries.len() == 1 => visitor.visit_enum(Variant { entry: &entries[0] }),
            _ => Err(Fault::new(None, format!("write one of {}", variants.join(", ")))),
        };
        decoded.map_err(|fault| fault.of(node))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

struct Items<'a> {
    items: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        let decoded = seed.deserialize(Decoder::new(node));
        decoded.map(Some).map_err(|fault| under(fault.of(node), format!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len() - self.next)
    }
}

struct Entries<'a> {
    entries: std::slice::Iter<'a, Entry>,
    value: Option<&'a Entry>,
    without: Option<&'static str>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Fault> {
        let Some(entry) = self.entries.next() else { return Ok(None) };
        self.value = Some(entry);
        let key: StrDeserializer<'_, Fault> = (*entry.key).into_deserializer();
        let decoded = seed.deserialize(key).map_err(|mut fault| {
            fault.place = Some(entry.place);
            under(fault, entry.key.to_string())
        });
        decoded.map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let Some(entry) = self.value.take() else {
            return Err(Fault::new(Some("a value comes before its key".into()), ""));
        };
        if self.without == Some(&*entry.key) && matches!(entry.value.content, Content::Map(_)) {
            let nothing = Entries { entries: [].iter(), value: None, without: None };
            return seed.deserialize(MapAccessDeserializer::new(nothing));
        }
        // Here too, for types that read a text and then refuse it.
        let decoded = seed.deserialize(Decoder::new(&entry.value));
        decoded.map_err(|fault| under(fault.of(&entry.value), entry.key.to_string()))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

fn under(mut fault: Fault, part: String) -> Fault {
    fault.path.push(part);
    fault
}

/// `{at_least: 2}`.
struct Variant<'a> {
    entry: &'a Entry,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Fault> {
        let key: StrDeserializer<'_, Fault> = (*self.entry.key).into_deserializer();
        Ok((seed.deserialize(key)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        let word = &self.entry.key;
        Err(Fault::new(None, format!("write {word} alone")))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Fault> {
        let Entry { key, value, .. } = self.entry;
        seed.deserialize(Decoder::new(value)).map_err(|fault| under(fault.of(value), key.to_string()))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        Decoder::new(&self.entry.value).deserialize_any(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        Decoder::new(&self.entry.value).deserialize_any(visitor)
    }
}
