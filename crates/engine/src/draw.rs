//! Pictures of graphs: Mermaid, DOT and SVG.
//!
//! A [`Drawing`] is what there is to see: boxes, what each waits for, and how each stands.
//! [`Drawing::mermaid`] is for pages that render it (README files, wikis), [`Drawing::dot`] for Graphviz, and
//! [`Drawing::svg`] is a finished picture, laid out here and with nothing to load. All three hold the same
//! text, whatever characters are in it: it is shown and never obeyed.
//!
//! This module is pure and knows neither workflows nor stores: any graph can be drawn. The
//! same drawing gives the same bytes.
//!
//! ```
//! use windlass::State;
//! use windlass::draw::{Drawing, Node};
//!
//! let mut order = Drawing { title: "order 42".into(), nodes: Vec::new() };
//! let pay = order.add(Node { state: Some(State::Completed), ..Node::new("pay") });
//! let pack = order.add(Node { parents: vec![pay], ..Node::new("pack") });
//! let invoice = order.add(Node { parents: vec![pay], is_conditional: true, ..Node::new("invoice") });
//! order.add(Node { parents: vec![pack, invoice], join: Some("any".into()), ..Node::new("tell") });
//!
//! assert!(order.mermaid().contains("n0 --> n1"));
//! assert!(order.dot().contains("n0 -> n1"));
//! assert!(order.svg().starts_with("<svg "));
//! ```

mod dot;
mod flow;
mod fold;
mod graph;
mod icon;
mod layers;
mod layout;
mod mermaid;
mod order;
mod place;
mod style;
mod svg;
mod text;

use windlass_core::State;

pub use fold::{MOST_EDGES, MOST_NODES};
use graph::Graph;

/// A graph to be drawn.
///
/// Parents that don't exist, a node that waits for itself and a second mention of a parent are left out, and
/// so is an edge that would close a circle: a picture of something broken is better than none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Drawing {
    /// What it is a picture of. May be empty.
    pub title: String,
    /// The boxes. In one level they stand in this order, unless fewer lines cross in another.
    pub nodes: Vec<Node>,
}

/// One box.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Node {
    /// The first line.
    pub name: String,
    /// The second line: a kind or a program.
    pub label: Option<String>,
    /// How it stands, which gives it its colour. None in a picture of a definition.
    pub state: Option<State>,
    /// What there is to say about how it stands: "attempt 2", "340 of 1,000".
    pub note: Option<String>,
    /// What it waits for, as places in [`Drawing::nodes`].
    pub parents: Vec<usize>,
    /// What it is.
    pub shape: Shape,
    /// Whether it may be skipped, as it has an `if`.
    pub is_conditional: bool,
    /// When it may start: "any", "at least 2", "all done". None means that all parents must have succeeded.
    pub join: Option<String>,
}

/// What a box is, which gives it its outline.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Shape {
    /// A task with a handler: round corners.
    #[default]
    Task,
    /// A program that is run: sharp corners.
    Program,
    /// A whole workflow: a double line.
    Workflow,
    /// Many of a kind: a stack.
    Map,
}

impl Node {
    /// A task without parents.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// How it stands, in words: "running · attempt 2".
    fn status(&self) -> Option<String> {
        let state = self.state.map(text::state);
        match (state, &self.note) {
            (Some(state), Some(note)) => Some(format!("{state} · {note}")),
            (state, note) => state.or_else(|| note.clone()),
        }
    }

    /// What stands between it and its parents, in words: "if · any".
    fn gate(&self) -> Option<String> {
        match (self.is_conditional, &self.join) {
            (true, Some(join)) => Some(format!("if · {join}")),
            (true, None) => Some("if".into()),
            (false, join) => join.clone(),
        }
    }

    /// The lines of a box that can hold no more than lines.
    fn lines(&self) -> impl Iterator<Item = String> {
        [Some(self.name.clone()), self.label.clone(), self.status(), self.gate()].into_iter().flatten()
    }
}

impl Drawing {
    /// Adds a node, and gives its place for the parents of others.
    pub fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// A flowchart for Mermaid. It is whole whatever its size, but pages usually refuse more than 500 edges
    /// or 50,000 characters.
    ///
    /// ```
    /// # use windlass::draw::{Drawing, Node};
    /// # let fetch = Node { label: Some("http:get".into()), ..Node::new("fetch \"it\"") };
    /// # let drawing = Drawing { title: String::new(), nodes: vec![fetch] };
    /// assert_eq!(drawing.mermaid(), "flowchart TD\n    n0(\"fetch #34;it#34;<br/>http#58;get\")\n");
    /// ```
    #[must_use]
    pub fn mermaid(&self) -> String {
        mermaid::write(self, &self.graph())
    }

    /// A graph for Graphviz, whole whatever its size.
    ///
    /// ```
    /// # use windlass::draw::{Drawing, Node};
    /// # let drawing = Drawing { title: String::new(), nodes: vec![Node::new("fetch \"it\"")] };
    /// assert!(drawing.dot().contains(r#"n0 [label="fetch \"it\"""#));
    /// ```
    #[must_use]
    pub fn dot(&self) -> String {
        dot::write(self, &self.graph())
    }

    /// A picture, for light and dark pages, that can stand alone or inside HTML.
    ///
    /// Every box is one level below the lowest of its parents. Long text is shortened in the middle; the
    /// tooltip has the whole. Above [`MOST_NODES`] or [`MOST_EDGES`] the boxes of a level beyond the first
    /// ones are drawn as one that counts them, and of very many levels those in the middle, so that the
    /// picture can still be opened.
    #[must_use]
    pub fn svg(&self) -> String {
        svg::write(self, &self.graph())
    }

    fn graph(&self) -> Graph {
        Graph::new(self.nodes.iter().map(|node| node.parents.as_slice()))
    }
}
