//! Who comes after whom. Everything here is linear in the number of steps and needs.

use std::collections::{HashSet, VecDeque};

/// The graph of a definition: steps by number, each with parents and children.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Graph {
    parents: Lists,
    children: Lists,
    levels: Vec<u32>,
    depth: usize,
}

/// A list of numbers for each number, in one piece.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Lists {
    starts: Vec<u32>,
    values: Vec<u32>,
}

impl Lists {
    fn of(lists: &[Vec<u32>]) -> Self {
        let mut starts = Vec::with_capacity(lists.len() + 1);
        let mut values = Vec::with_capacity(lists.iter().map(Vec::len).sum());
        starts.push(0);
        for list in lists {
            values.extend(list);
            starts.push(u32::try_from(values.len()).unwrap_or(u32::MAX));
        }
        Self { starts, values }
    }

    fn get(&self, number: u32) -> &[u32] {
        let number = number as usize;
        match (self.starts.get(number), self.starts.get(number + 1)) {
            (Some(start), Some(end)) => &self.values[*start as usize..*end as usize],
            _ => &[],
        }
    }
}

impl Graph {
    /// From the parents of each step; or a cycle, its first step repeated at the end.
    pub fn of(parents: &[Vec<u32>]) -> Result<Self, Vec<u32>> {
        let mut children = vec![Vec::new(); parents.len()];
        for (number, parents) in (0..).zip(parents) {
            for parent in parents {
                children[*parent as usize].push(number);
            }
        }
        let mut unmet: Vec<usize> = parents.iter().map(Vec::len).collect();
        let mut levels = vec![0; parents.len()];
        let mut free: VecDeque<u32> =
            (0..).zip(&unmet).filter(|(_, unmet)| **unmet == 0).map(|(number, _)| number).collect();
        let mut passed = 0;
        while let Some(number) = free.pop_front() {
            passed += 1;
            for child in &children[number as usize] {
                let at = *child as usize;
                levels[at] = levels[at].max(levels[number as usize] + 1);
                unmet[at] -= 1;
                if unmet[at] == 0 {
                    free.push_back(*child);
                }
            }
        }
        if passed < parents.len() {
            return Err(cycle(parents, &unmet));
        }
        let depth = levels.iter().max().map_or(0, |deepest| *deepest as usize + 1);
        Ok(Self { parents: Lists::of(parents), children: Lists::of(&children), levels, depth })
    }

    /// The steps that a step comes after.
    #[must_use]
    pub fn parents(&self, step: u32) -> &[u32] {
        self.parents.get(step)
    }

    /// The steps that come after it.
    #[must_use]
    pub fn children(&self, step: u32) -> &[u32] {
        self.children.get(step)
    }

    /// How many steps come before it on the longest way; 0 for a step without parents.
    #[must_use]
    pub fn level(&self, step: u32) -> u32 {
        self.levels.get(step as usize).copied().unwrap_or(0)
    }

    /// The number of steps on the longest way.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The steps that nothing comes after.
    pub fn sinks(&self) -> impl Iterator<Item = u32> {
        (0..).take(self.levels.len()).filter(|step| self.children(*step).is_empty())
    }

    /// Whether a step comes before another.
    #[must_use]
    pub fn is_ancestor(&self, step: u32, of: u32) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![of];
        while let Some(number) = next.pop() {
            // What is no deeper cannot come after it.
            let parents =
                self.parents(number).iter().filter(|parent| self.level(**parent) >= self.level(step));
            for parent in parents {
                if *parent == step {
                    return true;
                }
                if seen.insert(*parent) {
                    next.push(*parent);
                }
            }
        }
        false
    }

    /// All that comes before a step, with the length of the shortest way, nearest first.
    #[must_use]
    pub fn ancestors(&self, step: u32) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        let mut seen = vec![false; self.levels.len()];
        let mut next = VecDeque::from([(step, 0)]);
        while let Some((number, distance)) = next.pop_front() {
            for parent in self.parents(number) {
                if !std::mem::replace(&mut seen[*parent as usize], true) {
                    found.push((*parent, distance + 1));
                    next.push_back((*parent, distance + 1));
                }
            }
        }
        found
    }
}

/// A cycle among the steps that could not be passed.
fn cycle(parents: &[Vec<u32>], unmet: &[usize]) -> Vec<u32> {
    // Each of them has a parent among them: going back must come to a step a second time.
    let stuck = |number: &u32| unmet[*number as usize] > 0;
    let Some(mut at) = (0..).take(unmet.len()).find(stuck) else { return Vec::new() };
    let mut place = vec![usize::MAX; parents.len()];
    let mut way = Vec::new();
    while place[at as usize] == usize::MAX {
        place[at as usize] = way.len();
        way.push(at);
        let Some(back) = parents[at as usize].iter().copied().find(stuck) else { return way };
        at = back;
    }
    let mut cycle = way.split_off(place[at as usize]);
    cycle.push(at);
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_longest_ways_and_distances_shortest() {
        // 0 -> 1 -> 2 -> 3, 0 -> 3, 4 alone.
        let graph = Graph::of(&[vec![], vec![0], vec![1], vec![0, 2], vec![]]).unwrap();
        let levels: Vec<_> = (0..5).map(|step| graph.level(step)).collect();
        assert_eq!(levels, [0, 1, 2, 3, 0]);
        assert_eq!(graph.depth(), 4);
        assert_eq!(graph.ancestors(3), [(0, 1), (2, 1), (1, 2)]);
        assert_eq!(graph.children(0), [1, 3]);
        assert_eq!(graph.sinks().collect::<Vec<_>>(), [3, 4]);
    }

    #[test]
    fn a_cycle_is_named_whole() {
        // 0 -> 1 -> 2 -> 3 -> 1, and 4 behind it.
        let cycle = Graph::of(&[vec![], vec![0, 3], vec![1], vec![2], vec![3]]).unwrap_err();
        assert_eq!(cycle.first(), cycle.last());
        let mut steps = cycle[1..].to_vec();
        steps.sort_unstable();
        assert_eq!(steps, [1, 2, 3]);
        assert_eq!(Graph::of(&[vec![0]]).unwrap_err(), [0, 0]);
    }

    #[test]
    fn a_chain_of_all_steps_is_walked_without_recursion() {
        let parents: Vec<Vec<u32>> =
            (0..100_000_u32).map(|n| n.checked_sub(1).into_iter().collect()).collect();
        let graph = Graph::of(&parents).unwrap();
        assert_eq!(graph.depth(), 100_000);
        assert_eq!(graph.ancestors(99_999).len(), 99_999);
    }

    #[test]
    fn nothing_has_no_depth() {
        let graph = Graph::of(&[]).unwrap();
        assert_eq!((graph.depth(), graph.sinks().count()), (0, 0));
        assert!(graph.parents(7).is_empty() && graph.ancestors(0).is_empty());
    }
}
