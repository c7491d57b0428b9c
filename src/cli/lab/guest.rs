//! `iotrail lab guest`: runs only inside the lab's virtual machine.

use iotrail_base::error::{OrFail, Result};
use iotrail_lab::guest::{Ports, end_all_others, keep};
use iotrail_lab::handed_over;

pub fn run() -> Result<u8> {
    let order = handed_over()?;
    keep(&order, Ports::open()?, end_all_others)
        .or_machine("cannot run the lab's command", "check the machine's console")?;
    // The host stops the machine once it has read everything.
    loop {
        std::thread::park();
    }
}
