//! A traced network server: compares its own counts with those of the probes.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use iotrail_schema::measurement::Measurement;
use iotrail_schema::net_record::{ServerCounts, ServerRecord};
use libtest_mimic::{Failed, Trial};

use crate::trial;

type Test = fn() -> Result<(), Failed>;

pub fn trials() -> Vec<Trial> {
    let tests: [(&str, Test); 4] = [
        ("delivery_paths_add_up_to_the_servers_completion_count", vehicles),
        ("counts_stay_exact_while_all_requests_are_traced", followed),
        ("zero_copy_receives_are_counted_or_refused", received_in_place),
        ("an_epoll_server_has_interrupts_and_switches_but_no_completions", epoll),
    ];
    tests.into_iter().map(|(name, test)| trial::test(format!("net::{name}"), test)).collect()
}

/// Killed on drop.
pub struct Server {
    pub child: Child,
    pub address: String,
    control: String,
}

impl Server {
    fn start(options: &str) -> Self {
        Self::of(&mut Self::command("127.0.0.1:0", "127.0.0.1:0", &format!("--trace on {options}")))
    }

    /// `net serve` with these options, not yet started.
    pub fn command(address: &str, control: &str, options: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        command.args(["net", "serve", address, "--control", control]).args(options.split_whitespace());
        command
    }

    /// Starts the server; returns once it accepts connections.
    pub fn of(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the built binary starts");
        let stderr = child.stderr.as_mut().expect("it is piped");
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" && stderr.read(&mut byte).expect("it can be read") == 1 {
            line.push(byte[0]);
        }
        let line = String::from_utf8(line).expect("UTF-8");
        let said = line.trim_end().strip_prefix("iotrail: serving at ").unwrap_or_else(|| panic!("{line}"));
        let (address, rest) = said.split_once(", control at ").expect("it has one");
        let (control, _) = rest.split_once(';').expect("and says how to end it");
        Server { address: address.into(), control: control.into(), child }
    }

    /// `net load --json` with these options, not yet started.
    pub fn sender(&self, options: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        command.args(["net", "load", &self.address, "--control", &self.control, "--json"]);
        command.args(options.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs `net load --json` with these options.
    pub fn load(&self, options: &str) -> (Measurement, ServerRecord) {
        let out = self.sender(options).output().expect("the built binary starts");
        assert!(out.status.success(), "net load {options}: {}", String::from_utf8_lossy(&out.stderr));
        let m: Measurement = serde_json::from_slice(&out.stdout).expect("--json prints one measurement");
        let server = m.net.as_ref().and_then(|net| net.server.clone()).expect("it is measured");
        assert_eq!(server.total.counts.requests, m.ios.unwrap(), "both sides agree");
        let warnings: Vec<&str> = m.warnings.iter().map(|w| w.code.as_str()).collect();
        for doubt in ["not_watched", "not_at_rest", "events_lost", "untracked", "seen_too_many"] {
            assert!(!warnings.contains(&doubt), "{:?}", m.warnings);
        }
        (m, server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // An error means that it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The probes have counted the server's completions, each with its delivery path.
fn exact(m: &Measurement, server: &ServerRecord, with: &str) {
    let sum: u64 = m.vehicles.iter().map(|v| v.completions).sum();
    assert_eq!(Some(sum), m.probe.completions_seen, "{with}: vehicles sum to the completions seen");
    assert_eq!(sum, server.total.counts.completions, "{with}: and these are the server's own: {:?}", m.vehicles);
    assert_eq!((m.probe.lost, m.probe.untracked), (Some(0), Some(0)), "{with}");
}

fn vehicles() -> Result<(), Failed> {
    for ring in ["", "--ring coop_taskrun", "--ring defer_taskrun,single_issuer", "--ring sqpoll"] {
        for receive in ["single", "multishot"] {
            let with = format!("--engine io_uring --receive {receive} --server-threads 2 {ring}");
            let server = Server::start(&with);
            // The second sender starts with the state that the first one left.
            let loads = ["--count 20000 --connections 4 --window 2", "--count 5000 --connections 64"];
            for load in &loads[..if ring.is_empty() { 2 } else { 1 }] {
                let (m, record) = server.load(load);
                exact(&m, &record, &with);
                assert!(
                    record.total.counts.completions >= m.ios.unwrap() / 2,
                    "{with}: a receive may bring several requests"
                );
            }
        }
    }
    Ok(())
}

fn followed() -> Result<(), Failed> {
    let server = Server::start("--engine io_uring --receive single --server-threads 1 --follow 1");
    let (m, record) = server.load("--count 20000 --connections 4");
    exact(&m, &record, "--follow 1");
    let followed = m.followed.as_ref().expect("they are followed");
    assert_eq!((followed.no_room, followed.ring_buffer_full), (0, 0));
    // Receives in flight at the start of the span were not selected for tracing.
    assert!(followed.completions + 8 >= record.total.counts.completions, "{followed:?}");
    assert!(m.vehicles.iter().any(|v| v.delay_ns.is_some()), "receives wait to be ready: {:?}", m.vehicles);
    Ok(())
}

/// 64 pages for 5,000 requests: each page is returned and used again.
fn received_in_place() -> Result<(), Failed> {
    let with = "--receive zcrx --ring defer_taskrun,single_issuer --server-threads 1 --buffers 64";
    let release = iotrail_host::kernel::release().ok_or("no release")?;
    let mut numbers = release.split(['.', '-']).map_while(|n| n.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(7), Some(1)) {
        let out = Server::command("127.0.0.1:0", "127.0.0.1:0", with).output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        let refusal = "iotrail: cannot register a zero-copy receive queue without a network device (requires Linux 7.1";
        assert!(said.starts_with(refusal) && said.ends_with("; use --receive multishot\n"), "{said}");
        return Ok(());
    }
    let server = Server::start(with);
    let (m, record) = server.load("--count 5000 --connections 8");
    exact(&m, &record, with);
    assert!(record.total.counts.receives >= 5000 / 8, "{record:?}");
    Ok(())
}

fn epoll() -> Result<(), Failed> {
    let server = Server::start("--engine epoll --server-threads 1 --server-cpus 0");
    let (m, record) = server.load("--count 20000 --connections 1 --sender-cpus 1");
    assert_eq!((m.probe.mode.as_str(), m.probe.completions_seen, m.probe.untracked), ("aggregate", None, None));
    assert!(m.vehicles.is_empty() && m.probe.lost == Some(0));
    // One request at a time: the server sleeps before each.
    let switches = m.per_io.context_switches.expect("switches are counted");
    assert!((0.9..1.2).contains(&switches), "{switches}");
    let counts: &ServerCounts = &record.total;
    assert_eq!(m.per_io.syscalls, Some(counts.counts.syscalls as f64 / m.ios.unwrap() as f64));
    assert!((2.9..3.2).contains(&m.per_io.syscalls.expect("it counts them")), "epoll_wait, recv, send: {:?}", m.per_io);
    let by_call = m.mode_switches.iter().find(|s| s.cause == "syscall").expect("the server counts its calls");
    assert_eq!(by_call.count, counts.counts.syscalls);
    Ok(())
}
