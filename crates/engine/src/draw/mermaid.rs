//! Mermaid's flowcharts.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::graph::Graph;
use super::style::{Colours, Tone};
use super::text::visible;
use super::{Drawing, Node, Shape};

pub(super) fn write(drawing: &Drawing, graph: &Graph) -> String {
    let mut out = String::new();
    if !drawing.title.is_empty() {
        let _ = writeln!(out, "---\ntitle: \"{}\"\n---", yaml(&drawing.title));
    }
    out.push_str("flowchart TD\n");
    let mut toned: BTreeMap<Tone, Vec<String>> = BTreeMap::new();
    let mut dashed = Vec::new();
    for (number, node) in drawing.nodes.iter().enumerate() {
        let (open, close) = brackets(node);
        let lines: Vec<String> = node.lines().map(|line| label(&line)).collect();
        let _ = writeln!(out, "    n{number}{open}\"{}\"{close}", lines.join("<br/>"));
        if node.state.is_some() {
            toned.entry(Tone::of(node.state)).or_default().push(format!("n{number}"));
        }
        if node.is_conditional {
            dashed.push(format!("n{number}"));
        }
    }
    for (child, parents) in graph.parents.iter().enumerate() {
        for parent in parents {
            let _ = writeln!(out, "    n{parent} --> n{child}");
        }
    }
    for (tone, nodes) in toned {
        let (class, Colours { fill, line, ink }) = (tone.class(), tone.light());
        let _ = writeln!(out, "    classDef {class} fill:{fill},stroke:{line},color:{ink}");
        let _ = writeln!(out, "    class {} {class}", nodes.join(","));
    }
    if !dashed.is_empty() {
        let _ = writeln!(out, "    classDef conditional stroke-dasharray:5 3");
        let _ = writeln!(out, "    class {} conditional", dashed.join(","));
    }
    out
}

fn brackets(node: &Node) -> (&'static str, &'static str) {
    match node.shape {
        Shape::Task => ("(", ")"),
        Shape::Program => ("[", "]"),
        Shape::Workflow => ("[[", "]]"),
        Shape::Map => ("{{", "}}"),
    }
}

/// Whether a character means nothing to any of the readers that look at a chart before, in and after
/// Mermaid's grammar: those for directives (`%%{`), styles (`style x:#…;`), Markdown and HTML.
fn is_harmless(c: char) -> bool {
    !c.is_ascii()
        || c.is_ascii_alphanumeric()
        || matches!(c, ' ' | ',' | '-' | '.' | '/' | '+' | '=' | '(' | ')')
}

/// Text in a quoted label. `#58;` is how Mermaid writes a colon.
fn label(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    // Formulas and icons are looked for after decoding: what marks them is parted by something that isn't
    // seen.
    let parted = visible(text).replace("$$", "$\u{2060}$\u{2060}").replace(":fa-", ":\u{2060}fa-");
    for c in parted.chars() {
        if is_harmless(c) {
            safe.push(c);
        } else {
            let _ = write!(safe, "#{};", u32::from(c));
        }
    }
    // An empty label would be a syntax error.
    if safe.is_empty() { " ".into() } else { safe }
}

/// Text in double quotes in the YAML before a chart.
fn yaml(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in visible(text).chars() {
        if is_harmless(c) {
            safe.push(c);
        } else {
            let _ = write!(safe, "\\x{:02x}", u32::from(c));
        }
    }
    safe
}
