//! `windlass definition`: descriptions of workflows, which stores keep by name and version.

mod file;
mod yaml;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::json;
use serde_json::value::RawValue;
use windlass::draw::Drawing;
use windlass::{Invalid, Name, Rejected, flow};

use crate::failure::Usage;
use crate::picture::Format;
use crate::session::Session;
use crate::show::Answer;
use crate::show::definition::{AppliedJson, DefinitionJson, LineJson, page, table};
pub(crate) use file::File;
use file::{LintedJson, problem_line};

#[derive(Subcommand, Debug)]
pub(crate) enum DefinitionCommand {
    /// Keep the definitions in files; the same content gives the same version
    #[command(after_help = "Examples:
  windlass definition apply nightly.yaml
  windlass definition apply flows/*.yaml
  generate-flow | windlass definition apply -")]
    Apply {
        /// Files in YAML or JSON, or - for standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<File>,
    },
    /// List definitions: the newest version of each, or all versions of one
    #[command(after_help = "Examples:\n  windlass definition list\n  windlass definition list nightly")]
    List {
        /// All versions of this one
        #[arg(value_parser = name)]
        name: Option<Name>,
    },
    /// Show a definition
    Show(ShowArgs),
    /// Say what is wrong with files, and where; no store is needed
    #[command(after_help = "Examples:
  windlass definition lint nightly.yaml
  windlass definition lint flows/*.yaml --json

Exit codes: 0 nothing but warnings, 2 something is wrong.")]
    Lint {
        /// Files in YAML or JSON, or - for standard input
        #[arg(value_name = "FILE", required = true)]
        files: Vec<File>,
    },
    /// Print the JSON Schema of a definition, for editors; no store is needed
    #[command(after_help = "Example:\n  windlass definition schema > workflow.schema.json")]
    Schema,
}

/// Show a definition
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass definition show nightly
  windlass definition show nightly --version 2 --yaml > nightly.yaml
  windlass definition show nightly --graph svg > nightly.svg")]
pub(crate) struct ShowArgs {
    /// Its name
    #[arg(value_parser = name)]
    name: Name,
    /// Which of that name [default: the newest]
    #[arg(long)]
    version: Option<String>,
    /// As a file that could be applied
    #[arg(long, conflicts_with_all = ["graph", "json"])]
    yaml: bool,
    /// As a picture
    #[arg(long, value_name = "FORMAT")]
    graph: Option<Format>,
}

/// The name of a definition.
pub(crate) fn name(text: &str) -> Result<Name, Invalid> {
    Name::new("definition", text)
}

pub(crate) async fn run(session: &Session, command: &DefinitionCommand) -> Result<Answer> {
    match command {
        DefinitionCommand::Apply { files } => apply(session, files).await,
        DefinitionCommand::List { name } => list(session, name.as_ref()).await,
        DefinitionCommand::Show(args) => show(session, args).await,
        DefinitionCommand::Lint { files } => lint(files),
        DefinitionCommand::Schema => {
            let schema: &RawValue = serde_json::from_str(flow::SCHEMA)?;
            Ok(Answer::new(flow::SCHEMA, &schema))
        }
    }
}

/// All files are checked before anything is kept.
async fn apply(session: &Session, files: &[File]) -> Result<Answer> {
    file::stdin_once(files)?;
    let read: Result<Vec<_>> = files.iter().map(|file| Ok((file, file.check()?))).collect();
    let read = read?;
    let client = session.client().await?;
    let (mut text, mut applied) = (String::new(), Vec::new());
    for (file, (definition, warnings)) in read {
        let name = definition.name.clone();
        let defined = client.define(definition).await?;
        let existed = if defined.created { "" } else { "  existed already" };
        text += &format!("{name}  version {}{existed}\n", crate::escape::plain(&defined.version));
        for warning in &warnings {
            text += &format!("{}\n", problem_line(file, warning));
        }
        applied.push(AppliedJson::of(&name, defined));
    }
    Ok(Answer::new(text, &json!({ "definitions": applied })))
}

async fn list(session: &Session, name: Option<&Name>) -> Result<Answer> {
    let client = session.existing().await?;
    let lines = client.definitions(name.map(|name| &**name)).await?;
    if let Some(name) = name.filter(|_| lines.is_empty()) {
        return Err(unknown(name, None).into());
    }
    let now = client.store().now().await?;
    let text = match lines.is_empty() {
        true => "no definitions\n".into(),
        false => table(&lines, now, session.paint()),
    };
    let lines: Vec<_> = lines.iter().map(LineJson::of).collect();
    Ok(Answer::new(text, &json!({ "definitions": lines })))
}

fn unknown(name: &Name, version: Option<&str>) -> Rejected {
    Rejected::UnknownDefinition { name: name.to_string(), version: version.map(Into::into) }
}

async fn show(session: &Session, args: &ShowArgs) -> Result<Answer> {
    let (name, version) = (&args.name, args.version.as_deref());
    let client = session.existing().await?;
    let stored = client.definition(name, version).await?.ok_or_else(|| unknown(name, version))?;
    if let Some(format) = args.graph {
        return Ok(format.answer(&Drawing::of(&stored.blueprint)));
    }
    let json = DefinitionJson::of(&stored);
    if args.yaml {
        return Ok(Answer::new(yaml::text(&serde_json::to_string(json.definition())?)?, &json));
    }
    let now = client.store().now().await?;
    Ok(Answer::new(page(&stored, now, session.paint()), &json))
}

fn lint(files: &[File]) -> Result<Answer> {
    file::stdin_once(files)?;
    let (mut text, mut linted, mut errors) = (String::new(), Vec::new(), 0);
    let mut read = Vec::new();
    for file in files {
        read.push((file, flow::read(&file.read()?)));
    }
    let sound: Vec<&flow::Document> =
        read.iter().filter_map(|(_, document)| document.as_ref().ok()).collect();
    let mut together = flow::lint_together(&sound).into_iter();
    for (file, document) in &read {
        let problems = match document {
            Ok(document) => document.lint_with(together.next().unwrap_or_default()),
            Err(problems) => problems.clone(),
        };
        errors += problems.iter().filter(|problem| !problem.is_warning).count();
        if problems.is_empty() {
            text += &format!("{}: ok\n", crate::escape::plain(&file.to_string()));
        }
        for problem in &problems {
            text += &format!("{}\n", problem_line(file, problem));
        }
        linted.push(LintedJson::of(file, &problems));
    }
    let failure = (errors > 0).then(|| match errors {
        1 => "there is 1 error".to_owned(),
        errors => format!("there are {errors} errors"),
    });
    Ok(Answer::new(text, &json!({ "files": linted })).but(failure).with_code(2))
}

/// A file that was named cannot be read.
fn unreadable(file: &File, error: impl std::fmt::Display) -> Usage {
    Usage::new(format!("definition from {file}: {error}"))
}
