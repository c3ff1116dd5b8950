//! `windlass prune`.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use windlass::{Invalid, Retention, State, limits};

use crate::duration;
use crate::failure::Usage;
use crate::progress::Progress;
use crate::session::Session;
use crate::show::Answer;

/// Delete tasks that have been over for long enough, of all namespaces
///
/// States that are not named are kept for ever. A worker that leads does the same by itself if it was started
/// with --keep.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass prune --keep completed=7d --keep failed=30d
  windlass prune --keep cancelled=0s --limit 10000")]
pub(crate) struct PruneArgs {
    /// How long tasks of a final state are kept, such as completed=7d; may be given several times
    #[arg(long = "keep", value_name = "STATE=AGE", value_parser = keep, required = true)]
    keep: Vec<(State, Duration)>,
    /// Delete no more than this many, the oldest
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
}

/// A final state and an age, such as `completed=7d`.
pub(crate) fn keep(text: &str) -> Result<(State, Duration), Invalid> {
    let (state, age) = text
        .split_once('=')
        .ok_or_else(|| Invalid::new("keep", text, "a final state and an age, such as completed=7d"))?;
    let (state, age) = (state.parse()?, duration::parse(age)?);
    Retention::default().keep(state, age)?;
    Ok((state, age))
}

pub(crate) async fn run(session: &Session, args: &PruneArgs) -> Result<Answer> {
    if let Some(namespace) = session.given_namespace() {
        let told = format!(
            "prune deletes in all namespaces; leave --namespace {namespace} out, or use `task delete --all`"
        );
        return Err(Usage::new(told).into());
    }
    let mut retention = Retention::default();
    for (state, age) in &args.keep {
        retention = retention.keep(*state, *age)?;
    }
    let client = session.existing().await?;
    let (mut deleted, mut progress) = (0_u64, Progress::new("tasks deleted"));
    loop {
        let left = args.limit.map_or(u64::MAX, |limit| limit - deleted);
        let page = usize::try_from(left).unwrap_or(usize::MAX).min(limits::BATCH);
        let gone = if page == 0 { 0 } else { client.store().prune(retention.clone(), page).await? };
        deleted += u64::try_from(gone)?;
        progress.at(deleted);
        if gone < page || page == 0 {
            break;
        }
    }
    drop(progress);
    Ok(Answer::new(format!("{deleted} tasks deleted\n"), &json!({ "deleted": deleted })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_final_states_have_an_age() {
        assert_eq!(keep("completed=7d"), Ok((State::Completed, Duration::from_secs(7 * 86_400))));
        for bad in ["completed", "completed=", "=7d", "running=7d", "done=7d", "completed=7"] {
            assert!(keep(bad).is_err(), "{bad}");
        }
    }
}
