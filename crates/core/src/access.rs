//! Who may do what from outside: access tokens, and the record of what operators did. Only the vocabulary and
//! its rules; secrets are made and compared elsewhere.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::name::{Name, check_key};
use crate::rejected::Invalid;
use crate::time::Timestamp;

/// What a token may be used for. Each stands for itself: one that may submit need not be allowed to read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Scope {
    /// Looking at everything.
    Read,
    /// Submitting tasks and starting workflows.
    Submit,
    /// Claiming, reporting and finishing.
    Work,
    /// Whatever operators do; it includes the others.
    Admin,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Submit, Self::Work, Self::Admin];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Submit => "submit",
            Self::Work => "work",
            Self::Admin => "admin",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl FromStr for Scope {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|scope| scope.word() == text);
        found.ok_or_else(|| Invalid::new("scope", text, "read, submit, work or admin"))
    }
}

/// Which queues or namespaces: `*` for all, `mail-*` for those whose name begins with `mail-`, or the name of
/// one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NamePattern(Box<str>);

impl NamePattern {
    /// Whether it matches `name`.
    #[must_use]
    pub fn matches(&self, name: &Name) -> bool {
        match self.0.strip_suffix('*') {
            Some(beginning) => name.starts_with(beginning),
            None => **name == *self.0,
        }
    }

    /// Its text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for NamePattern {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let beginning = text.strip_suffix('*');
        // What comes before the star is the beginning of a name.
        if beginning != Some("") && Name::new("pattern", beginning.unwrap_or(text)).is_err() {
            let expected = "a name, or the beginning of one and *";
            return Err(Invalid::new("pattern", text, expected));
        }
        Ok(Self(text.into()))
    }
}

/// The right to use a store from outside. Whoever knows its secret has it; the secret itself is nowhere kept.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessToken {
    /// What operators call it.
    pub name: Name,
    /// What it is found by: eight digits from 0-9 a-f, which are no secret.
    pub id: String,
    /// The digest of the secret.
    pub digest: [u8; 32],
    /// What it may be used for.
    pub scopes: BTreeSet<Scope>,
    /// With which queues; with all, if empty.
    pub queues: Vec<NamePattern>,
    /// In which namespaces; in all, if empty.
    pub namespaces: Vec<NamePattern>,
    /// The groups that its holder belongs to.
    pub groups: Vec<Name>,
    /// When it was made.
    pub created_at: Timestamp,
    /// Who made it.
    pub created_by: Option<String>,
    /// When it ends.
    pub expires_at: Option<Timestamp>,
    /// The secrets before rotations, each accepted for a while; the newest first.
    pub previous: Vec<PreviousSecret>,
    /// When it was last used, to about a minute; absent if it never was.
    pub last_used_at: Option<Timestamp>,
}

/// The secret that a token had before it was rotated.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreviousSecret {
    /// What it is found by.
    pub id: String,
    /// The digest of the secret.
    pub digest: [u8; 32],
    /// Until when it is accepted.
    pub expires_at: Timestamp,
}

/// A secret to put in the place of another.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewSecret {
    /// What it is found by.
    pub id: String,
    /// The digest of the secret.
    pub digest: [u8; 32],
}

impl fmt::Debug for NewSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, digest: _ } = self;
        f.debug_struct("NewSecret").field("id", id).field("digest", &Hidden).finish()
    }
}

/// As stores keep it: the id, the digest in hexadecimal, and microseconds since 1970.
impl fmt::Display for PreviousSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.id)?;
        self.digest.iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, ":{}", self.expires_at.as_micros())
    }
}

impl FromStr for PreviousSecret {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let (id, rest) = text.split_once(':')?;
            let (digits, until) = rest.split_once(':')?;
            let mut digest = [0; 32];
            if digits.len() != 64 || !digits.is_ascii() {
                return None;
            }
            for (at, byte) in digest.iter_mut().enumerate() {
                *byte = u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).ok()?;
            }
            let expires_at = Timestamp::from_micros(until.parse().ok()?);
            Some(Self { id: id.into(), digest, expires_at })
        };
        read().ok_or_else(|| Invalid::new("former secret", "", "ID:DIGEST:MICROSECONDS"))
    }
}

/// A digest that belongs in no log.
struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl fmt::Debug for PreviousSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { id, digest: _, expires_at } = self;
        f.debug_struct("PreviousSecret")
            .field("id", id)
            .field("digest", &Hidden)
            .field("expires_at", expires_at)
            .finish()
    }
}

/// Whether a text can be the id of a secret.
pub(crate) fn check_secret_id(id: &str) -> Result<(), Invalid> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if id.len() != 8 || !id.bytes().all(is_digit) {
        return Err(Invalid::new("token id", id, "8 digits from 0-9 a-f"));
    }
    Ok(())
}

impl AccessToken {
    /// Whether it is within bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        check_secret_id(&self.id)?;
        self.previous.iter().try_for_each(|previous| check_secret_id(&previous.id))?;
        if self.previous.len() > limits::FORMER_SECRETS {
            return Err(Invalid::number("number of former secrets", self.previous.len(), "at most 8"));
        }
        if self.scopes.is_empty() {
            return Err(Invalid::number(
                "number of scopes",
                0,
                "at least one of read, submit, work and admin",
            ));
        }
        if self.queues.len() > limits::SUBSCRIPTIONS {
            return Err(Invalid::number("number of queue patterns", self.queues.len(), "at most 256"));
        }
        if self.namespaces.len() > limits::SUBSCRIPTIONS {
            let count = self.namespaces.len();
            return Err(Invalid::number("number of namespace patterns", count, "at most 256"));
        }
        if self.groups.len() > limits::GROUPS {
            return Err(Invalid::number("number of groups", self.groups.len(), "at most 64"));
        }
        self.created_by.as_ref().map_or(Ok(()), |actor| check_key("actor", actor, limits::KEY_BYTES))
    }

    /// Whether it may be used for that.
    #[must_use]
    pub fn allows(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether it may be used with that queue.
    #[must_use]
    pub fn allows_queue(&self, queue: &Name) -> bool {
        self.queues.is_empty() || self.queues.iter().any(|pattern| pattern.matches(queue))
    }

    /// Whether it may be used in that namespace.
    #[must_use]
    pub fn allows_namespace(&self, namespace: &Name) -> bool {
        self.namespaces.is_empty() || self.namespaces.iter().any(|pattern| pattern.matches(namespace))
    }

    /// Replaces its secret. The one before is accepted for `keep` more, beside those of earlier rotations
    /// whose time is not over; if that is no time at all, every former secret ends. The same secret again, as
    /// after a lost answer, changes nothing.
    pub fn rotate(&mut self, secret: NewSecret, keep: Duration, now: Timestamp) -> Result<(), Invalid> {
        check_secret_id(&secret.id)?;
        if secret.id == self.id && secret.digest == self.digest {
            return Ok(());
        }
        let mut previous = Vec::new();
        if !keep.is_zero() {
            let (id, digest) = (self.id.clone(), self.digest);
            previous.push(PreviousSecret { id, digest, expires_at: now.plus(keep) });
            previous.extend(self.previous.iter().filter(|former| former.expires_at > now).cloned());
        }
        if previous.len() > limits::FORMER_SECRETS {
            return Err(Invalid::number(
                "number of former secrets",
                previous.len(),
                "at most 8; wait until one has ended, or end all of them with --keep 0s",
            ));
        }
        (self.id, self.digest, self.previous) = (secret.id, secret.digest, previous);
        Ok(())
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|expires_at| expires_at <= now)
    }
}

/// Without the digest, which belongs in no log.
impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            id,
            digest: _,
            scopes,
            queues,
            namespaces,
            groups,
            created_at,
            created_by,
            expires_at,
            previous,
            last_used_at,
        } = self;
        f.debug_struct("AccessToken")
            .field("name", name)
            .field("id", id)
            .field("digest", &Hidden)
            .field("scopes", scopes)
            .field("queues", queues)
            .field("namespaces", namespaces)
            .field("groups", groups)
            .field("created_at", created_at)
            .field("created_by", created_by)
            .field("expires_at", expires_at)
            .field("previous", previous)
            .field("last_used_at", last_used_at)
            .finish()
    }
}

/// Something that an operator did, to be written down.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct NewAuditEntry {
    /// Who did it.
    pub actor: String,
    /// What was done, as a word such as `task.cancel`.
    pub action: String,
    /// To what.
    pub subject: String,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// The namespace that the subject is in, if it is in one.
    pub namespace: Option<Name>,
}

impl NewAuditEntry {
    /// Whether it is within bounds.
    pub fn check(&self) -> Result<(), Invalid> {
        check_key("actor", &self.actor, limits::KEY_BYTES)?;
        check_key("action", &self.action, limits::NAME_LENGTH)?;
        check_key("subject", &self.subject, limits::KEY_BYTES)?;
        self.reason.as_ref().map_or(Ok(()), |reason| check_key("reason", reason, limits::TEXT_BYTES))
    }
}

/// Something that an operator did.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AuditEntry {
    /// When.
    pub at: Timestamp,
    /// Who.
    pub actor: String,
    /// What.
    pub action: String,
    /// To what.
    pub subject: String,
    /// Why, if that was said.
    pub reason: Option<String>,
    /// The namespace that the subject is in, if it is in one.
    pub namespace: Option<Name>,
}

impl AuditEntry {
    /// What was done at a moment.
    #[must_use]
    pub fn new(new: NewAuditEntry, at: Timestamp) -> Self {
        let NewAuditEntry { actor, action, subject, reason, namespace } = new;
        Self { at, actor, action, subject, reason, namespace }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> AccessToken {
        AccessToken {
            name: Name::new("name", "ci").unwrap(),
            id: "0123abcd".into(),
            digest: [0xd7; 32],
            scopes: BTreeSet::from([Scope::Submit]),
            queues: vec!["mail-*".parse().unwrap(), "reports".parse().unwrap()],
            namespaces: vec!["acme".parse().unwrap()],
            groups: vec![Name::stored("release")],
            created_at: Timestamp::MIN,
            created_by: Some("ada".into()),
            expires_at: None,
            previous: Vec::new(),
            last_used_at: None,
        }
    }

    #[test]
    fn scopes_are_words() {
        for scope in Scope::ALL {
            assert_eq!(scope.to_string().parse::<Scope>().unwrap(), scope);
        }
        for bad in ["", "Read", "write", "admin "] {
            assert_eq!(bad.parse::<Scope>().unwrap_err().field, "scope");
        }
    }

    #[test]
    fn patterns_name_queues() {
        let matches = |pattern: &str, queue: &str| {
            pattern.parse::<NamePattern>().unwrap().matches(&Name::queue(queue).unwrap())
        };
        assert!(matches("*", "anything"));
        assert!(matches("mail-*", "mail-fast") && matches("mail-*", "mail-") && !matches("mail-*", "mail"));
        assert!(matches("mail", "mail") && !matches("mail", "mail-fast") && !matches("mail", "Mail"));
        let long = "x".repeat(limits::NAME_LENGTH + 1);
        for bad in ["", "**", "a*b", "*a", "a b", "a\0*", &long, &format!("{long}*")] {
            assert_eq!(bad.parse::<NamePattern>().unwrap_err().field, "pattern", "{bad:?}");
        }
    }

    #[test]
    fn a_token_allows_what_it_says() {
        let submit = token();
        assert!(submit.allows(Scope::Submit) && !submit.allows(Scope::Read) && !submit.allows(Scope::Admin));
        let admin = AccessToken { scopes: BTreeSet::from([Scope::Admin]), queues: Vec::new(), ..token() };
        assert!(Scope::ALL.into_iter().all(|scope| admin.allows(scope)));
        let queue = |name: &str| Name::queue(name).unwrap();
        assert!(submit.allows_queue(&queue("mail-fast")) && submit.allows_queue(&queue("reports")));
        assert!(!submit.allows_queue(&queue("other")) && admin.allows_queue(&queue("other")));
        let namespace = |name: &str| Name::namespace(name).unwrap();
        assert!(submit.allows_namespace(&namespace("acme")) && !submit.allows_namespace(&namespace("acme2")));
        let anywhere = AccessToken { namespaces: Vec::new(), ..token() };
        assert!(anywhere.allows_namespace(&namespace("other")));
    }

    #[test]
    fn a_token_ends_at_its_moment() {
        let at = Timestamp::from_micros(10);
        let token = AccessToken { expires_at: Some(at), ..token() };
        assert!(!token.has_expired(Timestamp::from_micros(9)) && token.has_expired(at));
        assert!(!AccessToken { expires_at: None, ..token }.has_expired(Timestamp::MAX));
    }

    #[test]
    fn a_rotated_token_accepts_the_secret_before_for_a_while() {
        let (mut token, at) = (token(), Timestamp::from_micros);
        let secret = |n: u8| NewSecret { id: format!("{n:08x}"), digest: [n; 32] };
        let former = |token: &AccessToken| -> Vec<(String, i64)> {
            token.previous.iter().map(|one| (one.id.clone(), one.expires_at.as_micros())).collect()
        };
        let keep = Duration::from_micros(10);
        token.rotate(secret(1), keep, at(0)).unwrap();
        assert_eq!((&*token.id, former(&token)), ("00000001", vec![("0123abcd".into(), 10)]));
        token.rotate(secret(1), keep, at(5)).unwrap();
        assert_eq!(former(&token), [("0123abcd".into(), 10)], "the same once more changes nothing");
        // The answer of the first was lost: what everybody uses is still accepted after the second.
        token.rotate(secret(2), keep, at(9)).unwrap();
        assert_eq!(former(&token), [("00000001".into(), 19), ("0123abcd".into(), 10)]);
        token.rotate(secret(3), keep, at(10)).unwrap();
        assert_eq!(former(&token), [("00000002".into(), 20), ("00000001".into(), 19)], "one has ended");
        for n in 4..10 {
            token.rotate(secret(n), keep, at(10)).unwrap();
        }
        let before = token.clone();
        assert_eq!(token.rotate(secret(10), keep, at(10)).unwrap_err().field, "number of former secrets");
        assert_eq!(token, before);
        let bad = NewSecret { id: "x".into(), digest: [0; 32] };
        assert_eq!(token.rotate(bad, keep, at(10)).unwrap_err().field, "token id");
        for former in &token.previous {
            assert_eq!(former.to_string().parse::<PreviousSecret>().unwrap(), *former);
        }
        for bad in ["", "a:b:c", "0123abcd:00:1", "0123abcd", &format!("0123abcd:{}:x", "0".repeat(64))] {
            assert_eq!(bad.parse::<PreviousSecret>().unwrap_err().field, "former secret");
        }
        token.rotate(secret(10), Duration::ZERO, at(10)).unwrap();
        assert_eq!((&*token.id, former(&token)), ("0000000a", vec![]), "none is kept");
    }

    #[test]
    fn a_token_keeps_its_digest_to_itself() {
        let previous =
            PreviousSecret { id: "89abcdef".into(), digest: [0xd7; 32], expires_at: Timestamp::MIN };
        let shown = format!("{:?}", AccessToken { previous: vec![previous], ..token() });
        assert!(
            shown.contains("0123abcd")
                && shown.contains("89abcdef")
                && !shown.contains("215")
                && !shown.to_lowercase().contains("d7"),
            "{shown}"
        );
    }

    #[test]
    fn tokens_and_entries_are_checked() {
        token().check().unwrap();
        for id in ["", "0123abc", "0123ABCD", "0123abcde", "0123abc-"] {
            assert_eq!(AccessToken { id: id.into(), ..token() }.check().unwrap_err().field, "token id");
        }
        let none = AccessToken { scopes: BTreeSet::new(), ..token() };
        assert_eq!(none.check().unwrap_err().field, "number of scopes");
        let many = AccessToken { queues: vec!["*".parse().unwrap(); 257], ..token() };
        assert_eq!(many.check().unwrap_err().field, "number of queue patterns");
        let many = AccessToken { namespaces: vec!["*".parse().unwrap(); 257], ..token() };
        assert_eq!(many.check().unwrap_err().field, "number of namespace patterns");
        let many = AccessToken { groups: vec![Name::stored("a"); 65], ..token() };
        assert_eq!(many.check().unwrap_err().field, "number of groups");
        let previous = PreviousSecret { id: "XYZ".into(), digest: [0; 32], expires_at: Timestamp::MIN };
        let bad = AccessToken { previous: vec![previous], ..token() };
        assert_eq!(bad.check().unwrap_err().field, "token id");
        assert!(AccessToken { created_by: Some(String::new()), ..token() }.check().is_err());

        let entry = NewAuditEntry {
            actor: "ada".into(),
            action: "task.cancel".into(),
            subject: "01890a5d".into(),
            reason: Some("late".into()),
            namespace: None,
        };
        entry.check().unwrap();
        let long = "x".repeat(limits::TEXT_BYTES + 1);
        for (field, bad) in [
            ("actor", NewAuditEntry { actor: String::new(), ..entry.clone() }),
            ("action", NewAuditEntry { action: "x".repeat(129), ..entry.clone() }),
            ("subject", NewAuditEntry { subject: "a\0b".into(), ..entry.clone() }),
            ("reason", NewAuditEntry { reason: Some(long), ..entry.clone() }),
        ] {
            assert_eq!(bad.check().unwrap_err().field, field);
        }
        let at = Timestamp::from_micros(7);
        assert_eq!(AuditEntry::new(entry, at).at, at);
    }
}
