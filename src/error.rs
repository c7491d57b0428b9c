//! What a user is told when something cannot be done: the operation and its object, the cause, the remedy,
//! and the exit status that goes with it. One line each.

use std::fmt;

use crate::plain::sanitise;

/// Who has to act; decides the exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Wrong use or wrong input (exit status 2).
    Input,
    /// The machine, the kernel or the privileges do not allow it (exit status 3).
    Machine,
    /// Somebody else interfered: the machine allows it, and what was going on cannot go on now (exit status 3).
    Disturbed,
}

/// An error as the user reads it: `what: cause; remedy`.
#[derive(Debug)]
pub struct Error {
    pub kind: Kind,
    /// The operation and its object: `cannot open /data/x`.
    pub what: String,
    /// What the user can do about it.
    pub remedy: String,
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Wrong use or input: exit status 2.
    pub fn input(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: Kind::Input, what: what.into(), remedy: remedy.into(), source: None }
    }

    /// The machine does not allow it: exit status 3.
    pub fn machine(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: Kind::Machine, what: what.into(), remedy: remedy.into(), source: None }
    }

    /// Somebody else interfered: exit status 3.
    pub fn disturbed(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind: Kind::Disturbed, what: what.into(), remedy: remedy.into(), source: None }
    }

    /// Keeps the cause; it is printed between `what` and `remedy`.
    pub fn because(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(cause.into());
        self
    }

    pub fn exit_status(&self) -> u8 {
        match self.kind {
            Kind::Input => 2,
            Kind::Machine | Kind::Disturbed => 3,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = self.what.clone();
        if let Some(cause) = &self.source {
            line = format!("{line}: {cause}");
        }
        if !self.remedy.is_empty() {
            line = format!("{line}; {}", self.remedy);
        }
        // One line, whatever a cause may hold, and no name in it that steers the terminal.
        f.write_str(&sanitise(&line.split('\n').map(str::trim).collect::<Vec<_>>().join(" ")))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

/// An error of a system call or request by its name: `EAGAIN`. `number` is positive.
pub fn errno_name(number: i32) -> String {
    syscalls::Errno::new(number).name().map_or_else(|| format!("errno {number}"), str::to_owned)
}

/// The number that an error's text ends with, for errors of libraries that keep it to themselves: `… (os error 28)`.
pub fn errno_in(text: &str) -> Option<i32> {
    let (_, rest) = text.rsplit_once("(os error ")?;
    rest.split_once(')')?.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_their_names() {
        assert_eq!([11, 104, 4000].map(errno_name), ["EAGAIN", "ECONNRESET", "errno 4000"]);
    }

    #[test]
    fn a_text_has_its_number() {
        assert_eq!(errno_in("a: Too many open files (os error 24) at path \"x\""), Some(24));
        assert_eq!(errno_in("a: Too many open files"), None);
    }

    #[test]
    fn an_error_is_one_line_with_cause_and_remedy() {
        let e = Error::machine("cannot load probes", "run as root").because("first\nsecond");
        assert_eq!(e.to_string(), "cannot load probes: first second; run as root");
        assert_eq!(e.exit_status(), 3);
        assert_eq!((Error::input("x", "").exit_status(), Error::disturbed("x", "").exit_status()), (2, 3));
    }
}
