//! Records as few bytes, for the memory of this process: they hold neither names nor types, and only this program reads what it wrote.
//!
//! A list begins with its length, an option with whether there is a value, a variant with its number. A struct begins with the number
//! of fields that its `skip_serializing_if` left out, and which these are; the others follow in their order. What is a map to serde
//! (a JSON object, a struct with a flattened field) stands as JSON text, since it needs its names. [`Shared`](crate::shared::Shared)
//! parts are left out: whoever writes keeps them.

mod read;
mod write;

use serde::Serialize;
use serde::de::DeserializeOwned;
pub use serde_json::Error;

/// Appends it.
pub fn write<T: Serialize>(value: &T, to: &mut Vec<u8>) -> Result<(), Error> {
    value.serialize(write::Writer(to))
}

/// Takes from the front what was written of the same type.
pub fn read<T: DeserializeOwned>(from: &mut &[u8]) -> Result<T, Error> {
    T::deserialize(read::Reader(from))
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use serde::Deserialize;
    use serde_json::{Map, Value, json};

    use super::*;
    use crate::shared::Shared;

    #[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
    enum Variant {
        Unit,
        Newtype(i64),
        Tuple(u8, u8),
        Struct {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            left_out: Option<bool>,
            there: char,
        },
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Flat {
        before: u64,
        #[serde(flatten)]
        inner: Inner,
    }

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Inner {
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        list: Vec<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        option: Option<f64>,
        number: i32,
    }

    fn same<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
        let mut bytes = Vec::new();
        write(&value, &mut bytes).unwrap();
        let mut rest = bytes.as_slice();
        assert_eq!(read::<T>(&mut rest).unwrap(), value);
        assert_eq!(rest, [0; 0], "{value:?}");
        for cut in 0..bytes.len() {
            assert!(read::<T>(&mut &bytes[..cut]).is_err(), "{cut} bytes of {value:?}");
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        same((u64::MAX, i64::MIN, -1i8, u16::MAX, 127u8, 128u32));
        same((1.0f64 / 3.0, f64::INFINITY, 0.1f32, true, 'ß'));
        same((String::from("text"), String::new(), Some(String::from("ü")), None::<u8>));
        same(vec![Variant::Unit, Variant::Newtype(-5), Variant::Tuple(1, 2)]);
        same([Some(true), None].map(|left_out| Variant::Struct { left_out, there: 'x' }));
        same(Inner { list: vec!["a".into()], option: Some(0.1), number: -7 });
        same(vec![Inner::default(), Inner { option: Some(1e300), ..Inner::default() }]);
        same(Flat { before: 1 << 60, inner: Inner { option: Some(0.1 + 0.2), ..Inner::default() } });
        let map = json!({"n": null, "text": "x", "list": [1, -2, 0.30000000000000004, {"deep": u64::MAX}]});
        same::<Map<String, Value>>(map.as_object().unwrap().clone());
    }

    #[test]
    fn shared_parts_are_left_out() {
        let mut bytes = Vec::new();
        write(&(1u8, Shared::from(String::from("a long text")), 2u8), &mut bytes).unwrap();
        assert_eq!(bytes, [1, 2]);
        assert_eq!(read::<(u8, Shared<String>, u8)>(&mut bytes.as_slice()).unwrap(), (1, Shared::default(), 2));
    }

    #[test]
    fn what_needs_types_in_the_bytes_is_refused() {
        let mut bytes = Vec::new();
        write(&json!(1), &mut bytes).unwrap();
        assert!(read::<Value>(&mut bytes.as_slice()).is_err());
    }
}
