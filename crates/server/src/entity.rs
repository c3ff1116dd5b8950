//! `windlass entity`: what tasks act on, if that is to be known beforehand.

use anyhow::Result;
use clap::Subcommand;
use serde_json::json;
use windlass::Entity;

use crate::escape::plain;
use crate::session::Session;
use crate::show::Answer;
use crate::task::limit;

#[derive(Subcommand, Debug)]
pub(crate) enum EntityCommand {
    /// List registered entities, by name
    #[command(after_help = "Example:\n  windlass entity list --limit 1000")]
    List {
        /// How many at most, 1 to 1000
        #[arg(long, value_name = "N", default_value = "100", value_parser = limit)]
        limit: usize,
        /// From the first after this one
        #[arg(long, value_name = "TYPE:ID")]
        after: Option<Entity>,
    },
    /// Register entities
    #[command(after_help = "Example:\n  windlass entity add planner:42 planner:43")]
    Add {
        /// The entities
        #[arg(value_name = "TYPE:ID", required = true)]
        entities: Vec<Entity>,
    },
    /// Forget entities; their tasks stay
    #[command(after_help = "Example:\n  windlass entity remove planner:42")]
    Remove {
        /// The entities
        #[arg(value_name = "TYPE:ID", required = true)]
        entities: Vec<Entity>,
    },
    /// Say whether an entity is registered; the exit code is 1 if it is not
    #[command(after_help = "Example:\n  windlass entity check planner:42")]
    Check {
        /// The entity
        #[arg(value_name = "TYPE:ID")]
        entity: Entity,
    },
}

pub(crate) async fn run(session: &Session, command: &EntityCommand) -> Result<Answer> {
    match command {
        EntityCommand::List { limit, after } => list(session, *limit, after.as_ref()).await,
        EntityCommand::Add { entities } => set(session, entities, true).await,
        EntityCommand::Remove { entities } => set(session, entities, false).await,
        EntityCommand::Check { entity } => check(session, entity).await,
    }
}

async fn list(session: &Session, limit: usize, after: Option<&Entity>) -> Result<Answer> {
    let entities = session.existing().await?.entities(after, limit).await?;
    let next = entities.last().filter(|_| entities.len() == limit).map(Entity::as_str);
    let mut text: String = entities.iter().map(|entity| format!("{}\n", plain(entity.as_str()))).collect();
    if let Some(next) = next {
        text += &format!("more with --after {}\n", plain(next));
    }
    if entities.is_empty() {
        text = "no entities\n".into();
    }
    let names: Vec<_> = entities.iter().map(Entity::as_str).collect();
    Ok(Answer::new(text, &json!({ "entities": names, "next_after": next })))
}

async fn set(session: &Session, entities: &[Entity], known: bool) -> Result<Answer> {
    let client = if known { session.client().await? } else { session.existing().await? };
    let (mut text, mut values) = (String::new(), Vec::new());
    for entity in entities {
        let changed = match known {
            true => client.register_entity(entity.as_str()).await?,
            false => client.forget_entity(entity.as_str()).await?,
        };
        let said = match (known, changed) {
            (true, true) => "registered",
            (true, false) => "was registered already",
            (false, true) => "forgotten",
            (false, false) => "was not registered",
        };
        text += &format!("{}  {said}\n", plain(entity.as_str()));
        values.push(json!({ "entity": entity.as_str(), "registered": known, "changed": changed }));
    }
    Ok(Answer::new(text, &json!({ "entities": values })))
}

async fn check(session: &Session, entity: &Entity) -> Result<Answer> {
    let client = session.existing().await?;
    let known = client.store().has_entity(session.namespace(), entity.clone()).await?;
    let json = json!({ "entity": entity.as_str(), "registered": known });
    let name = plain(entity.as_str());
    Ok(match known {
        true => Answer::new(format!("{name} is registered\n"), &json),
        false => {
            let failure = format!("{name} is not registered; `windlass entity add {name}` registers it");
            Answer::new("", &json).but(Some(failure))
        }
    })
}
