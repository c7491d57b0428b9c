//! Many files below one folder, all of them or none: they are made in a folder of their own within it, and then put in their
//! places. Where one cannot be put, those before it are taken back.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::refusal::cannot_make;
use super::{Existing, free};
use crate::error::{Error, Result};
use crate::interrupt;

/// Dropped before [`finish`](Self::finish), nothing of it stays.
pub struct Folder {
    root: PathBuf,
    existing: Existing,
    option: &'static str,
    under_way: Option<TempDir>,
    /// Folders that were not there before; a folder comes before those in it.
    made: Vec<PathBuf>,
    /// What was put in its place, and where that lies which was there before.
    put: Vec<(PathBuf, Option<PathBuf>)>,
    was_asked: bool,
}

impl Folder {
    /// Makes the folder, and one in it for what is not whole yet.
    pub fn open(root: &Path, existing: Existing, option: &'static str) -> Result<Self> {
        if root.exists() && !root.is_dir() {
            return Err(Error::input(format!("{} is no folder", root.display()), "name a folder"));
        }
        let mut folder = Self {
            root: root.to_owned(),
            existing,
            option,
            under_way: None,
            made: vec![],
            put: vec![],
            was_asked: interrupt::is_asked(),
        };
        folder.make(root)?;
        let under_way = tempfile::Builder::new().prefix(".iotrail-").tempdir_in(root);
        folder.under_way = Some(under_way.map_err(|e| cannot_make(root, option, e))?);
        Ok(folder)
    }

    /// Where files are made.
    pub fn under_way(&self) -> &Path {
        self.under_way.as_ref().map_or(&self.root, TempDir::path)
    }

    fn make(&mut self, folder: &Path) -> Result<()> {
        let missing: Vec<&Path> =
            folder.ancestors().take_while(|p| !p.as_os_str().is_empty() && p.symlink_metadata().is_err()).collect();
        for path in missing.into_iter().rev() {
            match std::fs::create_dir(path) {
                Ok(()) => self.made.push(path.to_owned()),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(cannot_make(path, self.option, e)),
            }
        }
        Ok(())
    }

    /// Moves a file that is whole from [`under_way`](Self::under_way) to its place, whose folders are made.
    pub fn put(&mut self, made: &Path, place: &Path) -> Result<()> {
        if interrupt::is_asked() && !self.was_asked {
            return Err(Error::machine(
                format!("stopped while writing {}", self.root.display()),
                "nothing of it was kept",
            ));
        }
        let to = self.root.join(place);
        if let Some(folder) = to.parent() {
            self.make(folder)?;
        }
        free(&to, self.existing)?;
        let failed = |e| cannot_make(&to, self.option, e);
        let before = to.symlink_metadata().is_ok().then(|| self.under_way().join(format!("before-{}", self.put.len())));
        if let Some(before) = &before {
            std::fs::rename(&to, before).map_err(failed)?;
        }
        // From here on it has to be taken back.
        self.put.push((to.clone(), before));
        std::fs::rename(made, &to).map_err(failed)
    }

    /// All of it is there.
    pub fn finish(mut self) {
        self.made.clear();
        self.put.clear();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be taken back is somebody else's by now; the error that led here is told.
        for (place, before) in self.put.drain(..).rev() {
            match before {
                Some(before) => std::fs::rename(before, place).unwrap_or(()),
                None => std::fs::remove_file(place).unwrap_or(()),
            }
        }
        drop(self.under_way.take());
        for folder in self.made.drain(..).rev() {
            std::fs::remove_dir(folder).unwrap_or(());
        }
    }
}
