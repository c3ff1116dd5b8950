//! What is left of a graph that is too large to look at: each level's first boxes, and one that counts the
//! others.

use std::collections::BTreeMap;

use windlass_core::State;

use super::graph::Graph;

/// A picture with more nodes is folded. About one megabyte of SVG, and more than anybody reads.
pub const MOST_NODES: usize = 2_000;

/// A picture with more edges is folded.
pub const MOST_EDGES: usize = 6_000;

/// Boxes side by side in a folded picture: what a screen can be scrolled through.
const MOST_ABREAST: usize = 100;

/// Levels of a folded picture.
const MOST_DEEP: usize = 500;

/// A box of the picture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// The node of that number.
    Node(usize),
    /// Several nodes.
    More(More),
}

/// What is said about nodes that aren't shown.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct More {
    /// How many they are.
    pub(super) nodes: usize,
    /// Over how many levels.
    pub(super) levels: usize,
    /// How they stand, where that is known.
    pub(super) states: BTreeMap<State, usize>,
}

/// The boxes of a picture, and the graph between them.
pub(super) struct Folded {
    pub(super) boxes: Vec<Shown>,
    pub(super) graph: Graph,
}

/// Folds until the picture is small enough. Most are from the start.
pub(super) fn fold(graph: &Graph, states: &[Option<State>]) -> Folded {
    if graph.len() <= MOST_NODES && graph.edges() <= MOST_EDGES {
        return Folded { boxes: (0..graph.len()).map(Shown::Node).collect(), graph: graph.clone() };
    }
    let mut deep = graph.depth().min(MOST_DEEP);
    let mut abreast = (MOST_NODES / deep).min(MOST_ABREAST);
    loop {
        let folded = cut(graph, states, abreast, deep);
        if folded.graph.edges() <= MOST_EDGES {
            return folded;
        }
        // It ends: five levels of two boxes have fewer edges.
        if abreast > 1 { abreast /= 2 } else { deep /= 2 }
    }
}

/// At most `abreast` nodes and a counting box in each of about `deep` levels.
fn cut(graph: &Graph, states: &[Option<State>], abreast: usize, deep: usize) -> Folded {
    let depth = graph.depth();
    let middle = if depth > deep { deep / 2..depth - deep / 2 } else { depth..depth };
    let mut boxes = Vec::new();
    let mut box_of = vec![0; graph.len()];
    let mut between = None;
    for (level, row) in graph.rows().iter().enumerate() {
        let is_between = middle.contains(&level);
        // A box that stands for one node would save nothing.
        let kept = if is_between {
            0
        } else if row.len() <= abreast.saturating_add(1) {
            row.len()
        } else {
            abreast
        };
        for node in &row[..kept] {
            box_of[*node] = boxes.len();
            boxes.push(Shown::Node(*node));
        }
        if kept == row.len() {
            continue;
        }
        let place = if is_between { *between.get_or_insert(boxes.len()) } else { boxes.len() };
        if place == boxes.len() {
            boxes.push(Shown::More(More::default()));
        }
        if let Shown::More(more) = &mut boxes[place] {
            more.levels += 1;
            for node in &row[kept..] {
                box_of[*node] = place;
                more.add(states[*node]);
            }
        }
    }
    let mut parents = vec![Vec::new(); boxes.len()];
    for (node, of) in graph.parents.iter().enumerate() {
        parents[box_of[node]].extend(of.iter().map(|parent| box_of[*parent]));
    }
    Folded { boxes, graph: Graph::new(parents.iter().map(Vec::as_slice)) }
}

impl More {
    fn add(&mut self, state: Option<State>) {
        self.nodes += 1;
        if let Some(state) = state {
            *self.states.entry(state).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(parents: &[Vec<usize>]) -> Graph {
        Graph::new(parents.iter().map(Vec::as_slice))
    }

    #[test]
    fn a_small_graph_stays_whole() {
        let small = graph(&[vec![], vec![0], vec![0], vec![1, 2]]);
        let folded = fold(&small, &[None; 4]);
        assert_eq!(folded.boxes, [0, 1, 2, 3].map(Shown::Node));
        assert_eq!(folded.graph.parents, small.parents);
    }

    #[test]
    fn levels_are_kept_when_boxes_are_folded() {
        let mut parents = vec![vec![]];
        parents.extend((0..6).map(|_| vec![0]));
        parents.push((1..7).collect());
        let states: Vec<_> =
            (0..8).map(|node| Some(if node == 6 { State::Failed } else { State::Completed })).collect();
        let folded = cut(&graph(&parents), &states, 2, 10);
        let states = BTreeMap::from([(State::Completed, 3), (State::Failed, 1)]);
        let more = Shown::More(More { nodes: 4, levels: 1, states });
        assert_eq!(folded.boxes, [Shown::Node(0), Shown::Node(1), Shown::Node(2), more, Shown::Node(7)]);
        assert_eq!(folded.graph.levels, [0, 1, 1, 1, 2]);
        assert_eq!(folded.graph.parents[4], [1, 2, 3]);
    }

    #[test]
    fn one_box_is_not_folded_into_one() {
        assert_eq!(cut(&graph(&vec![vec![]; 3]), &[None; 3], 2, 10).boxes.len(), 3);
        assert_eq!(cut(&graph(&vec![vec![]; 4]), &[None; 4], 2, 10).boxes.len(), 3);
    }

    #[test]
    fn of_a_long_chain_both_ends_are_kept() {
        let parents: Vec<Vec<usize>> =
            (0..100_usize).map(|node| node.checked_sub(1).into_iter().collect()).collect();
        let folded = cut(&graph(&parents), &[None; 100], 1, 10);
        assert_eq!(folded.boxes.len(), 11);
        assert_eq!(folded.boxes[5], Shown::More(More { nodes: 90, levels: 90, ..More::default() }));
        assert_eq!(folded.boxes[10], Shown::Node(99));
        assert_eq!(folded.graph.levels, (0..11).collect::<Vec<_>>());
    }

    #[test]
    fn many_edges_are_folded_too() {
        // Every node needs all before it.
        let parents: Vec<Vec<usize>> = (0..400).map(|node| (0..node).collect()).collect();
        let folded = fold(&graph(&parents), &[None; 400]);
        assert!(folded.graph.edges() <= MOST_EDGES, "{}", folded.graph.edges());
        assert!(folded.boxes.len() > 50, "{}", folded.boxes.len());
    }
}
