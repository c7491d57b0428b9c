//! Turns SQLite's errors into messages with a remedy.

use std::path::Path;

use rusqlite::ErrorCode;
use rustix::process::{Resource, getrlimit};

use iotrail_base::error::Error;

pub fn damaged(path: &Path) -> Error {
    Error::input(
        format!("the store {} is damaged or truncated", path.display()),
        "restore a backup, or copy the readable part with `iotrail list --store … --salvage NEW`; the file was not changed",
    )
}

pub fn explain(path: &Path, e: rusqlite::Error) -> Error {
    let shown = path.display();
    match e.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Error::input(
            format!("{shown} is not an iotrail store"),
            "specify another file with --store; this file was not changed",
        ),
        Some(ErrorCode::DatabaseCorrupt) => damaged(path),
        Some(ErrorCode::DiskFull) => Error::machine(
            format!("no space left for the store {shown}"),
            "free space there, or specify another file with --store",
        ),
        Some(code @ (ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied)) => Error::machine(
            format!("cannot {} the store {shown}", if code == ErrorCode::ReadOnly { "write" } else { "open" }),
            "check the permissions of the file and its directory, or specify another file with --store",
        )
        .because(e),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Error::machine(
            format!("the store {shown} is in use by another program"),
            "try again when that program has exited, or specify another file with --store",
        ),
        // SQLite does not report EFBIG.
        Some(ErrorCode::SystemIoFailure) if getrlimit(Resource::Fsize).current.is_some() => Error::machine(
            format!("cannot use the store {shown}"),
            "raise the file size limit (ulimit -f), or specify another file with --store",
        )
        .because(e),
        _ => Error::machine(format!("cannot use the store {shown}"), "specify another file with --store").because(e),
    }
}
