//! A server's client: a command that runs once the server is ready, and whose output contains the metrics.

use std::fs::File;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::input;
use super::limited::LIMIT;
use super::options::ProgramOptions;
use super::ready::{Ready, text_of};
use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::words::last_line;
use iotrail_host::limits;
use iotrail_watch::command::cannot_run;
use iotrail_watch::guardian::Guardian;

/// Maximum time for a server to become ready.
const STARTS_WITHIN: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);

/// A client that is waiting or running.
#[derive(Debug)]
pub struct Client {
    thread: JoinHandle<Result<Done>>,
    over: Arc<AtomicBool>,
    give_up: Arc<AtomicBool>,
}

/// A client's result.
#[derive(Debug, Clone, Copy)]
pub struct Done {
    /// 128 + signal if a signal killed it.
    pub status: i32,
    pub wall_ns: u64,
}

impl Client {
    /// `log`: the server's output; `output`: where the client's output goes.
    pub fn start(options: &ProgramOptions, ready: Ready, log: &File, output: &File) -> Result<Self> {
        let twice = |file: &File| {
            file.try_clone().or_machine("cannot duplicate a file descriptor", "check the open file limit: ulimit -n")
        };
        let (log, out, err) = (twice(log)?, twice(output)?, twice(output)?);
        let (over, give_up) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (program, args) = options.argv.split_first().expect("a program has been named");
        let name = program.clone();
        let mut command = Command::new(program);
        command.args(args).stdin(input::again()?).stdout(out).stderr(err);
        command.envs(options.env.iter().map(|(name, value)| (name, value)));
        limits::give_back(&mut command);
        let (is_over, gives_up) = (Arc::clone(&over), Arc::clone(&give_up));
        let work = move || {
            let done = drive(command, &name, &ready, &log, &gives_up);
            is_over.store(true, Ordering::Release);
            done
        };
        let thread = std::thread::Builder::new().name("client".into()).spawn(work);
        let thread = thread.or_machine("cannot start a thread", "check the process limit: ulimit -u")?;
        Ok(Client { thread, over, give_up })
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Stops the client if it is still running.
    pub fn end(self) -> Result<Done> {
        self.give_up.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|payload| Err(Error::of_panic("the client's thread", payload.as_ref())))
    }
}

fn drive(mut command: Command, name: &str, ready: &Ready, log: &File, give_up: &AtomicBool) -> Result<Done> {
    let began = Instant::now();
    let last = || {
        let text = text_of(log);
        last_line(&text).unwrap_or_else(|| "it printed nothing".into())
    };
    let is_ready = || match ready.is_there(log, LIMIT, give_up) {
        Err(_) if give_up.load(Ordering::Relaxed) => Ok(false),
        there => there,
    };
    while !is_ready()? {
        if give_up.load(Ordering::Relaxed) {
            return Err(Error::machine(format!("the server exited before it was ready: {}", last()), "run it by hand"));
        }
        if began.elapsed() > STARTS_WITHIN {
            return Err(Error::machine(
                format!("the server was not ready within {} s: {}", STARTS_WITHIN.as_secs(), last()),
                "see --ready",
            ));
        }
        std::thread::sleep(LOOK);
    }
    let guardian = Guardian::over(&mut command, false)?;
    command.spawn().map_err(|e| cannot_run(name, e))?;
    drop(command);
    while !guardian.wait(LOOK * 10) {
        if give_up.load(Ordering::Relaxed) {
            guardian.end();
        }
    }
    let ended = guardian.ended().ok_or_else(|| Error::internal("an exited client has no exit status"))?;
    Ok(Done { status: ended.status, wall_ns: ended.wall_ns })
}
