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
        fn append(self, bytes: &mut Vec<u8>);
        fn read(bytes: &[u8]) -> Option<Self>;
    }
}

macro_rules! number {
    ($($type:ty: $element:ident),*) => {$(
        impl Number for $type {}

        impl sealed::Number for $type {
            const ELEMENT: Element = Element::$element;

            fn append(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_ne_bytes());
            }

            fn read(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_ne_bytes)
            }
        }
    )*};
}

number!(u8: U8, i32: I32, u32: U32, i64: I64, u64: U64, f32: F32, f64: F64);

/// Encodes an array.
pub(crate) fn bytes_of<T: Number>(numbers: &[T]) -> Bytes {
    let mut bytes = Vec::with_capacity(size_of_val(numbers));
    numbers.iter().for_each(|number| number.append(&mut bytes));
    bytes.into()
}

/// Decodes an array.
pub(crate) fn numbers_in<T: Number>(bytes: &[u8]) -> Result<Vec<T>, CommError> {
    let numbers = bytes.chunks(T::ELEMENT.size()).map(T::read).collect();
    let no_array = || CommError::NotAnArray { length: bytes.len(), element: T::ELEMENT.size() };
    Option::ok_or_else(numbers, no_array)
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
