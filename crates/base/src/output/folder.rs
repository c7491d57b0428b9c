//! Several files in a directory, all or none. They are created in a temporary directory inside it and then moved to
//! their paths. If one cannot be moved, the previous ones are removed again.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::refusal::{cannot_make, exists};
use super::{Existing, free};
use crate::error::{Error, Result};
use crate::interrupt;

/// If dropped before [`finish`](Self::finish), nothing remains.
pub struct Folder {
    root: PathBuf,
    existing: Existing,
    option: &'static str,
    under_way: Option<TempDir>,
    /// Directories that were created, parents first.
    made: Vec<PathBuf>,
    /// Moved files, each with the backup of the file that it replaced.
    put: Vec<(PathBuf, Option<PathBuf>)>,
    was_asked: bool,
}

impl Folder {
    /// Creates the directory, with a temporary one inside for incomplete files.
    pub fn open(root: &Path, existing: Existing, option: &'static str) -> Result<Self> {
        if root.exists() && !root.is_dir() {
            return Err(Error::input(format!("{} is not a directory", root.display()), "specify a directory"));
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

    /// The directory in which files are created.
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

    /// Moves a complete file from [`under_way`](Self::under_way) to its path, and creates missing directories.
    pub fn put(&mut self, made: &Path, place: &Path) -> Result<()> {
        if interrupt::is_asked() && !self.was_asked {
            return Err(Error::machine(
                format!("stopped while writing {}", self.root.display()),
                "no partial results were kept",
            ));
        }
        let to = self.root.join(place);
        if let Some(folder) = to.parent() {
            let inner = folder.ancestors().take_while(|p| *p != self.root);
            if let Some(link) = inner.filter(|p| p.is_symlink()).last() {
                let what = format!("{} is a symlink, which may point outside {}", link.display(), self.root.display());
                return Err(Error::input(what, format!("specify another directory with {}", self.option)));
            }
            self.make(folder)?;
        }
        free(&to, self.existing)?;
        let failed = |e| cannot_make(&to, self.option, e);
        let replaced = self.existing == Existing::Replace && to.symlink_metadata().is_ok();
        let before = replaced.then(|| self.under_way().join(format!("before-{}", self.put.len())));
        if let Some(before) = &before {
            std::fs::rename(&to, before).map_err(failed)?;
        }
        // From here on a failure must undo it.
        self.put.push((to.clone(), before));
        // Does not replace the file if another one appeared in the meantime, or if the file system does not support
        // this rename.
        match renameat_with(CWD, made, CWD, &to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            Err(Errno::INVAL | Errno::NOSYS) => std::fs::rename(made, &to).map_err(failed),
            Err(Errno::EXIST) => {
                // A file that appeared in the meantime must not be removed.
                self.put.pop_if(|(_, before)| before.is_none());
                Err(exists(&to, self.existing))
            }
            Err(e) => Err(failed(e.into())),
        }
    }

    /// Marks the directory as complete.
    pub fn finish(mut self) {
        self.made.clear();
        self.put.clear();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A file that cannot be removed now belongs to another process. The original error is reported.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_follows_no_symlink_and_overwrites_no_file() {
        let place = tempfile::tempdir().unwrap();
        let (root, elsewhere) = (place.path().join("root"), place.path().join("elsewhere"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::fs::create_dir(&root).unwrap();
        std::os::unix::fs::symlink("../elsewhere", root.join("link")).unwrap();
        std::os::unix::fs::symlink("../elsewhere/file", root.join("dangling")).unwrap();
        std::fs::write(root.join("there"), "kept").unwrap();
        let put = |existing, to: &str| {
            let mut folder = Folder::open(&root, existing, "--out").unwrap();
            let made = folder.under_way().join("made");
            std::fs::write(&made, "new").unwrap();
            let done = folder.put(&made, Path::new(to)).map_err(|e| e.to_string());
            folder.finish();
            done
        };
        for existing in [Existing::Keep, Existing::Replace] {
            assert!(put(existing, "link/file").unwrap_err().contains("is a symlink, which may point outside"));
        }
        assert!(put(Existing::Keep, "dangling").unwrap_err().contains("already exists"));
        assert!(put(Existing::Keep, "there").unwrap_err().contains("already exists"));
        put(Existing::Replace, "dangling").unwrap();
        put(Existing::Keep, "a/b/new").unwrap();
        let text = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
        assert_eq!((text("there"), text("dangling"), text("a/b/new")), ("kept".into(), "new".into(), "new".into()));
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
