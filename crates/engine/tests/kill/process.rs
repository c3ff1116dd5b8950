//! Child processes: started, listened to, stopped, continued, killed.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::gates::MARK;
use super::part::Part;

/// Longer than anything here takes on a slow machine, so that a test which waits in vain fails instead of
/// hanging.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// Tells a test program that it is a child: its part and its place.
const PART: &str = "WINDLASS_TEST_PART";
const PLACE: &str = "WINDLASS_TEST_PLACE";

/// The part that this process was started for, if it was, and where.
pub(crate) fn part() -> Option<(Part, std::path::PathBuf)> {
    let part = std::env::var(PART).ok()?;
    Some((serde_json::from_str(&part).unwrap(), std::env::var_os(PLACE)?.into()))
}

/// A process. Dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) who: String,
    child: Child,
    orders: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
    /// Heard, but not asked for yet.
    heard: VecDeque<String>,
}

impl Process {
    /// The same test again, as a process of its own that plays `part`.
    pub(crate) fn start(test: &str, part: &Part, place: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(PART, serde_json::to_string(part).unwrap())
            .env(PLACE, place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::unbounded_channel();
        let said = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                if let Some(line) = line.strip_prefix(MARK) {
                    drop(send.send(line.to_owned()));
                }
            }
        });
        let orders = child.stdin.take().unwrap();
        Self { who: part.who.clone(), child, orders, lines, heard: VecDeque::new() }
    }

    /// The rest of the next line that begins with `word`. Lines before it are kept for later.
    pub(crate) async fn hear(&mut self, word: &str) -> String {
        let rest = |line: &String| Some(line.strip_prefix(word)?.trim_start().to_owned());
        if let Some((place, found)) =
            self.heard.iter().enumerate().find_map(|(n, line)| Some((n, rest(line)?)))
        {
            self.heard.remove(place);
            return found;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let line = timeout_at(deadline, self.lines.recv()).await;
            let line = line.unwrap_or_else(|_| panic!("{} does not say {word:?}", self.who));
            let line = line.unwrap_or_else(|| panic!("{} ended before it said {word:?}", self.who));
            match rest(&line) {
                Some(found) => return found,
                None => self.heard.push_back(line),
            }
        }
    }

    /// Everything that it has said since this was last asked.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        let mut heard: Vec<String> = self.heard.drain(..).collect();
        while let Ok(line) = self.lines.try_recv() {
            heard.push(line);
        }
        heard
    }

    /// Waits until it says `word` anew, but not for long: it may have nothing to do.
    pub(crate) async fn hear_soon(&mut self, word: &str) {
        let deadline = Instant::now() + Duration::from_secs(1);
        while let Ok(Some(line)) = timeout_at(deadline, self.lines.recv()).await {
            if line == word {
                return;
            }
            self.heard.push_back(line);
        }
    }

    /// All that it said before it was killed, and that was not heard yet.
    pub(crate) async fn last_words(&mut self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = timeout_at(deadline, self.lines.recv()).await.expect("the dead are silent") {
            self.heard.push_back(line);
        }
        self.heard.drain(..).collect()
    }

    /// Opens a gate in it. It may be stopped: it finds the gate open when it goes on.
    pub(crate) fn open(&mut self, gate: &str) {
        writeln!(self.orders, "open {gate}").unwrap();
    }

    /// SIGSTOP or SIGCONT. The shell has `kill` built in, wherever the program is.
    pub(crate) fn signal(&self, signal: &str) {
        let line = format!("kill -{signal} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &line]).status().unwrap().success(), "{line}");
    }

    /// SIGKILL. It is dead when this returns.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Tells it to stop; it goes on until it has.
    pub(crate) fn tell_to_stop(&mut self) {
        // It may have ended by itself, as a submitter does.
        drop(writeln!(self.orders, "stop"));
    }

    /// Waits until it has ended by itself, and well. Gives what it had to say that was not heard yet.
    pub(crate) async fn ended(mut self) -> Vec<String> {
        self.tell_to_stop();
        let deadline = Instant::now() + PATIENCE;
        while let Some(line) = timeout_at(deadline, self.lines.recv())
            .await
            .unwrap_or_else(|_| panic!("{} does not end", self.who))
        {
            self.heard.push_back(line);
        }
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{} ended with {status}", self.who);
        self.heard.drain(..).collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail if it has ended, which is fine.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
