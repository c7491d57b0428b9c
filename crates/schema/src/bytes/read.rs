//! A value of the bytes that were written of it.

use serde::de::value::{U32Deserializer, U64Deserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess};
use serde::de::{VariantAccess, Visitor};
use serde_json::{Error, Value};

use crate::shared::APART;

pub struct Reader<'a, 'de>(pub &'a mut &'de [u8]);

fn cut_short() -> Error {
    Error::custom("it is cut short")
}

impl<'de> Reader<'_, 'de> {
    fn byte(&mut self) -> Result<u8, Error> {
        let (byte, rest) = self.0.split_first().ok_or_else(cut_short)?;
        *self.0 = rest;
        Ok(*byte)
    }

    fn number(&mut self) -> Result<u64, Error> {
        let mut n = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            n |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(n);
            }
        }
        Err(Error::custom("a number of more than 64 bits"))
    }

    fn signed(&mut self) -> Result<i64, Error> {
        let n = self.number()?;
        Ok((n >> 1) as i64 ^ -((n & 1) as i64))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        *self.0 = rest;
        Ok(*array)
    }

    fn bytes(&mut self) -> Result<&'de [u8], Error> {
        let len = self.number()? as usize;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or_else(cut_short)?;
        *self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Result<&'de str, Error> {
        std::str::from_utf8(self.bytes()?).map_err(Error::custom)
    }
}

macro_rules! values {
    ($($name:ident($($unused:ty),*) by $visit:ident of $read:ident,)+) => {
        $(fn $name<V: Visitor<'de>>(mut self, $(_: $unused,)* visitor: V) -> Result<V::Value, Error> {
            visitor.$visit(self.$read()?)
        })+
    };
}

impl<'de> Deserializer<'de> for Reader<'_, 'de> {
    type Error = Error;

    values! {
        deserialize_i8() by visit_i64 of signed,
        deserialize_i16() by visit_i64 of signed,
        deserialize_i32() by visit_i64 of signed,
        deserialize_i64() by visit_i64 of signed,
        deserialize_u8() by visit_u64 of number,
        deserialize_u16() by visit_u64 of number,
        deserialize_u32() by visit_u64 of number,
        deserialize_u64() by visit_u64 of number,
        deserialize_str() by visit_borrowed_str of text,
        deserialize_string() by visit_borrowed_str of text,
        deserialize_bytes() by visit_borrowed_bytes of bytes,
        deserialize_byte_buf() by visit_borrowed_bytes of bytes,
    }

    /// The bytes do not say what they are of.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("the type is not in the bytes"))
    }

    fn deserialize_bool<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(self.byte()? != 0)
    }

    fn deserialize_char<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let code = u32::try_from(self.number()?).ok().and_then(char::from_u32);
        visitor.visit_char(code.ok_or_else(|| Error::custom("no character"))?)
    }

    fn deserialize_f32<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f32(f32::from_le_bytes(self.array()?))
    }

    fn deserialize_f64<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_f64(f64::from_le_bytes(self.array()?))
    }

    fn deserialize_option<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.byte()? == 0 { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, name: &'static str, visitor: V) -> Result<V::Value, Error> {
        if name == APART { visitor.visit_unit() } else { visitor.visit_newtype_struct(self) }
    }

    fn deserialize_seq<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        let len = self.number()? as usize;
        visitor.visit_seq(List { of: self, left: len })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(List { of: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_seq(List { of: self, left: len })
    }

    fn deserialize_map<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        serde_json::from_str::<Value>(self.text()?)?.deserialize_map(visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let left_out = self.bytes()?;
        visitor.visit_map(Fields { of: self, left_out, next: 0, len: fields.len() })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_enum(self)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_any(visitor)
    }
}

pub struct List<'a, 'de> {
    of: Reader<'a, 'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for List<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(Reader(self.of.0)).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

pub struct Fields<'a, 'de> {
    of: Reader<'a, 'de>,
    left_out: &'de [u8],
    next: usize,
    len: usize,
}

impl<'de> MapAccess<'de> for Fields<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        while let [first, rest @ ..] = self.left_out
            && usize::from(*first) == self.next
        {
            (self.left_out, self.next) = (rest, self.next + 1);
        }
        if self.next >= self.len {
            return Ok(None);
        }
        let at: U64Deserializer<Error> = (self.next as u64).into_deserializer();
        self.next += 1;
        seed.deserialize(at).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(Reader(self.of.0))
    }
}

impl<'de> EnumAccess<'de> for Reader<'_, 'de> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(mut self, seed: V) -> Result<(V::Value, Self), Error> {
        let at: U32Deserializer<Error> = (self.number()? as u32).into_deserializer();
        Ok((seed.deserialize(at)?, self))
    }
}

impl<'de> VariantAccess<'de> for Reader<'_, 'de> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Result<V::Value, Error> {
        self.deserialize_struct("", fields, visitor)
    }
}
