//! Environment of a process: what it inherits, and what is changed for it.

use std::collections::HashMap;
use std::os::unix::ffi::OsStringExt;

use libi_core::dist::{EnvVar, OsBytes};

/// A complete environment with unique names. Of equal names the last value counts, at the position
/// of the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(Vec<EnvVar>);

impl Environment {
    /// The current environment of this process. Entries without `=` are left out.
    #[must_use]
    pub fn inherited() -> Self {
        let variable = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            let (name, value) = (OsBytes::new(name.into_vec()).ok()?, OsBytes::new(value.into_vec()).ok()?);
            EnvVar::new(name, value).ok()
        };
        std::env::vars_os().filter_map(variable).collect()
    }

    /// Adds these variables, or replaces them where they exist.
    #[must_use]
    pub fn with(mut self, changes: impl IntoIterator<Item = EnvVar>) -> Self {
        let mut places: HashMap<OsBytes, usize> =
            self.0.iter().enumerate().map(|(place, variable)| (variable.name().clone(), place)).collect();
        for change in changes {
            let place = *places.entry(change.name().clone()).or_insert(self.0.len());
            match self.0.get_mut(place) {
                Some(variable) => *variable = change,
                None => self.0.push(change),
            }
        }
        self
    }

    /// Removes the variable of this name.
    #[must_use]
    pub fn without(mut self, name: &[u8]) -> Self {
        self.0.retain(|variable| variable.name().as_bytes() != name);
        self
    }

    /// The variables, in order.
    #[must_use]
    pub fn variables(&self) -> &[EnvVar] {
        &self.0
    }

    /// The value of the variable of this name.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&OsBytes> {
        self.0.iter().find(|variable| variable.name().as_bytes() == name).map(EnvVar::value)
    }
}

impl FromIterator<EnvVar> for Environment {
    fn from_iter<I: IntoIterator<Item = EnvVar>>(variables: I) -> Self {
        Self::default().with(variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> EnvVar {
        EnvVar::new(OsBytes::try_from(name).unwrap(), OsBytes::try_from(value).unwrap()).unwrap()
    }

    #[test]
    fn of_equal_names_the_last_value_counts_in_the_place_of_the_first() {
        let first = Environment::from_iter([variable("a", "1"), variable("b", "2"), variable("a", "3")]);
        assert_eq!(first.variables(), [variable("a", "3"), variable("b", "2")]);
        let changed = first.with([variable("c", "4"), variable("b", ""), variable("c", "5")]);
        assert_eq!(changed.variables(), [variable("a", "3"), variable("b", ""), variable("c", "5")]);
    }

    #[test]
    fn a_variable_can_be_taken_away() {
        let left = Environment::from_iter([variable("a", "1"), variable("b", "2")]).without(b"a");
        assert_eq!((left.value(b"a"), left.value(b"b").map(OsBytes::as_bytes)), (None, Some(&b"2"[..])));
    }

    #[test]
    fn what_this_process_has_is_inherited() {
        let path = std::env::var_os("PATH").map(OsStringExt::into_vec);
        assert_eq!(Environment::inherited().value(b"PATH").map(OsBytes::as_bytes), path.as_deref());
    }
}
