//! Physical region pages: a command's pointers to its data, one per page.
//!
//! One page: PRP1. Two pages: PRP1 and PRP2. More: PRP2 points to a list of the second and later pages. A list that
//! does not fit into a page continues on another page, to which its last entry points.

/// Page size in bytes, as configured in the controller (CC.MPS 0).
pub const PAGE: usize = 4096;
/// Entries per list page.
const ENTRIES: usize = PAGE / 8;

/// Number of list pages for a block of this many pages.
pub fn lists_needed(pages: usize) -> usize {
    match pages {
        0..=2 => 0,
        // Each list page except the last uses one entry as pointer to the next page.
        n => (n - 2).div_ceil(ENTRIES - 1).max(1),
    }
}

/// A block's two pointers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pointers {
    pub prp1: u64,
    pub prp2: u64,
}

/// `pages`: device addresses of the block's pages, at least one. `lists`: addresses of [`lists_needed`] pages for its
/// lists; their contents are appended to `filled`, [`ENTRIES`] words per page.
pub fn point(pages: &[u64], lists: &[u64], filled: &mut Vec<u64>) -> Pointers {
    debug_assert_eq!(lists.len(), lists_needed(pages.len()));
    let prp1 = pages.first().copied().unwrap_or_default();
    let rest = pages.get(1..).unwrap_or_default();
    if rest.len() < 2 {
        return Pointers { prp1, prp2: rest.first().copied().unwrap_or_default() };
    }
    let mut left = rest;
    for (n, _) in lists.iter().enumerate() {
        let next = lists.get(n + 1);
        let here = if next.is_some() { ENTRIES - 1 } else { left.len() };
        filled.extend_from_slice(&left[..here]);
        left = &left[here..];
        filled.extend(next);
        filled.resize(filled.len().next_multiple_of(ENTRIES), 0);
    }
    Pointers { prp1, prp2: lists[0] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(n: usize) -> Vec<u64> {
        (0..n as u64).map(|i| 0x10_0000 + i * 0x3000).collect()
    }

    fn built(pages: usize) -> (Pointers, Vec<u64>) {
        let lists: Vec<u64> = (0..lists_needed(pages) as u64).map(|i| 0x900_0000 + i * 0x1000).collect();
        let mut filled = Vec::new();
        (point(&addresses(pages), &lists, &mut filled), filled)
    }

    /// The pages that a controller would find.
    fn walked(pages: usize) -> Vec<u64> {
        let (p, filled) = built(pages);
        let mut found = vec![p.prp1];
        if pages == 2 {
            found.push(p.prp2);
        }
        let mut list = 0;
        while pages > 2 && found.len() < pages {
            assert_eq!(if list == 0 { p.prp2 } else { filled[list * ENTRIES - 1] }, 0x900_0000 + list as u64 * 0x1000);
            let here = &filled[list * ENTRIES..(list + 1) * ENTRIES];
            let left = pages - found.len();
            found.extend(&here[..if left > ENTRIES { ENTRIES - 1 } else { left }]);
            list += 1;
        }
        assert_eq!(list, lists_needed(pages), "{pages} pages");
        found
    }

    #[test]
    fn prp_entries_are_built_for_one_two_and_three_pages() {
        assert_eq!(built(1), (Pointers { prp1: 0x10_0000, prp2: 0 }, vec![]));
        assert_eq!(built(2), (Pointers { prp1: 0x10_0000, prp2: 0x10_3000 }, vec![]));
        let (p, list) = built(3);
        assert_eq!((p.prp2, list.len()), (0x900_0000, ENTRIES));
        assert_eq!(&list[..3], [0x10_3000, 0x10_6000, 0]);
    }

    #[test]
    fn a_prp_list_continues_on_another_page_only_if_necessary() {
        assert_eq!([2, 3, 513, 514, 1024, 1025].map(lists_needed), [0, 1, 1, 2, 2, 3]);
        for pages in [1, 2, 3, 4, 512, 513, 514, 515, 1023, 1024, 1025, 1026, 5000] {
            assert_eq!(walked(pages), addresses(pages), "{pages} pages");
        }
    }
}
