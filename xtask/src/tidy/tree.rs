//! The files that the rules look at.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// Every file that is in the repository or would be added to it.
pub(super) struct Tree {
    pub(super) files: Vec<File>,
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
        for path in list(root)? {
            match fs::read(root.join(&path)) {
                Ok(bytes) => files.push(File { path, text: String::from_utf8(bytes).unwrap_or_default() }),
                // Deleted but not yet committed as such, or a link to a directory.
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::IsADirectory) => {}
                Err(error) => return Err(format!("tidy could not read {path}: {error}")),
            }
        }
        Ok(Self { files })
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
fn list(root: &Path) -> Result<Vec<String>, String> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"])
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
