//! Network loads with both ends on this machine, in network namespaces that disappear afterwards.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use iotrail_net::namespace::{self, Namespaces, SERVER, SERVER_V6};
use libtest_mimic::{Failed, Trial};
use serde_json::Value;

use crate::beside::within_a_minute;
use crate::trial;

pub fn trials() -> Vec<Trial> {
    vec![
        trial::test("net_bench::two_network_namespaces_are_connected_and_removed", reach),
        trial::test("net_bench::both_ends_in_namespaces_agree_and_leave_the_host_unchanged", measured),
        trial::test("net_bench::a_killed_run_leaves_no_server_and_no_namespace", killed),
    ]
}

/// The calling thread's namespace.
const MINE: &str = "/proc/thread-self/ns/net";

/// The machine's interfaces and its named namespaces.
fn network() -> Result<String, Failed> {
    let said = |args: &[&str]| -> Result<String, Failed> {
        let ended = Command::new("ip").args(args).output()?;
        assert!(ended.status.success(), "ip {args:?}");
        Ok(String::from_utf8(ended.stdout)?)
    };
    Ok(said(&["-o", "link"])? + &said(&["netns"])?)
}

fn reach() -> Result<(), Failed> {
    let before = network()?;
    let ends = Namespaces::make()?;
    for at in [SERVER, SERVER_V6] {
        let (listener, address) = std::thread::scope(|s| {
            let listen = || -> std::io::Result<_> {
                namespace::enter(ends.server())?;
                let listener = TcpListener::bind((at, 0))?;
                let address = listener.local_addr()?;
                Ok((listener, address))
            };
            s.spawn(listen).join().expect("no panic")
        })?;
        let outside = std::fs::read_link(MINE)?;
        let inside = ends.enter_sender()?;
        assert_ne!(std::fs::read_link(MINE)?, outside);
        let mut ours = TcpStream::connect(address)?;
        ours.write_all(b"ping")?;
        let mut got = [0; 4];
        listener.accept()?.0.read_exact(&mut got)?;
        assert_eq!(&got, b"ping");
        drop(inside);
        assert_eq!(std::fs::read_link(MINE)?, outside);
        assert_eq!(network()?, before);
    }
    drop(ends);
    assert_eq!(network()?, before);
    Ok(())
}

fn bench(options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotrail"));
    command.args(["net", "bench", "--engine", "epoll", "--server-threads", "1", "--json"]);
    command.args(options.split_whitespace()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn measured() -> Result<(), Failed> {
    let before = network()?;
    let ended = bench("--between namespaces --connections 4 --window 2 --warmup 50ms --count 2000").output()?;
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let m: Value = serde_json::from_slice(&ended.stdout)?;
    assert_eq!((m["net"]["between"].as_str(), m["ios"].as_u64()), (Some("namespaces"), Some(2000)));
    assert_eq!((&m["net"]["server"]["total"]["requests"], &m["net"]["sender"]["responses"]), (&m["ios"], &m["ios"]));
    assert_eq!(m["probe"]["mode"], "aggregate", "the server is watched: {}", m["warnings"]);
    assert_eq!(network()?, before);
    Ok(())
}

fn killed() -> Result<(), Failed> {
    let before = network()?;
    let mut child = bench("--between namespaces --runtime 5m").spawn()?;
    let list = format!("/proc/{0}/task/{0}/children", child.id());
    let server = || std::fs::read_to_string(&list).ok()?.split_whitespace().next().map(str::to_owned);
    within_a_minute("a server", || server().is_some());
    let server = server().ok_or("it was there")?;
    let sees = || std::fs::read_to_string(format!("/proc/{server}/net/dev")).unwrap_or_default();
    within_a_minute("its network", || sees().contains("server:"));
    let interfaces = sees().lines().count();
    assert_eq!(interfaces, 4, "two lines of headings, lo, and its end of the pair: {}", sees());
    child.kill()?;
    child.wait()?;
    within_a_minute("the server's end", || !std::path::Path::new(&format!("/proc/{server}")).exists());
    assert_eq!(network()?, before);
    Ok(())
}
