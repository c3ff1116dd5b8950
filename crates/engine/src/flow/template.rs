//! Texts that hold `${expressions}`, and values that hold such texts.

use serde_json::Value;

use super::expression::{Expression, References, Refused, Stage};

/// Expressions of one template. Each is compiled by everyone who works on one of its workflows.
const EXPRESSIONS: usize = 1_000;

/// A value with holes.
#[derive(Clone, Debug)]
pub(super) enum Template {
    /// There is nothing to fill in.
    Literal(Value),
    /// A text that is one expression: its value, whatever that is.
    Value(Expression),
    /// A text with expressions in it.
    Text(Vec<Part>),
    List(Vec<Template>),
    /// Keys are literal.
    Object(Vec<(String, Template)>),
}

#[derive(Clone, Debug)]
pub(super) enum Part {
    Text(String),
    Value(Expression),
}

/// A part of a text, as written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'a> {
    Text(&'a str),
    Expression(&'a str),
}

/// Where in a value a text is not right.
type Found = (String, Refused);

impl Template {
    /// Compiles the texts of a value; or what is wrong with each of them, with its path in the value.
    pub(super) fn compile(value: &Value) -> Result<Self, Vec<Found>> {
        let mut compiler = Compiler { found: Vec::new(), count: 0 };
        let template = compiler.compile(value, "");
        match compiler.found.is_empty() {
            true => Ok(template),
            false => Err(compiler.found),
        }
    }

    /// A list, or a text that is an expression with or without `${}` around it.
    pub(super) fn list(value: &Value) -> Result<Self, Vec<Found>> {
        match value {
            Value::String(text) if !text.contains("${") => match Expression::compile(text) {
                Ok(expression) => Ok(Self::Value(expression)),
                Err(refused) => Err(vec![(String::new(), refused)]),
            },
            value => Self::compile(value),
        }
    }

    pub(super) fn references(&self, into: &mut References) {
        match self {
            Self::Literal(_) => {}
            Self::Value(expression) => into.extend(expression.references()),
            Self::Text(parts) => {
                for part in parts {
                    if let Part::Value(expression) = part {
                        into.extend(expression.references());
                    }
                }
            }
            Self::List(items) => items.iter().for_each(|item| item.references(into)),
            Self::Object(entries) => entries.iter().for_each(|(_, value)| value.references(into)),
        }
    }

    /// Where in the value a name is first used.
    pub(super) fn find(&self, name: &str) -> Option<String> {
        match self {
            Self::Literal(_) => None,
            Self::Value(expression) => expression.references().has(name).then(String::new),
            Self::Text(parts) => {
                let has = |part: &Part| matches!(part, Part::Value(it) if it.references().has(name));
                parts.iter().any(has).then(String::new)
            }
            Self::List(items) => {
                let mut found = items.iter().enumerate();
                found.find_map(|(index, item)| Some(format!("[{index}]{}", item.find(name)?)))
            }
            Self::Object(entries) => {
                entries.iter().find_map(|(key, value)| Some(format!(".{key}{}", value.find(name)?)))
            }
        }
    }

    /// Fills in a template that is to be a text.
    pub(super) fn fill_text(&self, stage: &Stage<'_, '_>) -> Result<String, String> {
        let text = |value: Value| match value {
            Value::String(text) => Ok(text),
            Value::Number(_) | Value::Bool(_) => Ok(value.to_string()),
            other => Err(format!("it gives {other}, not a text or a number")),
        };
        match self {
            Self::Text(parts) => {
                let part = |part: &Part| match part {
                    Part::Text(literal) => Ok(literal.clone()),
                    Part::Value(expression) => text(stage.value(expression)?),
                };
                parts.iter().map(part).collect()
            }
            template => text(template.fill(stage)?),
        }
    }

    /// Fills it in.
    pub(super) fn fill(&self, stage: &Stage<'_, '_>) -> Result<Value, String> {
        Ok(match self {
            Self::Literal(value) => value.clone(),
            Self::Value(expression) => stage.value(expression)?,
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Text(literal) => text += literal,
                        Part::Value(expression) => match stage.value(expression)? {
                            Value::String(value) => text += &value,
                            value => text += &value.to_string(),
                        },
                    }
                }
                text.into()
            }
            Self::List(items) => {
                let items: Result<Vec<Value>, String> = items.iter().map(|item| item.fill(stage)).collect();
                Value::Array(items?)
            }
            Self::Object(entries) => {
                let mut object = serde_json::Map::new();
                for (key, value) in entries {
                    object.insert(key.clone(), value.fill(stage)?);
                }
                Value::Object(object)
            }
        })
    }
}

struct Compiler {
    found: Vec<Found>,
    count: usize,
}

impl Compiler {
    fn compile(&mut self, value: &Value, path: &str) -> Template {
        match value {
            Value::String(text) if text.contains("${") => self.text(text, path),
            Value::Array(items) => {
                let items: Vec<Template> = items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| self.compile(item, &format!("{path}[{index}]")))
                    .collect();
                match items.iter().all(|item| matches!(item, Template::Literal(_))) {
                    true => Template::Literal(value.clone()),
                    false => Template::List(items),
                }
            }
            Value::Object(entries) => {
                let entries: Vec<(String, Template)> = entries
                    .iter()
                    .map(|(key, item)| (key.clone(), self.compile(item, &format!("{path}.{key}"))))
                    .collect();
                match entries.iter().all(|(_, item)| matches!(item, Template::Literal(_))) {
                    true => Template::Literal(value.clone()),
                    false => Template::Object(entries),
                }
            }
            _ => Template::Literal(value.clone()),
        }
    }

    fn text(&mut self, text: &str, path: &str) -> Template {
        let mut parts = Vec::new();
        let pieces = match split(text) {
            Ok(pieces) => pieces,
            Err(refused) => {
                self.found.push((path.into(), refused));
                return Template::Literal(Value::Null);
            }
        };
        for piece in &pieces {
            match piece {
                Piece::Text(literal) => parts.push(Part::Text((*literal).into())),
                Piece::Expression(source) => {
                    self.count += 1;
                    let compiled = match self.count > EXPRESSIONS {
                        true => {
                            let advice = format!("at most {EXPRESSIONS} are possible; do it in a step");
                            Err(Refused::new("there are too many expressions", advice))
                        }
                        false => Expression::compile(source),
                    };
                    match compiled {
                        Ok(expression) => parts.push(Part::Value(expression)),
                        Err(refused) if self.count <= EXPRESSIONS + 1 => {
                            self.found.push((path.into(), refused));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        match <[Part; 1]>::try_from(parts) {
            Ok([Part::Value(expression)]) => Template::Value(expression),
            Ok([Part::Text(text)]) => Template::Literal(text.into()),
            Err(parts) => Template::Text(parts),
        }
    }
}

/// Splits a text at its expressions. `$${` is `${` itself.
fn split(text: &str) -> Result<Vec<Piece<'_>>, Refused> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            // One of the dollars says that the other is meant as it is.
            pieces.push(Piece::Text(&rest[..at - 1]));
            pieces.push(Piece::Text(&rest[at..at + 2]));
            rest = &rest[at + 2..];
            continue;
        }
        if at > 0 {
            pieces.push(Piece::Text(&rest[..at]));
        }
        let body = &rest[at + 2..];
        let Some(end) = end(body) else {
            let problem = format!("{} is never closed", super::problem::quote(&rest[at..]));
            return Err(Refused::new(problem, "put a } behind the expression; $${ stands for ${ itself"));
        };
        pieces.push(Piece::Expression(&body[..end]));
        rest = &body[end + 1..];
    }
    if !rest.is_empty() {
        pieces.push(Piece::Text(rest));
    }
    Ok(pieces)
}

/// Where the brace is that closes an expression: not one of its own, nor one in a string.
fn end(body: &str) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < body.len() {
        match body.as_bytes()[at] {
            b'"' | b'\'' => {
                at = after_string(body, at);
                continue;
            }
            b'{' => depth += 1,
            b'}' if depth == 0 => return Some(at),
            b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Where the text goes on behind the string literal that begins with the quote at `at`; its end if the string
/// has none.
pub(super) fn after_string(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes();
    let quote = bytes[at];
    let is_raw = {
        let word = text[..at].rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
        matches!(word, "r" | "R" | "br" | "bR" | "Br" | "BR" | "rb" | "rB" | "Rb" | "RB")
    };
    let is_triple = bytes[at..].starts_with(&[quote; 3]);
    let close = if is_triple { 3 } else { 1 };
    let mut at = at + close;
    while at < bytes.len() {
        if bytes[at] == b'\\' && !is_raw {
            at += 2;
        } else if bytes[at..].starts_with(&[quote; 3][..close]) {
            return at + close;
        } else {
            at += 1;
        }
    }
    // An escape may have led beyond the end, or into a character; both are past the last quote.
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_split_at_expressions() {
        use Piece::{Expression as E, Text as T};
        for (text, pieces) in [
            ("a", vec![T("a")]),
            ("${a}", vec![E("a")]),
            ("x ${ a.b } y", vec![T("x "), E(" a.b "), T(" y")]),
            ("${a}${b}", vec![E("a"), E("b")]),
            (r#"${ {"a": 1}.a }"#, vec![E(r#" {"a": 1}.a "#)]),
            (r#"${"}"}"#, vec![E(r#""}""#)]),
            (r#"${'\'}'}!"#, vec![E(r#"'\'}'"#), T("!")]),
            (r#"${r'\'}!"#, vec![E(r#"r'\'"#), T("!")]),
            (r#"${"""a"}b"""}"#, vec![E(r#""""a"}b""""#)]),
            ("$${a}", vec![T(""), T("${"), T("a}")]),
            ("cost: $5 {a} $", vec![T("cost: $5 {a} $")]),
            ("$$${a}", vec![T("$"), T("${"), T("a}")]),
            ("ü${ü}ü", vec![T("ü"), E("ü"), T("ü")]),
        ] {
            assert_eq!(split(text).unwrap(), pieces, "{text}");
        }
        for open in ["${", "a ${b", r#"${"}"#, "${{}", "${'a\\'}"] {
            assert!(split(open).unwrap_err().problem.ends_with("is never closed"), "{open}");
        }
    }
}
