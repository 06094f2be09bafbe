//! Serialisation of host lists: as their folded text, which is checked again on arrival.

use core::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::HostList;

impl Serialize for HostList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.fold())
    }
}

impl<'de> Deserialize<'de> for HostList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(FoldedText)
    }
}

struct FoldedText;

impl Visitor<'_> for FoldedText {
    type Value = HostList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a host list")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<HostList, E> {
        HostList::parse(text).map_err(E::custom)
    }
}
