//! Byte strings for the operating system: paths, arguments and environment variables.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte string without a NUL: a path, an argument, the value of a variable. It need not be UTF-8,
/// as the operating system does not require it.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OsBytes(Vec<u8>);

/// The operating system ends strings at a NUL, so none can contain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a NUL at byte {at}; no path, argument or variable can contain one")]
pub struct OsBytesError {
    /// Its position, from 0.
    pub at: usize,
}

impl OsBytes {
    /// These bytes.
    ///
    /// # Errors
    /// When there is a NUL among them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, OsBytesError> {
        let bytes = bytes.into();
        match bytes.iter().position(|&byte| byte == 0) {
            Some(at) => Err(OsBytesError { at }),
            None => Ok(Self(bytes)),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for OsBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&str> for OsBytes {
    type Error = OsBytesError;

    fn try_from(text: &str) -> Result<Self, OsBytesError> {
        Self::new(text)
    }
}

/// Invalid UTF-8 is shown as the replacement character.
impl fmt::Display for OsBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for OsBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl Serialize for OsBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for OsBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(BytesVisitor)
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = OsBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes without a NUL")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<OsBytes, E> {
        OsBytes::new(bytes).map_err(E::custom)
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<OsBytes, E> {
        OsBytes::new(bytes).map_err(E::custom)
    }

    /// Formats without byte strings write lists of numbers; their claimed length reserves nothing.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<OsBytes, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        OsBytes::new(bytes).map_err(de::Error::custom)
    }
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(OsBytes, OsBytes)", into = "(OsBytes, OsBytes)")]
pub struct EnvVar {
    name: OsBytes,
    value: OsBytes,
}

/// A variable that no environment can hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnvVarError {
    /// A variable has a name.
    #[error("a variable without a name, with the value {0:?}")]
    NoName(OsBytes),
    /// The name contains `=`, at which it would end.
    #[error("the name {0:?} of a variable contains `=`")]
    Equals(OsBytes),
}

impl EnvVar {
    /// This name with this value.
    ///
    /// # Errors
    /// When the name is empty or contains `=`.
    pub fn new(name: OsBytes, value: OsBytes) -> Result<Self, EnvVarError> {
        if name.0.is_empty() {
            return Err(EnvVarError::NoName(value));
        }
        if name.0.contains(&b'=') {
            return Err(EnvVarError::Equals(name));
        }
        Ok(Self { name, value })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &OsBytes {
        &self.name
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &OsBytes {
        &self.value
    }
}

impl TryFrom<(OsBytes, OsBytes)> for EnvVar {
    type Error = EnvVarError;

    fn try_from((name, value): (OsBytes, OsBytes)) -> Result<Self, EnvVarError> {
        Self::new(name, value)
    }
}

impl From<EnvVar> for (OsBytes, OsBytes) {
    fn from(variable: EnvVar) -> Self {
        (variable.name, variable.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> OsBytes {
        OsBytes::try_from(text).unwrap()
    }

    #[test]
    fn a_nul_is_refused_with_its_place_also_when_it_comes_over_the_wire() {
        assert_eq!(OsBytes::new(*b"ab\0c"), Err(OsBytesError { at: 2 }));
        let sent = postcard::to_allocvec(&word("abc")).unwrap();
        assert_eq!(postcard::from_bytes::<OsBytes>(&sent).unwrap(), word("abc"));
        let forged = [3, b'a', 0, b'c'];
        assert!(postcard::from_bytes::<OsBytes>(&forged).is_err());
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept_as_they_are() {
        let path = OsBytes::new([b'/', 0xff, b'x']).unwrap();
        let sent = postcard::to_allocvec(&path).unwrap();
        assert_eq!(postcard::from_bytes::<OsBytes>(&sent).unwrap().as_bytes(), [b'/', 0xff, b'x']);
    }

    #[test]
    fn a_variable_without_a_name_or_with_an_equals_sign_in_it_is_refused() {
        assert_eq!(EnvVar::new(word(""), word("x")), Err(EnvVarError::NoName(word("x"))));
        assert_eq!(EnvVar::new(word("a=b"), word("x")), Err(EnvVarError::Equals(word("a=b"))));
        let forged = postcard::to_allocvec(&(word(""), word("x"))).unwrap();
        assert!(postcard::from_bytes::<EnvVar>(&forged).is_err());
        assert!(EnvVar::new(word("a"), word("")).is_ok(), "an empty value is one");
    }
}
