//! Closed or full standard output; full standard error.

use std::fs::OpenOptions;
use std::io::Read as _;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bad_load::assert_refused;
use crate::confine;
use crate::run::experiment;
use crate::tool::{Place, bench, end, file, run};
use crate::{End, Test};

pub const TESTS: &[Test] = &[
    ("output::a_closed_output_pipe_is_not_an_error", early),
    ("output::a_full_standard_output_is_an_error", full),
    ("output::a_full_standard_error_is_ignored", full_error),
    ("output::a_closed_standard_output_is_an_error", closed),
    ("output::a_page_is_written_to_standard_output_under_any_name", page),
    ("output::a_page_is_written_to_a_fifo_that_has_a_reader", pipe),
    ("output::a_set_of_files_is_written_completely_or_not_at_all", all_or_none),
    ("output::a_full_disk_is_reported_with_the_remedy", full_disk),
    ("output::an_exceeded_file_size_limit_is_an_error", limited),
    ("output::characters_follow_the_locale", letters),
    ("output::a_dumb_terminal_gets_no_escapes", dumb),
];

/// Commands that print, and their files in the directory.
fn printing(place: &Place) -> Vec<Command> {
    experiment(place, "count = 8");
    let mut run = place.tool(["run", "e.toml", "--quick", "--store", "s.db", "--file"]);
    run.arg(file());
    let tool = |args: &[&str]| place.tool(args);
    vec![
        tool(&["--help"]),
        tool(&["bench", "--help"]),
        tool(&["--version"]),
        tool(&["check"]),
        tool(&["check", "--json"]),
        tool(&["list", "--store", "none.db"]),
        tool(&["run", "coop", "--plan", "--file", "x", "--size", "1g"]),
        bench(place, "--rw nop --count 8"),
        bench(place, "--rw nop --count 8 --json"),
        run,
    ]
}

fn early() -> End {
    let place = Place::new();
    for command in &mut printing(&place) {
        // `| head -1`, and a reader that never reads.
        for bytes in [1, 0] {
            let mut child = command.spawn().expect("the tool starts");
            let mut reader = child.stdout.take().expect("a pipe");
            let mut first = vec![0; bytes];
            reader.read_exact(&mut first).expect("its first byte");
            drop(reader);
            let ended = end(child);
            assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{command:?}");
        }
    }
    End::Passed
}

fn dev_full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").expect("/dev/full is on every Linux").into()
}

fn full() -> End {
    let place = Place::new();
    for command in &mut printing(&place) {
        let ended = run(command.stdout(dev_full()));
        assert_eq!(ended.status, 3, "{command:?}");
        let line =
            "cannot write to standard output: No space left on device (os error 28); check where it is redirected";
        assert_eq!(ended.one_line(), line, "{command:?}");
    }
    // A load or run whose answer cannot be printed is not started.
    let ended = run(bench(&place, "--rw nop --count 8 --store unprinted.db").stdout(dev_full()));
    assert_eq!((ended.status, place.path().join("unprinted.db").exists()), (3, false));
    let listed = run(&mut place.tool(["list", "--store", "s.db", "--json"])).ok().json();
    let runs = listed["runs"].as_array().expect("a list");
    assert!(runs.iter().all(|r| r["experiment"] == "bench"), "{runs:?}");
    End::Passed
}

fn full_error() -> End {
    let place = Place::new();
    let status = |command: &mut Command| run(command.stderr(dev_full())).status;
    assert_eq!(status(&mut bench(&place, "--file missing")), 2);
    assert_eq!(status(&mut place.tool(["bench", "--engine", "none"])), 2);
    assert_eq!(status(&mut place.tool([""; 0])), 2);
    assert_eq!(status(&mut bench(&place, "--rw nop --count 8")), 0);
    // The disk fills up while the target is laid out, and the error cannot be printed.
    assert_eq!(status(&mut bench(&place, "--file x --size 4000000t")), 3);
    assert_eq!(place.contents().len(), 0);
    End::Passed
}

fn closed() -> End {
    let place = Place::new();
    for command in &mut printing(&place) {
        // SAFETY: close is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::close(libc::STDOUT_FILENO);
                Ok(())
            })
        };
        let ended = run(command);
        assert_eq!(ended.status, 3, "{command:?}");
        let line = "cannot write to standard output: it is closed; redirect it to a file or to /dev/null";
        assert_eq!(ended.one_line(), line, "{command:?}");
    }
    // A result sent to /dev/null, however it was opened, is discarded on purpose.
    let null = || OpenOptions::new().read(true).write(true).open("/dev/null").expect("/dev/null is on every Linux");
    run(bench(&place, "--rw nop --count 8").stdout(null())).ok();
    // No data is lost if the result goes elsewhere.
    let mut made = report(&place, &["-o", "page.html"]);
    // SAFETY: as above.
    unsafe {
        made.pre_exec(|| {
            libc::close(libc::STDOUT_FILENO);
            Ok(())
        })
    };
    run(&mut made).ok();
    End::Passed
}

/// Runs `report` on a measurement.
fn report(place: &Place, args: &[&str]) -> Command {
    if !place.join("m.json").exists() {
        let m = run(&mut bench(place, "--rw nop --count 8 --json")).ok().stdout;
        place.write("m.json", m);
    }
    place.tool([&["report", "m.json"], args].concat())
}

const BEGINS: &str = "<!DOCTYPE html>\n<!-- iotrail report -->";

fn page() -> End {
    let place = Place::new();
    std::os::unix::fs::symlink("/dev/stdout", place.join("link")).expect("a folder of our own");
    for name in ["-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"] {
        let whole = run(&mut report(&place, &["-o", name])).ok();
        assert!(whole.stdout.starts_with(BEGINS) && whole.stdout.trim_end().ends_with("</html>"), "{name}");
        assert_eq!(whole.stderr, "", "{name}");
        // `| head -1`: the tool exits without an error.
        let mut child = report(&place, &["-o", name]).spawn().expect("the tool starts");
        let mut reader = child.stdout.take().expect("a pipe");
        reader.read_exact(&mut [0; 15]).expect("its first line");
        drop(reader);
        let ended = end(child);
        assert_eq!((ended.status, ended.stderr.as_str()), (0, ""), "{name}");
        // A file as standard output is written at its current position, and not replaced.
        place.write("out", "before\n");
        let file = OpenOptions::new().append(true).open(place.join("out")).expect("our own file");
        run(report(&place, &["-o", name]).stdout(file)).ok();
        let out = std::fs::read_to_string(place.join("out")).expect("UTF-8");
        assert!(out.starts_with(&format!("before\n{BEGINS}")), "{name}");
    }
    assert!(place.join("link").is_symlink());
    assert_eq!(std::fs::read_link("/dev/stdout").ok().as_deref(), Some(Path::new("/proc/self/fd/1")));
    End::Passed
}

fn pipe() -> End {
    let place = Place::new();
    run(&mut place.command("mkfifo".as_ref(), ["fifo"])).ok();
    let nobody = "fifo is a pipe with no reader; start its reader first, or specify a file with -o";
    assert_refused(&run(&mut report(&place, &["-o", "fifo"])), 2, nobody);
    let reader = place.command("sh".as_ref(), ["-c", "cat fifo > got"]).spawn().expect("cat starts");
    let began = std::time::Instant::now();
    let ended = loop {
        let ended = run(&mut report(&place, &["-o", "fifo"]));
        if ended.status == 0 || began.elapsed().as_secs() > 20 {
            break ended;
        }
    };
    ended.ok();
    end(reader).ok();
    assert!(std::fs::read_to_string(place.join("got")).expect("UTF-8").trim_end().ends_with("</html>"));
    // The tool waits for a stalled reader until a signal arrives.
    let idle = OpenOptions::new().read(true).write(true).open(place.join("fifo")).expect("our own pipe");
    // The complete page must not fit into the pipe. SAFETY: `idle` is open, and the size is a number.
    let size = unsafe { libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&idle), libc::F_SETPIPE_SZ, 4096) };
    assert_eq!(size, 4096, "{}", std::io::Error::last_os_error());
    let child = report(&place, &["-o", "fifo"]).spawn().expect("the tool starts");
    std::thread::sleep(std::time::Duration::from_secs(2));
    // SAFETY: an unreaped child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    let ended = end(child);
    assert!(ended.status == 3 && ended.one_line().contains("stopped by a signal"), "{ended:?}");
    drop(idle);
    let socket = std::os::unix::net::UnixListener::bind(place.join("socket")).expect("a folder of our own");
    let refused = run(&mut report(&place, &["-o", "socket", "--force"]));
    assert_refused(&refused, 2, "socket is a socket, not a file; specify a file with -o");
    drop(socket);
    End::Passed
}

/// A file blocks the directory of the table `cpu_shares`, when earlier tables are already in place.
fn all_or_none() -> End {
    let place = Place::new();
    run(&mut bench(&place, "--rw nop --count 8 --store s.db")).ok();
    let export = |to: &str| place.tool(["export", "1", "--store", "s.db", "--parquet", to]);
    run(&mut export("whole")).ok();
    let tables: Vec<_> = std::fs::read_dir(place.join("whole")).expect("it was made").flatten().collect();
    assert!(tables.len() > 1);
    std::fs::create_dir(place.join("some")).expect("our own folder");
    // One of the tables cannot be renamed to its final name, whichever is written last.
    for table in &tables {
        let name = table.file_name();
        std::fs::write(place.join("some").join(&name), "somebody's").expect("our own folder");
        let ended = run(&mut export("some"));
        assert_eq!(ended.status, 2, "{ended:?}");
        let left: Vec<_> =
            std::fs::read_dir(place.join("some")).expect("ours").flatten().map(|e| e.file_name()).collect();
        assert_eq!(left, std::slice::from_ref(&name), "{ended:?}");
        std::fs::remove_file(place.join("some").join(&name)).expect("our own file");
    }
    // If the disk fills up, the directory is removed, too.
    if let Some(reason) = confine::cannot_mount(c"tmpfs") {
        return End::Skipped(reason);
    }
    std::fs::create_dir(place.join("at")).expect("our own folder");
    let script = "\"$0\" export 1 --store s.db --parquet at/new; s=$?; ls -A at; exit $s";
    let mut command = place.command("sh".as_ref(), ["-c", script, crate::tool::BINARY]);
    let ended = run(confine::mounted(&mut command, c"tmpfs", c"size=16k", c"at"));
    assert_refused(
        &ended,
        3,
        "cannot write at/new*: No space left on device (os error 28); free space on the disk of at/new*",
    );
    End::Passed
}

fn full_disk() -> End {
    if let Some(reason) = confine::cannot_mount(c"tmpfs") {
        return End::Skipped(reason);
    }
    let place = Place::new();
    report(&place, &[]);
    std::fs::create_dir(place.join("at")).expect("our own folder");
    let script = "\"$0\" report m.json -o at/page.html; s=$?; ls -A at; exit $s";
    let mut command = place.command("sh".as_ref(), ["-c", script, crate::tool::BINARY]);
    let ended = run(confine::mounted(&mut command, c"tmpfs", c"size=32k", c"at"));
    assert_refused(
        &ended,
        3,
        "cannot write at/page.html: No space left on device (os error 28); free space on the disk of at, or specify a path on another disk with -o",
    );
    End::Passed
}

fn limited() -> End {
    let place = Place::new();
    run(&mut bench(&place, "--rw nop --count 8 --store s.db")).ok();
    report(&place, &[]);
    std::fs::create_dir(place.join("man")).expect("our own folder");
    for (args, what) in [
        ("report m.json -o page.html", "cannot write page.html: File too large (os error 27)"),
        ("export 1 --store s.db --csv rows", "cannot write rows: File too large (os error 27)"),
        ("export 1 --store s.db --parquet tables", "cannot write tables/*part.parquet: File too large (os error 27)"),
        ("man man", "cannot write man/*: File too large (os error 27)"),
        ("bench --rw nop --count 8 --trace off --store new.db", "cannot use the store new.db: disk I/O error"),
    ] {
        let script = format!("ulimit -f 1; exec \"$0\" {args}");
        let ended = run(&mut place.command("sh".as_ref(), ["-c", &script, crate::tool::BINARY]));
        assert_refused(&ended, 3, &format!("{what}; raise the file size limit (ulimit -f), or * another *"));
    }
    // The limit is reached when the result is printed.
    place.write("out", vec![b'.'; 4 << 20]);
    experiment(&place, "count = 8");
    let script = "ulimit -f 4096; exec \"$0\" run e.toml --quick --store r.db --file \"$1\" >>out";
    let file = file().display().to_string();
    let ended = run(&mut place.command("sh".as_ref(), ["-c", script, crate::tool::BINARY, &file]));
    let line = "cannot write to standard output: File too large (os error 27); check where it is redirected; run 1 is stored: iotrail report 1 --store r.db";
    assert_eq!(
        (ended.status, ended.stderr.lines().last()),
        (3, Some(&*format!("iotrail: {line}"))),
        "{}",
        ended.stderr
    );
    let left: Vec<_> = place.contents().into_keys().collect();
    let whole = ["m.json", "s.db", "man", "out", "e.toml", "r.db"].map(|name| place.join(name));
    assert!(left.iter().all(|path| whole.iter().any(|w| w.ends_with(path))), "{left:?}");
    End::Passed
}

fn letters() -> End {
    let place = Place::new();
    let screens = || {
        [
            bench(&place, "--rw nop --count 1000"),
            place.tool(["run", "coop", "--plan", "--file", "x", "--size", "1g"]),
            place.tool(["check"]),
            place.tool(["trace", "--help"]),
        ]
    };
    let in_utf8 = run(screens()[0].env("LC_ALL", "C.UTF-8"));
    assert!(!in_utf8.stdout.is_ascii(), "a test of nothing");
    for mut command in screens() {
        let ended = run(command.env("LC_ALL", "C"));
        let other: Vec<&str> = ended.stdout.lines().chain(ended.stderr.lines()).filter(|l| !l.is_ascii()).collect();
        assert_eq!(other, [""; 0], "{command:?}");
        assert!(!ended.stdout.contains("\\u{"), "every sign of ours has one of ASCII: {}", ended.stdout);
    }
    // A document is the same in every locale, and a name stays recognisable.
    let mut command = bench(&place, "--file größer");
    let ended = run(command.env("LANG", "POSIX"));
    assert_eq!(ended.one_line(), "gr\\u{f6}\\u{df}er does not exist; specify --size to create it");
    let json = run(bench(&place, "--rw nop --count 8 --json").env("LC_ALL", "C")).ok();
    assert_eq!(json.json()["schema"], "iotrail.measurement/1");
    End::Passed
}

/// A command's output with all its streams on a terminal.
fn on_terminal(command: &mut Command) -> String {
    let (mut outer, mut inner) = (0, 0);
    let none = std::ptr::null_mut();
    // SAFETY: two valid pointers to write to; the other arguments are null.
    assert_eq!(unsafe { libc::openpty(&mut outer, &mut inner, none, std::ptr::null(), std::ptr::null()) }, 0);
    // SAFETY: the call has just returned these descriptors, which have no other owner.
    let (outer, inner) = unsafe { (OwnedFd::from_raw_fd(outer), OwnedFd::from_raw_fd(inner)) };
    let copy = || inner.try_clone().expect("a descriptor");
    let mut child = command.stdin(Stdio::null()).stdout(copy()).stderr(copy()).spawn().expect("the tool starts");
    command.stdout(Stdio::null()).stderr(Stdio::null());
    drop(inner);
    let mut terminal = std::fs::File::from(outer);
    let (mut said, mut room) = (vec![], [0; 4096]);
    // Reading a terminal without processes fails with EIO.
    while let Ok(n @ 1..) = terminal.read(&mut room) {
        said.extend_from_slice(&room[..n]);
    }
    child.wait().expect("our own child");
    String::from_utf8(said).expect("UTF-8")
}

fn dumb() -> End {
    let place = Place::new();
    let load = "--rw nop --runtime 300ms";
    let seen = on_terminal(bench(&place, load).env("TERM", "xterm").env("LC_ALL", "C.UTF-8"));
    assert!(seen.contains('\x1b'), "a test of nothing: {seen:?}");
    for (name, value) in [("TERM", "dumb"), ("NO_COLOR", "1")] {
        let commands = [bench(&place, load), place.tool(["--help"]), place.tool(["check"]), place.tool(["list"])];
        for mut command in commands {
            let seen = on_terminal(command.env("TERM", "xterm").env("LC_ALL", "C.UTF-8").env(name, value));
            assert!(!seen.is_empty() && !seen.contains('\x1b'), "{command:?}: {seen:?}");
        }
    }
    // Without a locale, a terminal uses the C locale.
    let seen = on_terminal(bench(&place, load).env("TERM", "dumb"));
    assert!(seen.is_ascii(), "{seen:?}");
    End::Passed
}
