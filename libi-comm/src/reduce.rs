//! How values are combined in the tree.
//!
//! The predefined operations work element by element on arrays of numbers in native byte order.
//! They are commutative, so values are combined in the order of their arrival. Only a sum of
//! floating-point numbers can therefore differ in its last bits from run to run. A function of the
//! program has to be associative and need not be commutative: its operands are always adjacent, and
//! the left one is of the lower ranks.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A predefined operation on two elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Op {
    /// The sum. Integers wrap around.
    Sum,
    /// The minimum. A NaN loses against any number.
    Min,
    /// The maximum. A NaN loses against any number.
    Max,
    /// Bitwise and. Not defined for floating-point numbers.
    And,
    /// Bitwise or. Not defined for floating-point numbers.
    Or,
}

/// The type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the variants have the names of the types")]
#[non_exhaustive]
pub enum Element {
    U8,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
}

impl Element {
    /// The size in bytes.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::U8 => 1,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }
}

/// A function that combines two values, the left and the right one, into the first argument.
pub type Combine = dyn Fn(&mut Vec<u8>, &[u8]) + Send + Sync;

/// How two values are combined.
#[derive(Clone)]
pub enum Reducer {
    /// Element by element.
    Elements(Op, Element),
    /// By a function of the program. All members must give the same one.
    Custom(Arc<Combine>),
}

impl Reducer {
    /// Combines by this associative function of the left value, which becomes the result, and the
    /// right value.
    pub fn by(function: impl Fn(&mut Vec<u8>, &[u8]) + Send + Sync + 'static) -> Self {
        Self::Custom(Arc::new(function))
    }

    /// Whether the operation is defined for the type of the elements.
    #[must_use]
    pub const fn exists(&self) -> bool {
        !matches!(self, Self::Elements(Op::And | Op::Or, element) if element.is_float())
    }
}

impl fmt::Debug for Reducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements(op, element) => write!(f, "{op:?} of {element:?}"),
            Self::Custom(_) => f.write_str("a function"),
        }
    }
}

/// Combines two arrays of the same length into the first.
pub(crate) fn combine(op: Op, element: Element, into: &mut [u8], other: &[u8]) {
    macro_rules! each {
        ($type:ty, $with:expr) => {{
            const SIZE: usize = size_of::<$type>();
            for (a, b) in into.chunks_exact_mut(SIZE).zip(other.chunks_exact(SIZE)) {
                let (Ok(x), Ok(y)) = (<[u8; SIZE]>::try_from(&*a), <[u8; SIZE]>::try_from(b)) else {
                    continue;
                };
                let with: fn($type, $type) -> $type = $with;
                let both = with(<$type>::from_ne_bytes(x), <$type>::from_ne_bytes(y));
                a.copy_from_slice(&both.to_ne_bytes());
            }
        }};
    }
    macro_rules! integers {
        ($type:ty) => {
            match op {
                Op::Sum => each!($type, |a, b| a.wrapping_add(b)),
                Op::Min => each!($type, |a, b| a.min(b)),
                Op::Max => each!($type, |a, b| a.max(b)),
                Op::And => each!($type, |a, b| a & b),
                Op::Or => each!($type, |a, b| a | b),
            }
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            match op {
                Op::Sum => each!($type, |a, b| a + b),
                Op::Min => each!($type, |a, b| a.min(b)),
                Op::Max => each!($type, |a, b| a.max(b)),
                Op::And | Op::Or => {}
            }
        };
    }
    match element {
        Element::U8 => integers!(u8),
        Element::I32 => integers!(i32),
        Element::U32 => integers!(u32),
        Element::I64 => integers!(i64),
        Element::U64 => integers!(u64),
        Element::F32 => floats!(f32),
        Element::F64 => floats!(f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded<const N: usize>(op: Op, element: Element, a: [u8; N], b: [u8; N]) -> [u8; N] {
        let mut into = a;
        combine(op, element, &mut into, &b);
        into
    }

    #[test]
    fn elements_are_combined_as_numbers_of_their_type() {
        let i32s = |op, a: i32, b: i32| {
            i32::from_ne_bytes(folded(op, Element::I32, a.to_ne_bytes(), b.to_ne_bytes()))
        };
        assert_eq!(i32s(Op::Sum, i32::MAX, 1), i32::MIN);
        assert_eq!((i32s(Op::Min, -1, 1), i32s(Op::Max, -1, 1)), (-1, 1));
        let u32s = |op, a: u32, b: u32| {
            u32::from_ne_bytes(folded(op, Element::U32, a.to_ne_bytes(), b.to_ne_bytes()))
        };
        assert_eq!((u32s(Op::Min, u32::MAX, 1), u32s(Op::And, 6, 3), u32s(Op::Or, 6, 3)), (1, 2, 7));
        let f64s = |op, a: f64, b: f64| {
            f64::from_ne_bytes(folded(op, Element::F64, a.to_ne_bytes(), b.to_ne_bytes()))
        };
        assert_eq!((f64s(Op::Sum, 0.5, 0.25), f64s(Op::Max, -2.0, f64::NAN)), (0.75, -2.0));
        assert_eq!(folded(Op::Sum, Element::U8, [1, 255, 3], [1, 1, 1]), [2, 0, 4]);
    }

    #[test]
    fn bit_operations_are_not_defined_for_floats() {
        assert!(!Reducer::Elements(Op::And, Element::F64).exists());
        assert!(Reducer::Elements(Op::And, Element::U64).exists() && Reducer::by(|_, _| {}).exists());
    }
}
