//! Access tokens, and what operators did.

use std::str::FromStr;
use std::time::Duration;

use rusqlite::{Row, params};
use windlass_core::{AccessToken, AuditEntry, Invalid, Name, NewAuditEntry, NewSecret, Timestamp, limits};

use super::read::Snapshot;
use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::{AuditListing, Cursor, Page, check_new_token};
use crate::text::{words_from_text, words_to_text};

/// A list of words in a column.
fn words<T, C>(row: &Row<'_>, column: usize) -> rusqlite::Result<C>
where
    T: FromStr<Err = Invalid>,
    C: FromIterator<T>,
{
    words_from_text(row.get_ref(column)?.as_str()?).map_err(|error| row::foreign(column, error))
}

fn access_token(row: &Row<'_>) -> rusqlite::Result<AccessToken> {
    let groups = row.get_ref(6)?.as_str()?.split_whitespace().map(Name::stored).collect();
    Ok(AccessToken {
        name: row::name(row, 0)?,
        id: row.get(1)?,
        digest: row.get(2)?,
        scopes: words(row, 3)?,
        queues: words(row, 4)?,
        namespaces: words(row, 5)?,
        groups,
        created_at: row::time(row, 7)?,
        created_by: row.get(8)?,
        expires_at: row::optional_time(row, 9)?,
        previous: words(row, 10)?,
        last_used_at: row::optional_time(row, 11)?,
    })
}

fn audit_entry(row: &Row<'_>) -> rusqlite::Result<(u64, AuditEntry)> {
    let (at, actor, action) = (row::time(row, 1)?, row.get(2)?, row.get(3)?);
    let (subject, reason) = (row.get(4)?, row.get(5)?);
    let namespace = row.get::<_, Option<String>>(6)?.map(|namespace| Name::stored(&namespace));
    Ok((row::unsigned(row, 0)?, AuditEntry { at, actor, action, subject, reason, namespace }))
}

impl Snapshot<'_> {
    pub(super) fn access_tokens(&self) -> rusqlite::Result<Vec<AccessToken>> {
        self.all(include_str!("sql/access_tokens.sql"), [], access_token)
    }

    pub(super) fn had_access_tokens(&self) -> rusqlite::Result<bool> {
        let found = self.one(include_str!("sql/had_access_tokens.sql"), [], |row| row.get(0))?;
        Ok(found.unwrap_or_default())
    }

    pub(super) fn audits(&self, page: Page) -> rusqlite::Result<AuditListing> {
        let (sql, start) = match page.oldest_first {
            true => (include_str!("sql/audits_oldest.sql"), 0),
            false => (include_str!("sql/audits_newest.sql"), i64::MAX),
        };
        let after = page.after.map_or(start, |Cursor(place)| i64::try_from(place).unwrap_or(start));
        let most = i64::try_from(page.limit + 1).unwrap_or(i64::MAX);
        let rows = self.all(sql, [after, most], audit_entry)?;
        let (entries, next) = page.pick(rows.into_iter().map(Ok::<_, rusqlite::Error>), |_| true)?;
        Ok(AuditListing { entries, next })
    }
}

impl Tx<'_, '_> {
    pub(super) fn put_access_token(&mut self, token: &AccessToken) -> Result<()> {
        let AccessToken { name, id, digest, scopes, queues, namespaces, groups, .. } = token;
        let AccessToken { created_at, created_by, expires_at, previous, last_used_at, .. } = token;
        let others = |row: &Row<'_>| Ok((row.get::<_, u32>(0)?, row.get(1)?, row.get(2)?));
        let found = self.read(|sql| &mut sql.other_access_tokens, [&**name, id], others)?;
        let (others, name_is_taken, id_is_taken) = found.unwrap_or_default();
        check_new_token(token, others as usize, name_is_taken, id_is_taken)?;
        let values = params![
            &**name,
            id,
            digest,
            words_to_text(scopes),
            words_to_text(queues),
            words_to_text(namespaces),
            words_to_text(groups),
            created_at.as_micros(),
            created_by,
            expires_at.map(|at| at.as_micros()),
            words_to_text(previous),
            last_used_at.map(|at| at.as_micros()),
        ];
        self.write(|sql| &mut sql.insert_access_token, values)?;
        self.write(|sql| &mut sql.note_access_tokens, [])?;
        Ok(())
    }

    pub(super) fn rotate_access_token(
        &mut self,
        name: &Name,
        secret: NewSecret,
        keep: Duration,
    ) -> Result<bool> {
        let Some(mut token) = self.read(|sql| &mut sql.access_token, [&**name], access_token)? else {
            return Ok(false);
        };
        let is_new = secret.id != token.id;
        token.rotate(secret, keep, self.now)?;
        if is_new {
            let is_taken = |row: &Row<'_>| row.get::<_, bool>(2);
            let is_taken = self.read(|sql| &mut sql.other_access_tokens, ["", &*token.id], is_taken)?;
            check_new_token(&token, 0, false, is_taken.unwrap_or_default())?;
        }
        let values = params![&**name, token.id, token.digest, words_to_text(&token.previous)];
        self.write(|sql| &mut sql.rotate_access_token, values)?;
        Ok(true)
    }

    pub(super) fn touch_access_tokens(&mut self, used: &[(Name, Timestamp)]) -> Result<()> {
        for (name, at) in used {
            self.write(|sql| &mut sql.touch_access_token, params![&**name, at.as_micros()])?;
        }
        Ok(())
    }

    pub(super) fn revoke_access_token(&mut self, name: &Name) -> Result<bool> {
        Ok(self.write(|sql| &mut sql.delete_access_token, [&**name])? > 0)
    }

    pub(super) fn audit(&mut self, entry: &NewAuditEntry) -> Result<()> {
        let NewAuditEntry { actor, action, subject, reason, namespace } = entry;
        let values = params![self.now.as_micros(), actor, action, subject, reason, namespace.as_deref()];
        self.write(|sql| &mut sql.insert_audit, values)?;
        Ok(())
    }

    /// Deletes what operators did long ago.
    pub(super) fn prune_audit(&mut self) -> Result<()> {
        let before = self.now.minus(limits::AUDIT_KEPT).as_micros();
        let most = i64::try_from(limits::BATCH).unwrap_or(i64::MAX);
        self.write(|sql| &mut sql.release_audit, [before])?;
        self.write(|sql| &mut sql.delete_audit, [before, most])?;
        Ok(())
    }
}
