//! What handlers tell about their work: seen while they run, complete at the end, bounded, and handed to the
//! next attempt.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::sync::{Arc, Mutex};

use support::{
    Work, at, down, engine, lost, ms, pass, planned, record, secs, spied, state, words, work, worker,
};
use windlass::{By, Context, Notes, Progress, Record, State, TaskError, Windlass, limits};

fn texts(notes: &Notes) -> Vec<&str> {
    notes.lines.iter().map(|line| &*line.text).collect()
}

/// Tells something every 100 ms, as often as it is told.
async fn talkative(context: Context, work: Work) -> Result<(), TaskError> {
    for number in 0..work.takes {
        context.progress(number + 1, work.takes, work.name.clone());
        context.log(format!("line {number}"));
        context.checkpoint(&number)?;
        pass(ms(100)).await;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_tells_is_seen_while_it_runs() {
    let windlass = engine();
    let client = windlass.client();
    let worker = worker(&windlass).handle(talkative).start().await.unwrap();
    let id = client.submit(&work("a", 20)).await.unwrap().id;
    pass(ms(260)).await;
    let told = record(&windlass, id).await;
    assert_eq!(told.task.status.state, State::Running);
    let notes = &told.notes[0];
    assert_eq!((texts(notes), notes.lease), (vec!["line 0", "line 1", "line 2"], 1));
    assert_eq!(notes.progress, Some(Progress { done: 3, total: Some(20), note: Some("a".into()) }));
    assert_eq!(notes.details.as_ref().unwrap().as_str(), "2");
    assert_eq!(
        notes.lines.iter().map(|line| line.at).collect::<Vec<_>>(),
        [0, 100, 200].map(|time| at(ms(time)))
    );
    let done = client.wait(id).await.unwrap();
    assert_eq!((done.notes.len(), done.notes[0].lines.len(), done.notes[0].dropped), (1, 20, 0));
    assert_eq!(done.notes[0].progress.as_ref().unwrap().done, 20);
    worker.stop().await.unwrap();
}

/// However much is told, it is passed on four times a second, and the rest together with the end.
#[tokio::test(start_paused = true)]
async fn much_is_told_at_once() {
    let (spy, windlass) = spied();
    let client = windlass.client();
    let chatty = async |context: Context, work: Work| {
        for number in 0..work.takes {
            context.log(number.to_string());
            pass(ms(1)).await;
        }
        Ok(())
    };
    let worker = worker(&windlass).handle(chatty).start().await.unwrap();
    let id = client.submit(&work("a", 1_990)).await.unwrap().id;
    let done = client.wait(id).await.unwrap();
    assert_eq!(done.notes[0].lines.len() + usize::try_from(done.notes[0].dropped).unwrap(), 1_990);
    assert!((7..=9).contains(&spy.times("report")), "{} reports in 2 s", spy.times("report"));
    spy.forget();
    let quick = client.submit(&work("a", 3)).await.unwrap().id;
    client.wait(quick).await.unwrap();
    assert_eq!(spy.said()[..4], ["submit", "claim", "report", "finish"], "in one turn");
    let silent = client.submit(&work("a", 0)).await.unwrap().id;
    assert_eq!(client.wait(silent).await.unwrap().notes, [], "who tells nothing has no notes");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_told_is_bounded() {
    let windlass = engine();
    let client = windlass.client();
    let excessive = async |context: Context, work: Work| {
        match &*work.name {
            "lines" => (0..5_000).for_each(|number| context.log(format!("line {number}"))),
            "bytes" => (0..100).for_each(|_| context.log("é".repeat(limits::LINE_BYTES))),
            "note" => context.progress(1, None, "n".repeat(100_000)),
            "zero" => context.log("a\0b"),
            _ => context.checkpoint(&"x".repeat(2 << 20))?,
        }
        Ok(())
    };
    let worker = worker(&windlass).handle(excessive).start().await.unwrap();
    let ended = async |name: &str| {
        let id = client.submit(&work(name, 0)).max_attempts(1).await.unwrap().id;
        client.wait(id).await.unwrap().0
    };
    let lines = ended("lines").await;
    assert_eq!((lines.notes[0].lines.len(), lines.notes[0].dropped), (limits::LOG_LINES, 4_000));
    assert_eq!(lines.notes[0].lines.last().unwrap().text, "line 4999", "the newest are kept");
    let bytes = ended("bytes").await;
    let kept: usize = bytes.notes[0].lines.iter().map(|line| line.text.len()).sum();
    assert!(kept <= limits::LOG_BYTES && bytes.notes[0].dropped > 50, "{kept}");
    assert!(bytes.notes[0].lines.iter().all(|line| line.text.ends_with('…')), "each is cut");
    let note = ended("note").await.notes[0].progress.clone().unwrap().note.unwrap();
    assert!(note.len() <= limits::TEXT_BYTES + 8, "{}", note.len());
    assert_eq!(texts(&ended("zero").await.notes[0]), ["a\u{fffd}b"]);
    let large = ended("checkpoint").await;
    assert!(large.task.status.error.unwrap().contains("checkpoint"), "told to who made it");
    assert_eq!(large.notes, []);
    worker.stop().await.unwrap();
}

/// Leaves a checkpoint and then ends as its name says, unless it finds one.
async fn leave(context: Context, work: Work) -> Result<String, TaskError> {
    if let Some(left) = context.last_checkpoint::<String>()? {
        context.log("went on");
        return Ok(format!("{left} at attempt {}", context.attempt()));
    }
    context.checkpoint(&"page 7")?;
    context.log("got to page 7");
    match &*work.name {
        "fail" => Err(TaskError::retry("f")),
        "snooze" => Err(TaskError::snooze(secs(1))),
        "panic" => panic!("on purpose"),
        _ => std::future::pending().await,
    }
}

async fn went_on(windlass: &Windlass, record: &Record) {
    let notes: Vec<_> = record.notes.iter().map(texts).collect();
    assert_eq!(notes, [["got to page 7"], ["went on"]], "{:?}", words(record));
    assert_eq!(record.notes[0].details.as_ref().unwrap().as_str(), r#""page 7""#);
    assert_eq!(state(windlass, record.task.id).await, State::Completed);
}

#[tokio::test(start_paused = true)]
async fn what_an_attempt_leaves_is_handed_to_the_next() {
    let windlass = engine();
    let client = windlass.client();
    let worker = worker(&windlass).handle(leave).start().await.unwrap();
    for (name, attempt) in [("fail", 2), ("snooze", 1), ("panic", 2), ("timeout", 2)] {
        let id = client.submit(&work(name, 0)).timeout(secs(3)).await.unwrap().id;
        let done = client.wait(id).await.unwrap();
        assert_eq!(done.output::<String>().unwrap(), format!("page 7 at attempt {attempt}"), "{name}");
        went_on(&windlass, &done).await;
    }
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_stopped_or_lost_worker_leaves_is_handed_on() {
    let windlass = engine();
    let client = windlass.client();
    let first = worker(&windlass).handle(leave).grace(secs(1)).patience(secs(1)).start().await.unwrap();
    let id = client.submit(&work("stopped", 0)).await.unwrap().id;
    pass(ms(10)).await;
    first.stop().await.unwrap();
    // The next one is not heard of any more, as if its machine had gone, after it told what it had to tell.
    let (plan, store) = support::Plan::around(windlass.store().clone());
    let second_windlass = Windlass::new(store);
    let second = worker(&second_windlass).handle(leave).leads(false).start().await.unwrap();
    let done = client.wait(id).await.unwrap();
    assert_eq!(done.output::<String>().unwrap(), "page 7 at attempt 1");
    went_on(&windlass, &done).await;
    let id = client.submit(&work("lost", 0)).await.unwrap().id;
    pass(secs(1)).await;
    plan.set(&[], support::Fault::Silence);
    let third = worker(&windlass).handle(leave).start().await.unwrap();
    let done = client.wait(id).await.unwrap();
    assert_eq!(done.output::<String>().unwrap(), "page 7 at attempt 2");
    went_on(&windlass, &done).await;
    third.stop().await.unwrap();
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_is_there_until_there_is_another() {
    let windlass = engine();
    let client = windlass.client();
    let found: Arc<Mutex<Vec<Option<u32>>>> = Arc::default();
    let seen = found.clone();
    let handler = move |context: Context, _: Work| {
        let found = found.clone();
        async move {
            found.lock().unwrap().push(context.last_checkpoint()?);
            match context.attempt() {
                1 => context.checkpoint(&11)?,
                3 => context.checkpoint(&33)?,
                4 => return Ok(()),
                _ => {}
            }
            Err(TaskError::retry("again"))
        }
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    let id = client.submit(&work("a", 0)).max_attempts(9).await.unwrap().id;
    client.wait(id).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [None, Some(11), Some(11), Some(33)]);
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_checkpoint_of_another_form_is_an_error_of_the_handler() {
    let windlass = engine();
    let client = windlass.client();
    let handler = async |context: Context, _: Work| {
        context.checkpoint(&"text")?;
        Ok(context.last_checkpoint::<u32>()?.is_none() && { Err(TaskError::retry("once"))? })
    };
    let worker = worker(&windlass).handle(handler).start().await.unwrap();
    let id = client.submit(&work("a", 0)).max_attempts(2).await.unwrap().id;
    let ended = client.wait(id).await.unwrap();
    assert_eq!(ended.task.status.state, State::DeadLetter);
    assert!(ended.task.status.error.as_ref().unwrap().contains("invalid type: string"), "{ended:?}");
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_is_told_while_the_store_is_down_is_not_lost() {
    let (plan, windlass) = planned();
    let client = windlass.client();
    let worker = worker(&windlass).handle(talkative).start().await.unwrap();
    let id = client.submit(&work("a", 100)).await.unwrap().id;
    pass(secs(1)).await;
    plan.set(&["turn"], down());
    pass(secs(3)).await;
    plan.mend();
    for _ in 0..5 {
        plan.once("turn", lost());
        pass(secs(1)).await;
    }
    let done = client.wait(id).await.unwrap();
    let expected: Vec<_> = (0..100).map(|number| format!("line {number}")).collect();
    assert_eq!(texts(&done.notes[0]), expected, "in order, each once");
    assert_eq!((done.notes[0].dropped, done.task.status.attempt), (0, 1));
    worker.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn who_has_lost_the_task_changes_no_notes() {
    let windlass = engine();
    let client = windlass.client();
    let deaf = async |context: Context, work: Work| {
        for number in 0..work.takes {
            context.log(format!("line {number}"));
            pass(ms(100)).await;
        }
        Ok(())
    };
    let worker = worker(&windlass).handle(deaf).start().await.unwrap();
    let id = client.submit(&work("a", 30)).await.unwrap().id;
    pass(secs(1)).await;
    client.resolve(id, None, By::default()).await.unwrap();
    let settled = record(&windlass, id).await;
    pass(secs(10)).await;
    assert_eq!(record(&windlass, id).await, settled);
    worker.stop().await.unwrap();
}
