//! Turns SQLite's errors into messages with a remedy.

use std::path::Path;

use rusqlite::ErrorCode;
use rustix::process::{Resource, getrlimit};

use iotrail_base::error::Error;

pub fn damaged(path: &Path) -> Error {
    Error::input(
        format!("the store {} is damaged or cut short", path.display()),
        "put back a copy, or copy what can be read of it with `iotrail list --store … --salvage NEW`; it was left as it is",
    )
}

pub fn explain(path: &Path, e: rusqlite::Error) -> Error {
    let shown = path.display();
    match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::input(
            format!("{shown} is no store of iotrail"),
            "name another file with --store; it was left as it is",
        ),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path),
        Some(ErrorCode::DiskFull) => Error::machine(
            format!("no room to store in {shown}"),
            "free space there, or name another file with --store",
        ),
        Some(code @ (ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)) => Error::machine(
            format!("cannot {} the store {shown}", if code == ErrorCode::ReadOnly { "write" } else { "open" }),
            "check the permissions of the file and of its folder, or name another file with --store",
        )
        .because(e),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::machine(
            format!("the store {shown} is in use by another program"),
            "try again when it has ended, or name another file with --store",
        ),
        // SQLite does not report EFBIG.
        Some(ErrorCode::SystemIoFailure) if getrlimit(Resource::Fsize).current.is_some() => Error::machine(
            format!("cannot use the store {shown}"),
            "raise the file size limit (ulimit -f), or name another file with --store",
        )
        .because(e),
        _ => Error::machine(format!("cannot use the store {shown}"), "name another file with --store").because(e),
    }
}
