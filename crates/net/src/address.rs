//! A server's address: TCP over IPv4 or IPv6, or the path of a UNIX socket.

use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

use iotrail_base::error::{Error, Result};

/// Listen backlog (limited by net.core.somaxconn).
const BACKLOG: i32 = 4096;
/// An address in use is retried with doubling pauses, for 1.3 s in total. The kernel tears down a ring only after its
/// process has exited (5 to 16 ms after a kill, measured with 16 connections), and only then closes the sockets on
/// which its requests wait.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LAST_PAUSE: Duration = Duration::from_millis(640);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(at) => write!(f, "{at}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// `127.0.0.1:7000`, `[::1]:7000`, `name:7000` (the name's first address), `unix:PATH`.
    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("'unix:' has no socket path: use unix:/run/x.sock".into()),
                path => Ok(Address::Unix(path.into())),
            };
        }
        let mut found = text
            .to_socket_addrs()
            .map_err(|e| format!("'{text}' is not an address ({e}): use 127.0.0.1:7000, [::1]:7000 or unix:PATH"))?;
        found.next().map(Address::Tcp).ok_or_else(|| format!("'{text}' has no address"))
    }
}

impl Address {
    fn parts(&self) -> io::Result<(Domain, SockAddr)> {
        match self {
            Address::Tcp(at) => Ok((Domain::for_address(*at), SockAddr::from(*at))),
            Address::Unix(path) => Ok((Domain::UNIX, SockAddr::unix(path)?)),
        }
    }

    /// With port 0, the kernel chooses a port.
    pub fn port(&self) -> Option<u16> {
        match self {
            Address::Tcp(at) => Some(at.port()),
            Address::Unix(_) => None,
        }
    }

    /// A non-blocking listening socket. With `shared`, further sockets may listen on the same TCP address, and the
    /// kernel distributes connections among them.
    pub fn listen(&self, shared: bool) -> Result<(Socket, Address)> {
        let refuse = |e: io::Error| {
            let remedy = match e.kind() {
                io::ErrorKind::AddrInUse => "another server is listening there: stop it, or choose another address",
                io::ErrorKind::AddrNotAvailable => "choose an address of this machine",
                io::ErrorKind::PermissionDenied => "choose a port above 1023, or a writable path",
                _ => "choose another address",
            };
            Error::machine(format!("cannot listen at {self}"), remedy).because(e)
        };
        let mut pause = FIRST_PAUSE;
        let socket = loop {
            self.clear_stale_socket();
            match self.try_listen(shared) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && pause <= LAST_PAUSE => std::thread::sleep(pause),
                done => break done.map_err(refuse)?,
            }
            pause *= 2;
        };
        let at = match (self, socket.local_addr().map_err(refuse)?.as_socket()) {
            (Address::Tcp(_), Some(at)) => Address::Tcp(at),
            (address, _) => address.clone(),
        };
        Ok((socket, at))
    }

    fn try_listen(&self, shared: bool) -> io::Result<Socket> {
        let (domain, at) = self.parts()?;
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        if let Address::Tcp(at) = self {
            socket.set_reuse_address(true)?;
            socket.set_reuse_port(shared)?;
            if at.is_ipv6() {
                socket.set_only_v6(true)?;
            }
        }
        socket.bind(&at)?;
        socket.listen(BACKLOG)?;
        Ok(socket)
    }

    /// Removes the UNIX socket of a killed server, which has no listener.
    fn clear_stale_socket(&self) {
        let Address::Unix(path) = self else { return };
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
        if is_socket && self.connect().is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
            // If the socket cannot be removed, the following bind fails and reports it.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Connects, and blocks until the connection is established. Sets TCP_NODELAY.
    pub fn connect(&self) -> io::Result<Socket> {
        let (domain, at) = self.parts()?;
        let socket = Socket::new(domain, Type::STREAM, None)?;
        socket.connect(&at)?;
        self.not_to_itself(&socket)?;
        self.without_delay(&socket)?;
        Ok(socket)
    }

    /// Without a listener on a port in the ephemeral range, a socket may be assigned that port itself and connect to
    /// itself, which would prevent a server from listening there.
    fn not_to_itself(&self, socket: &Socket) -> io::Result<()> {
        match self {
            Address::Tcp(at) if socket.local_addr()?.as_socket() == Some(*at) => {
                Err(io::Error::from_raw_os_error(libc::ECONNREFUSED))
            }
            _ => Ok(()),
        }
    }

    /// A non-blocking socket whose connection is being established.
    pub fn begin_connect(&self) -> io::Result<Socket> {
        let (domain, at) = self.parts()?;
        let socket = Socket::new(domain, Type::STREAM.nonblocking(), None)?;
        self.without_delay(&socket)?;
        match socket.connect(&at) {
            Err(e) if e.raw_os_error() != Some(libc::EINPROGRESS) => Err(e),
            _ => self.not_to_itself(&socket).map(|()| socket),
        }
    }

    fn without_delay(&self, socket: &Socket) -> io::Result<()> {
        match self {
            Address::Tcp(_) => socket.set_tcp_nodelay(true),
            Address::Unix(_) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_in_all_notations() {
        for text in ["127.0.0.1:7000", "[::1]:7000", "unix:/run/x.sock"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        assert!("127.0.0.1".parse::<Address>().unwrap_err().contains("use 127.0.0.1:7000"));
        assert!("unix:".parse::<Address>().is_err());
    }

    #[test]
    fn a_tcp_self_connection_is_rejected() {
        let at: Address = "127.0.0.1:7000".parse().unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        assert!(at.not_to_itself(&socket).is_ok());
        let itself = Address::Tcp(socket.local_addr().unwrap().as_socket().unwrap());
        assert_eq!(itself.not_to_itself(&socket).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }

    #[test]
    fn an_address_has_one_server_and_stale_sockets_are_replaced() {
        let (first, at) = "127.0.0.1:0".parse::<Address>().unwrap().listen(false).unwrap();
        let e = at.listen(false).unwrap_err().to_string();
        assert!(e.contains("another server is listening there"), "{e}");
        // The kernel closes a killed server's sockets once it has torn down the server's ring.
        let closes_soon = std::thread::spawn(move || {
            std::thread::sleep(FIRST_PAUSE * 4);
            drop(first);
        });
        at.listen(false).unwrap();
        closes_soon.join().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let at = Address::Unix(dir.path().join("s"));
        let (first, _) = at.listen(false).unwrap();
        assert!(at.listen(false).is_err());
        drop(first);
        assert!(at.listen(false).is_ok());
    }
}
