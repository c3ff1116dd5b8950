//! Pictures of graphs: that they can be read by those who must, say what there is to say, and are laid out
//! well.
//!
//! The SVG is looked at as others get it: a small strict reader of XML below gives its elements, and
//! everything else is found from them. `WINDLASS_SEED=7` repeats one random graph.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::collections::{BTreeMap, BTreeSet};

use windlass::State;
use windlass::draw::{Drawing, MOST_NODES, Node, Shape};

/// Everything that some reader might obey.
const EVIL: &str = "</text><script>alert('1')</script> \"]] --> n9; %%{init: {}}%% \\ \\N &lt; $$$x$$ fa:fa-ban `a` ]]> #35; \u{1b}[31m\r\n\t\0\u{7f}\u{9b}\u{202e}\u{2028}\u{ffff}é👍\\";

/// What [`EVIL`] looks like where nothing is obeyed.
const SHOWN: &str = "</text><script>alert('1')</script> \"]] --> n9; %%{init: {}}%% \\ \\N &lt; $$$x$$ fa:fa-ban `a` ]]> #35; ␛[31m␍␊␉␀␡\u{fffd}\u{fffd}\u{fffd}\u{fffd}é👍\\";

fn node(name: impl Into<String>, parents: impl IntoIterator<Item = usize>) -> Node {
    Node { parents: parents.into_iter().collect(), ..Node::new(name) }
}

fn drawing(nodes: impl IntoIterator<Item = Node>) -> Drawing {
    Drawing { title: "picture".into(), nodes: nodes.into_iter().collect() }
}

fn evil() -> Drawing {
    let evil = |shape| Node {
        label: Some(EVIL.into()),
        state: Some(State::Running),
        note: Some(EVIL.into()),
        join: Some(EVIL.into()),
        is_conditional: true,
        shape,
        ..Node::new(EVIL)
    };
    let shapes = [Shape::Task, Shape::Program, Shape::Workflow, Shape::Map];
    Drawing { title: EVIL.into(), nodes: shapes.map(evil).into() }
}

// A reader of XML that refuses what a browser would.

#[derive(Clone, Debug, Default)]
struct Element {
    name: String,
    attributes: BTreeMap<String, String>,
    /// Its own text, without that of elements inside.
    text: String,
    parent: Option<usize>,
}

impl Element {
    fn has_class(&self, class: &str) -> bool {
        self.attributes.get("class").is_some_and(|classes| classes.split(' ').any(|one| one == class))
    }

    fn number(&self, attribute: &str) -> f64 {
        self.attributes[attribute].parse().unwrap()
    }
}

fn is_legal(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..) && !matches!(c, '\u{7f}'..='\u{9f}')
}

fn decode(text: &str) -> String {
    assert!(!text.contains('<') && !text.contains("]]>"), "{text}");
    let (mut decoded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('&') {
        let (entity, after) = after.split_once(';').unwrap_or_else(|| panic!("an & alone in {text:?}"));
        decoded.push_str(before);
        decoded.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("&{other}; in {text:?}"),
        });
        rest = after;
    }
    decoded + rest
}

fn attributes(mut text: &str) -> BTreeMap<String, String> {
    let mut attributes = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.strip_prefix(' ').unwrap().split_once("=\"").unwrap();
        let (value, rest) = rest.split_once('"').unwrap();
        assert!(name.chars().all(|c| c.is_ascii_alphabetic()), "{name}");
        assert!(attributes.insert(name.to_owned(), decode(value)).is_none(), "{name} twice");
        text = rest;
    }
    attributes
}

fn read(svg: &str) -> Vec<Element> {
    assert!(svg.chars().all(is_legal));
    let mut elements: Vec<Element> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    let mut rest = svg.trim_end();
    assert!(rest.starts_with("<svg "));
    while let Some((text, after)) = rest.split_once('<') {
        match open.last() {
            Some(inside) => elements[*inside].text.push_str(&decode(text)),
            None => assert_eq!(text, ""),
        }
        let (tag, after) = after.split_once('>').unwrap();
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(elements[open.pop().unwrap()].name, name);
            continue;
        }
        let (tag, is_closed) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let (name, given) = tag.split_at(tag.find(' ').unwrap_or(tag.len()));
        let known = ["svg", "title", "desc", "style", "rect", "text", "g", "path", "circle"];
        assert!(known.contains(&name), "<{name}>");
        let (name, attributes) = (name.to_owned(), attributes(given));
        assert!(elements.is_empty() || !open.is_empty(), "two roots");
        elements.push(Element { name, attributes, text: String::new(), parent: open.last().copied() });
        if !is_closed {
            open.push(elements.len() - 1);
        }
    }
    assert!(open.is_empty() && rest.is_empty(), "{open:?} {rest:?}");
    elements
}

// What is seen in a picture.

#[derive(Clone, Debug)]
struct Seen {
    tooltip: String,
    texts: Vec<String>,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

impl Seen {
    fn middle(&self) -> f64 {
        f64::midpoint(self.left, self.right)
    }
}

/// A line from one point to another, as the path has it.
#[derive(Clone, Debug)]
struct Stroke {
    points: Vec<(f64, f64)>,
}

#[derive(Debug)]
struct Picture {
    width: f64,
    height: f64,
    boxes: Vec<Seen>,
    strokes: Vec<Stroke>,
}

fn look(svg: &str) -> Picture {
    let elements = read(svg);
    let mut contents: BTreeMap<usize, Vec<&Element>> = BTreeMap::new();
    for element in &elements {
        contents.entry(element.parent.unwrap_or(usize::MAX)).or_default().push(element);
    }
    let inside = |parent: usize| contents[&parent].iter().copied();
    let mut boxes = Vec::new();
    for (place, _) in elements.iter().enumerate().filter(|(_, element)| element.has_class("node")) {
        let face = inside(place).find(|element| element.has_class("face")).unwrap();
        let (left, top) = (face.number("x"), face.number("y"));
        boxes.push(Seen {
            tooltip: inside(place).find(|element| element.name == "title").unwrap().text.clone(),
            texts: inside(place)
                .filter(|element| element.name == "text")
                .map(|element| element.text.clone())
                .collect(),
            left,
            top,
            right: left + face.number("width"),
            bottom: top + face.number("height"),
        });
    }
    let edges = elements.iter().filter(|element| element.has_class("edge"));
    let strokes = edges.flat_map(|edge| strokes(&edge.attributes["d"])).collect();
    Picture { width: elements[0].number("width"), height: elements[0].number("height"), boxes, strokes }
}

/// Follows a path, with ten points on each curve.
fn strokes(path: &str) -> Vec<Stroke> {
    let mut strokes = Vec::new();
    for part in path.split('M').skip(1) {
        let mut points: Vec<(f64, f64)> = Vec::new();
        let spaced = part.replace('V', "\nV").replace('C', "\nC");
        for command in spaced.lines() {
            let letter = command.chars().next().unwrap();
            let numbers: Vec<f64> =
                command.trim_start_matches(['V', 'C']).split(' ').map(|n| n.parse().unwrap()).collect();
            match (letter, numbers.as_slice(), points.last().copied()) {
                ('V', [y], Some((x, _))) => points.push((x, *y)),
                ('C', [x1, y1, x2, y2, x3, y3], Some((x0, y0))) => points.extend((1..=10).map(|step| {
                    let t = f64::from(step) / 10.0;
                    let at = |a: f64, b: f64, c: f64, d: f64| {
                        let s = 1.0 - t;
                        s * s * s * a + 3.0 * s * s * t * b + 3.0 * s * t * t * c + t * t * t * d
                    };
                    if step == 10 { (*x3, *y3) } else { (at(x0, *x1, *x2, *x3), at(y0, *y1, *y2, *y3)) }
                })),
                (_, [x, y], None) => points.push((*x, *y)),
                other => panic!("{other:?}"),
            }
        }
        strokes.push(Stroke { points });
    }
    strokes
}

impl Picture {
    /// Panics where two boxes overlap, something is outside, or a line doesn't go down.
    fn check(&self, what: &str) {
        let mut by_left = self.boxes.clone();
        by_left.sort_by(|one, other| one.left.total_cmp(&other.left));
        for (place, one) in by_left.iter().enumerate() {
            for other in by_left[place + 1..].iter().take_while(|other| other.left < one.right + 20.0) {
                let is_apart = other.top > one.bottom + 20.0 || one.top > other.bottom + 20.0;
                assert!(is_apart, "{what}: {one:?} and {other:?}");
            }
            assert!(
                one.left >= 0.0 && one.right <= self.width && one.top >= 0.0 && one.bottom <= self.height,
                "{what}: {one:?}"
            );
        }
        for stroke in &self.strokes {
            for pair in stroke.points.windows(2) {
                assert!(pair[1].1 > pair[0].1, "{what}: {stroke:?}");
                assert!((0.0..=self.width).contains(&pair[1].0), "{what}: {stroke:?}");
            }
        }
    }

    /// Panics where a line passes through a box.
    fn check_lines_are_beside_boxes(&self, what: &str) {
        for stroke in &self.strokes {
            for (x, y) in &stroke.points {
                let through = self.boxes.iter().find(|seen| {
                    *x > seen.left - 2.0
                        && *x < seen.right + 2.0
                        && *y > seen.top + 0.5
                        && *y < seen.bottom - 0.5
                });
                assert!(through.is_none(), "{what}: {stroke:?} through {through:?}");
            }
        }
    }

    /// The edges that an eye finds: from below a box along the lines to the top of others.
    fn edges(&self) -> BTreeSet<(usize, usize)> {
        let key = |(x, y): (f64, f64)| (x.to_bits(), y.to_bits());
        let mut from: BTreeMap<(u64, u64), Vec<&Stroke>> = BTreeMap::new();
        for stroke in &self.strokes {
            from.entry(key(stroke.points[0])).or_default().push(stroke);
        }
        let mut edges = BTreeSet::new();
        for (parent, seen) in self.boxes.iter().enumerate() {
            let is_start = |stroke: &&Stroke| {
                let (x, y) = stroke.points[0];
                (x - seen.middle()).abs() < 8.0 && (y - seen.bottom).abs() < 0.2
            };
            let mut open: Vec<&Stroke> = self.strokes.iter().filter(is_start).collect();
            while let Some(stroke) = open.pop() {
                let (x, y) = *stroke.points.last().unwrap();
                let is_end =
                    |seen: &Seen| (seen.middle() - x).abs() < 0.2 && seen.top > y && seen.top - y < 20.0;
                match self.boxes.iter().position(is_end) {
                    Some(child) => drop(edges.insert((parent, child))),
                    None => open
                        .extend(from.get(&key((x, y))).unwrap_or_else(|| panic!("a loose end at {x} {y}"))),
                }
            }
        }
        edges
    }
}

// Graphs by chance.

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }

    fn drawing(&mut self) -> Drawing {
        let nodes = 1 + self.below(60);
        let edges = self.below(nodes * 2);
        let back = 1 + self.below(nodes);
        let mut drawing = drawing((0..nodes).map(|number| self.node(number)));
        for _ in 0..edges {
            let child = self.below(nodes);
            if let Some(parent) = child.checked_sub(1 + self.below(back)) {
                drawing.nodes[child].parents.push(parent);
            }
        }
        drawing
    }

    fn node(&mut self, number: usize) -> Node {
        let shapes = [Shape::Task, Shape::Program, Shape::Workflow, Shape::Map];
        let words = [
            "",
            "a",
            "at least 2",
            "日本語の名前",
            "a-much-longer-text-than-will-fit-into-any-box-of-this-picture",
        ];
        let mut word = || Some(words[self.below(words.len())].to_owned()).filter(|word| !word.is_empty());
        let (name, label, note, join) = (word().unwrap_or_default(), word(), word(), word());
        Node {
            label,
            note,
            join,
            state: State::ALL.get(self.below(18)).copied(),
            shape: shapes[self.below(4)],
            is_conditional: self.below(4) == 0,
            ..Node::new(format!("{number}. {name}"))
        }
    }
}

/// The longest way from a root to each node, where parents come before children.
fn levels(drawing: &Drawing) -> Vec<usize> {
    let mut levels: Vec<usize> = Vec::new();
    for node in &drawing.nodes {
        levels.push(node.parents.iter().map(|parent| levels[*parent] + 1).max().unwrap_or(0));
    }
    levels
}

/// Of each node, the first node of the part that it is in.
fn parts(drawing: &Drawing) -> Vec<usize> {
    let mut parts: Vec<usize> = (0..drawing.nodes.len()).collect();
    for (child, node) in drawing.nodes.iter().enumerate() {
        for parent in &node.parents {
            let (one, other) = (parts[child].min(parts[*parent]), parts[child].max(parts[*parent]));
            parts.iter_mut().filter(|part| **part == other).for_each(|part| *part = one);
        }
    }
    parts
}

fn edges(drawing: &Drawing) -> BTreeSet<(usize, usize)> {
    let nodes = drawing.nodes.iter().enumerate();
    nodes.flat_map(|(child, node)| node.parents.iter().map(move |parent| (*parent, child))).collect()
}

/// Boxes in the order of the nodes: random nodes begin with their numbers.
fn in_order(picture: &mut Picture) {
    let number = |seen: &Seen| seen.tooltip.split_once('.').unwrap().0.parse::<usize>().unwrap();
    picture.boxes.sort_by_key(number);
}

#[test]
fn random_graphs_are_laid_out_well() {
    let given = std::env::var("WINDLASS_SEED").ok().map(|seed| seed.parse::<u64>().unwrap());
    for seed in given.map_or(0..200, |seed| seed..seed + 1) {
        let what = format!("WINDLASS_SEED={seed}");
        let drawing = Random(seed).drawing();
        let svg = drawing.svg();
        assert_eq!(svg, drawing.clone().svg(), "{what}: not the same bytes");
        let mut picture = look(&svg);
        in_order(&mut picture);
        assert_eq!(picture.boxes.len(), drawing.nodes.len(), "{what}");
        picture.check(&what);
        picture.check_lines_are_beside_boxes(&what);
        assert_eq!(picture.edges(), edges(&drawing), "{what}: not the edges of the graph");

        let (levels, parts) = (levels(&drawing), parts(&drawing));
        for (one, seen) in picture.boxes.iter().enumerate() {
            for (other, beside) in
                picture.boxes.iter().enumerate().filter(|(other, _)| parts[*other] == parts[one])
            {
                let found = seen.top.total_cmp(&beside.top);
                assert_eq!(found, levels[one].cmp(&levels[other]), "{what}: levels of {one} and {other}");
            }
        }
    }
}

#[test]
fn svg_shows_text_and_obeys_none() {
    let svg = evil().svg();
    let elements = read(&svg);
    assert_eq!(elements[1].text, SHOWN);
    assert!(elements.iter().all(|element| element.attributes.keys().all(|name| !name.starts_with("on"))));
    for seen in look(&svg).boxes {
        let lines =
            [SHOWN.to_owned(), SHOWN.to_owned(), format!("running · {SHOWN}"), format!("if · {SHOWN}")];
        assert_eq!(seen.tooltip, lines.join("\n"));
        assert_eq!(seen.texts.len(), 4);
        assert!(
            seen.texts.iter().all(|text| text.contains('…') && text.chars().count() < 40),
            "{:?}",
            seen.texts
        );
    }
}

/// `#34;` and its like, decoded.
fn decode_mermaid(text: &str) -> String {
    let (mut decoded, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once('#') {
        let (code, after) = after.split_once(';').unwrap();
        decoded.push_str(before);
        decoded.push(char::from_u32(code.parse().unwrap()).unwrap());
        rest = after;
    }
    (decoded + rest).replace('\u{2060}', "")
}

#[test]
fn mermaid_shows_text_and_obeys_none() {
    let mermaid = evil().mermaid();
    let lines: Vec<&str> = mermaid.lines().collect();
    assert!(mermaid.chars().all(|c| c == '\n' || !c.is_control()), "{mermaid:?}");
    assert_eq!(
        lines[..4].iter().map(|line| line.split(' ').next().unwrap()).collect::<Vec<_>>(),
        ["---", "title:", "---", "flowchart"]
    );
    let title = lines[1].strip_prefix("title: \"").unwrap().strip_suffix('"').unwrap();
    assert!(
        !title.contains(['"', '%', '<', '#', '`']) && title.contains("\\x22") && title.ends_with("\\x5c"),
        "{title}"
    );
    for (number, (open, close)) in
        [("(\"", "\")"), ("[\"", "\"]"), ("[[\"", "\"]]"), ("{{\"", "\"}}")].into_iter().enumerate()
    {
        let label = lines[4 + number].strip_prefix(&format!("    n{number}{open}")).unwrap();
        let label = label.strip_suffix(close).unwrap();
        let parts: Vec<&str> = label.split("<br/>").collect();
        assert_eq!(parts.len(), 4, "{label}");
        assert!(
            parts.iter().all(|part| !part.contains(['"', '<', '>', '&', '%', '`', '\\', '$', '{', '[', ':'])),
            "{label}"
        );
        assert!(!label.contains("#36;#36;") && !label.contains("#58;fa-"), "a formula or an icon: {label}");
        assert_eq!(decode_mermaid(parts[0]), SHOWN);
        assert_eq!(decode_mermaid(parts[3]), format!("if · {SHOWN}"));
    }
    let rest = &lines[8..];
    assert!(
        rest.iter()
            .all(|line| line.starts_with("    classDef ") || line.starts_with("    class n0,n1,n2,n3 ")),
        "{rest:?}"
    );
}

/// The strings of a DOT file, unescaped, and what is left without them.
fn split_dot(dot: &str) -> (Vec<String>, String) {
    let (mut strings, mut left) = (Vec::new(), String::new());
    let mut characters = dot.chars();
    while let Some(c) = characters.next() {
        if c != '"' {
            left.push(c);
            continue;
        }
        let mut string = String::new();
        loop {
            match characters.next().unwrap() {
                '"' => break,
                '\\' => match characters.next().unwrap() {
                    'n' => string.push('\n'),
                    escaped @ ('"' | '\\') => string.push(escaped),
                    other => panic!("\\{other}"),
                },
                c => string.push(c),
            }
        }
        strings.push(string.replace("&amp;", "&"));
    }
    (strings, left)
}

#[test]
fn dot_shows_text_and_obeys_none() {
    let dot = evil().dot();
    assert!(dot.chars().all(|c| c == '\n' || !c.is_control()), "{dot:?}");
    let (strings, left) = split_dot(&dot);
    assert!(!left.contains("script") && left.starts_with("digraph {\n") && left.ends_with("\n}\n"), "{left}");
    let label = [SHOWN.to_owned(), SHOWN.to_owned(), format!("running · {SHOWN}"), format!("if · {SHOWN}")]
        .join("\n");
    assert_eq!(strings.iter().filter(|string| **string == label).count(), 4);
    assert_eq!(strings[0], SHOWN);
    assert!(dot.contains("&amp;lt;"), "Graphviz would read an entity: {dot}");
}

fn order() -> Drawing {
    let pay = Node { state: Some(State::Completed), label: Some("pay:card".into()), ..Node::new("pay") };
    let pack = Node { shape: Shape::Program, ..node("pack", [0]) };
    let invoice = Node { is_conditional: true, shape: Shape::Workflow, ..node("invoice", [0]) };
    let tell = Node {
        join: Some("any".into()),
        shape: Shape::Map,
        note: Some("3 of 4".into()),
        ..node("tell", [1, 2])
    };
    Drawing { title: "order 42".into(), nodes: vec![pay, pack, invoice, tell] }
}

#[test]
fn mermaid_is_as_expected() {
    let expected = r#"---
title: "order 42"
---
flowchart TD
    n0("pay<br/>pay#58;card<br/>completed")
    n1["pack"]
    n2[["invoice<br/>if"]]
    n3{{"tell<br/>3 of 4<br/>any"}}
    n0 --> n1
    n0 --> n2
    n1 --> n3
    n2 --> n3
    classDef done fill:#e9f6ee,stroke:#6cb98a,color:#217a47
    class n0 done
    classDef conditional stroke-dasharray:5 3
    class n2 conditional
"#;
    assert_eq!(order().mermaid(), expected);
}

#[test]
fn dot_is_as_expected() {
    let plain = r##"fillcolor="#ffffff" color="#b9c3d0" fontcolor="#3d4a5c"]"##;
    let expected = format!(
        r##"digraph {{
    graph [label="order 42" labelloc=t rankdir=TB fontname="Helvetica" nodesep=0.3 ranksep=0.45]
    node [fontname="Helvetica" fontsize=11 margin="0.16,0.09"]
    edge [color="#8a94a3" arrowsize=0.6]
    n0 [label="pay\npay:card\ncompleted" shape=box style="rounded,filled" fillcolor="#e9f6ee" color="#6cb98a" fontcolor="#217a47"]
    n1 [label="pack" shape=box style="filled" {plain}
    n2 [label="invoice\nif" shape=box peripheries=2 style="rounded,filled,dashed" {plain}
    n3 [label="tell\n3 of 4\nany" shape=box3d style="filled" {plain}
    n0 -> n1
    n0 -> n2
    n1 -> n3
    n2 -> n3
}}
"##
    );
    assert_eq!(order().dot(), expected);
}

#[test]
fn svg_says_what_it_is() {
    let elements = read(&order().svg());
    let texts: Vec<&str> = elements[..3].iter().map(|element| element.text.trim()).collect();
    assert_eq!(texts, ["", "order 42", "4 steps in 3 levels: 1 completed"]);
    let root = &elements[0].attributes;
    assert_eq!(root["role"], "img");
    assert_eq!(root["viewBox"], format!("0 0 {} {}", root["width"], root["height"]));
    assert!(elements[3].text.contains("prefers-color-scheme:dark"));
    // A style inside a page's SVG holds for the whole page: each rule must be about this picture.
    for rule in elements[3]
        .text
        .replace("@media (prefers-color-scheme:dark){", "")
        .split('}')
        .filter(|rule| !rule.is_empty())
    {
        let selectors = rule.split('{').next().unwrap();
        assert!(selectors.split(',').all(|selector| selector.starts_with(".windlass-graph ")), "{rule}");
    }
    // And there are no ids, which two pictures in a page would share.
    assert!(elements.iter().all(|element| !element.attributes.contains_key("id")));
    let picture = look(&order().svg());
    assert_eq!(picture.boxes[0].texts, ["pay", "pay:card", "completed"]);
    assert_eq!(picture.boxes[3].texts, ["any", "tell", "3 of 4"]);
    assert_eq!(picture.boxes[2].tooltip, "invoice\nif");
}

#[test]
fn every_state_has_its_own_look() {
    let states = State::ALL.map(|state| Node { state: Some(state), ..Node::new("same") });
    let elements = read(&drawing(states).svg());
    let marks: BTreeSet<&str> = elements
        .iter()
        .filter(|element| element.has_class("mark"))
        .map(|element| element.attributes["d"].as_str())
        .collect();
    assert_eq!(marks.len(), State::ALL.len());
    let looks: BTreeSet<&str> = elements
        .iter()
        .filter(|element| element.has_class("node"))
        .map(|element| element.attributes["class"].as_str())
        .collect();
    assert_eq!(looks.len(), 8);
}

#[test]
fn long_names_are_short_in_the_box_and_whole_in_the_tooltip() {
    let name = "名前-".repeat(40);
    let picture = look(&drawing([node(name.as_str(), [])]).svg());
    assert_eq!(picture.boxes[0].tooltip, name);
    let (head, tail) = picture.boxes[0].texts[0].split_once('…').unwrap();
    assert!(name.starts_with(head) && name.ends_with(tail) && !head.is_empty() && !tail.is_empty());
    assert!(picture.width < 400.0, "{}", picture.width);
}

#[test]
fn nothing_and_one() {
    let empty = Drawing::default();
    assert!(read(&empty.svg()).iter().any(|element| element.text == "No steps"));
    assert_eq!(empty.mermaid(), "flowchart TD\n");
    assert!(empty.dot().starts_with("digraph {\n") && empty.dot().ends_with("}\n"));
    let picture = look(&drawing([node("", [])]).svg());
    picture.check("one");
    assert_eq!((picture.boxes.len(), picture.strokes.len()), (1, 0));
    assert!(drawing([node("", [])]).mermaid().contains("n0(\" \")"));
}

#[test]
fn parts_stand_beside_each_other() {
    // Two chains and forty alone: not one row of forty-two.
    let chains = [node("a", []), node("b", [0]), node("c", []), node("d", [2])];
    let picture = look(&drawing(chains.into_iter().chain((0..40).map(|_| node("alone", [])))).svg());
    picture.check("parts");
    assert_eq!(picture.edges(), BTreeSet::from([(0, 1), (2, 3)]));
    assert!(picture.width < 2_000.0 && picture.height < 2_000.0, "{} {}", picture.width, picture.height);
    assert!((picture.boxes[0].top - picture.boxes[2].top).abs() < 0.1);
}

#[test]
fn what_is_broken_is_drawn_too() {
    // Unknown parents, itself, one twice, and a circle of three.
    let broken = drawing([node("a", [9, 0]), node("b", [0, 0, 3]), node("c", [1]), node("d", [2])]);
    let picture = look(&broken.svg());
    picture.check("broken");
    assert_eq!(picture.edges(), BTreeSet::from([(0, 1), (1, 2), (2, 3)]));
    assert_eq!(broken.mermaid().matches("-->").count(), 3);
    assert_eq!(broken.dot().matches("->").count(), 3);
}

fn numbered(nodes: usize, parents: impl Fn(usize) -> Vec<usize>) -> Drawing {
    let state =
        |number: usize| Some(if number.is_multiple_of(100) { State::Failed } else { State::Completed });
    drawing(
        (0..nodes)
            .map(|number| Node { state: state(number), ..node(format!("{number}. step"), parents(number)) }),
    )
}

/// A large picture: checked, and small enough to be opened.
fn look_large(drawing: &Drawing, what: &str) -> Picture {
    let svg = drawing.svg();
    assert!(svg.len() < 3_000_000, "{what}: {} bytes", svg.len());
    let picture = look(&svg);
    picture.check(what);
    assert_eq!(drawing.mermaid().lines().filter(|line| line.ends_with("\")")).count(), drawing.nodes.len());
    picture
}

fn tooltips(picture: &Picture) -> Vec<&str> {
    picture
        .boxes
        .iter()
        .map(|seen| seen.tooltip.as_str())
        .filter(|tooltip| tooltip.starts_with('+'))
        .collect()
}

#[test]
fn a_wide_fan_is_folded() {
    let last = 10_001;
    let fan = numbered(last + 1, |number| match number {
        0 => vec![],
        _ if number == last => (1..last).collect(),
        _ => vec![0],
    });
    let picture = look_large(&fan, "fan");
    assert_eq!(tooltips(&picture), ["+ 9,900 more\n9,801 completed\n99 failed"]);
    assert_eq!(picture.boxes.len(), 1 + 100 + 1 + 1);
    assert_eq!(picture.edges().len(), 2 * 101);
    picture.check_lines_are_beside_boxes("fan");
}

#[test]
fn a_long_chain_is_folded() {
    let chain = numbered(10_000, |number| number.checked_sub(1).into_iter().collect());
    let picture = look_large(&chain, "chain");
    assert_eq!(tooltips(&picture), ["+ 9,500 more in 9,500 levels\n9,405 completed\n95 failed"]);
    assert_eq!(picture.boxes.len(), 501);
    assert!(picture.boxes.last().unwrap().tooltip.starts_with("9999. "));
    assert_eq!(picture.edges().len(), 500);
}

#[test]
fn a_large_layered_graph_is_folded() {
    let mut random = Random(3);
    let parents: Vec<Vec<usize>> = (0..10_000_usize)
        .map(|number| {
            (0..3)
                .filter_map(|_| (number / 100).checked_sub(1).map(|row| row * 100 + random.below(100)))
                .collect()
        })
        .collect();
    let layered = numbered(10_000, |number| parents[number].clone());
    let picture = look_large(&layered, "layered");
    assert!(
        picture.boxes.len() > MOST_NODES && picture.boxes.len() < MOST_NODES + 200,
        "{}",
        picture.boxes.len()
    );
    assert_eq!(tooltips(&picture).len(), 100);
    assert!(tooltips(&picture).iter().all(|tooltip| tooltip.starts_with("+ 80 more\n")));
}

#[test]
fn the_largest_that_is_not_folded_is_whole() {
    let mut random = Random(4);
    let parents: Vec<Vec<usize>> = (0..MOST_NODES)
        .map(|number| (0..3).filter_map(|_| number.checked_sub(1 + random.below(400))).collect())
        .collect();
    let picture = look_large(&numbered(MOST_NODES, |number| parents[number].clone()), "largest");
    assert_eq!(picture.boxes.len(), MOST_NODES);
    assert!(tooltips(&picture).is_empty());
}

#[test]
fn long_lines_do_not_explode() {
    // Each node needs the one before, the one three hundred before and the first.
    let jumps = |number: usize| [number.checked_sub(1), number.checked_sub(300), number.checked_sub(number)];
    let drawing = numbered(MOST_NODES, |number| {
        jumps(number).into_iter().flatten().filter(|parent| *parent < number).collect()
    });
    let picture = look_large(&drawing, "jumps");
    assert_eq!(picture.boxes.len(), MOST_NODES);
    // Every node needs all before it: more edges than can be seen.
    let dense = numbered(600, |number| (0..number).collect());
    let picture = look_large(&dense, "dense");
    assert!(picture.boxes.len() > 50, "{}", picture.boxes.len());
}
