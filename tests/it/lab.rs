//! The lab without booting a machine: a usage error is a single line, fetches nothing and leaves no files behind.

use crate::tool::{Place, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("lab::a_usage_error_is_one_line", wrong_use),
    ("lab::only_local_kernels_are_listed_without_a_registry", no_registry),
    ("lab::a_kernel_that_cannot_be_fetched_is_one_error_line", nothing_to_fetch_with),
    ("lab::a_file_that_is_not_a_kernel_is_rejected", no_kernel),
    ("lab::the_guest_command_is_rejected_on_the_host", guest),
];

/// A different architecture from this machine's.
const OTHER: &str = if cfg!(target_arch = "aarch64") { "amd64" } else { "arm64" };

fn wrong_use() -> End {
    let place = Place::new();
    let told = |options: &str| {
        let mut command = place.tool(["lab", "run", "--cache", "cache"]);
        command.args(options.split_whitespace());
        let ended = run(command.args(["--", "true"]));
        assert_eq!(ended.status, 2, "{options}: {}", ended.stderr);
        ended.one_line().to_owned()
    };
    for (options, expected) in [
        ("--cpus 0", "invalid value '0' for '--cpus <N>'"),
        ("--cpus 4 --sockets 3", "4 CPUs cannot be divided among 3 sockets; use a --sockets value that divides --cpus"),
        ("--memory 1m", "1 MiB of memory is not enough to boot"),
        ("--nvme queue=1", "unknown property 'queue'"),
        ("--nvme queues=0", "at least one of them with an interrupt"),
        ("--nvme data=keep,latency=1ms", "latency: requires data=discard"),
        ("--nvme poll=1 --nvme poll=2", "the drives request different numbers of poll queues (1 and 2)"),
        ("--kernel ./vmlinux", "the location of its modules is unknown; specify lib/modules/RELEASE with --modules"),
        ("--kernel ./no-such --modules .", "cannot read ./no-such"),
        ("--timeout 5", "'5' has no unit of time"),
        ("--accel hvf", "possible values: auto, kvm, tcg"),
        ("--arch riscv64", "possible values: amd64, arm64"),
        (&format!("--arch {OTHER} --accel kvm"), "on this machine's processor; omit --accel"),
        (&format!("--arch {OTHER}"), "does not run on"),
        (&format!("--arch {OTHER} --program ./no-such"), "cannot read the program ./no-such"),
        ("--root ./no-such", "cannot read the folder ./no-such"),
    ] {
        let line = told(options);
        assert!(line.contains(expected), "{options}: {line}");
    }
    let ended = run(&mut place.tool(["lab", "run"]));
    assert_eq!(ended.status, 2);
    assert!(ended.one_line().contains("<COMMAND>"), "{}", ended.stderr);
    assert!(!place.join("cache/kernels").exists(), "nothing was fetched");
    End::Passed
}

/// A PATH without a download program.
fn bare(place: &Place, words: &[&str]) -> std::process::Command {
    let mut command = place.tool(words);
    command.env("PATH", place.path());
    command
}

fn no_registry() -> End {
    let place = Place::new();
    std::fs::create_dir_all(place.join("cache/kernels/6.1.0-1-made")).expect("a folder of our own");
    let ended = run(&mut bare(&place, &["lab", "kernels", "--json", "--cache", "cache"])).ok();
    assert!(ended.stderr.contains("cannot query the registry"), "{}", ended.stderr);
    let json: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!(json["schema"], "iotrail.lab-kernels/1");
    let kernels = json["kernels"].as_array().expect("a list");
    assert!(kernels.iter().any(|k| k["release"] == "6.1.0-1-made" && k["place"] == "fetched"), "{json}");
    End::Passed
}

fn nothing_to_fetch_with() -> End {
    let place = Place::new();
    for words in [
        &["lab", "fetch", "6.1", "--cache", "cache"][..],
        &["lab", "run", "--kernel", "6.1.0-0-none", "--cache", "cache", "--", "true"],
    ] {
        let ended = run(&mut bare(&place, words));
        assert_eq!(ended.status, 3, "{}", ended.stderr);
        assert!(ended.stderr.lines().last().is_some_and(|l| l.starts_with("iotrail: cannot ")), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    assert!(!place.join("cache/kernels").exists());
    End::Passed
}

fn no_kernel() -> End {
    let place = Place::new();
    std::fs::create_dir(place.join("6.1.0-made")).expect("a folder of our own");
    place.write("6.1.0-made/modules.dep", "");
    place.write("vmlinuz", "#!/bin/sh\n");
    let words = ["lab", "run", "--cache", "cache", "--kernel", "vmlinuz", "--modules", "6.1.0-made", "--", "true"];
    let ended = run(&mut place.tool(words));
    assert_eq!(ended.status, 2);
    assert!(
        ended.one_line().contains("is not a bootable kernel: it is neither a bzImage nor an ELF kernel"),
        "{}",
        ended.stderr
    );
    End::Passed
}

fn guest() -> End {
    let ended = run(&mut Place::new().tool(["lab", "guest"]));
    assert_eq!(ended.status, 2);
    assert!(ended.one_line().contains("use `iotrail lab run`"), "{}", ended.stderr);
    End::Passed
}
