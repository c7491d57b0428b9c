//! When a server may be asked.

use std::fs::File;
use std::net::TcpStream;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::str::FromStr;

use regex_lite::Regex;

/// How a server is known to be ready.
#[derive(Debug, Clone)]
pub enum Ready {
    /// Somebody answers on this port of the loopback.
    Port(u16),
    /// The file is there.
    File(PathBuf),
    /// The server has printed this.
    Log(Regex),
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let port = |text: &str| text.parse().map(Ready::Port).map_err(|_| format!("'{text}' is no port"));
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
    pub fn is_there(&self, log: &File) -> bool {
        match self {
            Ready::Port(port) => TcpStream::connect(("127.0.0.1", *port)).is_ok(),
            Ready::File(path) => path.exists(),
            Ready::Log(pattern) => pattern.is_match(&text_of(log)),
        }
    }
}

/// What was written so far, wherever its writers are.
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
    use super::*;

    #[test]
    fn a_server_is_ready_by_port_file_or_log() {
        let of = |text: &str| text.parse::<Ready>();
        assert_eq!(of("3306"), of("port:3306"));
        assert_eq!(of("file:/run/x"), Ok(Ready::File("/run/x".into())));
        assert!(matches!(of("log:ready for [a-z]+"), Ok(Ready::Log(_))));
        assert!(of("soon").unwrap_err().contains("port:N, file:PATH or log:REGEX") && of("log:(").is_err());
        let mut log = tempfile::tempfile().unwrap();
        let ready = of("log:ready for [a-z]+").unwrap();
        assert!(!ready.is_there(&log));
        std::io::Write::write_all(&mut log, b"it is ready for all\n").unwrap();
        assert!(ready.is_there(&log));
    }
}
