//! Who acts, for the history.

use clap::Args;
use windlass::By;

/// Who intervenes, and why.
#[derive(Args, Clone, Debug)]
pub(crate) struct ByArgs {
    /// Why, for the history
    #[arg(long)]
    reason: Option<String>,
    /// Who, for the history [default: $USER]
    #[arg(long)]
    actor: Option<String>,
}

impl ByArgs {
    pub(crate) fn by(&self) -> By {
        By { actor: self.actor.clone().or_else(from_environment), note: self.reason.clone() }
    }
}

/// The user who is logged in.
pub(crate) fn from_environment() -> Option<String> {
    std::env::var("USER").ok().filter(|user| !user.is_empty())
}
