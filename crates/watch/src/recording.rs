//! The recording's file: whole I/Os, appended while a trace runs; readable up to wherever it was cut off.
//!
//! ```text
//! line    one line of JSON, `recorded::Header`: {"schema":"iotrail.recording/1", …}\n
//! frame*  kind  u8    b'B': `recorded::Entry`, one after the other; b'E': one `recorded::End`, the last frame
//!         raw   u32   bytes of the content
//!         size  u32   bytes that follow
//!         crc   u32   CRC-32 (IEEE) of those
//!         size bytes: the content, an LZ4 block
//! ```
//!
//! Numbers of a frame are little-endian. Content is MessagePack, structures as maps with the names of their fields, so that
//! a recording can be read without this source and a new field breaks nobody; LZ4 takes the repeated names out again
//! (the test `what_it_costs` measures both). Entries of a frame stand for each other: what is damaged is lost whole.

use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use iotrail_base::error::{Error, Result};
use iotrail_base::output::{self, Existing};
use iotrail_schema::recorded::{End, Ending, Entry, Header, Losses, SCHEMA};
use iotrail_schema::trail::RequestTrace;

/// Content of a frame of entries: it is written when it is this long, and whenever losses are noted.
const FRAME_BYTES: usize = 256 << 10;
/// Longer than any frame: a number beyond it was not written as one.
const MOST_BYTES: u32 = 64 << 20;
/// Longer than any header.
const HEADER_BYTES: u64 = 4 << 20;

const ENTRIES: u8 = b'B';
const END: u8 = b'E';

/// Appends to a recording. What was pushed is in the file at the latest when losses are noted, or when 256 KiB of entries
/// are there; dropping a writer without [`Writer::finish`] leaves a file that is cut off.
pub struct Writer {
    file: Box<dyn Write + Send>,
    path: PathBuf,
    content: Vec<u8>,
    /// Reused from frame to frame.
    frame: Vec<u8>,
    written_bytes: u64,
}

impl Writer {
    /// Errors: the file exists and is to be kept, or cannot be made (wrong input).
    pub fn create(path: &Path, header: &Header, existing: Existing) -> Result<Self> {
        Self::begin(output::growing(path, existing, "--record")?, path, header)
    }

    fn begin(file: Box<dyn Write + Send>, path: &Path, header: &Header) -> Result<Self> {
        let mut writer = Self {
            file,
            path: path.to_owned(),
            content: Vec::with_capacity(FRAME_BYTES * 2),
            frame: vec![],
            written_bytes: 0,
        };
        let mut line = serde_json::to_vec(header).map_err(|e| writer.refused(e))?;
        line.push(b'\n');
        writer.append(&line)?;
        Ok(writer)
    }

    /// In memory; the file has the recording once the writer is finished.
    pub fn in_memory(header: &Header) -> Result<(Self, File)> {
        let file = memory()?;
        let copy = file.try_clone().map_err(no_memory)?;
        Ok((Self::begin(Box::new(copy), Path::new("memory"), header)?, file))
    }

    /// In the order of posting, as near as it can be had.
    pub fn push(&mut self, trail: &RequestTrace) -> Result<()> {
        // As `Entry::Trail` would be, without a clone.
        self.encode(&EntryRef::Trail(trail))?;
        if self.content.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// The same of [`Entry::Later`].
    pub fn push_later(&mut self, trail: &RequestTrace) -> Result<()> {
        self.encode(&EntryRef::Later(trail))?;
        if self.content.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// What has become of the chosen requests up to now. To be called about once a second: what was pushed before it is in
    /// the file after it.
    pub fn losses(&mut self, losses: Losses) -> Result<()> {
        self.encode(&EntryRef::Losses(&losses))?;
        self.flush()
    }

    /// Ends the recording; its length in bytes.
    pub fn finish(mut self, end: &End) -> Result<u64> {
        self.flush()?;
        self.encode(end)?;
        self.frame(END)?;
        Ok(self.written_bytes)
    }

    /// Of the file so far, without what waits for the next frame.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    fn encode<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut serializer = rmp_serde::Serializer::new(&mut self.content).with_struct_map();
        value.serialize(&mut serializer).map_err(|e| self.refused(e))
    }

    fn flush(&mut self) -> Result<()> {
        if self.content.is_empty() { Ok(()) } else { self.frame(ENTRIES) }
    }

    fn frame(&mut self, kind: u8) -> Result<()> {
        let mut frame = std::mem::take(&mut self.frame);
        frame.resize(FrameHead::BYTES + lz4_flex::block::get_maximum_output_size(self.content.len()), 0);
        let size = lz4_flex::block::compress_into(&self.content, &mut frame[FrameHead::BYTES..])
            .map_err(|e| self.refused(e))?;
        frame.truncate(FrameHead::BYTES + size);
        let crc = crc32fast::hash(&frame[FrameHead::BYTES..]);
        let head = FrameHead { kind, raw: self.content.len() as u32, size: size as u32, crc };
        frame[..FrameHead::BYTES].copy_from_slice(&head.to_bytes());
        self.append(&frame)?;
        self.content.clear();
        self.frame = frame;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.refused(e))?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }

    fn refused(&self, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
        output::refused(&self.path, "--record", cause)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EntryRef<'a> {
    Trail(&'a RequestTrace),
    Later(&'a RequestTrace),
    Losses(&'a Losses),
}

struct FrameHead {
    kind: u8,
    raw: u32,
    size: u32,
    crc: u32,
}

impl FrameHead {
    const BYTES: usize = 13;

    fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [self.kind; Self::BYTES];
        bytes[1..5].copy_from_slice(&self.raw.to_le_bytes());
        bytes[5..9].copy_from_slice(&self.size.to_le_bytes());
        bytes[9..].copy_from_slice(&self.crc.to_le_bytes());
        bytes
    }

    /// `None`: no frame of this version begins so.
    fn from_bytes(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let head = Self { kind: bytes[0], raw: number(1), size: number(5), crc: number(9) };
        let known = head.kind == ENTRIES || head.kind == END;
        (known && head.raw <= MOST_BYTES && head.size <= MOST_BYTES).then_some(head)
    }
}

fn memory() -> Result<File> {
    let file = rustix::fs::memfd_create("recording", rustix::fs::MemfdFlags::CLOEXEC);
    file.map(File::from).map_err(|e| no_memory(e.into()))
}

fn no_memory(e: std::io::Error) -> Error {
    Error::machine("cannot keep requests in memory", "see ulimit -v and -n").because(e)
}

/// Reads a recording from its beginning to its end, or to where it breaks off.
pub struct Reader {
    file: BufReader<File>,
    path: PathBuf,
    header: Header,
    /// Where the next frame begins.
    at_byte: u64,
    entries: std::vec::IntoIter<Entry>,
    ending: Option<Ending>,
}

impl Reader {
    /// Errors (wrong input): no such file, no recording, one of another version of the format.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)
            .map_err(|e| Error::input(format!("cannot open {}", path.display()), "name a recording").because(e))?;
        Self::begin(file, path)
    }

    /// A recording that a store has, as `name`.
    pub fn of_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        let mut file = memory()?;
        file.write_all(bytes).and_then(|()| file.rewind()).map_err(no_memory)?;
        Self::begin(file, Path::new(name))
    }

    fn begin(file: File, path: &Path) -> Result<Self> {
        let mut file = BufReader::with_capacity(FRAME_BYTES, file);
        let mut line = Vec::new();
        file.by_ref()
            .take(HEADER_BYTES)
            .read_until(b'\n', &mut line)
            .map_err(|e| Error::input(format!("cannot read {}", path.display()), "name a recording").because(e))?;
        let header = parse_header(&line, path)?;
        let at_byte = line.len() as u64;
        Ok(Self { file, path: path.to_owned(), header, at_byte, entries: Vec::new().into_iter(), ending: None })
    }

    pub fn header(&self) -> &Header {
        &self.header
    }

    /// How the recording stops; `None` while entries are to come.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// How the recording stops, without reading the entries before; of these, nothing is checked.
    pub fn skip_to_ending(mut self) -> Result<Ending> {
        let length = self.file.get_ref().metadata().map_err(|e| self.unreadable(e))?.len();
        loop {
            match self.head()? {
                Ok(head) if head.kind == ENTRIES => {
                    let next = self.at_byte + FrameHead::BYTES as u64 + u64::from(head.size);
                    if next > length {
                        return Ok(Ending::Cut { at_byte: self.at_byte });
                    }
                    self.file.seek(SeekFrom::Start(next)).map_err(|e| self.unreadable(e))?;
                    self.at_byte = next;
                }
                Ok(head) => {
                    return Ok(match self.content(&head)? {
                        Ok(content) => self.end_of(&content),
                        Err(ending) => ending,
                    });
                }
                Err(ending) => return Ok(ending),
            }
        }
    }

    /// Reads one frame; its entries, or how the recording stops.
    fn frame(&mut self) -> Result<std::result::Result<Vec<Entry>, Ending>> {
        let head = match self.head()? {
            Ok(head) => head,
            Err(ending) => return Ok(Err(ending)),
        };
        let content = match self.content(&head)? {
            Ok(content) => content,
            Err(ending) => return Ok(Err(ending)),
        };
        if head.kind == END {
            return Ok(Err(self.end_of(&content)));
        }
        let mut entries = Vec::new();
        let mut rest = rmp_serde::Deserializer::new(Cursor::new(content.as_slice()));
        while (rest.position() as usize) < content.len() {
            match Entry::deserialize(&mut rest) {
                Ok(entry) => entries.push(entry),
                Err(_) => return Ok(Err(Ending::Damaged { at_byte: self.at_byte })),
            }
        }
        self.at_byte += FrameHead::BYTES as u64 + u64::from(head.size);
        Ok(Ok(entries))
    }

    fn end_of(&self, content: &[u8]) -> Ending {
        match rmp_serde::from_slice(content) {
            Ok(end) => Ending::Whole(Box::new(end)),
            Err(_) => Ending::Damaged { at_byte: self.at_byte },
        }
    }

    fn head(&mut self) -> Result<std::result::Result<FrameHead, Ending>> {
        let mut bytes = [0; FrameHead::BYTES];
        if !self.fill(&mut bytes)? {
            return Ok(Err(Ending::Cut { at_byte: self.at_byte }));
        }
        Ok(FrameHead::from_bytes(&bytes).ok_or(Ending::Damaged { at_byte: self.at_byte }))
    }

    fn content(&mut self, head: &FrameHead) -> Result<std::result::Result<Vec<u8>, Ending>> {
        let mut bytes = vec![0; head.size as usize];
        if !self.fill(&mut bytes)? {
            return Ok(Err(Ending::Cut { at_byte: self.at_byte }));
        }
        let whole = crc32fast::hash(&bytes) == head.crc;
        let content = whole.then(|| lz4_flex::block::decompress(&bytes, head.raw as usize).ok()).flatten();
        Ok(content.filter(|c| c.len() == head.raw as usize).ok_or(Ending::Damaged { at_byte: self.at_byte }))
    }

    /// Whether so many bytes were there.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool> {
        match self.file.read_exact(bytes) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => Ok(false),
            Err(e) => Err(self.unreadable(e)),
        }
    }

    fn unreadable(&self, cause: std::io::Error) -> Error {
        Error::machine(format!("cannot read the recording {}", self.path.display()), "copy it to another disk")
            .because(cause)
    }
}

/// Entries up to the end or the cut; an error is one of reading, and the last item.
impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut entry) = self.entries.next() {
                // Recordings of before it was told of each.
                if let Entry::Trail(trail) | Entry::Later(trail) = &mut entry
                    && trail.weight == 0
                {
                    trail.weight = self.header.one_in.max(1);
                }
                return Some(Ok(entry));
            }
            if self.ending.is_some() {
                return None;
            }
            match self.frame() {
                Ok(Ok(entries)) => self.entries = entries.into_iter(),
                Ok(Err(ending)) => self.ending = Some(ending),
                Err(e) => {
                    self.ending = Some(Ending::Cut { at_byte: self.at_byte });
                    return Some(Err(e));
                }
            }
        }
    }
}

fn parse_header(line: &[u8], path: &Path) -> Result<Header> {
    /// What every version's header has.
    #[derive(Deserialize)]
    struct Any {
        schema: String,
        version: String,
    }
    let name = path.display();
    let how = "a recording is made with `iotrail trace --record FILE`";
    let none = || Error::input(format!("{name} is not a recording of iotrail"), how);
    if line.last() != Some(&b'\n') {
        let begun = line.starts_with(br#"{"schema":"iotrail.recording/"#);
        let cut = || Error::input(format!("{name} is cut off within its first line: nothing is recorded in it"), how);
        return Err(if begun { cut() } else { none() });
    }
    let any: Any = serde_json::from_slice(line).map_err(|_| none())?;
    if any.schema != SCHEMA {
        let (family, _) = SCHEMA.split_once('/').unwrap_or((SCHEMA, ""));
        return Err(match any.schema.split_once('/') {
            Some((f, _)) if f == family => Error::input(
                format!("{name} is written as {}, and this iotrail reads {SCHEMA}", any.schema),
                format!("read it with iotrail {}, which made it", any.version),
            ),
            _ => none(),
        });
    }
    serde_json::from_slice(line)
        .map_err(|e| Error::input(format!("the first line of {name} does not describe a recording"), how).because(e))
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
