//! Who may ask what: each route, and each verb of `/v1/store`, asked with each sort of token about what is
//! open and what is closed to it.
//!
//! The tables in docs/security.md are what is expected, for people to read; the tests hold them to what a
//! server does. A route that is not in `requests.rs`, a verb that is not in `verbs.rs`, or a row that is not
//! in a table, fails. `WINDLASS_BLESS=1` writes the tables anew: read the difference before it is kept.

mod requests;
mod scene;
mod verbs;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use windlass::access::Scope;
use windlass::verbs::Call;

use requests::REQUESTS;
use scene::{Asks, Limit, Location, Stage, Who};

const HEAD: &str = " no token | read | submit | work | admin | token for some queues | token for some namespaces |\n|---|---|---|---|---|---|---|---|\n";

/// What a limited token is answered, of those whose scope is right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Limited {
    /// Everybody may ask.
    Yes,
    /// If it is about what is open to it.
    ItsOwn,
    /// Always; what is closed to it is left out.
    InPart,
    No,
}

impl Limited {
    const ALL: [(Self, &'static str); 4] =
        [(Self::Yes, "yes"), (Self::ItsOwn, "its own"), (Self::InPart, "in part"), (Self::No, "no")];

    fn word(self) -> &'static str {
        Self::ALL.iter().find(|(limited, _)| *limited == self).unwrap().1
    }

    fn allows(self, is_open: bool) -> bool {
        match self {
            Self::Yes | Self::InPart => true,
            Self::ItsOwn => is_open,
            Self::No => false,
        }
    }
}

/// A row of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
struct MatrixRow {
    nobody: bool,
    scopes: Vec<Scope>,
    queues: Limited,
    namespaces: Limited,
}

impl MatrixRow {
    fn allows(&self, who: Who, place: Location) -> bool {
        match who {
            Who::Nobody => self.nobody,
            Who::Holder(scope, limit) => {
                self.scopes.contains(&scope)
                    && (!limit.queues || self.queues.allows(place.queue_open))
                    && (!limit.namespaces || self.namespaces.allows(place.namespace_open))
            }
        }
    }

    fn text(&self, name: &str) -> String {
        let yes = |is| if is { "yes" } else { "" };
        let mut text = format!("| {name} | {} |", yes(self.nobody));
        for scope in Scope::ALL {
            // Writing to a string does not fail.
            let _ = write!(text, " {} |", yes(self.scopes.contains(&scope)));
        }
        text + &format!(" {} | {} |\n", self.queues.word(), self.namespaces.word())
    }
}

/// A row to be: what is asked, and whether it may change something.
struct Probe {
    name: String,
    asks: Asks,
    is_read: bool,
}

/// Who asks about a place: every scope and limit. What is unlimited asks about the first and the last.
fn callers(place: Location) -> Vec<Who> {
    let [unlimited, ..] = Limit::ALL;
    let is_between = place != Location::ALL[0] && place != Location::ALL[3];
    let limits = Limit::ALL.into_iter().filter(|limit| !is_between || *limit != unlimited);
    let holders = limits.flat_map(|limit| Scope::ALL.map(|scope| Who::Holder(scope, limit)));
    std::iter::once(Who::Nobody).chain(holders).collect()
}

/// Whether each cell was allowed.
type Replies = Vec<(Who, Location, bool)>;

/// A server for requests that may change it: as good as new for each that is carried out.
struct Stages {
    now: Stage,
    before: String,
}

impl Stages {
    async fn set(places: &[Location]) -> Self {
        let now = Stage::set(places).await;
        Self { before: now.everything().await, now }
    }

    /// Whether nothing has changed.
    async fn is_untouched(&self) -> bool {
        self.now.everything().await == self.before
    }
}

/// Makes a request as everybody, about every place. What may only read is asked of one server with all
/// places.
async fn measure(probe: &Probe, shared: &Stage, failures: &mut Vec<String>) -> Replies {
    let Probe { name, asks, is_read } = probe;
    let mut seen = Vec::new();
    for place in Location::ALL {
        let mut own = if *is_read { None } else { Some(Stages::set(&[place]).await) };
        for who in callers(place) {
            let stage = own.as_ref().map_or(shared, |stages| &stages.now);
            let answer = stage.ask(who, *asks, stage.scene_of(place), failures).await;
            let is_allowed = match answer.status {
                status if status == asks.ok() => true,
                401 => false,
                403 | 404 if who != Who::Nobody => false,
                _ => {
                    failures.push(format!("{name}: {who:?} asks of {place:?}: {answer:?}"));
                    true
                }
            };
            seen.push((who, place, is_allowed));
            let Some(stages) = &mut own else { continue };
            if is_allowed {
                *stages = Stages::set(&[place]).await;
            } else if !stages.is_untouched().await {
                failures.push(format!("{name}: {who:?} was refused, and has changed something"));
            }
        }
    }
    seen
}

/// What was seen, as a row. Whatever no row can say is added to `failures`.
fn row_of(name: &str, seen: &Replies, failures: &mut Vec<String>) -> MatrixRow {
    let of = |who: Who, wanted: &dyn Fn(Location) -> bool| -> Vec<(Location, bool)> {
        let cells = seen.iter().filter(|(seen, place, _)| *seen == who && wanted(*place));
        cells.map(|(_, place, is_allowed)| (*place, *is_allowed)).collect()
    };
    // All of these cells have one answer.
    let mut one = |who: Who, wanted: &dyn Fn(Location) -> bool| {
        let cells = of(who, wanted);
        if cells.iter().any(|(_, is_allowed)| *is_allowed != cells[0].1) {
            failures.push(format!("{name}: {who:?}: {cells:?}"));
        }
        cells[0].1
    };
    let nobody = one(Who::Nobody, &|_| true);
    let [unlimited, queues, namespaces, _] = Limit::ALL;
    let scopes: Vec<_> =
        Scope::ALL.into_iter().filter(|scope| one(Who::Holder(*scope, unlimited), &|_| true)).collect();
    let mut limited = |limit: Limit| {
        let of_scope = |scope: &Scope| {
            let who = Who::Holder(*scope, limit);
            match (one(who, &|place| limit.opens(place)), one(who, &|place| !limit.opens(place))) {
                (true, true) if nobody => Limited::Yes,
                (true, true) => Limited::InPart,
                (true, false) => Limited::ItsOwn,
                (false, _) => Limited::No,
            }
        };
        let all: Vec<_> = scopes.iter().map(of_scope).collect();
        all.first().copied().unwrap_or(Limited::No)
    };
    let (queues, namespaces) = (limited(queues), limited(namespaces));
    let row = MatrixRow { nobody, scopes, queues, namespaces };
    // So does the answer to every other caller follow from the row.
    for (who, place, is_allowed) in seen {
        if row.allows(*who, *place) != *is_allowed {
            failures.push(format!("{name}: {who:?} of {place:?} was allowed: {is_allowed}; by the rest of the row it is not so: {row:?}"));
        }
    }
    row
}

/// The operations of the description, and the scopes that it says each needs.
fn described(stage: &Stage) -> BTreeMap<String, BTreeSet<String>> {
    let description = stage.description();
    let paths = description["paths"].as_object().unwrap();
    let of_path = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, operation)| {
            let alternatives = operation["security"].as_array().unwrap().iter();
            let scopes = alternatives.flat_map(|one| one["token"].as_array().cloned().unwrap_or_default());
            let scopes = scopes.map(|scope| scope.as_str().unwrap().to_owned()).collect();
            (format!("{} {path}", method.to_uppercase()), scopes)
        })
    });
    of_path.collect()
}

/// Holds a table of the page to what a server does.
async fn check_table(
    mark: &str,
    head: &str,
    probes: &[Probe],
    check: impl Fn(&Probe, &MatrixRow) -> Option<String>,
) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/security.md");
    let page = std::fs::read_to_string(path).unwrap();
    let [begin, end] = [format!("<!-- {mark} -->\n"), format!("<!-- end of {mark} -->\n")];
    let (_, rest) = page.split_once(&begin).unwrap();
    let (known, _) = rest.split_once(&end).unwrap();
    let stage = Stage::set(&Location::ALL).await;
    let (mut table, mut failures) = (format!("| {head} |{HEAD}"), Vec::new());
    for probe in probes {
        let name = &probe.name;
        let seen = measure(probe, &stage, &mut failures).await;
        let row = row_of(name, &seen, &mut failures);
        failures.extend(check(probe, &row));
        table += &row.text(name);
    }
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        // The test of the other table writes the same page.
        static WRITES: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _turn = WRITES.lock().unwrap();
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(&begin).unwrap();
        let (_, after) = rest.split_once(&end).unwrap();
        std::fs::write(path, format!("{before}{begin}{table}{end}{after}")).unwrap();
    }
    assert!(failures.is_empty(), "{} of {mark}:\n{}", failures.len(), failures.join("\n"));
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        return;
    }
    assert_eq!(
        known, table,
        "docs/security.md differs from what the server does; WINDLASS_BLESS=1 writes it anew"
    );
}

fn with_note(name: &str, note: &str) -> String {
    if note.is_empty() { format!("`{name}`") } else { format!("`{name}`, {note}") }
}

#[tokio::test]
async fn the_table_of_routes_and_tokens_is_what_the_server_does() {
    let stage = Stage::set(&[Location::ALL[0]]).await;
    let described = described(&stage);
    let asked: BTreeSet<_> = REQUESTS.iter().map(|asked| asked.operation).collect();
    let missing: Vec<_> = described.keys().filter(|operation| !asked.contains(&***operation)).collect();
    assert!(
        missing.is_empty(),
        "{missing:?}: add a request for each to crates/server/src/http/matrix/requests.rs, then write the table anew with WINDLASS_BLESS=1 and read what it says of it"
    );
    let gone: Vec<_> = asked.iter().filter(|operation| !described.contains_key(**operation)).collect();
    assert!(gone.is_empty(), "{gone:?} are not routes any more: remove their requests");
    for kind in stage.step_kinds().await {
        let note = format!("with a step `{kind}`");
        assert!(
            REQUESTS.iter().any(|asked| asked.note == note),
            "a step may be `{kind}`: add a request to start a workflow {note} to crates/server/src/http/matrix/requests.rs"
        );
    }
    let probe = |asked: &'static requests::Asked| Probe {
        name: with_note(asked.operation, asked.note),
        asks: Asks::Route(asked),
        is_read: asked.operation.starts_with("GET "),
    };
    let probes: Vec<_> = REQUESTS.iter().map(probe).collect();
    check_table("routes", "request", &probes, |probe, row| {
        let Asks::Route(asked) = probe.asks else { return None };
        // A step that is a program needs more than its route does.
        if asked.note.contains("`run`") {
            return None;
        }
        let scopes = &described[asked.operation];
        let is_described = |scope: &Scope| scopes.contains(scope.word()) || *scope == Scope::Admin;
        let needs: Vec<_> =
            Scope::ALL.into_iter().filter(|scope| row.nobody || is_described(scope)).collect();
        let says = || format!("{}: openapi.json says {needs:?}, and {:?} may", probe.name, row.scopes);
        (needs != row.scopes).then(says)
    })
    .await;
}

#[tokio::test]
async fn the_table_of_verbs_and_tokens_is_what_the_server_does() {
    let stage = Stage::set(&[Location::ALL[0]]).await;
    let calls = verbs::calls(&stage.scenes[0]);
    let known: BTreeSet<_> = calls.iter().map(|(_, call)| verbs::verb(call)).collect();
    let missing: Vec<_> = Call::VERBS
        .iter()
        .filter(|(verb, _)| !known.iter().any(|known| known.replace('_', "") == verb.to_lowercase()))
        .collect();
    assert!(
        missing.is_empty(),
        "{missing:?}: add a call for each to crates/server/src/http/matrix/verbs.rs, then write the table anew with WINDLASS_BLESS=1 and read what it says of it"
    );
    let reads = ["get_", "find_", "list_", "count_", "has_", "had_", "read_", "describe", "connection"];
    let probe = |(at, (note, call)): (usize, &(&str, Call))| {
        let verb = verbs::verb(call);
        let is_read = reads.iter().any(|begin| verb.starts_with(begin));
        Probe { name: with_note(&verb, note), asks: Asks::Verb(at), is_read }
    };
    let probes: Vec<_> = calls.iter().enumerate().map(probe).collect();
    check_table("verbs", "verb", &probes, |_, _| None).await;
}
