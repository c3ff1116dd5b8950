//! The programs that run, each with what it started, so that none is left behind: not when its task is over,
//! not when the worker ends, and not when the worker is killed.
//!
//! What starts a session of its own (`setsid`) is out of reach: it has left on purpose.

use std::collections::HashSet;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{self, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

/// All programs of a worker. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Programs(Arc<Mutex<Roll>>);

#[derive(Debug)]
struct Roll {
    groups: HashSet<Pid>,
    keeper: Keeper,
    is_closed: bool,
}

impl Programs {
    /// None yet. Fails if there is no shell, without which no program can be started either.
    pub(crate) fn new() -> io::Result<Self> {
        // Whoever started us may have ignored it, and so would we: then nobody could tell how the first
        // program ended. Once it is listened to, it stays so.
        drop(signal(SignalKind::child())?);
        let roll = Roll { groups: HashSet::new(), keeper: Keeper::start()?, is_closed: false };
        Ok(Self(Arc::new(Mutex::new(roll))))
    }

    fn roll(&self) -> MutexGuard<'_, Roll> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a program in a group of its own. The lock is held meanwhile, so that none is started after
    /// [`Programs::kill_all`].
    pub(crate) fn start(&self, command: &mut Command) -> io::Result<(Child, Group)> {
        let mut roll = self.roll();
        if roll.is_closed {
            return Err(io::Error::other("the worker ends"));
        }
        let child = command.process_group(0).kill_on_drop(true).spawn()?;
        let id = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| io::Error::other("it ended before it began"))?;
        roll.groups.insert(id);
        roll.keeper.tell('+', id);
        Ok((child, Group { id, programs: self.clone() }))
    }

    /// Kills all of them at once; no more are started.
    pub(crate) fn kill_all(&self) {
        let mut roll = self.roll();
        roll.is_closed = true;
        roll.groups.iter().for_each(|group| send(*group, Signal::KILL));
    }

    /// Whether all of them were killed.
    pub(crate) fn are_killed(&self) -> bool {
        self.roll().is_closed
    }

    /// How many run.
    pub(crate) fn count(&self) -> usize {
        self.roll().groups.len()
    }
}

/// A program and what it started. What is left of it when this is dropped is killed.
#[derive(Debug)]
pub(crate) struct Group {
    id: Pid,
    programs: Programs,
}

impl Group {
    pub(crate) fn send(&self, signal: Signal) {
        send(self.id, signal);
    }

    /// Whether anything of it still runs.
    pub(crate) fn is_there(&self) -> bool {
        test_kill_process_group(self.id).is_ok() && runs(self.id)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        send(self.id, Signal::KILL);
        let mut roll = self.programs.roll();
        roll.groups.remove(&self.id);
        roll.keeper.tell('-', self.id);
    }
}

fn send(group: Pid, signal: Signal) {
    // It may be gone already, which is what is wanted.
    let _ = kill_process_group(group, signal);
}

/// Whether a process of a group has not ended. One that has, and that nobody has taken note of yet, still
/// counts as there to the system.
fn runs(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc/") else { return true };
    let group = group.as_raw_nonzero().to_string();
    processes.flatten().any(|process| {
        let stat = std::fs::read_to_string(process.path().join("stat")).unwrap_or_default();
        // The state, the parent and the group follow the name, which may have anything in it but ends with
        // the last parenthesis.
        let fields = stat.rsplit_once(") ").map(|(_, fields)| fields).unwrap_or_default();
        let mut fields = fields.split(' ');
        fields.next().is_some_and(|state| !matches!(state, "Z" | "X")) && fields.nth(1) == Some(&group)
    })
}

/// A shell that outlives the worker by a moment, and kills what the worker could not. It is told which groups
/// there are; when it hears nothing more because the worker is gone, those that are left are killed.
#[derive(Debug)]
struct Keeper(process::Child);

const KEEPER: &str = r#"
trap '' HUP INT TERM
groups=' '
while read -r sign group; do
  case $sign in
    +) groups="$groups$group " ;;
    -) groups="${groups%%" $group "*} ${groups#*" $group "}" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group"; done
"#;

impl Keeper {
    fn start() -> io::Result<Self> {
        let mut shell = process::Command::new("sh");
        shell.args(["-c", KEEPER, "windlass-keeper"]).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(shell.spawn()?))
    }

    fn tell(&mut self, sign: char, group: Pid) {
        if let Some(pipe) = &mut self.0.stdin {
            // If somebody has killed it, the worker does without.
            let _ = pipe.write_all(format!("{sign} {}\n", group.as_raw_nonzero()).as_bytes());
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
