//! `run --kernels`: runs the same plan in one virtual machine per kernel, and compares the kernels.
//!
//! Each boot is a separate `lab run`, so that a failing machine does not affect the others. Kernels alternate (A B A
//! B), which separates differences between boots of the same kernel from differences between kernels.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use serde::Serialize;

use super::RunArgs;
use iotrail_answer::across::{Boots, KernelRecord, beside, have_one_plan, merged, sentences};
use iotrail_answer::conclude::Conclusion;
use iotrail_answer::summary::Head;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::units::Span;
use iotrail_base::words::list;
use iotrail_base::{interrupt, ourselves};
use iotrail_experiment::file::Experiment;
use iotrail_experiment::load::Kind;
use iotrail_lab::drive::Drive;
use iotrail_report::terminal::{self, Across};
use iotrail_schema::run_record::RunRecord;
use iotrail_store::named;
use iotrail_store::{Store, default_path};

/// The machines, as `lab run` has them.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "With --kernels")]
pub struct Machines {
    /// Run the same plan in a virtual machine on each of these kernels, and compare them: releases, release prefixes (6.1) or newest
    #[arg(long, value_name = "LIST", value_delimiter = ',', conflicts_with_all = ["plan", "resume", "fail_on_unmet", "slurm", "attach"])]
    pub kernels: Vec<String>,

    /// Boot each kernel N times, alternately (a verdict needs 3)
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..=20), requires = "kernels")]
    rounds: u32,

    /// Give the machine N CPUs (default: 4; for programs and network loads, 2)
    #[arg(long, value_name = "N", requires = "kernels")]
    cpus: Option<u32>,

    /// Attach this drive, as in `lab run` (default: queues=2,poll=1; for programs, queues=2,data=keep; for network loads, none)
    #[arg(long, value_name = "OPTIONS", value_parser = drive, requires = "kernels")]
    nvme: Option<String>,

    /// Give the machine this much memory
    #[arg(long, value_name = "SIZE", requires = "kernels")]
    memory: Option<String>,

    /// Use this accelerator: auto, kvm or tcg
    #[arg(long, value_name = "HOW", requires = "kernels")]
    accel: Option<String>,

    /// Stop each boot and its run after this time
    #[arg(long, value_name = "TIME", default_value = "60m", requires = "kernels")]
    timeout: Span,

    /// Cache fetched kernels in this directory
    #[arg(long, value_name = "DIR", requires = "kernels")]
    cache: Option<PathBuf>,
}

/// Validated here, but passed on as written.
fn drive(text: &str) -> std::result::Result<String, String> {
    text.parse::<Drive>().map(|_| text.to_owned())
}

/// The output of `--json`: a run with the kernel as a parameter.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(flatten)]
    record: &'a RunRecord,
    kernels: &'a [KernelRecord],
    /// The first lines of the screen.
    head: &'a Head,
    conclusions: [Conclusion; 1],
}

/// A boot: its run, and its error.
#[derive(Default)]
struct Boot {
    run: Option<i64>,
    failed: Option<String>,
}

/// Exit status: 0 if every boot completed its run; 1 if some did not; an error if none measured anything.
pub fn run(args: &RunArgs, experiment: &Experiment, seed: u32) -> Result<u8> {
    let machines = &args.machines;
    let asked = &machines.kernels;
    if let Some(twice) = asked.iter().enumerate().find(|(i, k)| asked[..*i].contains(k)) {
        return Err(Error::input(
            format!("--kernels lists {} twice", twice.1),
            "list each kernel once; use --rounds for more boots",
        ));
    }
    if args.quick && experiment.quick.is_none() {
        return Err(Error::input(format!("experiment '{}' has no quick form", experiment.name), "omit --quick"));
    }
    let path = args.store.clone().map_or_else(default_path, Ok)?;
    let mut store = Store::create_or_open(&path)?;
    let stop = interrupt::raise_flag()?;
    let mut boots: Vec<Vec<Boot>> = asked.iter().map(|_| Vec::new()).collect();
    for round in 1..=machines.rounds {
        for (kernel, boots) in asked.iter().zip(&mut boots) {
            // A kernel that failed to boot is not booted again.
            if stop.load(Ordering::Relaxed) || boots.iter().any(|b| b.run.is_none()) {
                continue;
            }
            let name =
                if machines.rounds > 1 { format!("{kernel} ({round} of {})", machines.rounds) } else { kernel.clone() };
            let boot = one(args, (experiment, seed), (kernel, &name), &mut store, stop);
            if let Some(why) = &boot.failed {
                terminal::say(&format!("iotrail: {name}: {why}"));
            }
            boots.push(boot);
        }
    }
    let interrupted = stop.load(Ordering::Relaxed);
    let kernels =
        asked.iter().zip(&boots).map(|(asked, boots)| read(asked, boots, &store)).collect::<Result<Vec<_>>>()?;
    let (records, measured): (Vec<KernelRecord>, Vec<Option<Boots>>) = kernels.into_iter().unzip();
    let measured: Vec<Boots> = measured.into_iter().flatten().collect();
    if !have_one_plan(&measured) {
        return Err(Error::disturbed(
            "the runs do not have the same cells: the experiment's file was changed between them",
            "`iotrail list` shows them; run it again",
        ));
    }
    let failed = RefCell::new(None);
    let histogram = |run, cell, repeat| {
        store.histogram(run, cell, repeat).unwrap_or_else(|e| {
            failed.borrow_mut().get_or_insert(e);
            None
        })
    };
    let Some(record) = merged(&measured, &histogram) else {
        store.abandon();
        return Err(none_measured(&records, interrupted));
    };
    failed.into_inner().map_or(Ok(()), Err)?;
    let said = sentences(&measured, &record.comparisons);
    let head = Head::of_kernels(&record, &measured, &records);
    if args.json {
        terminal::print_json(&Printed {
            record: &record,
            kernels: &records,
            head: &head,
            conclusions: [Conclusion { about: String::new(), sentences: said }],
        })?;
    } else {
        let named = named(args.store.as_deref());
        let of = Across { run: &record, kernels: &records, cells: &beside(&measured), said: &said, store: &named };
        terminal::show(&terminal::across(&of, &head, args.full))?;
    }
    let whole = !interrupted && records.iter().all(|k| k.failed.is_empty()) && record.finished_unix_s.is_some();
    Ok(u8::from(!whole))
}

fn none_measured(kernels: &[KernelRecord], interrupted: bool) -> Error {
    let why: Vec<String> = kernels.iter().flat_map(|k| k.failed.iter().map(|f| format!("{}: {f}", k.asked))).collect();
    let remedy = if interrupted { "run it again" } else { "`iotrail lab kernels` lists the bootable kernels" };
    Error::machine("no kernel produced a measurement", remedy).because(list(&why))
}

/// The stored runs of a kernel's boots.
fn read(asked: &str, boots: &[Boot], store: &Store) -> Result<(KernelRecord, Option<Boots>)> {
    let mut runs = Vec::new();
    for run in boots.iter().filter_map(|b| b.run) {
        runs.extend(store.load(run)?.filter(|r| r.done() > 0));
    }
    let first = || runs.iter().find_map(RunRecord::first);
    let kernel = first().map(|m| m.host.kernel.clone());
    let record = KernelRecord {
        asked: asked.to_owned(),
        kernel: kernel.clone(),
        runs: runs.iter().map(|r| r.run).collect(),
        emulated: first().map(|m| m.host.is_emulated()),
        failed: boots.iter().filter_map(|b| b.failed.clone()).collect(),
    };
    Ok((record, kernel.map(|kernel| Boots { kernel, runs })))
}

/// Boots a kernel and runs the plan in it.
fn one(
    args: &RunArgs,
    plan: (&Experiment, u32),
    (kernel, name): (&str, &str),
    store: &mut Store,
    stop: &AtomicBool,
) -> Boot {
    let went = (|| {
        let folder = tempfile::tempdir()
            .or_machine("cannot create a temporary directory", "check the free space in TMPDIR or /tmp")?;
        let brought = folder.path().join("brought.db");
        let failed = lab_run(command(args, plan, kernel, &brought), name, stop)?;
        Ok::<_, Error>((store.take_in(&brought)?.into_iter().next_back(), failed))
    })();
    match went {
        Ok((run, failed)) => {
            let nothing = || "it ended without storing a run".to_owned();
            Boot { run, failed: failed.or_else(|| run.is_none().then(nothing)) }
        }
        Err(e) => Boot { run: None, failed: Some(e.to_string()) },
    }
}

/// `iotrail lab run … -- iotrail run …`
fn command(args: &RunArgs, (experiment, seed): (&Experiment, u32), kernel: &str, store: &Path) -> Command {
    let machines = &args.machines;
    let (cpus, drive) = match experiment.kind {
        Kind::Storage => (4, Some("queues=2,poll=1")),
        // The guest's files are in memory; a program that needs a disk finds it through IOTRAIL_TARGET.
        Kind::Program => (2, Some("queues=2,data=keep")),
        Kind::Net => (2, None),
    };
    let mut command = ourselves::command(Signal::TERM, || Ok(()));
    command.args([
        ourselves::OPTION,
        "lab",
        "run",
        "--kernel",
        kernel,
        "--cpus",
        &machines.cpus.unwrap_or(cpus).to_string(),
    ]);
    for (option, value) in [
        ("--nvme", machines.nvme.as_deref().or(drive)),
        ("--memory", machines.memory.as_deref()),
        ("--accel", machines.accel.as_deref()),
    ] {
        command.args(value.map(|value| format!("{option}={value}")));
    }
    command.arg(format!("--timeout={}ms", machines.timeout.0.as_millis()));
    if let Some(cache) = &machines.cache {
        command.arg("--cache").arg(cache);
    }
    command.arg("--store").arg(store);
    command.args(["--", "iotrail", ourselves::OPTION, "run", args.experiment(), "--seed", &seed.to_string()]);
    command.args(args.quick.then_some("--quick"));
    command.args(args.repeats.map(|n| format!("--repeats={n}")));
    command.args(args.allow_write.then_some("--allow-write"));
    command.args(args.size.map(|size| format!("--size={}", size.0)));
    if let Some(file) = &args.file {
        command.arg("--file").arg(file);
    }
    command
}

/// Runs the command to completion, passing its output through with the kernel as prefix. Returns the reason if it
/// failed.
fn lab_run(command: Command, name: &str, stop: &AtomicBool) -> Result<Option<String>> {
    let prefix = name.to_owned();
    let line = move |line: &str| terminal::say(&format!("{prefix}: {line}"));
    let mut signal = || {
        let sent = stop.load(Ordering::Relaxed).then(interrupt::sent_to_us_alone).flatten();
        sent.and_then(Signal::from_named_raw)
    };
    let (status, error) = ourselves::run(command, line, &mut signal)?;
    let why = || error.map_or_else(|| format!("the lab ended with {status}"), |e| e.to_string());
    Ok((!status.success()).then(why))
}
