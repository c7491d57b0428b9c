//! Errors with operation, object, cause, remedy and exit status, printed on one line.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::sanitise::sanitise;

/// Who must act on an error; determines the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Usage error or invalid input (exit status 2).
    Input,
    /// The machine, the kernel or the privileges do not permit it (exit status 3).
    Machine,
    /// Another program interfered: the machine permits the operation, but it cannot continue now (exit status 3).
    Disturbed,
    /// Another machine, or its part of a job, is gone; the work can continue once it is back (exit status 3).
    Lost,
    /// Data read differs from the data written (exit status 5).
    Corruption,
    /// Bug in iotrail (exit status 70, as in sysexits.h).
    Internal,
}

/// Exit status if a gate (`--fail-on`) could not be evaluated.
pub const NOT_EVALUATED: u8 = 4;

/// An error, printed as `what: cause; remedy`.
#[derive(Debug, Serialize, Deserialize)]
pub struct Error {
    pub kind: Kind,
    /// Position in the user's file: `FILE:LINE:COLUMN`.
    pub place: Option<String>,
    /// The operation and its object: `cannot open /data/x`.
    pub what: String,
    /// The remedy.
    pub remedy: String,
    #[serde(serialize_with = "write_cause", deserialize_with = "read_cause")]
    pub source: Option<Cause>,
    /// The kernel's errno, if a system call failed.
    pub errno: Option<i32>,
}

type Cause = Box<dyn std::error::Error + Send + Sync>;

fn write_cause<S: Serializer>(cause: &Option<Cause>, to: S) -> std::result::Result<S::Ok, S::Error> {
    cause.as_ref().map(ToString::to_string).serialize(to)
}

fn read_cause<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<Option<Cause>, D::Error> {
    Ok(Option::<String>::deserialize(from)?.map(Into::into))
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn new(kind: Kind, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, place: None, what: what.into(), remedy: remedy.into(), source: None, errno: None }
    }

    /// Usage error or invalid input: exit status 2.
    pub fn input(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Kind::Input, what, remedy)
    }

    /// The machine does not permit it: exit status 3.
    pub fn machine(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Kind::Machine, what, remedy)
    }

    /// Another program interfered: exit status 3.
    pub fn disturbed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Kind::Disturbed, what, remedy)
    }

    /// Bug in iotrail: exit status 70.
    pub fn internal(what: impl fmt::Display) -> Self {
        let remedy = concat!(
            "this is a bug in iotrail ",
            env!("CARGO_PKG_VERSION"),
            ": please report it with the command and this line"
        );
        Self::new(Kind::Internal, format!("internal error: {what}"), remedy)
    }

    /// Converts the payload of a panic to an error.
    pub fn of_panic(thread: &str, payload: &(dyn std::any::Any + Send)) -> Self {
        Self::internal(format!("{thread} panicked: {}", panic_text(payload)))
    }

    /// Data read differs from the data written: exit status 5.
    pub fn corruption(found: crate::corruption::Corruption) -> Self {
        let what = found.to_string();
        let remedy = "if another program has written to it since, create it again or write all of it with --verify; otherwise suspect the storage, and keep the file unmodified for analysis";
        Self::new(Kind::Corruption, what, remedy).because(found)
    }

    /// The corrupt data; `None` for other errors.
    pub fn as_corruption(&self) -> Option<&crate::corruption::Corruption> {
        self.source.as_ref()?.downcast_ref()
    }

    /// Whether the kernel lacked a resource that other programs may soon release.
    pub fn is_transient(&self) -> bool {
        use libc::{EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM};
        self.kind == Kind::Machine
            && self.errno.is_some_and(|e| [EAGAIN, EBUSY, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM].contains(&e))
    }

    /// Stores the errno of an error whose text already contains it.
    pub fn with_errno(mut self, errno: Option<i32>) -> Self {
        self.errno = errno;
        self
    }

    /// Adds the position in the user's file, which is printed first.
    pub fn at(self, place: impl Into<String>) -> Self {
        Self { place: Some(place.into()), ..self }
    }

    /// Adds the cause, which is printed between `what` and `remedy`.
    pub fn because(mut self, cause: impl Into<Cause>) -> Self {
        let cause = cause.into();
        self.errno = self.errno.or(cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error));
        self.source = Some(cause);
        self
    }

    pub fn exit_status(&self) -> u8 {
        match self.kind {
            Kind::Input => 2,
            Kind::Machine | Kind::Disturbed | Kind::Lost => 3,
            Kind::Corruption => 5,
            Kind::Internal => 70,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_ref().map_or_else(String::new, |place| format!("{place}: "));
        let mut line = format!("{place}{}", self.what);
        if let Some(cause) = self.source.as_ref().filter(|_| self.kind != Kind::Corruption) {
            line = format!("{line}: {cause}");
        }
        if !self.remedy.is_empty() {
            line = format!("{line}; {}", self.remedy);
        }
        // On one line, whatever the cause contains, without control characters from names.
        f.write_str(&sanitise(&line.split('\n').map(str::trim).collect::<Vec<_>>().join(" ")))
    }
}

/// Turns another library's error, or a missing value, into an [`Error`].
pub trait OrFail<T>: Sized {
    /// `fail` makes the error; another library's error becomes its cause.
    fn or_fail(self, fail: impl FnOnce() -> Error) -> Result<T>;

    fn or_input(self, what: impl fmt::Display, remedy: impl fmt::Display) -> Result<T> {
        self.or_fail(|| Error::input(what.to_string(), remedy.to_string()))
    }

    fn or_machine(self, what: impl fmt::Display, remedy: impl fmt::Display) -> Result<T> {
        self.or_fail(|| Error::machine(what.to_string(), remedy.to_string()))
    }
}

impl<T, E: Into<Cause>> OrFail<T> for std::result::Result<T, E> {
    fn or_fail(self, fail: impl FnOnce() -> Error) -> Result<T> {
        self.map_err(|e| fail().because(e))
    }
}

impl<T> OrFail<T> for Option<T> {
    fn or_fail(self, fail: impl FnOnce() -> Error) -> Result<T> {
        self.ok_or_else(fail)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// Message of a panic.
pub fn panic_text(payload: &dyn std::any::Any) -> &str {
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("without a message")
}

/// Name of a positive errno: `EAGAIN`.
pub fn errno_name(number: i32) -> String {
    syscalls::Errno::new(number).name().map_or_else(|| format!("errno {number}"), str::to_owned)
}

/// The errno at the end of an error's text, for libraries that do not expose it: `… (os error 28)`.
pub fn errno_in(text: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_numbers_are_printed_by_name() {
        assert_eq!([11, 104, 4000].map(errno_name), ["EAGAIN", "ECONNRESET", "errno 4000"]);
    }

    #[test]
    fn the_error_number_is_parsed_from_an_error_message() {
        assert_eq!(errno_in("a: Too many open files (os error 24) at path \"x\""), Some(24));
        assert_eq!(errno_in("a: Too many open files"), None);
    }

    #[test]
    fn an_error_prints_as_one_line_with_cause_and_remedy() {
        let e = Error::machine("cannot load probes", "run as root").because("first\nsecond");
        assert_eq!(e.to_string(), "cannot load probes: first second; run as root");
        assert_eq!(e.exit_status(), 3);
        let internal = Error::of_panic("a load thread", &"index out of bounds");
        assert!(internal.to_string().starts_with("internal error: a load thread panicked: index out of bounds; "));
        assert_eq!(internal.exit_status(), 70);
        let refused = |errno| Error::machine("x", "").because(std::io::Error::from_raw_os_error(errno));
        assert!(refused(libc::ENOMEM).is_transient() && !refused(libc::EPERM).is_transient());
        assert_eq!((Error::input("x", "").exit_status(), Error::disturbed("x", "").exit_status()), (2, 3));
    }
}
