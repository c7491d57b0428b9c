//! Runs both ends: the sender in this process and the server in a child process, which the kernel kills when this
//! process exits; or the server on another node, in a Slurm job step.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::ioctl_fionbio;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::loaded::{self, Loaded};
use super::second;
use crate::cell::Measured;
use crate::schedule::padding;
use iotrail_base::error::{Error, Kind, OrFail, Result};
use iotrail_base::folders::temporary::Folder;
use iotrail_base::ourselves;
use iotrail_load::Progress;
use iotrail_load::options::{Trace, names_of};
use iotrail_net::address::Address;
use iotrail_net::control::Place;
use iotrail_net::descriptors;
use iotrail_net::namespace::{self, Namespaces, SERVER};
use iotrail_net::options::{Between, NetOptions, ServerEngine, ServerOptions};
use iotrail_net::sender::spec::SenderSpec;

/// The line that a started server prints on standard output once it is ready.
#[derive(Debug, Serialize, Deserialize)]
pub struct Announced {
    pub address: String,
    pub control: String,
}

/// How the ends are connected, for all measurements of a run.
enum Link {
    Namespaces(Namespaces),
    Loopback,
    Unix(Folder),
    Second(second::Server),
}

#[derive(Default)]
pub struct Ends {
    way: Option<(Between, Link)>,
}

impl Ends {
    /// Makes one measurement. `options`: the options of `load` as written, from which the server's arguments are taken.
    /// `follow`: trace 1 in N of its requests.
    pub fn run(
        &mut self,
        load: &NetOptions,
        options: &Map<String, Value>,
        follow: Option<u32>,
        progress: &mut dyn FnMut(Progress),
        stop: &AtomicBool,
    ) -> Result<Measured> {
        let spec = SenderSpec::resolve(&load.sender, &iotrail_host::cpu::online()?)?;
        descriptors::raise()?;
        let way = self.way(load.between)?;
        // An epoll server has no requests to trace.
        let follow = follow.filter(|_| load.server.engine == ServerEngine::IoUring);
        let mut server = Server::start(way, options, load.trace, follow, padding(spec.seed))?;
        let inside = match way {
            Link::Namespaces(ends) => Some(ends.enter_sender()?),
            Link::Loopback | Link::Unix(_) | Link::Second(_) => None,
        };
        let control = Place::At(server.control.clone());
        let loaded = loaded::run(&spec, &server.address, &control, progress, stop);
        drop(inside);
        let Loaded { measurement, histogram, interrupted, broken_off } = loaded?;
        match broken_off {
            // If the server failed, its own error is more specific.
            Some(e) if !stop.load(Ordering::Relaxed) => Err(server.failure(None).unwrap_or_else(|| server.left(e))),
            _ => Ok(Measured { measurement, histogram, samples: vec![], interrupted }),
        }
    }

    fn way(&mut self, between: Between) -> Result<&Link> {
        let is_there = self.way.as_ref().is_some_and(|(asked, _)| *asked == between);
        if !is_there {
            let made = match between {
                Between::Namespaces => Link::Namespaces(Namespaces::make()?),
                Between::Auto => Namespaces::make().map_or(Link::Loopback, Link::Namespaces),
                Between::Loopback => Link::Loopback,
                Between::Unix => Link::Unix(folder()?),
                Between::Hosts => Link::Second(second::Server::named()?),
            };
            self.way = Some((between, made));
        }
        match &self.way {
            Some((_, way)) => Ok(way),
            None => Err(Error::machine("the two ends are not connected", "report this")),
        }
    }
}

impl Link {
    /// The server's addresses for requests and for control.
    fn addresses(&self) -> (String, String) {
        match self {
            Link::Namespaces(_) => (format!("{SERVER}:0"), format!("{SERVER}:0")),
            Link::Loopback => ("127.0.0.1:0".into(), "127.0.0.1:0".into()),
            Link::Second(server) => (server.listen_at(), server.listen_at()),
            Link::Unix(folder) => {
                let at = |name| format!("unix:{}", folder.path().join(name).display());
                (at("server"), at("control"))
            }
        }
    }

    /// The command that starts the server with these arguments. The server exits with this process.
    fn command(&self, words: &[String]) -> io::Result<Command> {
        let namespace = match self {
            Link::Second(server) => {
                let mut command = server.command(words);
                command.stdin(Stdio::piped());
                return Ok(command);
            }
            Link::Namespaces(ends) => Some(ends.server().try_clone_to_owned()?),
            Link::Loopback | Link::Unix(_) => None,
        };
        let enter = move || namespace.as_ref().map_or(Ok(()), |namespace| namespace::enter(namespace.as_fd()));
        let mut command = ourselves::command(Signal::KILL, enter);
        // Ctrl-C must reach only this process, which stops once nothing is in flight.
        command.args(words).process_group(0);
        Ok(command)
    }
}

/// `iotrail net serve` as a child process; killed on drop.
struct Server {
    child: Child,
    /// Standard input of a server on another node, which exits when this is closed.
    input: Option<ChildStdin>,
    address: Address,
    control: Address,
    /// Standard output: the ready line and the result.
    out: Option<BufReader<ChildStdout>>,
    printed: Vec<u8>,
    /// Standard error of a server on another node, with srun's messages.
    said: File,
}

impl Server {
    /// Starts the server and waits until it is ready. Fails with the server's own error.
    fn start(
        way: &Link,
        options: &Map<String, Value>,
        trace: Trace,
        follow: Option<u32>,
        variable: (&str, String),
    ) -> Result<Self> {
        let cannot = |e: io::Error| {
            Error::machine("cannot start the server's process", "check the process limit: ulimit -u").because(e)
        };
        let said = memory_file().map_err(cannot)?;
        let (address, control) = way.addresses();
        let mut words = [ourselves::OPTION, "net", "serve", &address, "--announce"].map(str::to_owned).to_vec();
        words.extend([format!("--control={control}"), format!("--trace={trace}")]);
        words.extend(follow.map(|n| format!("--follow={n}")));
        let names = names_of::<ServerOptions>();
        for (name, value) in options.iter().filter(|(name, _)| names.contains(name)) {
            match value {
                Value::Bool(false) => {}
                Value::Bool(true) => words.push(format!("--{name}")),
                Value::String(text) => words.push(format!("--{name}={text}")),
                other => words.push(format!("--{name}={other}")),
            }
        }
        let mut command = way.command(&words).map_err(cannot)?;
        command.env(variable.0, variable.1);
        command.stdout(Stdio::piped()).stderr(said.try_clone().map_err(cannot)?);
        let mut child = command.spawn().map_err(cannot)?;
        let input = child.stdin.take();
        let (mut out, mut printed) = (child.stdout.take().map(BufReader::new), Vec::new());
        if let Some(out) = &mut out {
            // A server that fails to start exits, which ends this loop.
            out.read_until(b'\n', &mut printed).map_err(cannot)?;
        }
        let nowhere = Address::Unix(PathBuf::new());
        let mut server = Server { child, input, address: nowhere.clone(), control: nowhere, out, printed, said };
        let told = serde_json::from_slice::<Announced>(&server.printed).ok();
        match told.and_then(|told| Some((told.address.parse().ok()?, told.control.parse().ok()?))) {
            Some((address, control)) => (server.address, server.control) = (address, control),
            None => {
                let status = server.child.wait().map_err(cannot)?;
                let ended =
                    || Error::machine(format!("the server's process exited before it was ready ({status})"), "");
                return Err(server.failure(status.code()).unwrap_or_else(ended));
            }
        }
        Ok(server)
    }

    /// The last error that the server reported; `code`: its exit status, if it has exited.
    fn failure(&mut self, code: Option<i32>) -> Option<Error> {
        if let Some(out) = &mut self.out {
            // The server may still be running, so read only its output so far.
            ioctl_fionbio(out.get_ref(), true).ok()?;
            _ = out.read_to_end(&mut self.printed);
        }
        let own = ourselves::error_in(&self.printed);
        let own = own.map(|e| Error { kind: Kind::Machine, what: format!("the server: {}", e.what), ..e });
        if self.input.is_none() {
            return own;
        }
        let (mut said, mut file) = (String::new(), &self.said);
        file.rewind().and_then(|()| file.read_to_string(&mut said)).ok()?;
        far_failure(own, &said, code)
    }

    /// The error if the sender lost the connection and the server reported none.
    fn left(&self, e: Error) -> Error {
        if self.input.is_some() { second::lost(e) } else { e }
    }
}

/// The error of a server on another node. An error reported by the server concerns its machine. An srun error (step
/// lost or not started) does not, so it makes no cell untestable.
fn far_failure(own: Option<Error>, said: &str, code: Option<i32>) -> Option<Error> {
    if let Some(own) = own {
        return Some(match own.errno {
            Some(libc::EADDRNOTAVAIL) => {
                Error { remedy: "name an address of its node with --server-address".into(), ..own }
            }
            _ => own,
        });
    }
    let last = iotrail_base::words::last_line(said)?;
    Some(match code {
        // Exit status of the shell: the program does not exist or is not executable.
        Some(126 | 127) => Error::machine(format!("the server: {last}"), "--ship copies iotrail to its node"),
        _ => second::lost(last),
    })
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(input) = self.input.take() {
            drop(input);
            let began = Instant::now();
            while began.elapsed() < FAR && self.child.try_wait().is_ok_and(|status| status.is_none()) {
                std::thread::sleep(FAR / 1000);
            }
        }
        // If the process has already exited, it only has to be reaped.
        self.child.kill().unwrap_or(());
        self.child.wait().map(drop).unwrap_or(());
    }
}

/// Maximum time for a server on another node to exit.
const FAR: Duration = Duration::from_secs(10);

/// A file in memory without a size limit, freed when its descriptors are closed.
fn memory_file() -> io::Result<File> {
    Ok(memfd_create("said", MemfdFlags::CLOEXEC)?.into())
}

/// A directory for a run's sockets. If a run is killed, the next run removes its directory.
fn folder() -> Result<Folder> {
    let place = std::env::temp_dir();
    Folder::make(&place, "iotrail-net-bench-").or_machine(
        format_args!("cannot create a directory for the sockets in {}", place.display()),
        "set TMPDIR to a writable directory",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_slurm_step_does_not_make_the_cell_untestable() {
        for (said, code) in [
            ("srun: error: Unable to create step for job 82: Job/step already completing or completed\n", Some(1)),
            ("srun: error: Application launch failed: Communication connection failure\n", Some(1)),
            ("srun: error: n3: task 0: Killed\n", Some(137)),
            ("srun: error: Node failure on n3\n", None),
        ] {
            let e = far_failure(None, said, code).unwrap();
            assert!(e.kind == Kind::Lost && e.to_string().ends_with(said.trim_end()), "{e}");
        }
        let own = Error::machine("the server: cannot listen at 192.0.2.1:0", "use another");
        let own = own.because(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL));
        let e = far_failure(Some(own), "srun: error: n3: task 0: Exited with exit code 3\n", Some(3)).unwrap();
        assert_eq!(e.kind, Kind::Machine);
        assert!(e.to_string().ends_with("name an address of its node with --server-address"), "{e}");
        let absent = far_failure(None, "/bin/sh: 1: iotrail: not found\n", Some(127)).unwrap();
        assert_eq!(absent.kind, Kind::Machine);
        assert!(far_failure(None, "", Some(1)).is_none());
    }
}
