//! A value as bytes.

use serde::ser::{
    Error as _, SerializeMap, SerializeSeq, SerializeTuple, SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde::{Serialize, ser};
use serde_json::{Error, value};

use crate::shared::APART;

pub struct Writer<'a>(pub &'a mut Vec<u8>);

impl Writer<'_> {
    /// Seven bits a byte, the lowest first.
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.0.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

macro_rules! numbers {
    ($($name:ident($t:ty) $n:ident => $as:expr,)+) => {
        $(fn $name(mut self, $n: $t) -> Result<(), Error> {
            self.number($as);
            Ok(())
        })+
    };
}

/// Small numbers of either sign are small.
fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = AsJson<'a>;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    numbers! {
        serialize_bool(bool) n => n.into(),
        serialize_i8(i8) n => zigzag(n.into()),
        serialize_i16(i16) n => zigzag(n.into()),
        serialize_i32(i32) n => zigzag(n.into()),
        serialize_i64(i64) n => zigzag(n),
        serialize_u8(u8) n => n.into(),
        serialize_u16(u16) n => n.into(),
        serialize_u32(u32) n => n.into(),
        serialize_u64(u64) n => n,
        serialize_char(char) n => u32::from(n).into(),
    }

    fn serialize_f32(self, x: f32) -> Result<(), Error> {
        self.0.extend_from_slice(&x.to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, x: f64) -> Result<(), Error> {
        self.0.extend_from_slice(&x.to_le_bytes());
        Ok(())
    }

    fn serialize_str(mut self, text: &str) -> Result<(), Error> {
        self.bytes(text.as_bytes());
        Ok(())
    }

    fn serialize_bytes(mut self, bytes: &[u8]) -> Result<(), Error> {
        self.bytes(bytes);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.0.push(0);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        self.0.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        Ok(())
    }

    fn serialize_unit_variant(mut self, _: &'static str, at: u32, _: &'static str) -> Result<(), Error> {
        self.number(at.into());
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Error> {
        if name == APART { Ok(()) } else { value.serialize(self) }
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        mut self,
        _: &'static str,
        at: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.number(at.into());
        value.serialize(self)
    }

    fn serialize_seq(mut self, len: Option<usize>) -> Result<Self, Error> {
        self.number(len.ok_or_else(|| Error::custom("a list of unknown length"))? as u64);
        Ok(self)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, Error> {
        Ok(self)
    }

    fn serialize_tuple_variant(mut self, _: &'static str, at: u32, _: &'static str, _: usize) -> Result<Self, Error> {
        self.number(at.into());
        Ok(self)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<AsJson<'a>, Error> {
        Ok(AsJson { to: self, map: value::Serializer.serialize_map(len)? })
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, Error> {
        let begin = self.0.len();
        self.0.push(0);
        Ok(Fields { to: self.0, begin, next: 0, left_out: Vec::new() })
    }

    fn serialize_struct_variant(
        mut self,
        name: &'static str,
        at: u32,
        _: &'static str,
        len: usize,
    ) -> Result<Fields<'a>, Error> {
        self.number(at.into());
        self.serialize_struct(name, len)
    }
}

macro_rules! elements {
    ($($of:ident :: $one:ident,)+) => {
        $(impl $of for Writer<'_> {
            type Ok = ();
            type Error = Error;

            fn $one<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                value.serialize(Writer(self.0))
            }

            fn end(self) -> Result<(), Error> {
                Ok(())
            }
        })+
    };
}
elements! {
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field,
}

pub struct Fields<'a> {
    to: &'a mut Vec<u8>,
    /// Where the number of those that are left out stands.
    begin: usize,
    next: u8,
    left_out: Vec<u8>,
}

impl Fields<'_> {
    fn end(self) -> Result<(), Error> {
        if !self.left_out.is_empty() {
            let n = self.left_out.len() as u8;
            self.to.splice(self.begin..=self.begin, [n].into_iter().chain(self.left_out));
        }
        Ok(())
    }
}

macro_rules! fields {
    ($($of:ident,)+) => {
        $(impl ser::$of for Fields<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(&mut self, _: &'static str, value: &T) -> Result<(), Error> {
                self.next += 1;
                value.serialize(Writer(self.to))
            }

            fn skip_field(&mut self, _: &'static str) -> Result<(), Error> {
                self.left_out.push(self.next);
                self.next += 1;
                Ok(())
            }

            fn end(self) -> Result<(), Error> {
                Fields::end(self)
            }
        })+
    };
}
fields! { SerializeStruct, SerializeStructVariant, }

pub struct AsJson<'a> {
    to: Writer<'a>,
    map: <value::Serializer as Serializer>::SerializeMap,
}

impl SerializeMap for AsJson<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.map.serialize_key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.map.serialize_value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.to.serialize_str(&SerializeMap::end(self.map)?.to_string())
    }
}
