//! Makes a consistent copy of a store to which another process may be writing: its state between two measurements.

use std::path::Path;

use super::Store;
use iotrail_base::error::Result;

impl Store {
    /// Writes a copy to `to`, which must not exist.
    pub fn copy_to(&self, to: &Path) -> Result<()> {
        let copied = self.db.execute("VACUUM INTO ?1", [to.display().to_string()]);
        copied.map(drop).map_err(|e| self.fail(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_testing::run::two_by_two;
    use iotrail_testing::sample;

    #[test]
    fn a_copy_of_a_store_contains_all_data_stored_before() {
        let dir = tempfile::tempdir().unwrap();
        let (at, copy) = (dir.path().join("s.db"), dir.path().join("copy.db"));
        let mut store = Store::create_or_open(&at).unwrap();
        let run = store.begin(&two_by_two(), "{}").unwrap();
        store.save(run, 1, 1, &sample::measurement(), &sample::histogram()).unwrap();
        Store::open(&at).unwrap().unwrap().copy_to(&copy).unwrap();
        store.save(run, 1, 2, &sample::measurement(), &sample::histogram()).unwrap();
        let copied = Store::open(&copy).unwrap().unwrap();
        assert_eq!((copied.done(run).unwrap().len(), store.done(run).unwrap().len()), (1, 2));
        assert!(store.copy_to(&copy).is_err(), "it takes the place of nothing");
    }
}
