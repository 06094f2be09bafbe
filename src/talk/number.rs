//! The numbers that reductions combine, and the encoding of arrays of them: native byte order.

use libi_comm::reduce::Element;
use libi_comm::{Bytes, CommError};

/// A number that [`reduce`](crate::Member::reduce) and [`allreduce`](crate::Member::allreduce) can
/// combine.
pub trait Number: sealed::Number {}

pub(crate) mod sealed {
    use super::Element;

    pub trait Number: Copy + Send + 'static {
        const ELEMENT: Element;
        fn encode(numbers: &[Self]) -> Vec<u8>;
        /// `None` if these are not whole numbers.
        fn decode(bytes: &[u8]) -> Option<Vec<Self>>;
    }
}

macro_rules! number {
    ($($type:ty: $element:ident),*) => {$(
        impl Number for $type {}

        impl sealed::Number for $type {
            const ELEMENT: Element = Element::$element;

            fn encode(numbers: &[Self]) -> Vec<u8> {
                numbers.iter().map(|number| number.to_ne_bytes()).collect::<Vec<_>>().into_flattened()
            }

            fn decode(bytes: &[u8]) -> Option<Vec<Self>> {
                let (numbers, rest) = bytes.as_chunks();
                rest.is_empty().then(|| numbers.iter().map(|bytes| Self::from_ne_bytes(*bytes)).collect())
            }
        }
    )*};
}

number!(u8: U8, i32: I32, u32: U32, i64: I64, u64: U64, f32: F32, f64: F64);

/// Encodes an array.
pub(crate) fn bytes_of<T: Number>(numbers: &[T]) -> Bytes {
    T::encode(numbers).into()
}

/// Decodes an array.
pub(crate) fn numbers_in<T: Number>(bytes: &[u8]) -> Result<Vec<T>, CommError> {
    T::decode(bytes).ok_or_else(|| CommError::NotAnArray { length: bytes.len(), element: T::ELEMENT.size() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_arrive_as_they_were() {
        let numbers = [f64::MIN, -0.0, 1.5];
        assert_eq!(numbers_in(&bytes_of(&numbers)), Ok(numbers.to_vec()));
        assert_eq!(numbers_in(&bytes_of(&[i32::MIN, 7])), Ok(vec![i32::MIN, 7]));
        assert_eq!(numbers_in::<u8>(&[]), Ok(vec![]));
    }

    #[test]
    fn half_a_number_is_no_array() {
        assert_eq!(numbers_in::<u64>(&[0; 12]), Err(CommError::NotAnArray { length: 12, element: 8 }));
    }
}
