//! Searches the lines of a file.

use std::io::Read;
use std::sync::Arc;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::long_lines::{Cuts, LongLines};
use super::{Control, GrepLine, GrepQuery};
use crate::FsError;
use crate::lines::BOM;

/// Lines longer than this are clipped, in bytes.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes shown before the first match in a clipped line.
const LEAD_BYTES: usize = 256;
/// Memory limit of one thread while streaming a large file.
const MAX_HEAP_BYTES: usize = 8 << 20;
/// Size of the pieces that long lines are split into while streaming; smaller if context lines must be held as well.
const PIECE: usize = 1 << 20;
const PIECE_AMONG_OTHERS: usize = 32 << 10;
/// Maximum number of context lines around a match.
const MAX_CONTEXT_LINES: usize = 200;
/// Maximum number of bytes of lines returned for a file.
const MAX_BYTES_PER_FILE: usize = 4 << 20;
/// Maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 16 << 10;
/// Memory limit of a compiled pattern, and of each thread's DFA cache for it.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Number of bytes searched between deadline checks, for patterns that may be slow.
const STEP_BYTES: usize = 16 << 10;

/// A compiled grep pattern.
#[derive(Clone, Debug)]
pub(crate) struct LineMatcher {
    matcher: Arc<RegexMatcher>,
    regex: bool,
    context: usize,
    /// Maximum number of matches needed from a file.
    most: Option<u64>,
}

impl LineMatcher {
    pub(crate) fn new(query: &GrepQuery) -> Result<Self, FsError> {
        let refused = |reason: String| query.scope.refuse(&query.pattern, reason);
        // A trailing line terminator is not part of the line, but is easily copied along with it.
        let pattern = query.pattern.strip_suffix('\n').unwrap_or(&query.pattern);
        let pattern = pattern.strip_suffix('\r').filter(|_| query.pattern.ends_with('\n')).unwrap_or(pattern);
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(refused(format!("it is {} bytes long, the limit is {MAX_PATTERN_BYTES}", pattern.len())));
        }
        if pattern.contains('\n') {
            return Err(refused("a match lies within one line; search for one of the lines".to_owned()));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder.fixed_strings(!query.regex).case_insensitive(query.ignore_case).line_terminator(Some(b'\n'));
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        if query.regex {
            // Let `^` and `$` match at the ends of each line, also before `\r\n`.
            builder.multi_line(true).crlf(true);
        }
        let matcher = builder.build(pattern).map_err(|error| refused(error.to_string()))?;
        // One more than the total limit, to detect that there are more.
        let of_all = query.max_count.map(|max| max.saturating_add(1));
        let most = match (query.max_per_file, of_all) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let context = query.context.min(MAX_CONTEXT_LINES);
        Ok(Self { matcher: Arc::new(matcher), regex: query.regex, context, most: most.map(|most| most as u64) })
    }

    /// Creates a searcher that one thread uses for many files.
    pub(crate) fn searcher(&self) -> Searcher {
        let terminator = self.matcher.line_terminator().unwrap_or(LineTerminator::byte(b'\n'));
        SearcherBuilder::new()
            .line_terminator(terminator)
            .line_number(true)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(MAX_HEAP_BYTES))
            .build()
    }

    /// Returns the matching lines of content in memory.
    pub(crate) fn slice(&self, searcher: &mut Searcher, content: &[u8], control: &Control) -> std::io::Result<Found> {
        let content = content.strip_prefix(BOM).unwrap_or(content);
        if self.regex && content.len() > STEP_BYTES {
            let piece = if content.len() < MAX_HEAP_BYTES / 2 { MAX_HEAP_BYTES } else { self.piece() };
            return self.pieces(searcher, Steps { content, control }, piece);
        }
        let mut lines = self.sink(Cuts::default());
        searcher.search_slice(&*self.matcher, content, &mut lines)?;
        Ok(lines.into())
    }

    /// Returns the matching lines of content too large to hold in memory, from its start and the rest. In a line too
    /// large to hold, a match longer than a few thousand characters may be missed.
    pub(crate) fn stream(&self, searcher: &mut Searcher, head: &[u8], rest: impl Read) -> std::io::Result<Found> {
        let head = head.strip_prefix(BOM).unwrap_or(head);
        self.pieces(searcher, head.chain(rest), self.piece())
    }

    /// Returns the size of the pieces that long lines are split into.
    fn piece(&self) -> usize {
        if self.context > 0 { PIECE_AMONG_OTHERS } else { PIECE }
    }

    fn pieces(&self, searcher: &mut Searcher, content: impl Read, piece: usize) -> std::io::Result<Found> {
        let (content, cuts) = LongLines::new(content, piece);
        let mut lines = self.sink(cuts);
        searcher.search_reader(&*self.matcher, content, &mut lines)?;
        Ok(lines.into())
    }

    fn sink(&self, cuts: Cuts) -> Lines<'_> {
        Lines { of: self, cuts, lines: Vec::new(), matches: 0, held: 0, cut: false }
    }
}

/// The lines found in one file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) lines: Vec<GrepLine>,
    /// Whether there are more, beyond the memory limit.
    pub(crate) cut: bool,
}

impl From<Lines<'_>> for Found {
    fn from(lines: Lines<'_>) -> Self {
        Self { lines: lines.lines, cut: lines.cut }
    }
}

/// Reads content in small steps, until the search is over.
struct Steps<'a> {
    content: &'a [u8],
    control: &'a Control,
}

impl Read for Steps<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.control.stopped() {
            return Ok(0);
        }
        let step = buffer.len().min(STEP_BYTES);
        self.content.read(buffer.get_mut(..step).unwrap_or_default())
    }
}

struct Lines<'a> {
    of: &'a LineMatcher,
    cuts: Cuts,
    lines: Vec<GrepLine>,
    matches: u64,
    held: usize,
    cut: bool,
}

impl Lines<'_> {
    /// Adds a line, or another piece of the previous line. Returns whether there is room for more.
    fn push(&mut self, number: u64, bytes: &[u8], matched: bool) -> bool {
        if self.lines.last().is_some_and(|last| last.number == number) {
            // A piece that matches replaces an earlier piece of the line that does not.
            if !matched || self.lines.last().is_some_and(|last| last.matched) {
                return true;
            }
            self.lines.pop();
        }
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let mut shown = bytes;
        if bytes.len() > MAX_LINE_BYTES {
            let at = if matched { self.of.matcher.find(bytes).ok().flatten().map_or(0, |m| m.start()) } else { 0 };
            let start = at.saturating_sub(LEAD_BYTES).min(bytes.len() - MAX_LINE_BYTES);
            shown = bytes.get(start..start + MAX_LINE_BYTES).unwrap_or(bytes);
            // Do not start in the middle of a character.
            let begin = shown.iter().position(|b| (b & 0xc0) != 0x80).unwrap_or(0);
            shown = shown.get(begin..).unwrap_or(shown);
        }
        let text = String::from_utf8_lossy(shown);
        let clipped = shown.len() < bytes.len();
        let text = if clipped { text.trim_end_matches('\u{fffd}').to_owned() } else { text.into_owned() };
        let line = GrepLine { number, text, matched, clipped };
        self.held += line.weight();
        self.cut = self.held > MAX_BYTES_PER_FILE;
        if !self.cut {
            self.lines.push(line);
        }
        !self.cut
    }
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.of.most.is_some_and(|most| self.matches >= most) {
            return Ok(false);
        }
        let number = self.cuts.number(found.line_number().unwrap_or(0), found.absolute_byte_offset());
        let again = self.lines.last().is_some_and(|last| last.number == number && last.matched);
        self.matches += u64::from(!again);
        let room = self.push(number, found.bytes(), true);
        // With context, continue for the lines after the last match.
        Ok(room && (self.of.context > 0 || self.of.most.is_none_or(|most| self.matches < most)))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if self.of.most.is_some_and(|most| self.matches >= most)
            && *found.kind() == grep_searcher::SinkContextKind::Before
        {
            return Ok(false);
        }
        let number = self.cuts.number(found.line_number().unwrap_or(0), found.absolute_byte_offset());
        Ok(self.push(number, found.bytes(), false))
    }
}
