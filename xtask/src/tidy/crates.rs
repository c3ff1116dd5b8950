//! Rules about crates: what they depend on and what they say about themselves.

use super::Found;
use super::manifest::{self, Dependency, Entry};
use super::tree::{File, Tree};

const CORE: &str = "windlass-core";

/// None of these can read a clock, wait, or reach a disk or a network.
const CORE_MAY_USE: &[&str] = &["serde", "serde_json", "sha2", "thiserror", "uuid"];

/// Which crates of this workspace each of them may depend on.
const ARROWS: &[(&str, &[&str])] = &[
    (CORE, &[]),
    ("windlass-store", &[CORE]),
    ("windlass", &[CORE, "windlass-store"]),
    ("windlass-server", &[CORE, "windlass-store", "windlass"]),
    (TESTBED, &[]),
    ("xtask", &[]),
];

/// What every crate may use in its tests.
const TESTBED: &str = "windlass-testbed";

/// Each crate says where it ends; a reader looks for these words.
const LIMITS: &str = "does *not*";

struct Package<'a> {
    manifest: &'a File,
    entries: Vec<Entry>,
    name: String,
}

fn packages(tree: &Tree) -> Vec<Package<'_>> {
    let manifests = tree.files.iter().filter(|file| file.name() == "Cargo.toml");
    manifests.filter_map(Package::read).collect()
}

impl<'a> Package<'a> {
    /// `None` for the manifest of a workspace that is no package itself.
    fn read(manifest: &'a File) -> Option<Self> {
        let entries = manifest::parse(&manifest.text);
        let name = manifest::value(&entries, "package.name")?.to_owned();
        Some(Self { manifest, entries, name })
    }

    fn dependencies(&self) -> Vec<Dependency> {
        manifest::dependencies(&self.entries)
    }

    fn problem(&self, line: usize, message: impl Into<String>) -> (String, usize, String) {
        (self.manifest.path.clone(), line, message.into())
    }

    fn file<'t>(&self, tree: &'t Tree, path: &str) -> Option<&'t File> {
        tree.file(format!("{}/{path}", self.manifest.directory()).trim_start_matches('/'))
    }
}

pub(super) fn core_dependencies(tree: &Tree) -> Found {
    let mut found = Vec::new();
    for package in packages(tree).iter().filter(|package| package.name == CORE) {
        for dependency in package.dependencies() {
            if !dependency.for_tests && !CORE_MAY_USE.contains(&dependency.name.as_str()) {
                let message = format!(
                    "core may use only {}, and not `{}`; put what needs it into another crate and pass values in",
                    CORE_MAY_USE.join(", "),
                    dependency.name
                );
                found.push(package.problem(dependency.line, message));
            }
        }
    }
    found
}

pub(super) fn arrows(tree: &Tree) -> Found {
    let mut found = Vec::new();
    let packages = packages(tree);
    for package in &packages {
        let Some((_, allowed)) = ARROWS.iter().find(|(name, _)| *name == package.name) else {
            if package.manifest.path.starts_with("crates/") {
                let message = format!(
                    "`{}` has no place in ARROWS of xtask/src/tidy/crates.rs; add it there",
                    package.name
                );
                found.push(package.problem(1, message));
            }
            continue;
        };
        for dependency in package.dependencies() {
            let name = dependency.name.as_str();
            let is_ours =
                ARROWS.iter().any(|(ours, _)| *ours == name) || packages.iter().any(|it| it.name == name);
            // A crate may name itself, to have a feature of its own in its tests.
            let is_allowed =
                name == package.name || allowed.contains(&name) || (name == TESTBED && dependency.for_tests);
            if is_ours && !is_allowed {
                let message = format!(
                    "`{}` may not depend on `{name}`: arrows go core ← store ← windlass ← server; \
                     move the code to where its needs are",
                    package.name
                );
                found.push(package.problem(dependency.line, message));
            }
        }
    }
    found
}

pub(super) fn lints(tree: &Tree) -> Found {
    let packages = packages(tree);
    let without =
        packages.iter().filter(|it| manifest::value(&it.entries, "lints.workspace") != Some("true"));
    without
        .map(|it| it.problem(1, "the workspace's lints are not on; add `[lints]` and `workspace = true`"))
        .collect()
}

pub(super) fn crate_docs(tree: &Tree) -> Found {
    let mut found = Vec::new();
    for package in packages(tree) {
        let library = package.file(tree, "src/lib.rs");
        let program = package.file(tree, "src/main.rs");
        if library.or(program).is_none() {
            found.push(
                package.problem(
                    1,
                    "neither src/lib.rs nor src/main.rs is there; add one that begins with `//!`",
                ),
            );
        }
        for root in library.iter().chain(&program) {
            if !root.text.starts_with("//!") {
                found.push((
                    root.path.clone(),
                    1,
                    "a crate begins by saying what it is; add a `//!` comment at the top".to_owned(),
                ));
            }
        }
        if let Some(root) = library.filter(|root| !opening_docs(root).contains(LIMITS)) {
            let message =
                format!("the crate's docs must say what it \"{LIMITS}\" do, in these words; add a sentence");
            found.push((root.path.clone(), 1, message));
        }
    }
    found
}

/// The `//!` comment at the top, as one line, since a sentence may be broken anywhere.
fn opening_docs(root: &File) -> String {
    let lines = root.text.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}
