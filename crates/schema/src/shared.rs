//! What many measurements have in common, held once: a run of ten thousand has one machine.

use std::fmt::{self, Formatter};
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// In JSON as what it holds. Whoever changes it has a copy of his own.
#[derive(Debug, Default, PartialEq)]
pub struct Shared<T>(Arc<T>);

impl<T: PartialEq> Shared<T> {
    /// Becomes one with the first of `known` that is the same; else those know it from now on.
    pub fn join(&mut self, known: &mut Vec<Shared<T>>) {
        match known.iter().find(|one| *one == self) {
            Some(one) => *self = one.clone(),
            None => known.push(self.clone()),
        }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

/// What serde calls it: a format that leaves it out knows it by this, and takes `()` for what is to be put back.
pub const APART: &str = "Shared";

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_newtype_struct(APART, &*self.0)
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_newtype_struct(APART, Whole(PhantomData))
    }
}

struct Whole<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for Whole<T> {
    type Value = Shared<T>;

    fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("what is held once")
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, from: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(from).map(Shared::from)
    }

    fn visit_unit<E>(self) -> Result<Shared<T>, E> {
        Ok(Shared::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_ones_are_held_once_until_one_is_changed() {
        let mut known = Vec::new();
        let mut all: Vec<Shared<String>> = ["a", "b", "a"].map(|text| text.to_owned().into()).into();
        all.iter_mut().for_each(|one| one.join(&mut known));
        assert_eq!(known.len(), 2);
        assert!(Arc::ptr_eq(&all[0].0, &all[2].0));
        all[2].push('x');
        assert_eq!(all.iter().map(|one| one.as_str()).collect::<Vec<_>>(), ["a", "b", "ax"]);
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"["a","b","ax"]"#);
        assert_eq!(serde_json::from_str::<Vec<Shared<String>>>(r#"["a","b","ax"]"#).unwrap(), all);
    }
}
