//! Two network namespaces connected by a veth pair, for a server and a sender on one machine whose traffic passes
//! the network stack without any interface of the machine.
//!
//! They have no name: they exist while a thread is in them or a descriptor is open, and the pair is removed with them. So they
//! disappear with their creator, however it ends.

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use super::netlink;
use iotrail_base::error::{Error, Result};

/// Addresses for measurements between network devices (RFC 2544, RFC 5180), which are not used on the Internet.
pub const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));
pub const SERVER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1));
const SENDER: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2));
const SENDER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 2));

pub struct Namespaces {
    server: File,
    sender: File,
}

impl Namespaces {
    /// Errors: not allowed, or the kernel has no namespaces or no veth.
    pub fn make() -> Result<Self> {
        // A namespace is a thread's: one of its own makes them, and everybody else stays where they are.
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

    /// Where the server is to be; see [`enter`].
    pub fn server(&self) -> BorrowedFd<'_> {
        self.server.as_fd()
    }

    /// Moves the calling thread, and threads that it starts later, into the sender's namespace, until the returned value is
    /// dropped.
    pub fn enter_sender(&self) -> Result<Inside> {
        let fail = |e| Error::machine("cannot enter a network namespace", "mount /proc, and run it as root").because(e);
        let home = of_this_thread().map_err(fail)?;
        enter(self.sender.as_fd()).map_err(fail)?;
        Ok(Inside { home, of_one_thread: PhantomData })
    }
}

/// The calling thread is in another namespace.
pub struct Inside {
    home: File,
    /// It is the thread's that entered.
    of_one_thread: PhantomData<*const ()>,
}

impl Drop for Inside {
    fn drop(&mut self) {
        // A thread that could leave its namespace can return to it.
        enter(self.home.as_fd()).unwrap_or(());
    }
}

/// Moves the calling thread. Nothing but a system call, so that it may be done between fork and exec.
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
        // Where IPv6 is not in the kernel, or turned off, there is version 4.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EACCES)) => Ok(()),
        done => done,
    }
}

fn of_this_thread() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}
