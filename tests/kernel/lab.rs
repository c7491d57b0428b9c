//! A machine with Linux 6.1 and an NVMe drive: the results of a command in it are returned unmodified.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use iotrail_store::Store;
use libtest_mimic::{Failed, Trial};

use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("lab::a_command_on_linux_6_1_has_unmodified_output", command),
        trial::test("lab::a_guest_at_its_time_limit_is_stopped_and_keeps_stored_results", limit),
        trial::test("lab::all_io_uring_names_of_the_newest_kernel_are_known", names),
    ]
}

/// Whether the kernel is available; downloads it to the user's cache once for all tests. Under CI, the test fails if it
/// is unavailable.
fn fetched(kernel: &str) -> Result<bool, Failed> {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail")).args(["lab", "fetch", kernel]).output()?;
    if out.status.success() {
        return Ok(true);
    }
    let why = String::from_utf8_lossy(&out.stderr).into_owned();
    if std::env::var_os("CI").is_some() {
        return Err(why.into());
    }
    eprintln!("skipped: no kernel for the lab: {why}");
    Ok(false)
}

/// Emulated, so that the machine is the same everywhere.
fn run(folder: &Path, options: &[&str], command: &[&str]) -> Result<Output, Failed> {
    run_in("6.1", folder, options, command)
}

fn run_in(kernel: &str, folder: &Path, options: &[&str], command: &[&str]) -> Result<Output, Failed> {
    let out = Command::new(env!("CARGO_BIN_EXE_iotrail"))
        .args(["lab", "run", "--kernel", kernel, "--accel", "tcg", "--store"])
        .arg(folder.join("s.db"))
        .args(options)
        .arg("--")
        .args(command)
        .current_dir(folder)
        .env("TMPDIR", folder)
        .env("ODD", "two\nlines 'and' \"quotes\"")
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(left_behind(folder), 0, "no folder of the run stays");
    Ok(out)
}

fn left_behind(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).expect("our own folder").flatten();
    entries.filter(|e| e.file_name().to_string_lossy().starts_with("iotrail-lab-")).count()
}

fn command() -> Result<(), Failed> {
    if !fetched("6.1")? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("given"), "of the host")?;
    let cache = iotrail_base::folders::cache().ok_or("no cache")?.join("lab");
    std::os::unix::fs::symlink(cache, folder.path().join("cache"))?;
    let script = r#"printf 'a\0b\377'; uname -r >&2; printf '%s|' "$ODD" "$(cat given)" "$(pwd)" >&2
        echo written >given && test "$(cat given)" = written || exit 90
        modprobe null_blk || exit 92
        cat /sys/block/nvme0n1/queue/io_poll >&2
        grep -c 'nvme0q[1-9]' /proc/interrupts >&2
        iotrail bench --file /dev/nvme0n1 --engine sync --trace off --count 50 --warmup 0 \
            --store "$XDG_STATE_HOME/iotrail/iotrail.db" >/dev/null || exit 91
        exit 7"#;
    let options = ["--cpus", "4", "--nvme", "queues=2,poll=1", "--cache", "cache"];
    let out = run(folder.path(), &options, &["sh", "-c", script])?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(7), "{said}");
    assert_eq!(out.stdout, b"a\0b\xff", "standard output is the command's alone");
    let expected = format!("two\nlines 'and' \"quotes\"|of the host|{}|", folder.path().display());
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("\n6.1.") && said.contains("|1\n2\n"), "polled queues, and two with interrupts: {said}");
    assert_eq!(std::fs::read_to_string(folder.path().join("given"))?, "of the host", "nothing is written here");
    assert!(said.contains("stored here as run 1"), "{said}");
    let store = Store::open(&folder.path().join("s.db"))?.ok_or("no store")?;
    let stored = store.load(1)?.ok_or("no run")?;
    let m = &stored.cells[0].measurements.all()[0];
    assert_eq!((m.ios.unwrap(), m.host.virtualisation.as_deref()), (50, Some("qemu")));
    assert!(m.host.kernel.starts_with("6.1."), "{}", m.host.kernel);
    assert!(store.histogram(1, 1, 1)?.is_some());
    Ok(())
}

fn limit() -> Result<(), Failed> {
    if !fetched("6.1")? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    // Results from before the limit are stored, however slow the machine is, because it then only waits for the limit.
    let script = r#"iotrail bench --rw nop --trace off --count 50 --warmup 0 \
            --store "$XDG_STATE_HOME/iotrail/iotrail.db" >/dev/null; echo stored; sleep 1000"#;
    let out = run(folder.path(), &["--timeout", "60s"], &["sh", "-c", script])?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), out.stdout.as_slice()), (Some(3), b"stored\n".as_slice()), "{said}");
    assert!(said.contains("the command was stopped by the lab's time limit of 60s"), "{said}");
    let store = Store::open(&folder.path().join("s.db"))?.ok_or("no store")?;
    assert_eq!(store.list()?.len(), 1);
    Ok(())
}

/// Operations, register operations, and the bits of each flags word, whose numbers the kernel reports
/// (IORING_REGISTER_QUERY).
fn names() -> Result<(), Failed> {
    if !fetched("newest")? {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    // Without capabilities, no probe is loaded, which would take an emulated machine a minute.
    let command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "iotrail", "check", "--json"];
    let out = run_in("newest", folder.path(), &[], &command)?;
    let report: serde_json::Value =
        serde_json::from_slice(&out.stdout).map_err(|e| format!("{e}: {}", String::from_utf8_lossy(&out.stderr)))?;
    let items = report["items"].as_array().ok_or("no items")?;
    let text = |i: &serde_json::Value, key: &str| i[key].as_str().unwrap_or_default().to_owned();
    let id = |i: &&serde_json::Value, end: &str| text(i, "id").ends_with(end);
    let is_newer = items.iter().filter(|i| id(i, "_unnamed")).map(|i| format!("{}: {}", i["id"], i["text"]));
    assert_eq!(is_newer.collect::<Vec<_>>(), Vec::<String>::new(), "{}", report["host"]["kernel"]);
    assert!(
        items.iter().any(|i| id(&i, "register_operations.bpf_filter") && text(i, "state") == "ok"),
        "the kernel answers"
    );
    Ok(())
}
