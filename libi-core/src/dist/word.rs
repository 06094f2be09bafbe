//! Byte strings that a process can be started with.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A byte string without a NUL: a path, an argument, the value of a variable. It need not be UTF-8, because
/// what an operating system accepts need not be.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(Vec<u8>);

/// A NUL ends every string that the operating system is given, so that none can contain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is a NUL at byte {at}; no argument, path or variable can contain one")]
pub struct NotAWord {
    /// Where it is, from 0.
    pub at: usize,
}

impl Word {
    /// These bytes.
    ///
    /// # Errors
    /// When there is a NUL among them.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NotAWord> {
        let bytes = bytes.into();
        match bytes.iter().position(|&byte| byte == 0) {
            Some(at) => Err(NotAWord { at }),
            None => Ok(Self(bytes)),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Word {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl TryFrom<&str> for Word {
    type Error = NotAWord;

    fn try_from(text: &str) -> Result<Self, NotAWord> {
        Self::new(text)
    }
}

/// What is not UTF-8 is shown as the replacement character.
impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

impl fmt::Debug for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&String::from_utf8_lossy(&self.0), f)
    }
}

impl Serialize for Word {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }
}

struct Bytes;

impl<'de> Visitor<'de> for Bytes {
    type Value = Word;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes without a NUL")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Word, E> {
        Word::new(bytes).map_err(E::custom)
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Word, E> {
        Word::new(bytes).map_err(E::custom)
    }

    /// Formats without byte strings write lists of numbers; the length they claim is not believed.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Word, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = seq.next_element()? {
            bytes.push(byte);
        }
        Word::new(bytes).map_err(de::Error::custom)
    }
}

/// An environment variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(Word, Word)", into = "(Word, Word)")]
pub struct Variable {
    name: Word,
    value: Word,
}

/// No environment can hold this variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAVariable {
    /// A variable has a name.
    #[error("a variable without a name, with the value {0:?}")]
    NoName(Word),
    /// The name would end at its `=`.
    #[error("the name {0:?} of a variable contains `=`")]
    Equals(Word),
}

impl Variable {
    /// This name with this value.
    ///
    /// # Errors
    /// When the name is empty or contains `=`.
    pub fn new(name: Word, value: Word) -> Result<Self, NotAVariable> {
        if name.0.is_empty() {
            return Err(NotAVariable::NoName(value));
        }
        if name.0.contains(&b'=') {
            return Err(NotAVariable::Equals(name));
        }
        Ok(Self { name, value })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &Word {
        &self.name
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> &Word {
        &self.value
    }
}

impl TryFrom<(Word, Word)> for Variable {
    type Error = NotAVariable;

    fn try_from((name, value): (Word, Word)) -> Result<Self, NotAVariable> {
        Self::new(name, value)
    }
}

impl From<Variable> for (Word, Word) {
    fn from(variable: Variable) -> Self {
        (variable.name, variable.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Word {
        Word::try_from(text).unwrap()
    }

    #[test]
    fn a_nul_is_refused_with_its_place_also_when_it_comes_over_the_wire() {
        assert_eq!(Word::new(*b"ab\0c"), Err(NotAWord { at: 2 }));
        let sent = postcard::to_allocvec(&word("abc")).unwrap();
        assert_eq!(postcard::from_bytes::<Word>(&sent).unwrap(), word("abc"));
        let forged = [3, b'a', 0, b'c'];
        assert!(postcard::from_bytes::<Word>(&forged).is_err());
    }

    #[test]
    fn bytes_that_are_not_utf8_are_kept_as_they_are() {
        let path = Word::new([b'/', 0xff, b'x']).unwrap();
        let sent = postcard::to_allocvec(&path).unwrap();
        assert_eq!(postcard::from_bytes::<Word>(&sent).unwrap().as_bytes(), [b'/', 0xff, b'x']);
    }

    #[test]
    fn a_variable_without_a_name_or_with_an_equals_sign_in_it_is_refused() {
        assert_eq!(Variable::new(word(""), word("x")), Err(NotAVariable::NoName(word("x"))));
        assert_eq!(Variable::new(word("a=b"), word("x")), Err(NotAVariable::Equals(word("a=b"))));
        let forged = postcard::to_allocvec(&(word(""), word("x"))).unwrap();
        assert!(postcard::from_bytes::<Variable>(&forged).is_err());
        assert!(Variable::new(word("a"), word("")).is_ok(), "an empty value is one");
    }
}
