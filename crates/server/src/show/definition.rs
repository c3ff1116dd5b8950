//! Definitions.

use serde::Serialize;
use utoipa::ToSchema;
use windlass::{
    Action, Defined, Definition, DefinitionLine, Identity, Join, Name, OnFailure, Step, StoredDefinition,
    Timestamp,
};

use super::Page;
use crate::escape::short;
use crate::moment;
use crate::paint::Paint;
use crate::table::Table;

/// The answer to a definition.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = AppliedDefinition)]
pub(crate) struct AppliedJson {
    name: String,
    version: String,
    created: bool,
}

impl AppliedJson {
    pub(crate) fn of(name: &Name, Defined { version, created }: Defined) -> Self {
        Self { name: name.to_string(), version, created }
    }
}

/// A definition in a list.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = DefinitionLine)]
pub(crate) struct LineJson<'a> {
    name: &'a str,
    version: &'a str,
    steps: u32,
    created_at: String,
}

impl<'a> LineJson<'a> {
    pub(crate) fn of(line: &'a DefinitionLine) -> Self {
        let DefinitionLine { name, version, steps, created_at } = line;
        Self { name, version, steps: *steps, created_at: created_at.to_string() }
    }
}

/// A definition with all it says.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = StoredDefinition)]
pub(crate) struct DefinitionJson<'a> {
    name: &'a str,
    namespace: &'a str,
    version: &'a str,
    created_at: String,
    #[schema(value_type = serde_json::Value)]
    definition: Definition,
}

impl<'a> DefinitionJson<'a> {
    pub(crate) fn of(stored: &'a StoredDefinition) -> Self {
        let StoredDefinition { namespace, version, blueprint, created_at } = stored;
        Self {
            name: stored.name(),
            namespace,
            version,
            created_at: created_at.to_string(),
            definition: Definition { version: Some(version.clone()), ..blueprint.definition().clone() },
        }
    }

    /// What it says, as it could be applied again.
    pub(crate) fn definition(&self) -> &Definition {
        &self.definition
    }
}

/// Definitions, one on each line.
pub(crate) fn table(lines: &[DefinitionLine], now: Timestamp, paint: Paint) -> String {
    let mut table = Table::new(&["NAME", "VERSION", "STEPS", "CREATED"]);
    for DefinitionLine { name, version, steps, created_at } in lines {
        let created = moment::relative(*created_at, now);
        table.row([(&**name).into(), (&**version).into(), (*steps).into(), created.into()]);
    }
    table.render(paint, "")
}

/// Characters of an expression or a program in a table.
const SHOWN: usize = 40;

/// So many steps are shown on a page; `--yaml` has all.
const STEPS: usize = 1_000;

/// A definition, as a page.
pub(crate) fn page(stored: &StoredDefinition, now: Timestamp, paint: Paint) -> String {
    let definition = stored.blueprint.definition();
    let defaults = &definition.defaults;
    let mut page = Page::default();
    page.text("Definition", Some(&definition.name));
    page.text("Version", Some(&stored.version));
    page.text("Namespace", Some(&*stored.namespace).filter(|namespace| *namespace != "default"));
    page.line("Created", moment::both(stored.created_at, now));
    page.text("Purpose", definition.description.as_deref());
    page.text("Input", definition.input.as_ref().map(ToString::to_string).as_deref());
    page.line(
        "Identity",
        match definition.identity {
            Identity::AlwaysUnique => None,
            Identity::Strict => Some("the same input is the same workflow".to_owned()),
            Identity::CallerProvided => Some("every start needs a key".to_owned()),
        },
    );
    page.text("Queue", defaults.queue.as_deref());
    page.line(
        "Failures",
        match definition.on_failure {
            OnFailure::FinishIndependent => "what does not need a failed step goes on".to_owned(),
            OnFailure::FailFast => "the rest is cancelled".to_owned(),
        },
    );
    let steps = &definition.steps;
    let mut table = Table::new(&["STEP", "LEVEL", "DOES", "NEEDS", "JOIN", "IF", "MAP"]);
    for (number, step) in (0..).zip(steps).take(STEPS) {
        let join = Some(step.join).filter(|join| *join != Join::All).map(|join| join.to_string());
        let over = step.map.as_ref().map(|map| match &map.over {
            serde_json::Value::String(text) => short(text, SHOWN),
            list => short(&list.to_string(), SHOWN),
        });
        table.row([
            (&*step.name).into(),
            stored.blueprint.graph().level(number).into(),
            does(step).into(),
            needs(step).into(),
            join.unwrap_or_default().into(),
            step.condition.as_deref().map(|text| short(text, SHOWN)).unwrap_or_default().into(),
            over.unwrap_or_default().into(),
        ]);
    }
    let mut text = format!("{}\nSteps\n{}", page.render(), table.without_empty().render(paint, "  "));
    if steps.len() > STEPS {
        text += &format!("  … and {} more; --yaml shows all\n", steps.len() - STEPS);
    }
    text
}

fn does(step: &Step) -> String {
    match step.action() {
        Some(Action::Task(kind)) => format!("task {kind}"),
        Some(Action::Run(program)) => format!("run {}", short(program, SHOWN)),
        Some(Action::Workflow(child)) => match &child.version {
            Some(version) => format!("workflow {} {version}", child.name),
            None => format!("workflow {}", child.name),
        },
        None => String::new(),
    }
}

/// The first needs by name, the others counted.
fn needs(step: &Step) -> String {
    let named: Vec<&str> = step.needs.iter().take(5).map(|name| &**name).collect();
    match step.needs.len().saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}
