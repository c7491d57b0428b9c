//! When a server counts as ready.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use regex_lite::Regex;

use super::limited::limited;
use iotrail_base::error::{Error, Result};

/// Time allowed for the previous server to release its port or file.
const LEAVES_WITHIN: Duration = Duration::from_secs(2);
/// Interval between checks. Frequent connections could fill the backlog of a server that does not accept yet.
const LOOK: Duration = Duration::from_millis(100);

/// Readiness condition of a server.
#[derive(Debug, Clone)]
pub enum Ready {
    /// A process accepts connections on this loopback port.
    Port(u16),
    /// This file exists.
    File(PathBuf),
    /// The server has printed a match.
    Log(Regex),
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let port = |text: &str| text.parse().map(Ready::Port).map_err(|_| format!("'{text}' is not a port"));
        match text.split_once(':') {
            Some(("port", rest)) => port(rest),
            Some(("file", rest)) => Ok(Ready::File(rest.into())),
            Some(("log", rest)) => Regex::new(rest).map(Ready::Log).map_err(|e| format!("'{rest}': {e}")),
            _ if text.bytes().all(|b| b.is_ascii_digit()) => port(text),
            _ => Err(format!("'{text}' is not port:N, file:PATH or log:REGEX")),
        }
    }
}

impl PartialEq for Ready {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

impl Ready {
    /// Fails if matching the log takes too long, or if `stop` is set.
    pub fn is_there(&self, log: &File, limit: Duration, stop: &AtomicBool) -> Result<bool> {
        Ok(match self {
            Ready::Port(port) => answers(*port),
            Ready::File(path) => path.exists(),
            Ready::Log(pattern) => {
                limited(pattern, &text_of(log), limit, stop, |pattern, text, _| pattern.is_match(text)).map_err(
                    |why| {
                        Error::input(format!("--ready log: {why}"), "match one short line that the server prints once")
                    },
                )?
            }
        })
    }

    /// Fails if the condition holds before the server starts, because the client would then reach another process or
    /// start too early.
    pub fn is_not_there_yet(&self) -> Result<()> {
        let until = Instant::now() + LEAVES_WITHIN;
        loop {
            let (what, remedy) = match self {
                Ready::Port(port) if answers(*port) => (
                    format!("port {port} of --ready accepts connections before the server starts"),
                    "stop the process that listens there, or choose another port".into(),
                ),
                Ready::File(path) if path.exists() => (
                    format!("{} of --ready exists before the server starts", path.display()),
                    format!("remove it before each run: --prepare 'rm -f {}'", path.display()),
                ),
                _ => return Ok(()),
            };
            if Instant::now() > until {
                return Err(Error::input(what, remedy));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Ignores a self-connection: the kernel may choose the requested port for the local end.
fn answers(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok_and(|s| s.local_addr().ok() != s.peer_addr().ok())
}

/// The output so far, independent of the writers' offsets.
pub fn text_of(file: &File) -> String {
    let length = file.metadata().map_or(0, |m| m.len());
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0).min(16 << 20)];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::limited::LIMIT;
    use super::*;

    #[test]
    fn server_readiness_is_detected_by_port_file_or_log() {
        let of = |text: &str| text.parse::<Ready>();
        assert_eq!(of("3306"), of("port:3306"));
        assert_eq!(of("file:/run/x"), Ok(Ready::File("/run/x".into())));
        assert!(matches!(of("log:ready for [a-z]+"), Ok(Ready::Log(_))));
        assert!(of("soon").unwrap_err().contains("port:N, file:PATH or log:REGEX") && of("log:(").is_err());
        let mut log = tempfile::tempfile().unwrap();
        let ready = of("log:ready for [a-z]+").unwrap();
        let stop = AtomicBool::new(false);
        let is_there = |log: &File| ready.is_there(log, LIMIT, &stop).unwrap();
        assert!(!is_there(&log));
        std::io::Write::write_all(&mut log, b"it is ready for all\n").unwrap();
        assert!(is_there(&log) && ready.is_not_there_yet().is_ok());
    }

    #[test]
    fn a_slow_log_match_ends_the_wait_for_readiness() {
        let mut log = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut log, &[b'a'; 1 << 20]).unwrap();
        let ready: Ready = "log:(a+)+b".parse().unwrap();
        let began = Instant::now();
        let of = |limit, stop| ready.is_there(&log, limit, &AtomicBool::new(stop)).map_err(|e| e.to_string());
        let late = of(Duration::ZERO, false).unwrap_err();
        assert!(late.starts_with("--ready log: /(a+)+b/ takes longer than 0ns on 1 MiB of output;"), "{late}");
        assert!(of(LIMIT, true).unwrap_err().starts_with("--ready log: it was stopped"));
        assert!(began.elapsed() < LIMIT);
    }

    #[test]
    fn a_ready_condition_that_holds_before_the_start_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let of = |text: String| text.parse::<Ready>().unwrap().is_not_there_yet().map_err(|e| e.to_string());
        assert_eq!(of(format!("file:{}", path.display())), Ok(()));
        std::fs::write(&path, "").unwrap();
        let e = of(format!("file:{}", path.display())).unwrap_err();
        assert!(e.contains(" exists before the server starts; remove it before each run: "), "{e}");
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        assert!(
            of(format!("port:{port}"))
                .unwrap_err()
                .starts_with(&format!("port {port} of --ready accepts connections "))
        );
        // Waits for a server that is shutting down.
        let goes = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            drop(server);
        });
        assert_eq!(of(format!("port:{port}")), Ok(()));
        goes.join().unwrap();
    }
}
