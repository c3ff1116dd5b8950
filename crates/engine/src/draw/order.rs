//! The order within rows: few lines should cross.

use super::layers::Layers;

/// Times down and up. More change little.
const SWEEPS: usize = 12;

/// Orders all rows. First by a walk that keeps what belongs together side by side, then by moving each item
/// to the middle of those that it is linked to, above and below in turn. The best order seen is kept.
pub(super) fn order(layers: &mut Layers) {
    walk(layers);
    let mut place = places(layers);
    let mut best = (crossings(layers, &place), layers.rows.clone());
    for sweep in 0..SWEEPS {
        if best.0 == 0 {
            break;
        }
        let depth = layers.rows.len();
        for step in 1..depth {
            let (row, near) =
                if sweep % 2 == 0 { (step, &layers.above) } else { (depth - 1 - step, &layers.below) };
            arrange(&mut layers.rows[row], near, &mut place);
        }
        let crossings = crossings(layers, &place);
        if crossings < best.0 {
            best = (crossings, layers.rows.clone());
        }
    }
    layers.rows = best.1;
}

/// Depth first, from the first box on.
fn walk(layers: &mut Layers) {
    let mut seen = vec![false; layers.row.len()];
    let mut rows = vec![Vec::new(); layers.rows.len()];
    for root in &layers.rows.concat() {
        let mut open = vec![*root];
        while let Some(item) = open.pop() {
            if std::mem::replace(&mut seen[item], true) {
                continue;
            }
            rows[layers.row[item]].push(item);
            open.extend(layers.below[item].iter().rev());
        }
    }
    layers.rows = rows;
}

/// Where each item stands in its row.
fn places(layers: &Layers) -> Vec<usize> {
    let mut places = vec![0; layers.row.len()];
    for row in &layers.rows {
        for (place, item) in row.iter().enumerate() {
            places[*item] = place;
        }
    }
    places
}

/// Sorts a row by the mean place of what its items are linked to. Items without a link stay where they are.
fn arrange(row: &mut [usize], near: &[Vec<usize>], place: &mut [usize]) {
    let linked: Vec<usize> = (0..row.len()).filter(|at| !near[row[*at]].is_empty()).collect();
    let mut items: Vec<(f64, usize)> = Vec::with_capacity(linked.len());
    for at in &linked {
        let near = &near[row[*at]];
        let sum: usize = near.iter().map(|item| place[*item]).sum();
        items.push((sum as f64 / near.len() as f64, row[*at]));
    }
    // Stable, so that equal ones stay in the order that they have.
    items.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    for (at, (_, item)) in linked.into_iter().zip(items) {
        row[at] = item;
        place[item] = at;
    }
}

/// How many pairs of links cross.
fn crossings(layers: &Layers, place: &[usize]) -> usize {
    layers.rows.iter().map(|row| row_crossings(row, layers, place)).sum()
}

/// Crossings between a row and the next: pairs of links that end in the other order than they begin.
fn row_crossings(row: &[usize], layers: &Layers, place: &[usize]) -> usize {
    let mut ends = Vec::new();
    for item in row {
        let first = ends.len();
        ends.extend(layers.below[*item].iter().map(|below| place[*below] + 1));
        ends[first..].sort_unstable();
    }
    let Some(widest) = ends.iter().max().copied() else { return 0 };
    // A Fenwick tree over the places below: how many links seen so far end at or before one.
    let (mut tree, mut crossings) = (vec![0_usize; widest + 1], 0);
    for (seen, end) in ends.into_iter().enumerate() {
        let (mut before, mut at) = (0, end);
        while at > 0 {
            before += tree[at];
            at &= at - 1;
        }
        crossings += seen - before;
        let mut at = end;
        while at <= widest {
            tree[at] += 1;
            at += at & at.wrapping_neg();
        }
    }
    crossings
}

#[cfg(test)]
mod tests {
    use super::super::graph::Graph;
    use super::*;

    fn layers(parents: &[&[usize]]) -> Layers {
        Layers::new(&Graph::new(parents.iter().copied()))
    }

    #[test]
    fn crossings_are_counted() {
        let crossed = layers(&[&[], &[], &[1], &[0]]);
        assert_eq!(crossings(&crossed, &places(&crossed)), 1);
        let complete = layers(&[&[], &[], &[], &[0, 1, 2], &[0, 1, 2], &[0, 1, 2]]);
        assert_eq!(crossings(&complete, &places(&complete)), 9);
        let fan = layers(&[&[], &[0], &[0], &[1, 2]]);
        assert_eq!(crossings(&fan, &places(&fan)), 0);
    }

    #[test]
    fn what_can_be_untangled_is() {
        // Two ladders, with their steps mixed.
        let mut tangled = layers(&[&[], &[], &[1], &[0], &[3], &[2], &[5, 2], &[4, 3]]);
        order(&mut tangled);
        assert_eq!(crossings(&tangled, &places(&tangled)), 0);
        // 0 → 3, 4 and 1 → 4, 5 and 2 → 5, 3: a ring can't be drawn in two rows without a crossing, but with
        // two.
        let mut ring = layers(&[&[], &[], &[], &[0, 2], &[0, 1], &[1, 2]]);
        order(&mut ring);
        assert_eq!(crossings(&ring, &places(&ring)), 2);
    }

    #[test]
    fn the_order_given_is_kept_where_nothing_crosses() {
        let mut fan = layers(&[&[], &[0], &[0], &[0], &[1, 2, 3]]);
        order(&mut fan);
        assert_eq!(fan.rows, [vec![0], vec![1, 2, 3], vec![4]]);
    }
}
