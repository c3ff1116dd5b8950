//! `windlass completions` and `windlass man`: what the command line says about itself.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man;
use serde_json::json;

use crate::failure::Usage;
use crate::show::Answer;

/// Print a script that completes commands and options in a shell
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass completions bash > ~/.local/share/bash-completion/completions/windlass
  windlass completions fish > ~/.config/fish/completions/windlass.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write the pages of all commands
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  windlass man | man -l -\n  windlass man --out ~/.local/share/man/man1")]
pub(crate) struct ManArgs {
    /// Write a page for each command into this directory, which must be there
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
}

pub(crate) fn completions(mut program: clap::Command, args: &CompletionsArgs) -> Result<Answer> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "windlass", &mut script);
    let script = String::from_utf8(script)?;
    Ok(Answer::new(&*script, &json!({ "shell": args.shell.to_string(), "script": &script })))
}

pub(crate) fn man(program: clap::Command, args: &ManArgs) -> Result<Answer> {
    let mut pages = Vec::new();
    let mut program = program.disable_help_subcommand(true);
    program.build();
    gather(&program, &mut pages)?;
    let Some(directory) = &args.out else {
        let page = pages.into_iter().next().map(|(_, page)| page).unwrap_or_default();
        return Ok(Answer::new(&*page, &json!({ "page": &page })));
    };
    if !directory.is_dir() {
        return Err(Usage::new(format!("{} is not a directory; make it first", directory.display())).into());
    }
    let mut paths = Vec::new();
    for (name, page) in pages {
        let path = directory.join(name);
        std::fs::write(&path, page).with_context(|| path.display().to_string())?;
        paths.push(path.display().to_string());
    }
    Ok(Answer::new(format!("{} pages in {}\n", paths.len(), directory.display()), &json!({ "files": paths })))
}

/// The pages of a command and all below it, each with the name of its file.
fn gather(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<()> {
    let man = Man::new(command.clone());
    let mut page = Vec::new();
    man.render(&mut page)?;
    pages.push((man.get_filename(), String::from_utf8(page)?));
    command
        .get_subcommands()
        .filter(|command| !command.is_hide_set())
        .try_for_each(|command| gather(command, pages))
}
