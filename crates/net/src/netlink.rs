//! Requests to the kernel's routing netlink (rtnetlink(7)), in the calling thread's network namespace.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::net::netdevice::name_to_index;
use socket2::{Domain, Protocol, Socket, Type};

/// linux/veth.h; libc does not define it.
const VETH_INFO_PEER: u16 = 1;
/// nlmsghdr: length, type, flags, sequence number, port.
const HEADER: usize = 16;

/// Creates a veth pair: `name` in this namespace, `peer_name` in another.
pub fn add_veth(name: &str, peer_name: &str, peer_namespace: BorrowedFd<'_>) -> io::Result<()> {
    let mut r = Request::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &link(0, 0));
    r.put_text(libc::IFLA_IFNAME, name);
    r.nest(libc::IFLA_LINKINFO, |r| {
        r.put_text(libc::IFLA_INFO_KIND, "veth");
        r.nest(libc::IFLA_INFO_DATA, |r| {
            r.nest(VETH_INFO_PEER, |r| {
                r.bytes.extend(link(0, 0));
                r.put_text(libc::IFLA_IFNAME, peer_name);
                r.put(libc::IFLA_NET_NS_FD, &peer_namespace.as_raw_fd().to_ne_bytes());
            });
        });
    });
    r.ask()
}

pub fn set_up(name: &str) -> io::Result<()> {
    Request::new(libc::RTM_NEWLINK, 0, &link(index(name)?, libc::IFF_UP as u32)).ask()
}

/// Adds an address that is usable immediately: duplicate address detection is disabled (IFA_F_NODAD), because there is
/// no other node.
pub fn add_address(name: &str, address: IpAddr, prefix_bits: u8) -> io::Result<()> {
    let (family, octets) = match address {
        IpAddr::V4(a) => (libc::AF_INET, a.octets().to_vec()),
        IpAddr::V6(a) => (libc::AF_INET6, a.octets().to_vec()),
    };
    // ifaddrmsg: family, prefix length, flags, scope (0: global), interface.
    let mut body = vec![family as u8, prefix_bits, libc::IFA_F_NODAD as u8, 0];
    body.extend(index(name)?.to_ne_bytes());
    let mut r = Request::new(libc::RTM_NEWADDR, libc::NLM_F_CREATE | libc::NLM_F_EXCL, &body);
    r.put(libc::IFA_LOCAL, &octets);
    r.put(libc::IFA_ADDRESS, &octets);
    r.ask()
}

fn index(name: &str) -> io::Result<u32> {
    // Any socket works.
    Ok(name_to_index(Socket::new(Domain::UNIX, Type::DGRAM, None)?, name)?)
}

/// ifinfomsg: family and padding, type, index, flags, mask of flags to change.
fn link(index: u32, flags: u32) -> Vec<u8> {
    [0, index, flags, flags].into_iter().flat_map(u32::to_ne_bytes).collect()
}

/// A message under construction. Attributes, and everything before them, are aligned to 4 bytes.
struct Request {
    bytes: Vec<u8>,
}

impl Request {
    fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
        let mut bytes = vec![0; 4];
        bytes.extend([kind.to_ne_bytes(), flags.to_ne_bytes()].as_flattened());
        bytes.resize(HEADER, 0);
        bytes.extend(body);
        Self { bytes }
    }

    fn put(&mut self, kind: u16, data: &[u8]) {
        self.nest(kind, |r| r.bytes.extend(data));
    }

    fn put_text(&mut self, kind: u16, text: &str) {
        self.nest(kind, |r| r.bytes.extend(text.bytes().chain([0])));
    }

    /// A nested attribute with contents added by `inside`.
    fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let at = self.bytes.len();
        self.bytes.extend([[0, 0], kind.to_ne_bytes()].as_flattened());
        inside(self);
        let length = (self.bytes.len() - at) as u16;
        self.bytes[at..at + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Sends it, and waits for the kernel's answer.
    fn ask(mut self) -> io::Result<()> {
        let length = (self.bytes.len() as u32).to_ne_bytes();
        self.bytes[..4].copy_from_slice(&length);
        let socket = Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(Protocol::from(libc::NETLINK_ROUTE)))?;
        socket.send(&self.bytes)?;
        let mut answer = [0; 4096];
        let n = io::Read::read(&mut &socket, &mut answer)?;
        // An acknowledgement is an error of number 0, behind a header.
        match answer[..n].get(HEADER..HEADER + 4) {
            Some(&[a, b, c, d]) => match i32::from_ne_bytes([a, b, c, d]) {
                0 => Ok(()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            },
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_attributes_have_a_length_and_are_aligned() {
        let mut r = Request::new(16, 0, &[9; 4]);
        r.nest(1, |r| r.put_text(2, "ab"));
        r.put(3, &[7]);
        let of = |n: u16| n.to_ne_bytes().to_vec();
        let whole = [of(12), of(1), of(7), of(2), b"ab\0\0".to_vec(), of(5), of(3), vec![7, 0, 0, 0]].concat();
        assert_eq!(r.bytes[HEADER + 4..], whole);
    }

    #[test]
    fn a_netlink_error_is_returned_with_its_errno() {
        let e = set_up("no-such-device").unwrap_err();
        assert_eq!(e.raw_os_error(), Some(libc::ENODEV));
        let e = Request::new(libc::RTM_NEWLINK, 0, &link(u32::MAX >> 1, libc::IFF_UP as u32)).ask().unwrap_err();
        assert!(matches!(e.raw_os_error(), Some(libc::ENODEV | libc::EPERM)), "{e}");
    }
}
