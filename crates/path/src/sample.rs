//! CPU samples and their sums.

use std::collections::BTreeMap;

use super::place;
use iotrail_schema::place::Place;

/// A set of equal samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sample {
    /// 0 if the CPU was idle, or in an interrupt from idle.
    pub tgid: u32,
    /// Thread name; empty for idle.
    pub comm: String,
    pub cpu: u32,
    pub stack: Stack,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stack {
    User,
    /// Functions, innermost first; empty if the kernel could not unwind the stack.
    Kernel(Vec<String>),
}

impl Sample {
    pub fn is_idle(&self) -> bool {
        self.tgid == 0
    }

    /// The place to which the sample is attributed.
    pub fn place(&self) -> Place {
        match &self.stack {
            Stack::User => Place::User,
            Stack::Kernel(frames) => place::of_stack(frames),
        }
    }

    pub fn frames(&self) -> &[String] {
        match &self.stack {
            Stack::User => &[],
            Stack::Kernel(frames) => frames,
        }
    }
}

/// Samples by place.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    pub by_place: BTreeMap<Place, u64>,
    /// Innermost functions that are in no table, most frequent first.
    pub unplaced: Vec<(String, u64)>,
}

impl Tally {
    pub fn of<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Self {
        let mut by_place = BTreeMap::new();
        let mut unplaced: BTreeMap<&str, u64> = BTreeMap::new();
        for sample in samples {
            let place = sample.place();
            *by_place.entry(place).or_default() += sample.count;
            if place == Place::Other {
                let function = sample.frames().first().map_or("[no stack]", |f| place::base(f));
                *unplaced.entry(function).or_default() += sample.count;
            }
        }
        let mut unplaced: Vec<_> = unplaced.into_iter().map(|(f, n)| (f.to_owned(), n)).collect();
        unplaced.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        Tally { by_place, unplaced }
    }

    pub fn all(&self) -> u64 {
        self.by_place.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_is_attributed_to_one_place() {
        let kernel = |frames: &[&str]| Stack::Kernel(frames.iter().map(|f| f.to_string()).collect());
        let of = |stack, count| Sample { tgid: 7, comm: "x".into(), cpu: 0, stack, count };
        let samples = [
            of(Stack::User, 5),
            of(kernel(&["_copy_to_iter", "filemap_read"]), 3),
            of(kernel(&["never_heard_of.cold", "nor_of_this"]), 2),
            of(kernel(&["nor_of_this"]), 4),
            of(kernel(&[]), 1),
        ];
        let tally = Tally::of(&samples);
        assert_eq!(tally.all(), 15);
        let by_place = [(Place::User, 5), (Place::Copy, 3), (Place::Other, 7)];
        assert_eq!(tally.by_place, BTreeMap::from(by_place));
        let unplaced = [("nor_of_this", 4), ("never_heard_of", 2), ("[no stack]", 1)];
        assert_eq!(tally.unplaced, unplaced.map(|(f, n)| (f.to_owned(), n)));
    }
}
