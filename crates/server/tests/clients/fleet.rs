//! Workers in three languages, which do the same.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::kit::{DEADLINE, Server, list};
use crate::support::Running;
use crate::tools::{conformance_in_node, python, root};

/// What a worker is written in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    Python,
    TypeScript,
    Rust,
}

impl Language {
    pub(crate) const ALL: [Self; 3] = [Self::Python, Self::TypeScript, Self::Rust];

    /// What the kinds begin with that it works on.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Python => "py",
            Self::TypeScript => "ts",
            Self::Rust => "rs",
        }
    }

    /// The program that runs the script, and works on the kinds that the script asks for.
    pub(crate) fn conformance(self) -> Command {
        match self {
            Self::Python => {
                let mut command = python();
                command.arg(root().join("clients/python/tests/conformance.py"));
                command
            }
            Self::TypeScript => conformance_in_node(),
            Self::Rust => panic!("the script is for clients over HTTP"),
        }
    }

    fn worker(self, server: &Server, pool: usize, journal: &Path) -> Command {
        let (url, pool) = (format!("http://{}", server.address), pool.to_string());
        match self {
            Self::Python | Self::TypeScript => {
                let mut command = self.conformance();
                command.args(["work", "--server", &url, "--prefix", self.prefix(), "--pool", &pool]);
                command.arg("--journal").arg(journal);
                command
            }
            Self::Rust => {
                let line = r#"{\"id\":\"$WINDLASS_TASK_ID\",\"attempt\":$WINDLASS_ATTEMPT,\"lease\":$WINDLASS_LEASE}"#;
                let exec = format!("rs:echo=cat; echo \"{line}\" >> '{}'", journal.display());
                let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
                command.args(["--server", &url, "work", "--quiet", "--exec", &exec, "--pool", &pool]);
                command
            }
        }
    }
}

/// Workers that run beside a test, each with a journal of what it has run to its end.
pub(crate) struct Fleet {
    journals: Vec<PathBuf>,
    _workers: Vec<Running>,
}

impl Fleet {
    /// Starts one of each language, and waits until the server knows them.
    pub(crate) fn start(server: &Server, languages: &[Language], pool: usize) -> Self {
        let journal = |language: &Language| server.place.path().join(format!("{}.jsonl", language.prefix()));
        let journals: Vec<PathBuf> = languages.iter().map(journal).collect();
        let start = |(language, journal): (&Language, &PathBuf)| {
            Running::start(&mut language.worker(server, pool, journal))
        };
        let workers = languages.iter().zip(&journals).map(start).collect();
        server.until_workers(languages.len() + 1);
        Self { journals, _workers: workers }
    }

    /// All lines of all journals.
    pub(crate) fn runs(&self) -> Vec<String> {
        let read = |journal: &PathBuf| std::fs::read_to_string(journal).unwrap_or_default();
        self.journals
            .iter()
            .flat_map(|path| read(path).lines().map(str::to_owned).collect::<Vec<_>>())
            .collect()
    }
}

impl Server {
    /// Waits until so many workers are registered, the server among them.
    pub(crate) fn until_workers(&self, many: usize) {
        self.wait_for(|| list(&self.get("/v1/workers")["workers"]).len() >= many);
    }

    /// Waits until no task is left that is not over.
    pub(crate) fn until_settled(&self) {
        let live = "/v1/tasks?limit=1&state=waiting,scheduled,pending,claimed,running,waiting_for_retry";
        self.wait_for(|| list(&self.get(live)["tasks"]).is_empty());
    }

    fn wait_for(&self, is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < DEADLINE, "it does not come");
        }
    }
}
