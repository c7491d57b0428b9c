use std::ffi::OsString;
use std::os::unix::net::UnixStream;

use super::*;

impl Port for UnixStream {
    fn another(&self) -> io::Result<Self> {
        self.try_clone()
    }
}

/// The host's ends of the ports.
type Host = Ports<UnixStream>;

fn start(command: &[&str]) -> (Host, JoinHandle<io::Result<()>>) {
    let order = Order {
        command: command.iter().map(OsString::from).collect(),
        working_folder: "/".into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into()), ("WORD".into(), "said".into())],
    };
    let pairs = PORTS.map(|_| UnixStream::pair().unwrap());
    let [(stdin, a), (stdout, b), (stderr, c), (control, d)] = pairs;
    let guest = Ports { stdin: a, stdout: b, stderr: c, control: d };
    let keeper = std::thread::spawn(move || keep(&order, guest, || ()));
    (Ports { stdin, stdout, stderr, control }, keeper)
}

/// Final message of the guest, and the data of both outputs.
fn end(host: Host, keeper: JoinHandle<io::Result<()>>) -> (FromGuest, Vec<u8>, String) {
    keeper.join().unwrap().unwrap();
    let mut lines = BufReader::new(host.control).lines().map(io::Result::unwrap);
    assert_eq!(lines.next().unwrap().parse(), Ok(FromGuest::Hello));
    let ended: FromGuest = lines.next().unwrap().parse().unwrap();
    let FromGuest::End { stdout_bytes, stderr_bytes, .. } = ended else { panic!("{ended:?}") };
    let read = |mut port: UnixStream, bytes: u64| {
        let mut all = vec![0; bytes as usize];
        port.read_exact(&mut all).unwrap();
        all
    };
    (ended, read(host.stdout, stdout_bytes), String::from_utf8(read(host.stderr, stderr_bytes)).unwrap())
}

#[test]
fn output_and_exit_status_are_passed_to_the_host_unmodified() {
    let (host, keeper) = start(&["sh", "-c", r"printf 'a\0b\377'; echo $WORD >/dev/stderr; pwd; exit 7"]);
    let (ended, stdout, stderr) = end(host, keeper);
    assert_eq!(ended, FromGuest::End { status: 7, stdout_bytes: 6, stderr_bytes: 5 });
    assert_eq!((stdout.as_slice(), stderr.as_str()), (b"a\0b\xff/\n".as_slice(), "said\n"));
}

#[test]
fn the_commands_input_ends_at_the_hosts_end_of_file() {
    let (mut host, keeper) = start(&["cat"]);
    host.control.write_all(FromHost::InputEnds(5).to_string().as_bytes()).unwrap();
    host.stdin.write_all(b"12345").unwrap();
    let (ended, stdout, _) = end(host, keeper);
    assert_eq!(
        (ended, stdout.as_slice()),
        (FromGuest::End { status: 0, stdout_bytes: 5, stderr_bytes: 0 }, b"12345".as_slice())
    );
}

#[test]
fn a_signal_reaches_the_command_and_its_children() {
    // The signal must end both processes, because the shell waits for its child.
    let (mut host, keeper) = start(&["sh", "-c", "echo ready; sleep 600; echo not reached"]);
    let mut ready = [0; 6];
    host.stdout.read_exact(&mut ready).unwrap();
    host.control.write_all(FromHost::Signal(libc::SIGTERM).to_string().as_bytes()).unwrap();
    keeper.join().unwrap().unwrap();
    let lines: Vec<String> = BufReader::new(host.control).lines().take(2).map(io::Result::unwrap).collect();
    let status = 128 + libc::SIGTERM as u8;
    assert_eq!(lines[1].parse(), Ok(FromGuest::End { status, stdout_bytes: 6, stderr_bytes: 0 }));
}

#[test]
fn a_program_that_cannot_run_exits_with_status_127() {
    let (host, keeper) = start(&["/no/such/program"]);
    let (ended, _, stderr) = end(host, keeper);
    assert!(matches!(ended, FromGuest::End { status: 127, stdout_bytes: 0, .. }), "{ended:?}");
    assert!(stderr.starts_with("iotrail: cannot run /no/such/program in the lab: "), "{stderr}");
}
