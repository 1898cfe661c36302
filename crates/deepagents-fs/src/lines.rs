//! Windows of lines, read without loading the rest of the file.
//!
//! A line ends at `\n` or `\r\n`; nothing else separates lines. A newline at the end of a file ends the last line and
//! does not start another. A byte-order mark at the start of a file is not part of its first line.

mod scan;

use memchr::{memchr, memchr_iter};

use crate::Version;

pub(crate) use scan::{SCAN_TIMEOUT, scan};

/// A range of lines in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// Number of lines to skip.
    pub offset: u64,
    /// Maximum number of lines; no window has more than about a million.
    pub limit: u64,
    /// Number of characters to skip in the first line, to continue a line that is too long to read at once.
    pub column: u64,
    /// Maximum bytes of text. The window ends before the line that would exceed this; a first line that exceeds it
    /// alone is truncated.
    pub max_bytes: usize,
    /// Size limit in bytes for counting the lines after the window. In larger files the total is unknown unless the
    /// window reaches the end.
    pub count_up_to: u64,
}

impl LineRange {
    /// Creates a range of at most 8 MB of text that counts lines in files of up to 4 MB.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset, limit, column: 0, max_bytes: 8 << 20, count_up_to: 4 << 20 }
    }
}

/// Maximum number of lines in a window, as each line takes memory in addition to its text.
const MAX_WINDOW_LINES: u64 = 1 << 20;

/// A window of a file's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWindow {
    /// The lines, without their terminators.
    pub lines: Vec<String>,
    /// Number of lines before the window.
    pub offset: u64,
    /// Number of lines in the whole file, if counted.
    pub total: Option<u64>,
    /// Offset of the first line after the window; `None` if there is none.
    pub next: Option<u64>,
    /// Whether the window's only line is truncated; it continues at byte `end`.
    pub cut: bool,
    /// Byte offset in the file at which the window ends.
    pub end: u64,
    /// Whether invalid UTF-8 was replaced by U+FFFD.
    pub lossy: bool,
    /// Size of the whole file in bytes.
    pub size: u64,
    /// The version read.
    pub version: Version,
}

/// Returns a window of content in memory.
///
/// ```
/// use deepagents_fs::lines::{self, LineRange};
/// use deepagents_fs::Version;
/// let window = lines::window(b"one\r\ntwo\nthree\n", LineRange::new(1, 1), Version::new("1"));
/// assert_eq!((window.lines, window.total, window.next), (vec!["two".to_owned()], Some(3), Some(2)));
/// ```
pub fn window(content: &[u8], range: LineRange, version: Version) -> LineWindow {
    let mut scanner = Scanner::new(range, content.len() as u64);
    if scanner.feed(content) {
        scanner.finish_file();
    }
    scanner.into_window(version)
}

/// Builds a window from a file's bytes, fed in chunks.
#[derive(Debug)]
pub(crate) struct Scanner {
    range: LineRange,
    size: u64,
    lines: Vec<String>,
    held: usize,
    lossy: bool,
    /// Index of the line being read; `current` holds the bytes of it that are kept.
    line: u64,
    current: Vec<u8>,
    /// Characters of the first line still to skip; `None` once the rest of it has begun.
    skipping: Option<u64>,
    /// Whether any byte of the current line has been seen.
    open: bool,
    /// Bytes of the file seen so far.
    seen: u64,
    /// Byte offset of the end of the last complete line of the window.
    end: u64,
    full: bool,
    cut: bool,
    at_end: bool,
}

/// Minimum chunk size for which counting newlines at once, without splitting lines, is worthwhile.
const MIN_SKIPPED_BYTES: usize = 32 << 10;

impl Scanner {
    pub(crate) fn new(range: LineRange, size: u64) -> Self {
        let range = LineRange { limit: range.limit.min(MAX_WINDOW_LINES), ..range };
        Self {
            range,
            size,
            lines: Vec::new(),
            held: 0,
            lossy: false,
            line: 0,
            current: Vec::new(),
            skipping: (range.column > 0).then_some(range.column),
            open: false,
            seen: 0,
            end: 0,
            full: range.limit == 0,
            cut: false,
            at_end: false,
        }
    }

    /// Feeds the next bytes. Returns `false` when no more are needed.
    pub(crate) fn feed(&mut self, mut chunk: &[u8]) -> bool {
        if self.seen == 0 && self.range.offset == 0 && chunk.starts_with(BOM) {
            // The byte-order mark is decoded as one more character, which does not belong to the line.
            self.skipping = self.skipping.map(|left| left.saturating_add(1));
        }
        if self.skip(chunk) {
            return true;
        }
        while !chunk.is_empty() {
            if self.full && self.size > self.range.count_up_to {
                return false;
            }
            let (part, ended, rest) = match memchr(b'\n', chunk) {
                Some(at) => {
                    let (line, rest) = chunk.split_at(at);
                    (line, true, rest.get(1..).unwrap_or_default())
                }
                None => (chunk, false, &[][..]),
            };
            self.take(part);
            if ended {
                self.seen += 1;
                self.end_line();
            }
            chunk = rest;
        }
        true
    }

    /// Skips a chunk that ends before the window begins, without looking at each line. Returns `false` if it does not.
    fn skip(&mut self, chunk: &[u8]) -> bool {
        // Small chunks gain nothing from this.
        if self.full || chunk.len() < MIN_SKIPPED_BYTES || self.line >= self.range.offset {
            return false;
        }
        let ended = memchr_iter(b'\n', chunk).count() as u64;
        if self.line + ended >= self.range.offset {
            return false;
        }
        self.line += ended;
        self.seen += chunk.len() as u64;
        self.open = !chunk.ends_with(b"\n");
        true
    }

    /// Marks the end of the file.
    pub(crate) fn finish_file(&mut self) {
        if self.open {
            self.end_line();
        }
        self.at_end = true;
    }

    fn collecting(&self) -> bool {
        !self.full && self.line >= self.range.offset
    }

    fn take(&mut self, part: &[u8]) {
        self.seen += part.len() as u64;
        self.open |= !part.is_empty();
        if !self.collecting() {
            return;
        }
        let part = self.after_column(part);
        let room = self.range.max_bytes.saturating_sub(self.held);
        let wanted = self.current.len() + part.len();
        if wanted <= room {
            self.current.extend_from_slice(part);
        } else if self.lines.is_empty() {
            let keep = room.saturating_sub(self.current.len());
            self.current.extend_from_slice(part.get(..keep).unwrap_or(part));
            self.push_cut(self.seen - wanted as u64);
        } else {
            self.full = true;
            self.current.clear();
        }
    }

    /// Returns the rest of a part of the first line after the characters before the column.
    fn after_column<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let Some(mut left) = self.skipping else { return part };
        for (at, byte) in part.iter().enumerate() {
            // This byte starts a character.
            if byte & 0xc0 != 0x80 {
                if left == 0 {
                    self.skipping = None;
                    return part.get(at..).unwrap_or_default();
                }
                left -= 1;
            }
        }
        self.skipping = Some(left);
        &[]
    }

    /// Adds the start of a line that exceeds the limit alone. `start` is its offset in the file.
    fn push_cut(&mut self, start: u64) {
        let whole = match std::str::from_utf8(&self.current) {
            Ok(_) => self.current.len(),
            // Drop the incomplete character at the end; the next read starts with it.
            Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
            Err(_) => self.current.len(),
        };
        self.current.truncate(whole);
        self.end = start + whole as u64;
        self.cut = true;
        self.full = true;
        self.push_current();
    }

    fn end_line(&mut self) {
        self.open = false;
        if self.collecting() {
            if self.current.last() == Some(&b'\r') {
                self.current.pop();
            }
            self.push_current();
            self.skipping = None;
            self.end = self.seen;
            self.full |= self.lines.len() as u64 >= self.range.limit;
        }
        self.line += 1;
    }

    fn push_current(&mut self) {
        let mut bytes = self.current.as_slice();
        if self.line == 0 && self.range.column == 0 {
            bytes = bytes.strip_prefix(BOM).unwrap_or(bytes);
        }
        let text = String::from_utf8_lossy(bytes);
        self.lossy |= matches!(text, std::borrow::Cow::Owned(_));
        self.held += bytes.len() + 1;
        self.lines.push(text.into_owned());
        self.current.clear();
    }

    pub(crate) fn into_window(self, version: Version) -> LineWindow {
        let after = self.range.offset + self.lines.len() as u64;
        let more = if self.at_end { self.line > after } else { true };
        LineWindow {
            offset: self.range.offset,
            total: self.at_end.then_some(self.line),
            next: (more && self.full).then_some(after),
            cut: self.cut,
            end: self.end,
            lossy: self.lossy,
            size: self.size,
            version,
            lines: self.lines,
        }
    }
}

/// The UTF-8 byte-order mark.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";
