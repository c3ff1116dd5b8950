//! Pages of `docs/` as a person would follow them: everything in the shell blocks of a page is pasted into
//! one shell, from top to bottom, and what that prints is compared with what the page says.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use support::{Place, Running};
use windlass_testbed::postgres::{self, Server};

/// A shell block, with what it prints according to the page, if that is said.
#[derive(Debug)]
struct Block {
    line: usize,
    shell: String,
    prints: Option<String>,
    needs_python: bool,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines().enumerate();
    let (mut needs_python, mut follows) = (false, false);
    while let Some((number, line)) = lines.next() {
        let mut body = || {
            lines
                .by_ref()
                .map(|(_, line)| line)
                .take_while(|line| *line != "```")
                .fold(String::new(), |body, line| body + line + "\n")
        };
        match line {
            "```sh" => {
                blocks.push(Block { line: number + 1, shell: body(), prints: None, needs_python });
                (needs_python, follows) = (false, true);
            }
            "```text" => {
                assert!(follows, "line {}: what prints this?", number + 1);
                blocks.last_mut().unwrap().prints = Some(body());
                follows = false;
            }
            // Held to an example by a test of the library.
            "```rust" => drop(body()),
            // Run by a test of the server, with a real nginx.
            "```nginx" => drop(body()),
            "<!-- needs python3 -->" => needs_python = true,
            _ => assert!(!line.starts_with("```"), "line {}: neither sh, text, rust nor nginx", number + 1),
        }
    }
    blocks
}

/// A line without what differs from run to run: ids, times, sizes, and the width of columns. Counts are kept.
fn essence(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_unit =
        |word: &&&str| matches!(word.trim_end_matches([',', ')']), "ms" | "s" | "min" | "h" | "d" | "bytes");
    let essential = words.iter().enumerate().map(|(place, word)| {
        let is_count = word.len() < 4 && word.bytes().all(|byte| byte.is_ascii_digit());
        let is_measured = words.get(place + 1).as_ref().is_some_and(is_unit) || line.contains("version");
        match *word {
            "Mon" | "Tue" | "Wed" | "Thu" | "Fri" | "Sat" | "Sun" => "DAY".into(),
            "CET" | "CEST" => "ZONE".into(),
            word if is_unit(&&word) => "UNIT".into(),
            word if word.ends_with("/windlass.db") => "PATH".into(),
            word if is_count && !is_measured => word.into(),
            // An id may be quoted, or be followed by the name of a step.
            word => word.split_inclusive(['"', '`', '/']).map(part).collect::<String>(),
        }
    });
    essential.collect::<Vec<_>>().join(" ")
}

/// A part of a word: an id, a worker, or something with numbers that are as good as any others.
fn part(part: &str) -> String {
    let bare = part.trim_end_matches([',', '"', '`', '/']);
    let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let ends: Vec<&str> = bare.rsplitn(3, '-').collect();
    if bare.len() == 36 && is_hex(&bare.replace('-', "")) {
        return format!("ID{}", &part[bare.len()..]);
    }
    if ends.len() == 3 && ends[0].len() == 12 && is_hex(ends[0]) && ends[1].parse::<u32>().is_ok() {
        return "WORKER".into();
    }
    part.chars().fold(String::new(), |mut plain, c| {
        match c {
            '0'..='9' if plain.ends_with('0') => {}
            '0'..='9' => plain.push('0'),
            c => plain.push(c),
        }
        plain
    })
}

#[test]
fn what_the_page_says_is_what_happens() {
    follow("cli.md", 15, &[], &[]);
}

#[test]
fn what_the_page_about_workflows_says_is_what_happens() {
    follow("workflows.md", 9, &[], &[]);
}

#[test]
fn what_the_page_about_the_server_says_is_what_happens() {
    follow("server.md", 5, &[], &[]);
}

#[test]
fn what_the_page_about_http_says_is_what_happens() {
    follow("http.md", 6, &[], &[]);
}

#[test]
fn what_the_page_about_postgresql_says_is_what_happens() {
    let server = Server::start().expect("a server can be started");
    let database = server.create_database("app").unwrap();
    let programs = &postgres::installations()[0].bin;
    follow("postgres.md", 5, &[("DATABASE_URL", &database)], &[programs]);
}

#[test]
fn what_the_page_about_backups_says_is_what_happens() {
    let server = Server::start().expect("a server can be started");
    let database = server.create_database("app").unwrap();
    let programs = &postgres::installations()[0].bin;
    follow("backup.md", 4, &[("DATABASE_URL", &database)], &[programs]);
}

/// Does everything that a page says, with these variables, and these directories in the path.
fn follow(page: &str, least: usize, variables: &[(&str, &str)], programs: &[&Path]) {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    // Somebody may listen there.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let blocks = blocks(&std::fs::read_to_string(page).unwrap().replace("7070", &port));
    assert!(blocks.len() >= least, "only {} blocks were found", blocks.len());
    let has_python =
        Command::new("python3").arg("--version").stdout(Stdio::null()).status().is_ok_and(|it| it.success());
    let mut script = "exec 2>&1\n".to_owned();
    for (number, block) in blocks.iter().enumerate() {
        if has_python || !block.needs_python {
            script += &format!("echo '=== {number}'\n{}", block.shell);
        }
    }
    let place = Place::new();
    let bin = Path::new(env!("CARGO_BIN_EXE_windlass")).parent().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    let directories = [bin].into_iter().chain(programs.iter().copied()).map(Path::to_owned);
    let path = std::env::join_paths(directories.chain(std::env::split_paths(&path))).unwrap();
    let mut command = place.command("sh");
    command.args(["-eu", "-c", &script]).env("PATH", path).envs(variables.iter().copied()).process_group(0);
    let mut shell = Running::start(&mut command);
    let group = Pid::from_raw(shell.pid()).unwrap();
    let said = shell.end();
    // Whatever it left in the background.
    let _ = kill_process_group(group, Signal::KILL);
    assert_eq!(said.code, 0, "{}", said.out);
    if !has_python {
        return;
    }
    let printed: Vec<&str> = said.out.split("=== ").skip(1).collect();
    assert_eq!(printed.len(), blocks.len());
    for (block, printed) in blocks.iter().zip(printed) {
        let Some(expected) = &block.prints else { continue };
        let lines = |text: &str| text.lines().map(essence).collect::<Vec<_>>();
        let printed = printed.split_once('\n').unwrap().1;
        assert_eq!(lines(printed), lines(expected), "line {}: it prints\n{printed}", block.line);
    }
}

#[test]
fn lines_are_compared_by_what_matters() {
    let same = |one: &str, other: &str| assert_eq!(essence(one), essence(other));
    same("01a1e321-4c03-72d1-abb9-f4c261e4cdad  pending", "01b2e321-4c03-72d1-abb9-f4c261e4cdad pending");
    same("Attempt 2 by vm-526-e77d0578f381, failed", "Attempt 2 by my-host-99-e77d0578f382, failed");
    same("Created   2026-11-16T06:52:29Z, 122 ms ago", "Created   2027-01-16T06:52:29Z, 2 s ago");
    same("greet attempt 1 completed (6 ms)", "greet attempt 1 completed (1234 ms)");
    same("`get 01a1e321-4c03-72d1-abb9-f4c261e4cdad/a`", "`get 01b2e321-4c03-72d1-abb9-f4c261e4cdae/a`");
    same("ok       file size: 221184 bytes", "ok       file size: 99 bytes");
    let differ = |one: &str, other: &str| assert_ne!(essence(one), essence(other));
    differ("1 completed, 0 failed attempts", "2 completed, 0 failed attempts");
    differ("01a1e321-4c03-72d1-abb9-f4c261e4cdad/a", "01a1e321-4c03-72d1-abb9-f4c261e4cdad/b");
    differ("Result    \"hello Grace\"", "Result    \"hello Ada\"");
}
