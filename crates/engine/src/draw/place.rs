//! Where items stand from left to right: as near as can be to what they are linked to, and never nearer than
//! allowed to each other.

use super::layers::Layers;

/// Times down and up. After these nothing moves that an eye would see.
const SWEEPS: usize = 10;

/// Between boxes.
const GAP: f64 = 28.0;

/// Between a line and what is beside it.
const LINE_GAP: f64 = 18.0;

/// How much a link between two bends wants to be straight, compared with one between two boxes. A line that
/// wriggles is seen at once.
const STRAIGHT: f64 = 8.0;

/// And a link between a box and the end of a line.
const STEADY: f64 = 2.0;

/// And a link between a box and a line that goes on: a branch must not pull its line along.
const BRANCH: f64 = 0.1;

/// How much an item without links wants to stay.
const LAZY: f64 = 0.01;

/// Which links pull.
#[derive(Clone, Copy, PartialEq)]
enum Pull {
    Up,
    Down,
    Both,
}

/// The middle of each item. The widths are those of the boxes.
pub(super) fn place(layers: &Layers, widths: &[f64]) -> Vec<f64> {
    let width = |item: usize| widths.get(item).copied().unwrap_or_default();
    let gap = |left: usize, right: usize| {
        let gap = if layers.is_bend(left) || layers.is_bend(right) { LINE_GAP } else { GAP };
        (width(left) + width(right)) / 2.0 + gap
    };
    // The least distance of each item from the first of its row.
    let mut offsets = vec![0.0; layers.row.len()];
    for row in &layers.rows {
        for pair in row.windows(2) {
            offsets[pair[1]] = offsets[pair[0]] + gap(pair[0], pair[1]);
        }
    }
    let mut middles = offsets.clone();
    for row in &layers.rows {
        let half = row.last().map_or(0.0, |last| offsets[*last] / 2.0);
        row.iter().for_each(|item| middles[*item] -= half);
    }
    for _ in 0..SWEEPS {
        layers.rows.iter().for_each(|row| settle(row, layers, Pull::Up, &offsets, &mut middles));
        layers.rows.iter().rev().for_each(|row| settle(row, layers, Pull::Down, &offsets, &mut middles));
    }
    for _ in 0..2 {
        layers.rows.iter().for_each(|row| settle(row, layers, Pull::Both, &offsets, &mut middles));
        layers.rows.iter().rev().for_each(|row| settle(row, layers, Pull::Both, &offsets, &mut middles));
    }
    for _ in 0..2 {
        straighten(layers, &offsets, &mut middles);
    }
    middles
}

/// Puts items that are linked one below the other in one line, as far as their neighbours leave room. What is
/// only nearly straight looks like a mistake.
fn straighten(layers: &Layers, offsets: &[f64], middles: &mut [f64]) {
    let mut is_done = vec![false; middles.len()];
    let neighbours = neighbours(layers);
    for first in layers.rows.iter().flatten() {
        if is_done[*first] {
            continue;
        }
        let mut run = Vec::new();
        let (mut least, mut most, mut sum) = (f64::NEG_INFINITY, f64::INFINITY, 0.0);
        let mut next = Some(*first);
        while let Some(item) = next.filter(|item| !is_done[*item]) {
            let (left, right) = neighbours[item];
            let apart = |other: usize| (offsets[other] - offsets[item]).abs();
            let from = left.map_or(f64::NEG_INFINITY, |left| middles[left] + apart(left));
            let to = right.map_or(f64::INFINITY, |right| middles[right] - apart(right));
            if least.max(from) > most.min(to) {
                break;
            }
            (least, most, sum) = (least.max(from), most.min(to), sum + middles[item]);
            is_done[item] = true;
            run.push(item);
            next = follower(item, layers);
        }
        let middle = (sum / run.len() as f64).max(least).min(most);
        run.into_iter().for_each(|item| middles[item] = middle);
    }
}

/// What stands left and right of each item.
fn neighbours(layers: &Layers) -> Vec<(Option<usize>, Option<usize>)> {
    let mut neighbours = vec![(None, None); layers.row.len()];
    for pair in layers.rows.iter().flat_map(|row| row.windows(2)) {
        neighbours[pair[0]].1 = Some(pair[1]);
        neighbours[pair[1]].0 = Some(pair[0]);
    }
    neighbours
}

/// The item below that should be in one line with this: the only box below a box, or the next bend of a line.
fn follower(item: usize, layers: &Layers) -> Option<usize> {
    let only = |near: &[usize]| {
        let mut alike = near.iter().copied().filter(|other| layers.is_bend(*other) == layers.is_bend(item));
        alike.next().filter(|_| alike.next().is_none())
    };
    only(&layers.below[item]).filter(|below| only(&layers.above[*below]) == Some(item))
}

/// Moves the items of a row to where their links pull them: the least sum of squares that keeps order and
/// distances. Items that would come too near are moved as a block ("pool adjacent violators"), which is exact
/// and linear.
fn settle(row: &[usize], layers: &Layers, pull: Pull, offsets: &[f64], middles: &mut [f64]) {
    struct Block {
        weight: f64,
        mean: f64,
        items: usize,
    }
    let mut blocks: Vec<Block> = Vec::with_capacity(row.len());
    for item in row {
        let (weight, wish) = wish(*item, layers, pull, middles);
        let mut block = Block { weight, mean: wish - offsets[*item], items: 1 };
        while let Some(before) = blocks.pop_if(|before| before.mean >= block.mean) {
            let weight = before.weight + block.weight;
            let mean = (before.mean * before.weight + block.mean * block.weight) / weight;
            block = Block { weight, mean, items: before.items + block.items };
        }
        blocks.push(block);
    }
    let mut items = row.iter();
    for block in blocks {
        for item in items.by_ref().take(block.items) {
            middles[*item] = block.mean + offsets[*item];
        }
    }
}

/// Where an item wants to be, and how much.
fn wish(item: usize, layers: &Layers, pull: Pull, middles: &[f64]) -> (f64, f64) {
    let above = layers.above[item]
        .iter()
        .filter(|_| pull != Pull::Down)
        .map(|other| (*other, strength(*other, item, layers)));
    let below = layers.below[item]
        .iter()
        .filter(|_| pull != Pull::Up)
        .map(|other| (*other, strength(item, *other, layers)));
    let (mut weight, mut sum) = (0.0, 0.0);
    for (other, strength) in above.chain(below) {
        weight += strength;
        sum += strength * middles[other];
    }
    if weight == 0.0 { (LAZY, middles[item]) } else { (weight, sum / weight) }
}

/// How much a link pulls.
fn strength(from: usize, to: usize, layers: &Layers) -> f64 {
    match (layers.is_bend(from), layers.is_bend(to)) {
        (true, true) => STRAIGHT,
        (false, false) => 1.0,
        (true, false) if layers.below[from].len() > 1 => BRANCH,
        (false, true) if layers.above[to].len() > 1 => BRANCH,
        _ => STEADY,
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;

    fn middles(parents: &[&[usize]]) -> Vec<f64> {
        let layers = Layers::new(&Graph::new(parents.iter().copied()));
        place(&layers, &vec![100.0; parents.len()])
    }

    #[test]
    fn a_fan_is_even_and_its_ends_are_in_the_middle() {
        let at = middles(&[&[], &[0], &[0], &[0], &[1, 2, 3]]);
        assert!((at[0] - at[2]).abs() < 0.01 && (at[4] - at[2]).abs() < 0.01, "{at:?}");
        assert!((at[2] - at[1] - 128.0).abs() < 0.01 && (at[3] - at[2] - 128.0).abs() < 0.01, "{at:?}");
    }

    #[test]
    fn a_long_line_is_straight() {
        // A chain of five, and a line from its first to its last.
        let at = middles(&[&[], &[0], &[1], &[2], &[3, 0]]);
        let bends = &at[5..];
        assert!(bends.len() == 3 && bends.iter().all(|bend| (bend - bends[0]).abs() < 1.0), "{at:?}");
        assert!((bends[0] - at[2]).abs() >= 50.0 + LINE_GAP - 0.01, "{at:?}");
    }
}
