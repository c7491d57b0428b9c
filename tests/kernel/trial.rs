//! One test of this room. Others may use the machine at just its moment, so a test that fails is tried once more, and
//! both outcomes are told at the end: a test that often needs its second try is wrong, or what it tests is.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

/// As many may need a second try before the whole run fails.
const MOST: usize = 3;

struct Ran {
    name: String,
    took: Duration,
    /// Why the first try failed, where the second one did not.
    first_failed: Option<String>,
}

static RAN: Mutex<Vec<Ran>> = Mutex::new(Vec::new());

pub fn test(name: impl Into<String>, test: impl Fn() -> Result<(), Failed> + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let begun = Instant::now();
        let first_failed = match catch_unwind(AssertUnwindSafe(&test)) {
            Ok(Ok(())) => None,
            Ok(Err(failed)) => Some(failed.message().unwrap_or("it failed").to_owned()),
            Err(panic) => Some(said(panic.as_ref())),
        };
        if let Some(why) = &first_failed {
            eprintln!("{name}: tried again, since it failed: {why}");
            std::thread::sleep(Duration::from_secs(2));
            test()?;
        }
        RAN.lock().expect("nobody panics with it").push(Ran {
            name: name.clone(),
            took: begun.elapsed(),
            first_failed,
        });
        Ok(())
    })
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Tells which tests took longest and which needed a second try, and whether these are few enough.
pub fn are_steady() -> bool {
    let mut ran = RAN.lock().expect("nobody panics with it");
    ran.sort_by_key(|r| std::cmp::Reverse(r.took));
    if ran.len() > 10 {
        let slowest: Vec<String> = ran.iter().take(10).map(|r| format!("{} {:.0?}", r.name, r.took)).collect();
        println!("the slowest: {}", slowest.join(", "));
    }
    let late: Vec<&Ran> = ran.iter().filter(|r| r.first_failed.is_some()).collect();
    for r in &late {
        println!("held only at the second try: {}: {}", r.name, r.first_failed.as_deref().unwrap_or_default());
    }
    if late.len() > MOST {
        println!("{} tests needed a second try, more than {MOST}: this run has failed", late.len());
    }
    late.len() <= MOST
}
