//! Runs a test. Other programs may be using the machine, so some tests attempt a measurement more than once, and a
//! failed test runs a second time. Each failed attempt is recorded and printed at the end, and too many of them fail
//! the whole run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use libtest_mimic::{Failed, Trial};

/// Maximum number of tests with a second run: 3 % of the tests on a machine with two busy CPUs.
const SECOND_RUNS: usize = 10;

/// Number of tests whose durations are printed at the end.
const SLOWEST: usize = 20;

/// Percentage of tests whose first attempt may fail.
const FIRST_FAILURES_PERCENT: usize = 15;

struct Ran {
    name: String,
    took: Duration,
    /// Why each attempt before the last failed.
    failed: Vec<String>,
    ran_twice: bool,
    passed: bool,
}

static RAN: Mutex<Vec<Ran>> = Mutex::new(Vec::new());

thread_local! {
    /// Failed attempts of the test on this thread.
    static FAILED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub fn test(name: impl Into<String>, test: impl Fn() -> Result<(), Failed> + Send + 'static) -> Trial {
    let name = name.into();
    Trial::test(name.clone(), move || {
        let begun = Instant::now();
        FAILED.take();
        let why = match catch_unwind(AssertUnwindSafe(&test)) {
            Ok(Ok(())) => None,
            Ok(Err(failed)) => Some(failed.message().unwrap_or("it failed").to_owned()),
            Err(panic) => Some(said(panic.as_ref())),
        };
        let ran_twice = why.is_some();
        let end = why.map_or(Ok(Ok(())), |why| {
            eprintln!("{name}: runs again, since it failed: {why}");
            attempt_failed(why);
            std::thread::sleep(Duration::from_secs(2));
            catch_unwind(AssertUnwindSafe(&test))
        });
        let passed = matches!(end, Ok(Ok(())));
        let ran = Ran { name: name.clone(), took: begun.elapsed(), failed: FAILED.take(), ran_twice, passed };
        RAN.lock().expect("nothing panics with it").push(ran);
        end.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The first result that `holds` accepts, otherwise the objection to the last one. A pause (in seconds) precedes each
/// attempt.
pub fn attempts<T>(
    pauses: &[u64],
    attempt: impl Fn() -> T,
    holds: impl Fn(&T) -> Result<(), String>,
) -> Result<T, String> {
    let mut reason = String::new();
    for (n, pause) in pauses.iter().enumerate() {
        if n > 0 {
            attempt_failed(std::mem::take(&mut reason));
        }
        std::thread::sleep(Duration::from_secs(*pause));
        let got = attempt();
        match holds(&got) {
            Ok(()) => return Ok(got),
            Err(why) => reason = why,
        }
    }
    Err(reason)
}

/// Records that an attempt of this thread's test failed and will be repeated.
pub fn attempt_failed(why: String) {
    FAILED.with_borrow_mut(|failed| failed.push(why));
}

pub fn trials() -> Vec<Trial> {
    vec![test("trial::each_failed_attempt_is_recorded_with_its_reason", recorded)]
}

fn recorded() -> Result<(), Failed> {
    let tried = Cell::new(0);
    let attempt = || tried.replace(tried.get() + 1);
    let holds = |n: &i32| if *n < 2 { Err(format!("{n} is small")) } else { Ok(()) };
    assert_eq!(attempts(&[0, 0, 0, 0], attempt, holds), Ok(2));
    assert_eq!(FAILED.take(), ["0 is small", "1 is small"]);
    tried.set(0);
    assert_eq!(attempts(&[0, 0], attempt, holds), Err("1 is small".to_owned()));
    assert_eq!(FAILED.take(), ["0 is small"]);
    Ok(())
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked").to_owned()
}

/// Prints the slowest tests and all failed attempts; returns whether these are few enough.
pub fn are_steady() -> bool {
    let mut ran = RAN.lock().expect("nothing panics with it");
    ran.sort_by_key(|r| std::cmp::Reverse(r.took));
    if ran.len() > SLOWEST {
        let slowest: Vec<String> = ran.iter().take(SLOWEST).map(|r| format!("{} {:.0?}", r.name, r.took)).collect();
        println!("the slowest: {}", slowest.join(", "));
        let mut modules: BTreeMap<&str, Duration> = BTreeMap::new();
        for r in ran.iter() {
            *modules.entry(r.name.split("::").next().unwrap_or_default()).or_default() += r.took;
        }
        let modules: Vec<String> = modules.iter().map(|(module, took)| format!("{module} {took:.0?}")).collect();
        println!("by module: {}", modules.join(", "));
    }
    let failed: Vec<&Ran> = ran.iter().filter(|r| !r.failed.is_empty()).collect();
    for r in &failed {
        let again = match (r.ran_twice, r.passed) {
            (true, true) => ", passed in its second run",
            (true, false) => ", failed again",
            (false, _) => "",
        };
        println!("{}: failed attempts: {}{again}: {}", r.name, r.failed.len(), r.failed.join(" | "));
    }
    let twice = failed.iter().filter(|r| r.ran_twice).count();
    println!("first attempts failed in {} of {} tests, {twice} of these ran twice", failed.len(), ran.len());
    // For a few tests, the percentage is meaningless.
    let most = SECOND_RUNS.max(ran.len() * FIRST_FAILURES_PERCENT / 100);
    let steady = twice <= SECOND_RUNS && failed.len() <= most;
    if !steady {
        println!("at most {most} first attempts may fail and {SECOND_RUNS} tests run twice: this run has failed");
    }
    steady
}
