//! What a user can ask for: one of the static shapes, or late commit.

use core::fmt;
use core::num::NonZeroU32;
use core::str::FromStr;

use alloc::string::{String, ToString};

use serde::{Deserialize, Serialize};

use super::Shape;

/// How the launches of a session are distributed among its hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Strategy {
    /// A tree decided before the first launch.
    Static(Shape),
    /// The [late-commit queue](super::late): hosts are handed over only to children that have
    /// answered.
    #[default]
    Late,
}

/// The names of all strategies, as they are parsed and printed.
pub const STRATEGY_NAMES: &str = "chain, flat, kary:K, binomial, rdc, greedy, late";

/// This is not the name of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UnknownStrategy {
    /// No strategy has this name.
    #[error("there is no tree {0:?}; the trees are {STRATEGY_NAMES}")]
    Name(String),
    /// `kary:` has to be followed by the number of children per node.
    #[error("{0:?}: `kary:` needs the number of children per node, 1 or more, as in kary:16")]
    Arity(String),
}

impl FromStr for Strategy {
    type Err = UnknownStrategy;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::Static(match text {
            "late" => return Ok(Self::Late),
            "chain" => Shape::Chain,
            "flat" => Shape::Flat,
            "binomial" => Shape::Binomial,
            "rdc" => Shape::Rdc,
            "greedy" => Shape::Greedy,
            _ => match text.strip_prefix("kary:").map(NonZeroU32::from_str) {
                Some(Ok(k)) => Shape::Kary(k),
                Some(Err(_)) => return Err(UnknownStrategy::Arity(text.to_string())),
                None => return Err(UnknownStrategy::Name(text.to_string())),
            },
        }))
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Late => f.pad("late"),
            Self::Static(Shape::Chain) => f.pad("chain"),
            Self::Static(Shape::Flat) => f.pad("flat"),
            Self::Static(Shape::Kary(k)) => f.pad(&alloc::format!("kary:{k}")),
            Self::Static(Shape::Binomial) => f.pad("binomial"),
            Self::Static(Shape::Rdc) => f.pad("rdc"),
            Self::Static(Shape::Greedy) => f.pad("greedy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_comes_back_as_it_was_written() {
        for name in STRATEGY_NAMES.replace('K', "16").split(", ") {
            assert_eq!(name.parse::<Strategy>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_right_ones() {
        let error = "gredy".parse::<Strategy>().unwrap_err();
        assert!(error.to_string().contains("greedy"));
        for arity in ["kary:0", "kary:", "kary:-1", "kary:x", "kary:99999999999"] {
            assert_eq!(arity.parse::<Strategy>(), Err(UnknownStrategy::Arity(arity.to_string())));
        }
    }
}
