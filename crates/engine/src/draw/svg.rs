//! The picture: boxes, lines and text at the places that the layout gives them.

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use windlass_core::State;

use super::fold::{More, Shown, fold};
use super::graph::Graph;
use super::layout::{ARROW, Layout, Line, Point, Size, layout};
use super::style::{ROOT, Tone, sheet};
use super::text::Font;
use super::{Drawing, Node, Shape, icon, text};

/// Around everything.
const MARGIN: f64 = 28.0;

/// Below the title.
const TITLE: f64 = 40.0;

/// The fonts, as the style sheet has them.
const LARGE: Font = Font::sans(15.0);
const NAME: Font = Font::sans(13.0);
const SMALL: Font = Font::sans(11.0);
const CODE: Font = Font::mono(11.0);

/// From one line of text to the next.
const LEADING: f64 = 16.0;

/// Text wider than this is shortened.
const MOST_TEXT: f64 = 210.0;

/// A title may be wider.
const MOST_TITLE: f64 = 560.0;

/// Beside the text of a box.
const PADDING: f64 = 16.0;

/// Between a state's dot and the text.
const DOT_GAP: f64 = 9.0;

const LEAST_WIDTH: f64 = 104.0;

/// The height of the pill that says "any", which sits on the upper edge of a box.
const PILL: f64 = 17.0;

/// How much of the pill is above the edge: the most, to keep away from the name.
const PILL_HAT: f64 = 12.0;

/// How far the boxes of a stack are apart.
const STACK: f64 = 3.5;

pub(super) fn write(drawing: &Drawing, graph: &Graph) -> String {
    let states: Vec<Option<State>> = drawing.nodes.iter().map(|node| node.state).collect();
    let folded = fold(graph, &states);
    let faces: Vec<Face> = folded.boxes.iter().map(|shown| Face::new(shown, drawing)).collect();
    let sizes = sizes(&faces, &folded.graph);
    let layout = layout(&folded.graph, &sizes);
    let mut picture = Picture { out: String::new() };
    picture.open(drawing, graph, &layout);
    picture.lines(&layout.lines);
    for (number, face) in faces.iter().enumerate() {
        let has_parents = !folded.graph.parents[number].is_empty();
        picture.face(face, layout.tops[number], sizes[number], has_parents);
    }
    picture.out.push_str("</g></svg>\n");
    picture.out
}

/// What a box looks like, before it has a place.
struct Face {
    tone: Tone,
    state: Option<State>,
    shape: Shape,
    is_dashed: bool,
    /// Whether it stands for several nodes.
    is_many: bool,
    rows: Vec<Row>,
    gate: Option<String>,
    tooltip: String,
}

/// A line of text.
struct Row {
    text: String,
    class: String,
    font: Font,
}

impl Face {
    fn new(shown: &Shown, drawing: &Drawing) -> Self {
        match shown {
            Shown::Node(number) => Self::of_node(&drawing.nodes[*number]),
            Shown::More(more) => Self::of_more(more),
        }
    }

    fn of_node(node: &Node) -> Self {
        let (label, font) =
            if node.shape == Shape::Program { ("label program", CODE) } else { ("label", SMALL) };
        let mut rows = vec![Row::new(&node.name, "name", NAME)];
        rows.extend(node.label.as_ref().map(|text| Row::new(text, label, font)));
        rows.extend(node.status().map(|text| Row::new(&text, "status", SMALL)));
        let lines: Vec<String> = node.lines().map(|line| text::xml(&line)).collect();
        Self {
            tone: Tone::of(node.state),
            state: node.state,
            shape: node.shape,
            is_dashed: node.is_conditional,
            is_many: false,
            rows,
            gate: node.gate().map(|gate| text::shorten(&text::visible(&gate), SMALL, MOST_TEXT / 2.0)),
            tooltip: lines.join("\n"),
        }
    }

    fn of_more(more: &More) -> Self {
        let mut title = format!("+ {} more", text::number(more.nodes));
        if more.levels > 1 {
            let _ = write!(title, " in {}", text::count(more.levels, "level"));
        }
        let mut rows = vec![Row::new(&title, "name", NAME)];
        for (state, nodes) in &more.states {
            let class = format!("status {}", Tone::of(Some(*state)).class());
            rows.push(Row::new(&format!("{} {}", text::number(*nodes), text::state(*state)), &class, SMALL));
        }
        let lines: Vec<String> = rows.iter().map(|row| text::xml(&row.text)).collect();
        Self {
            tone: Tone::Plain,
            state: None,
            shape: Shape::Map,
            is_dashed: true,
            is_many: true,
            rows,
            gate: None,
            tooltip: lines.join("\n"),
        }
    }

    /// What stands left of the text.
    fn inset(&self) -> f64 {
        if self.state.is_some() { icon::SIDE + DOT_GAP } else { 0.0 }
    }

    fn width(&self) -> f64 {
        let text = self.rows.iter().map(Row::width).fold(0.0, f64::max);
        let gate = self.gate.as_ref().map_or(0.0, |gate| pill_width(gate) - PADDING);
        (self.inset() + text).max(gate) + 2.0 * PADDING
    }

    fn height(&self) -> f64 {
        self.rows.len() as f64 * LEADING + 18.0
    }
}

impl Row {
    fn new(text: &str, class: &str, font: Font) -> Self {
        let text = text::shorten(&text::visible(text), font, MOST_TEXT);
        Self { text, class: class.to_owned(), font }
    }

    fn width(&self) -> f64 {
        self.font.width(&self.text)
    }
}

fn pill_width(gate: &str) -> f64 {
    SMALL.width(gate) + 16.0
}

/// Boxes of a level are equally wide, and all of a picture equally high: what is even is easy to look over.
/// Boxes that count others are as high as they must be.
fn sizes(faces: &[Face], graph: &Graph) -> Vec<Size> {
    let mut widths = vec![LEAST_WIDTH; graph.depth()];
    for (face, level) in faces.iter().zip(&graph.levels) {
        // Whole steps of 8, so that widths differ clearly or not at all.
        widths[*level] = widths[*level].max((face.width() / 8.0).ceil() * 8.0);
    }
    let nodes = faces.iter().filter(|face| !face.is_many);
    let height = nodes.map(Face::height).fold(0.0, f64::max);
    let size = |(face, level): (&Face, &usize)| Size {
        width: widths[*level],
        height: face.height().max(height),
        hat: if face.gate.is_some() { PILL_HAT } else { 0.0 },
    };
    faces.iter().zip(&graph.levels).map(size).collect()
}

/// The text of the SVG, as far as it is written.
struct Picture {
    out: String,
}

impl Picture {
    fn open(&mut self, drawing: &Drawing, graph: &Graph, layout: &Layout) {
        let title = text::shorten(&text::visible(&drawing.title), LARGE, MOST_TITLE);
        let head = if title.is_empty() { 0.0 } else { TITLE };
        let content = layout.width.max(LARGE.width(&title)).max(LEAST_WIDTH);
        let width = content + 2.0 * MARGIN;
        let height = layout.height.max(LEADING) + head + 2.0 * MARGIN;
        let (width, height) = (width.ceil(), height.ceil());
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{ROOT}\" role=\"img\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\">\n<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n\
             <rect class=\"back\" width=\"{width}\" height=\"{height}\"/>\n",
            if title.is_empty() { "Graph".into() } else { text::xml(&drawing.title) },
            description(drawing, graph),
            sheet(),
        ));
        if !title.is_empty() {
            let y = MARGIN + LARGE.size;
            self.put(format_args!(
                "<text class=\"title\" x=\"{MARGIN}\" y=\"{y}\">{}</text>\n",
                text::xml(&title)
            ));
        }
        if drawing.nodes.is_empty() {
            let y = MARGIN + head + SMALL.size;
            self.put(format_args!("<text class=\"label\" x=\"{MARGIN}\" y=\"{y}\">No steps</text>\n"));
        }
        let x = MARGIN + (content - layout.width) / 2.0;
        self.out.push_str("<g transform=\"translate(");
        text::coordinate(&mut self.out, x);
        self.put(format_args!(" {})\">\n", MARGIN + head));
    }

    /// All lines of one box are one path.
    fn lines(&mut self, lines: &[Line]) {
        let mut by_owner: BTreeMap<usize, Vec<&Line>> = BTreeMap::new();
        for line in lines {
            by_owner.entry(line.owner).or_default().push(line);
        }
        for lines in by_owner.values() {
            self.out.push_str("<path class=\"edge\" d=\"");
            for line in lines {
                self.line(line);
            }
            self.out.push_str("\"/>\n");
        }
    }

    fn line(&mut self, line: &Line) {
        let Line { start, leave, enter, end, .. } = *line;
        self.command('M', &[start.x, start.y]);
        if leave > start.y {
            self.command('V', &[leave]);
        }
        if (start.x - end.x).abs() < 0.05 {
            self.command('V', &[end.y]);
            return;
        }
        let half = f64::midpoint(leave, enter);
        self.command('C', &[start.x, half, end.x, half, end.x, enter]);
        if end.y > enter {
            self.command('V', &[end.y]);
        }
    }

    fn face(&mut self, face: &Face, top: Point, size: Size, has_parents: bool) {
        let Point { x, y } = top;
        let left = x - size.width / 2.0;
        self.put(format_args!("<g class=\"node {}\"><title>{}</title>", face.tone.class(), face.tooltip));
        self.outline(face, left, y, size);
        if has_parents {
            self.arrow(x, y - size.hat);
        }
        if let Some(gate) = &face.gate {
            self.pill(gate, x, y);
        }
        if let Some(state) = face.state {
            self.dot(state, left + PADDING - 2.0, y + (size.height - icon::SIDE) / 2.0);
        }
        let first = y + size.height / 2.0 - face.rows.len() as f64 * LEADING / 2.0;
        for (number, row) in face.rows.iter().enumerate() {
            // Where letters stand in a line of this height.
            let base = first + (number as f64 + 0.5) * LEADING + row.font.size * 0.36;
            let (middle, x) =
                if face.state.is_some() { ("", left + PADDING + face.inset() - 2.0) } else { (" middle", x) };
            self.put(format_args!("<text class=\"{}{middle}\"", row.class));
            self.attribute("x", x);
            self.attribute("y", base);
            self.put(format_args!(">{}</text>", text::xml(&row.text)));
        }
        self.out.push_str("</g>\n");
    }

    fn outline(&mut self, face: &Face, left: f64, top: f64, size: Size) {
        let dashed = if face.is_dashed { " dashed" } else { "" };
        let round = if face.shape == Shape::Program { 2.5 } else { 9.0 };
        if face.shape == Shape::Map {
            for layer in [2.0, 1.0] {
                let Size { width, height, .. } = size;
                let by = STACK * layer;
                // Narrower, so that a stack takes no room from its neighbours.
                self.rect("box", left + by, top + by, width - 2.0 * by, height, round);
            }
        }
        self.rect(&format!("box face{dashed}"), left, top, size.width, size.height, round);
        if face.shape == Shape::Workflow {
            self.rect("inner", left + 3.5, top + 3.5, size.width - 7.0, size.height - 7.0, round - 3.0);
        }
    }

    /// The tip touches the box.
    fn arrow(&mut self, x: f64, y: f64) {
        self.out.push_str("<path class=\"arrow\" d=\"");
        self.command('M', &[x, y]);
        self.command('L', &[x - 4.0, y - ARROW]);
        self.command('H', &[x + 4.0]);
        self.out.push_str("Z\"/>");
    }

    fn pill(&mut self, gate: &str, x: f64, y: f64) {
        let width = pill_width(gate);
        let top = y - PILL_HAT;
        self.rect("pill", x - width / 2.0, top, width, PILL, PILL / 2.0);
        self.out.push_str("<text class=\"gate middle\"");
        self.attribute("x", x);
        self.attribute("y", top + PILL / 2.0 + SMALL.size * 0.34);
        self.put(format_args!(">{}</text>", text::xml(gate)));
    }

    fn dot(&mut self, state: State, left: f64, top: f64) {
        let middle = icon::SIDE / 2.0;
        self.out.push_str("<g transform=\"translate(");
        text::coordinate(&mut self.out, left);
        self.out.push(' ');
        text::coordinate(&mut self.out, top);
        let mark = icon::mark(state);
        self.put(format_args!(
            ")\"><circle class=\"dot\" cx=\"{middle}\" cy=\"{middle}\" r=\"{middle}\"/><path class=\"mark\" d=\"{mark}\"/></g>"
        ));
    }

    fn rect(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64, round: f64) {
        self.put(format_args!("<rect class=\"{class}\""));
        for (name, value) in [("x", x), ("y", y), ("width", width), ("height", height), ("rx", round)] {
            self.attribute(name, value);
        }
        self.out.push_str("/>");
    }

    fn attribute(&mut self, name: &str, value: f64) {
        self.put(format_args!(" {name}=\""));
        text::coordinate(&mut self.out, value);
        self.out.push('"');
    }

    /// A command of a path, with absolute coordinates.
    fn command(&mut self, letter: char, coordinates: &[f64]) {
        self.out.push(letter);
        for (place, value) in coordinates.iter().enumerate() {
            if place > 0 {
                self.out.push(' ');
            }
            text::coordinate(&mut self.out, *value);
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // Writing to a string never fails.
        let _ = self.out.write_fmt(text);
    }
}

/// What the picture shows, for those who don't see it: "4 steps in 3 levels: 1 completed, 3 waiting".
fn description(drawing: &Drawing, graph: &Graph) -> String {
    let steps = text::count(graph.len(), "step");
    let mut said = format!("{steps} in {}", text::count(graph.depth(), "level"));
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    for state in drawing.nodes.iter().filter_map(|node| node.state) {
        *states.entry(state).or_default() += 1;
    }
    for (place, (state, nodes)) in states.into_iter().enumerate() {
        let before = if place == 0 { ":" } else { "," };
        let _ = write!(said, "{before} {} {}", text::number(nodes), text::state(state));
    }
    said
}
