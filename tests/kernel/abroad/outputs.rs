//! Destinations of results: symlinks, pipes, full disks, existing files.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use super::Test;

pub const TESTS: &[(&str, Test)] = &[
    ("planted_symlinks_are_not_followed_for_scratch_files", scratch),
    ("the_store_is_not_created_in_another_users_directory", store),
    ("sample_files_replace_existing_files_only_with_force", samples),
    ("a_recording_is_written_only_to_a_pipe_with_a_reader", recording),
    ("a_recording_at_the_file_size_limit_keeps_its_content", limited),
];

const TOOL: &str = env!("CARGO_BIN_EXE_iotrail");

/// The user without privileges (nobody).
const NOBODY: u32 = 65534;

const WRITES: &str = "name = \"w\"\ntitle = \"t\"\nquestion = \"q\"\nexpect = \"e\"\nrepeats = 2\nsize = \"64k\"\ncontrol = false\n[load]\n\
                      rw = \"randwrite\"\ntrace = \"off\"\nwarmup = \"0\"\ncount = 64\n[[arm]]\nname = \"one\"\n[[arm]]\nname = \"two\"\nbatch = 2\n";

static VICTIM: [u8; 65536] = [7; 65536];

fn place() -> Result<tempfile::TempDir, Failed> {
    Ok(tempfile::Builder::new().prefix("outputs-").tempdir_in(env!("CARGO_TARGET_TMPDIR"))?)
}

fn said(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Runs the experiment without HOME, with `shared` mounted on `/var/tmp`.
fn writes(place: &Path, shared: &Path) -> Result<Output, Failed> {
    let script = format!("mount --bind {} /var/tmp && exec {TOOL} run w.toml --store s.db", shared.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(place).env_remove("HOME").env_remove("XDG_CACHE_HOME");
    Ok(command.stdin(Stdio::null()).output()?)
}

fn scratch() -> Result<(), Failed> {
    let place = place()?;
    let at = |name: &str| place.path().join(name);
    fs::write(at("w.toml"), WRITES)?;
    let shared = at("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777))?;
    let (victim, ours, file) = (at("victim"), shared.join("iotrail"), shared.join("iotrail/scratch-64k"));
    fs::write(&victim, VICTIM)?;
    fs::set_permissions(&victim, Permissions::from_mode(0o600))?;
    fs::create_dir(at("other"))?;
    fs::write(at("other/scratch-64k"), VICTIM)?;
    let theirs = |path: &Path| lchown(path, Some(NOBODY), None);
    let planted: [(&str, &dyn Fn() -> std::io::Result<()>); 5] = [
        ("it belongs to user 65534", &|| {
            fs::create_dir(&ours)?;
            symlink(&victim, &file)?;
            theirs(&ours)
        }),
        ("it is a symbolic link created by user 65534", &|| {
            symlink(at("other"), &ours)?;
            theirs(&ours)
        }),
        ("it is a symbolic link, which iotrail never creates there", &|| {
            fs::create_dir(&ours)?;
            symlink(&victim, &file)?;
            theirs(&file)
        }),
        ("it has 2 hard links", &|| {
            fs::create_dir(&ours)?;
            fs::hard_link(&victim, &file)
        }),
        ("it belongs to user 65534", &|| {
            fs::create_dir(&ours)?;
            fs::write(&file, VICTIM)?;
            theirs(&file)
        }),
    ];
    for (why, plant) in planted {
        plant()?;
        let out = writes(place.path(), &shared)?;
        assert_eq!(out.status.code(), Some(3), "{why}: {}", said(&out));
        let said = said(&out);
        assert!(said.contains(why) && said.trim_end().ends_with("specify a file on a disk with --file"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for file in [&victim, &at("other/scratch-64k")] {
            assert!(fs::read(file)? == VICTIM, "{} was written to: {why}", file.display());
        }
        assert!(!at("s.db").exists(), "nothing is stored of a run that has not begun");
        if ours.is_symlink() {
            fs::remove_file(&ours)?;
        } else {
            fs::remove_dir_all(&ours)?;
        }
    }
    // Without a planted file it succeeds, twice, and other users cannot access the files.
    for _ in 0..2 {
        let out = writes(place.path(), &shared)?;
        assert!(out.status.success(), "{}", said(&out));
        assert_eq!(ours.metadata()?.mode() & 0o7777, 0o700);
        assert_eq!((file.metadata()?.len(), file.metadata()?.mode() & 0o777), (65536, 0o600));
    }
    Ok(())
}

fn store() -> Result<(), Failed> {
    let place = place()?;
    let shared = place.path().join("shared");
    fs::create_dir(&shared)?;
    fs::set_permissions(&shared, Permissions::from_mode(0o1777))?;
    fs::create_dir(shared.join("iotrail"))?;
    symlink(place.path().join("elsewhere"), shared.join("iotrail/iotrail.db"))?;
    lchown(shared.join("iotrail"), Some(NOBODY), None)?;
    fs::write(place.path().join("e.toml"), WRITES.replace("randwrite", "nop"))?;
    let out = Command::new(TOOL)
        .args(["run", "e.toml"])
        .current_dir(place.path())
        .env("XDG_STATE_HOME", &shared)
        .stdin(Stdio::null())
        .output()?;
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    assert!(said(&out).contains("it belongs to user 65534") && said(&out).contains("--store PATH"), "{}", said(&out));
    assert!(!place.path().join("elsewhere").exists());
    Ok(())
}

fn bench(place: &Path, options: &str) -> Result<Output, Failed> {
    let load = "bench --rw nop --runtime 300ms --warmup 0 --profile";
    let mut command = Command::new(TOOL);
    command.args(load.split(' ')).args(options.split(' ')).current_dir(place).stdin(Stdio::null());
    Ok(command.output()?)
}

fn samples() -> Result<(), Failed> {
    let place = place()?;
    let path = place.path().join("x");
    for option in ["--folded", "--flamegraph"] {
        fs::write(&path, "somebody's")?;
        let out = bench(place.path(), &format!("{option} x"))?;
        let line = "iotrail: x already exists; specify another file, or replace it with --force\n";
        assert_eq!((out.status.code(), said(&out).as_str()), (Some(2), line));
        assert!(out.stdout.is_empty(), "it is said before anything is measured");
        assert_eq!(fs::read_to_string(&path)?, "somebody's");
        // Replaced by a rename: another hard link to the old file keeps its contents.
        fs::hard_link(&path, place.path().join("old"))?;
        let out = bench(place.path(), &format!("{option} x --force"))?;
        assert!(out.status.success(), "{}", said(&out));
        assert!(fs::metadata(&path)?.len() > 100);
        assert_eq!(fs::read_to_string(place.path().join("old"))?, "somebody's");
        fs::remove_file(place.path().join("old"))?;
        let out = bench(place.path(), &format!("{option} -"))?;
        assert!(said(&out).contains("would be mixed with the result"), "{}", said(&out));
    }
    assert_eq!(fs::read_dir(place.path())?.count(), 1, "nothing is left beside it");
    Ok(())
}

/// Kills the process and waits for it.
fn ended(mut child: Child) -> Result<Output, Failed> {
    let began = Instant::now();
    while child.try_wait()?.is_none() {
        if began.elapsed() > Duration::from_secs(30) {
            child.kill()?;
            child.wait()?;
            return Err("it did not end within 30 s".into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(child.wait_with_output()?)
}

fn record(place: &Path, file: &str, command: &[&str]) -> Result<Child, Failed> {
    let mut trace = Command::new(TOOL);
    trace.args(["trace", "--record", file, "--"]).args(command).current_dir(place);
    Ok(trace.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

fn fifo(place: &Path) -> Result<PathBuf, Failed> {
    let path = place.join("fifo");
    assert!(Command::new("mkfifo").arg(&path).status()?.success());
    Ok(path)
}

fn recording() -> Result<(), Failed> {
    let place = place()?;
    let path = fifo(place.path())?;
    let out = ended(record(place.path(), "fifo", &["true"])?)?;
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("fifo is a pipe with no reader; start its reader first"), "{}", said(&out));
    // The reader gets the complete recording.
    let reader = {
        let path = path.clone();
        std::thread::spawn(move || fs::read(path))
    };
    let load = [TOOL, "bench", "--rw", "nop", "--count", "20000", "--warmup", "0", "--trace", "off"];
    let began = Instant::now();
    let out = loop {
        let out = ended(record(place.path(), "fifo", &load)?)?;
        // The reader may not have opened the pipe yet.
        if out.status.success() || began.elapsed() > Duration::from_secs(5) {
            break out;
        }
    };
    assert!(out.status.success(), "{}", said(&out));
    assert!(said(&out).contains("20000 completions recorded"), "{}", said(&out));
    let bytes = reader.join().map_err(|_| "the reader broke down")??;
    fs::write(place.path().join("copy"), &bytes)?;
    let told = Command::new(TOOL).args(["explain", "copy"]).current_dir(place.path()).output()?;
    assert!(told.status.success(), "{}", said(&told));
    // A signal ends the wait for a reader that does not read.
    let reader = fs::File::options().read(true).write(true).open(&path)?;
    let endless = [TOOL, "bench", "--rw", "nop", "--runtime", "60s", "--warmup", "0", "--trace", "off"];
    let child = record(place.path(), "fifo", &endless)?;
    // Waits until the pipe is full; loading the probes takes an unknown time.
    let began = Instant::now();
    while rustix::io::ioctl_fionread(&reader)? < 60_000 && began.elapsed() < Duration::from_secs(50) {
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: an unreaped child.
    assert_eq!(unsafe { libc::kill(child.id() as i32, libc::SIGTERM) }, 0);
    let out = ended(child)?;
    assert!(said(&out).contains("stopped by a signal while waiting for its reader"), "{}", said(&out));
    drop(reader);
    // Existing files are kept.
    fs::write(place.path().join("there"), "somebody's")?;
    let out = ended(record(place.path(), "there", &["true"])?)?;
    assert!(said(&out).contains("there already exists"), "{}", said(&out));
    assert_eq!(fs::read_to_string(place.path().join("there"))?, "somebody's");
    Ok(())
}

fn limited() -> Result<(), Failed> {
    let place = place()?;
    let traced = |options: &str| {
        let script = format!("ulimit -f 128; exec {TOOL} trace {options}");
        Command::new("sh").args(["-c", &script]).current_dir(place.path()).stdin(Stdio::null()).output()
    };
    let load = format!("{TOOL} bench --rw nop --count 20000 --warmup 0 --trace off");
    let out = traced(&format!("--record rec -- {load}"))?;
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    let line = "cannot write rec: File too large (os error 27); raise the file size limit (ulimit -f)";
    assert!(said(&out).contains(line), "{}", said(&out));
    assert_eq!(fs::metadata(place.path().join("rec"))?.len(), 128 * 512);
    let told = Command::new(TOOL).args(["explain", "rec"]).current_dir(place.path()).output()?;
    assert!(told.status.success(), "{}", said(&told));
    // The program inherits the original signal disposition.
    let out = traced("-- dd if=/dev/zero of=x bs=64k count=9")?;
    assert_eq!(out.status.code(), Some(128 + libc::SIGXFSZ), "{}", said(&out));
    Ok(())
}
