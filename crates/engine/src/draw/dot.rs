//! Graphviz' DOT.

use std::fmt::Write;

use super::graph::Graph;
use super::style::{Colours, Tone};
use super::text::visible;
use super::{Drawing, Node, Shape};

pub(super) fn write(drawing: &Drawing, graph: &Graph) -> String {
    let mut out = String::from("digraph {\n");
    let _ = writeln!(
        out,
        "    graph [label=\"{}\" labelloc=t rankdir=TB fontname=\"Helvetica\" nodesep=0.3 ranksep=0.45]",
        quoted(&drawing.title)
    );
    out.push_str("    node [fontname=\"Helvetica\" fontsize=11 margin=\"0.16,0.09\"]\n");
    out.push_str("    edge [color=\"#8a94a3\" arrowsize=0.6]\n");
    for (number, node) in drawing.nodes.iter().enumerate() {
        let lines: Vec<String> = node.lines().map(|line| quoted(&line)).collect();
        let Colours { fill, line, ink } = Tone::of(node.state).light();
        let _ = writeln!(
            out,
            "    n{number} [label=\"{}\" {} fillcolor=\"{fill}\" color=\"{line}\" fontcolor=\"{ink}\"]",
            lines.join("\\n"),
            outline(node)
        );
    }
    for (child, parents) in graph.parents.iter().enumerate() {
        for parent in parents {
            let _ = writeln!(out, "    n{parent} -> n{child}");
        }
    }
    out.push_str("}\n");
    out
}

fn outline(node: &Node) -> String {
    let shape = match node.shape {
        Shape::Task => "shape=box style=\"rounded,filled",
        Shape::Program => "shape=box style=\"filled",
        Shape::Workflow => "shape=box peripheries=2 style=\"rounded,filled",
        Shape::Map => "shape=box3d style=\"filled",
    };
    let dashed = if node.is_conditional { ",dashed" } else { "" };
    format!("{shape}{dashed}\"")
}

/// Text between double quotes in an attribute. Graphviz reads `\n`, `\N` and `&lt;` there.
fn quoted(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '\\' => safe.push_str("\\\\"),
            '"' => safe.push_str("\\\""),
            '&' => safe.push_str("&amp;"),
            c => safe.push(c),
        }
    }
    safe
}
