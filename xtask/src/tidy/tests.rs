//! Each rule catches a bad sample, at the right line, and leaves a good repository alone.

use std::collections::BTreeSet;

use super::tree::{File, added_lines};
use super::*;

const CORE: &str = "\
[package]
name = \"windlass-core\"
[dependencies]
serde.workspace = true
[dev-dependencies]
proptest.workspace = true
[lints]
workspace = true
";

const STORE: &str = "\
[package]
name = \"windlass-store\"
[dependencies]
windlass-core.workspace = true
rusqlite = { workspace = true, optional = true }
[dev-dependencies]
windlass-store = { path = \".\", features = [\"conformance\"] }
[lints]
workspace = true
";

const LIBRARY: &str = "//! A library.\n//!\n//! What it does\n//! *not* do: anything.\n";

/// A small repository that obeys every rule.
fn good() -> Tree {
    let mut tree = Tree { files: Vec::new(), new_lines: BTreeSet::new(), new_files: BTreeSet::new() };
    for (path, text) in [
        ("Cargo.toml", "[workspace]\nmembers = []\n"),
        ("Cargo.lock", "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n"),
        ("crates/core/Cargo.toml", CORE),
        ("crates/core/src/lib.rs", LIBRARY),
        ("crates/store/Cargo.toml", STORE),
        ("crates/store/src/lib.rs", LIBRARY),
        (
            "crates/store/src/sqlite/sql.rs",
            "const A: &str = include_str!(\n    \"../sqlite/./claim.sql\"\n);\n",
        ),
        ("crates/store/src/sqlite/claim.sql", "SELECT 1;\n"),
    ] {
        put(&mut tree, path, text);
    }
    tree
}

fn put(tree: &mut Tree, path: &str, text: &str) {
    tree.files.retain(|file| file.path != path);
    tree.files.push(File { path: path.to_owned(), text: text.to_owned() });
}

/// What is found when the given files are added to the good repository: `path:line: rule`.
fn found_with(files: &[(&str, &str)]) -> Vec<String> {
    let mut tree = good();
    for (path, text) in files {
        put(&mut tree, path, text);
    }
    check(&tree).iter().map(|it| format!("{}:{}: {}", it.path, it.line, it.rule)).collect()
}

#[track_caller]
fn is_caught(path: &str, text: &str, expected: &str) {
    assert_eq!(found_with(&[(path, text)]), [expected], "{path}: {text}");
}

#[track_caller]
fn is_fine(path: &str, text: &str) {
    assert_eq!(found_with(&[(path, text)]), [""; 0], "{path}: {text}");
}

#[test]
fn a_good_repository_has_no_problems() {
    assert_eq!(found_with(&[]), [""; 0]);
}

#[test]
fn core_uses_only_what_cannot_touch_the_world() {
    let path = "crates/core/Cargo.toml";
    let expected = "crates/core/Cargo.toml:5: core-dependencies";
    is_caught(path, &CORE.replace("[dev", "tokio.workspace = true\n[dev"), expected);
    is_caught(
        path,
        &CORE.replace("[dev", "serde2 = { version = \"1\", package = \"rand\" }\n[dev"),
        expected,
    );
    let for_one_target = CORE.replace("[dev", "[target.'cfg(unix)'.dependencies]\nrusqlite = \"1\"\n[dev");
    is_caught(path, &for_one_target, "crates/core/Cargo.toml:6: core-dependencies");
}

#[test]
fn core_mentions_no_clock_no_input_no_chance() {
    for word in [
        "let now = SystemTime::now();",
        "Instant::now()",
        "use std::fs;",
        "std::net::TcpStream",
        "std::thread::spawn",
        "pub async fn claim()",
        "Uuid::now_v7()",
        "Uuid::new_v4()",
    ] {
        is_caught(
            "crates/core/src/task.rs",
            &format!("\n{word}\n"),
            "crates/core/src/task.rs:2: core-is-pure",
        );
        is_fine("crates/engine/src/task.rs", word);
    }
}

#[test]
fn arrows_go_one_way() {
    let outward = STORE.replace("[dev", "windlass.workspace = true\n[dev");
    is_caught("crates/store/Cargo.toml", &outward, "crates/store/Cargo.toml:6: arrows");
    let in_tests = CORE.replace("proptest", "windlass-store");
    is_caught("crates/core/Cargo.toml", &in_tests, "crates/core/Cargo.toml:6: arrows");
}

#[test]
fn a_new_crate_is_given_a_place() {
    let files = [
        ("crates/new/Cargo.toml", &*CORE.replace("windlass-core", "new")),
        ("crates/new/src/lib.rs", LIBRARY),
    ];
    assert_eq!(found_with(&files), ["crates/new/Cargo.toml:1: arrows"]);
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let path = "crates/core/Cargo.toml";
    for instead in ["", "[lints]\nworkspace = false\n", "[lints.rust]\nunsafe_code = \"forbid\"\n"] {
        let manifest = CORE.replace("[lints]\nworkspace = true\n", instead);
        is_caught(path, &manifest, "crates/core/Cargo.toml:1: lints");
    }
}

#[test]
fn every_crate_says_what_it_is_and_what_it_is_not() {
    let path = "crates/core/src/lib.rs";
    let expected = "crates/core/src/lib.rs:1: crate-docs";
    is_caught(path, "//! A library that says only what it does.\n", expected);
    assert_eq!(found_with(&[(path, "mod task;\n")]), [expected, expected]);
    is_caught("crates/core/src/main.rs", "fn main() {}\n", "crates/core/src/main.rs:1: crate-docs");
    is_fine("crates/core/src/main.rs", "//! A program has no need to.\n");
    let rootless = [("xtask/Cargo.toml", &*CORE.replace("windlass-core", "xtask"))];
    assert_eq!(found_with(&rootless), ["xtask/Cargo.toml:1: crate-docs"]);
}

#[test]
fn names_say_something() {
    for path in [
        "crates/core/src/manager.rs",
        "crates/core/src/lease_manager.rs",
        "crates/core/src/utils/mod.rs",
        "crates/core/tests/common/mod.rs",
        "docs/misc.md",
        "crates/server/src/services.rs",
        "crates/engine/src/processor/claim.rs",
    ] {
        is_caught(path, "", &format!("{path}:1: names"));
    }
    is_fine("deploy/windlass.service", "[Unit]\n");
    is_fine("crates/core/src/uncommon.rs", "");
}

#[test]
fn files_are_short_unless_they_are_tests() {
    let long = "//\n".repeat(601);
    is_caught("crates/engine/src/worker.rs", &long, "crates/engine/src/worker.rs:601: length");
    is_fine("crates/engine/src/worker.rs", &"//\n".repeat(600));
    is_fine("crates/engine/tests/worker.rs", &long);
    is_fine("crates/store/src/conformance/lanes.rs", &long);
}

#[test]
fn migrations_are_numbered_without_gaps() {
    let found = |names: &[&str]| {
        let paths: Vec<String> = names.iter().map(|name| format!("db/migrations/{name}")).collect();
        found_with(&paths.iter().map(|path| (path.as_str(), "")).collect::<Vec<_>>())
    };
    assert_eq!(found(&["001_tasks.sql", "002_lanes.sql"]), [""; 0]);
    assert_eq!(found(&["002_lanes.sql"]), ["db/migrations/002_lanes.sql:1: migrations"]);
    assert_eq!(
        found(&["001_tasks.sql", "003_x.sql", "004_y.sql"]),
        ["db/migrations/003_x.sql:1: migrations"]
    );
    assert_eq!(found(&["001_tasks.sql", "001_x.sql"]), ["db/migrations/001_x.sql:1: migrations"]);
    for odd in ["1_tasks.sql", "001-tasks.sql", "001_Tasks.sql", "001_.sql", "+01_a.sql", "notes.md"] {
        assert_eq!(found(&[odd]), [format!("db/migrations/{odd}:1: migrations")]);
    }
}

#[test]
fn every_query_is_used() {
    let path = "crates/store/src/sqlite/old.sql";
    is_caught(path, "SELECT 2;\n", "crates/store/src/sqlite/old.sql:1: sql-is-used");
    for (module, used) in [
        ("query!(old); include_str!(concat!(\"sqlite/\", stringify!($name), \".sql\"))", true),
        ("query!(older); include_str!(concat!(\"sqlite/\", stringify!($name), \".sql\"))", false),
        ("query!(old); include_str!(concat!(\"postgres/\", stringify!($name), \".sql\"))", false),
    ] {
        let found = found_with(&[(path, "SELECT 2;\n"), ("crates/store/src/sqlite.rs", module)]);
        assert_eq!(found.is_empty(), used, "{module}");
    }
}

#[test]
fn lines_end_where_they_end_and_hold_no_tab() {
    is_caught("README.md", "a\nb \n", "README.md:2: whitespace");
    is_caught("README.md", "a\r\n", "README.md:1: whitespace");
    is_caught("README.md", "a\tb\n", "README.md:1: whitespace");
    is_fine("tests/printed.snap", "a\t\n");
}

#[test]
fn nothing_is_left_unfinished() {
    for line in ["todo!()", "unimplemented!(\"later\")", "#[ignore]", "#[ignore = \"slow\"]"] {
        is_caught("crates/engine/src/a.rs", line, "crates/engine/src/a.rs:1: unfinished");
    }
    is_fine("docs/rules.md", "no todo! here");
}

#[test]
fn tests_wait_for_signals() {
    for line in [
        "std::thread::sleep(d);",
        "tokio::time::sleep(d).await;",
        "use tokio::time::sleep;",
        "time::sleep_until(t)",
    ] {
        for path in [
            "crates/engine/tests/a.rs",
            "crates/store/src/conformance/a.rs",
            "crates/store/src/conformance.rs",
        ] {
            is_caught(path, &format!("\n{line}"), &format!("{path}:2: sleep"));
            is_fine(path, &format!("{line} // tidy: sleep: a real clock is what is tested"));
            is_fine(path, &format!("// tidy: sleep: a real clock is what is tested\n{line}"));
        }
        is_fine("crates/engine/src/a.rs", line);
    }
}

#[test]
fn no_path_of_one_machine() {
    for line in ["see /work/notes.md", "\"/root/.config\"", "HOME=/home/ada", "file:///home/ada/a"] {
        is_caught("README.md", line, "README.md:1: machine-paths");
    }
    for line in ["target/work/a", "https://example.org/home/a", "{root}/work/a", "./work/a", "~/work/a"] {
        is_fine("README.md", line);
    }
}

#[test]
fn no_registry_is_named() {
    for line in ["https://crates.io/crates/serde", "index.crates.io", "pypi.org/simple"] {
        is_caught("README.md", line, "README.md:1: hosts");
    }
    is_caught("Cargo.lock", "# from crates.io", "Cargo.lock:1: hosts");
}

#[test]
fn every_number_that_is_cited_is_defined_once() {
    let page =
        ("docs/requirements.md", "- **I4** One holder.\n- **C25** An end has a time.\n- **3.4** Arrows.\n");
    let found = |path: &str, text: &str| found_with(&[page, (path, text)]);
    let path = "crates/core/tests/a.rs";
    for cited in [
        "/// I5: refused.",
        "/// C25, C26: an end.",
        "/// 3.4, 3.5, C25: twice.",
        "/// C25, 3.5: twice.",
        "/// 3.5 (again).",
        "// so it stays (I4, 3.5)",
        "assert!(held, \"I5: {task}\");",
    ] {
        assert_eq!(found(path, cited), [format!("{path}:1: requirements")], "{cited}");
    }
    for fine in [
        "/// 3.4, I4, C25: all three.",
        "struct C26; // a name",
        "/// Waits\n/// 1.5 s at most.",
        "// 0.5 of it (0.25, or half)",
        "\"a=%C3%A4\"",
        "let part = \"nearly (3.5)\";",
    ] {
        assert_eq!(found(path, fine), [""; 0], "{fine}");
    }
    assert_eq!(found("docs/a.md", "It stays (I5)."), ["docs/a.md:1: requirements"]);
    let twice = [("docs/requirements.md", "- **I4** One.\n- **I4** One holder.\n")];
    assert_eq!(found_with(&twice), ["docs/requirements.md:2: requirements"]);
}

#[test]
fn a_type_name_is_used_once_in_a_crate() {
    let told = "struct Told;\n";
    let two = |other: &str, text: &str| found_with(&[("crates/core/src/a.rs", told), (other, text)]);
    let expected = ["crates/core/src/a.rs:1: type-names", "crates/core/src/b.rs:2: type-names"];
    for second in ["pub enum Told {", "pub(crate) struct Told<T>(T);", "    trait Told {", "type Told = u8;"]
    {
        assert_eq!(two("crates/core/src/b.rs", &format!("\n{second}\n")), expected, "{second}");
    }
    for fine in [
        "    type Told = u8;",
        "// struct Told;",
        "\"struct Told\"",
        "fn told() {}\nmod tests {\nstruct Told;",
    ] {
        assert_eq!(two("crates/core/src/b.rs", fine), [""; 0], "{fine}");
    }
    assert_eq!(two("crates/store/src/b.rs", told), [""; 0], "another crate");
    assert_eq!(two("crates/core/src/tests.rs", told), [""; 0], "tests");
    let errors = [("crates/core/src/a.rs", "enum Error {}\n"), ("crates/core/src/b.rs", "enum Error {}\n")];
    assert_eq!(found_with(&errors), [""; 0]);
}

#[test]
fn words_are_plain() {
    let path = "crates/engine/src/a.rs";
    for line in [
        "/// 30 unless said.",
        "let help = \"Whoever it is\";",
        "r#\"it rings\"#",
        "/* the\npassing of time, the passing of time */",
    ] {
        let expected = format!("{path}:{}: plain-words", line.lines().count());
        assert_eq!(found_with(&[(path, line)]), [expected], "{line}");
    }
    for fine in ["let bell = Bell::new();", "/// strings, labels", "let c = '\"'; let bell = '\"';"] {
        is_fine(path, fine);
    }
    is_caught("docs/a.md", "A bell.\n", "docs/a.md:1: plain-words");
    is_caught("clients/openapi.json", "\"30 unless said\"", "clients/openapi.json:1: plain-words");
    is_caught(
        "crates/store/src/sqlite/claim.sql",
        "SELECT 1; -- whoever\n",
        "crates/store/src/sqlite/claim.sql:1: plain-words",
    );
}

#[test]
fn comments_end_where_code_does() {
    let path = "crates/engine/src/a.rs";
    let comment = |width: usize| format!("fn a() {{}}\n    // {}\n", "ä".repeat(width - 7));
    is_caught(path, &comment(101), "crates/engine/src/a.rs:2: comment-width");
    is_fine(path, &comment(100));
    is_fine(path, &format!("const A: &str = \"{}\";", "a".repeat(200)));
    let format = ("rustfmt.toml", "max_width = 110\n");
    assert_eq!(found_with(&[format, (path, &comment(110))]), [""; 0]);
}

#[test]
fn results_and_paths_are_flat() {
    let path = "crates/engine/src/a.rs";
    is_caught(path, "fn a() -> Result<Result<(), A>, B>;", "crates/engine/src/a.rs:1: nested-results");
    is_caught(path, "use super::super::super::a;", "crates/engine/src/a.rs:1: long-super");
    is_fine(path, "use super::super::a; // not super::super::super");
}

#[test]
fn a_count_may_fall_but_not_grow() {
    let two = ("docs/a.md", "whoever\nfine\nwhoever\n");
    let recorded = |number: usize| ("xtask/ratchets.txt", format!("# words\nplain-words {number}\n"));
    let found = |number| {
        let (path, text) = recorded(number);
        found_with(&[two, (path, &text)])
    };
    assert_eq!(found(2), [""; 0]);
    assert_eq!(found(3), [""; 0]);
    assert_eq!(found(1), ["docs/a.md:1: plain-words"], "the worst file, once");

    let mut tree = good();
    let (path, text) = recorded(1);
    put(&mut tree, path, &text);
    put(&mut tree, two.0, two.1);
    tree.new_lines.insert(("docs/a.md".to_owned(), 3));
    let said: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
    let expected = "docs/a.md:3: plain-words: \"whoever\" is not plain; write \"the caller\", \"the worker\" or \
                    \"anyone that\" (2 places, where xtask/ratchets.txt allows 1)";
    assert_eq!(said, [expected], "only what is new, if git can tell");

    assert!(ratchets::lowered(&tree).contains("\nplain-words 1\n"), "nothing raises a number");
    let (path, text) = recorded(3);
    put(&mut tree, path, &text);
    assert!(ratchets::lowered(&tree).contains("\nplain-words 2\n"));
    let note = ["plain-words: 2 places, 3 recorded; `cargo xtask tidy --write` lowers it"];
    assert_eq!(ratchets::fallen(&tree), note);
}

#[test]
fn new_lines_are_read_from_a_diff() {
    let diff = "--- a/a.md\n+++ b/a.md\n@@ -3 +3,2 @@ fn a()\n-x\n+y\n+z\n@@ -9,2 +10,0 @@\n-x\n-x\n--- /dev/null\n+++ b/b.md\n@@ -0,0 +1 @@\n+x\n";
    let added: Vec<_> = added_lines(diff).into_iter().collect();
    let at = |path: &str, line| (path.to_owned(), line);
    assert_eq!(added, [at("a.md", 3), at("a.md", 4), at("b.md", 1)]);
}

#[test]
fn every_rule_is_described_where_newcomers_look() {
    let contributing = include_str!("../../../CONTRIBUTING.md");
    for (rule, _) in RULES {
        assert!(
            contributing.contains(&format!("`{rule}`")),
            "CONTRIBUTING.md does not mention the rule `{rule}`"
        );
    }
}

#[test]
fn a_problem_says_where_and_what_to_do() {
    let mut tree = good();
    put(&mut tree, "README.md", "a\tb\n");
    let said: Vec<String> = check(&tree).iter().map(Problem::to_string).collect();
    assert_eq!(said, ["README.md:1: whitespace: there is a tab; use spaces"]);
}
