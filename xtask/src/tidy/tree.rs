//! The files that the rules look at.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// Every file that is in the repository or would be added to it.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
    /// Lines that were added since the counts of the ratchets were last recorded, where git can tell.
    pub(super) new_lines: BTreeSet<(String, usize)>,
    /// Files that are not in the repository yet.
    pub(super) new_files: BTreeSet<String>,
}

pub(super) struct File {
    /// From the root of the repository, with `/` between its parts.
    pub(super) path: String,
    /// Empty for a file that is not text: rules about lines find none there.
    pub(super) text: String,
}

impl Tree {
    pub(super) fn of_repository(root: &Path) -> Result<Self, String> {
        let mut files = Vec::new();
        let new_files: BTreeSet<String> = list(root, &["--others"])?.into_iter().collect();
        for path in list(root, &["--cached", "--others"])? {
            match fs::read(root.join(&path)) {
                Ok(bytes) => files.push(File { path, text: String::from_utf8(bytes).unwrap_or_default() }),
                // Deleted but not yet committed as such, or a link to a directory.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(error) => return Err(format!("tidy could not read {path}: {error}")),
            }
        }
        Ok(Self { files, new_lines: new_lines(root).unwrap_or_default(), new_files })
    }

    pub(super) fn is_new(&self, path: &str, line: usize) -> bool {
        self.new_files.contains(path) || self.new_lines.contains(&(path.to_owned(), line))
    }

    pub(super) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    pub(super) fn rust_files(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.extension() == "rs")
    }
}

impl File {
    /// The lines with their numbers, counted from one. A carriage return stays, as part of its line.
    pub(super) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.split('\n'))
    }

    /// What follows the last dot of the file's name, or nothing.
    pub(super) fn extension(&self) -> &str {
        self.name().rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    pub(super) fn name(&self) -> &str {
        self.path.rsplit_once('/').map_or(self.path.as_str(), |(_, name)| name)
    }

    /// The directory, without a slash at its end; nothing for a file in the root.
    pub(super) fn directory(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(directory, _)| directory)
    }

    /// Whether this is a test or part of the suite that all stores share, both of which may be long.
    pub(super) fn is_test_code(&self) -> bool {
        self.path.split('/').any(|part| matches!(part.trim_end_matches(".rs"), "tests" | "conformance"))
    }

    /// Whether this file is about the rules, and so has to spell out what they forbid.
    pub(super) fn quotes_the_rules(&self) -> bool {
        self.path.starts_with("xtask/src/tidy")
    }
}

/// Asks git, so that build output and whatever else is ignored stays out.
fn list(root: &Path, which: &[&str]) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--exclude-standard", "--deduplicate"])
        .args(which)
        .current_dir(root)
        .output()
        .map_err(|error| format!("tidy lists the files with git, which could not be started: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("tidy lists the files with git, which said: {}", said.trim()));
    }
    let listed = String::from_utf8_lossy(&output.stdout);
    Ok(listed.split_terminator('\0').map(str::to_owned).collect())
}

/// The lines that were added since the commit that last changed the recorded counts. Nothing, if git cannot
/// tell.
fn new_lines(root: &Path) -> Option<BTreeSet<(String, usize)>> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git").args(arguments).current_dir(root).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let recorded = git(&["log", "-1", "--format=%H", "--", "xtask/ratchets.txt"])?;
    let recorded = Some(recorded.trim()).filter(|commit| !commit.is_empty())?;
    let diff = git(&["diff", "--unified=0", "--no-color", "--no-ext-diff", "--dst-prefix=b/", recorded])?;
    Some(added_lines(&diff))
}

/// The lines on the new side of a diff without context.
pub(super) fn added_lines(diff: &str) -> BTreeSet<(String, usize)> {
    let mut added = BTreeSet::new();
    let mut path = "";
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ b/") {
            path = name.trim_end();
        } else if let Some(hunk) = line.strip_prefix("@@ ") {
            let range = hunk.split(' ').find_map(|part| part.strip_prefix('+')).unwrap_or("0,0");
            let (first, count) = range.split_once(',').unwrap_or((range, "1"));
            let (first, count) = (first.parse().unwrap_or(0), count.parse().unwrap_or(0));
            added.extend((first..first + count).map(|number| (path.to_owned(), number)));
        }
    }
    added
}
