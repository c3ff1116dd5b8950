//! How values are written for another Windlass program, and read back: what was checked when it was made is
//! checked again, because whoever sends it may be anybody.
//!
//! Rows and requests have their forms by derivation, beside them. Here is what has a form of its own: names,
//! numbers and texts with rules. It is not how anything is stored, nor what the routes for other languages
//! speak.

use std::sync::Arc;

use serde::de::{self, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::access::{NamePattern, Scope};
use crate::event::EventId;
use crate::history::Reason;
use crate::id::{TaskId, WorkerId};
use crate::json::Json;
use crate::lane::{Entity, Lane};
use crate::time::Timestamp;
use crate::trace::TraceParent;
use crate::workflow::{Blueprint, Definition, Flaw, WorkflowId};

/// As the text that is shown, which is checked when it is read.
macro_rules! as_text {
    ($($type:ty),+ $(,)?) => {$(
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
            }
        }
    )+};
}

as_text![TaskId, WorkflowId, Entity, EventId, NamePattern, Scope, Reason, TraceParent];

impl Serialize for WorkerId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for WorkerId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// Microseconds since 1970.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(self.as_micros())
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        i64::deserialize(deserializer).map(Self::from_micros)
    }
}

/// As a text within the text: not a blank of it may be lost.
impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// Any JSON. How large and deep it may be is for those to check who accept it: what a step has gathered from
/// its items may be larger than what anybody may send.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        serde_json::from_str::<IgnoredAny>(&text).map_err(de::Error::custom)?;
        Ok(Self::stored(&text))
    }
}

/// Key, limit, and whether it is strict.
impl Serialize for Lane {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.key(), self.limit(), self.is_strict()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Lane {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let (key, limit, strict) = <(String, u32, bool)>::deserialize(deserializer)?;
        // An entity's lane may be nothing but that: with more slots it would break the promise of the others.
        let meant = Self::stored(key.clone(), limit, strict);
        let lane = match meant.entity() {
            Some(entity) => entity.as_str().parse().map(|entity| Self::of(&entity)),
            None => Self::new(&key, limit),
        };
        let lane = lane.map_err(de::Error::custom)?;
        let lane = if strict { lane.strict() } else { lane };
        if lane == meant { Ok(lane) } else { Err(de::Error::custom("the lane of an entity has one slot")) }
    }
}

/// As its definition, from which the rest follows.
impl Serialize for Blueprint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        text::serialize(self.definition(), serializer)
    }
}

impl<'de> Deserialize<'de> for Blueprint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let definition: Definition = text::deserialize(deserializer)?;
        Self::of(definition).map_err(|flaws| {
            de::Error::custom(flaws.iter().map(Flaw::to_string).collect::<Vec<_>>().join("; "))
        })
    }
}

/// As JSON text within the text: what is nested almost as deep as can be is not within something else.
pub mod text {
    use super::*;

    /// Writes it.
    pub fn serialize<T: Serialize + ?Sized, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let text = serde_json::to_string(value).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&text)
    }

    /// Reads it.
    pub fn deserialize<'de, T: de::DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        serde_json::from_str(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What many may hold.
pub mod shared {
    use super::*;

    /// Writes it.
    pub fn serialize<T: Serialize, S: Serializer>(value: &Arc<T>, serializer: S) -> Result<S::Ok, S::Error> {
        T::serialize(value, serializer)
    }

    /// Reads it.
    pub fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<T>, D::Error> {
        T::deserialize(deserializer).map(Arc::new)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::retention::Retention;
    use crate::state::State;

    fn there_and_back<T: Serialize + de::DeserializeOwned>(value: &T) -> T {
        serde_json::from_str(&serde_json::to_string(value).unwrap()).unwrap()
    }

    #[test]
    fn not_a_blank_of_a_payload_is_lost() {
        for text in [" {\"a\" : 1}\n", "1e400", r#"{"a":1,"a":2}"#, r#""\u0000\ud800""#, "-0", "\"é😀\""] {
            assert_eq!(there_and_back(&Json::payload(text).unwrap()).as_str(), text);
        }
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        assert_eq!(there_and_back(&Json::stored(&deep)).as_str(), deep, "as gathered from items");
        assert!(serde_json::from_str::<Json>("\"{\"").is_err());
    }

    #[test]
    fn the_lane_of_an_entity_stays_one() {
        let entity: Entity = "planner:42".parse().unwrap();
        for lane in [Lane::of(&entity), Lane::of(&entity).strict(), Lane::new("x", 3).unwrap()] {
            assert_eq!(there_and_back(&lane), lane);
        }
        for bad in [r#"["@planner:42",2,false]"#, r#"["@",1,false]"#, r#"["x",0,false]"#, r#"["",1,true]"#] {
            assert!(serde_json::from_str::<Lane>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_has_rules_is_checked_again() {
        assert!(serde_json::from_str::<WorkerId>("\"\"").is_err());
        assert!(serde_json::from_str::<crate::Name>("\"a b\"").is_err());
        assert!(serde_json::from_str::<TaskId>("\"7\"").is_err());
        assert!(serde_json::from_str::<Retention>(r#"[["running",{"secs":1,"nanos":0}]]"#).is_err());
        assert_eq!(serde_json::from_str::<Timestamp>("-1").unwrap(), Timestamp::MIN);
        let unsound = r#""{\"name\":\"x\",\"steps\":{\"a\":{}}}""#;
        assert!(serde_json::from_str::<Blueprint>(unsound).is_err());
        let kept = Retention::default().keep(State::Failed, Duration::from_nanos(7)).unwrap();
        assert_eq!(there_and_back(&kept), kept);
    }
}
