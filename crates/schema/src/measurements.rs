//! The measurements of a cell, as objects or packed. A report that reads thousands of them keeps them packed and reads
//! through guards.
//! A guard keeps its cell unpacked while it exists, so long-lived values may not hold the guards of many cells.

use std::fmt::{self, Debug, Formatter};
use std::ops::Deref;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::measurement::{Host, LoadRecord, Measurement};
use crate::packed::{Cell, Packed};

/// A list in JSON.
#[derive(Clone)]
pub struct Measurements(Form);

#[derive(Clone)]
enum Form {
    Open(Vec<Measurement>),
    Packed(Arc<Packed>),
}

impl Measurements {
    pub fn len(&self) -> usize {
        match &self.0 {
            Form::Open(all) => all.len(),
            Form::Packed(packed) => packed.count(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does not unpack.
    pub fn first(&self) -> Option<&Measurement> {
        match &self.0 {
            Form::Open(all) => all.first(),
            Form::Packed(packed) => Some(packed.first()),
        }
    }

    /// The machine and the options of each; does not unpack.
    pub fn set_up(&self) -> impl Iterator<Item = (&Host, &LoadRecord)> {
        let (open, packed) = match &self.0 {
            Form::Open(all) => (Some(all), None),
            Form::Packed(packed) => (None, Some(packed)),
        };
        let open = open.into_iter().flatten().map(|m| (&*m.host, &*m.load));
        open.chain(packed.into_iter().flat_map(|p| p.set_up()))
    }

    pub fn all(&self) -> All<'_> {
        match &self.0 {
            Form::Open(all) => All::Open(all),
            Form::Packed(packed) => All::Unpacked(packed.unpacked()),
        }
    }

    /// Each by itself, in order.
    pub fn each(&self) -> impl Iterator<Item = One<'_>> {
        let all = self.all();
        (0..all.len()).map(move |at| One { all: all.clone(), at })
    }

    /// For changes: the measurements are no longer packed afterwards.
    pub fn open(&mut self) -> &mut Vec<Measurement> {
        if let Form::Packed(packed) = &self.0 {
            self.0 = Form::Open(packed.unpacked().all.clone());
        }
        match &mut self.0 {
            Form::Open(all) => all,
            Form::Packed(_) => unreachable!("it was opened"),
        }
    }

    pub fn into_vec(mut self) -> Vec<Measurement> {
        std::mem::take(self.open())
    }

    pub fn is_packed(&self) -> bool {
        matches!(self.0, Form::Packed(_))
    }
}

/// All measurements of a cell.
#[derive(Clone)]
pub enum All<'a> {
    Open(&'a [Measurement]),
    Unpacked(Arc<Cell>),
}

impl Deref for All<'_> {
    type Target = [Measurement];

    fn deref(&self) -> &[Measurement] {
        match self {
            All::Open(all) => all,
            All::Unpacked(cell) => &cell.all,
        }
    }
}

/// One measurement of a cell.
#[derive(Clone)]
pub struct One<'a> {
    all: All<'a>,
    at: usize,
}

impl Deref for One<'_> {
    type Target = Measurement;

    fn deref(&self) -> &Measurement {
        &self.all[self.at]
    }
}

impl<'a> From<&'a Measurement> for One<'a> {
    fn from(m: &'a Measurement) -> Self {
        One { all: All::Open(std::slice::from_ref(m)), at: 0 }
    }
}

impl Default for Measurements {
    fn default() -> Self {
        Measurements(Form::Open(Vec::new()))
    }
}

impl From<Packed> for Measurements {
    fn from(packed: Packed) -> Self {
        Measurements(Form::Packed(packed.into()))
    }
}

impl From<Vec<Measurement>> for Measurements {
    fn from(all: Vec<Measurement>) -> Self {
        Measurements(Form::Open(all))
    }
}

impl FromIterator<Measurement> for Measurements {
    fn from_iter<I: IntoIterator<Item = Measurement>>(all: I) -> Self {
        Vec::from_iter(all).into()
    }
}

impl PartialEq for Measurements {
    fn eq(&self, other: &Self) -> bool {
        *self.all() == *other.all()
    }
}

impl Debug for Measurements {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.all().fmt(f)
    }
}

impl Serialize for Measurements {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.all().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Measurements {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Vec::deserialize(from).map(Self::from)
    }
}
