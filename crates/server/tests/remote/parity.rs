//! The same command lines on a file and through a server over an equal one: the same exit codes, texts and
//! JSON, up to ids and times.

use std::path::Path;

use super::kit::Server;
use super::support::{Place, Said};
use super::url;

/// A directory, a server over the file in it, and all ids that were seen so far.
struct Side {
    server: Server,
    /// Options that say where.
    place: Vec<String>,
    ids: Vec<String>,
}

const FLOW: &str = r#"
name: nightly
input: { type: object, properties: { day: { type: string } } }
steps:
  extract: { task: echo, input: { regions: [10, 20], day: "${input.day}" } }
  regions: { task: echo, needs: extract, map: { over: "${extract.regions}", max_parallel: 1 }, input: "${item + 1}" }
  never: { task: echo, needs: extract, if: "false" }
  bad: { task: bad, needs: extract }
"#;

impl Side {
    fn new(through_server: bool) -> Self {
        let server = Server::start();
        server.place.file("flow.yaml", FLOW);
        server.place.file("broken.yaml", "name: x\nsteps: { a: { needs: [a], task: k } }\n");
        server.place.file("batch.jsonl", "{\"kind\": \"b\", \"payload\": 1e400}\n{\"kind\": \"b\"}\n");
        let place = match through_server {
            true => vec!["--server".into(), url(&server)],
            false => vec!["--store".into(), "sqlite:windlass.db".into()],
        };
        Self { server, place, ids: Vec::new() }
    }

    /// Runs a line, in which `{n}` is the nth id that was seen.
    fn run(&mut self, line: &str, json: bool) -> Said {
        let mut line = line.to_owned();
        for (n, id) in self.ids.iter().enumerate() {
            line = line.replace(&format!("{{{n}}}"), id);
        }
        let mut words = words(&line);
        words.extend(self.place.clone());
        if json {
            words.push("--json".into());
        }
        let said = self.server.place.run(&words);
        for text in [&said.out, &said.err] {
            for id in uuids(text) {
                if !self.ids.contains(&id) {
                    self.ids.push(id);
                }
            }
        }
        said
    }

    /// What was said, without what cannot be the same.
    fn plain(&self, said: &Said) -> (i32, String, String) {
        let path = self.server.place.path();
        (said.code, self.neutral(&said.out, path), self.neutral(&said.err, path))
    }

    fn neutral(&self, text: &str, path: &Path) -> String {
        let mut text = text.replace(&path.display().to_string(), "<path>");
        for (n, id) in self.ids.iter().enumerate() {
            text = text.replace(id, &format!("<id {n}>"));
        }
        neutral(&text)
    }
}

/// Words, of which those in single quotes hold blanks.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut is_open) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '\'' => is_open = !is_open,
            ' ' if !is_open => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

fn is_uuid(word: &str) -> bool {
    word.len() == 36
        && word.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

fn uuids(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'));
    words.filter(|word| is_uuid(word)).map(str::to_owned).collect()
}

/// Without moments, lengths of time, processes, and how wide a table is for them.
fn neutral(text: &str) -> String {
    let separators = |c: char| c.is_whitespace() || "\"(),[]{}".contains(c);
    let mut told = String::new();
    for line in text.lines() {
        let mut words: Vec<String> = Vec::new();
        for word in line.split(separators).filter(|word| !word.is_empty()) {
            let is_moment = word.len() >= 20 && word.as_bytes()[10] == b'T' && word.ends_with('Z');
            let is_length = ["ms", "s", "us", "m", "h", "d"].contains(&word)
                && words.last().is_some_and(|before| before.parse::<f64>().is_ok());
            let is_process =
                word.rsplit('-').next().is_some_and(|end| end.len() == 12 && word.matches('-').count() >= 2)
                    && !is_uuid(word);
            let is_length_in_json =
                word.starts_with(':') && words.last().is_some_and(|before| before.ends_with("_seconds"));
            if is_length {
                words.pop();
            }
            let is_length = is_length || is_length_in_json;
            words.push(match (is_moment, is_length, is_process) {
                (true, ..) => "<at>".into(),
                (_, true, _) => "<long>".into(),
                (.., true) => "<worker>".into(),
                _ => word.into(),
            });
        }
        told += &words.join(" ");
        told.push('\n');
    }
    told
}

/// How a line is run.
enum How {
    /// For people.
    Text,
    /// For programs.
    Json,
    /// Once for each: it changes nothing.
    Both,
}

use How::{Both, Json, Text};

/// How, with which exit code, and what.
const LINES: &[(How, i32, &str)] = &[
    (Text, 0, "submit greet '\"Ada\"'"),
    (Json, 0, "submit greet '{\"a\" : 1e400, \"a\": \"\\ud800\"}' --key k --priority 7 --tag t --timeout 5s"),
    (Text, 0, "submit greet 1 --key k"),
    (Json, 0, "submit greet 1 --key k"),
    (Text, 1, "submit greet 1 --key k --reject-duplicate"),
    (Text, 0, "submit later 1 --delay 1h --entity planner:42 --max-attempts none"),
    (Text, 1, "submit strict 1 --entity planner:7 --require-entity"),
    (Text, 2, "submit 'a b' 1"),
    (Text, 2, "submit greet '{'"),
    (Text, 2, "submit greet 1 --key ''"),
    (Json, 0, "submit --batch @batch.jsonl"),
    (Both, 0, "task list"),
    (Both, 0, "task list --state pending,scheduled --limit 2 --oldest-first"),
    (Both, 0, "task list --kind greet --tag t"),
    (Both, 0, "task list --entity planner:42"),
    (Text, 2, "task list --limit 0"),
    (Text, 2, "task list --state nonsense"),
    (Both, 0, "task get {1}"),
    (Both, 0, "why {0}"),
    (Both, 0, "why {2}"),
    (Both, 1, "task get 01890a5d-ac96-774b-bcce-b302099a8057"),
    (Both, 1, "why 01890a5d-ac96-774b-bcce-b302099a8057"),
    (Text, 0, "task cancel {0} --reason 'not now' --actor ada"),
    (Text, 0, "task cancel {0}"),
    (Json, 0, "task retry {0} --force"),
    (Text, 0, "task resolve {0} --result '{\"by\" : \"hand\"}'"),
    (Text, 1, "task retry {0}"),
    (Both, 0, "task get {0}"),
    (Text, 1, "task postpone {1} 5s"),
    (Text, 1, "task delete {1}"),
    (Json, 0, "task delete {0}"),
    (Text, 0, "task cancel --all --kind b --dry-run"),
    (Json, 0, "task cancel --all --kind b"),
    (Text, 0, "queue pause default"),
    (Both, 0, "queue list"),
    (Both, 0, "why {1}"),
    (Json, 0, "queue resume default"),
    (
        Text,
        0,
        "schedule set nightly '0 3 * * *' report '{\"x\": 1}' --zone Europe/Berlin --missed all:3 --overlap skip",
    ),
    (Text, 2, "schedule set bad '61 * * * *' report"),
    (Both, 0, "schedule list"),
    (Json, 0, "schedule run nightly"),
    (Text, 0, "schedule pause nightly"),
    (Json, 0, "schedule resume nightly"),
    (Text, 0, "schedule remove nightly"),
    (Text, 1, "schedule remove nightly"),
    (Text, 0, "entity add planner:42"),
    (Json, 0, "entity add planner:43"),
    (Both, 0, "entity list"),
    (Text, 0, "entity remove planner:43"),
    (Text, 0, "definition apply flow.yaml"),
    (Json, 0, "definition apply flow.yaml"),
    (Text, 2, "definition apply broken.yaml"),
    (Both, 0, "definition list"),
    (Both, 0, "definition show nightly"),
    (Text, 0, "definition show nightly --yaml"),
    (Text, 0, "definition show nightly --graph svg"),
    (Both, 1, "definition show nobody"),
    (Text, 1, "workflow start nobody"),
    (Text, 2, "workflow start nightly --input 7"),
    (Json, 0, "workflow start nightly --input '{\"day\": \"monday\"}' --key monday"),
    (Json, 0, "workflow start nightly --input '{\"day\": \"monday\"}' --key monday"),
    (Text, 0, "work --exec echo=cat --exec 'bad=exit 3' --exec greet=cat --queue default --drain --quiet"),
    (Both, 0, "workflow list"),
    (Both, 0, "workflow list --state blocked_by_failures --name nightly"),
    (Both, 0, "workflow list --ready"),
    (Both, 0, "workflow get {7}"),
    (Text, 0, "workflow graph {7}"),
    (Text, 0, "workflow graph {7} --format svg"),
    (Both, 0, "workflow ancestors {7}/bad"),
    (Both, 0, "why {7}/bad"),
    (Both, 2, "why {7}/nothing"),
    (Both, 0, "task list --workflow {7} --oldest-first"),
    (Both, 0, "stats"),
    (Json, 0, "stats --health"),
    (Both, 0, "stats --stale"),
    (Text, 0, "workflow retry {7}/bad --reason again"),
    (Text, 0, "workflow pause {7} --reason later"),
    (Json, 0, "workflow resume {7}"),
    (Text, 0, "workflow skip {7}/bad"),
    (Text, 1, "workflow cancel {7}"),
    (Json, 0, "workflow rerun {7} --from regions"),
    (Text, 1, "workflow get 01890a5d-ac96-774b-bcce-b30000000000"),
    (Both, 0, "token list"),
    (Text, 1, "token revoke nobody"),
    (Text, 0, "prune --keep completed=0s --keep resolved_manually=0s"),
    (Both, 0, "task list"),
    (Text, 2, "task get not-an-id"),
    (Text, 2, "audit --limit 0"),
];

#[test]
fn commands_do_the_same_through_a_server() {
    let [mut direct, mut served] = [Side::new(false), Side::new(true)];
    for (how, code, line) in LINES {
        let forms: &[bool] = match how {
            Text => &[false],
            Json => &[true],
            Both => &[false, true],
        };
        for json in forms {
            let (one, other) = (direct.run(line, *json), served.run(line, *json));
            assert_eq!(one.code, *code, "{line}: {}", one.err);
            assert_eq!(served.plain(&other), direct.plain(&one), "{line}");
        }
    }
    assert_eq!(direct.ids.len(), served.ids.len());
    assert!(direct.ids.len() > 12, "{:?}", direct.ids);
}

#[test]
fn the_slowest_are_the_same() {
    let [mut direct, mut served] = [Side::new(false), Side::new(true)];
    for side in [&mut direct, &mut served] {
        side.run("definition apply flow.yaml", false);
        side.run("workflow start nightly --input '{}'", true);
        side.run("work --exec echo=cat --exec bad=false --drain --quiet", false);
    }
    for line in ["stats --slowest steps", "stats --slowest steps --each", "stats --slowest workflows"] {
        // How long each took, and so their order, is not the same.
        let shape = |side: &mut Side| {
            let told = side.run(line, true).json();
            let rows = told.as_object().unwrap().values().find_map(|value| value.as_array()).unwrap().clone();
            let mut names: Vec<String> = rows
                .iter()
                .map(|row| format!("{} {} {:?}", row["name"], row["step"], row.as_object().unwrap().keys()))
                .collect();
            names.sort();
            names
        };
        assert_eq!(shape(&mut direct), shape(&mut served), "{line}");
    }
}

/// A run whose store is a server: steps are programs here, and what happens is kept there.
#[test]
fn a_run_is_kept_by_the_server() {
    let server = Server::start();
    let place = Place::new().with("WINDLASS_SERVER", url(&server));
    place.file(
        "flow.yaml",
        "name: f\nsteps:\n  a: { run: echo 7 }\n  b: { needs: a, run: cat, input: \"${a + 1}\" }\n  c: { needs: b, run: exit 3 }\n",
    );
    let said = place.run(&["run", "flow.yaml"]);
    assert_eq!(said.code, 1, "{}", said.err);
    let retry = format!("windlass run flow.yaml --server {} --retry", url(&server));
    assert!(said.out.contains(&retry) || said.err.contains(&retry), "{}{}", said.out, said.err);
    assert!(said.err.contains(&format!("kept in {}", url(&server))), "{}", said.err);
    assert_eq!(place.files(), ["flow.yaml"], "nothing is made here");
    let flows = server.place.json(&["workflow", "list"]);
    assert_eq!(flows["workflows"][0]["state"], "blocked_by_failures", "{flows}");
    place.file("flow.yaml", "name: f\nsteps:\n  a: { run: echo 7 }\n");
    let said = place.run(&["run", "flow.yaml", "--json"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
}
