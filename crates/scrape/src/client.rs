//! A connection: reads one request, sends the response, and closes.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::hosts::{Hosts, split};
use iotrail_report::export::openmetrics::Format;

const NOT_ALLOWED: &str = "405 Method Not Allowed";

/// Maximum size of the request line and headers, in bytes.
pub const HEAD_BYTES: usize = 8 << 10;
const HEADERS: usize = 64;

/// Time limits for the request, for the counts, for sending the response, and for closing.
const ASKING: Duration = Duration::from_secs(5);
const WAITING: Duration = Duration::from_secs(3);
const TAKING: Duration = Duration::from_secs(10);
const CLOSING: Duration = Duration::from_secs(1);

/// Maximum number of bytes read and discarded while sending the response.
const REST_BYTES: usize = 1 << 20;

pub struct Client {
    stream: TcpStream,
    pub since: Instant,
    pub deadline: Instant,
    pub state: State,
    /// The request was rejected; reported once.
    pub refused: bool,
}

pub enum State {
    Asking(Vec<u8>),
    Waiting { format: Format, head_only: bool, asked_at: Instant },
    Taking { answer: Vec<u8>, taken: usize },
    Closing { left: usize },
    Gone { dropped: bool },
}

/// The content of a request head.
enum RequestHead {
    Metrics {
        format: Format,
        head_only: bool,
    },
    /// Status and body of a rejection.
    Refused(&'static str, &'static str),
    NotYet,
}

impl Client {
    /// `None` if the client has disconnected.
    pub fn new(stream: TcpStream, now: Instant) -> Option<Self> {
        stream.set_nonblocking(true).ok()?;
        Some(Self { stream, since: now, deadline: now + ASKING, state: State::Asking(vec![]), refused: false })
    }

    /// The events that the client waits for.
    pub fn entry(&self) -> PollFd<'_> {
        let events = match self.state {
            State::Asking(_) | State::Closing { .. } => PollFlags::IN,
            // Errors and hang-ups are always reported.
            State::Waiting { .. } | State::Gone { .. } => PollFlags::empty(),
            State::Taking { .. } => PollFlags::OUT,
        };
        PollFd::new(&self.stream, events)
    }

    /// Called when data can be read or written, or the peer has closed.
    pub fn go_on(&mut self, hosts: &Hosts, now: Instant) {
        match &mut self.state {
            State::Asking(_) => self.read(hosts, now),
            State::Waiting { .. } => self.state = State::Gone { dropped: true },
            State::Taking { .. } => self.write(now),
            State::Closing { .. } => self.read_rest(),
            State::Gone { .. } => {}
        }
    }

    pub fn expire(&mut self, now: Instant) {
        if now < self.deadline {
            return;
        }
        match self.state {
            State::Waiting { head_only, .. } => {
                self.refused = true;
                self.say("503 Service Unavailable", PLAIN, "iotrail does not respond\n", head_only, now);
            }
            // The client has received its response.
            State::Closing { .. } => self.state = State::Gone { dropped: false },
            State::Asking(_) | State::Taking { .. } => self.state = State::Gone { dropped: true },
            State::Gone { .. } => {}
        }
    }

    fn read(&mut self, hosts: &Hosts, now: Instant) {
        let State::Asking(head) = &mut self.state else { return };
        let mut bytes = [0; 2048];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return self.state = State::Gone { dropped: !head.is_empty() },
                Ok(n) => {
                    head.extend_from_slice(&bytes[..n]);
                    match asked(head, hosts) {
                        RequestHead::NotYet => {}
                        RequestHead::Metrics { format, head_only } => {
                            self.state = State::Waiting { format, head_only, asked_at: now };
                            self.deadline = now + WAITING;
                            return;
                        }
                        RequestHead::Refused(status, text) => {
                            self.refused = true;
                            return self.say(status, PLAIN, text, false, now);
                        }
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.state = State::Gone { dropped: true },
            }
        }
    }

    pub fn say(&mut self, status: &str, kind: &str, text: &str, head_only: bool, now: Instant) {
        let allow = if status == NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        let mut answer = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
            text.len()
        );
        if !head_only {
            answer.push_str(text);
        }
        self.state = State::Taking { answer: answer.into_bytes(), taken: 0 };
        self.deadline = now + TAKING;
        self.write(now);
    }

    fn write(&mut self, now: Instant) {
        let State::Taking { answer, taken } = &mut self.state else { return };
        while *taken < answer.len() {
            match self.stream.write(&answer[*taken..]) {
                Ok(n) => *taken += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.state = State::Gone { dropped: true },
            }
        }
        // Closing with unread data would reset the connection and lose the response.
        self.state = match self.stream.shutdown(Shutdown::Write) {
            Ok(()) => State::Closing { left: REST_BYTES },
            Err(_) => State::Gone { dropped: false },
        };
        self.deadline = now + CLOSING;
    }

    fn read_rest(&mut self) {
        let State::Closing { left } = &mut self.state else { return };
        let mut bytes = [0; 4096];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(n) if n > 0 && *left > n => *left -= n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                _ => return self.state = State::Gone { dropped: false },
            }
        }
    }
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn asked(head: &[u8], hosts: &Hosts) -> RequestHead {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    match request.parse(head) {
        Ok(httparse::Status::Partial) if head.len() < HEAD_BYTES => RequestHead::NotYet,
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            RequestHead::Refused("431 Request Header Fields Too Large", "a scrape needs no such headers\n")
        }
        Err(_) => RequestHead::Refused("400 Bad Request", "this is not an HTTP request\n"),
        Ok(httparse::Status::Complete(_)) => {
            let (authority, path) = split(request.path.unwrap_or_default());
            let of = |name| request.headers.iter().filter(move |h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value);
            // The target's authority takes precedence over the header (RFC 9112, 3.2.2).
            let named: Vec<&[u8]> = authority.map_or_else(|| of("host").collect(), |host| vec![host.as_bytes()]);
            if named.len() > 1 {
                return RequestHead::Refused("400 Bad Request", "more than one Host\n");
            }
            if !named.first().is_none_or(|host| hosts.allow(host)) {
                return RequestHead::Refused(
                    "421 Misdirected Request",
                    "this host name is not iotrail's: use its IP address, or start it with --metrics NAME:PORT\n",
                );
            }
            let path = path.split('?').next().unwrap_or_default();
            let accept = of("accept").next();
            let format = Format::accepted(accept.map_or("", |value| std::str::from_utf8(value).unwrap_or_default()));
            match (request.method, path) {
                (Some(method @ ("GET" | "HEAD")), "/metrics") => {
                    RequestHead::Metrics { format, head_only: method == "HEAD" }
                }
                (Some("GET" | "HEAD"), _) => {
                    RequestHead::Refused("404 Not Found", "iotrail's metrics are at /metrics\n")
                }
                _ => RequestHead::Refused(NOT_ALLOWED, "metrics are only read\n"),
            }
        }
    }
}
