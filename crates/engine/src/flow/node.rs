//! The text of a workflow file as a tree in which every node knows its place.
//!
//! YAML 1.2, and therefore JSON. The tree is built from the parser's events with a stack of its own, so
//! neither depth nor size of a hostile file can harm: both are bounded, and so is what aliases repeat.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span};
use windlass_core::limits;

use super::problem::{MOST, Place, Problem, quote};

/// Nodes of one file, repeated ones counted each time: twenty for each of the most steps that there can be.
const NODES: usize = 20 * limits::STEPS;

/// Nesting. A definition itself has six levels; the rest is for schemas and inputs.
const DEPTH: usize = 64;

/// A value and where it begins.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) content: Content,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    Null,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(Box<str>),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key with its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: Box<str>,
    pub(super) place: Place,
    pub(super) value: Node,
}

impl Node {
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| *entry.key == *key),
            _ => None,
        }
    }

    /// What it is, in words.
    pub(super) fn describe(&self) -> String {
        match &self.content {
            Content::Null => "empty".into(),
            Content::Bool(truth) => format!("{truth}"),
            Content::Signed(number) => format!("the number {number}"),
            Content::Unsigned(number) => format!("the number {number}"),
            Content::Float(number) => format!("the number {number}"),
            Content::Text(text) => format!("the text {}", quote(text)),
            Content::List(_) => "a list".into(),
            Content::Map(_) => "an object".into(),
        }
    }

    /// Where a path of the definition, or as much of it as there is, is written. A text or list that begins
    /// on the line of its key is pointed at itself; for others the key says more.
    pub(super) fn find(&self, path: &str) -> Place {
        let (mut node, mut place, mut rest) = (self, self.place, path);
        while !rest.is_empty() {
            rest = rest.strip_prefix('.').unwrap_or(rest);
            let Some((next, at, after)) = node.descend(rest) else { break };
            (node, place, rest) = (next, at, after);
        }
        place
    }

    /// The node that a path begins with, its place, and the rest of the path.
    fn descend<'a>(&self, path: &'a str) -> Option<(&Self, Place, &'a str)> {
        match &self.content {
            Content::List(items) => {
                let (index, after) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                Some((item, item.place, after))
            }
            Content::Map(entries) => {
                // Keys may hold dots: the longest that fits is meant.
                let fits = |entry: &&Entry| {
                    let after = path.strip_prefix(&*entry.key);
                    after.is_some_and(|after| after.is_empty() || after.starts_with(['.', '[']))
                };
                let entry = entries.iter().filter(fits).max_by_key(|entry| entry.key.len())?;
                let is_map = matches!(entry.value.content, Content::Map(_));
                let is_beside = entry.value.place.line == entry.place.line && !is_map;
                let place = if is_beside { entry.value.place } else { entry.place };
                Some((&entry.value, place, &path[entry.key.len()..]))
            }
            _ => None,
        }
    }
}

/// Reads a text. Its root is null if there is nothing in it.
pub(super) fn parse(text: &str) -> Result<Node, Vec<Problem>> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    options.flow_nesting_limit = DEPTH;
    options.block_nesting_limit = DEPTH;
    // JSON has no limit on the length of keys, and this one is a bound of work for each line.
    options.simple_key_max_lookahead = 4_096;
    let mut builder = Builder::default();
    for event in Parser::new_from_str_with_options(text, options) {
        let done = match event {
            Ok((event, span)) => builder.take(event, span),
            Err(error) => Err(syntax(text, &error)),
        };
        done.map_err(|problem| vec![problem])?;
    }
    let root = builder.root.unwrap_or(Node { place: Place { line: 1, column: 1 }, content: Content::Null });
    match builder.duplicates.is_empty() {
        true => Ok(root),
        false => Err(builder.duplicates),
    }
}

fn place(span: Span) -> Place {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Place { line: number(span.start.line()), column: number(span.start.col() + 1) }
}

/// Says what the parser says, and more where people stumble.
fn syntax(text: &str, error: &ScanError) -> Problem {
    let at = error.marker();
    let said = error.to_string();
    // The parser ends its messages with where it was.
    let said = said.split(" at byte ").next().unwrap_or(&said);
    let said = said.split(" at char ").next().unwrap_or(said);
    let said = said.split(" at line ").next().unwrap_or(said);
    let line = text.lines().nth(at.line().saturating_sub(1)).unwrap_or("");
    let advice = if line.trim_start_matches(' ').starts_with('\t') {
        "indent with spaces: YAML does not take tabs for that"
    } else if said.contains("recursion limit") || said.contains("nesting") {
        "at most 64 levels are possible"
    } else if said.contains("mapping values are not allowed") {
        "put a text that holds \": \" into quotes, and check the indentation"
    } else if said.contains("unexpected character") {
        "put a text that begins with such a character into quotes"
    } else if said.contains("unknown anchor") {
        "an alias `*name` needs an anchor `&name` before it; a text that begins with * needs quotes"
    } else {
        "check the indentation, the quotes and the brackets before this place"
    };
    let place = Place {
        line: u32::try_from(at.line()).unwrap_or(u32::MAX),
        column: u32::try_from(at.col() + 1).unwrap_or(u32::MAX),
    };
    Problem::new("", format!("this is not YAML: {said}"), advice).at(place)
}

/// A list or map that is being read.
struct Open {
    place: Place,
    anchor: usize,
    items: Items,
    /// Nodes in it so far, itself included.
    size: usize,
}

enum Items {
    List(Vec<Node>),
    Map { entries: Vec<Entry>, key: Option<(Box<str>, Place)>, known: HashSet<Box<str>>, merged: Vec<Node> },
}

#[derive(Default)]
struct Builder {
    root: Option<Node>,
    documents: usize,
    nodes: usize,
    stack: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    duplicates: Vec<Problem>,
}

impl Builder {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Problem> {
        let place = place(span);
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let advice = "write each workflow into a file of its own";
                    return Err(Problem::new("", "there is a second document", advice).at(place));
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                let text_bytes = text.len();
                let is_plain = style == ScalarStyle::Plain && tag.is_none();
                let content = match is_plain {
                    true => scalar(&text).map_err(|said| Problem::new(self.path(), said, "").at(place))?,
                    false => Content::Text(text.into()),
                };
                if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema_tag("str")) {
                    let problem = format!("tags such as {} are not known", tag.original());
                    return Err(Problem::new(self.path(), problem, "leave it out").at(place));
                }
                // A long text counts as many: aliases repeat it whole.
                let size = 1 + text_bytes / 64;
                self.count(size, place)?;
                self.value(Node { place, content }, anchor, size)?;
            }
            Event::Alias(anchor) => {
                let Some((node, size)) = self.anchors.get(&anchor) else {
                    return Err(Problem::new(self.path(), "it holds itself", "take the alias away").at(place));
                };
                // Counted before it is copied: that is the bound on what a few lines can become.
                let (size, mut node) = (*size, (self.nodes + *size <= NODES).then(|| node.clone()));
                self.count(size, place)?;
                if let Some(mut node) = node.take() {
                    node.place = place;
                    self.value(node, 0, size)?;
                }
            }
            Event::SequenceStart(_, anchor, _) => {
                self.count(1, place)?;
                self.stack.push(Open { place, anchor, items: Items::List(Vec::new()), size: 1 });
            }
            Event::MappingStart(_, anchor, _) => {
                self.count(1, place)?;
                let (entries, known, merged) = (Vec::new(), HashSet::new(), Vec::new());
                let items = Items::Map { entries, key: None, known, merged };
                self.stack.push(Open { place, anchor, items, size: 1 });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(Open { place, anchor, items, size }) = self.stack.pop() else { return Ok(()) };
                let content = match items {
                    Items::List(items) => Content::List(items),
                    Items::Map { entries, known, merged, .. } => Content::Map(merge(entries, known, merged)),
                };
                self.value(Node { place, content }, anchor, size)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn count(&mut self, more: usize, place: Place) -> Result<(), Problem> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes > NODES {
            let advice =
                format!("at most {NODES} values are possible, those that aliases repeat counted each time");
            return Err(Problem::new(self.path(), "there is too much in this file", advice).at(place));
        }
        if self.stack.len() > DEPTH {
            let advice = format!("at most {DEPTH} levels are possible");
            return Err(Problem::new("", "it is nested too deeply", advice).at(place));
        }
        Ok(())
    }

    /// Puts a finished value where it belongs.
    fn value(&mut self, node: Node, anchor: usize, size: usize) -> Result<(), Problem> {
        if anchor > 0 {
            // An anchored node is copied once; counted like an alias, so that nested anchors cannot multiply.
            self.count(size, node.place)?;
            self.anchors.insert(anchor, (node.clone(), size));
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.size += size;
        let Items::Map { entries, key, known, merged } = &mut open.items else {
            if let Items::List(items) = &mut open.items {
                items.push(node);
            }
            return Ok(());
        };
        let Some((name, place)) = key.take() else {
            match name(&node) {
                Ok(name) => *key = Some((name, node.place)),
                Err(problem) => return Err(Problem { path: self.path(), ..problem }),
            }
            return Ok(());
        };
        if *name == *"<<" {
            match node.content {
                Content::List(nodes) => merged.extend(nodes),
                _ => merged.push(node),
            }
        } else if known.insert(name.clone()) {
            entries.push(Entry { key: name, place, value: node });
        } else if self.duplicates.len() < MOST {
            let first = entries.iter().find(|entry| entry.key == name).map_or(0, |entry| entry.place.line);
            let advice = format!("the first is in line {first}; keep one of them");
            let path = self.path();
            let dot = if path.is_empty() { "" } else { "." };
            let path = format!("{path}{dot}{name}");
            self.duplicates.push(Problem::new(path, format!("{name:?} is there twice"), advice).at(place));
        }
        Ok(())
    }

    /// The path of what is being read, for messages.
    fn path(&self) -> String {
        let mut path = String::new();
        for open in &self.stack {
            match &open.items {
                Items::List(items) => path += &format!("[{}]", items.len()),
                Items::Map { key: Some((key, _)), .. } => {
                    path += if path.is_empty() { "" } else { "." };
                    path += key;
                }
                Items::Map { key: None, .. } => {}
            }
        }
        path
    }
}

/// A key.
fn name(node: &Node) -> Result<Box<str>, Problem> {
    Ok(match &node.content {
        Content::Text(text) => text.clone(),
        Content::Bool(truth) => truth.to_string().into(),
        Content::Signed(number) => number.to_string().into(),
        Content::Unsigned(number) => number.to_string().into(),
        Content::Float(_) | Content::Null | Content::List(_) | Content::Map(_) => {
            let problem = format!("a key is {}", node.describe());
            return Err(Problem::new("", problem, "keys are texts").at(node.place));
        }
    })
}

/// What `<<` brings, where it is not there already; the first of several wins.
fn merge(mut entries: Vec<Entry>, mut known: HashSet<Box<str>>, merged: Vec<Node>) -> Vec<Entry> {
    for node in merged {
        let Content::Map(more) = node.content else { continue };
        for entry in more {
            if known.insert(entry.key.clone()) {
                entries.push(entry);
            }
        }
    }
    entries
}

/// A plain scalar by the core schema of YAML 1.2.
fn scalar(text: &str) -> Result<Content, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "true" | "True" | "TRUE" => Content::Bool(true),
        "false" | "False" | "FALSE" => Content::Bool(false),
        _ if !text.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) => {
            Content::Text(text.into())
        }
        _ => number(text)?.unwrap_or_else(|| Content::Text(text.into())),
    })
}

fn number(text: &str) -> Result<Option<Content>, String> {
    let radix = |prefix, radix| {
        let digits = text.strip_prefix(prefix)?;
        let number = u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
        number.map(Content::Unsigned)
    };
    if let Some(number) = radix("0x", 16).or_else(|| radix("0o", 8)) {
        return Ok(Some(number));
    }
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        let unsigned = text.parse().map(Content::Unsigned).ok();
        let whole = unsigned.or_else(|| text.parse().map(Content::Signed).ok());
        return whole.map(Some).ok_or_else(|| format!("the number {} is too large", quote(text)));
    }
    let lower = digits.to_ascii_lowercase();
    if [".inf", ".nan"].contains(&&*lower) {
        return Err(format!("{text} has no form in JSON"));
    }
    // Rust also reads "inf", "nan" and "infinity"; those are texts.
    let is_float = digits.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        && digits.bytes().all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
        && digits.bytes().any(|byte| byte.is_ascii_digit());
    match text.parse::<f64>() {
        Ok(float) if is_float && float.is_finite() => Ok(Some(Content::Float(float))),
        Ok(_) if is_float => Err(format!("the number {} is too large", quote(text))),
        _ => Ok(None),
    }
}
