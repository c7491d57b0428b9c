//! Traced requests in a recording: appended while a trace runs, and readable up to a truncation.
//!
//! A frame of kind `B` (`frames`) contains a sequence of `recorded::Entry` as MessagePack, with structures as maps of
//! field names. So a recording can be read without this source, and a new field breaks no reader. LZ4 removes the
//! repeated names (the test `print_the_cost_of_a_recording` measures both).

use std::fs::File;
use std::io::Cursor;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::frames::{END, ENTRIES, FRAME_BYTES, FrameReader, FrameWriter};
use iotrail_base::error::Result;
use iotrail_base::output::Existing;
use iotrail_schema::recorded::{End, Ending, Entry, Header, Losses};
use iotrail_schema::trail::RequestTrace;

/// Appends to a recording. Entries are written when losses are recorded or 256 KiB have accumulated. Dropping a writer
/// without [`Writer::finish`] leaves a truncated file.
pub struct Writer {
    frames: FrameWriter,
}

impl Writer {
    /// Fails with a usage error if the file exists and must not be replaced, or cannot be created.
    pub fn create(path: &Path, header: &Header, existing: Existing) -> Result<Self> {
        Ok(Self { frames: FrameWriter::create(path, header, existing)? })
    }

    /// Writes to memory. The returned file contains the recording once the writer has finished.
    pub fn in_memory(header: &Header) -> Result<(Self, File)> {
        let (frames, file) = FrameWriter::in_memory(header)?;
        Ok((Self { frames }, file))
    }

    /// Appends a completion; expected in the order of posting, as far as known.
    pub fn push(&mut self, trail: &RequestTrace) -> Result<()> {
        // Serialises as `Entry::Trail` without a clone.
        self.encode(&EntryRef::Trail(trail))?;
        if self.frames.content.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// The same as an [`Entry::Later`].
    pub fn push_later(&mut self, trail: &RequestTrace) -> Result<()> {
        self.encode(&EntryRef::Later(trail))?;
        if self.frames.content.len() >= FRAME_BYTES { self.flush() } else { Ok(()) }
    }

    /// Records the outcomes of the selected requests, and writes all earlier entries to the file. Call it about once
    /// per second.
    pub fn losses(&mut self, losses: Losses) -> Result<()> {
        self.encode(&EntryRef::Losses(&losses))?;
        self.flush()
    }

    /// Completes the recording and returns its length in bytes.
    pub fn finish(mut self, end: &End) -> Result<u64> {
        self.flush()?;
        self.encode(end)?;
        self.frames.frame(END)?;
        Ok(self.frames.written_bytes())
    }

    /// Length of the file without the next frame's content.
    pub fn written_bytes(&self) -> u64 {
        self.frames.written_bytes()
    }

    fn encode<T: Serialize>(&mut self, value: &T) -> Result<()> {
        let mut serializer = rmp_serde::Serializer::new(&mut self.frames.content).with_struct_map();
        value.serialize(&mut serializer).map_err(|e| self.frames.refused(e))
    }

    fn flush(&mut self) -> Result<()> {
        if self.frames.content.is_empty() { Ok(()) } else { self.frames.frame(ENTRIES) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum EntryRef<'a> {
    Trail(&'a RequestTrace),
    Later(&'a RequestTrace),
    Losses(&'a Losses),
}

/// Reads a recording from its start to its end or truncation.
pub struct Reader {
    frames: FrameReader,
    entries: std::vec::IntoIter<Entry>,
    ending: Option<Ending>,
}

impl Reader {
    /// Fails with a usage error if the file does not exist, is not a recording, or has another format version.
    pub fn open(path: &Path) -> Result<Self> {
        FrameReader::open(path).map(Self::of)
    }

    /// Reads a stored recording; `name` is used in errors.
    pub fn of_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        FrameReader::of_bytes(bytes, name).map(Self::of)
    }

    fn of(frames: FrameReader) -> Self {
        Self { frames, entries: Vec::new().into_iter(), ending: None }
    }

    pub fn header(&self) -> &Header {
        &self.frames.header
    }

    /// How the recording ends; `None` while entries are left.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// How the recording ends, without reading or checking its entries.
    pub fn skip_to_ending(mut self) -> Result<Ending> {
        Ok(match self.frames.next(END)? {
            Ok(_) => self.frames.damaged(),
            Err(ending) => ending,
        })
    }

    /// Reads a frame: its entries, or how the recording ends.
    fn frame(&mut self) -> Result<std::result::Result<Vec<Entry>, Ending>> {
        let content = match self.frames.next(ENTRIES)? {
            Ok(content) => content,
            Err(ending) => return Ok(Err(ending)),
        };
        let mut entries = Vec::new();
        let mut rest = rmp_serde::Deserializer::new(Cursor::new(content.as_slice()));
        while (rest.position() as usize) < content.len() {
            match Entry::deserialize(&mut rest) {
                Ok(entry) => entries.push(entry),
                Err(_) => return Ok(Err(self.frames.damaged())),
            }
        }
        Ok(Ok(entries))
    }
}

/// Yields entries up to the end or truncation. A read error is the last item.
impl Iterator for Reader {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(mut entry) = self.entries.next() {
                // Older recordings do not have this field.
                if let Entry::Trail(trail) | Entry::Later(trail) = &mut entry
                    && trail.weight == 0
                {
                    trail.weight = self.frames.header.one_in.max(1);
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
                    self.ending = Some(self.frames.cut());
                    return Some(Err(e));
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "recording_tests.rs"]
mod tests;
