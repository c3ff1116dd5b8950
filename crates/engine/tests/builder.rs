//! Definitions written in Rust: as powerful as files, and the same.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass::flow::{self, Expressions, Scope};
use windlass::{
    Child, Defaults, Definition, DefinitionBuilder, Growth, Identity, Input, Join, Json, Map, Name,
    OnFailure, Rejected, Retry, Shared, Span, Step, StepBuilder,
};

fn example(name: &str) -> Definition {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/workflows")
        .join(name)
        .with_extension("yaml");
    flow::read(&std::fs::read_to_string(file).unwrap()).unwrap().definition().clone()
}

/// A program of several lines, as a block in a file has them.
fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn fixed(attempts: u32, delay: Duration) -> Retry {
    Retry::default().max_attempts(attempts).backoff(Growth::Fixed).initial(delay)
}

fn batch() -> DefinitionBuilder {
    let files = "printf '{\"files\": [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\", \"k\", \"l\"]}'";
    let convert = lines(&[
        "read -r input",
        "sleep 1",
        "# Every fourth is hard and needs a second attempt.",
        "case \"$input\" in",
        "  *\"number 3\"\\\" | *\"number 7\"\\\" | *\"number 11\"\\\")",
        "    if [ \"$WINDLASS_ATTEMPT\" -lt 2 ]; then",
        "      echo \"a hard one: $input\" >&2",
        "      exit 75",
        "    fi ;;",
        "esac",
        "printf '{\"attempts\": %d}' \"$WINDLASS_ATTEMPT\"",
    ]);
    Definition::builder("batch")
        .step(Step::run("list", lines(&[files])))
        .step(
            Step::run("convert", convert)
                .needs(["list"])
                .map("list.files")
                .max_parallel(3)
                .input("${item}.png, number ${index}")
                .retry(fixed(3, Duration::from_millis(500))),
        )
        .step(Step::run("count", "cat").needs(["convert"]).input(json!({
            "files": "${size(convert)}",
            "hard": "${size(convert.filter(one, one.attempts > 1))}",
        })))
}

fn convergence() -> DefinitionBuilder {
    let shaky = lines(&[
        "sleep 1",
        "if [ \"$WINDLASS_ATTEMPT\" -lt 2 ]; then",
        "  echo \"no route to that mirror\" >&2",
        "  exit 75",
        "fi",
        "printf '{\"mirror\": \"shaky\", \"bytes\": 42}'",
    ]);
    let mirrors = ["near", "far", "shaky"];
    Definition::builder("convergence")
        .step(Step::run("near", lines(&["sleep 1", "printf '{\"mirror\": \"near\", \"bytes\": 42}'"])))
        .step(Step::run("far", lines(&["sleep 3", "printf '{\"mirror\": \"far\", \"bytes\": 42}'"])))
        .step(Step::run("shaky", shaky).retry(fixed(2, Duration::from_secs(4))))
        .step(
            Step::run("first", "cat")
                .needs(mirrors)
                .join(Join::Any)
                .input("${ [near, far, shaky].filter(answer, answer != null)[0].mirror } answered first"),
        )
        .step(Step::run("quorum", "cat").needs(mirrors).join(Join::AtLeast(2)).input(
            "${ size([near, far, shaky].filter(answer, answer != null && answer.bytes == 42)) } agree",
        ))
        .step(
            Step::run("clean", lines(&["sleep 1", "printf '\"clean\"'"]))
                .needs(["first", "quorum"])
                .needs(["shaky"])
                .join(Join::AllDone),
        )
}

fn decision() -> DefinitionBuilder {
    Definition::builder("decision")
        .step(Step::run("weigh", lines(&["sleep 1", "printf '{\"grams\": 1250, \"country\": \"PT\"}'"])))
        .step(
            Step::run("letter", lines(&["sleep 1", "printf '{\"by\": \"letter\", \"price\": 2}'"]))
                .needs(["weigh"])
                .when("weigh.grams <= 500"),
        )
        .step(
            Step::run("parcel", lines(&["sleep 2", "printf '{\"by\": \"parcel\", \"price\": 9}'"]))
                .needs(["weigh"])
                .when("weigh.grams > 500")
                .input(json!({ "kilograms": "${double(weigh.grams) / 1000.0}" })),
        )
        .step(
            Step::run("customs", "printf '\"declared\"'")
                .needs(["weigh"])
                .when("!(weigh.country in [\"DE\", \"FR\", \"IT\", \"PT\"])"),
        )
        .step(
            Step::run("send", lines(&["sleep 1", "cat"]))
                .needs(["letter", "parcel"])
                .join(Join::Any)
                .input("${ parcel != null ? parcel : letter }"),
        )
        .step(
            Step::run("receipt", "cat")
                .needs(["send", "customs"])
                .join(Join::AllDone)
                .input("sent as ${send.by} for ${send.price}, ${customs == null ? 'no customs' : customs}"),
        )
}

fn diamond() -> DefinitionBuilder {
    let sum = lines(&[
        "sleep 2",
        "total=0",
        "for number in $(tr -c '0-9' ' '); do total=$((total + number)); done",
        "printf '%d' \"$total\"",
    ]);
    let largest = lines(&[
        "sleep 1",
        "largest=0",
        "for number in $(tr -c '0-9' ' '); do",
        "  if [ \"$number\" -gt \"$largest\" ]; then largest=$number; fi",
        "done",
        "printf '%d' \"$largest\"",
    ]);
    Definition::builder("diamond").steps([
        Step::run("start", lines(&["sleep 1", "printf '{\"numbers\": [3, 1, 4, 1, 5, 9, 2, 6]}'"])),
        Step::run("sum", sum).needs(["start"]).input("${start.numbers}"),
        Step::run("largest", largest).needs(["start"]).input("${start.numbers}"),
        Step::run("report", "cat")
            .needs(["sum", "largest"])
            .input("${size(start.numbers)} numbers, ${sum} in all, ${largest} at most"),
    ])
}

fn nightly_report() -> DefinitionBuilder {
    let regions = lines(&[
        "sleep 1",
        "# The input is one line of JSON; as many letters as it has are as good a number as any.",
        "read -r input",
        "printf '{\"sold\": %d}' \"${#input}\"",
    ]);
    let upload = lines(&[
        "if [ \"$WINDLASS_ATTEMPT\" -lt 2 ]; then",
        "  echo \"the store is busy\" >&2",
        "  exit 75",
        "fi",
        "printf '{\"uploaded\": true, \"attempt\": %d}' \"$WINDLASS_ATTEMPT\"",
    ]);
    let extract = "printf '{\"regions\": [\"north\", \"east\", \"south\", \"west\"], \"errors\": 5}'";
    Definition::builder("nightly-report")
        .version("1")
        .description("Numbers of every region, with an alert if there are many errors.")
        .input_schema(json!({ "type": "object", "properties": { "day": { "type": "string" } } }))
        .default_timeout(Duration::from_secs(60))
        .default_retry(fixed(3, Duration::from_secs(1)))
        .step(Step::run("extract", lines(&["sleep 1", extract])).description("What there is to report."))
        .step(
            Step::run("regions", regions)
                .needs(["extract"])
                .map("extract.regions")
                .max_parallel(2)
                .input(json!({ "region": "${item}", "place": "${index + 1} of ${size(extract.regions)}" })),
        )
        .step(
            Step::run("alert", lines(&["sleep 1", "printf '\"the operator was told\"'"]))
                .needs(["extract"])
                .when("extract.errors > 3")
                .input(json!({ "text": "${extract.errors} errors" })),
        )
        .step(
            Step::run("upload", upload)
                .description("Fails once, to show that it is tried again.")
                .needs(["regions", "alert"])
                .join(Join::AllDone)
                .input(json!({ "sold": "${regions.map(region, region.sold)}", "alert": "${alert}" })),
        )
        .step(Step::run("summary", "cat").needs(["upload"]).input(
            "${size(extract.regions)} regions, ${extract.errors} errors, uploaded at attempt ${upload.attempt}",
        ))
}

#[test]
fn every_example_can_be_written_in_rust() {
    let written = [batch(), convergence(), decision(), diamond(), nightly_report()];
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    assert_eq!(std::fs::read_dir(examples).unwrap().count(), written.len(), "one of them is missing here");
    for builder in written {
        let definition = builder.build().unwrap();
        assert_eq!(definition, example(&definition.name));
    }
}

#[derive(Serialize, Deserialize)]
struct SendEmail {
    to: String,
    tags: Vec<String>,
}

impl Input for SendEmail {
    const KIND: &'static str = "email:send";
}

/// What a typed input says arrives, even if it looks like an expression.
#[test]
fn a_typed_input_means_itself() {
    for text in ["ada", "${input}", "$${", "a ${ b", "$$${}${", "$", "$$"] {
        let mail = SendEmail { to: text.into(), tags: vec![format!("{text}{text}")] };
        let definition = Definition::builder("d").step(Step::of("mail", &mail)).build().unwrap();
        let step = &definition.steps[0];
        assert_eq!(step.task.as_deref(), Some("email:send"));
        let expressions = Expressions::of(step).unwrap();
        let scope = Scope::new(windlass::workflow_id(), "d", "1", &Json::default()).unwrap();
        let given: Value = serde_json::from_str(expressions.bind(&scope).input().unwrap().as_str()).unwrap();
        assert_eq!(given, serde_json::to_value(&mail).unwrap(), "{text}");
    }
}

/// What a step with this in it is refused for.
fn refused(builder: DefinitionBuilder) -> Vec<String> {
    match builder.build() {
        Err(Rejected::Unsound { flaws }) => flaws.into_iter().map(|flaw| flaw.path).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn all_that_is_wrong_is_told_at_the_end() {
    let long = "x".repeat(200);
    let wrong = Definition::builder("a b")
        .default_queue("")
        .step(Step::task("a", "k k").queue("q!").needs(["c d"]).version("2"))
        .step(Step::workflow("b", "").max_parallel(3))
        .step(Step::run(&long, "x"))
        .step(Step::run("1", "x"))
        .step(Step::run("", "x"));
    let long = format!("steps.{long}");
    let mut paths = refused(wrong);
    paths.sort_unstable();
    let mut expected = [
        "name",
        "defaults.queue",
        "steps.a.task",
        "steps.a.queue",
        "steps.a.needs[0]",
        "steps.a.version",
        "steps.b.workflow",
        "steps.b.map.over",
        "steps.1",
        "steps.",
        &long,
    ];
    expected.sort_unstable();
    assert_eq!(paths, expected);
    let many = (0..100).map(|n| Step::task(&format!("s{n}"), "not a kind"));
    assert_eq!(refused(Definition::builder("many").steps(many)).len(), 20);
}

/// The same definition, written with the builder. A field that has no method breaks this.
fn rewritten(definition: &Definition) -> DefinitionBuilder {
    let Definition { name, version, description, input, identity, defaults, steps, on_failure } =
        definition.clone();
    let Defaults { retry: default_retry, timeout, priority, queue } = defaults;
    let mut builder = Definition::builder(&name).identity(identity).on_failure(on_failure);
    builder = builder.default_retry(retry(default_retry));
    if let Some(version) = version {
        builder = builder.version(version);
    }
    if let Some(description) = description {
        builder = builder.description(description);
    }
    if let Some(schema) = input {
        builder = builder.input_schema(schema);
    }
    if let Some(Span(timeout)) = timeout {
        builder = builder.default_timeout(timeout);
    }
    if let Some(priority) = priority {
        builder = builder.default_priority(priority);
    }
    if let Some(queue) = queue {
        builder = builder.default_queue(&queue);
    }
    builder.steps(steps.into_iter().map(step))
}

fn retry(retry: Retry) -> Retry {
    let Retry { max_attempts, backoff, initial, factor, max, jitter_percent } = retry;
    let mut written = Retry::default();
    written = max_attempts.map_or(written, |attempts| written.max_attempts(attempts));
    written = backoff.map_or(written, |growth| written.backoff(growth));
    written = initial.map_or(written, |Span(delay)| written.initial(delay));
    written = factor.map_or(written, |factor| written.factor(factor));
    written = max.map_or(written, |Span(delay)| written.max(delay));
    jitter_percent.map_or(written, |percent| written.jitter_percent(percent))
}

fn step(step: Step) -> StepBuilder {
    let Step {
        name,
        description,
        task,
        run,
        workflow,
        needs,
        join,
        condition,
        map,
        input,
        retry: own,
        timeout,
        priority,
        queue,
        lane,
    } = step;
    let mut builder = match (task, run, workflow) {
        (Some(kind), None, None) => Step::task(&name, &kind),
        (None, Some(program), None) => Step::run(&name, program),
        (None, None, Some(Child { name: child, version })) => {
            let builder = Step::workflow(&name, &child);
            version.into_iter().fold(builder, StepBuilder::version)
        }
        other => panic!("{other:?}"),
    };
    builder = builder.needs(needs.iter().map(|need| &**need)).join(join).retry(retry(own));
    if let Some(description) = description {
        builder = builder.description(description);
    }
    if let Some(condition) = condition {
        builder = builder.when(condition);
    }
    if let Some(Map { over, max_parallel }) = map {
        // In either order.
        builder = match max_parallel {
            Some(most) if most % 2 == 0 => builder.max_parallel(most).map(over),
            Some(most) => builder.map(over).max_parallel(most),
            None => builder.map(over),
        };
    }
    if let Some(input) = input {
        builder = builder.input(input);
    }
    if let Some(Span(timeout)) = timeout {
        builder = builder.timeout(timeout);
    }
    if let Some(priority) = priority {
        builder = builder.priority(priority);
    }
    if let Some(queue) = queue {
        builder = builder.queue(&queue);
    }
    if let Some(Shared { key, limit }) = lane {
        builder = builder.lane(key, limit);
    }
    builder
}

fn names() -> impl Strategy<Value = Name> {
    "[A-Za-z0-9._:-]{1,12}".prop_map(|text| Name::new("name", &text).unwrap())
}

fn spans() -> impl Strategy<Value = Span> {
    (1..100_000_000_u64).prop_map(|millis| Span(Duration::from_millis(millis)))
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_filter("JSON has no others", |number| number.is_finite()).prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(texts(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// What people write, what looks like something else, and what nobody would write.
fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,8}",
        prop::sample::select(
            &["null", "true", "1", "1e3", "~", "- a", "a: b", "#", "", " ", "\n", "${input}", "'", "\""][..]
        )
        .prop_map(str::to_owned),
        any::<String>(),
    ]
}

fn growths() -> impl Strategy<Value = Growth> {
    use Growth::{Exponential, Fibonacci, Fixed, Linear, None};
    prop::sample::select(&[None, Fixed, Linear, Exponential, Fibonacci][..])
}

fn retries() -> impl Strategy<Value = Retry> {
    use prop::option::of;
    // A cap below the first delay is refused.
    let (initial, max) = (
        of((1..1_000_u64).prop_map(Duration::from_millis)),
        of((1_000..9_000_u64).prop_map(Duration::from_millis)),
    );
    (of(of(1..1_000_u32)), of(growths()), initial, of(1.0..900.0_f64), max, of(0..=100_u8)).prop_map(
        |(max_attempts, backoff, initial, factor, max, jitter_percent)| Retry {
            max_attempts,
            backoff,
            initial: initial.map(Span),
            factor,
            max: max.map(Span),
            jitter_percent,
        },
    )
}

/// A step without a name, and numbers that choose which of those before it it needs, and how.
fn steps() -> impl Strategy<Value = (Step, Vec<prop::sample::Index>, u32)> {
    use prop::option::of;
    let version = of("[0-9.]{1,5}[a-z]");
    let action = prop_oneof![
        names().prop_map(|kind| Step { task: Some(kind), ..Step::default() }),
        "[a-z]{1,5}[ a-z\n]{0,9}".prop_map(|run| Step { run: Some(run), ..Step::default() }),
        (names(), version)
            .prop_map(|(name, version)| Step { workflow: Some(Child { name, version }), ..Step::default() }),
    ];
    let over = prop_oneof![
        texts().prop_map(Value::from),
        prop::collection::vec(values(), 0..3).prop_map(Value::from)
    ];
    let map = (over, of(1..1_000_u32)).prop_map(|(over, max_parallel)| Map { over, max_parallel });
    let lane = ("[a-z ]{1,9}", 1..1_000_u32).prop_map(|(key, limit)| Shared { key, limit });
    let more = (of(texts()), of(texts()), of(map), of(values()), retries());
    let rest = (of(spans()), of(any::<i32>()), of(names()), of(lane));
    let needs = prop::collection::vec(any::<prop::sample::Index>(), 0..3);
    (action, more, rest, needs, any::<u32>()).prop_map(|(action, more, rest, needs, join)| {
        let (description, condition, map, input, retry) = more;
        let (timeout, priority, queue, lane) = rest;
        let lane = lane.filter(|_| map.as_ref().is_none_or(|map: &Map| map.max_parallel.is_none()));
        let step =
            Step { description, condition, map, input, retry, timeout, priority, queue, lane, ..action };
        (step, needs, join)
    })
}

fn definitions() -> impl Strategy<Value = Definition> {
    use prop::option::of;
    let head = (names(), of("[0-9]{1,3}|[a-z.]{1,9}"), of(texts()));
    let schema = of(prop_oneof![any::<bool>().prop_map(Value::from), Just(json!({ "type": "object" }))]);
    let identity =
        prop::sample::select(&[Identity::AlwaysUnique, Identity::Strict, Identity::CallerProvided][..]);
    let on_failure = prop::sample::select(&[OnFailure::FinishIndependent, OnFailure::FailFast][..]);
    let defaults = (retries(), of(spans()), of(any::<i32>()), of(names()));
    let steps = prop::collection::vec(steps(), 0..6);
    (head, schema, identity, on_failure, defaults, steps).prop_map(
        |((name, version, description), input, identity, on_failure, defaults, chosen)| {
            let (retry, timeout, priority, queue) = defaults;
            let defaults = Defaults { retry, timeout, priority, queue };
            let mut steps: Vec<Step> = Vec::new();
            for (step, needs, join) in chosen {
                let mut before: Vec<Name> = Vec::new();
                for need in needs.iter().filter(|_| !steps.is_empty()) {
                    let need = need.get(&steps).name.clone();
                    if !before.contains(&need) {
                        before.push(need);
                    }
                }
                let many = u32::try_from(before.len()).unwrap();
                let join = match join % 4 {
                    1 => Join::Any,
                    2 if many > 0 => Join::AtLeast(join % many + 1),
                    3 => Join::AllDone,
                    _ => Join::All,
                };
                // The names are not in the order of the steps.
                let name = Name::new("name", &format!("s{}", 100 - steps.len())).unwrap();
                steps.push(Step { name, needs: before, join, ..step });
            }
            Definition { name, version, description, input, identity, defaults, steps, on_failure }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_definition_is_the_same_in_a_file_and_in_rust(definition in definitions()) {
        let written = rewritten(&definition).build();
        prop_assert_eq!(written.as_ref(), Ok(&definition));
        for file in [serde_json::to_string(&definition).unwrap(), serde_json::to_string_pretty(&definition).unwrap()] {
            let read = flow::read(&file);
            let read = read.map(|document| document.definition().clone());
            prop_assert_eq!(read.as_ref(), Ok(&definition), "{}", file);
        }
    }
}
