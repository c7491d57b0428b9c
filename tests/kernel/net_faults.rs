//! Network loads with a failing network or a failing end, and with many idle connections.

use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iotrail_net::namespace::{self, Namespaces};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::beside::within_a_minute;
use crate::net::Server;
use crate::trial;

const ENGINES: [&str; 2] = ["epoll", "io_uring"];

pub fn trials() -> Vec<Trial> {
    let missing = no_netem();
    if let Some(reason) = &missing {
        eprintln!("net_faults::a_link_that_loses_packets is skipped: {reason}");
    }
    vec![
        trial::test("net_faults::a_lossy_link_loses_no_request", lossy_link).with_ignored_flag(missing.is_some()),
        trial::test("net_faults::ten_thousand_mostly_idle_connections_are_served", idle),
        trial::test("net_faults::a_sender_reconnects_to_a_server_restarted_under_load", restarted),
        trial::test("net_faults::a_slow_link_delays_requests_without_losing_any", slow_link),
        trial::test("net_faults::a_link_that_goes_down_leaves_half_open_connections", half_open),
    ]
}

/// Maximum server memory per idle connection, in bytes.
const IDLE_BYTES: f64 = 2048.0;

fn idle() -> Result<(), Failed> {
    for engine in ENGINES {
        // Two servers, because memory freed after the first load would hide the second load's use.
        let resident = |connections: &str| -> Result<f64, Failed> {
            let server = Server::of(&mut serve("127.0.0.1:0", engine));
            let (m, record) = server.load(&format!("--connections 100 --count 20000 --warmup 0 {connections}"));
            assert_eq!((m.ios.unwrap(), record.total.counts.accept_failures), (20000, 0));
            let memory = record.memory.ok_or("it reads its memory")?;
            let wanted = if connections.is_empty() { 100 } else { 10_000 };
            assert_eq!(memory.connections, wanted, "{engine}");
            Ok(memory.resident_bytes as f64)
        };
        let each = (resident("--idle-connections 9900")? - resident("")?) / 9900.0;
        assert!(each <= IDLE_BYTES, "{engine}: {each} bytes for each idle connection");
        println!("{engine}: {each:.0} bytes for each idle connection");
    }
    Ok(())
}

fn serve(address: &str, engine: &str) -> Command {
    Server::command(address, &control(address), &format!("--trace off --server-threads 1 --engine {engine}"))
}

/// The same host, with a port chosen by the kernel.
fn control(address: &str) -> String {
    format!("{}:0", address.rsplit_once(':').expect("a port").0)
}

fn restarted() -> Result<(), Failed> {
    for engine in ENGINES {
        let mut first = Server::of(&mut serve(&not_given_to_others()?, engine));
        let options = "--connections 16 --window 2 --count 300000 --warmup 0 --reconnect --give-up 60s";
        // Without a control connection, because the server at the end differs from that at the start.
        let mut sender = Command::new(env!("CARGO_BIN_EXE_iotrail"));
        sender.args(["net", "load", &first.address, "--control", "none", "--json"]).args(options.split_whitespace());
        let sender = Killed(Some(sender.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?));
        // The server has answered for a while, and the load is far from its end.
        within_a_minute("the server at work", || cpu_ns(&first.child) > 100_000_000);
        let address = first.address.clone();
        first.child.kill()?;
        first.child.wait()?;
        let second = Server::of(&mut serve(&address, engine));
        let out = sender.output()?;
        assert!(out.status.success(), "{engine}: {}", String::from_utf8_lossy(&out.stderr));
        let m: Value = serde_json::from_slice(&out.stdout)?;
        let sent = &m["net"]["sender"];
        let number = |name: &str| sent[name].as_u64().expect("a number");
        // One reconnect per connection, and a second one if the first reached the exiting server's socket.
        assert_eq!(number("broken"), number("reconnects"), "{engine}: {sent}");
        assert!(number("broken") >= 16, "{engine}: {sent}");
        assert_eq!(number("requests"), number("responses") + number("unanswered"), "{engine}: {sent}");
        assert!(number("unanswered") <= 2 * number("broken"), "{engine}: no more than were in flight: {sent}");
        assert_eq!(m["ios"], sent["responses"]);
        drop(second);
    }
    Ok(())
}

/// A free port outside of the ephemeral range, so that it stays free once its server is gone.
fn not_given_to_others() -> Result<String, Failed> {
    let given = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range")?;
    let first: u16 = given.split_whitespace().next().ok_or("a range")?.parse()?;
    let free = (1024..first).rev().find(|port| std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok());
    Ok(format!("127.0.0.1:{}", free.ok_or("no port is free")?))
}

/// Two namespaces with a server in one of them; programs are started in the other.
struct Link {
    ends: Namespaces,
    server: Server,
}

impl Link {
    fn new(engine: &str) -> Result<Self, Failed> {
        let ends = Namespaces::make()?;
        let address = format!("{}:0", namespace::SERVER);
        let mut command = serve(&address, engine);
        let there = ends.server().as_raw_fd();
        // SAFETY: between fork and exec, one system call on a descriptor that is open in both.
        unsafe {
            command.pre_exec(move || match libc::setns(there, libc::CLONE_NEWNET) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let server = Server::of(&mut command);
        Ok(Self { ends, server })
    }

    /// Runs a program at the sender's end.
    fn run(&self, line: &str) -> Result<(), Failed> {
        let _inside = self.ends.enter_sender()?;
        let mut words = line.split_whitespace();
        let out = Command::new(words.next().expect("a program")).args(words).output()?;
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        Ok(())
    }

    /// Segments retransmitted by the sender's end (/proc/net/snmp in its namespace).
    fn resent(&self) -> Result<u64, Failed> {
        let _inside = self.ends.enter_sender()?;
        let told = std::fs::read_to_string("/proc/thread-self/net/snmp")?;
        let mut lines = told.lines().filter(|l| l.starts_with("Tcp: ")).map(str::split_whitespace);
        let (names, values) = (lines.next().ok_or("names")?, lines.next().ok_or("values")?);
        let resent = names.zip(values).find(|(name, _)| *name == "RetransSegs").ok_or("RetransSegs")?.1;
        Ok(resent.parse()?)
    }

    fn sender(&self, options: &str) -> Result<Killed, Failed> {
        let _inside = self.ends.enter_sender()?;
        Ok(Killed(Some(self.server.sender(options).spawn()?)))
    }
}

fn slow_link() -> Result<(), Failed> {
    for engine in ENGINES {
        let link = Link::new(engine)?;
        // 8 Mbit/s: a million bytes take a second, less the token bucket's burst.
        link.run("tc qdisc add dev sender root tbf rate 8mbit burst 16kb limit 1mb")?;
        let options = "--connections 4 --window 4 --request 10000 --response 64 --count 150 --warmup 0 --give-up 60s";
        let out = link.sender(options)?.output()?;
        assert!(out.status.success(), "{engine}: {}", String::from_utf8_lossy(&out.stderr));
        let m: Value = serde_json::from_slice(&out.stdout)?;
        assert_eq!((&m["ios"], &m["net"]["sender"]["unanswered"]), (&150.into(), &0.into()));
        assert_eq!((&m["net"]["server"]["total"]["requests"], &m["errors"]), (&150.into(), &0.into()));
        let (bytes, bucket, bytes_a_ns) = (150.0 * 10008.0, 16384.0, 1e6 / 1e9);
        let took = m["elapsed_ns"].as_f64().expect("a number");
        assert!(took >= (bytes - bucket) / bytes_a_ns * 0.95, "{engine}: slower than the link lets it: {took} ns");
    }
    Ok(())
}

const NETEM: &str = "tc qdisc add dev sender root netem loss 1% delay 20ms";

/// Why this kernel cannot drop packets on purpose (kernels of `iotrail lab run` can).
fn no_netem() -> Option<String> {
    let tried = || -> Result<std::process::Output, Failed> {
        let ends = Namespaces::make()?;
        let _inside = ends.enter_sender()?;
        let mut words = NETEM.split_whitespace();
        Ok(Command::new(words.next().expect("a program")).args(words).output()?)
    };
    match tried() {
        Ok(out) if out.status.success() => None,
        Ok(out) => Some(String::from_utf8_lossy(&out.stderr).lines().next().unwrap_or("tc fails").into()),
        Err(e) => Some(e.message().unwrap_or("no network namespace can be made").into()),
    }
}

fn lossy_link() -> Result<(), Failed> {
    for engine in ENGINES {
        let link = Link::new(engine)?;
        link.run(NETEM)?;
        let options = "--connections 8 --window 4 --request 3000 --response 3000 --count 2000 --warmup 0 --give-up 60s";
        let out = link.sender(options)?.output()?;
        assert!(out.status.success(), "{engine}: {}", String::from_utf8_lossy(&out.stderr));
        let m: Value = serde_json::from_slice(&out.stdout)?;
        assert_eq!((&m["ios"], &m["net"]["sender"]["unanswered"]), (&2000.into(), &0.into()));
        assert_eq!((&m["net"]["server"]["total"]["requests"], &m["errors"]), (&2000.into(), &0.into()));
        assert!(m["latency_ns"]["min"].as_u64().is_some_and(|ns| ns >= 20_000_000), "{engine}: {}", m["latency_ns"]);
        // 2,000 requests of two or three packets each, of which 1 % are lost.
        let resent = link.resent()?;
        assert!(resent > 0, "{engine}: no packet was sent again");
    }
    Ok(())
}

/// Both engines at once, because the test mostly waits.
fn half_open() -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let both = ENGINES.map(|engine| scope.spawn(move || half_open_of(engine)));
        both.into_iter().try_for_each(|one| one.join().unwrap_or_else(|_| Err("it panicked, as said above".into())))
    })
}

fn half_open_of(engine: &str) -> Result<(), Failed> {
    let link = Link::new(engine)?;
    let before = cpu_ns(&link.server.child);
    let cut_off = link.sender("--connections 8 --window 2 --runtime 1h --warmup 0 --give-up 1s")?;
    within_a_minute("the server at work", || cpu_ns(&link.server.child) > before + 50_000_000);
    link.run("ip link set sender down")?;
    let out = cut_off.output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(3), "{engine}: {said}");
    let lines: Vec<&str> = said.lines().filter(|l| l.starts_with("iotrail: ")).collect();
    assert_eq!(lines.len(), 1, "{engine}: one line says it: {said}");
    let m: Value = serde_json::from_slice(&out.stdout)?;
    assert!(m["ios"].as_u64().is_some_and(|n| n > 0), "{engine}: what was measured until then: {m}");
    link.run("ip link set sender up")?;
    // The route disappeared with the link. The server continues, and releases a silent sender's slot.
    let again = || -> Result<bool, Failed> {
        let out = link.sender("--connections 8 --count 100 --warmup 0 --give-up 60s")?.output()?;
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() || said.contains("another sender"), "{engine}: {said}");
        Ok(out.status.success())
    };
    let until = Instant::now() + Duration::from_secs(120);
    while !again()? {
        assert!(Instant::now() < until, "{engine}: the place is not freed");
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(())
}

/// A child that is killed when the test ends.
struct Killed(Option<Child>);

impl Killed {
    fn output(mut self) -> Result<std::process::Output, Failed> {
        Ok(self.0.take().expect("it was not waited for").wait_with_output()?)
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let ended = child.kill().and_then(|()| child.wait());
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}

/// CPU time of all threads of a running process.
fn cpu_ns(child: &Child) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let of_task = |task: std::fs::DirEntry| -> Option<u64> {
        std::fs::read_to_string(task.path().join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    tasks.filter_map(of_task).sum()
}
