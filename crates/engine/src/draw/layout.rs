//! Coordinates: each connected part in layers from top to bottom, and the parts side by side.

use super::graph::Graph;
use super::layers::{Layers, Link};
use super::{order, place};

/// Between rows, at least. Lines that go far to the side get more.
const ROW_GAP: f64 = 46.0;

/// Between parts, both ways.
const PART_GAP: f64 = 36.0;

/// A line that would go less to the side leaves its box beside the middle instead, and goes straight down.
const NEARLY: f64 = 7.0;

/// How much room arrowheads take above a box.
pub(super) const ARROW: f64 = 7.0;

/// What a box needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Above the box, for what sits on its upper edge.
    pub(super) hat: f64,
}

/// A point of the picture, from its upper left.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// A line down, in one or more pieces: straight from `start` to `leave`, a curve to `enter`, straight to
/// `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub(super) start: Point,
    pub(super) leave: f64,
    pub(super) enter: f64,
    pub(super) end: Point,
    /// The box that it belongs to. Lines of one box may lie on each other.
    pub(super) owner: usize,
}

/// Where everything is.
#[derive(Debug, Default)]
pub(super) struct Layout {
    pub(super) width: f64,
    pub(super) height: f64,
    /// Of each box, the middle of its upper edge.
    pub(super) tops: Vec<Point>,
    pub(super) lines: Vec<Line>,
}

/// Lays out all parts, in rows of about the same length where there are many.
pub(super) fn layout(graph: &Graph, sizes: &[Size]) -> Layout {
    let parts = graph.parts();
    let pictures: Vec<Layout> = parts.iter().map(|part| lay_part(graph, part, sizes)).collect();
    let area: f64 = pictures.iter().map(|part| (part.width + PART_GAP) * (part.height + PART_GAP)).sum();
    let widest = pictures.iter().map(|part| part.width).fold(0.0, f64::max);
    // Wider than high, as screens are.
    let most = widest.max((area * 2.6).sqrt());
    let mut whole = Layout { tops: vec![Point { x: 0.0, y: 0.0 }; graph.len()], ..Layout::default() };
    let (mut x, mut y) = (0.0, 0.0);
    for (part, picture) in parts.iter().zip(pictures) {
        if x > 0.0 && x + picture.width > most {
            (x, y) = (0.0, whole.height + PART_GAP);
        }
        let shift = |point: Point| Point { x: point.x + x, y: point.y + y };
        for (place, node) in part.iter().enumerate() {
            whole.tops[*node] = shift(picture.tops[place]);
        }
        whole.lines.extend(picture.lines.iter().map(|line| Line {
            start: shift(line.start),
            leave: line.leave + y,
            enter: line.enter + y,
            end: shift(line.end),
            owner: part[line.owner],
        }));
        whole.width = whole.width.max(x + picture.width);
        whole.height = whole.height.max(y + picture.height);
        x += picture.width + PART_GAP;
    }
    whole
}

/// One connected part, with boxes numbered by their places in `part`.
fn lay_part(graph: &Graph, part: &[usize], sizes: &[Size]) -> Layout {
    let sizes: Vec<Size> = part.iter().map(|node| sizes[*node]).collect();
    let mut layers = Layers::new(&within(graph, part));
    order::order(&mut layers);
    let widths: Vec<f64> = sizes.iter().map(|size| size.width).collect();
    let mut middles = place::place(&layers, &widths);
    let half = |item: usize| widths.get(item).map_or(1.0, |width| width / 2.0);
    let left = (0..middles.len()).map(|item| middles[item] - half(item)).fold(f64::INFINITY, f64::min);
    middles.iter_mut().for_each(|middle| *middle -= left);
    let right = (0..middles.len()).map(|item| middles[item] + half(item)).fold(0.0, f64::max);

    let rows = rows(&layers, &sizes, &middles);
    let top = |item: usize| {
        let row = rows[layers.row[item]];
        row.top + (row.bottom - row.top - sizes[item].height) / 2.0
    };
    let line = |link: &Link| {
        let (above, below) = (rows[layers.row[link.from]], rows[layers.row[link.to]]);
        let start =
            if layers.is_bend(link.from) { above.top } else { top(link.from) + sizes[link.from].height };
        let enter = if layers.is_bend(link.to) { below.top } else { below.top - ARROW };
        let end =
            if layers.is_bend(link.to) { below.top } else { top(link.to) - sizes[link.to].hat - ARROW + 1.0 };
        let is_straight =
            !layers.is_bend(link.from) && (middles[link.from] - middles[link.to]).abs() < NEARLY;
        Line {
            start: Point { x: middles[if is_straight { link.to } else { link.from }], y: start },
            leave: above.bottom,
            enter: enter.min(end),
            end: Point { x: middles[link.to], y: end },
            owner: link.owner,
        }
    };
    Layout {
        width: right,
        height: rows.last().map_or(0.0, |row| row.bottom),
        tops: (0..part.len()).map(|item| Point { x: middles[item], y: top(item) }).collect(),
        lines: layers.links.iter().chain(&layers.straight).map(line).collect(),
    }
}

/// The graph of one part.
fn within(graph: &Graph, part: &[usize]) -> Graph {
    let place = |node: &usize| part.binary_search(node).ok();
    let parents: Vec<Vec<usize>> =
        part.iter().map(|node| graph.parents[*node].iter().filter_map(place).collect()).collect();
    Graph::new(parents.iter().map(Vec::as_slice))
}

/// Where a row is from top to bottom.
#[derive(Clone, Copy)]
struct Row {
    top: f64,
    bottom: f64,
}

fn rows(layers: &Layers, sizes: &[Size], middles: &[f64]) -> Vec<Row> {
    let mut far = vec![0.0_f64; layers.rows.len()];
    for link in &layers.links {
        let row = layers.row[link.from];
        far[row] = far[row].max((middles[link.to] - middles[link.from]).abs());
    }
    let mut rows = Vec::with_capacity(layers.rows.len());
    let mut top = 0.0;
    for (row, items) in layers.rows.iter().enumerate() {
        let boxes = || items.iter().filter_map(|item| sizes.get(*item));
        let hat = boxes().map(|size| size.hat).fold(0.0, f64::max);
        let height = boxes().map(|size| size.height).fold(0.0, f64::max);
        top += hat;
        rows.push(Row { top, bottom: top + height });
        // A line that goes far to the side would be flat, and hide its neighbours.
        top += height + ROW_GAP + (far[row] / 12.0).min(90.0);
    }
    rows
}
