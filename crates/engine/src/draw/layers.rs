//! A graph in rows: boxes, and the bends of lines that pass a row on their way further down.
//!
//! A line between neighbouring rows is a link. A longer one has a bend in every row that it passes, so that a
//! place is kept for it between the boxes. All long lines from one box, or all to one box, share their bends:
//! they look like one line with branches, and their number doesn't explode.

use std::collections::BTreeMap;

use super::graph::Graph;

/// More bends than this would cost more time than they give clarity: longer lines are then drawn straight,
/// behind the boxes.
const MOST_BENDS: usize = 10_000;

/// A line from one row to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The box whose line it is part of.
    pub(super) owner: usize,
}

/// Boxes and bends in rows. Both are items: boxes have the numbers of the graph, bends those after.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) boxes: usize,
    /// The items of each row, from left to right.
    pub(super) rows: Vec<Vec<usize>>,
    /// The row of each item.
    pub(super) row: Vec<usize>,
    pub(super) links: Vec<Link>,
    /// Of each item, what it is linked to in the row above.
    pub(super) above: Vec<Vec<usize>>,
    /// Of each item, what it is linked to in the row below.
    pub(super) below: Vec<Vec<usize>>,
    /// Lines that have no bends although they pass rows.
    pub(super) straight: Vec<Link>,
}

/// Whose bends a long line uses: those of the box where it begins or of the one where it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Trunk {
    From(usize),
    To(usize),
}

impl Layers {
    pub(super) fn new(graph: &Graph) -> Self {
        let limits = [usize::MAX, 64, 16, 4];
        let fits = |limit: &usize| Plan::new(graph, *limit).bends() <= MOST_BENDS;
        let plan = Plan::new(graph, limits.into_iter().find(fits).unwrap_or(1));
        let mut layers = Self {
            boxes: graph.len(),
            rows: graph.rows(),
            row: graph.levels.clone(),
            links: plan.short,
            above: vec![Vec::new(); graph.len()],
            below: vec![Vec::new(); graph.len()],
            straight: plan.straight,
        };
        for (trunk, lines) in &plan.trunks {
            layers.add_trunk(*trunk, lines);
        }
        for Link { from, to, .. } in &layers.links {
            layers.below[*from].push(*to);
            layers.above[*to].push(*from);
        }
        layers
    }

    pub(super) fn is_bend(&self, item: usize) -> bool {
        item >= self.boxes
    }

    /// Adds the bends of some long lines, and the links along them.
    fn add_trunk(&mut self, trunk: Trunk, lines: &[Link]) {
        let Some((top, bottom)) = extent(&self.row, lines) else { return };
        let first = self.row.len();
        for row in top..=bottom {
            self.rows[row].push(self.row.len());
            self.row.push(row);
            self.above.push(Vec::new());
            self.below.push(Vec::new());
        }
        let owner = lines[0].owner;
        for bend in first + 1..self.row.len() {
            self.links.push(Link { from: bend - 1, to: bend, owner });
        }
        let at = |row: usize| first + row - top;
        match trunk {
            Trunk::From(from) => {
                self.links.push(Link { from, to: first, owner });
                let branch = |line: &Link| Link { from: at(self.row[line.to] - 1), ..*line };
                self.links.extend(lines.iter().map(branch));
            }
            Trunk::To(to) => {
                self.links.push(Link { from: at(bottom), to, owner });
                let branch = |line: &Link| Link { to: at(self.row[line.from] + 1), ..*line };
                self.links.extend(lines.iter().map(branch));
            }
        }
    }
}

/// The first and last row that long lines of one trunk pass.
fn extent(row: &[usize], lines: &[Link]) -> Option<(usize, usize)> {
    let top = lines.iter().map(|line| row[line.from] + 1).min()?;
    let bottom = lines.iter().map(|line| row[line.to] - 1).max()?;
    Some((top, bottom))
}

/// How each edge of the graph will be drawn.
struct Plan<'a> {
    levels: &'a [usize],
    short: Vec<Link>,
    trunks: BTreeMap<Trunk, Vec<Link>>,
    straight: Vec<Link>,
}

impl<'a> Plan<'a> {
    /// With bends for lines that go down by at most `limit` rows.
    fn new(graph: &'a Graph, limit: usize) -> Self {
        let levels = &graph.levels;
        let span = |from: usize, to: usize| levels[to] - levels[from];
        let is_long = |from: usize, to: usize| span(from, to) > 1 && span(from, to) <= limit;
        let mut long_from = vec![0_usize; graph.len()];
        let mut long_to = vec![0_usize; graph.len()];
        for (from, to) in edges(graph).filter(|(from, to)| is_long(*from, *to)) {
            long_from[from] += 1;
            long_to[to] += 1;
        }
        let mut plan = Self { levels, short: Vec::new(), trunks: BTreeMap::new(), straight: Vec::new() };
        for (from, to) in edges(graph) {
            if span(from, to) == 1 {
                plan.short.push(Link { from, to, owner: from });
            } else if !is_long(from, to) {
                plan.straight.push(Link { from, to, owner: from });
            } else if long_from[from] >= long_to[to] {
                plan.trunks.entry(Trunk::From(from)).or_default().push(Link { from, to, owner: from });
            } else {
                plan.trunks.entry(Trunk::To(to)).or_default().push(Link { from, to, owner: to });
            }
        }
        plan
    }

    fn bends(&self) -> usize {
        let extents = self.trunks.values().filter_map(|lines| extent(self.levels, lines));
        extents.map(|(top, bottom)| bottom + 1 - top).sum()
    }
}

fn edges(graph: &Graph) -> impl Iterator<Item = (usize, usize)> {
    graph.parents.iter().enumerate().flat_map(|(to, parents)| parents.iter().map(move |from| (*from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layers(parents: &[Vec<usize>]) -> Layers {
        Layers::new(&Graph::new(parents.iter().map(Vec::as_slice)))
    }

    /// A chain, and for each node the edges that `more` gives.
    fn chain(length: usize, more: impl Fn(usize) -> Vec<usize>) -> Vec<Vec<usize>> {
        (0..length).map(|node| node.checked_sub(1).into_iter().chain(more(node)).collect()).collect()
    }

    #[test]
    fn links_join_neighbouring_rows() {
        let layers = layers(&chain(6, |node| if node > 2 { vec![0] } else { vec![] }));
        for Link { from, to, .. } in &layers.links {
            assert_eq!(layers.row[*from] + 1, layers.row[*to]);
        }
        // One trunk from 0, beside 1 to 4, with branches to 3, 4 and 5.
        assert_eq!(layers.row.len() - layers.boxes, 4);
        assert_eq!(layers.links.len(), 5 + 4 + 3);
        assert!(layers.straight.is_empty());
    }

    #[test]
    fn lines_to_one_box_share_bends() {
        let last_needs_all = chain(100, |node| if node == 99 { (0..98).collect() } else { vec![] });
        let layers = layers(&last_needs_all);
        assert_eq!(layers.row.len() - layers.boxes, 98);
    }

    #[test]
    fn bends_are_bounded() {
        let jumps = |node: usize| node.checked_sub(300).into_iter().collect();
        let layers = layers(&chain(2_000, jumps));
        assert!(layers.row.len() - layers.boxes <= MOST_BENDS);
        assert_eq!(layers.straight.len(), 1_700);
    }
}
