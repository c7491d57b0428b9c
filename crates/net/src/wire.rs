//! The data format of a connection.
//!
//! A **request** is a header of two 32-bit little-endian numbers (the body's length and the response's length),
//! followed by the body. The **response** has no header: it is the body, truncated, or extended by repeating its first
//! [`TAG`] bytes, to the requested length. So a server needs only the data that it has just received, and the sender
//! can distinguish every response from every other. A response's last byte is sent only after the request's last byte
//! was read, so a sender with all responses knows that the server has counted all requests. netbench's requests have
//! the same format; its server's responses have the same length but different contents.

use iotrail_stats::random::SplitMix64;

pub const HEADER: usize = 8;
/// A response longer than the body repeats this many of the body's first bytes.
pub const TAG: usize = 64;
/// Maximum length of a body and of a response; a larger number is not a valid request.
pub const MOST: u32 = 64 << 20;

/// The received stream does not consist of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbage;

/// Result of a call to [`Responder::respond`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Number of input bytes consumed.
    pub consumed: usize,
    /// Number of requests whose responses are now complete.
    pub requests: u32,
}

/// A connection's requests as they arrive, in pieces of any size.
#[derive(Debug, Clone)]
pub struct Responder {
    header: [u8; HEADER],
    header_bytes: u8,
    tag_bytes: u8,
    tag: [u8; TAG],
    body_left: u32,
    response_left: u32,
    /// Bytes of the current response so far.
    responded: u32,
    /// The response's last byte, held back until the request is complete.
    last: Option<u8>,
}

impl Default for Responder {
    fn default() -> Self {
        Self {
            header: [0; HEADER],
            header_bytes: 0,
            tag_bytes: 0,
            tag: [0; TAG],
            body_left: 0,
            response_left: 0,
            responded: 0,
            last: None,
        }
    }
}

impl Responder {
    /// Consumes as much of `input` as possible and appends at most `room` bytes of responses to `out`. The rest of the
    /// input has to be passed again, first, once there is space.
    pub fn respond(&mut self, input: &[u8], out: &mut Vec<u8>, room: usize) -> Result<Progress, Garbage> {
        let end = out.len() + room;
        let mut rest = input;
        let mut requests = 0;
        loop {
            if usize::from(self.header_bytes) < HEADER {
                let n = rest.len().min(HEADER - usize::from(self.header_bytes));
                let at = usize::from(self.header_bytes);
                self.header[at..at + n].copy_from_slice(&rest[..n]);
                self.header_bytes += n as u8;
                rest = &rest[n..];
                if usize::from(self.header_bytes) < HEADER {
                    break;
                }
                let [body, response] = read_header(self.header);
                if body == 0 || body > MOST || response > MOST {
                    return Err(Garbage);
                }
                (self.body_left, self.response_left, self.responded, self.tag_bytes) = (body, response, 0, 0);
            }
            let n = rest.len().min(self.body_left as usize);
            let whole = n == self.body_left as usize;
            let ready = match self.last {
                Some(_) => 0,
                None => self.response_left.saturating_sub(u32::from(!whole)),
            };
            let echoed = n.min(ready as usize);
            if echoed > end - out.len() {
                // Consumes only as many bytes as fit into `out`; the rest is passed again.
                let n = end - out.len();
                if n == 0 {
                    break;
                }
                self.take(&rest[..n], n, out);
                rest = &rest[n..];
                break;
            }
            self.take(&rest[..n], echoed, out);
            if !whole && echoed < n && self.response_left == 1 && self.last.is_none() {
                self.last = Some(rest[echoed]);
            }
            rest = &rest[n..];
            if self.body_left > 0 {
                break;
            }
            if out.len() < end
                && let Some(last) = self.last.take()
            {
                out.push(last);
                self.response_left = 0;
            }
            while self.response_left > 0 && out.len() < end {
                let from = self.responded as usize % usize::from(self.tag_bytes);
                let piece = (usize::from(self.tag_bytes) - from).min(self.response_left as usize).min(end - out.len());
                out.extend_from_slice(&self.tag[from..from + piece]);
                self.responded += piece as u32;
                self.response_left -= piece as u32;
            }
            if self.response_left > 0 {
                break;
            }
            (self.header_bytes, self.last) = (0, None);
            requests += 1;
            if rest.is_empty() {
                break;
            }
        }
        Ok(Progress { consumed: input.len() - rest.len(), requests })
    }

    /// Consumes the next bytes of the body, and copies `echoed` of them to the response.
    fn take(&mut self, bytes: &[u8], echoed: usize, out: &mut Vec<u8>) {
        let have = usize::from(self.tag_bytes);
        let n = bytes.len().min(TAG - have);
        self.tag[have..have + n].copy_from_slice(&bytes[..n]);
        self.tag_bytes += n as u8;
        out.extend_from_slice(&bytes[..echoed]);
        self.responded += echoed as u32;
        self.response_left -= echoed as u32;
        self.body_left -= bytes.len() as u32;
    }

    /// Whether the request is complete but, for lack of space, its response is not.
    pub fn owes(&self) -> bool {
        usize::from(self.header_bytes) == HEADER && self.body_left == 0 && self.response_left > 0
    }

    /// Whether a request has partly arrived, or its response is incomplete.
    pub fn is_midway(&self) -> bool {
        self.header_bytes > 0
    }
}

fn read_header(bytes: [u8; HEADER]) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = bytes;
    [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]
}

/// Generates a sender's requests: equal for the same connection and number, different for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// The connection; different in every run.
    pub connection: u64,
    /// 0-based number of the request on its connection.
    pub number: u64,
}

impl Content {
    /// The request: header, number, connection, then 64-bit words that depend on both.
    pub fn request(self, body: u32, response: u32, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + HEADER + body as usize, 0);
        self.request_at(body, response, 0, &mut out[at..]);
    }

    /// Fills `out` with the request's bytes, including its header, from `offset` on.
    #[inline]
    pub fn request_at(self, body: u32, response: u32, offset: usize, out: &mut [u8]) {
        let (header, rest) = out.split_at_mut(HEADER.saturating_sub(offset).min(out.len()));
        if !header.is_empty() {
            let words = u64::from(body) | u64::from(response) << 32;
            header.copy_from_slice(&words.to_le_bytes()[offset..offset + header.len()]);
        }
        self.body_at((offset + header.len()).saturating_sub(HEADER), rest);
    }

    /// The first `bytes` bytes of the body.
    pub fn body(self, bytes: usize, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + bytes, 0);
        self.body_at(0, &mut out[at..]);
    }

    /// Fills `out` with the body's bytes from `offset` on; any part can be generated without the rest.
    pub fn body_at(self, offset: usize, out: &mut [u8]) {
        let mut index = (offset / 8) as u64;
        let (head, words) = out.split_at_mut((offset.next_multiple_of(8) - offset).min(out.len()));
        if !head.is_empty() {
            let from = offset % 8;
            head.copy_from_slice(&self.word(index)[from..from + head.len()]);
            index += 1;
        }
        let mut words = words.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.word(index));
            index += 1;
        }
        let tail = words.into_remainder();
        tail.copy_from_slice(&self.word(index)[..tail.len()]);
    }

    #[inline]
    fn word(self, index: u64) -> [u8; 8] {
        let word = match index {
            0 => self.number,
            1 => self.connection,
            n => {
                let seed = self.connection ^ self.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                SplitMix64::new(seed).after(n - 2).draw()
            }
        };
        word.to_le_bytes()
    }

    /// The response that a server produces for it.
    pub fn response(self, body: u32, response: u32, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + response as usize, 0);
        self.response_at(body, 0, &mut out[at..]);
    }

    /// Fills `out` with the bytes from `offset` on of the response to a body of `body` bytes.
    pub fn response_at(self, body: u32, offset: usize, out: &mut [u8]) {
        let (echoed, repeated) = out.split_at_mut((body as usize).saturating_sub(offset).min(out.len()));
        self.body_at(offset, echoed);
        if !repeated.is_empty() {
            let mut tag = [0; TAG];
            let tag = &mut tag[..TAG.min(body as usize)];
            self.body_at(0, tag);
            let from = (offset + echoed.len()) % tag.len();
            repeated.iter_mut().zip(tag.iter().cycle().skip(from)).for_each(|(byte, tag)| *byte = *tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(sizes: &[(u32, u32)]) -> (Vec<u8>, Vec<u8>) {
        let (mut asked, mut answered) = (vec![], vec![]);
        for (number, &(body, response)) in sizes.iter().enumerate() {
            let content = Content { connection: 0xfeed_f00d, number: number as u64 };
            content.request(body, response, &mut asked);
            content.response(body, response, &mut answered);
        }
        (asked, answered)
    }

    const SIZES: [(u32, u32); 9] =
        [(64, 64), (1, 9), (9, 1), (200, 64), (64, 200), (1, 1), (3, 0), (1000, 1000), (70, 1000)];

    #[test]
    fn responses_do_not_depend_on_fragmentation() {
        let (asked, answered) = stream(&SIZES);
        for piece in [1, 2, 3, 7, 8, 9, 64, 100, 1000, asked.len()] {
            for room in [1, 5, 64, 333, 100_000] {
                let mut responder = Responder::default();
                let (mut out, mut requests) = (vec![], 0);
                let mut held: Vec<u8> = vec![];
                let mut pieces = asked.chunks(piece);
                loop {
                    let p = responder.respond(&held, &mut out, room).unwrap();
                    held.drain(..p.consumed);
                    requests += p.requests;
                    if p.consumed == 0 {
                        match pieces.next() {
                            Some(more) => held.extend_from_slice(more),
                            None if responder.is_midway() => {}
                            None => break,
                        }
                    }
                }
                assert_eq!((requests as usize, out == answered), (SIZES.len(), true), "piece {piece}, room {room}");
            }
        }
    }

    #[test]
    fn bytes_that_are_not_a_request_are_rejected_as_garbage() {
        let mut out = vec![];
        assert_eq!(Responder::default().respond(b"GET / HTTP/1.1\r\n", &mut out, 1000), Err(Garbage));
        assert_eq!(Responder::default().respond(&[0; 8], &mut out, 1000), Err(Garbage));
        let mut half = Responder::default();
        assert_eq!(half.respond(&[1, 0, 0], &mut out, 1000), Ok(Progress { consumed: 3, requests: 0 }));
        assert!(half.is_midway() && out.is_empty());
    }

    #[test]
    fn no_response_is_complete_before_its_request() {
        for (body, response) in [(200, 1), (200, 64), (200, 100), (200, 200), (2, 1), (1, 1)] {
            let (asked, answered) = stream(&[(body, response)]);
            let mut responder = Responder::default();
            let mut out = vec![];
            let almost = asked.len() - 1;
            assert_eq!(responder.respond(&asked[..almost], &mut out, 1000).unwrap().requests, 0);
            assert!(out.len() < answered.len() && out == answered[..out.len()], "{body} → {response}");
            assert_eq!(responder.respond(&asked[almost..], &mut out, 1000).unwrap().requests, 1);
            assert_eq!(out, answered);
        }
    }

    #[test]
    fn a_generated_range_equals_the_same_range_of_the_whole_message() {
        let content = Content { connection: 3, number: 5 };
        for (body, response) in SIZES {
            let mut whole = vec![];
            content.response(body, response, &mut whole);
            for from in [0, 1, 7, 8, 9, 63, 64, 65, 100, 199] {
                for to in [from, from + 1, from + 8, from + 13, whole.len()] {
                    if from <= to && to <= whole.len() {
                        let mut part = vec![0; to - from];
                        content.response_at(body, from, &mut part);
                        assert_eq!(part, whole[from..to], "{body} → {response}, {from}..{to}");
                    }
                    let mut request = vec![];
                    content.request(body, response, &mut request);
                    if from <= to && to <= request.len() {
                        let mut part = vec![0; to - from];
                        content.request_at(body, response, from, &mut part);
                        assert_eq!(part, request[from..to], "{body} → {response}, {from}..{to}");
                    }
                }
            }
        }
    }

    #[test]
    fn request_bodies_differ_by_connection_and_number() {
        let of = |connection, number| {
            let mut out = vec![];
            Content { connection, number }.body(24, &mut out);
            out
        };
        assert_ne!(of(1, 2), of(1, 3));
        assert_ne!(of(1, 2), of(2, 2));
        assert_eq!(of(1, 2), of(1, 2));
    }
}
