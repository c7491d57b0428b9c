//! A page's output file.

use std::io::Write as _;
use std::path::Path;

use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_report::html;
use iotrail_report::terminal;

/// Overwrites existing iotrail pages; other files only with --force.
pub fn reserve(path: &Path, force: bool) -> Result<Reserved> {
    let is_file = path.is_file();
    let is_ours = is_file && html::is_page(path);
    if is_file && !is_ours && !force && !output::is_descriptor(path) {
        return Err(Error::input(
            format!("{} exists, and is not an iotrail report", path.display()),
            "specify another name with -o, or --force to replace it",
        ));
    }
    let reserved = Reserved::new(path, Existing::forced(force || is_ours), "-o")?;
    // On a signal, remove the incomplete file.
    interrupt::raise_flag()?;
    Ok(reserved)
}

/// Prints the page's path, unless the page went to standard output.
pub fn write(to: Reserved, page: &str) -> Result<()> {
    let shown = output::shown(to.path());
    let mut out = to.open()?;
    let (refused, is_stdout) = (out.refusal(), out.is_stdout());
    out.write_all(page.as_bytes()).map_err(refused)?;
    out.finish()?;
    if !is_stdout {
        terminal::say(&format!("report: {shown}"));
    }
    Ok(())
}
