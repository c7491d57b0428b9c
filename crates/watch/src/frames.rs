//! Frames of a recording file. Each is written completely; reading stops at the end or at a truncation.
//!
//! ```text
//! line    one line of JSON, `recorded::Header`: {"schema":"iotrail.recording/1", …}\n
//! frame*  kind  u8    b'B': entries, or b'R': events for replay; b'E': one `recorded::End`, the last frame
//!         raw   u32   bytes of the content
//!         size  u32   bytes that follow
//!         crc   u32   CRC-32 (IEEE) of those
//!         size bytes: the content, an LZ4 block
//! ```
//!
//! Integers are little-endian. Damage loses the whole frame.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use iotrail_base::error::{Error, OrFail, Result};
use iotrail_base::output::{self, Existing};
use iotrail_schema::recorded::{Ending, Header, SCHEMA, SCHEMA_FOR_REPLAY, is_known};

/// Content length at which a frame is written.
pub(crate) const FRAME_BYTES: usize = 256 << 10;
/// Above any real frame size: a larger length means damage.
const MOST_BYTES: u32 = 64 << 20;
/// Above any real header size.
const HEADER_BYTES: u64 = 4 << 20;

pub(crate) const ENTRIES: u8 = b'B';
pub(crate) const REPLAY: u8 = b'R';
pub(crate) const END: u8 = b'E';

/// Appends frames to a file.
pub(crate) struct FrameWriter {
    file: Box<dyn Write + Send>,
    path: PathBuf,
    /// Content of the next frame.
    pub content: Vec<u8>,
    /// Buffer that is reused for each frame.
    frame: Vec<u8>,
    written_bytes: u64,
}

impl FrameWriter {
    /// Fails with a usage error if the file exists and must not be replaced, or cannot be created.
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

    pub fn in_memory(header: &Header) -> Result<(Self, File)> {
        let file = memory()?;
        let copy = file.try_clone().map_err(no_memory)?;
        Ok((Self::begin(Box::new(copy), Path::new("memory"), header)?, file))
    }

    /// Length of the file without the next frame's content.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes the content as a frame.
    pub fn frame(&mut self, kind: u8) -> Result<()> {
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

    pub fn refused(&self, cause: impl std::error::Error + Send + Sync + 'static) -> Error {
        output::refused(&self.path, "--record", cause)
    }
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

    /// `None` if the bytes are not the start of a frame of this file. `kind`: expected kind of all frames except the
    /// last.
    fn from_bytes(bytes: &[u8; Self::BYTES], kind: u8) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let head = Self { kind: bytes[0], raw: number(1), size: number(5), crc: number(9) };
        let known = head.kind == kind || head.kind == END;
        (known && head.raw <= MOST_BYTES && head.size <= MOST_BYTES).then_some(head)
    }
}

fn memory() -> Result<File> {
    let file = rustix::fs::memfd_create("recording", rustix::fs::MemfdFlags::CLOEXEC);
    file.map(File::from).map_err(|e| no_memory(e.into()))
}

fn no_memory(e: std::io::Error) -> Error {
    Error::machine("cannot keep requests in memory", "check the memory and file limits: ulimit -v, ulimit -n")
        .because(e)
}

/// Reads the frames of a file.
pub(crate) struct FrameReader {
    file: BufReader<File>,
    path: PathBuf,
    pub header: Header,
    /// Start of the last frame read, or of the truncated one.
    at_byte: u64,
    /// Start of the next frame.
    next_byte: u64,
    length: u64,
}

impl FrameReader {
    /// Fails with a usage error if the file does not exist, is not a recording, or has another format version.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).or_input(format_args!("cannot open {}", path.display()), "specify a recording")?;
        Self::begin(file, path)
    }

    /// Reads a stored recording; `name` is used in errors.
    pub fn of_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        let mut file = memory()?;
        file.write_all(bytes).and_then(|()| file.rewind()).map_err(no_memory)?;
        Self::begin(file, Path::new(name))
    }

    fn begin(file: File, path: &Path) -> Result<Self> {
        let mut file = BufReader::with_capacity(FRAME_BYTES, file);
        let mut line = Vec::new();
        let unreadable = |e| Error::input(format!("cannot read {}", path.display()), "specify a recording").because(e);
        file.by_ref().take(HEADER_BYTES).read_until(b'\n', &mut line).map_err(unreadable)?;
        let header = parse_header(&line, path)?;
        let at_byte = line.len() as u64;
        let length = file.get_ref().metadata().map_err(unreadable)?.len();
        Ok(Self { file, path: path.to_owned(), header, at_byte, next_byte: at_byte, length })
    }

    /// Content of the next frame of this kind, or the reason why the recording stops. Skips frames of other kinds
    /// without checking them.
    pub fn next(&mut self, kind: u8) -> Result<std::result::Result<Vec<u8>, Ending>> {
        loop {
            let head = match self.head()? {
                Ok(head) => head,
                Err(ending) => return Ok(Err(ending)),
            };
            if head.kind == kind || head.kind == END {
                let content = match self.content(&head)? {
                    Ok(content) if head.kind == END => Err(self.end_of(&content)),
                    other => other,
                };
                return Ok(content);
            }
            if self.next_byte > self.length {
                return Ok(Err(Ending::Cut { at_byte: self.at_byte }));
            }
            self.file.seek(SeekFrom::Start(self.next_byte)).map_err(|e| self.unreadable(e))?;
        }
    }

    /// Reports the last frame read as damaged.
    pub fn damaged(&self) -> Ending {
        Ending::Damaged { at_byte: self.at_byte }
    }

    /// Reports that reading cannot continue.
    pub fn cut(&self) -> Ending {
        Ending::Cut { at_byte: self.at_byte }
    }

    fn end_of(&self, content: &[u8]) -> Ending {
        rmp_serde::from_slice(content).map_or_else(|_| self.damaged(), |end| Ending::Whole(Box::new(end)))
    }

    fn head(&mut self) -> Result<std::result::Result<FrameHead, Ending>> {
        self.at_byte = self.next_byte;
        let mut bytes = [0; FrameHead::BYTES];
        if !self.fill(&mut bytes)? {
            return Ok(Err(self.cut()));
        }
        let kind = if self.header.is_for_replay() { REPLAY } else { ENTRIES };
        let head = FrameHead::from_bytes(&bytes, kind);
        if let Some(head) = &head {
            self.next_byte += FrameHead::BYTES as u64 + u64::from(head.size);
        }
        Ok(head.ok_or_else(|| self.damaged()))
    }

    fn content(&mut self, head: &FrameHead) -> Result<std::result::Result<Vec<u8>, Ending>> {
        let mut bytes = vec![0; head.size as usize];
        if !self.fill(&mut bytes)? {
            return Ok(Err(self.cut()));
        }
        let whole = crc32fast::hash(&bytes) == head.crc;
        let content = whole.then(|| lz4_flex::block::decompress(&bytes, head.raw as usize).ok()).flatten();
        Ok(content.filter(|c| c.len() == head.raw as usize).ok_or_else(|| self.damaged()))
    }

    /// Returns whether all bytes were read.
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

fn parse_header(line: &[u8], path: &Path) -> Result<Header> {
    /// Header fields that all versions share.
    #[derive(Deserialize)]
    struct Any {
        schema: String,
        version: String,
    }
    let name = path.display();
    let how = "create a recording with `iotrail trace --record FILE`";
    let none = || Error::input(format!("{name} is not an iotrail recording"), how);
    if line.last() != Some(&b'\n') {
        let begun = line.starts_with(br#"{"schema":"iotrail.recording/"#);
        let cut = || Error::input(format!("{name} is truncated within its first line: it contains no events"), how);
        return Err(if begun { cut() } else { none() });
    }
    let any: Any = serde_json::from_slice(line).map_err(|_| none())?;
    if !is_known(&any.schema) {
        let (family, _) = SCHEMA.split_once('/').unwrap_or((SCHEMA, ""));
        return Err(match any.schema.split_once('/') {
            Some((f, _)) if f == family => Error::input(
                format!(
                    "{name} has the schema {}, but this iotrail reads {SCHEMA} and {SCHEMA_FOR_REPLAY}",
                    any.schema
                ),
                format!("read it with iotrail {}, which wrote it", any.version),
            ),
            _ => none(),
        });
    }
    serde_json::from_slice(line).or_input(format_args!("the first line of {name} does not describe a recording"), how)
}
