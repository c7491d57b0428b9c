//! `net serve` and `net load` with each other, and each with a faulty peer.

pub mod lost;
pub mod whole;
pub mod wrong;

use std::io::Read as _;
use std::net::TcpStream;
use std::process::{Child, Command};

use serde_json::Value;

use crate::tool::{Ended, PATIENCE, Place, end, kill, wait_for};

/// A server that prints its record as JSON at exit.
struct Server {
    child: Child,
    address: String,
    control: String,
}

impl Server {
    /// The kernel chooses the port, so that concurrent tests do not collide.
    fn start(place: &Place, options: &str) -> Self {
        Self::at(place, &format!("127.0.0.1:0 --control 127.0.0.1:0 {options}"))
    }

    fn at(place: &Place, options: &str) -> Self {
        Self::by(place.tool(["net", "serve"]), options)
    }

    fn by(mut command: Command, options: &str) -> Self {
        // If a test fails, its server exits after this time.
        command.args(["--json", "--trace", "off", "--duration", "3m"]);
        if !options.contains("--engine") {
            command.args(["--engine", "epoll"]);
        }
        command.args(options.split_whitespace());
        let mut child = command.spawn().expect("the tool starts");
        let line = line(&mut child);
        let said = line.strip_prefix("iotrail: serving at ").unwrap_or_else(|| panic!("{line}"));
        let said = said.strip_suffix("; Ctrl-C ends it").unwrap_or_else(|| panic!("{line}"));
        let (address, control) = said.split_once(", control at ").unwrap_or((said, "none"));
        Server { child, address: address.into(), control: control.into() }
    }

    fn load(&self, place: &Place, options: &str) -> Command {
        let mut command = place.tool(["net", "load", &self.address, "--control", &self.control, "--json"]);
        command.args(options.split_whitespace());
        command
    }

    /// Waits until the sender has reported a second with responses.
    fn answers(&mut self) {
        wait_for("a second with requests", || {
            let line = line(&mut self.child);
            let requests = line.split_whitespace().next()?;
            (requests != "0" && requests.starts_with(|c: char| c.is_ascii_digit())).then_some(())
        });
    }

    #[track_caller]
    fn stop(self) -> (Ended, Value) {
        kill(self.child.id(), libc::SIGTERM);
        let ended = end(self.child).ok();
        let record = ended.json();
        (ended, record)
    }
}

/// Reads one line of standard error, without buffering further bytes.
fn line(child: &mut Child) -> String {
    let stderr = child.stderr.as_mut().expect("it is piped");
    let mut line = Vec::new();
    let mut byte = [0];
    while byte != *b"\n" {
        assert_eq!(stderr.read(&mut byte).expect("it can be read"), 1, "it has ended: {:?}", String::from_utf8(line));
        line.push(byte[0]);
    }
    String::from_utf8(line).expect("UTF-8").trim_end().to_owned()
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("it listens there");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time");
    stream
}

fn number(v: &Value) -> u64 {
    v.as_u64().unwrap_or_else(|| panic!("a number: {v}"))
}

fn codes(m: &Value) -> Vec<&str> {
    m["warnings"].as_array().expect("a list").iter().filter_map(|w| w["code"].as_str()).collect()
}

/// Asserts what every complete load against iotrail's server has in common.
#[track_caller]
fn whole(m: &Value) {
    let net = &m["net"];
    let requests = number(&m["ios"]);
    assert!(requests > 0);
    assert_eq!(net["sender"]["requests"], requests);
    assert_eq!(net["sender"]["responses"], requests);
    assert_eq!(net["server"]["total"]["requests"], requests);
    assert_eq!(m["latency_ns"]["count"], requests);
    for list in ["threads", "seconds"] {
        let list = net["server"][list].as_array().expect("a list");
        assert_eq!(list.iter().map(|t| number(&t["requests"])).sum::<u64>(), requests);
    }
    assert_eq!(number(&m["load"]["depth"]), number(&net["asked"]["connections"]) * number(&net["asked"]["window"]));
}
