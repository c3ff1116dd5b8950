//! `windlass migrate`.

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use windlass::Windlass;
use windlass::sqlite::{Migration, migrations};

use crate::moment;
use crate::session::{Session, sqlite_path};
use crate::show::{Answer, time};
use crate::table::Table;

/// Bring a database up to this version of the program
///
/// Every command that opens a database does so. Migrations go forward only; take a copy of the file first if you may want to go back.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  windlass migrate --dry-run\n  windlass --store sqlite:tasks.db migrate")]
pub(crate) struct MigrateArgs {
    /// Only say what would be done
    #[arg(long)]
    dry_run: bool,
}

pub(crate) async fn run(session: &Session, args: &MigrateArgs) -> Result<Answer> {
    let Some(path) = sqlite_path(session.address()) else {
        // A store that is not a file has nothing to migrate, if it is a store at all.
        Windlass::open(session.address()).await?.close().await?;
        return Ok(Answer::new(
            "nothing to migrate\n",
            &json!({ "dry_run": args.dry_run, "migrations": [] }),
        ));
    };
    let before = migrations(path)?;
    if !args.dry_run {
        session.open().await?;
    }
    let after = if args.dry_run { before.clone() } else { migrations(path)? };
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
