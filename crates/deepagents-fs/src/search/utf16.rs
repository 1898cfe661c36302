//! Decodes UTF-16 while it is read.

use std::collections::VecDeque;
use std::io::Read;

use super::long_lines::CHUNK_BYTES;
use crate::classify::Utf16Unit;

/// Converts UTF-16 without a byte-order mark to UTF-8. What is not valid becomes U+FFFD.
pub(crate) struct Utf16Reader<R> {
    from: R,
    unit: Utf16Unit,
    chunk: Vec<u8>,
    /// Bytes of an incomplete character.
    rest: Vec<u8>,
    /// Decoded bytes to pass on.
    text: VecDeque<u8>,
}

impl<R: Read> Utf16Reader<R> {
    pub(crate) fn new(from: R, unit: Utf16Unit) -> Self {
        Self { from, unit, chunk: vec![0; CHUNK_BYTES], rest: Vec::new(), text: VecDeque::new() }
    }

    /// Decodes what was read, except for an incomplete character unless this is the end.
    fn decode(&mut self, is_end: bool) {
        let mut units: Vec<u16> = self.rest.as_chunks().0.iter().map(|bytes| (self.unit)(*bytes)).collect();
        if !is_end && units.last().is_some_and(|unit| (0xd800..0xdc00).contains(unit)) {
            units.pop();
        }
        self.rest.drain(..2 * units.len());
        if is_end && !self.rest.is_empty() {
            self.rest.clear();
            units.push(0xfffd);
        }
        let mut bytes = [0; 4];
        for c in char::decode_utf16(units) {
            let c = c.unwrap_or(char::REPLACEMENT_CHARACTER);
            self.text.extend(c.encode_utf8(&mut bytes).as_bytes());
        }
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.text.is_empty() {
            let bytes = self.from.read(&mut self.chunk)?;
            if bytes == 0 && self.rest.is_empty() {
                return Ok(0);
            }
            self.rest.extend_from_slice(self.chunk.get(..bytes).unwrap_or_default());
            self.decode(bytes == 0);
        }
        self.text.read(buffer)
    }
}
