//! Splits lines that are too long to hold into pieces.

use std::cell::RefCell;
use std::io::Read;
use std::ops::Range;
use std::rc::Rc;

use memchr::{memchr, memrchr};

/// Maximum number of bytes that adjacent pieces share, so that a match across the split is found.
const MAX_OVERLAP_BYTES: usize = 16 << 10;
/// Maximum number of bytes read at a time.
pub(super) const CHUNK_BYTES: usize = 16 << 10;

/// Offsets in the output at which lines were split: those of the line ends that were inserted.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(Rc<RefCell<Vec<u64>>>);

impl Cuts {
    /// Returns the number of a line, given its number when every split counts as a line end.
    pub(super) fn number(&self, number: u64, offset: u64) -> u64 {
        number - self.0.borrow().partition_point(|cut| *cut < offset) as u64
    }

    /// Returns whether a line was split just before and just after a part of the output.
    pub(super) fn around(&self, part: Range<u64>) -> (bool, bool) {
        let cuts = self.0.borrow();
        let is_cut = |offset| cuts.binary_search(&offset).is_ok();
        (part.start.checked_sub(1).is_some_and(is_cut), is_cut(part.end))
    }
}

/// Passes bytes through and splits lines longer than a limit into overlapping pieces.
pub(super) struct LongLines<R> {
    from: R,
    limit: usize,
    overlap: usize,
    chunk: Vec<u8>,
    /// The part of the chunk not yet passed on.
    left: Range<usize>,
    /// Bytes to pass on before it: the end of a piece and the overlap with the next.
    ahead: Vec<u8>,
    /// Length of the current line since its last split, and the last bytes of it.
    run: usize,
    tail: Vec<u8>,
    passed: u64,
    cuts: Cuts,
}

impl<R: Read> LongLines<R> {
    /// Adjacent pieces share up to half of them.
    pub(super) fn new(from: R, limit: usize) -> (Self, Cuts) {
        let cuts = Cuts::default();
        let reader = Self {
            from,
            limit,
            overlap: (limit / 2).min(MAX_OVERLAP_BYTES),
            // No larger than a piece, so that all but the first line of a chunk are short enough.
            chunk: vec![0; CHUNK_BYTES.min(limit)],
            left: 0..0,
            ahead: Vec::new(),
            run: 0,
            tail: Vec::new(),
            passed: 0,
            cuts: cuts.clone(),
        };
        (reader, cuts)
    }

    fn pass(&mut self, bytes: usize) -> usize {
        self.passed += bytes as u64;
        bytes
    }
}

impl<R: Read> Read for LongLines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if !self.ahead.is_empty() {
            let bytes = self.ahead.as_slice().read(buffer)?;
            self.ahead.drain(..bytes);
            return Ok(self.pass(bytes));
        }
        if self.left.is_empty() {
            self.left = 0..self.from.read(&mut self.chunk)?;
        }
        let part = self.chunk.get(self.left.clone()).unwrap_or_default();
        let part = part.get(..buffer.len()).unwrap_or(part);
        let first = memchr(b'\n', part).unwrap_or(part.len());
        let cut = self.run + first > self.limit;
        let part = if cut { part.get(..self.limit.saturating_sub(self.run)).unwrap_or(part) } else { part };
        match memrchr(b'\n', part) {
            Some(end) => {
                self.tail.clear();
                self.tail.extend_from_slice(part.get(end + 1..).unwrap_or_default());
                self.run = self.tail.len();
            }
            None => {
                self.tail.extend_from_slice(part);
                self.run += part.len();
            }
        }
        self.tail.drain(..self.tail.len().saturating_sub(self.overlap));
        let bytes = { part }.read(buffer)?;
        self.left.start += bytes;
        let bytes = self.pass(bytes);
        if cut {
            self.cuts.0.borrow_mut().push(self.passed);
            self.ahead.push(b'\n');
            self.ahead.extend_from_slice(&self.tail);
            self.run = self.tail.len();
            if bytes == 0 {
                return self.read(buffer);
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: usize = 24 << 10;

    proptest! {
        #[test]
        fn pieces_join_to_the_lines_they_were_cut_from(lengths in prop::collection::vec(0usize..100_000, 1..6), size in 1usize..70_000) {
            let letter = |at: usize| b"abcdefghijklmnopqrstuvw"[at % 23];
            let lines: Vec<Vec<u8>> = lengths.iter().map(|length| (0..*length).map(letter).collect()).collect();
            let (mut reader, cuts) = LongLines::new(std::io::Cursor::new(lines.join(&b'\n')), LIMIT);
            let (mut out, mut buffer) = (Vec::new(), vec![0; size]);
            loop {
                let bytes = reader.read(&mut buffer).unwrap();
                if bytes == 0 { break }
                out.extend_from_slice(&buffer[..bytes]);
            }
            let (mut whole, mut offset) = (vec![Vec::new(); lines.len()], 0_u64);
            for (number, piece) in out.split(|byte| *byte == b'\n').enumerate() {
                prop_assert!(piece.len() <= LIMIT);
                let line = cuts.number(number as u64, offset) as usize;
                let common = if whole[line].is_empty() { 0 } else { LIMIT / 2 };
                whole[line].extend_from_slice(&piece[common..]);
                offset += piece.len() as u64 + 1;
            }
            prop_assert_eq!(whole, lines);
        }
    }
}
