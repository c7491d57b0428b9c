//! Where a page is written to.

use std::io::Write as _;
use std::path::Path;

use iotrail_base::error::{Error, Result};
use iotrail_base::interrupt;
use iotrail_base::output::{self, Existing, Reserved};
use iotrail_report::html;
use iotrail_report::terminal;

/// A page is made again at any time; what is none of ours is kept, unless it is to be replaced.
pub fn reserve(path: &Path, force: bool) -> Result<Reserved> {
    let is_file = path.is_file();
    let is_ours = is_file && html::is_page(path);
    if is_file && !is_ours && !force && !output::is_descriptor(path) {
        return Err(Error::input(
            format!("{} is there, and is no report of iotrail's", path.display()),
            "give another name with -o, or --force to replace it",
        ));
    }
    let reserved = Reserved::new(path, Existing::forced(force || is_ours), "-o")?;
    // What is under way is taken away when a signal ends it.
    interrupt::raise_flag()?;
    Ok(reserved)
}

/// Says where the page is, unless it went to standard output.
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
