//! A small sysfs and procfs with known values in a temporary directory, for tests.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

pub struct Tree(tempfile::TempDir);

impl Default for Tree {
    fn default() -> Self {
        Self::new()
    }
}

impl Tree {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub fn root(&self) -> &Path {
        self.0.path()
    }

    pub fn dir(self, path: &str) -> Self {
        fs::create_dir_all(self.root().join(path)).expect("a folder of the tree");
        self
    }

    pub fn file(self, path: &str, text: &str) -> Self {
        let at = self.root().join(path);
        fs::create_dir_all(at.parent().expect("a path below the root")).expect("a folder of the tree");
        fs::write(at, text).expect("a file of the tree");
        self
    }

    /// A symlink from `path` to `target`, which is relative to the root like paths in sysfs.
    pub fn link(self, path: &str, target: &str) -> Self {
        let at = self.root().join(path);
        fs::create_dir_all(at.parent().expect("a path below the root")).expect("a folder of the tree");
        symlink(self.root().join(target), at).expect("a link of the tree");
        self
    }
}
