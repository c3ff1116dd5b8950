//! Edges that can be drawn, and levels.

/// A graph without circles. Nodes are numbered.
#[derive(Clone, Debug)]
pub(super) struct Graph {
    /// Of each node, in the order given, without repetition.
    pub(super) parents: Vec<Vec<usize>>,
    /// Of each node, ascending.
    pub(super) children: Vec<Vec<usize>>,
    /// The number of edges on the longest way from a root.
    pub(super) levels: Vec<usize>,
}

impl Graph {
    /// From the parents of each node; what can't be drawn is left out.
    pub(super) fn new<'a>(parents: impl Iterator<Item = &'a [usize]>) -> Self {
        let given: Vec<&[usize]> = parents.collect();
        let mut parents = distinct(&given);
        let levels = settle(&mut parents);
        let children = children(&parents);
        Self { parents, children, levels }
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.parents.len()
    }

    /// The number of edges.
    pub(super) fn edges(&self) -> usize {
        self.parents.iter().map(Vec::len).sum()
    }

    /// The number of levels.
    pub(super) fn depth(&self) -> usize {
        self.levels.iter().max().map_or(0, |deepest| deepest + 1)
    }

    /// The nodes of each level, ascending.
    pub(super) fn rows(&self) -> Vec<Vec<usize>> {
        let mut rows = vec![Vec::new(); self.depth()];
        for (node, level) in self.levels.iter().enumerate() {
            rows[*level].push(node);
        }
        rows
    }

    /// The connected parts, each with its nodes ascending, by their first nodes.
    pub(super) fn parts(&self) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.len()];
        let mut parts = Vec::new();
        for first in 0..self.len() {
            if std::mem::replace(&mut seen[first], true) {
                continue;
            }
            let (mut part, mut next) = (vec![first], 0);
            while next < part.len() {
                let node = part[next];
                next += 1;
                for near in self.parents[node].iter().chain(&self.children[node]) {
                    if !std::mem::replace(&mut seen[*near], true) {
                        part.push(*near);
                    }
                }
            }
            part.sort_unstable();
            parts.push(part);
        }
        parts
    }
}

fn distinct(given: &[&[usize]]) -> Vec<Vec<usize>> {
    // Which child saw a node last: one array for all children, as emptying a set per child would not be
    // linear.
    let mut seen = vec![usize::MAX; given.len()];
    let mut distinct = Vec::with_capacity(given.len());
    for (child, parents) in given.iter().enumerate() {
        let is_new = |parent: &usize| {
            *parent < given.len() && *parent != child && std::mem::replace(&mut seen[*parent], child) != child
        };
        distinct.push(parents.iter().copied().filter(is_new).collect());
    }
    distinct
}

fn children(parents: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let mut children = vec![Vec::new(); parents.len()];
    for (child, parents) in parents.iter().enumerate() {
        for parent in parents {
            children[*parent].push(child);
        }
    }
    children
}

/// Finds the levels, parents before children. Where only circles are left, the first node is taken without
/// the parents that are missing.
fn settle(parents: &mut [Vec<usize>]) -> Vec<usize> {
    let children = children(parents);
    let mut missing: Vec<usize> = parents.iter().map(Vec::len).collect();
    let mut levels: Vec<Option<usize>> = vec![None; parents.len()];
    let mut ready: Vec<usize> = (0..parents.len()).filter(|node| missing[*node] == 0).collect();
    let mut first = 0;
    loop {
        while let Some(node) = ready.pop() {
            parents[node].retain(|parent| levels[*parent].is_some());
            levels[node] =
                parents[node].iter().filter_map(|parent| levels[*parent]).map(|level| level + 1).max();
            levels[node].get_or_insert(0);
            for child in &children[node] {
                // Zero at a child that was taken early: it is settled already.
                missing[*child] = missing[*child].saturating_sub(1);
                if missing[*child] == 0 && levels[*child].is_none() {
                    ready.push(*child);
                }
            }
        }
        while first < levels.len() && levels[first].is_some() {
            first += 1;
        }
        if first == levels.len() {
            return levels.into_iter().flatten().collect();
        }
        missing[first] = 0;
        ready.push(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(parents: &[&[usize]]) -> Graph {
        Graph::new(parents.iter().copied())
    }

    #[test]
    fn a_level_is_the_longest_way() {
        // 0 → 1 → 2 → 3, and 0 → 3; 4 alone.
        let graph = graph(&[&[], &[0], &[1], &[0, 2], &[]]);
        assert_eq!(graph.levels, [0, 1, 2, 3, 0]);
        assert_eq!(graph.rows(), [vec![0, 4], vec![1], vec![2], vec![3]]);
        assert_eq!(graph.parts(), [vec![0, 1, 2, 3], vec![4]]);
        assert_eq!((graph.edges(), graph.depth()), (4, 4));
    }

    #[test]
    fn what_cannot_be_drawn_is_left_out() {
        let untidy = graph(&[&[7, 0], &[0, 0, 1]]);
        assert_eq!(untidy.parents, [vec![], vec![0]]);
        // 1 → 2 → 3 → 1 is a circle, with 0 before it and 4 after it: it is opened where it is met first.
        let circle = graph(&[&[], &[0, 3], &[1], &[2], &[3]]);
        assert_eq!(circle.parents, [vec![], vec![0], vec![1], vec![2], vec![3]]);
        assert_eq!(circle.levels, [0, 1, 2, 3, 4]);
        let pair = graph(&[&[1], &[0]]);
        assert_eq!((pair.parents, pair.children), (vec![vec![], vec![0]], vec![vec![1], vec![]]));
    }
}
