//! Compares the kernel's real behaviour with iotrail's report; requires root, a disk with interrupts, and the probes.
//!
//! Asserts counts and shares, never times. A test that this machine cannot run is skipped with the reason; under CI a
//! skip fails the run, because the gate's machine can run them all.

mod abroad;
mod account;
mod agreement;
mod bench;
mod beside;
mod captured;
mod cases;
mod circumstances;
mod files;
mod functions;
mod golden;
mod ground;
mod lab;
mod library;
mod metrics;
mod monitor;
mod net;
mod net_bench;
mod net_faults;
mod nvme;
mod order;
mod probes;
mod profile;
mod reaping;
mod record;
mod replay;
mod replayed;
mod run;
mod settings;
mod stacks;
mod state;
mod stored;
mod targets;
mod threads;
mod top;
mod trace;
mod trial;
mod tried;
mod vehicles;

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use libtest_mimic::{Arguments, Trial};

/// They mostly wait, and their assertions depend neither on times nor on machine-wide counts, so they run concurrently.
const PATIENT: [&str; 5] = [
    "lab::a_guest_at_its_time_limit_is_stopped_and_keeps_stored_results",
    "net_faults::a_link_that_goes_down_leaves_half_open_connections",
    "tried::the_sqpoll_arm_is_dropped_if_the_program_ignores_need_wakeup",
    "tried::the_defer_arm_is_dropped_if_the_program_never_enters_the_kernel",
    "tried::no_process_is_left_when_try_ends",
];

/// Redirects the tests' traces to a separate store. A process cannot set its own environment without unsafe code, so it
/// restarts itself.
fn state_apart() {
    const STATE: &str = concat!(env!("CARGO_TARGET_TMPDIR"), "/kernel-state");
    const VARIABLE: &str = "XDG_STATE_HOME";
    if std::env::var_os(VARIABLE).is_none_or(|state| state != STATE) {
        let tests = std::env::current_exe().expect("this program has a path");
        let failed = Command::new(tests).args(std::env::args_os().skip(1)).env(VARIABLE, STATE).exec();
        panic!("the tests cannot be started again: {failed}");
    }
}

fn main() {
    if settings::is_driver() {
        settings::drive();
    }
    state_apart();
    let args = Arguments::from_args();
    let missing = bench::missing();
    let all: Vec<Trial> = [
        abroad::trials(),
        account::trials(),
        vehicles::trials(),
        captured::trials(),
        replayed::trials(),
        cases::trials(),
        ground::trials(),
        lab::trials(),
        library::trials(),
        metrics::trials(),
        monitor::trials(),
        order::trials(),
        agreement::trials(),
        probes::trials(),
        circumstances::trials(),
        files::trials(),
        functions::trials(),
        net_bench::trials(),
        net_faults::trials(),
        profile::trials(),
        reaping::trials(),
        record::trials(),
        state::trials(),
        stacks::trials(),
        stored::trials(),
        replay::trials(),
        run::trials(),
        settings::trials(),
        targets::trials(),
        threads::trials(),
        top::trials(),
        net::trials(),
        trace::trials(),
        trial::trials(),
        tried::trials(),
    ]
    .into_iter()
    .flatten()
    .map(|trial| {
        let skipped = missing.is_some() || trial.has_ignored_flag();
        trial.with_ignored_flag(skipped)
    })
    .chain(nvme::trials())
    .collect();
    if let Some(reason) = nvme::missing() {
        eprintln!("the tests of NVMe drives are skipped: {reason}");
    }
    if let Some(reason) = &missing {
        eprintln!("all other kernel tests are skipped: {reason}");
        if std::env::var_os("CI").is_some() {
            eprintln!("under CI a skip is a failure");
            std::process::exit(1);
        }
    }
    let sleeping = cases::that_sleep();
    let (patient, others) =
        all.into_iter().partition(|t| PATIENT.contains(&t.name()) || sleeping.iter().any(|name| name == t.name()));
    // One at a time, because each test needs the CPUs and the disk for itself.
    let conclusion = libtest_mimic::run(&Arguments { test_threads: Some(1), ..args.clone() }, others);
    let waited = libtest_mimic::run(&Arguments { test_threads: Some(4), ..args }, patient);
    if !trial::are_steady() || waited.has_failed() {
        std::process::exit(101);
    }
    conclusion.exit();
}
