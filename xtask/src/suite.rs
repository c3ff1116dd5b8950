//! Runs all test programs, several side by side where [`schedule`] allows it, and says which tests took
//! longest.
//!
//! A program's output is kept and printed when the program ends, so that outputs do not mix. Every program
//! runs, also after one has failed: one run of the gate shows all failures.

use std::collections::VecDeque;
use std::env;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::record::{self, Program};
use crate::times::{self, Printed, Sums, Took};
use crate::{cargo, schedule, show};

/// How many programs run side by side. Each has as many threads as there are cores, and most of them wait.
const SIDE_BY_SIDE: usize = 3;

/// Says otherwise.
const VARIABLE: &str = "WINDLASS_SIDE_BY_SIDE";

/// How often it is checked whether a program that prints nothing has ended, without closing its output.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// How long the rest of its output is waited for when a program has ended. What it has started may hold the
/// output for ever.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// What the tests of a run have shown.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) sums: Sums,
    took: Vec<Took>,
    /// Programs whose output does not tell when each test ended.
    untold: Vec<String>,
}

/// Something that prints what test programs print.
struct Job<'a> {
    name: String,
    /// The same command each time.
    command: Box<dyn Fn() -> Command + Sync + 'a>,
    /// Whether it is one test program, so that the time of each test is known.
    tells_times: bool,
}

/// A job that has ended.
struct Ended {
    job: usize,
    output: String,
    /// `Err` says what is wrong.
    status: Result<(), String>,
    sums: Sums,
    took: Option<Vec<Took>>,
    time: Duration,
}

impl Report {
    /// The slowest tests as a table, and what the numbers mean.
    pub(crate) fn slowest(&self, count: usize) -> String {
        let slowest = times::slowest(self.took.clone(), count);
        if slowest.is_empty() {
            return String::new();
        }
        let times: Vec<String> = slowest.iter().map(|it| show::duration(it.time)).collect();
        let rows: Vec<(&str, String)> =
            times.iter().zip(slowest).map(|(time, it)| (&**time, it.test)).collect();
        let mut text = format!(
            "the {} slowest tests, each from the moment a thread was free for it until its end, with others beside it:\n{}",
            rows.len(),
            show::table(&rows)
        );
        if !self.untold.is_empty() {
            text += &format!("  without times for the tests of {}\n", self.untold.join(", "));
        }
        text
    }

    fn add(&mut self, name: &str, ended: &Ended) {
        self.sums.add(ended.sums);
        match &ended.took {
            Some(took) => {
                let named = |it: &Took| Took { test: format!("{name} {}", it.test), time: it.time };
                self.took.extend(took.iter().map(named));
            }
            None => self.untold.push(name.to_owned()),
        }
    }
}

/// Runs the programs that `cargo TEST` would run, and the examples in documentation that `cargo DOC_TEST`
/// runs. Returns a remark for the summary.
pub(crate) fn run(
    root: &Path,
    test: &[&str],
    doc_test: &[&str],
    report: &mut Report,
) -> Result<String, String> {
    let side_by_side = side_by_side(env::var(VARIABLE).ok().as_deref())?;
    let threads = threads(env::var("RUST_TEST_THREADS").ok().as_deref());
    let programs = record::programs(root, test)?;
    let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
    let unknown = schedule::unknown(&names);
    if !unknown.is_empty() {
        return Err(format!(
            "xtask/src/schedule.rs names test programs that there are not: {}",
            unknown.join(", ")
        ));
    }
    let documentation = Job {
        name: "documentation".to_owned(),
        command: Box::new(|| cargo::command(root, doc_test)),
        tells_times: false,
    };
    let jobs: Vec<Job<'_>> = programs.into_iter().map(Job::from).chain([documentation]).collect();
    run_jobs(&jobs, side_by_side, threads, report)
}

/// Runs a line of cargo that runs tests, with these variables; what it prints goes to the terminal as it
/// comes.
pub(crate) fn longer(
    root: &Path,
    line: &[&str],
    variables: &[(&str, &str)],
    report: &mut Report,
) -> Result<String, String> {
    let mut command = cargo::command(root, line);
    command.envs(variables.iter().copied());
    let mut followed = Followed::new(|line| println!("{line}"));
    let line = line.join(" ");
    let status = follow(command, &mut followed)
        .map_err(|error| format!("`cargo {line}` could not be run: {error}"))?;
    let sums = counted(followed.printed.all_sums(), status.success());
    report.sums.add(sums);
    if !status.success() {
        return Err(format!("`cargo {line}` ended with {status}"));
    }
    match sums.passed {
        0 => Err(format!("`cargo {line}` ran no test")),
        passed => Ok(show::count(passed, "test")),
    }
}

fn side_by_side(variable: Option<&str>) -> Result<usize, String> {
    match variable.map(str::parse) {
        None => Ok(SIDE_BY_SIDE),
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(format!("{VARIABLE} must be a number of programs from 1 on")),
    }
}

/// How many threads a test program has.
fn threads(variable: Option<&str>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    variable.and_then(|number| number.parse().ok()).filter(|number| *number > 0).unwrap_or_else(cores)
}

/// Runs all jobs, also after one has failed. `Err` names those that have.
fn run_jobs(
    jobs: &[Job<'_>],
    side_by_side: usize,
    threads: usize,
    report: &mut Report,
) -> Result<String, String> {
    let names: Vec<&str> = jobs.iter().map(|job| &*job.name).collect();
    let mut waiting: VecDeque<usize> = schedule::order(&names).into();
    let mut running: Vec<usize> = Vec::new();
    let (mut failed, mut count) = (Vec::new(), 0);
    let (sender, ended) = channel();
    thread::scope(|scope| {
        while !(waiting.is_empty() && running.is_empty()) {
            while let Some(&next) = waiting.front() {
                let beside: Vec<&str> = running.iter().map(|&job| names[job]).collect();
                if !schedule::may_start(names[next], &beside, side_by_side) {
                    break;
                }
                waiting.pop_front();
                running.push(next);
                let sender = sender.clone();
                scope.spawn(move || {
                    // The other end is there until all have ended.
                    let _ = sender.send(jobs[next].run(next, threads));
                });
            }
            let Ok(ended) = ended.recv() else { return };
            running.retain(|&job| job != ended.job);
            count += 1;
            let (name, time) = (names[ended.job], show::duration(ended.time));
            println!("     Ran {name} ({count} of {}) in {time}\n{}\n", jobs.len(), ended.output.trim_end());
            if let Err(why) = &ended.status {
                println!("     FAILED {name}: {why}\n");
                failed.push(format!("{name}: {why}"));
            }
            report.add(name, &ended);
        }
    });
    if failed.is_empty() {
        Ok(format!("{} in {}", show::count(report.sums.passed, "test"), show::count(jobs.len(), "program")))
    } else {
        Err(failed.join("\n"))
    }
}

impl From<Program> for Job<'_> {
    fn from(program: Program) -> Self {
        Self { name: program.name.clone(), command: Box::new(move || program.command()), tells_times: true }
    }
}

impl Job<'_> {
    fn run(&self, job: usize, threads: usize) -> Ended {
        let begun = Instant::now();
        let mut followed = Followed::new(|line| {
            if times::is_slow(line) {
                println!("      {}: {line}", self.name);
            }
        });
        let status = self.try_run(&mut followed);
        let time = begun.elapsed();
        let Followed { output, printed, .. } = followed;
        let (status, took) = match status {
            Ok(Some(listed)) => (Ok(()), printed.took(&listed, threads)),
            Ok(None) => (Ok(()), Some(Vec::new())),
            Err(why) => (Err(why), None),
        };
        let sums = if self.tells_times { printed.last_sums() } else { printed.all_sums() };
        let sums = counted(sums, status.is_ok());
        Ended { job, output, status, sums, took, time }
    }

    /// The tests in the order in which they start, if that is known.
    fn try_run(&self, followed: &mut Followed<impl Fn(&str)>) -> Result<Option<Vec<String>>, String> {
        let listed = if self.tells_times { Some(self.list()?) } else { None };
        let status = follow((self.command)(), followed);
        let status = status.map_err(|error| format!("it could not be run: {error}"))?;
        if status.success() { Ok(listed) } else { Err(format!("it ended with {status}")) }
    }

    fn list(&self) -> Result<Vec<String>, String> {
        let mut command = (self.command)();
        let said = command.arg("--list").stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let said = said.map_err(|error| format!("its tests could not be listed: {error}"))?;
        if said.status.success() {
            Ok(times::listed(&String::from_utf8_lossy(&said.stdout)))
        } else {
            Err(format!("its tests could not be listed: it ended with {}", said.status))
        }
    }
}

/// A program that failed without a test that did, because it was killed, say, counts as one failure.
fn counted(sums: Sums, is_good: bool) -> Sums {
    let failed = if is_good { sums.failed } else { sums.failed.max(1) };
    Sums { failed, ..sums }
}

/// What has been read of a program's output.
struct Followed<F> {
    output: String,
    printed: Printed,
    /// Told each line when it comes.
    live: F,
}

impl<F: Fn(&str)> Followed<F> {
    fn new(live: F) -> Self {
        Self { output: String::new(), printed: Printed::default(), live }
    }

    fn line(&mut self, line: &str, since_start: Duration) {
        (self.live)(line);
        self.printed.line(line, since_start);
        self.output += line;
        self.output.push('\n');
    }
}

/// Runs a command to its end and reads what it prints, to both of its outputs, in the order in which it
/// comes.
fn follow(mut command: Command, followed: &mut Followed<impl Fn(&str)>) -> io::Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let started = Instant::now();
    let mut child = command.spawn()?;
    // It holds the other end of the pipe.
    drop(command);
    let (sender, lines) = channel();
    // Not waited for: what the program has started may keep the pipe open.
    thread::spawn(move || read(reader, started, &sender));
    let mut status = None;
    let mut patience = LOOK_AGAIN;
    loop {
        match lines.recv_timeout(patience) {
            Ok((line, at)) => followed.line(&line, at),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) if status.is_some() => {
                followed.output += "(something that it has started still runs and holds its output)\n";
                break;
            }
            Err(RecvTimeoutError::Timeout) => {
                status = child.try_wait()?;
                patience = if status.is_some() { LAST_WORDS } else { LOOK_AGAIN };
            }
        }
    }
    status.map_or_else(|| child.wait(), Ok)
}

/// Sends each line with the time at which it came. A line that is not text is shown as far as it is.
fn read(reader: PipeReader, started: Instant, lines: &Sender<(String, Duration)>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
        let text = String::from_utf8_lossy(&line);
        if lines.send((text.trim_end_matches(['\r', '\n']).to_owned(), started.elapsed())).is_err() {
            return;
        }
        line.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    fn shell(name: &str, script: &str) -> Job<'static> {
        let script = script.to_owned();
        let command = move || {
            let mut shell = Command::new("sh");
            shell.args(["-c", &script, "sh"]);
            shell
        };
        Job { name: name.to_owned(), command: Box::new(command), tells_times: true }
    }

    /// A test program that passes two tests, of which it starts both at once.
    const TWO: &str = "if [ \"$1\" = --list ]; then printf 'a: test\\nb: test\\n\\n2 tests\\n'; exit; fi; \
        printf 'test b ... ok\\ntest a ... ok\\n'; echo to be seen >&2; \
        echo 'test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.08s'";

    #[test]
    fn all_programs_run_and_all_failures_are_named() {
        let bad = "[ \"$1\" = --list ] && exit; echo 'test result: FAILED. 1 passed; 2 failed; 0 ignored'; exit 101";
        let jobs = [shell("x/bad", bad), shell("x/two", TWO), shell("x/worse", "exit 7")];
        let mut report = Report::default();
        let failed = run_jobs(&jobs, 2, 2, &mut report).unwrap_err();
        assert!(failed.contains("x/bad: it ended with exit status: 101"), "{failed}");
        assert!(failed.contains("x/worse: its tests could not be listed"), "{failed}");
        assert_eq!(report.sums, Sums { passed: 3, failed: 3 }, "one was killed or could not start");
        let names: Vec<_> = report.took.iter().map(|it| &*it.test).collect();
        assert_eq!(names, ["x/two a", "x/two b"]);
        assert!(report.slowest(20).contains("x/two a"));
    }

    #[test]
    fn both_outputs_are_read_in_their_order() {
        let seen = Mutex::new(Vec::new());
        let mut followed = Followed::new(|line| seen.lock().unwrap().push(line.to_owned()));
        let status = follow((shell("x", TWO).command)(), &mut followed).unwrap();
        assert!(status.success());
        assert!(followed.output.starts_with("test b ... ok\ntest a ... ok\nto be seen\ntest result: ok."));
        assert_eq!(seen.lock().unwrap().len(), 4);
    }

    #[test]
    fn numbers_in_the_environment_are_read() {
        assert_eq!(side_by_side(None), Ok(SIDE_BY_SIDE));
        assert_eq!(side_by_side(Some("1")), Ok(1));
        assert!(side_by_side(Some("0")).is_err() && side_by_side(Some("many")).is_err());
        assert_eq!(threads(Some("7")), 7);
        assert!(threads(None) > 0 && threads(Some("0")) > 0);
    }
}
