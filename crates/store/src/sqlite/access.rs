//! Access tokens, and what operators did.

use rusqlite::{Row, params};
use windlass_core::{AccessToken, AuditEntry, Name, NewAuditEntry, limits};

use super::read::Snapshot;
use super::row;
use super::tx::Tx;
use crate::error::Result;
use crate::request::{AuditListing, Cursor, Page, check_new_token};
use crate::text::{words_from_text, words_to_text};

fn access_token(row: &Row<'_>) -> rusqlite::Result<AccessToken> {
    Ok(AccessToken {
        name: row::name(row, 0)?,
        id: row.get(1)?,
        digest: row.get(2)?,
        scopes: words_from_text(row.get_ref(3)?.as_str()?).map_err(|error| row::foreign(3, error))?,
        queues: words_from_text(row.get_ref(4)?.as_str()?).map_err(|error| row::foreign(4, error))?,
        created_at: row::time(row, 5)?,
        created_by: row.get(6)?,
        expires_at: row::optional_time(row, 7)?,
    })
}

fn audit_entry(row: &Row<'_>) -> rusqlite::Result<(u64, AuditEntry)> {
    let (at, actor, action) = (row::time(row, 1)?, row.get(2)?, row.get(3)?);
    let (subject, reason) = (row.get(4)?, row.get(5)?);
    Ok((row::unsigned(row, 0)?, AuditEntry { at, actor, action, subject, reason }))
}

impl Snapshot<'_> {
    pub(super) fn access_tokens(&self) -> rusqlite::Result<Vec<AccessToken>> {
        self.all(include_str!("sql/access_tokens.sql"), [], access_token)
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
        let AccessToken { name, id, digest, scopes, queues, created_at, created_by, expires_at } = token;
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
            created_at.as_micros(),
            created_by,
            expires_at.map(|at| at.as_micros())
        ];
        self.write(|sql| &mut sql.insert_access_token, values)?;
        Ok(())
    }

    pub(super) fn revoke_access_token(&mut self, name: &Name) -> Result<bool> {
        Ok(self.write(|sql| &mut sql.delete_access_token, [&**name])? > 0)
    }

    pub(super) fn audit(&mut self, entry: &NewAuditEntry) -> Result<()> {
        let NewAuditEntry { actor, action, subject, reason } = entry;
        let values = params![self.now.as_micros(), actor, action, subject, reason];
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
