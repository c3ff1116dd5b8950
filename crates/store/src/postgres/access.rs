//! Access tokens, and what operators did.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Row;
use windlass_core::{AccessToken, AuditEntry, Invalid, Name, NewAuditEntry, NewSecret, Timestamp, limits};

use super::Inner;
use super::failure::Failure;
use super::read::{all, first};
use super::row::{self, Foreign, foreign, moment, signed};
use super::tx::{Tx, Which, args};
use crate::error::Result;
use crate::request::{AuditListing, Cursor, Page, check_new_token};
use crate::text::{words_from_text, words_to_text};

/// A list of words in a column.
fn words<T, C>(row: &Row, column: usize) -> Result<C, Foreign>
where
    T: FromStr<Err = Invalid>,
    C: FromIterator<T>,
{
    words_from_text(row::get(row, column)?).map_err(|error| foreign(row, column, error))
}

fn access_token(row: &Row) -> Result<AccessToken, Foreign> {
    let digest = <[u8; 32]>::try_from(row::get::<&[u8]>(row, 2)?).map_err(|error| foreign(row, 2, error))?;
    let groups = row::get::<&str>(row, 6)?.split_whitespace().map(Name::stored).collect();
    Ok(AccessToken {
        name: row::name(row, 0)?,
        id: row::get(row, 1)?,
        digest,
        scopes: words(row, 3)?,
        queues: words(row, 4)?,
        namespaces: words(row, 5)?,
        groups,
        created_at: row::time(row, 7)?,
        created_by: row::get(row, 8)?,
        expires_at: row::optional_time(row, 9)?,
        previous: words(row, 10)?,
        last_used_at: row::optional_time(row, 11)?,
    })
}

fn audit_entry(row: &Row) -> Result<(u64, AuditEntry), Foreign> {
    let (at, actor, action) = (row::time(row, 1)?, row::get(row, 2)?, row::get(row, 3)?);
    let (subject, reason) = (row::get(row, 4)?, row::get(row, 5)?);
    let namespace = row::get::<Option<&str>>(row, 6)?.map(Name::stored);
    Ok((row::unsigned(row, 0)?, AuditEntry { at, actor, action, subject, reason, namespace }))
}

impl Inner {
    pub(super) async fn put_access_token(self: &Arc<Self>, token: &AccessToken) -> Result<()> {
        let AccessToken { name, id, digest, scopes, queues, namespaces, groups, .. } = token;
        let AccessToken { created_at, created_by, expires_at, previous, last_used_at, .. } = token;
        self.transaction(async |tx: &mut Tx| {
            let values = args![name.to_string() => TEXT, id.clone() => TEXT];
            let found = tx.ask(|sql| &sql.other_access_tokens, values).await?.rows;
            let others = row::unsigned::<u64>(&found[0], 0)?;
            let others = usize::try_from(others).unwrap_or(usize::MAX);
            check_new_token(token, others, row::get(&found[0], 1)?, row::get(&found[0], 2)?)?;
            let values = args![
                name.to_string() => TEXT,
                id.clone() => TEXT,
                digest.to_vec() => BYTEA,
                words_to_text(scopes) => TEXT,
                words_to_text(queues) => TEXT,
                words_to_text(namespaces) => TEXT,
                words_to_text(groups) => TEXT,
                moment(*created_at) => TIMESTAMPTZ,
                created_by.clone() => TEXT,
                expires_at.map(moment) => TIMESTAMPTZ,
                words_to_text(previous) => TEXT,
                last_used_at.map(moment) => TIMESTAMPTZ,
            ];
            if tx.ask(|sql| &sql.insert_access_token, values).await?.affected == 0 {
                return Err(Failure::Moved);
            }
            tx.commit().await.map(drop)
        })
        .await
    }

    pub(super) async fn access_tokens(self: &Arc<Self>) -> Result<Vec<AccessToken>> {
        all(&self.ask(|sql| &sql.access_tokens, Vec::new).await?, access_token)
    }

    pub(super) async fn had_access_tokens(self: &Arc<Self>) -> Result<bool> {
        let answer = self.ask(|sql| &sql.had_access_tokens, Vec::new).await?;
        Ok(first(&answer, |row| row::get(row, 0))?.unwrap_or_default())
    }

    pub(super) async fn rotate_access_token(
        self: &Arc<Self>,
        name: &Name,
        secret: &NewSecret,
        keep: Duration,
    ) -> Result<bool> {
        self.transaction(async |tx: &mut Tx| {
            let found = tx.ask(|sql| &sql.access_token, args![name.to_string() => TEXT]).await?.rows;
            let Some(found) = found.first() else { return Ok(false) };
            let mut token = access_token(found)?;
            let (is_new, now) = (secret.id != token.id, tx.now().await?);
            token.rotate(secret.clone(), keep, now)?;
            if is_new {
                let values = args![String::new() => TEXT, token.id.clone() => TEXT];
                let others = tx.ask(|sql| &sql.other_access_tokens, values).await?.rows;
                check_new_token(&token, 0, false, row::get(&others[0], 2)?)?;
            }
            let values = args![
                name.to_string() => TEXT,
                token.id.clone() => TEXT,
                token.digest.to_vec() => BYTEA,
                words_to_text(&token.previous) => TEXT,
            ];
            tx.ask(|sql| &sql.rotate_access_token, values).await?;
            tx.commit().await?;
            Ok(true)
        })
        .await
    }

    pub(super) async fn touch_access_tokens(self: &Arc<Self>, used: &[(Name, Timestamp)]) -> Result<()> {
        let values = || {
            args![
                used.iter().map(|(name, _)| name.to_string()).collect::<Vec<_>>() => TEXT_ARRAY,
                used.iter().map(|(_, at)| moment(*at)).collect::<Vec<_>>() => TIMESTAMPTZ_ARRAY,
            ]
        };
        self.write(|sql| &sql.touch_access_tokens, values).await.map(drop)
    }

    pub(super) async fn revoke_access_token(self: &Arc<Self>, name: &Name) -> Result<bool> {
        Ok(self.write(|sql| &sql.delete_access_token, || args![name.to_string() => TEXT]).await? > 0)
    }

    pub(super) async fn audit(self: &Arc<Self>, entry: &NewAuditEntry) -> Result<()> {
        let NewAuditEntry { actor, action, subject, reason, namespace } = entry;
        let values = || {
            args![
                self.clock.given() => TIMESTAMPTZ,
                actor.clone() => TEXT,
                action.clone() => TEXT,
                subject.clone() => TEXT,
                reason.clone() => TEXT,
                namespace.as_deref().map(str::to_owned) => TEXT,
            ]
        };
        self.write(|sql| &sql.insert_audit, values).await.map(drop)
    }

    pub(super) async fn audits(self: &Arc<Self>, page: Page) -> Result<AuditListing> {
        let (which, start) = match page.oldest_first {
            true => ((|sql| &sql.audits_oldest) as Which, 0),
            false => ((|sql| &sql.audits_newest) as Which, i64::MAX),
        };
        let after = page.after.map_or(start, |Cursor(place)| signed(place));
        let values = || args![after => INT8, signed(page.limit + 1) => INT8];
        let rows = all(&self.ask(which, values).await?, audit_entry)?;
        let (entries, next) = page.pick(rows.into_iter().map(Ok::<_, crate::Error>), |_| true)?;
        Ok(AuditListing { entries, next })
    }
}

impl Tx {
    /// Deletes what operators did long ago.
    pub(super) async fn prune_audit(&mut self, now: Timestamp) {
        let before = moment(now.minus(limits::AUDIT_KEPT));
        self.send(|sql| &sql.release_audit, args![before => TIMESTAMPTZ]).await;
        let values = args![before => TIMESTAMPTZ, signed(limits::BATCH) => INT8];
        self.send(|sql| &sql.delete_audit, values).await;
    }
}
