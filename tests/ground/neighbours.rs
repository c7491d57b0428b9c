//! Activity of other programs next to a traced one: each continues until it is killed, until its parent exits, or for
//! 90 s. `ground beside:NAME`; `ground beside:list` prints the names.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::UdpSocket;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::cores;
use crate::load::{BLOCK, Memory, Target, peeking, spin};
use crate::ring::Ring;

const SECONDS: u64 = 90;
const FILE_BYTES: u64 = 16 << 20;

type Neighbour = fn(&Path) -> Result<()>;

const NEIGHBOURS: [(&str, Neighbour); 10] = [
    ("disk_reader", disk_reader),
    ("disk_writer", disk_writer),
    ("loopback_flood", loopback_flood),
    ("unix_ping_pong", unix_ping_pong),
    ("busy", busy),
    ("timers", timers),
    ("membarrier", membarrier),
    ("tlb_shootdowns", tlb_shootdowns),
    ("peeking_ring", peeking_ring),
    ("forks", forks),
];

/// Prints the list, or runs one neighbour until it ends.
pub fn perform(name: &str) -> Result<()> {
    if name == "list" {
        NEIGHBOURS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(());
    }
    let of_name = NEIGHBOURS.iter().find(|(n, _)| *n == name);
    let (_, neighbour) = of_name.with_context(|| format!("there is no neighbour `{name}`"))?;
    // SAFETY: both calls only arrange for a signal, so that this process ends with its parent or after a time limit.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(SECONDS as u32 + 5);
    }
    let folder = tempfile::Builder::new().prefix("ground-").tempdir().context("a temporary folder")?;
    let path = folder.path().join("data");
    let mut file = File::create(&path)?;
    for _ in 0..FILE_BYTES >> 20 {
        file.write_all(&vec![7; 1 << 20]).context("writing the file to read from")?;
    }
    file.sync_all()?;
    neighbour(&path)
}

/// Reports that it is running, then repeats its activity.
fn again(mut once: impl FnMut() -> Result<()>) -> Result<()> {
    once()?;
    println!("at work");
    let until = Instant::now() + Duration::from_secs(SECONDS);
    while Instant::now() < until {
        once()?;
    }
    Ok(())
}

/// The same with several threads, numbered from 0.
fn threads(count: usize, work: impl Fn(usize) + Send + Sync + 'static) {
    let work = Arc::new(work);
    for number in 0..count {
        let work = work.clone();
        std::thread::spawn(move || {
            loop {
                work(number);
            }
        });
    }
}

fn on(cpu_number: usize) -> Result<()> {
    let cpus = cores::allowed()?;
    cores::pin(cpus[cpu_number % cpus.len()])
}

fn direct(path: &Path) -> Result<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).context("opening with O_DIRECT")
}

fn disk_reader(path: &Path) -> Result<()> {
    let mut target = Target::new(direct(path)?)?;
    again(|| target.read_one())
}

fn disk_writer(path: &Path) -> Result<()> {
    let file = direct(path)?;
    let memory = Memory::new(1)?;
    memory.touch_all();
    // SAFETY: an owned page that is no longer written to.
    let page = unsafe { std::slice::from_raw_parts(memory.page(0), BLOCK) };
    let mut block = 0;
    again(|| {
        block = (block + 1) % (FILE_BYTES / BLOCK as u64);
        file.write_all_at(page, block * BLOCK as u64).context("writing")
    })
}

fn loopback_flood(_: &Path) -> Result<()> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.connect(receiver.local_addr()?)?;
    threads(1, move |_| assert!(receiver.recv(&mut [0; 64]).is_ok()));
    again(|| sender.send(&[1; 64]).map(drop).context("sending"))
}

fn unix_ping_pong(_: &Path) -> Result<()> {
    let (mut near, far) = UnixStream::pair()?;
    threads(1, move |_| {
        let mut byte = [0];
        assert!((&far).read_exact(&mut byte).and_then(|()| (&far).write_all(&byte)).is_ok());
    });
    again(|| {
        near.write_all(&[1])?;
        near.read_exact(&mut [0]).context("reading")
    })
}

fn busy(_: &Path) -> Result<()> {
    threads(1, |_| spin(10_000));
    again(|| {
        spin(10_000);
        Ok(())
    })
}

fn timers(_: &Path) -> Result<()> {
    let nap = || std::thread::sleep(Duration::from_micros(20));
    threads(3, move |_| nap());
    again(|| {
        nap();
        Ok(())
    })
}

/// A thread computes on one CPU while a thread on another CPU makes the kernel interrupt it.
fn membarrier(_: &Path) -> Result<()> {
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    // SAFETY: the call takes plain numbers.
    let call = |command: libc::c_int| unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) };
    ensure!(call(REGISTER_PRIVATE_EXPEDITED) == 0, std::io::Error::last_os_error());
    on(0)?;
    threads(1, |number| {
        assert!(on(number + 1).is_ok());
        spin(100_000);
    });
    again(|| {
        ensure!(call(PRIVATE_EXPEDITED) == 0, std::io::Error::last_os_error());
        Ok(())
    })
}

/// The same by reducing the permissions of a page, which needs a TLB shootdown on the other thread's CPU.
fn tlb_shootdowns(_: &Path) -> Result<()> {
    on(0)?;
    threads(1, |number| {
        assert!(on(number + 1).is_ok());
        spin(100_000);
    });
    again(|| {
        let memory = Memory::new(1)?;
        memory.touch_all();
        // SAFETY: an owned page without references.
        let failed = unsafe { libc::mprotect(memory.page(0).cast(), BLOCK, libc::PROT_READ) };
        ensure!(failed == 0, std::io::Error::last_os_error());
        Ok(())
    })
}

fn peeking_ring(path: &Path) -> Result<()> {
    let mut target = Target::new(direct(path)?)?;
    let mut ring = Ring::open(8, &[])?;
    again(|| peeking(&mut ring, &mut target, 100, 4, || spin(1)))
}

fn forks(_: &Path) -> Result<()> {
    again(|| {
        // SAFETY: the child only exits, and the parent waits for it.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(0),
                child => {
                    ensure!(child > 0, std::io::Error::last_os_error());
                    ensure!(libc::waitpid(child, std::ptr::null_mut(), 0) == child, std::io::Error::last_os_error());
                }
            }
        }
        Ok(())
    })
}
