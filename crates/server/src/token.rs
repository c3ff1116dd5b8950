//! `windlass token` and `windlass audit`: who may use a server, and what was done through it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;
use windlass::access::Scope;
use windlass::{
    AccessToken, AuditEntry, Cursor, Error, Name, NamePattern, NewAuditEntry, Page, PreviousSecret,
};

use crate::actor::from_environment;
use crate::escape::plain;
use crate::failure::Usage;
use crate::secret::Fresh;
use crate::session::Session;
use crate::show::{Answer, time};
use crate::table::Table;
use crate::{duration, moment};

#[derive(Subcommand, Debug)]
pub(crate) enum TokenCommand {
    /// Make a token and show it, once
    #[command(after_help = "Examples:
  windlass token create ci --scope submit
  windlass token create mailer --scope work --queue 'mail-*' --expires 90d
  windlass token create acme --scope read,submit --allow-namespace acme --group release

From the first token on, every request needs one: as `Authorization: Bearer TOKEN`, or in WINDLASS_TOKEN.")]
    Create(CreateArgs),
    /// List tokens; their secrets are nowhere kept
    #[command(after_help = "Example:\n  windlass token list")]
    List,
    /// Give a token another secret; the one before is accepted for a while
    #[command(after_help = "Examples:
  windlass token rotate ci                # the secret before is accepted for another day
  windlass token rotate ci --keep 0s      # it leaked: every former secret ends at once")]
    Rotate {
        /// Its name
        #[arg(value_parser = name)]
        name: Name,
        /// How long the secret before is accepted; 0s ends all former secrets
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = duration::parse)]
        keep: Duration,
    },
    /// Make a token worthless
    #[command(after_help = "Example:\n  windlass token revoke ci")]
    Revoke {
        /// Its name
        #[arg(value_parser = name)]
        name: Name,
    },
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// What it is called
    #[arg(value_parser = name)]
    name: Name,
    /// What it may be used for: read, submit, work or admin, which includes the others; several with commas
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
    scopes: Vec<Scope>,
    /// With which queues, such as mail-*; several with commas [default: all]
    #[arg(long = "queue", value_name = "PATTERN", value_delimiter = ',')]
    queues: Vec<NamePattern>,
    /// In which namespaces, such as acme or acme-*; several with commas [default: all]
    #[arg(long = "allow-namespace", value_name = "PATTERN", value_delimiter = ',')]
    namespaces: Vec<NamePattern>,
    /// A group that its holder belongs to; several with commas
    #[arg(long = "group", value_name = "NAME", value_delimiter = ',', value_parser = group)]
    groups: Vec<Name>,
    /// After how long it is worthless [default: never]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    expires: Option<Duration>,
}

/// The name of a token.
fn name(text: &str) -> Result<Name, windlass::Invalid> {
    Name::new("token name", text)
}

/// The name of a group.
fn group(text: &str) -> Result<Name, windlass::Invalid> {
    Name::new("group", text)
}

/// A token, without its secret.
#[derive(Serialize, Debug)]
struct TokenJson {
    name: String,
    id: String,
    scopes: Vec<&'static str>,
    queues: Vec<String>,
    namespaces: Vec<String>,
    groups: Vec<String>,
    created_at: String,
    created_by: Option<String>,
    expires_at: Option<String>,
    expired: bool,
    /// To about a minute.
    last_used_at: Option<String>,
    /// Secrets from before it was rotated that are still accepted.
    former_secrets: Vec<FormerSecretJson>,
}

/// A secret from before a token was rotated.
#[derive(Serialize, Debug)]
struct FormerSecretJson {
    id: String,
    expires_at: String,
}

impl TokenJson {
    fn of(token: &AccessToken, now: windlass::Timestamp) -> Self {
        Self {
            name: token.name.to_string(),
            id: token.id.clone(),
            scopes: token.scopes.iter().map(|scope| scope.word()).collect(),
            queues: token.queues.iter().map(ToString::to_string).collect(),
            namespaces: token.namespaces.iter().map(ToString::to_string).collect(),
            groups: token.groups.iter().map(ToString::to_string).collect(),
            created_at: token.created_at.to_string(),
            created_by: token.created_by.clone(),
            expires_at: time(token.expires_at),
            expired: token.has_expired(now),
            last_used_at: time(token.last_used_at),
            former_secrets: accepted(token, now)
                .map(|former| FormerSecretJson {
                    id: former.id.clone(),
                    expires_at: former.expires_at.to_string(),
                })
                .collect(),
        }
    }
}

/// The former secrets of a token that are still accepted.
fn accepted(token: &AccessToken, now: windlass::Timestamp) -> impl Iterator<Item = &PreviousSecret> {
    token.previous.iter().filter(move |former| former.expires_at > now)
}

pub(crate) async fn run(session: &Session, command: &TokenCommand) -> Result<Answer> {
    if session.given_namespace().is_some() {
        return Err(Usage::new(
            "a token is of no namespace; leave --namespace out (--allow-namespace limits what it is for)",
        )
        .into());
    }
    match command {
        TokenCommand::Create(args) => create(session, args).await,
        TokenCommand::List => list(session).await,
        TokenCommand::Rotate { name, keep } => rotate(session, name, *keep).await,
        TokenCommand::Revoke { name } => revoke(session, name).await,
    }
}

/// Writes down who does something to a token. A server does that itself.
async fn audit(session: &Session, action: &str, subject: &Name) -> Result<()> {
    if session.is_remote() {
        return Ok(());
    }
    let entry = NewAuditEntry {
        actor: from_environment().unwrap_or_else(|| "command line".into()),
        action: action.into(),
        subject: subject.to_string(),
        reason: None,
        namespace: None,
    };
    Ok(session.open().await?.store().audit(entry).await?)
}

async fn create(session: &Session, args: &CreateArgs) -> Result<Answer> {
    let fresh = Fresh::make()?;
    let store = session.open().await?.store();
    let now = store.now().await?;
    let token = AccessToken {
        name: args.name.clone(),
        id: fresh.id,
        digest: fresh.digest,
        scopes: args.scopes.iter().copied().collect::<BTreeSet<_>>(),
        queues: args.queues.clone(),
        namespaces: args.namespaces.clone(),
        groups: args.groups.clone(),
        created_at: now,
        created_by: from_environment(),
        expires_at: args.expires.map(|expires| now.plus(expires)),
        previous: Vec::new(),
        last_used_at: None,
    };
    token.check()?;
    audit(session, "token.create", &token.name).await?;
    store.put_access_token(token.clone()).await?;
    let mut json = serde_json::to_value(TokenJson::of(&token, now))?;
    json["token"] = json!(fresh.text);
    let text = format!(
        "{}\nIt is not shown again. Send it as `Authorization: Bearer …`, or set WINDLASS_TOKEN.\n",
        fresh.text
    );
    Ok(Answer::new(text, &json))
}

/// Patterns as one text; none is all.
fn patterns(patterns: &[NamePattern]) -> String {
    let patterns: Vec<_> = patterns.iter().map(NamePattern::as_str).collect();
    if patterns.is_empty() { "all".into() } else { patterns.join(",") }
}

async fn list(session: &Session) -> Result<Answer> {
    let store = session.open_existing().await?.store();
    let (tokens, now) = (store.access_tokens().await?, store.now().await?);
    let mut table = Table::new(&[
        "NAME",
        "ID",
        "SCOPES",
        "QUEUES",
        "NAMESPACES",
        "GROUPS",
        "CREATED",
        "BY",
        "EXPIRES",
        "USED",
        "OLD SECRET UNTIL",
    ]);
    for token in &tokens {
        let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.word()).collect();
        let last_former = accepted(token, now).max_by_key(|former| former.expires_at);
        let groups: Vec<_> = token.groups.iter().map(|group| &**group).collect();
        table.row([
            (&*token.name).into(),
            (&*token.id).into(),
            scopes.join(",").into(),
            patterns(&token.queues).into(),
            patterns(&token.namespaces).into(),
            groups.join(",").into(),
            moment::relative(token.created_at, now).into(),
            token.created_by.as_deref().unwrap_or_default().into(),
            token.expires_at.map(|at| moment::relative(at, now)).unwrap_or_default().into(),
            token.last_used_at.map(|at| moment::relative(at, now)).unwrap_or_default().into(),
            last_former.map(|former| moment::relative(former.expires_at, now)).unwrap_or_default().into(),
        ]);
    }
    let text = match tokens.is_empty() {
        true if store.had_access_tokens().await? => {
            "no tokens any more: a server refuses every request, unless it is started with --without-tokens\n"
                .into()
        }
        true => "no tokens: a server serves its own machine alone, and everybody on it\n".into(),
        false => table.without_empty().render(session.paint(), ""),
    };
    let tokens: Vec<_> = tokens.iter().map(|token| TokenJson::of(token, now)).collect();
    Ok(Answer::new(text, &json!({ "tokens": tokens })))
}

async fn rotate(session: &Session, name: &Name, keep: Duration) -> Result<Answer> {
    let fresh = Fresh::make()?;
    let store = session.open_existing().await?.store();
    audit(session, "token.rotate", name).await?;
    let rotate = || store.rotate_access_token(name.clone(), fresh.secret(), keep);
    let rotated = match rotate().await {
        // Once more with the same secret changes nothing, if it was done.
        Err(Error::Unknown(_)) => rotate().await,
        answer => answer,
    };
    if !rotated? {
        return Err(unknown(name));
    }
    let until = (!keep.is_zero()).then_some(store.now().await?.plus(keep));
    let json = json!({ "name": &**name, "token": fresh.text, "former_until": time(until) });
    let former = match until {
        Some(_) => format!("The secret before is accepted for {} more.", duration::rough(keep)),
        None => "No former secret is accepted any more; servers know within a few seconds.".into(),
    };
    Ok(Answer::new(format!("{}\nIt is not shown again. {former}\n", fresh.text), &json))
}

fn unknown(name: &Name) -> anyhow::Error {
    anyhow::anyhow!("there is no token {:?}; `windlass token list` shows those that are", &**name)
}

async fn revoke(session: &Session, name: &Name) -> Result<Answer> {
    let store = session.open_existing().await?.store();
    audit(session, "token.revoke", name).await?;
    if !store.revoke_access_token(name.clone()).await? {
        return Err(unknown(name));
    }
    let text = format!("token {name} is revoked; servers know within a few seconds\n");
    Ok(Answer::new(text, &json!({ "name": &**name, "revoked": true })))
}

/// Show what operators did, newest first
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  windlass audit --limit 20")]
pub(crate) struct AuditArgs {
    /// How many at most, 1 to 1000
    #[arg(long, value_name = "N", default_value = "100", value_parser = crate::task::limit)]
    limit: usize,
    /// Go on after an earlier page
    #[arg(long)]
    cursor: Option<Cursor>,
}

/// Something that an operator asked for.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = AuditEntry)]
pub(crate) struct AuditEntryJson {
    at: String,
    /// The name of the token, and on whose behalf it was used.
    actor: String,
    action: String,
    subject: String,
    reason: Option<String>,
    /// The namespace that the subject is in, if it is in one.
    namespace: Option<String>,
}

impl AuditEntryJson {
    pub(crate) fn of(AuditEntry { at, actor, action, subject, reason, namespace }: &AuditEntry) -> Self {
        Self {
            at: at.to_string(),
            actor: actor.clone(),
            action: action.clone(),
            subject: subject.clone(),
            reason: reason.clone(),
            namespace: namespace.as_deref().map(str::to_owned),
        }
    }
}

/// What operators asked for, newest first.
#[derive(Serialize, ToSchema, Debug)]
#[schema(as = AuditList)]
pub(crate) struct AuditJson {
    pub(crate) entries: Vec<AuditEntryJson>,
    /// Where to go on.
    pub(crate) next_cursor: Option<String>,
}

pub(crate) async fn run_audit(session: &Session, args: &AuditArgs) -> Result<Answer> {
    let page = Page { limit: args.limit, after: args.cursor, oldest_first: false };
    let listing = session.open_existing().await?.store().audits(page).await?;
    let mut table = Table::new(&["AT", "ACTOR", "ACTION", "SUBJECT", "REASON"]);
    for AuditEntry { at, actor, action, subject, reason, .. } in &listing.entries {
        table.row([
            moment::to_second(*at).into(),
            (&**actor).into(),
            (&**action).into(),
            (&**subject).into(),
            reason.as_deref().unwrap_or_default().into(),
        ]);
    }
    let next_cursor = listing.next.map(|next| next.to_string());
    let mut text = match listing.entries.is_empty() {
        true => "nothing\n".into(),
        false => table.without_empty().render(session.paint(), ""),
    };
    if let Some(next) = &next_cursor {
        text += &format!("more with --cursor {}\n", plain(next));
    }
    let entries = listing.entries.iter().map(AuditEntryJson::of).collect();
    Ok(Answer::new(text, &AuditJson { entries, next_cursor }))
}
