//! Every option of `bench` with every value is accepted, recorded as requested, and measured.

use serde_json::{Value, json};

use crate::tool::{Place, bench, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("options::each_engine_reads_and_writes_with_all_options", engines),
    ("options::all_requested_ring_flags_are_granted", ring_flags),
    ("options::each_value_is_recorded_as_specified", values),
    ("options::a_load_ends_after_its_runtime_or_its_count", ends),
    ("options::verify_detects_modified_data", verify),
];

/// Asserts what all measurements have in common, whatever the options.
#[track_caller]
pub fn sound(m: &Value) {
    let ios = m["ios"].as_u64().expect("a number of I/Os");
    assert!(ios > 0);
    assert_eq!(m["latency_ns"]["count"], ios, "every I/O has a latency");
    assert_eq!((&m["errors"], &m["short_ios"]), (&json!(0), &json!(0)));
    let phases: f64 =
        ["submit", "poll", "clear", "other"].iter().map(|p| m["phases"][p].as_f64().expect("a share")).sum();
    assert!((phases - 1.0).abs() < 1e-9, "phases sum to 1: {phases}");
    assert_eq!(m["load"]["ring"]["requested"], m["load"]["ring"]["granted"], "requested is granted");
    let moved = if m["load"]["rw"] == "nop" { 0 } else { ios * m["load"]["bs"].as_u64().expect("a block size") };
    if m["load"]["engine"] != "null" {
        assert_eq!(m["bytes"], moved);
    }
}

/// A measurement on the shared file, or on the target in the options.
#[track_caller]
fn measured(options: &str) -> Value {
    let place = Place::new();
    let mut command = bench(&place, options);
    if !options.contains("--rw nop") && !options.contains("--file") {
        command.arg("--file").arg(file());
    }
    let m = run(command.arg("--json")).ok().json();
    sound(&m);
    m
}

fn engines() -> End {
    let mut runs = 0;
    for engine in ["io_uring", "libaio", "posix_aio", "sync", "null"] {
        for rw in ["randread", "read", "randwrite", "write", "randrw", "nop"] {
            if rw == "nop" && !matches!(engine, "io_uring" | "null") {
                continue;
            }
            for wait in ["block", "peek"] {
                for reaper in ["same", "thread", "thread:0"] {
                    if reaper != "same" && matches!(engine, "sync" | "null") {
                        continue;
                    }
                    // The other options alternate, so that each value is combined with each engine and direction.
                    let turn = |of: &[&str]| of[runs % of.len()].to_owned();
                    let depth = if engine == "sync" { "--depth 1" } else { "--depth 4 --batch 2" };
                    let mut options = format!(
                        "--engine {engine} --rw {rw} --wait {wait} --reaper {reaper} {depth} {} {} {} {} {}",
                        turn(&["--count 40", "--count 37", "--runtime 20ms"]),
                        turn(&["--scratch none", "--scratch lazy", "--scratch prefault --jobs 2", "--think 2000"]),
                        turn(&["", "--rate 20000", "", "--neighbour busy:1", "--neighbour none"]),
                        turn(&["--direct", "--buffered"]),
                        turn(&["", "--cpus 0", "", "--cpus 0 --jobs 2"]).replace("--jobs 2", ""),
                    );
                    let target = engine != "null" && rw != "nop";
                    if target && runs % 3 == 0 {
                        options += " --verify";
                    }
                    if engine == "io_uring" {
                        let files =
                            turn(&["", "--register files", "--register files,buffers,ring", "--register buffers"]);
                        options += &if target {
                            format!(" {files}")
                        } else {
                            files.replace("files,", "").replace("--register files", "")
                        };
                        options += &turn(&["", " --ring coop_taskrun", " --force-async"]);
                    }
                    // A write needs a new file.
                    if target && rw.contains('w') {
                        options += " --file new --size 1m";
                    }
                    let m = measured(&options);
                    for (name, asked) in [("engine", engine), ("rw", rw), ("wait", wait), ("reaper", reaper)] {
                        assert_eq!(m["load"][name], asked, "{options}");
                    }
                    match m["load"]["count"].as_u64() {
                        Some(count) => assert_eq!(m["ios"], count, "{options}"),
                        None => assert_eq!(m["load"]["runtime_ns"], 20_000_000, "{options}"),
                    }
                    assert_eq!(m["load"]["verify"], options.contains("--verify"), "{options}");
                    assert_eq!(m["load"]["direct"], !options.contains("--buffered"), "{options}");
                    runs += 1;
                }
            }
        }
    }
    // 3 engines with 5 directions and 6 combinations each; io_uring's no-op: 6; sync: 5 · 2; null: 6 · 2.
    assert_eq!(runs, 3 * 5 * 6 + 6 + 10 + 12);
    End::Passed
}

fn ring_flags() -> End {
    for flags in [
        "coop_taskrun",
        "coop_taskrun,taskrun_flag",
        "single_issuer",
        "single_issuer,defer_taskrun",
        "taskrun_flag,single_issuer,defer_taskrun",
        "sqpoll",
        "sqpoll,single_issuer,submit_all",
        "submit_all",
        "cqsize=64",
        "no_sqarray",
    ] {
        for wait in ["block", "peek"] {
            let m = measured(&format!("--count 32 --depth 4 --ring {flags} --wait {wait}"));
            let mut granted: Vec<&str> =
                m["load"]["ring"]["granted"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            let mut asked: Vec<&str> = flags.split(',').collect();
            granted.sort_unstable();
            asked.sort_unstable();
            assert_eq!(granted, asked, "exactly the flags that were asked for");
        }
    }
    // A no-op needs no disk with poll queues.
    for flags in ["iopoll", "iopoll,hybrid_iopoll", "iopoll,sqpoll"] {
        measured(&format!("--rw nop --count 32 --depth 4 --ring {flags}"));
    }
    // Only listed flags are set; without a list, none.
    let m = measured("--count 8");
    assert_eq!(m["load"]["ring"], json!({"requested": [], "granted": []}));
    End::Passed
}

fn values() -> End {
    for (options, name, recorded) in [
        ("--ring sqpoll --sq-cpu 0", "sq_cpu", json!(0)),
        ("--ring sqpoll --sq-idle 7", "sq_idle_ms", json!(7)),
        ("--register files", "register", json!(["files"])),
        ("--register ring,buffers,files", "register", json!(["files", "buffers", "ring"])),
        ("--force-async", "force_async", json!(true)),
        ("--seed 4294967295", "seed", json!(4_294_967_295u32)),
        ("--bs 512", "bs", json!(512)),
        ("--bs 16k", "bs", json!(16384)),
        ("--bs 1M --depth 2", "bs", json!(1 << 20)),
        ("--depth 1", "depth", json!(1)),
        ("--depth 512", "depth", json!(512)),
        ("--batch 16", "batch", json!(16)),
        ("--jobs 3", "jobs", json!(3)),
        ("--cpus 0", "cpus", json!([0])),
        ("--cpus 0 --jobs 2", "cpus", json!([0, 0])),
        ("--cpus 0", "cpus_requested", json!("0")),
        ("--think 100", "think_ns", json!(100)),
        ("--scratch lazy", "scratch", json!("lazy")),
        ("--scratch prefault", "scratch", json!("prefault")),
        ("--neighbour busy:2", "neighbour", json!("busy:2")),
        ("--size 1m", "size", json!(1 << 20)),
        ("--buffered", "direct", json!(false)),
        ("--direct", "direct", json!(true)),
        ("--rate 50000", "rate", json!(50000.0)),
        ("--trace off", "trace", json!("off")),
        ("--wait peek", "wait", json!("peek")),
        ("--min-wait 50us --batch 4", "min_wait_ns", json!(50_000)),
        ("--no-iowait", "no_iowait", json!(true)),
        ("--register wait", "register", json!(["wait"])),
        ("--register wait,ring --min-wait 50us --batch 4", "min_wait_ns", json!(50_000)),
    ] {
        // --trace off is already specified and must not be repeated.
        let options = options.replace("--trace off", "");
        let m = measured(&format!("--count 24 {options}"));
        assert_eq!(m["load"][name], recorded, "{options}");
        assert_eq!(m["ios"], 24, "{options}");
    }
    let place = Place::new();
    let m =
        run(&mut place.tool(["bench", "--rw", "nop", "--count", "5", "--warmup", "3ms", "--trace", "auto", "--json"]))
            .ok()
            .json();
    assert_eq!((&m["load"]["warmup_ns"], &m["load"]["trace"]), (&json!(3_000_000), &json!("auto")));
    End::Passed
}

fn ends() -> End {
    let m = measured("--rw nop --runtime 50ms");
    assert_eq!((&m["load"]["runtime_ns"], &m["load"]["count"]), (&json!(50_000_000), &Value::Null));
    let elapsed = m["elapsed_ns"].as_u64().expect("a time");
    assert!(elapsed >= 49_000_000, "measured for as long as asked: {elapsed}");
    let m = measured("--rw nop --count 100001 --jobs 3 --batch 7");
    assert_eq!((&m["load"]["runtime_ns"], &m["load"]["count"]), (&Value::Null, &json!(100_001)));
    assert_eq!(m["ios"], 100_001, "jobs share the number, none of it is lost or done twice");
    End::Passed
}

fn verify() -> End {
    let place = Place::new();
    run(&mut bench(&place, "--rw write --verify --count 64 --size 1m --file x")).ok();
    let read = |options: &str| run(&mut bench(&place, &format!("--rw read --verify --file x --count 256 {options}")));
    read("").ok();
    // Modifies one byte of one block.
    let mut bytes = std::fs::read(place.join("x")).expect("the file just made");
    bytes[5 * 4096 + 77] ^= 1;
    place.write("x", bytes);
    let ended = read("--buffered");
    assert_eq!(ended.status, 5, "{}{}", ended.stdout, ended.stderr);
    let first = "DATA CORRUPTION in x: 1 block wrong; first at offset 20480: expected";
    assert!(ended.stdout.starts_with(first), "{}", ended.stdout);
    assert!(ended.stderr.starts_with(&format!("iotrail: {first}")), "{}", ended.stderr);
    let ended = read("--buffered --json");
    let found = &ended.json()["corruption"];
    assert_eq!((ended.status, &found["offset"], &found["blocks"]), (5, &json!(20480), &json!(1)), "{found}");
    // The warm-up finds it, too.
    let reads = "bench --trace off --rw read --verify --file x --size 128k --warmup 2s --count 1 --buffered";
    assert_eq!(run(&mut place.tool(reads.split(' '))).status, 5);
    End::Passed
}
