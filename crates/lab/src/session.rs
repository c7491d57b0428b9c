//! One machine from start to end: passes its streams through, forwards signals, and enforces the time limit.

use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use super::Prepared;
use super::line::{FromGuest, FromHost};
use super::machine::{CONSOLE, Machine, SAID};
use crate::acceleration::{Acceleration, Failure};
use crate::arch::Arch;
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::words::quoted;

/// Options of a session.
pub struct Options<'a> {
    pub limit: Duration,
    /// Polled for a signal that the user sent to this process.
    pub stop: &'a dyn Fn() -> Option<i32>,
    /// Receives messages for the user.
    pub tell: &'a dyn Fn(&str),
}

/// Maximum boot time. Emulated guests boot in 5 to 9 s on an idle machine and in up to a minute on a busy one, and take
/// twice that for another architecture. KVM that is slower than emulation on an idle machine is useless, unless the
/// user insists on it.
fn boot_limit(prepared: &Prepared) -> Duration {
    let asked = prepared.asked;
    Duration::from_secs(match prepared.acceleration {
        Acceleration::Kvm if asked.may_emulate => 20,
        _ if asked.arch == Arch::host() => 90,
        _ => 240,
    })
}

/// Messages after which QEMU stops the guest but does not exit.
const KVM_ERRORS: [&str; 3] = ["KVM internal error", "KVM: entry failed", "error: kvm run failed"];

/// Time for the command to exit after it was asked to.
const GRACE: Duration = Duration::from_secs(20);

/// Interval between checks of the user's signals and the machine's process.
const LOOK: Duration = Duration::from_millis(100);

/// Time for the remaining data to arrive after the last message.
const REST: Duration = Duration::from_secs(10);

enum Event {
    Said(FromGuest),
    /// Total number of bytes of an output so far.
    Passed(Output, u64),
    /// The reader of standard output has closed it.
    NobodyReads,
    /// The control port has been closed.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    Stderr,
}

/// Boots the machine, runs the command and ends the machine. An emulated machine that does not boot is restarted once.
/// A machine that KVM fails to run is emulated, if permitted; if that works, the cache remembers it. Returns the
/// command's exit status, or 128 + the signal that killed it.
///
/// Fails if the machine does not boot or crashes, or if the time limit ends it.
pub fn run(prepared: &mut Prepared, how: &Options) -> Result<u8> {
    let began = Instant::now();
    let limit = boot_limit(prepared);
    boot(prepared, how, began, limit)
}

fn boot(prepared: &mut Prepared, how: &Options, began: Instant, mut limit: Duration) -> Result<u8> {
    let mut again = false;
    let mut kvm_failed = None;
    loop {
        let reason = match attempt(prepared, how, began, limit, kvm_failed.as_deref())? {
            Attempt::Ended(status) => return Ok(status),
            Attempt::Hung => format!("no response in {limit:?}"),
            Attempt::Died(what) => what,
        };
        let words = match last_words(prepared) {
            words if words.is_empty() => reason,
            words => format!("{reason}: {words}"),
        };
        if prepared.acceleration == Acceleration::Kvm {
            if !prepared.asked.may_emulate {
                const REMEDY: &str = "omit --accel; the lab then emulates the processor";
                return Err(Error::machine("KVM cannot run the lab's machine", REMEDY).because(words));
            }
            (how.tell)(&format!("KVM cannot run it ({words}): {EMULATED}"));
            prepared.emulate(how.tell)?;
            limit = boot_limit(prepared);
            kvm_failed = Some(words);
        } else if std::mem::replace(&mut again, true) {
            return Err(no_boot(&words));
        } else {
            // About one boot in 60 hangs, and on a busy host a guest timer may be too late for its kernel.
            (how.tell)(&format!("the machine did not boot ({words}); starting it again"));
        }
    }
}

/// Reported for every emulated machine.
pub const EMULATED: &str = "under emulation, counts are valid and times are meaningless";

enum Attempt {
    Ended(u8),
    /// No message from the guest in time.
    Hung,
    /// The machine exited before the guest's first message; how.
    Died(String),
}

/// `kvm_failed`: why an earlier attempt with KVM did not boot.
fn attempt(
    prepared: &Prepared,
    how: &Options,
    began: Instant,
    limit: Duration,
    kvm_failed: Option<&str>,
) -> Result<Attempt> {
    let kvm = Failure::of(prepared.asked.cache, &prepared.asked.kernel.vmlinux);
    let started = Instant::now();
    let mut machine = prepared.parts().start()?;
    let events = connect(&machine)
        .or_machine("cannot listen to the virtual machine", "check the process and file limits: ulimit -a")?;
    let (mut boot, mut asked, mut fed) = (None::<Duration>, None, false);
    let (mut stdout, mut stderr) = (0, 0);
    loop {
        match events.recv_timeout(LOOK) {
            Ok(Event::Said(FromGuest::Hello)) => {
                let took = started.elapsed();
                (how.tell)(&format!("up after {:.1} s", took.as_secs_f64()));
                boot = Some(took);
                match (prepared.acceleration, kvm_failed) {
                    (Acceleration::Kvm, _) => kvm.forget()?,
                    (_, Some(reason)) => kvm.remember(reason)?,
                    _ => {}
                }
            }
            Ok(Event::Said(FromGuest::End { status, stdout_bytes, stderr_bytes })) => {
                let whole = |o: u64, e: u64| o >= stdout_bytes && e >= stderr_bytes;
                let until = Instant::now() + REST;
                while !whole(stdout, stderr) && Instant::now() < until {
                    if let Ok(Event::Passed(which, bytes)) = events.recv_timeout(LOOK) {
                        *(if which == Output::Stdout { &mut stdout } else { &mut stderr }) = bytes;
                    }
                }
                return Ok(Attempt::Ended(status));
            }
            Ok(Event::Passed(Output::Stdout, bytes)) => stdout = bytes,
            Ok(Event::Passed(Output::Stderr, bytes)) => stderr = bytes,
            Ok(Event::NobodyReads) => say(&machine, FromHost::Signal(libc::SIGPIPE)),
            Ok(Event::Closed) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if boot.is_some() && !std::mem::replace(&mut fed, true) {
            feed(&machine);
        }
        if let Some(status) = machine.ended() {
            let what = format!("the machine exited on its own ({status})");
            return if boot.is_none() { Ok(Attempt::Died(what)) } else { Err(broke_down(prepared, &what)) };
        }
        if began.elapsed() > how.limit {
            return Err(Error::disturbed(
                format!("the command was stopped by the lab's time limit of {:?}", how.limit),
                "its stored results are kept; use a longer --timeout",
            ));
        }
        if prepared.acceleration == Acceleration::Kvm
            && let Some(error) = kvm_error(prepared)
        {
            if boot.is_none() {
                return Ok(Attempt::Died("QEMU stopped it".into()));
            }
            kvm.remember(&error)?;
            return Err(broke_down(prepared, "KVM stopped running it"));
        }
        if boot.is_none() && started.elapsed() > limit {
            return Ok(Attempt::Hung);
        }
        match ((how.stop)(), asked) {
            (Some(_), None) if boot.is_none() => return Err(interrupted("before the command began")),
            (Some(signal), None) => {
                say(&machine, FromHost::Signal(signal));
                asked = Some(Instant::now());
            }
            (_, Some(at)) if at.elapsed() > GRACE => {
                return Err(interrupted(&format!("the command did not exit within {GRACE:?} of the signal")));
            }
            _ => {}
        }
    }
}

fn interrupted(when: &str) -> Error {
    Error::disturbed(format!("the lab was interrupted: {when}"), "stored results are kept")
}

/// Sends a message. An exited machine is detected elsewhere.
fn say(machine: &Machine, line: FromHost) {
    (&machine.ports.control).write_all(line.to_string().as_bytes()).unwrap_or(());
}

/// Starts the threads that forward the outputs and read the control port.
fn connect(machine: &Machine) -> io::Result<Receiver<Event>> {
    let (tell, events) = channel();
    let ports = &machine.ports;
    let (stdout, stderr, control) = (ports.stdout.try_clone()?, ports.stderr.try_clone()?, ports.control.try_clone()?);
    let other = tell.clone();
    std::thread::Builder::new().name("lab-out".into()).spawn(move || {
        // Bypasses Rust's line buffer, so that bytes pass through immediately.
        let ours = io::stdout().as_fd().try_clone_to_owned().map(std::fs::File::from);
        pass(stdout, ours, Output::Stdout, &other)
    })?;
    let other = tell.clone();
    std::thread::Builder::new().name("lab-err".into()).spawn(move || {
        let ours = io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from);
        pass(stderr, ours, Output::Stderr, &other)
    })?;
    std::thread::Builder::new().name("lab-control".into()).spawn(move || {
        for line in BufReader::new(control).lines().map_while(io::Result::ok) {
            if let Ok(said) = line.parse()
                && tell.send(Event::Said(said)).is_err()
            {
                return;
            }
        }
        tell.send(Event::Closed).unwrap_or(());
    })?;
    Ok(events)
}

fn pass(mut port: UnixStream, to: io::Result<impl Write>, which: Output, tell: &Sender<Event>) {
    let mut to = to.ok();
    let mut buffer = vec![0; 64 << 10];
    let mut passed = 0;
    while let Ok(n @ 1..) = port.read(&mut buffer) {
        if let Some(out) = &mut to
            && out.write_all(&buffer[..n]).and_then(|()| out.flush()).is_err()
        {
            to = None;
            if which == Output::Stdout && tell.send(Event::NobodyReads).is_err() {
                return;
            }
        }
        passed += n as u64;
        if tell.send(Event::Passed(which, passed)).is_err() {
            return;
        }
    }
}

/// Forwards standard input to the guest and reports its end. A thread that waits for a terminal ends with the process.
fn feed(machine: &Machine) {
    let (Ok(mut port), Ok(mut control)) = (machine.ports.stdin.try_clone(), machine.ports.control.try_clone()) else {
        return;
    };
    let carry = move || {
        let mut fed = 0;
        if !is_background_terminal() {
            let mut buffer = vec![0; 64 << 10];
            let mut stdin = io::stdin().lock();
            while let Ok(n @ 1..) = stdin.read(&mut buffer) {
                if port.write_all(&buffer[..n]).is_err() {
                    return;
                }
                fed += n as u64;
            }
        }
        control.write_all(FromHost::InputEnds(fed).to_string().as_bytes()).unwrap_or(());
    };
    std::thread::Builder::new().name("lab-in".into()).spawn(carry).map(drop).unwrap_or(());
}

/// Whether reading would stop this process, because it is in the background of a terminal.
fn is_background_terminal() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && tcgetpgrp(&stdin) != Ok(getpgrp())
}

fn no_boot(words: &str) -> Error {
    Error::machine("the lab's machine does not boot", "try another --kernel, or more --memory").because(words)
}

fn broke_down(prepared: &Prepared, what: &str) -> Error {
    Error::machine(format!("the lab's machine failed: {what}"), "stored results are kept").because(last_words(prepared))
}

fn kvm_error(prepared: &Prepared) -> Option<String> {
    let lines = tail(&prepared.folder.path().join(SAID), usize::MAX);
    lines.into_iter().find(|line| KVM_ERRORS.iter().any(|error| line.starts_with(error)))
}

/// The reason, as far as QEMU and the console have printed it: a KVM error, an error from the guest's init or kernel,
/// or the last line; empty if nothing was printed.
fn last_words(prepared: &Prepared) -> String {
    let telling = |name: &str| {
        let lines = tail(&prepared.folder.path().join(name), usize::MAX);
        let complaint = lines.iter().find(|l| l.contains("iotrail lab: ") || l.contains("Kernel panic"));
        complaint.or(lines.last()).map(|line| quoted(line))
    };
    let of_qemu = kvm_error(prepared).map(|line| quoted(&line)).or_else(|| telling(SAID));
    of_qemu.into_iter().chain(telling(CONSOLE)).collect::<Vec<_>>().join(" / ")
}

/// Last lines of the console.
pub fn console(prepared: &Prepared) -> Vec<String> {
    tail(&prepared.folder.path().join(CONSOLE), 30)
}

fn tail(file: &Path, most: usize) -> Vec<String> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|l| (*l).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::kernel::Kernel;
    use crate::tools::Program;
    use crate::{Cache, MachineOptions};
    use iotrail_base::folders::temporary::Folder;

    /// A fake QEMU that runs `kvm` with `-accel kvm`, and otherwise acts as a guest whose command exits with status 7.
    fn fake_qemu(folder: &Path, kvm: &str) -> Program {
        let text = format!(
            "all=\"$*\"\ncase \"$all\" in *'-accel kvm'*) {kvm} ;; esac\nfd=${{all##*port-3,fd=}}; fd=${{fd%% *}}\n\
             echo hello >&$fd\necho end 7 0 0 >&$fd\nexec sleep 60\n"
        );
        std::fs::write(folder.join("qemu"), text).unwrap();
        script(folder)
    }

    /// A script run by a shell. Executing the file itself may fail while a child of another thread has it open for
    /// writing.
    fn script(folder: &Path) -> Program {
        Program { words: vec!["bash".into(), folder.join("qemu").into()], variables: vec![], from: "a test's" }
    }

    /// Result of one `lab run`, and its messages.
    fn lab_run(place: &Path, kvm: &str, may_emulate: bool) -> (Result<u8>, Vec<String>) {
        let cache = Cache::at(Some(place)).unwrap();
        let kernel = Kernel { release: None, vmlinux: place.join("6.1/vmlinux"), modules: place.into() };
        let asked = MachineOptions {
            cache: &cache,
            arch: Arch::host(),
            root: None,
            kernel: &kernel,
            acceleration: Acceleration::Kvm,
            may_emulate,
            cpus: 1,
            sockets: 1,
            memory_bytes: 1 << 28,
            drives: &[],
            append: "",
            command: &[],
        };
        let mut prepared = Prepared {
            asked: &asked,
            acceleration: Acceleration::Kvm,
            qemu: fake_qemu(place, kvm),
            find: |cache, _, _, _| Ok(script(cache.root())),
            folder: Folder::make(place, "run-").unwrap(),
        };
        let said = RefCell::new(vec![]);
        let tell = |line: &str| said.borrow_mut().push(line.to_owned());
        let how = Options { limit: Duration::from_secs(60), stop: &|| None, tell: &tell };
        // The guest of `hangs` never responds; the others respond or exit by themselves.
        let limit = if kvm == HANGS { Duration::from_millis(300) } else { Duration::from_secs(50) };
        let ended = boot(&mut prepared, &how, Instant::now(), limit);
        (ended, said.into_inner())
    }

    const HANGS: &str = "exec sleep 60";
    const CRASHES: &str =
        "printf 'KVM internal error. Suberror: 1\\nemulation failure\\nRAX=0 RBX=0\\nCode=0f 01\\n' >&2; exec sleep 60";
    const DIES: &str = "echo 'Assertion failed.' >&2; exit 134";

    #[test]
    fn a_guest_that_fails_under_kvm_is_emulated_and_remembered() {
        for (kvm, reason) in [
            (HANGS, "no response in 300ms"),
            (CRASHES, "QEMU stopped it: KVM internal error. Suberror: 1"),
            (DIES, "(exit status: 134): Assertion failed."),
        ] {
            let place = tempfile::tempdir().unwrap();
            let (ended, said) = lab_run(place.path(), kvm, true);
            assert_eq!(ended.unwrap(), 7);
            assert_eq!(said.len(), 2, "{said:?}");
            assert!(said[0].starts_with("KVM cannot run it (") && said[0].contains(reason), "{said:?}");
            assert!(said[0].ends_with(EMULATED) && said[1].starts_with("up after "), "{said:?}");
            let cache = Cache::at(Some(place.path())).unwrap();
            let remembered = |vmlinux: &str| Failure::of(&cache, &place.path().join(vmlinux)).reason();
            assert!(remembered("6.1/vmlinux").is_some_and(|r| r.contains(reason)));
            assert_eq!(remembered("6.12/vmlinux"), None, "another kernel");
        }
    }

    #[test]
    fn required_kvm_fails_with_one_line_and_a_boot_clears_the_record() {
        let place = tempfile::tempdir().unwrap();
        let cache = Cache::at(Some(place.path())).unwrap();
        let failure = Failure::of(&cache, &place.path().join("6.1/vmlinux"));
        failure.remember("it hung").unwrap();
        let (ended, said) = lab_run(place.path(), CRASHES, false);
        let error = ended.unwrap_err().to_string();
        assert!(error.starts_with("KVM cannot run the lab's machine: QEMU stopped it: KVM internal error"), "{error}");
        assert!(error.ends_with("omit --accel; the lab then emulates the processor"), "{error}");
        assert_eq!(said, Vec::<String>::new());
        assert_eq!(failure.reason().as_deref(), Some("it hung"));
        assert_eq!(lab_run(place.path(), "true", false).0.unwrap(), 7);
        assert_eq!(failure.reason(), None);
    }
}
