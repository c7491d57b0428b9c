//! `--slurm` on a real Slurm: munged, a controller and four nodes on this machine, in a directory of their own.
//! Requires root and the packages slurm-wlm and munge.
//!
//! The gate includes the short tests; those that wait for Slurm's own timeouts are ignored unless `make fleet-test`
//! includes them.

mod cluster;
mod command;
mod disturbed;
mod pair;
mod tried;
mod whole;

use std::panic::{AssertUnwindSafe, catch_unwind};

use libtest_mimic::{Arguments, Trial};

use cluster::Cluster;

/// A test's name and body; a long test waits for a timeout.
pub struct Test {
    pub name: &'static str,
    pub is_long: bool,
    pub body: fn(&mut Cluster),
}

fn main() {
    // Cargo also requests a list.
    let args = Arguments { test_threads: Some(1), ..Arguments::from_args() };
    let tests = || whole::TESTS.iter().chain(disturbed::TESTS).chain(tried::TESTS).chain(pair::TESTS);
    let missing = cluster::missing();
    if let Some(why) = &missing
        && !args.list
    {
        eprintln!("skipped: all tests of Slurm: {why}");
        if std::env::var_os("CI").is_some() {
            eprintln!("under CI a skip is a failure");
            std::process::exit(1);
        }
    }
    let trial = |test: &'static Test| {
        Trial::test(test.name, move || {
            // Each test has its own cluster, so that leftover files are detected and do not affect other tests.
            let mut cluster = Cluster::start();
            let went = catch_unwind(AssertUnwindSafe(|| {
                (test.body)(&mut cluster);
                cluster.assert_empty();
            }));
            if went.is_err() {
                cluster.tell();
            }
            drop(cluster);
            went.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok(())
        })
        .with_ignored_flag(missing.is_some() || test.is_long)
    };
    // Without the required packages, `--include-ignored` must not start the long tests.
    let args = Arguments { include_ignored: args.include_ignored && missing.is_none(), ..args };
    libtest_mimic::run(&args, tests().map(trial).collect()).exit();
}
