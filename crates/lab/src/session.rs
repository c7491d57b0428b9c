//! One machine from its start to its end: the streams pass through, signals go in, the time limit ends it.

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
use crate::acceleration::Acceleration;
use crate::arch::Arch;
use iotrail_base::error::{Error, Result};

/// How a session is to go.
pub struct How<'a> {
    pub limit: Duration,
    /// The signal that the user has sent us, if one has come: asked again and again.
    pub stop: &'a dyn Fn() -> Option<i32>,
    /// Told of what the user should know.
    pub tell: &'a dyn Fn(&str),
}

/// Without a word from the guest for so long, it will not come up: under emulation it takes up to a minute where others compute too,
/// and twice that with another processor's instructions.
fn boot_limit(arch: Arch) -> Duration {
    Duration::from_secs(if arch == Arch::host() { 90 } else { 240 })
}

/// So long the command may take to end after it was asked to.
const GRACE: Duration = Duration::from_secs(20);

/// How often the user's signals and the machine's process are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// After the last word, what is still on its way comes at once.
const REST: Duration = Duration::from_secs(10);

enum Event {
    Said(FromGuest),
    /// So much of an output has passed through, in all.
    Passed(Output, u64),
    /// Who reads our standard output has gone away.
    NobodyReads,
    /// Nothing more comes from the machine's control port.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Stdout,
    Stderr,
}

/// Boots, runs, ends. A machine that hangs before the guest has said a word is started once more; one that KVM cannot run is
/// emulated, where that is allowed. The exit status of the command; 128 + the signal if one ended it.
///
/// Errors: it does not boot, it breaks down, or the limit ends it.
pub fn run(prepared: &mut Prepared, how: &How) -> Result<u8> {
    let began = Instant::now();
    let mut again = false;
    loop {
        match attempt(prepared, how, began)? {
            Attempt::Ended(status) => return Ok(status),
            Attempt::Hung if again => {
                return Err(no_boot(prepared, &format!("no sign of life in {:?}", boot_limit(prepared.asked.arch))));
            }
            Attempt::Hung => {
                again = true;
                (how.tell)(
                    "the machine showed no sign of life (about one boot in 60 does not): it is started once more",
                );
            }
            Attempt::Died(_) if prepared.acceleration == Acceleration::Kvm && prepared.asked.may_emulate => {
                (how.tell)(&format!("KVM does not run it ({}): {EMULATED}", last_words(prepared)));
                prepared.emulate(how.tell)?;
            }
            Attempt::Died(what) if again => return Err(no_boot(prepared, &what)),
            // Where the host is busy, a timer of the machine's may not come in time for its kernel.
            Attempt::Died(_) => {
                again = true;
                (how.tell)(&format!("the machine did not boot ({}): it is started once more", last_words(prepared)));
            }
        }
    }
}

/// What every machine under emulation has to say.
pub const EMULATED: &str = "under emulation, counts mean what they say and times mean nothing";

enum Attempt {
    Ended(u8),
    /// Before the guest said a word.
    Hung,
    /// The same; how.
    Died(String),
}

fn attempt(prepared: &Prepared, how: &How, began: Instant) -> Result<Attempt> {
    let started = Instant::now();
    let mut machine = prepared.parts().start()?;
    let events = connect(&machine).map_err(|e| {
        Error::machine("cannot listen to the virtual machine", "see the limits of processes and files: ulimit -a")
            .because(e)
    })?;
    let (mut boot, mut asked, mut fed) = (None::<Duration>, None, false);
    let (mut stdout, mut stderr) = (0, 0);
    loop {
        match events.recv_timeout(LOOK) {
            Ok(Event::Said(FromGuest::Hello)) => {
                let took = started.elapsed();
                (how.tell)(&format!("up after {:.1} s", took.as_secs_f64()));
                boot = Some(took);
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
            let what = format!("the machine ended by itself ({status})");
            return if boot.is_none() { Ok(Attempt::Died(what)) } else { Err(broke_down(prepared, &what)) };
        }
        if began.elapsed() > how.limit {
            return Err(Error::disturbed(
                format!("the lab's time limit of {:?} has ended the command", how.limit),
                "what it had stored is kept; give it more with --timeout",
            ));
        }
        if boot.is_none() && started.elapsed() > boot_limit(prepared.asked.arch) {
            return Ok(Attempt::Hung);
        }
        match ((how.stop)(), asked) {
            (Some(_), None) if boot.is_none() => return Err(interrupted("before the command began")),
            (Some(signal), None) => {
                say(&machine, FromHost::Signal(signal));
                asked = Some(Instant::now());
            }
            (_, Some(at)) if at.elapsed() > GRACE => {
                return Err(interrupted(&format!("the command did not end within {GRACE:?} of the signal")));
            }
            _ => {}
        }
    }
}

fn interrupted(when: &str) -> Error {
    Error::disturbed(format!("the lab was interrupted: {when}"), "what was stored is kept")
}

/// A machine that has gone is noticed elsewhere.
fn say(machine: &Machine, line: FromHost) {
    (&machine.ports.control).write_all(line.to_string().as_bytes()).unwrap_or(());
}

/// Threads that carry the outputs and read the control port.
fn connect(machine: &Machine) -> io::Result<Receiver<Event>> {
    let (tell, events) = channel();
    let ports = &machine.ports;
    let (stdout, stderr, control) = (ports.stdout.try_clone()?, ports.stderr.try_clone()?, ports.control.try_clone()?);
    let other = tell.clone();
    std::thread::Builder::new().name("lab-out".into()).spawn(move || {
        // Not through Rust's own buffer by lines: bytes pass as they come.
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

/// Carries our standard input into the guest, and says where it ends. A thread that waits for a terminal ends with the process.
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

/// Reading from a terminal in the background would stop us.
fn is_background_terminal() -> bool {
    let stdin = io::stdin();
    stdin.is_terminal() && tcgetpgrp(&stdin) != Ok(getpgrp())
}

fn no_boot(prepared: &Prepared, what: &str) -> Error {
    Error::machine(format!("the lab's machine does not boot: {what}"), "try another --kernel, or more --memory")
        .because(last_words(prepared))
}

fn broke_down(prepared: &Prepared, what: &str) -> Error {
    Error::machine(format!("the lab's machine broke down: {what}"), "what was stored is kept")
        .because(last_words(prepared))
}

/// Why, as far as console and QEMU have said it: what the guest's start or its kernel complained of, else the last line.
fn last_words(prepared: &Prepared) -> String {
    let telling = |name: &str| {
        let lines = tail(&prepared.folder.path().join(name), usize::MAX);
        let complaint = lines.iter().find(|l| l.contains("iotrail lab: ") || l.contains("Kernel panic"));
        complaint.or(lines.last()).cloned()
    };
    let words: Vec<String> = [SAID, CONSOLE].into_iter().filter_map(telling).collect();
    if words.is_empty() { "its console is empty".into() } else { words.join(" / ") }
}

/// The last lines of the console.
pub fn console(prepared: &Prepared) -> Vec<String> {
    tail(&prepared.folder.path().join(CONSOLE), 30)
}

fn tail(file: &Path, most: usize) -> Vec<String> {
    let bytes = std::fs::read(file).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|l| !l.is_empty()).collect();
    lines[lines.len().saturating_sub(most)..].iter().map(|l| (*l).to_owned()).collect()
}
