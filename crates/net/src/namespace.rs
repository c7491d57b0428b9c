//! Two network namespaces connected by a veth pair, for a server and a sender on the same machine. Their traffic passes
//! through the network stack, but through none of the machine's interfaces.
//!
//! The namespaces have no names: they exist while a thread is inside or a descriptor is open, and the pair is removed
//! with them. So they disappear with their creator, however it ends.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::netlink;
use iotrail_base::error::{Error, Result};

/// Addresses reserved for benchmarks of network devices (RFC 2544, RFC 5180), which are not used on the Internet.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1));
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
const SENDER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2));

pub struct Namespaces {
    server: File,
    sender: File,
}

impl Namespaces {
    /// Creates both namespaces. Fails without permission, or if the kernel lacks namespaces or veth.
    pub fn make() -> Result<Self> {
        // Namespaces belong to threads: a separate thread creates them, so that all others stay in theirs.
        let made = std::thread::Builder::new().name("namespaces".into()).spawn(make);
        let made = made.and_then(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread failed"))));
        made.map_err(|e| {
            let remedy = match e.raw_os_error() {
                Some(libc::EPERM) => {
                    "run it as root (CAP_SYS_ADMIN and CAP_NET_ADMIN are needed), or use --between loopback"
                }
                Some(libc::ENOSPC) => "raise the sysctl user.max_net_namespaces, or use --between loopback",
                _ => "use --between loopback: this kernel has no network namespaces, or no veth",
            };
            Error::machine("cannot create two network namespaces with a veth pair", remedy).because(e)
        })
    }

    /// The server's namespace; see [`enter`].
    pub fn server(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }

    /// Moves the calling thread, and threads that it starts later, to the sender's namespace until the returned value
    /// is dropped.
    pub fn enter_sender(&self) -> Result<Inside> {
        let fail = |e| Error::machine("cannot enter a network namespace", "mount /proc, and run it as root").because(e);
        let home = of_this_thread().map_err(fail)?;
        enter(self.sender.as_fd()).map_err(fail)?;
        Ok(Inside { home, of_one_thread: PhantomData })
    }
}

/// While this exists, the calling thread is in another namespace.
pub struct Inside {
    home: File,
    /// Must be dropped on the thread that entered.
    of_one_thread: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A thread that could leave its namespace can also return to it.
        enter(self.home.as_fd()).unwrap_or(());
    }
}

/// Moves the calling thread. A single system call, so it may be used between fork and exec.
pub fn enter(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
}

fn make() -> io::Result<Namespaces> {
    let fresh = || {
        // SAFETY: files stay shared.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        of_this_thread()
    };
    let server = fresh()?;
    let sender = fresh()?;
    netlink::add_veth("sender", "server", server.as_fd())?;
    furnish("sender", SENDER, SENDER_V6)?;
    enter(server.as_fd())?;
    furnish("server", SERVER, SERVER_V6)?;
    Ok(Namespaces { server, sender })
}

fn furnish(device: &str, address: IpAddr, address_v6: IpAddr) -> io::Result<()> {
    netlink::set_up("lo")?;
    netlink::set_up(device)?;
    netlink::add_address(device, address, 24)?;
    match netlink::add_address(device, address_v6, 64) {
        // Without IPv6 in the kernel, or with IPv6 disabled, IPv4 remains.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EACCES)) => Ok(()),
        done => done,
    }
}

fn of_this_thread() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}
