//! Tests the command line from outside: the built binary, run by an unprivileged user.
//!
//! The tests need no probes, no root and no specific disk. A test that a machine cannot set up is skipped: a third
//! result, printed with its reason and counted. Under CI a skip fails the run, because the gate's machine can set up
//! everything.

mod across;
mod advise;
mod advise_net;
mod bad_experiment;
mod bad_load;
mod bad_machine;
mod compare;
mod compared;
mod completing;
mod confine;
mod cycles;
mod ended;
mod export;
mod fleet;
mod formats;
mod help;
mod hostile;
mod json;
mod lab;
mod layout;
mod manifest;
mod measurement;
mod monitor;
mod net;
mod net_bench;
mod options;
mod output;
mod replay;
mod report;
mod reproduce;
mod restore;
mod run;
mod shells;
mod stop;
mod store;
mod stored;
mod tool;
mod top;
mod trace;
mod track;
mod tried;

use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};

/// The result of a test that did not fail.
pub enum End {
    Passed,
    /// This machine cannot set up the test, for this reason.
    Skipped(String),
}

/// A test's name and body.
pub type Test = (&'static str, fn() -> End);

static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn trial((name, body): Test) -> Trial {
    Trial::test(name, move || {
        if let End::Skipped(reason) = body() {
            SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{name}: {reason}"));
        }
        Ok(())
    })
}

fn main() {
    let tests = [
        help::TESTS,
        options::TESTS,
        measurement::TESTS,
        json::TESTS,
        compared::TESTS,
        run::TESTS,
        across::TESTS,
        net_bench::TESTS,
        monitor::TESTS,
        stop::TESTS,
        lab::TESTS,
        layout::TESTS,
        output::TESTS,
        hostile::TESTS,
        shells::TESTS,
        completing::TESTS,
        export::TESTS,
        store::TESTS,
        stored::TESTS,
        replay::TESTS,
        report::TESTS,
        restore::TESTS,
        formats::TESTS,
        manifest::TESTS,
        cycles::TESTS,
        compare::TESTS,
        bad_load::TESTS,
        bad_machine::TESTS,
        advise::TESTS,
        advise_net::TESTS,
        bad_experiment::TESTS,
        trace::TESTS,
        track::TESTS,
        reproduce::TESTS,
        fleet::TESTS,
        tried::TESTS,
        top::TESTS,
        net::whole::TESTS,
        net::wrong::TESTS,
        net::lost::TESTS,
    ];
    let trials = tests.into_iter().flatten().copied().map(trial).collect();
    // Two tests at a time, so that the watchdogs' time limits suffice. No other times are asserted.
    let args = Arguments::from_args();
    let args = Arguments { test_threads: args.test_threads.or(Some(2)), ..args };
    let conclusion = libtest_mimic::run(&args, trials);
    tool::remove_file();
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    for skip in skipped.iter() {
        eprintln!("skipped: {skip}");
    }
    if !skipped.is_empty() {
        eprintln!("{} of the tests that are shown as ok were skipped", skipped.len());
        if std::env::var_os("CI").is_some() {
            eprintln!("under CI a skip is a failure");
            std::process::exit(1);
        }
    }
    conclusion.exit();
}
