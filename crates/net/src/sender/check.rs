//! Checks responses against their requests, in pieces of any size, and describes the first difference.

use std::fmt;

use crate::wire::Content;

/// Sizes of all requests and responses of a load.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub request: u32,
    pub response: u32,
}

/// The connections of one run: their numbers on the wire differ from each other, and from those of other seeds.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub first: u64,
}

impl Run {
    /// The request `number` of connection `serial` (both 0-based). Numbers on the wire start at random values, so that
    /// even short responses of two connections differ.
    #[inline]
    pub fn content(self, serial: u64, number: u64) -> Content {
        Content { connection: self.first.wrapping_add(serial), number: number.wrapping_add(beginning(serial)) }
    }

    /// The connection and request in a response, if they can belong to this run.
    fn read(self, words: [u8; 16]) -> Option<(u64, u64)> {
        // Random bytes almost never produce numbers this small.
        const MOST: u64 = 1 << 40;
        let [number, connection] = [0, 8].map(|at| u64::from_le_bytes(std::array::from_fn(|i| words[at + i])));
        let serial = connection.wrapping_sub(self.first);
        let number = number.wrapping_sub(beginning(serial));
        (serial < MOST && number < MOST).then_some((serial, number))
    }
}

fn beginning(serial: u64) -> u64 {
    serial.wrapping_mul(0xd134_2543_de82_ef95)
}

/// Generates the expected data, piece by piece.
#[derive(Debug)]
pub struct Checker {
    run: Run,
    shape: Shape,
    wanted: Box<[u8]>,
}

/// Requests in flight on a connection, numbered from 0.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    pub serial: u64,
    /// The next request to be answered.
    pub answered: u64,
    /// Number of requests that are at least partly sent.
    pub begun: u64,
}

impl Checker {
    pub fn new(run: Run, shape: Shape) -> Self {
        Self { run, shape, wanted: vec![0; 4096].into() }
    }

    /// Where in the response the first byte of `piece` differs, if `piece` starts at `offset`; `None` if nothing
    /// differs.
    #[inline]
    pub fn differs(&mut self, content: Content, offset: usize, piece: &[u8]) -> Option<usize> {
        let most = self.wanted.len();
        for (n, got) in piece.chunks(most).enumerate() {
            let at = offset + n * most;
            let wanted = &mut self.wanted[..got.len()];
            content.response_at(self.shape.request, at, wanted);
            if wanted != got {
                let same = wanted.iter().zip(got).take_while(|(w, g)| w == g).count();
                return Some(at + same);
            }
        }
        None
    }

    /// Explains an `input` that starts at `offset` of the response to the next request, and first differs at `wrong`.
    #[cold]
    pub fn explain(&mut self, asked: InFlight, offset: usize, input: &[u8], wrong: usize) -> Wrong {
        let content = self.run.content(asked.serial, asked.answered);
        let enough = 8.min(self.shape.response as usize);
        // The part of the response received earlier.
        let mut here = vec![0; offset];
        content.response_at(self.shape.request, 0, &mut here);
        here.extend_from_slice(&input[..input.len().min(self.shape.response as usize - offset)]);
        let what = if here.len() >= enough
            && let Some(of) = self.whose(asked, &here)
        {
            What::Swapped { connection: of.0, request: of.1 }
        } else if let Some(bytes) = self.cut_at(asked, offset, input, wrong, enough) {
            What::TooShort { bytes }
        } else if wrong == 0
            && let Some(extra) = (1..input.len().saturating_sub(enough))
                .find(|&extra| self.differs(content, 0, first(&input[extra..], self.shape.response)).is_none())
        {
            What::TooLong { extra }
        } else {
            let mut wanted = [0];
            content.response_at(self.shape.request, wrong, &mut wanted);
            What::Byte { offset: wrong, got: input[wrong - offset], wanted: wanted[0] }
        };
        Wrong { connection: asked.serial, request: asked.answered, of_bytes: self.shape.response, what }
    }

    /// The other request to which this response belongs.
    fn whose(&mut self, asked: InFlight, here: &[u8]) -> Option<(u64, u64)> {
        const BACK: u64 = 1000;
        let near = asked.answered.saturating_sub(BACK)..asked.begun;
        let on_this = near.map(|number| (asked.serial, number));
        let said = here.first_chunk().and_then(|words| self.run.read(*words));
        on_this.chain(said).find(|&(serial, number)| self.differs(self.run.content(serial, number), 0, here).is_none())
    }

    /// Where the response ends, if the next response follows immediately.
    fn cut_at(&mut self, asked: InFlight, offset: usize, input: &[u8], wrong: usize, enough: usize) -> Option<usize> {
        let next = self.run.content(asked.serial, asked.answered + 1);
        // The next response may begin with bytes that match this one.
        let cuts = wrong.saturating_sub(8).max(offset)..=wrong;
        cuts.rev().find(|&cut| {
            let rest = first(&input[cut - offset..], self.shape.response);
            asked.answered + 1 < asked.begun && rest.len() >= enough && self.differs(next, 0, rest).is_none()
        })
    }
}

fn first(bytes: &[u8], most: u32) -> &[u8] {
    &bytes[..bytes.len().min(most as usize)]
}

/// A wrong response. Connections and requests are numbered from 0 here, and from 1 in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    pub connection: u64,
    pub request: u64,
    pub of_bytes: u32,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// The response belongs to another request.
    Swapped {
        connection: u64,
        request: u64,
    },
    /// The next response starts after this many bytes.
    TooShort {
        bytes: usize,
    },
    /// This many bytes separate this response from the previous one.
    TooLong {
        extra: usize,
    },
    /// Bytes that belong to no request.
    Unasked {
        bytes: usize,
    },
    Byte {
        offset: usize,
        got: u8,
        wanted: u8,
    },
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (connection, request) = (self.connection + 1, self.request + 1);
        let of = self.of_bytes;
        match self.what {
            What::Swapped { connection: c, request: r } if c == self.connection => {
                write!(
                    f,
                    "the response to request {request} of connection {connection} belongs to its request {}",
                    r + 1
                )?;
                f.write_str(" (swapped)")
            }
            What::Swapped { connection: c, request: r } => write!(
                f,
                "the response to request {request} of connection {connection} belongs to request {} of connection {} (swapped)",
                r + 1,
                c + 1
            ),
            What::TooShort { bytes } => write!(
                f,
                "the response to request {request} of connection {connection} is too short: the next one begins after {bytes} of {of} bytes"
            ),
            What::TooLong { extra } => write!(
                f,
                "the response before the response to request {request} of connection {connection} is too long by {extra} bytes"
            ),
            What::Unasked { bytes } => write!(
                f,
                "connection {connection} received {bytes} bytes that no request had asked for: the response before them is too long"
            ),
            What::Byte { offset, got, wanted } => write!(
                f,
                "the response to request {request} of connection {connection} is wrong at offset {offset} of {of} bytes: {got:#04x} instead of {wanted:#04x}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Run = Run { first: 77 };

    fn response(shape: Shape, serial: u64, number: u64) -> Vec<u8> {
        let mut out = vec![];
        RUN.content(serial, number).response(shape.request, shape.response, &mut out);
        out
    }

    /// For request 4 of connection 2, with requests 5 and 6 in flight as well.
    fn explained(shape: Shape, offset: usize, input: &[u8]) -> Option<What> {
        let mut checker = Checker::new(RUN, shape);
        let asked = InFlight { serial: 2, answered: 4, begun: 7 };
        let piece = first(input, shape.response - offset as u32);
        let wrong = checker.differs(RUN.content(2, 4), offset, piece)?;
        Some(checker.explain(asked, offset, input, wrong).what)
    }

    #[test]
    fn each_response_error_is_reported_for_all_sizes() {
        for (request, response_bytes) in [(64, 64), (64, 16), (32, 200), (9000, 9000), (100, 9), (64, 3000)] {
            let shape = Shape { request, response: response_bytes };
            let of = |serial, number| response(shape, serial, number);
            let right = [of(2, 4), of(2, 5)].concat();
            assert_eq!(explained(shape, 0, &right), None);
            assert_eq!(explained(shape, 5, &right[5..]), None);
            assert_eq!(explained(shape, 0, &of(2, 5)), Some(What::Swapped { connection: 2, request: 5 }));
            assert_eq!(explained(shape, 0, &of(2, 3)), Some(What::Swapped { connection: 2, request: 3 }), "once more");
            if response_bytes >= 16 {
                assert_eq!(explained(shape, 0, &of(9, 1)), Some(What::Swapped { connection: 9, request: 1 }));
            }
            let cut = response_bytes as usize - 1;
            let short = [&of(2, 4)[..cut], &of(2, 5)].concat();
            assert_eq!(explained(shape, 0, &short), Some(What::TooShort { bytes: cut }));
            let long = [b"???", of(2, 4).as_slice()].concat();
            assert_eq!(explained(shape, 0, &long), Some(What::TooLong { extra: 3 }));
            let mut spoilt = right.clone();
            spoilt[7] ^= 0x20;
            let byte = What::Byte { offset: 7, got: spoilt[7], wanted: right[7] };
            assert_eq!(explained(shape, 0, &spoilt), Some(byte.clone()));
            assert_eq!(explained(shape, 5, &spoilt[5..]), Some(byte));
        }
    }

    #[test]
    fn short_responses_of_two_connections_differ() {
        let shape = Shape { request: 64, response: 8 };
        let of = |serial, number| response(shape, serial, number);
        for number in 0..50 {
            assert_ne!(of(0, number), of(1, number));
        }
    }

    #[test]
    fn response_errors_are_described_in_one_line() {
        let wrong = |what| Wrong { connection: 2, request: 4, of_bytes: 64, what }.to_string();
        assert_eq!(
            wrong(What::Byte { offset: 12, got: 0x41, wanted: 2 }),
            "the response to request 5 of connection 3 is wrong at offset 12 of 64 bytes: 0x41 instead of 0x02"
        );
        assert_eq!(
            wrong(What::Swapped { connection: 2, request: 5 }),
            "the response to request 5 of connection 3 belongs to its request 6 (swapped)"
        );
    }
}
