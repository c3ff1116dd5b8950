//! Lanes: how many tasks that share a key may be in progress. An entity is a lane of one.
//!
//! A task in a lane needs a **slot**. It takes one when it becomes pending and one is free, and keeps it
//! while it is pending, claimed or running, and a step that is a workflow until that workflow has ended; a
//! pending task without a slot is *parked*: not offered to workers. Slots are given in submit order by the
//! very change that frees them. They are a flag of the task's own row, so a slot cannot leak: who holds one
//! can be counted at any time.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::name::check_key;
use crate::rejected::Invalid;

/// Something that tasks act on, written `type:id`. At most one task of an entity is in progress.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Entity(String);

impl Entity {
    /// `planner` of `planner:42`.
    #[must_use]
    pub fn entity_type(&self) -> &str {
        self.0.split_once(':').map_or(&*self.0, |(kind, _)| kind)
    }

    /// `42` of `planner:42`.
    #[must_use]
    pub fn entity_id(&self) -> &str {
        self.0.split_once(':').map_or("", |(_, id)| id)
    }

    /// `planner:42`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// An entity that a store reads back from its own rows.
    #[must_use]
    pub fn stored(text: String) -> Self {
        Self(text)
    }
}

impl FromStr for Entity {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let legal = |b: u8| b.is_ascii_alphanumeric() || b"._-".contains(&b);
        let fits = text.len() <= limits::KEY_BYTES && !text.contains('\0');
        match text.split_once(':') {
            Some((kind, id)) if fits && !kind.is_empty() && kind.bytes().all(legal) && !id.is_empty() => {
                Ok(Self(text.into()))
            }
            _ => Err(Invalid::new("entity", text, "type:id, such as planner:42")),
        }
    }
}

impl fmt::Display for Entity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A concurrency key with a limit.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Lane {
    key: String,
    limit: u32,
    strict: bool,
}

/// Stands before an entity in a stored lane key. [`Lane::new`] refuses it, so the two cannot meet.
const ENTITY_MARK: char = '@';

impl Lane {
    /// A lane of `limit` slots. Lanes of different namespaces are different lanes.
    pub fn new(key: &str, limit: u32) -> Result<Self, Invalid> {
        check_key("lane key", key, limits::KEY_BYTES)?;
        if key.starts_with(ENTITY_MARK) {
            return Err(Invalid::new("lane key", key, "a key that does not start with @"));
        }
        if !(1..=limits::LANE_LIMIT).contains(&limit) {
            return Err(Invalid::number("lane limit", limit, "1 to 100000"));
        }
        Ok(Self { key: key.into(), limit, strict: false })
    }

    /// The lane of an entity: one slot.
    #[must_use]
    pub fn of(entity: &Entity) -> Self {
        Self { key: format!("{ENTITY_MARK}{entity}"), limit: 1, strict: false }
    }

    /// In strict order a task that has started keeps its slot while it waits for a retry or is snoozed,
    /// so that no later task overtakes it. By default it gives the slot back.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// A lane that a store reads back from its own rows.
    #[must_use]
    pub fn stored(key: String, limit: u32, strict: bool) -> Self {
        Self { key, limit, strict }
    }

    /// The key as it is stored: an entity's begins with `@`.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    /// How many may be in progress. The task at the head of the line takes a slot when fewer than *its* limit
    /// are taken.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit
    }

    /// Whether the task at the head of the line may take a slot when `taken` are taken.
    #[must_use]
    pub fn admits(&self, taken: usize) -> bool {
        u32::try_from(taken).is_ok_and(|taken| taken < self.limit)
    }

    /// Whether a started task keeps its slot until it is final.
    #[must_use]
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// The entity, if this is an entity's lane.
    #[must_use]
    pub fn entity(&self) -> Option<Entity> {
        self.key.strip_prefix(ENTITY_MARK).map(|entity| Entity(entity.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entities_and_lanes_cannot_meet() {
        let entity: Entity = "planner:a:b".parse().unwrap();
        assert_eq!((entity.entity_type(), entity.entity_id()), ("planner", "a:b"));
        let lane = Lane::of(&entity);
        assert_eq!((lane.key(), lane.limit(), lane.entity()), ("@planner:a:b", 1, Some(entity)));
        assert!(Lane::new("@planner:a", 1).is_err());
        assert_eq!(Lane::new("planner:a", 1).unwrap().entity(), None);
    }

    #[test]
    fn bad_ones_are_refused() {
        for bad in ["", ":", "a:", ":b", "a", "a b:c", "a:\0", &format!("a:{}", "x".repeat(600))] {
            assert!(bad.parse::<Entity>().is_err(), "{bad}");
        }
        assert!(Lane::new("", 1).is_err());
        assert!(Lane::new("x", 0).is_err());
        assert!(Lane::new("x", u32::MAX).is_err());
    }
}
