//! Opens the page of `iotrail report` in headless Chromium and queries it over the debugging pipe.
//!
//! Stores synthetic runs of every built-in experiment, without loads. A missing program (Chromium, axe-core) skips the
//! test with a reason; under CI, a skip is a failure.

mod chromium;
mod hostile;
mod made;
mod page;
mod pages;

use std::sync::{Mutex, PoisonError};

use libtest_mimic::{Arguments, Trial};

use iotrail_experiment::builtin;

static SKIPPED: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Records a check that was impossible, with the reason.
fn skip(what: &str, why: &str) {
    SKIPPED.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{what}: {why}"));
}

fn main() {
    let args = Arguments::from_args();
    let args = Arguments { test_threads: args.test_threads.or(Some(2)), ..args };
    let mut trials: Vec<Trial> = builtin::ALL
        .iter()
        .map(|(name, _)| {
            Trial::test(format!("page_of::{}", name.replace('-', "_")), move || {
                pages::of_experiment(name);
                Ok(())
            })
        })
        .collect();
    let others: [(&str, fn()); 5] = [
        ("two_runs_are_shown_side_by_side", pages::of_two),
        ("one_measurement_has_a_page", pages::of_one),
        ("a_page_with_a_thousand_measurements_is_smaller_than_10_mib", pages::of_many),
        ("untrusted_text_is_never_interpreted_as_markup", hostile::stays_text),
        ("a_page_of_another_program_is_not_overwritten", pages::overwrites_its_own_alone),
    ];
    trials.extend(others.into_iter().map(|(name, body)| {
        Trial::test(name, move || {
            body();
            Ok(())
        })
    }));
    let conclusion = libtest_mimic::run(&args, trials);
    let skipped = SKIPPED.lock().unwrap_or_else(PoisonError::into_inner);
    for skip in skipped.iter() {
        eprintln!("skipped: {skip}");
    }
    if !skipped.is_empty() && std::env::var_os("CI").is_some() {
        eprintln!("under CI a skip is a failure");
        std::process::exit(1);
    }
    conclusion.exit();
}
