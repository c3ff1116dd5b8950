//! `windlass migrate`.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass_store::postgres::{Migration, migrations_sql};

use crate::address::{is_postgres, sqlite_path};
use crate::failure::Usage;
use crate::moment;
use crate::session::Session;
use crate::show::{Answer, time};
use crate::table::Table;

/// Bring a database up to this version of the program
///
/// Every command that opens a database does so. Migrations go forward only; take a copy first if you may want
/// to go back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  windlass migrate --dry-run
  windlass --store sqlite:tasks.db migrate
  windlass --store postgres://db/app migrate --sql | psql --set ON_ERROR_STOP=1 postgres://dba@db/app")]
pub(crate) struct MigrateArgs {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
    /// Print the SQL that makes a new PostgreSQL schema, for somebody else to run; connects to nothing
    #[arg(long, conflicts_with = "dry_run")]
    sql: bool,
}

pub(crate) async fn run(session: &Session, args: &MigrateArgs) -> Result<Answer> {
    if args.sql {
        return sql(session);
    }
    if !is_postgres(session.address()) && sqlite_path(session.address()).is_none() {
        // A store that is not a database has nothing to migrate, if it is a store at all.
        session.open().await?;
        return Ok(Answer::new(
            "nothing to migrate\n",
            &json!({ "dry_run": args.dry_run, "migrations": [] }),
        ));
    }
    let before = session.migrations().await?;
    if !args.dry_run {
        session.open().await?;
    }
    let after = if args.dry_run { before.clone() } else { session.migrations().await? };
    let is_new = |migration: &Migration| {
        before.iter().all(|old| old.version != migration.version || old.applied_at.is_none())
    };
    let mut table = Table::new(&["VERSION", "NAME", "APPLIED"]);
    for Migration { version, name, applied_at } in &after {
        let applied = applied_at.map_or_else(|| "not yet".into(), moment::to_second);
        table.row([version.to_string().into(), (&**name).into(), applied.into()]);
    }
    let fresh = after.iter().filter(|migration| is_new(migration)).count();
    let said = match (fresh, args.dry_run) {
        (0, _) => "up to date".into(),
        (_, true) => format!("{fresh} to be applied"),
        (_, false) => format!("{fresh} applied now"),
    };
    let value = |migration: &Migration| {
        let Migration { version, name, applied_at } = migration;
        json!({ "version": version, "name": name, "applied_at": time(*applied_at), "new": is_new(migration) })
    };
    let json = json!({ "dry_run": args.dry_run, "migrations": after.iter().map(value).collect::<Value>() });
    Ok(Answer::new(format!("{}{said}\n", table.render(session.paint(), "")), &json))
}

/// All migrations as one script.
fn sql(session: &Session) -> Result<Answer> {
    if !is_postgres(session.address()) {
        let told = "--sql is for PostgreSQL, such as --store postgres://HOST/DATABASE?schema=windlass; \
            other stores are migrated when they are opened";
        return Err(Usage::new(told).into());
    }
    let options = session.postgres()?;
    let schema = options.get_schema();
    let text = migrations_sql(schema);
    Ok(Answer::new(&*text, &json!({ "schema": schema.as_str(), "sql": &text })))
}
