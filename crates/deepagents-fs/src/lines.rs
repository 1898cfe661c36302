//! Windows of lines, without loading what is outside of them.
//!
//! A line ends at `\n`, or at `\r\n`; nothing else separates lines. A newline at the end of a file ends its last line
//! and begins no other. A byte-order mark at the start of a file is not part of its first line.

mod scan;

use memchr::{memchr, memchr_iter};

use crate::Version;

pub(crate) use scan::{LONGEST, scan};

/// Which lines of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineRange {
    /// Lines to skip.
    pub offset: u64,
    /// Lines to read at most; no window has more than about a million.
    pub limit: u64,
    /// Characters of the first line to skip, to go on in a line that is too long to be read at once.
    pub column: u64,
    /// Bytes of text to hold at most. The window ends before the line that would go over; a first line that alone is
    /// longer is cut.
    pub max_bytes: usize,
    /// The lines after the window are counted in files of up to this many bytes; in larger ones the total is unknown
    /// unless the window reaches the end.
    pub count_up_to: u64,
}

impl LineRange {
    /// A window of at most 8 MB of text; lines are counted in files of up to 4 MB.
    pub fn new(offset: u64, limit: u64) -> Self {
        Self { offset, limit, column: 0, max_bytes: 8 << 20, count_up_to: 4 << 20 }
    }
}

/// Lines that a window has at most, as each takes memory beside its text.
const MOST_LINES: u64 = 1 << 20;

/// A window of a file's lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineWindow {
    /// The lines, without what ends them.
    pub lines: Vec<String>,
    /// How many lines come before the window.
    pub offset: u64,
    /// Lines in the whole file, if they were counted.
    pub total: Option<u64>,
    /// The offset of the first line after the window; none if there is none.
    pub next: Option<u64>,
    /// Whether the one line of the window is only its beginning; it goes on at byte `end`.
    pub cut: bool,
    /// Bytes of the file up to the end of the window.
    pub end: u64,
    /// Whether bytes that are not UTF-8 were replaced by U+FFFD.
    pub lossy: bool,
    /// Bytes in the whole file.
    pub size: u64,
    /// The version that was read.
    pub version: Version,
}

/// A window of content that is at hand.
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

/// Collects a window from a file's bytes as they come.
#[derive(Debug)]
pub(crate) struct Scanner {
    range: LineRange,
    size: u64,
    lines: Vec<String>,
    held: usize,
    lossy: bool,
    /// The line that is being read, and how many of its bytes are kept in `current`.
    line: u64,
    current: Vec<u8>,
    /// Characters of the first line that are still to be skipped; none once its rest has begun.
    skipping: Option<u64>,
    /// Whether any byte of the current line was seen.
    open: bool,
    /// Bytes of the file seen so far.
    seen: u64,
    /// Bytes up to the end of the last complete line of the window.
    end: u64,
    full: bool,
    cut: bool,
    at_end: bool,
}

/// Bytes that are worth counting the lines of before they are split.
const SKIPPED: usize = 32 << 10;

impl Scanner {
    pub(crate) fn new(range: LineRange, size: u64) -> Self {
        let range = LineRange { limit: range.limit.min(MOST_LINES), ..range };
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

    /// Takes the next bytes; false when no more are wanted.
    pub(crate) fn feed(&mut self, mut chunk: &[u8]) -> bool {
        if self.seen == 0 && self.range.offset == 0 && chunk.starts_with(BOM) {
            // The mark is not a character of the line.
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

    /// Passes over bytes that end before the window begins, without a look at each line; false when they do not.
    fn skip(&mut self, chunk: &[u8]) -> bool {
        // Short ones gain nothing, and are what is left where the window begins.
        if self.full || chunk.len() < SKIPPED || self.line >= self.range.offset {
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

    /// Says that the file ended after what was fed.
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

    /// What is left of a part of the first line once the characters before the column are skipped.
    fn after_column<'a>(&mut self, part: &'a [u8]) -> &'a [u8] {
        let Some(mut left) = self.skipping else { return part };
        for (at, byte) in part.iter().enumerate() {
            // A byte that begins a character.
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

    /// Keeps the beginning of a line that alone is too long. `start` is where it begins in the file.
    fn push_cut(&mut self, start: u64) {
        let whole = match std::str::from_utf8(&self.current) {
            Ok(_) => self.current.len(),
            // A character cut in two belongs to the part that was not kept.
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
