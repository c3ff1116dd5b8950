//! Hostile texts: stored exactly, or refused with a typed error, on every store alike; never half.

use windlass_core::{
    By, Command, Entity, Json, Lane, Name, NewTask, NewWorker, Rejected, State, WorkerId, limits, stored_text,
};

use super::{Case, completed, entity, failed_for_good, scenarios};
use crate::{Filter, Page};

scenarios![
    bad_names_are_refused,
    good_names_of_every_length_are_kept,
    keys_of_any_text_are_kept,
    bad_keys_are_refused,
    tags_of_any_text_are_kept,
    bad_tags_are_refused,
    lanes_and_entities_of_any_text_are_kept,
    worker_ids_of_any_text_are_kept,
    notes_and_errors_of_any_text_are_kept,
    huge_texts_are_cut_and_not_refused,
    payloads_and_results_are_kept_to_the_letter,
    payloads_have_a_size,
    payloads_have_a_depth,
    what_is_not_json_is_refused,
];

/// Texts that break what is careless, none of them with a NUL.
const TEXTS: [&str; 16] = [
    "'",
    "\"",
    "\\",
    "'; DROP TABLE tasks; --",
    "a\nb\r\n\tc",
    "\u{1}\u{1b}[31m\u{7f}",
    "\u{202e}gnirts\u{202c}",
    "\u{200b}",
    "\u{feff}bom",
    "😀👩‍👩‍👧‍👦",
    "e\u{301} is not é",
    "%_*?[a-z]",
    " leading and trailing ",
    "$1 ?1 :x @x {} {0} %s",
    "a.b.>.*",
    "\u{10ffff}\u{fffd}\u{e000}",
];

/// 0.15, C75: refused before they reach a store, with what would be accepted.
async fn bad_names_are_refused(_: &Case) {
    let long = "x".repeat(limits::NAME_LENGTH + 1);
    let longer = "x".repeat(200);
    for bad in TEXTS.into_iter().chain(["", "\0", "a\0b", "é", "a b", "a/b", "ａ", &long, &longer]) {
        for (field, name) in
            [("kind", Name::kind(bad)), ("queue", Name::queue(bad)), ("namespace", Name::namespace(bad))]
        {
            let error = name.err().unwrap_or_else(|| panic!("{field} {bad:?} was accepted"));
            assert_eq!(error.field, field);
            assert!(error.to_string().contains("1 to 128"), "{error}");
        }
    }
}

/// Limits: 1 to 128 characters, also those that mean something elsewhere.
async fn good_names_of_every_length_are_kept(case: &Case) {
    let worker = case.worker("w").await;
    for text in ["a", "0", "-", ".", "..", "_", ":", "null", "A.b_c:9-", &"x".repeat(limits::NAME_LENGTH)] {
        let (namespace, queue) = (Name::namespace(text).unwrap(), Name::queue(text).unwrap());
        let kind = Name::kind(text).unwrap();
        let (n, q, k) = (namespace.clone(), queue.clone(), kind.clone());
        let id = case.submit(NewTask { namespace: n, queue: q, kind: k, ..case.task() }).await;
        let spec = case.record(id).await.task.spec;
        assert_eq!([&*spec.namespace, &*spec.queue, &*spec.kind], [text; 3]);
        let claim = crate::Claim {
            worker: worker.clone(),
            namespace,
            queues: vec![queue],
            kinds: vec![kind],
            limit: 9,
        };
        assert_eq!(super::ids(&case.store().claim(claim).await.unwrap()), [id], "{text:?}");
    }
}

/// C75: byte for byte, and each finds its own task.
async fn keys_of_any_text_are_kept(case: &Case) {
    let kind = Name::kind(super::KIND).unwrap();
    let longest = "ü".repeat(limits::KEY_BYTES / 2);
    for key in TEXTS.into_iter().chain([&*longest]) {
        let id = case.submit(case.task_with_key(key)).await;
        assert_eq!(case.record(id).await.task.spec.key.as_deref(), Some(key));
        let found = case.store().find(Name::default(), kind.clone(), key.into()).await.unwrap();
        assert_eq!(found, Some(id), "{key:?}");
        assert_eq!(case.submit(case.task_with_key(key)).await, id, "{key:?} is the same key again");
    }
}

/// Limits: empty, 513 bytes, or with a NUL; nothing is written.
async fn bad_keys_are_refused(case: &Case) {
    let before = case.snapshot().await;
    for bad in ["", "\0", "a\0", &"x".repeat(limits::KEY_BYTES + 1), &"ü".repeat(limits::KEY_BYTES / 2 + 1)]
    {
        let Rejected::Invalid(invalid) = case.refused(case.task_with_key(bad)).await else {
            panic!("{bad:?} was refused for another reason");
        };
        assert_eq!(invalid.field, "idempotency key");
        assert!(invalid.to_string().len() < 300, "the error quotes, and shortens, what it was given");
        assert_eq!(case.store().find(Name::default(), Name::default(), bad.into()).await.unwrap(), None);
    }
    assert_eq!(case.snapshot().await, before);
}

/// Up to 32 tags of up to 128 bytes, in their order.
async fn tags_of_any_text_are_kept(case: &Case) {
    let longest = "x".repeat(limits::TAG_BYTES);
    let mut tags: Vec<String> = TEXTS.map(str::to_owned).into();
    tags.resize(limits::TAGS, longest.clone());
    let id = case.submit(NewTask { tags: tags.clone(), ..case.task() }).await;
    case.submit(case.task()).await;
    assert_eq!(case.record(id).await.task.spec.tags, tags);
    for tag in TEXTS.into_iter().chain([&*longest]) {
        let filter = Filter { tag: Some(tag.into()), ..Filter::default() };
        let found = case.store().tasks(filter, Page::default()).await.unwrap().tasks;
        assert_eq!(found.iter().map(|task| task.id).collect::<Vec<_>>(), [id], "{tag:?}");
    }
}

/// Limits: 33 tags, empty ones, long ones, NUL.
async fn bad_tags_are_refused(case: &Case) {
    let before = case.snapshot().await;
    let bad: [Vec<String>; 4] = [
        vec!["x".into(); limits::TAGS + 1],
        vec!["good".into(), String::new()],
        vec!["x".repeat(limits::TAG_BYTES + 1)],
        vec!["a\0".into()],
    ];
    for tags in bad {
        assert_eq!(case.refused(NewTask { tags, ..case.task() }).await.code(), "invalid_task");
    }
    assert_eq!(case.snapshot().await, before);
}

/// 0.15: ids of entities are free, their types are words; lane keys are free but for a leading @.
async fn lanes_and_entities_of_any_text_are_kept(case: &Case) {
    for text in TEXTS {
        let planner = entity(&format!("planner:{text}"));
        for lane in [Lane::of(&planner), Lane::new(text, 3).unwrap().strict()] {
            let id = case.submit(NewTask { lane: Some(lane.clone()), ..case.task() }).await;
            assert_eq!(case.record(id).await.task.spec.lane, Some(lane));
        }
        let filter = Filter { entity: Some(planner.clone()), ..Filter::default() };
        let found = case.store().tasks(filter, Page::default()).await.unwrap().tasks;
        assert_eq!(found.len(), 1, "{planner}");
        assert_eq!(found[0].spec.lane.as_ref().and_then(Lane::entity), Some(planner.clone()));
        case.store().set_entity(Name::default(), planner.clone(), true).await.unwrap();
        assert!(case.store().has_entity(Name::default(), planner.clone()).await.unwrap());
        assert!(format!("{text}:1").parse::<Entity>().is_err(), "{text:?} is no entity type");
    }
    for bad in ["", "@x", "\0", &"x".repeat(limits::KEY_BYTES + 1)] {
        assert!(Lane::new(bad, 1).is_err(), "{bad:?}");
    }
}

/// 1.5: such a worker registers, lives, claims, leads and leaves.
async fn worker_ids_of_any_text_are_kept(case: &Case) {
    let longest = "x".repeat(limits::KEY_BYTES);
    for text in TEXTS.into_iter().chain([&*longest]) {
        let worker = WorkerId::new(text).unwrap();
        let kinds = vec![Name::kind(super::KIND).unwrap()];
        let (host, version) = (text.into(), format!("v{text}"));
        let new = NewWorker { host, version, kinds, ..NewWorker::new(worker.clone()) };
        case.store().register(new.clone()).await.unwrap();
        assert_eq!(case.store().workers().await.unwrap(), [new.admit(case.now())]);
        let id = case.submit(case.task()).await;
        let claimed = case.claim_one(&worker).await;
        assert_eq!(claimed.task.status.worker, Some(worker.clone()));
        case.complete(&claimed).await;
        assert_eq!(case.record(id).await.history[1].actor.as_deref(), Some(text));
        let lead = case.store().campaign(worker.clone(), std::time::Duration::from_secs(1)).await.unwrap();
        assert_eq!(lead.unwrap().holder, worker);
        case.pass(1);
        case.store().deregister(worker.clone()).await.unwrap();
    }
    for bad in ["", "\0", "a\0b", &"x".repeat(limits::KEY_BYTES + 1)] {
        assert!(WorkerId::new(bad).is_err(), "{bad:?}");
    }
}

/// 3.6, 4.5: what happened is kept to the letter, a NUL replaced; it is never refused.
async fn notes_and_errors_of_any_text_are_kept(case: &Case) {
    let worker = case.worker("w").await;
    for text in TEXTS.into_iter().chain(["\0", "a\0b"]) {
        let id = case.submit(NewTask { actor: Some(text.into()), ..case.task() }).await;
        let claimed = case.take(id, &worker).await;
        case.finish(&claimed, failed_for_good(text)).await.unwrap();
        let by = By { actor: Some(text.into()), note: Some(text.into()) };
        case.apply(Command::Retry { task: id, force: true, by: by.clone() }).await.unwrap();
        case.apply(Command::Resolve { task: id, result: None, by }).await.unwrap();
        let kept = text.replace('\0', "\u{fffd}");
        let history = case.record(id).await.history;
        assert_eq!(history[0].actor.as_ref(), Some(&kept));
        assert_eq!(history[3].note.as_ref(), Some(&kept));
        for entry in &history[4..] {
            assert_eq!((entry.actor.as_ref(), entry.note.as_ref()), (Some(&kept), Some(&kept)));
        }
    }
}

/// C1: a failure must always be recordable.
async fn huge_texts_are_cut_and_not_refused(case: &Case) {
    let huge = "ü😀".repeat(200_000);
    let id = case.submit(NewTask { actor: Some(huge.clone()), ..case.task() }).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.finish(&claimed, failed_for_good(&huge)).await.unwrap();
    let by = By { actor: Some(huge.clone()), note: Some(huge.clone()) };
    let record = case.record(id).await;
    let kept = stored_text(&huge);
    assert!(kept.len() <= limits::TEXT_BYTES);
    assert_eq!(record.task.status.error.as_ref(), Some(&kept));
    assert_eq!(record.history[0].actor.as_ref(), Some(&kept));
    case.apply(Command::Retry { task: id, force: true, by }).await.unwrap();
    assert_eq!(case.record(id).await.history.pop().unwrap().note, Some(kept));
}

/// Payloads, promise: numbers no float holds, repeated keys, lone surrogates, `\u0000` and blanks, exactly.
async fn payloads_and_results_are_kept_to_the_letter(case: &Case) {
    let worker = case.worker("w").await;
    for text in [
        r#""\u0000""#,
        r#"{"\u0000":"a\u0000b"}"#,
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        "1e400",
        "-1e-400",
        "-0",
        "-0.0",
        "1.0",
        "1E2",
        "123456789012345678901234567890123456789012345678901234567890",
        "0.1000000000000000055511151231257827021181583404541015625",
        r#"{"a":1,"a":2,"A":3}"#,
        r#"{"z":1,"a":{"y":2,"b":3}}"#,
        "\t{ \"a\" :\n[ 1 ,2 ]\r\n}  ",
        r#""é \u00e9 \/ \"' ; DROP TABLE tasks; --""#,
        "\"\u{2028}\u{202e}\u{feff}\u{7f}😀\"",
        "\"null\"",
    ] {
        let payload = Json::payload(text).unwrap();
        let id = case.submit(NewTask { payload, ..case.task() }).await;
        let claimed = case.claim_one(&worker).await;
        assert_eq!(claimed.payload.as_str(), text);
        case.finish(&claimed, completed(text)).await.unwrap();
        let record = case.record(id).await;
        assert_eq!((record.payload.as_str(), record.result.unwrap().as_str()), (text, text));
    }
}

/// Limits: exactly 1 MiB is stored, one byte more is refused.
async fn payloads_have_a_size(case: &Case) {
    let sized = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let most = sized(limits::JSON_BYTES);
    let id = case.submit(NewTask { payload: Json::payload(&most).unwrap(), ..case.task() }).await;
    let claimed = case.claim_one(&case.worker("w").await).await;
    case.finish(&claimed, completed(&most)).await.unwrap();
    let record = case.record(id).await;
    assert!(record.payload.as_str() == most && record.result.unwrap().as_str() == most);
    for bytes in [limits::JSON_BYTES + 1, 10 << 20] {
        let error = Json::payload(&sized(bytes)).unwrap_err();
        assert!(error.value.contains(&bytes.to_string()), "{error}");
    }
}

/// Limits: 128 levels are stored, 129 and 100,000 are refused.
async fn payloads_have_a_depth(case: &Case) {
    let nested = |n: usize| "[".repeat(n) + &"]".repeat(n);
    let objects = "{\"a\":".repeat(limits::JSON_DEPTH) + "1" + &"}".repeat(limits::JSON_DEPTH);
    for text in [nested(limits::JSON_DEPTH), objects] {
        let id = case.submit(NewTask { payload: Json::payload(&text).unwrap(), ..case.task() }).await;
        assert_eq!(case.record(id).await.payload.as_str(), text);
    }
    for depth in [limits::JSON_DEPTH + 1, 100_000] {
        assert!(Json::payload(&nested(depth)).is_err(), "{depth} levels");
    }
}

/// 0.15: refused before they reach a store.
async fn what_is_not_json_is_refused(_: &Case) {
    for bad in [
        "",
        " ",
        "{",
        "nul",
        "NaN",
        "Infinity",
        "01",
        "{a:1}",
        "[1,]",
        "'a'",
        "\"\u{0}\"",
        "1 2",
        "\u{feff}1",
    ] {
        assert_eq!(Json::payload(bad).unwrap_err().field, "payload", "{bad:?}");
        assert_eq!(Json::result(bad).unwrap_err().field, "result", "{bad:?}");
    }
    for bad in ["", "done", "PENDING", "pending "] {
        assert!(bad.parse::<State>().is_err(), "0.15: {bad:?} is no state");
    }
}
