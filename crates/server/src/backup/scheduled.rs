//! The backups that a server makes of its own store, and which of them it keeps.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use tokio_util::sync::CancellationToken;
use windlass::Timestamp;

use super::draft::ENDING;
use super::{Made, to_file};
use crate::moment;
use crate::teller::Teller;

/// How long to wait after a failure, if the next backup is not due sooner.
const AGAIN: Duration = Duration::from_secs(60);

/// How old a draft is that nobody is working on any more.
const ABANDONED: Duration = Duration::from_secs(86_400);

/// When a server backs up its store, and what it keeps.
#[derive(Clone, Debug)]
pub(crate) struct BackupPlan {
    pub(crate) directory: PathBuf,
    pub(crate) every: Duration,
    /// How many backups stay, 1 or more.
    pub(crate) keep: usize,
    /// How long backups stay. The newest stays however old it is.
    pub(crate) keep_for: Option<Duration>,
}

impl BackupPlan {
    /// Makes the directory, so that a mistake shows at the start.
    pub(crate) fn prepare(&self) -> Result<()> {
        let made = fs::create_dir_all(&self.directory);
        made.with_context(|| format!("the directory for backups, {}", self.directory.display()))
    }

    /// Backs up `store` when it is time to, until `stop`.
    pub(crate) async fn follow(self, store: PathBuf, teller: Teller, stop: CancellationToken) {
        let mut failed = false;
        loop {
            let wait = if failed { self.every.min(AGAIN) } else { self.wait(&store, moment::now()) };
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            let (plan, path, asked) = (self.clone(), store.clone(), stop.clone());
            let made = tokio::task::spawn_blocking(move || plan.once(&path, &asked)).await;
            let made = made.unwrap_or_else(|error| Err(anyhow!("a bug stopped it: {error}")));
            if stop.is_cancelled() {
                return;
            }
            failed = made.is_err();
            tell(&teller, &made);
        }
    }

    /// One backup, and then the end of those that are not to be kept any more.
    fn once(&self, store: &Path, stop: &CancellationToken) -> Result<(PathBuf, Made)> {
        self.sweep();
        let path = self.directory.join(name(store, moment::now()));
        let mut watch = |_: &str, _| match stop.is_cancelled() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        };
        let made = to_file(store, &path, false, &mut watch)?;
        for old in self.outdated(store, moment::now())? {
            fs::remove_file(&old).with_context(|| format!("the old backup {}", old.display()))?;
        }
        Ok((path, made))
    }

    /// How long until the next is due.
    fn wait(&self, store: &Path, now: Timestamp) -> Duration {
        let newest = self.list(store).ok().and_then(|all| all.last_key_value().map(|(at, _)| *at));
        // One from the future was made before the clock was set back.
        newest.map_or(Duration::ZERO, |newest| newest.plus(self.every).since(now).min(self.every))
    }

    /// The backups of this store, by time. Other files are none of ours.
    fn list(&self, store: &Path) -> Result<BTreeMap<Timestamp, PathBuf>> {
        let mut found = BTreeMap::new();
        for entry in fs::read_dir(&self.directory)? {
            let entry = entry?;
            if let Some(at) = entry.file_name().to_str().and_then(|name| moment_of(store, name)) {
                found.insert(at, entry.path());
            }
        }
        Ok(found)
    }

    /// Those that are too many or too old.
    fn outdated(&self, store: &Path, now: Timestamp) -> Result<Vec<PathBuf>> {
        let newest_first = self.list(store)?.into_iter().rev().enumerate();
        let is_outdated = |place: usize, at: Timestamp| {
            place >= self.keep || (place > 0 && self.keep_for.is_some_and(|age| now.since(at) > age))
        };
        let outdated = newest_first.filter(|(place, (at, _))| is_outdated(*place, *at));
        Ok(outdated.map(|(_, (_, path))| path).collect())
    }

    /// Removes drafts of servers that were killed.
    fn sweep(&self) {
        let Ok(entries) = fs::read_dir(&self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_draft = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(ENDING));
            let changed = entry.metadata().and_then(|found| found.modified()).ok();
            let age = changed.and_then(|changed| changed.elapsed().ok()).unwrap_or_default();
            if is_draft && age > ABANDONED {
                // It only takes room; the next time may be luckier.
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn tell(teller: &Teller, made: &Result<(PathBuf, Made)>) {
    let outcome = match made {
        Ok((path, made)) => {
            let (tasks, bytes) = (made.contents.tasks, made.written);
            teller.tell(format!("backed up to {}: {tasks} tasks, {bytes} bytes, checked", path.display()));
            let now = Duration::from_micros(moment::now().as_micros().unsigned_abs());
            metrics::gauge!("windlass_backup_completed_timestamp_seconds").set(now.as_secs_f64());
            "completed"
        }
        Err(error) => {
            teller.tell(format!("the store was not backed up: {error:#}"));
            "failed"
        }
    };
    metrics::counter!("windlass_backups_total", "outcome" => outcome).increment(1);
}

/// `windlass-20300131T180000Z.db`: the store's name and the moment, to the second.
fn name(store: &Path, at: Timestamp) -> String {
    format!("{}{}.db", prefix(store), moment::to_second(at).replace(['-', ':'], ""))
}

fn prefix(store: &Path) -> String {
    format!("{}-", store.file_stem().unwrap_or_default().to_string_lossy())
}

/// The moment in a name, if it is one that [`name`] gives.
fn moment_of(store: &Path, name: &str) -> Option<Timestamp> {
    let at = name.strip_prefix(&prefix(store))?.strip_suffix(".db")?;
    let [year, month, day] = [at.get(0..4)?, at.get(4..6)?, at.get(6..8)?];
    let [hour, minute, second] = [at.get(9..11)?, at.get(11..13)?, at.get(13..15)?];
    let text = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    moment::parse(&text).ok().filter(|at| self::name(store, *at) == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    fn plan(directory: &Path, keep: usize, keep_for: Option<Duration>) -> BackupPlan {
        BackupPlan { directory: directory.into(), every: HOUR, keep, keep_for }
    }

    #[test]
    fn names_tell_the_moment_and_others_are_left_alone() {
        let (store, at) = (Path::new("/srv/app/tasks.db"), moment::parse("2030-01-31T18:00:05Z").unwrap());
        assert_eq!(name(store, at), "tasks-20300131T180005Z.db");
        assert_eq!(moment_of(store, "tasks-20300131T180005Z.db"), Some(at));
        for other in [
            "tasks-20300131T180005Z.db.gz",
            "tasks-20301331T180005Z.db",
            "tasks-2030.db",
            "tasks-important.db",
            "other-20300131T180005Z.db",
            "tasks-20300131T180005é.db",
        ] {
            assert_eq!(moment_of(store, other), None, "{other}");
        }
    }

    #[test]
    fn too_many_and_too_old_ones_go_but_never_the_newest() {
        let directory = tempfile::tempdir().unwrap();
        let (store, now) = (Path::new("tasks.db"), moment::parse("2030-01-31T18:00:00Z").unwrap());
        let path = |hours: u32| directory.path().join(name(store, now.minus(HOUR * hours)));
        for hours in [5, 30, 2, 100] {
            fs::write(path(hours), "").unwrap();
        }
        fs::write(directory.path().join("tasks-important.db"), "").unwrap();
        let outdated = |keep, age| plan(directory.path(), keep, age).outdated(store, now).unwrap();
        assert_eq!(outdated(4, None), [""; 0].map(PathBuf::from));
        assert_eq!(outdated(2, None), [30, 100].map(path));
        assert_eq!(outdated(9, Some(HOUR * 24)), [30, 100].map(path));
        assert_eq!(outdated(3, Some(HOUR * 4)), [5, 30, 100].map(path));
        assert_eq!(outdated(3, Some(HOUR)), [5, 30, 100].map(path), "the newest stays, old as it is");
    }

    #[test]
    fn the_next_is_due_when_the_newest_is_old_enough() {
        let directory = tempfile::tempdir().unwrap();
        let (store, now) = (Path::new("tasks.db"), moment::parse("2030-01-31T18:00:00Z").unwrap());
        let plan = plan(directory.path(), 3, None);
        assert_eq!(plan.wait(store, now), Duration::ZERO, "there is none");
        let made = |at: Timestamp| fs::write(directory.path().join(name(store, at)), "").unwrap();
        made(now.minus(HOUR * 2));
        assert_eq!(plan.wait(store, now), Duration::ZERO);
        made(now.minus(HOUR / 4));
        assert_eq!(plan.wait(store, now), HOUR * 3 / 4);
        made(now.plus(HOUR * 5));
        assert_eq!(plan.wait(store, now), HOUR, "the clock was set back");
    }
}
