//! iotrail's own directories in places where other users may also write (`/var/tmp`, a home directory kept by `sudo`).
//! They are created by this process, or verified before anything in them is opened.
//!
//! If root writes below another user's directory, that user's symlinks decide where. So each path component is opened
//! without following symlinks. Directories and symlinks must belong to this user, to root, or to the owner of `/`. A
//! directory that others can write to must be sticky, so that no other user can rename its entries. The last directory
//! must belong to this user, and no other user may write to it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::error::{Error, Result};

/// The kernel's limit for symlinks.
const LINKS: usize = 40;

const STICKY: u32 = libc::S_ISVTX;

/// Creates the directory and missing parents, accessible only to this user; verifies existing ones. `remedy`: how to
/// specify another path.
pub fn make(dir: &Path, remedy: &str) -> Result<()> {
    walk(dir, true).map(drop).map_err(|why| why.error("cannot use", dir, remedy))
}

/// Like [`make`], but creates nothing: a missing directory may be created later.
pub fn check(dir: &Path, remedy: &str) -> Result<()> {
    walk(dir, false).map(drop).map_err(|why| why.error("cannot use", dir, remedy))
}

/// Checks that a file in a directory verified by [`make`] is safe: it is missing, or a regular file of this user with a
/// single link.
pub fn check_file(path: &Path, remedy: &str) -> Result<()> {
    let refuse = |why: Why| Err(why.error("refusing to use", path, remedy));
    let meta = match path.symlink_metadata() {
        Ok(meta) => meta,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return refuse(Why::Refused(path.to_owned(), e)),
    };
    let what = match () {
        () if meta.file_type().is_symlink() => "it is a symbolic link, which iotrail never creates there".to_owned(),
        () if !meta.is_file() => "it is not a regular file".to_owned(),
        () if meta.uid() != us() => format!("it belongs to user {}", meta.uid()),
        () if meta.nlink() > 1 => format!("it has {} hard links", meta.nlink()),
        () if meta.mode() & 0o002 != 0 || is_of_others(&meta) => "other users may write to it".to_owned(),
        () => return Ok(()),
    };
    refuse(Why::Unsafe(path.to_owned(), what))
}

/// Why a directory is unusable.
enum Why {
    /// A path and its problem.
    Unsafe(PathBuf, String),
    /// A directory in which other users may replace files.
    Writable(PathBuf),
    Refused(PathBuf, io::Error),
}

impl Why {
    fn error(self, cannot: &str, dir: &Path, remedy: &str) -> Error {
        let at = |place: &Path| if place == dir { String::new() } else { format!(": {}", place.display()) };
        match self {
            Why::Unsafe(place, what) => Error::machine(
                format!("{cannot} {}{}: {what}", dir.display(), at(&place)),
                format!("remove it if no program needs it, or {remedy}"),
            ),
            Why::Writable(place) => Error::machine(
                format!("{cannot} {}{}: other users may write to it and replace its files", dir.display(), at(&place)),
                format!("`chmod go-w {}`, or {remedy}", place.display()),
            ),
            Why::Refused(place, e) => {
                Error::machine(format!("{cannot} {}{}", dir.display(), at(&place)), remedy).because(e)
            }
        }
    }
}

fn us() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a group other than the user's own may write to it (many systems create a group per user).
fn is_of_others(meta: &Metadata) -> bool {
    let group = rustix::process::getegid().as_raw();
    meta.mode() & 0o020 != 0 && meta.gid() != group && meta.gid() != 0
}

/// Users that may own a directory or link.
struct Trusted {
    us: u32,
    /// Owner of `/`: in a user namespace the outer root has another user ID.
    root: u32,
}

impl Trusted {
    fn now(root: &Metadata) -> Self {
        Self { us: us(), root: root.uid() }
    }

    fn owns(&self, meta: &Metadata) -> bool {
        [self.us, 0, self.root].contains(&meta.uid())
    }
}

/// Whether other users can rename and replace entries of the directory.
fn is_open(meta: &Metadata) -> bool {
    (is_of_others(meta) || meta.mode() & 0o002 != 0) && meta.mode() & STICKY == 0
}

/// The opened directory; `None` if it is missing and `makes` is false.
fn walk(dir: &Path, makes: bool) -> std::result::Result<Option<File>, Why> {
    let absolute = std::path::absolute(dir).map_err(|e| Why::Refused(dir.to_owned(), e))?;
    let at_root = |e| Why::Refused("/".into(), e);
    let mut at = PathBuf::from("/");
    let mut folder = File::open("/").map_err(at_root)?;
    let trusted = Trusted::now(&folder.metadata().map_err(at_root)?);
    // Remaining components, with the next one last.
    let mut left: Vec<OsString> = parts(&absolute);
    let mut links = 0;
    while let Some(name) = left.pop() {
        if name == ".." {
            at.pop();
            folder = File::open(&at).map_err(|e| Why::Refused(at.clone(), e))?;
            continue;
        }
        let place = at.join(&name);
        let refused = |e| Why::Refused(place.clone(), e);
        let next = match open_at(&folder, &name) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && makes => {
                make_at(&folder, &name).map_err(refused)?;
                open_at(&folder, &name)
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened,
        }
        .map_err(refused)?;
        let meta = next.metadata().map_err(refused)?;
        let unsafe_ = |what: String| Err(Why::Unsafe(place.clone(), what));
        if meta.file_type().is_symlink() {
            links += 1;
            if !trusted.owns(&meta) {
                return unsafe_(format!("it is a symbolic link created by user {}", meta.uid()));
            }
            if links > LINKS {
                return Err(refused(io::Error::from_raw_os_error(libc::ELOOP)));
            }
            let to = PathBuf::from(link_of(&next).map_err(refused)?);
            left.extend(parts(&to));
            if to.is_absolute() {
                at = "/".into();
                folder = File::open("/").map_err(at_root)?;
            }
            continue;
        }
        if !meta.is_dir() {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOTDIR)));
        }
        let is_last = left.is_empty();
        if is_last && meta.uid() != trusted.us {
            return unsafe_(format!("it belongs to user {}, whose links could redirect writes", meta.uid()));
        }
        if !trusted.owns(&meta) {
            return unsafe_(format!("it belongs to user {}, who can replace it", meta.uid()));
        }
        if is_last && meta.mode() & 0o022 != 0 {
            // Restricts this user's own directory. Files that others have already put there are found one by one.
            let closed = std::fs::Permissions::from_mode(meta.mode() & 0o7755);
            std::fs::set_permissions(format!("/proc/self/fd/{}", next.as_raw_fd()), closed.clone())
                .or_else(|_| std::fs::set_permissions(&place, closed))
                .map_err(refused)?;
        } else if is_open(&meta) {
            return Err(Why::Writable(place));
        }
        (at, folder) = (place, next);
    }
    Ok(Some(folder))
}

/// Path components in reverse order.
fn parts(path: &Path) -> Vec<OsString> {
    let name = |c: Component<'_>| match c {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).rev().collect()
}

/// Opens any kind of file, including a symlink, for fstat(2) only.
fn open_at(folder: &File, name: &OsStr) -> io::Result<File> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(folder, name, flags, Mode::empty())?.into())
}

fn make_at(folder: &File, name: &OsStr) -> io::Result<()> {
    match rustix::fs::mkdirat(folder, name, Mode::RWXU) {
        // Another process created it first: it is verified like any other.
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Target of an opened symlink.
fn link_of(link: &File) -> io::Result<OsString> {
    // An empty name refers to the descriptor itself.
    Ok(OsString::from_vec(rustix::fs::readlinkat(link, "", Vec::new())?.into_bytes()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, symlink};

    use super::*;

    fn is_root() -> bool {
        us() == 0
    }

    fn owned_by(path: &Path, uid: u32) {
        std::os::unix::fs::lchown(path, Some(uid), None).unwrap();
    }

    fn says(path: &Path) -> String {
        make(path, "name another").unwrap_err().to_string()
    }

    #[test]
    fn missing_directories_are_created_for_this_user_only() {
        let place = tempfile::tempdir().unwrap();
        let dir = place.path().join("a/b");
        check(&dir, "").unwrap();
        assert!(!place.path().join("a").exists(), "a look makes nothing");
        for _ in 0..2 {
            make(&dir, "").unwrap();
        }
        assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o700);
        // A writable directory of this user is restricted.
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        make(&dir, "").unwrap();
        assert_eq!(dir.metadata().unwrap().mode() & 0o7777, 0o755);
        // This user's links are followed.
        symlink("a", place.path().join("link")).unwrap();
        make(&place.path().join("link/b"), "").unwrap();
        make(&place.path().join("link/../a/b/c"), "").unwrap();
        assert!(dir.join("c").is_dir());
        std::fs::write(place.path().join("file"), "").unwrap();
        assert!(says(&place.path().join("file")).contains("Not a directory"));
    }

    #[test]
    fn a_directory_writable_by_others_must_be_sticky() {
        let place = tempfile::tempdir().unwrap();
        let open = place.path().join("open");
        std::fs::DirBuilder::new().mode(0o700).create(&open).unwrap();
        for (mode, refused) in [(0o777, true), (0o1777, false), (0o702, true), (0o755, false)] {
            std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
            let made = make(&open.join("ours"), "name another");
            assert_eq!(made.is_err(), refused, "{mode:o}");
            if let Err(e) = made {
                let open = open.canonicalize().unwrap();
                let end = format!(
                    "open: other users may write to it and replace its files; `chmod go-w {}`, or name another",
                    open.display()
                );
                assert!(e.to_string().ends_with(&end), "{e}");
            }
        }
    }

    #[test]
    fn symlinks_and_files_of_another_user_are_rejected() {
        if !is_root() {
            eprintln!("skipped: only root can make what belongs to another user");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let shared = place.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o1777)).unwrap();
        let (victim, ours) = (place.path().join("victim"), shared.join("iotrail"));
        std::fs::create_dir(&victim).unwrap();
        // A directory of another user in place of this user's.
        std::fs::create_dir(&ours).unwrap();
        owned_by(&ours, 65534);
        assert!(says(&ours).contains("it belongs to user 65534"), "{}", says(&ours));
        assert!(says(&ours.join("below")).contains("who can replace it"));
        std::fs::remove_dir(&ours).unwrap();
        // A symlink of another user to a directory of this user.
        symlink(&victim, &ours).unwrap();
        owned_by(&ours, 65534);
        for dir in [&ours, &ours.join("below")] {
            assert!(says(dir).contains("it is a symbolic link created by user 65534"), "{}", says(dir));
        }
        assert_eq!(std::fs::read_dir(&victim).unwrap().count(), 0);
        std::fs::remove_file(&ours).unwrap();
        make(&ours, "").unwrap();
    }

    #[test]
    fn files_that_are_symlinked_hard_linked_or_foreign_are_rejected() {
        let place = tempfile::tempdir().unwrap();
        let path = |name| place.path().join(name);
        let refused = |name| check_file(&path(name), "name another").unwrap_err().to_string();
        check_file(&path("missing"), "").unwrap();
        std::fs::write(path("file"), "").unwrap();
        check_file(&path("file"), "").unwrap();
        symlink("file", path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        for link in ["link", "dangling"] {
            let end = format!(
                "{link}: it is a symbolic link, which iotrail never creates there; remove it if no program needs it, or name another"
            );
            assert!(
                refused(link).starts_with("refusing to use ") && refused(link).ends_with(&end),
                "{}",
                refused(link)
            );
        }
        std::fs::hard_link(path("file"), path("second")).unwrap();
        assert!(refused("file").contains("it has 2 hard links"));
        std::fs::create_dir(path("folder")).unwrap();
        assert!(refused("folder").contains("it is not a regular file"));
        std::fs::write(path("open"), "").unwrap();
        std::fs::set_permissions(path("open"), std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(refused("open").contains("other users may write to it"));
        if is_root() {
            std::fs::write(path("theirs"), "").unwrap();
            owned_by(&path("theirs"), 65534);
            assert!(refused("theirs").contains("it belongs to user 65534"));
        }
    }
}
