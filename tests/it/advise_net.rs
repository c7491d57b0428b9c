//! `advise net`: its candidates and excluded configurations, a search from start to confirmation, a resumed search, its
//! errors.

use serde_json::Value;

use crate::tool::{Place, end, kill, run, wait_for};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("advise_net::all_configurations_that_the_server_allows_are_candidates", candidates),
    ("advise_net::a_smaller_min_complete_is_advised_if_the_server_waits_for_too_many", confirmed),
    ("advise_net::a_stopped_search_is_resumed", resumed),
    ("advise_net::an_impossible_search_is_rejected_with_one_line", refused),
];

fn candidates() -> End {
    let place = Place::new();
    let plan = |args: &[&str]| {
        let ended = run(&mut place.tool([&["advise", "net", "--plan", "--json"], args].concat())).ok();
        serde_json::from_str::<Value>(&ended.stdout).expect("JSON")
    };
    let out = |plan: &Value| -> Vec<String> {
        let all = plan["left_out"].as_array().expect("a list").iter();
        all.map(|l| format!("{}: {}", l["name"].as_str().expect("a name"), l["reason"].as_str().expect("a reason")))
            .collect()
    };
    let of = plan(&["--server-cpus", "0", "--sender-cpus", "0"]);
    let arms: Vec<&str> =
        of["cells"].as_array().expect("cells").iter().filter_map(|c| c["params"]["arm"].as_str()).collect();
    let singles = ["receive single", "receive provided", "receive bundle", "register files,ring", "wait-for 2"];
    let rings = ["coop_taskrun,taskrun_flag", "single_issuer", "defer_taskrun,single_issuer", "sqpoll"];
    let with = singles.map(|s| format!("defer_taskrun,single_issuer · {s}"));
    let expected = ["as-is"].iter().chain(&rings).chain(&singles).map(|s| (*s).to_owned()).chain(with);
    let expected: Vec<String> = expected.chain(["engine epoll".into(), "engine epoll · edge".into()]).collect();
    assert_eq!(arms, expected);
    assert_eq!(of["cells"][0]["options"]["server-cpus"], "0");
    assert_eq!(
        out(&of),
        [
            "napi: loopback and UNIX sockets have no device queue to poll, nor has veth with its defaults; test it between two machines",
            "zero-copy: a response of 64 B is less than a page, and each send costs a second completion",
        ]
    );
    // Every candidate has the specified options; a conflicting candidate is left out with the server's own reason.
    let of = plan(&["--ring", "sqpoll", "--sq-idle", "5", "--napi", "20us", "--between", "unix"]);
    let rule = |ring: &str| format!("{ring}: --sq-idle needs an SQPOLL thread; add --ring sqpoll");
    let told = out(&of);
    assert!(rings[..3].iter().all(|ring| told.contains(&rule(ring))), "{told:?}");
    assert!(told.contains(&"zero-copy: a UNIX socket has no zero-copy sends".to_owned()), "{told:?}");
    assert!(!told.iter().any(|t| t.starts_with("napi")), "{told:?}");
    let text = run(&mut place.tool(["advise", "net", "--plan"])).ok().stdout;
    assert!(text.contains("\nexcluded     napi: loopback and UNIX sockets"), "{text}");
    End::Passed
}

/// The server waits 20 ms for completions that never arrive, so every other configuration is many times faster.
fn confirmed() -> End {
    let place = Place::new();
    let (file, store) = (place.join("found.toml"), place.join("s.db"));
    let (file, store) = (file.to_str().expect("UTF-8"), store.to_str().expect("UTF-8"));
    let own = ["advise", "net", "--json", "--save", file, "--store", store, "--budget", "50s"];
    let load = "--between loopback --connections 2 --server-threads 1 --runtime 60ms --warmup 10ms";
    let waits = "--wait-for 64 --wait-timeout 20ms";
    let options: Vec<&str> = own.into_iter().chain(load.split(' ')).chain(waits.split(' ')).collect();
    let said: Value = serde_json::from_str(&run(&mut place.tool(&options)).ok().stdout).expect("JSON");
    let (search, confirmation) = (&said["search"], &said["confirmation"]);
    assert_eq!((&search["search"]["objective"], &search["table"]), (&"iops".into(), &"net".into()));
    let candidates = search["search"]["candidates"].as_array().expect("candidates");
    assert_eq!(candidates.len(), search["cells"].as_array().map_or(0, Vec::len));
    assert_eq!(search["search"]["left_out"].as_array().map(Vec::len), Some(2));
    // epoll has no such wait.
    let arms = confirmation["arms"].as_array().expect("arms");
    let chosen = arms[1].as_str().expect("a name");
    assert!(arms.len() == 2 && arms[0] == "as-is" && chosen.starts_with("engine epoll"), "{arms:?}");
    let its = candidates.iter().find(|c| c["name"] == chosen).expect("it is a candidate");
    assert_eq!(its["effort"], "redesign");
    let here = its["how"].as_array().and_then(|how| how.last()?.as_str()).expect("a command");
    assert!(here.starts_with("here: iotrail net serve ADDRESS --engine epoll"), "{here}");
    // In both arms, with or without probes, every request in every measurement is answered.
    let cells = confirmation["cells"].as_array().expect("cells");
    assert_eq!(cells.len(), 4);
    for m in cells.iter().flat_map(|c| c["measurements"].as_array().expect("measurements")) {
        assert_eq!((&m["net"]["between"], &m["load"]["rw"]), (&"loopback".into(), &"echo".into()));
        assert_eq!(m["net"]["server"]["total"]["requests"], m["ios"]);
    }
    let answer = said["head"]["answer"].as_str().expect("an answer");
    assert!(answer.starts_with(&format!("{chosen}: ")) && answer.contains("× more requests per second"), "{answer}");
    assert!(answer.ends_with(" fresh blocks"), "{answer}");
    let also: Vec<&str> = said["head"]["also"].as_array().expect("lines").iter().filter_map(Value::as_str).collect();
    let as_is = also.iter().find(|line| line.starts_with("as-is: ")).expect("what was measured");
    assert_eq!(
        *as_is,
        "as-is: io_uring, receive multishot, 1 thread; 2 connections, window 1, 64 B request and response, over loopback"
    );
    // The stored run has the same head; both runs are listed; the file runs as an experiment.
    let report = run(&mut place.tool(["report", &confirmation["run"].to_string(), "--store", store])).ok().stdout;
    // A line may break within `as-is`.
    let dense = |text: &str| text.split_whitespace().collect::<String>();
    assert!(dense(&report).starts_with(&dense(answer)), "{report}");
    let runs = run(&mut place.tool(["list", "--store", store, "--json"])).ok().json();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(2));
    let plan = run(&mut place.tool(["run", file, "--plan", "--json"])).ok().json();
    assert_eq!((&plan["repeats"], plan["cells"].as_array().map(Vec::len)), (&12.into(), Some(4)));
    End::Passed
}

fn resumed() -> End {
    let place = Place::new();
    let store = place.join("s.db");
    let load = "--between loopback --engine epoll --connections 2 --runtime 60ms --warmup 10ms";
    let advise = |more: &str| {
        let mut command = place.tool(["advise", "net", "--json", "--store", "s.db"]);
        command.args(load.split(' ')).args(more.split(' '));
        command
    };
    let child = advise("--budget 5m").spawn().expect("the tool starts");
    let stored = || {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let db = rusqlite::Connection::open_with_flags(&store, flags).ok()?;
        db.query_row("SELECT count(*) FROM measurements", [], |r| r.get::<_, i64>(0)).ok()
    };
    wait_for("three measurements in the store", || stored().filter(|n| *n >= 3));
    kill(child.id(), libc::SIGINT);
    let ended = end(child);
    assert_eq!(ended.status, 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("continue with the same options and --resume"), "{}", ended.stderr);
    // The resumed search continues with the rest of the first block.
    let said = run(&mut advise("--budget 40s --resume")).ok().json();
    assert_eq!(said["search"]["run"], 1);
    let cells = said["search"]["cells"].as_array().expect("cells");
    let counts: Vec<usize> = cells.iter().map(|c| c["measurements"].as_array().map_or(0, Vec::len)).collect();
    assert!(counts.len() == 14 && counts.iter().all(|n| *n >= 1), "{counts:?}");
    assert_eq!(said["search"]["search"]["budget_s"], 300.0, "what the run was begun with");
    End::Passed
}

fn refused() -> End {
    let place = Place::new();
    for (args, status, what) in [
        (
            &["advise", "--objective", "cpu", "net"][..],
            2,
            "--objective must follow net: write `iotrail advise net --objective",
        ),
        (&["advise", "net", "--engine", "kqueue"], 2, "invalid value 'kqueue' for '--engine <ENGINE>'"),
        (&["advise", "net", "--rw", "nop"], 2, "unexpected argument '--rw' found"),
        (&["advise", "net", "--window", "0"], 2, "--window 0"),
        (&["advise", "net", "--resume"], 2, "no unfinished run of "),
    ] {
        let ended = run(&mut place.tool(args));
        assert_eq!(ended.status, status, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(what), "{args:?}: {}", ended.stderr);
    }
    End::Passed
}
