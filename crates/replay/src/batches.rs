//! Whether a recorded program submits as many requests as it has reaped, or batches of a fixed size.
//!
//! In the former case, the replay merges and divides submissions: if it has reaped more or fewer at once than the
//! recording had, the program would have submitted more or fewer at once. In the latter case, the program submits its
//! batches regardless of how much it has reaped.

/// The type of a thread's batches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Too few submissions to decide.
    #[default]
    Unknown,
    /// All submissions have the same size.
    Fixed,
    /// Each submission has as many requests as were reaped.
    AsReaped,
    /// The sizes are independent of the number reaped.
    Varied,
}

/// The batches of all threads.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Batches {
    /// The type for the thread with the most requests.
    pub kind: Kind,
    /// Mean requests per submission.
    pub mean: f64,
}

/// With fewer submissions, the type is unknown.
const FEWEST: usize = 20;
/// The share of submissions that determines the type.
const MOST: f64 = 0.9;

/// Classifies submissions: (chains submitted, chain ends reaped since the previous submission). The first submissions
/// fill the queue and do not count.
pub fn kind(submissions: &[(u32, u32)]) -> Kind {
    let filled = submissions.iter().position(|(_, reaped)| *reaped > 0).unwrap_or(submissions.len());
    let steady = &submissions[filled..];
    if steady.len() < FEWEST {
        return Kind::Unknown;
    }
    let share = |of: &dyn Fn(&(u32, u32)) -> bool| steady.iter().filter(|s| of(s)).count() as f64 / steady.len() as f64;
    let mut sizes: Vec<u32> = steady.iter().map(|(n, _)| *n).collect();
    sizes.sort_unstable();
    let usual = sizes[sizes.len() / 2];
    match () {
        () if share(&|(n, _)| *n == usual) >= MOST => Kind::Fixed,
        () if share(&|(n, reaped)| n == reaped) >= MOST => Kind::AsReaped,
        () => Kind::Varied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_of_constant_size_are_fixed_for_any_reaped_count() {
        let steady: Vec<(u32, u32)> = (0..100).map(|i| (8, 7 + i % 3)).collect();
        assert_eq!(kind(&steady), Kind::Fixed);
        // A program that fills its queue does not reap.
        let filling: Vec<(u32, u32)> = [(1, 0); 16].into_iter().chain((0..50).map(|_| (1, 1))).collect();
        assert_eq!(kind(&filling), Kind::Fixed);
    }

    #[test]
    fn batches_as_large_as_the_reaped_count_are_as_reaped() {
        let steady: Vec<(u32, u32)> = (0..100).map(|i| (1 + i % 4, 1 + i % 4)).collect();
        assert_eq!(kind(&steady), Kind::AsReaped);
        let varied: Vec<(u32, u32)> = (0..100).map(|i| (1 + i % 4, 1 + i % 5)).collect();
        assert_eq!((kind(&varied), kind(&steady[..10])), (Kind::Varied, Kind::Unknown));
    }
}
