//! An HTTP server for scrapes only: a single thread, which sleeps until a client connects.
//!
//! A client costs the trace at most one read of its counters per [`FRESH`]. There are at most [`CLIENTS`] connections;
//! a new one replaces the connection that has waited longest without sending a request. Requests are limited to
//! [`client::HEAD_BYTES`], each connection carries one request, and each phase of a connection has a deadline.

mod client;
mod hosts;
#[cfg(test)]
mod tests;

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use self::client::{Client, State};
use self::hosts::Hosts;
use iotrail_base::error::{Error, Result};
use iotrail_report::export::openmetrics::{Answered, Exposition};
use iotrail_watch::metrics::{Look, MetricsExchange};

/// Maximum number of connections.
const CLIENTS: usize = 64;

/// Counts up to this age are used for another scrape.
const FRESH: Duration = Duration::from_millis(200);

/// Pause after an accept that failed for lack of file descriptors or memory.
const PAUSE: Duration = Duration::from_millis(100);

/// The listening address, and the host name specified by the user.
#[derive(Debug, Clone)]
pub struct Address {
    at: SocketAddr,
    name: Option<String>,
}

/// `127.0.0.1:9464`, `[::1]:0`, `localhost:9464`; a port without an address refers to the loopback address.
pub fn address(text: &str) -> std::result::Result<Address, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(Address { at: SocketAddr::from(([127, 0, 0, 1], port)), name: None });
    }
    let found = text.to_socket_addrs().ok().and_then(|mut found| found.next());
    let name = text.rsplit_once(':').map(|(host, _)| host.to_owned());
    found
        .map(|at| Address { at, name })
        .ok_or_else(|| "write 127.0.0.1:9464, [::1]:9464, or only a port; port 0 selects a free port".into())
}

/// Serves until it is dropped.
pub struct Server {
    desk: Arc<MetricsExchange>,
    at: SocketAddr,
    stop: Arc<AtomicBool>,
    wake: PipeWriter,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Usage error: the address is unusable.
    pub fn start(Address { at, name }: Address) -> Result<Self> {
        let cannot = |e: io::Error| {
            Error::input(
                format!("cannot listen on {at}"),
                "specify another address or port with --metrics; port 0 selects a free port",
            )
            .because(e)
        };
        let listener = TcpListener::bind(at).map_err(cannot)?;
        listener.set_nonblocking(true).map_err(cannot)?;
        let at = listener.local_addr().map_err(cannot)?;
        let (woken, wake) = io::pipe().map_err(cannot)?;
        never_wait(&woken).and_then(|()| never_wait(&wake)).map_err(cannot)?;
        let bell = wake.try_clone().map_err(cannot)?;
        // A full pipe wakes the thread just as well.
        let desk = Arc::new(MetricsExchange::new(move || (&bell).write(&[1]).map(drop).unwrap_or(())));
        let stop = Arc::new(AtomicBool::new(false));
        let mut answering = Answering {
            listener,
            woken,
            desk: Arc::clone(&desk),
            clients: vec![],
            exposition: Exposition::default(),
            answered: Answered::default(),
            paused_until: None,
            hosts: Hosts::new(name),
        };
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("scrapes".into())
            .spawn(move || {
                while !stopped.load(Ordering::Relaxed) {
                    answering.turn();
                }
            })
            .map_err(cannot)?;
        Ok(Self { desk, at, stop, wake, thread: Some(thread) })
    }

    /// Where the trace delivers its counts.
    pub fn desk(&self) -> &Arc<MetricsExchange> {
        &self.desk
    }

    pub fn at(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        (&self.wake).write(&[1]).map(drop).unwrap_or(());
        if let Some(thread) = self.thread.take() {
            // Its data cannot be left inconsistent by a panic.
            drop(thread.join());
        }
    }
}

fn never_wait(end: impl AsFd) -> io::Result<()> {
    let flags = fcntl_getfl(&end)? | OFlags::NONBLOCK;
    Ok(fcntl_setfl(end, flags)?)
}

/// State of the server thread.
struct Answering {
    listener: TcpListener,
    woken: PipeReader,
    desk: Arc<MetricsExchange>,
    clients: Vec<Client>,
    exposition: Exposition,
    answered: Answered,
    paused_until: Option<Instant>,
    hosts: Hosts,
}

impl Answering {
    fn turn(&mut self) {
        let now = Instant::now();
        self.paused_until = self.paused_until.filter(|until| *until > now);
        let listener = self.paused_until.is_none().then(|| PollFd::new(&self.listener, PollFlags::IN));
        let listens = listener.is_some();
        let mut fds: Vec<_> = self.clients.iter().map(Client::entry).chain(listener).collect();
        fds.push(PollFd::new(&self.woken, PollFlags::IN));
        let next = self.clients.iter().map(|c| c.deadline).chain(self.paused_until).min();
        let patience = next.and_then(|at| Timespec::try_from(at.saturating_duration_since(now)).ok());
        if poll(&mut fds, patience.as_ref()).is_err() {
            // Interrupted, or out of memory: nothing is lost in either case.
            return;
        }
        let told: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let (of_clients, rest) = told.split_at(self.clients.len());
        let mut rung = [0; 64];
        while (&self.woken).read(&mut rung).is_ok_and(|n| n == rung.len()) {}
        let now = Instant::now();
        for (client, is_told) in self.clients.iter_mut().zip(of_clients) {
            if *is_told {
                client.go_on(&self.hosts, now);
            }
        }
        if listens && rest[0] {
            self.accept(now);
        }
        self.answer(now);
        for client in &mut self.clients {
            client.expire(now);
        }
        let answered = &mut self.answered;
        self.clients.retain(|client| match client.state {
            State::Gone { dropped } => {
                answered.dropped += u64::from(dropped);
                false
            }
            _ => true,
        });
    }

    fn accept(&mut self, now: Instant) {
        // A limit per iteration, so that new clients do not delay waiting ones.
        for _ in 0..CLIENTS {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    if self.clients.len() >= CLIENTS {
                        self.give_way();
                    }
                    self.clients.extend(Client::new(stream, now));
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e)
                    if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)) =>
                {
                    self.paused_until = Some(now + PAUSE);
                    return;
                }
                // The client had disconnected.
                Err(_) => {}
            }
        }
    }

    /// Drops the oldest connection without a request; if there is none, the oldest connection.
    fn give_way(&mut self) {
        let oldest = |silent: bool| {
            let of = self.clients.iter().enumerate().filter(|(_, c)| !silent || matches!(c.state, State::Asking(_)));
            of.min_by_key(|(_, c)| c.since).map(|(i, _)| i)
        };
        if let Some(i) = oldest(true).or_else(|| oldest(false)) {
            self.clients.remove(i);
            self.answered.dropped += 1;
        }
    }

    /// Sends the current counts to waiting clients.
    fn answer(&mut self, now: Instant) {
        self.answered.refused +=
            self.clients.iter_mut().map(|c| u64::from(std::mem::take(&mut c.refused))).sum::<u64>();
        if !self.clients.iter().any(|c| matches!(c.state, State::Waiting { .. })) {
            return;
        }
        let last = self.desk.last();
        let mut asked = false;
        for i in 0..self.clients.len() {
            let State::Waiting { format, head_only, asked_at } = self.clients[i].state else { continue };
            let fits = |(at, _): &&Look| *at >= asked_at || now.saturating_duration_since(*at) < FRESH;
            match last.as_ref().filter(fits) {
                Some((_, record)) => {
                    self.answered.served += 1;
                    let text = self.exposition.text(record, self.answered, format);
                    self.clients[i].say("200 OK", format.content_type(), &text, head_only, now);
                }
                None => asked = true,
            }
        }
        if asked {
            self.desk.ask();
        }
    }
}
