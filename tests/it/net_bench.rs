//! `net bench`: planned, measured with both ends on this machine, compared; and its errors.

use serde_json::{Value, json};

use crate::bad_load::assert_refused;
use crate::tool::{Place, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("net_bench::option_lists_are_planned_as_an_experiment_without_creating_files", planned),
    ("net_bench::an_impossible_load_is_rejected_with_one_line", refused),
    ("net_bench::a_measurement_includes_sender_and_server", one),
    ("net_bench::option_lists_are_measured_stored_and_compared", several),
    ("net_bench::a_network_experiment_is_run_from_a_file", from_file),
    ("net_bench::an_interrupted_or_killed_run_leaves_no_server", ended_early),
];

const SHORT: &str = "--trace off --warmup 0 --server-threads 1";

fn bench(place: &Place, options: &str) -> std::process::Command {
    let mut command = place.tool(["net", "bench"]);
    command.args(options.split_whitespace());
    command
}

fn planned() -> End {
    let place = Place::new();
    let before = place.contents();
    let plan =
        run(&mut bench(&place, "--engine epoll,io_uring --connections 4,64 --window 2 --quick --plan --json --seed 3"));
    let plan = plan.ok().json();
    assert_eq!(plan["schema"], "iotrail.plan/1");
    assert_eq!((&plan["seed"], &plan["repeats"], &plan["target"]), (&json!(3), &json!(4), &Value::Null));
    let cells: Vec<&Value> = plan["cells"].as_array().expect("a list").iter().map(|c| &c["params"]).collect();
    let of = |connections: u32, arm: &str| json!({"connections": connections, "arm": arm});
    assert_eq!(
        cells,
        [
            &of(4, "epoll"),
            &of(4, "io_uring"),
            &of(4, "control"),
            &of(64, "epoll"),
            &of(64, "io_uring"),
            &of(64, "control")
        ]
    );
    assert_eq!(plan["cells"][1]["options"]["window"], 2);
    let text = run(&mut bench(&place, "--engine epoll,io_uring --plan")).ok().stdout;
    assert!(text.contains("3 cells · 5 repeats · 15 measurements") && text.contains("arm io_uring"), "{text}");
    assert_eq!(place.contents(), before, "--plan makes nothing");
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    let before = place.contents();
    for (options, line) in [
        ("--engine kqueue", "invalid value 'kqueue' for '--engine <ENGINE>'*; see `iotrail net bench --help`"),
        ("--connections 4,4", "--connections lists 4 twice; list each value once"),
        ("--ring coop --engine io_uring", "*coop*; *"),
        ("--window 0 --plan", "*--window 0*; *"),
        ("--server-threads 0", "*--server-threads 0*; *"),
        ("--repeats 0", "invalid value '0' for '--repeats <N>'*"),
        ("--runtime 1s --count 3", "the argument '--runtime <TIME>' cannot be used with '--count <N>'*"),
        ("--depth 3", "unexpected argument '--depth' found*"),
    ] {
        assert_refused(&run(&mut bench(&place, options)), 2, line);
    }
    assert_eq!(place.contents(), before);
    End::Passed
}

/// Asserts that both sides counted the same requests.
#[track_caller]
fn agree(m: &Value, engine: &str, between: &str) {
    assert_eq!((&m["load"]["engine"], &m["load"]["rw"]), (&json!(engine), &json!("echo")));
    assert_eq!(m["net"]["between"], between);
    assert!(m["ios"].as_u64() > Some(0));
    assert_eq!(m["net"]["server"]["total"]["requests"], m["ios"]);
    assert_eq!((&m["net"]["sender"]["responses"], &m["net"]["sender"]["unanswered"]), (&m["ios"], &json!(0)));
    assert_eq!(m["latency_ns"]["count"], m["ios"]);
}

fn one() -> End {
    let place = Place::new();
    for between in ["loopback", "unix"] {
        let options =
            format!("{SHORT} --engine epoll --between {between} --connections 3 --window 2 --count 600 --json");
        let m = run(bench(&place, &options).arg("--store").arg("s.db")).ok().json();
        assert_eq!(m["schema"], "iotrail.measurement/1");
        agree(&m, "epoll", between);
        assert_eq!((&m["ios"], &m["load"]["depth"]), (&json!(600), &json!(6)));
    }
    let text = run(&mut bench(&place, &format!("{SHORT} --engine epoll --between loopback --count 50"))).ok().stdout;
    assert!(text.contains("requests/s") && text.contains("over loopback"), "{text}");
    let runs = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    End::Passed
}

fn several() -> End {
    let place = Place::new();
    let options =
        format!("{SHORT} --engine epoll --between loopback --window 1,2 --repeats 2 --count 200 --store s.db");
    let r = run(bench(&place, &options).arg("--json")).ok().json();
    assert_eq!(
        (&r["schema"], &r["experiment"], &r["table"]),
        (&json!("iotrail.run/1"), &json!("net-bench"), &json!("net"))
    );
    assert_eq!(r["arms"], json!(["window 1", "window 2"]));
    for (cell, depth) in r["cells"].as_array().expect("a list").iter().zip([4, 8, 4]) {
        let measurements = cell["measurements"].as_array().expect("a list");
        assert_eq!(measurements.len(), 2);
        for m in measurements {
            agree(m, "epoll", "loopback");
            assert_eq!(m["load"]["depth"], depth);
        }
    }
    let metrics: Vec<&str> =
        r["comparisons"].as_array().expect("a list").iter().filter_map(|c| c["metric"].as_str()).collect();
    assert_eq!(metrics, ["iops", "cpu_per_io", "latency_p99"]);
    let text = run(bench(&place, &options).arg("--full")).ok().stdout;
    assert!(text.contains("Requests per second with window 2 against window 1: "), "{text}");
    assert!(text.contains("The server's CPU time per request with window 2"), "{text}");
    End::Passed
}

const EXPERIMENT: &str = r#"
name = "net"
title = "t"
question = "q"
expect = "e"
kind = "net"
table = "order"
repeats = 2
[load]
trace = "off"
between = "loopback"
server-threads = 1
engine = "epoll"
warmup = "0"
count = 100
[[arm]]
name = "level"
[[arm]]
name = "edge"
trigger = "edge"
"#;

fn from_file() -> End {
    let place = Place::new();
    place.write("e.toml", EXPERIMENT);
    let r = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--json"])).ok().json();
    let cells = r["cells"].as_array().expect("a list");
    assert_eq!(cells.len(), 3);
    for cell in cells {
        for m in cell["measurements"].as_array().expect("a list") {
            agree(m, "epoll", "loopback");
            let trigger = if cell["params"]["arm"] == "edge" { "edge" } else { "level" };
            assert_eq!(m["net"]["server"]["options"]["trigger"], trigger);
        }
    }
    let text = run(&mut place.tool(["run", "e.toml", "--store", "s.db", "--full"])).ok().stdout;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for said in
        ["Requests per second with edge against level: ", "Requests per second: level ", "Idle time per second: level "]
    {
        assert!(flat.contains(said), "{said}: {text}");
    }
    let rates = flat.split("Requests per second: level ").nth(1).and_then(|rest| rest.split(" Idle time").next());
    assert_eq!(rates.map(|rates| rates.matches(" in 2 runs, ").count()), Some(2), "{text}");
    let plan = run(&mut place.tool(["run", "e.toml", "--plan"])).ok().stdout;
    assert!(plan.contains("the time for 600 requests") && !plan.contains("target"), "{plan}");
    End::Passed
}

/// Child processes of a process.
fn children(of: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{of}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|l| l.split_whitespace().filter_map(|n| n.parse().ok()).collect::<Vec<_>>()).collect()
}

fn ended_early() -> End {
    let place = Place::new();
    let (folders, lasting) = (place.join("tmp"), "--runtime 5m");
    std::fs::create_dir(&folders).expect("a folder in our own");
    let left = || std::fs::read_dir(&folders).expect("our own folder").count();
    let start = |length: &str| {
        let options = format!("--trace off --engine epoll --between unix --warmup 0 --json {length}");
        bench(&place, &options).env("TMPDIR", &folders).spawn().expect("the tool starts")
    };
    for (signal, status) in [(libc::SIGINT, 1), (libc::SIGKILL, 128 + libc::SIGKILL)] {
        let child = start(lasting);
        let id = child.id();
        let server = wait_for("a server", || children(id).first().copied());
        // Requests are being answered once the server's threads have used the CPU.
        wait_for("requests", || {
            let stat = std::fs::read_to_string(format!("/proc/{server}/stat")).ok()?;
            let ticks = |n: usize| stat.rsplit(") ").next()?.split(' ').nth(n)?.parse::<u64>().ok();
            (ticks(11)? + ticks(12)? > 2).then_some(())
        });
        kill(id, signal);
        let ended = end(child);
        assert_eq!(ended.status, status, "{ended:?}");
        if signal == libc::SIGINT {
            agree(&ended.json(), "epoll", "unix");
            assert_eq!(left(), 0);
        }
        wait_for("the server's end", || (!std::path::Path::new(&format!("/proc/{server}")).exists()).then_some(()));
    }
    assert_eq!(left(), 1, "the sockets' folder, which the next one removes with its own");
    end(start("--count 10")).ok();
    assert_eq!(left(), 0);
    End::Passed
}
