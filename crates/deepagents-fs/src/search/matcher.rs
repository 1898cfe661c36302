//! Searches the lines of a file.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::long_lines::{CHUNK_BYTES, Cuts, LongLines};
use super::{Control, GrepLine, GrepQuery};
use crate::FsError;
use crate::lines::BOM;

/// Lines longer than this are clipped, in bytes.
const MAX_LINE_BYTES: usize = 4096;
/// Bytes shown before the first match in a clipped line.
const LEAD_BYTES: usize = 256;
/// Memory limit of one thread while streaming a large file.
const MAX_HEAP_BYTES: usize = 8 << 20;
/// Maximum size of the pieces that long lines are split into while streaming; smaller if context lines must be held as
/// well.
const MAX_PIECE: usize = 1 << 20;
const MAX_PIECE_WITH_CONTEXT: usize = 32 << 10;
/// Memory limit of a compiled pattern, and of each thread's DFA cache for it.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// Maximum sizes of the program that a regular expression is compiled to, and of the pieces that it searches. The time
/// for a piece grows with both, and no deadline is checked meanwhile: a piece takes the slowest program a few seconds.
const PIECES: [(usize, usize); 5] = [
    (8 << 10, 1 << 20),
    (64 << 10, 256 << 10),
    (256 << 10, 64 << 10),
    (1 << 20, 32 << 10),
    (MAX_COMPILED_BYTES, 8 << 10),
];
/// Number of bytes that an assertion such as `\b` looks at on either side: one character.
const LOOK_BYTES: usize = 4;
/// Maximum number of context lines around a match.
const MAX_CONTEXT_LINES: usize = 200;
/// Maximum number of bytes of lines returned for a file.
const MAX_BYTES_PER_FILE: usize = 4 << 20;
/// Maximum length of a pattern in bytes.
const MAX_PATTERN_BYTES: usize = 16 << 10;

/// A compiled grep pattern.
#[derive(Clone, Debug)]
pub(crate) struct LineMatcher {
    matcher: Arc<RegexMatcher>,
    /// A regular expression with what must follow a match in a piece of a line; `None` for a fixed text.
    followed: Option<Arc<RegexMatcher>>,
    /// Maximum size of the pieces that long lines are split into.
    piece: usize,
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
        let context = query.context.min(MAX_CONTEXT_LINES);
        let (matcher, followed, piece) = if query.regex {
            let (matcher, piece) = smallest(pattern, query.ignore_case).map_err(refused)?;
            let followed = followed(pattern, query.ignore_case).map_err(refused)?;
            (matcher, Some(Arc::new(followed)), piece)
        } else {
            let mut builder = RegexMatcherBuilder::new();
            builder.fixed_strings(true).case_insensitive(query.ignore_case).line_terminator(Some(b'\n'));
            builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
            (builder.build(pattern).map_err(|error| refused(error.to_string()))?, None, MAX_PIECE)
        };
        // One more than the total limit, to detect that there are more.
        let of_all = query.max_count.map(|max| max.saturating_add(1));
        let most = match (query.max_per_file, of_all) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(Self { matcher: Arc::new(matcher), followed, piece, context, most: most.map(|most| most as u64) })
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
        if self.followed.is_some() && content.len() > self.piece.min(CHUNK_BYTES) {
            // Lines that are in memory anyway are split for the deadline's sake alone.
            let piece = if content.len() < MAX_HEAP_BYTES / 2 { self.piece } else { self.streamed_piece() };
            return self.search_pieces(searcher, content, std::io::empty(), piece, control);
        }
        let content = content.strip_prefix(BOM).unwrap_or(content);
        let mut lines = Lines::new(self, Cuts::default());
        searcher.search_slice(&*self.matcher, content, &mut lines)?;
        Ok(lines.into())
    }

    /// Returns the matching lines of content from its start and the rest, until the search is over. In a line too long
    /// for one piece, a match longer than what pieces share may be missed.
    pub(crate) fn stream(
        &self,
        searcher: &mut Searcher,
        head: &[u8],
        rest: impl Read,
        control: &Control,
    ) -> std::io::Result<Found> {
        self.search_pieces(searcher, head, rest, self.streamed_piece(), control)
    }

    /// Returns the size of the pieces that long lines are split into while streaming.
    fn streamed_piece(&self) -> usize {
        self.piece.min(if self.context > 0 { MAX_PIECE_WITH_CONTEXT } else { MAX_PIECE })
    }

    fn search_pieces(
        &self,
        searcher: &mut Searcher,
        head: &[u8],
        rest: impl Read,
        piece: usize,
        control: &Control,
    ) -> std::io::Result<Found> {
        let head = head.strip_prefix(BOM).unwrap_or(head);
        let (content, cuts) = LongLines::new(UntilStopped { from: head.chain(rest), control }, piece);
        let mut lines = Lines::new(self, cuts);
        match searcher.search_reader(&*self.matcher, content, &mut lines) {
            Ok(()) => Ok(lines.into()),
            Err(error) if error.kind() == ErrorKind::TimedOut && control.stopped() => {
                Ok(Found { truncated: true, ..lines.into() })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns where the pattern matches in a line, or in a piece of a line that was split before or after it.
    ///
    /// Assertions such as `^` and `\b` take the ends of a piece for those of the line. So a match counts only if all
    /// that assertions look at is in the piece. Pieces overlap, so a match at the end of one is within another.
    fn find(&self, piece: &[u8], (split_before, split_after): (bool, bool)) -> Option<usize> {
        let start = if split_before && self.followed.is_some() { LOOK_BYTES.min(piece.len()) } else { 0 };
        let matcher = self.followed.as_ref().filter(|_| split_after).unwrap_or(&self.matcher);
        matcher.find_at(piece, start).ok().flatten().map(|found| found.start())
    }
}

/// Returns a builder for regular expressions whose `^` and `$` match at the ends of each line, also before `\r\n`.
fn regex_builder(ignore_case: bool, max_bytes: usize) -> RegexMatcherBuilder {
    let mut builder = RegexMatcherBuilder::new();
    builder.case_insensitive(ignore_case).multi_line(true).crlf(true);
    builder.size_limit(max_bytes).dfa_size_limit(MAX_COMPILED_BYTES);
    builder
}

/// Compiles a regular expression within the smallest of the limits [`PIECES`] that it fits, and returns the size of the
/// pieces that belongs to it.
fn smallest(pattern: &str, ignore_case: bool) -> Result<(RegexMatcher, usize), String> {
    let mut failed = String::new();
    for (program, piece) in PIECES {
        match regex_builder(ignore_case, program).build(pattern) {
            Ok(matcher) => return Ok((matcher, piece)),
            Err(error) => failed = error.to_string(),
        }
    }
    Err(failed)
}

/// Compiles a regular expression with what must follow a match in a piece of a line.
fn followed(pattern: &str, ignore_case: bool) -> Result<RegexMatcher, String> {
    let mut builder = regex_builder(ignore_case, 2 * MAX_COMPILED_BYTES);
    // The bytes that follow may be any, unlike those of a match, so no line terminator is excluded.
    builder.line_terminator(None);
    builder.build(&format!("(?:{pattern})(?s-u:.{{{LOOK_BYTES}}})")).map_err(|error| error.to_string())
}

/// The lines found in one file.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) lines: Vec<GrepLine>,
    /// Whether there are more, beyond the memory limit.
    pub(crate) cut: bool,
    /// Whether there may be more, beyond any limit.
    pub(crate) truncated: bool,
}

impl From<Lines<'_>> for Found {
    fn from(lines: Lines<'_>) -> Self {
        Self { truncated: lines.cut || lines.is_done(), lines: lines.lines, cut: lines.cut }
    }
}

/// Fails with [`ErrorKind::TimedOut`] when the search is over: the beginning of a line that was not read to its end must
/// not be searched.
struct UntilStopped<'a, R> {
    from: R,
    control: &'a Control,
}

impl<R: Read> Read for UntilStopped<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.control.stopped() { Err(ErrorKind::TimedOut.into()) } else { self.from.read(buffer) }
    }
}

struct Lines<'a> {
    of: &'a LineMatcher,
    cuts: Cuts,
    lines: Vec<GrepLine>,
    /// Lines that may be context of the next match.
    before: VecDeque<GrepLine>,
    matches: u64,
    /// Number of the last matching line.
    last: Option<u64>,
    held: usize,
    cut: bool,
}

impl<'a> Lines<'a> {
    fn new(of: &'a LineMatcher, cuts: Cuts) -> Self {
        let (lines, before) = (Vec::new(), VecDeque::new());
        Self { of, cuts, lines, before, matches: 0, last: None, held: 0, cut: false }
    }

    fn is_done(&self) -> bool {
        self.of.most.is_some_and(|most| self.matches >= most)
    }

    /// Adds a matching line, or another piece of the previous line. Returns whether to continue.
    fn take_match(&mut self, line: GrepLine) -> bool {
        if self.last == Some(line.number) {
            return true;
        }
        if self.is_done() {
            return false;
        }
        self.matches += 1;
        self.last = Some(line.number);
        let reach = line.number.saturating_sub(self.of.context as u64);
        let near: Vec<GrepLine> = self.before.drain(..).filter(|before| before.number >= reach).collect();
        let room = near.into_iter().chain([line]).all(|line| self.push(line));
        // With context, continue for the lines after the last match.
        room && (self.of.context > 0 || !self.is_done())
    }

    /// Takes a line that does not match: context of the last match, or perhaps of the next. Returns whether to
    /// continue.
    fn take_other(&mut self, line: GrepLine) -> bool {
        if self.last.is_some_and(|last| line.number <= last.saturating_add(self.of.context as u64)) {
            return self.push(line);
        }
        if self.is_done() {
            return false;
        }
        if self.of.context > 0 && self.before.back().is_none_or(|before| before.number != line.number) {
            if self.before.len() == self.of.context {
                self.before.pop_front();
            }
            self.before.push_back(line);
        }
        true
    }

    /// Adds a line. Returns whether there is room for more.
    fn push(&mut self, line: GrepLine) -> bool {
        match self.lines.last() {
            // A piece that matches replaces earlier pieces of the line.
            Some(last) if last.number == line.number && line.matched => drop(self.lines.pop()),
            Some(last) if last.number == line.number => return true,
            _ => {}
        }
        self.held += line.weight();
        self.cut = self.held > MAX_BYTES_PER_FILE;
        if !self.cut {
            self.lines.push(line);
        }
        !self.cut
    }

    /// Takes a line, or a piece of one. `candidate` says that the pattern matches there, if the piece is taken for a
    /// line. Returns whether to continue.
    fn take(&mut self, number: Option<u64>, offset: u64, bytes: &[u8], candidate: bool) -> bool {
        let number = self.cuts.number(number.unwrap_or(0), offset);
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let split = self.cuts.around(offset..offset + bytes.len() as u64);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let is_piece = split != (false, false);
        let found =
            if candidate && (is_piece || bytes.len() > MAX_LINE_BYTES) { self.of.find(bytes, split) } else { None };
        let matched = candidate && (!is_piece || found.is_some());
        let line = shown(number, bytes, matched, found.unwrap_or(0), is_piece);
        if matched { self.take_match(line) } else { self.take_other(line) }
    }
}

/// Returns a line or a piece of one, clipped to what is around an offset if it is very long.
fn shown(number: u64, bytes: &[u8], matched: bool, around: usize, is_piece: bool) -> GrepLine {
    let mut shown = bytes;
    if bytes.len() > MAX_LINE_BYTES {
        let start = around.saturating_sub(LEAD_BYTES).min(bytes.len() - MAX_LINE_BYTES);
        shown = bytes.get(start..start + MAX_LINE_BYTES).unwrap_or(bytes);
    }
    let clipped = is_piece || shown.len() < bytes.len();
    if clipped {
        // Do not start in the middle of a character.
        let begin = shown.iter().position(|b| (b & 0xc0) != 0x80).unwrap_or(0);
        shown = shown.get(begin..).unwrap_or(shown);
    }
    let text = String::from_utf8_lossy(shown);
    let text = if clipped { text.trim_end_matches('\u{fffd}').to_owned() } else { text.into_owned() };
    GrepLine { number, text, matched, clipped }
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        Ok(self.take(found.line_number(), found.absolute_byte_offset(), found.bytes(), true))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        Ok(self.take(found.line_number(), found.absolute_byte_offset(), found.bytes(), false))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::VPath;

    fn matching(matcher: &LineMatcher, content: &str) -> Vec<u64> {
        let control = Control::new(None);
        let found = matcher.stream(&mut matcher.searcher(), content.as_bytes(), std::io::empty(), &control).unwrap();
        found.lines.iter().filter(|line| line.matched).map(|line| line.number).collect()
    }

    proptest! {
        #[test]
        fn lines_searched_in_pieces_match_where_the_whole_lines_do(
            lines in prop::collection::vec("[ab é]{0,300}", 1..4),
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "a", "b", " ", "é", ".", "^", "$", r"\b", r"\B", "[ab]", "[^a]", "a{1,3}", "(?:b|é)", "b*", ".*",
                ]),
                1..6,
            ),
            context in 0_usize..2,
        ) {
            let query = GrepQuery { regex: true, context, ..GrepQuery::new(parts.concat(), VPath::root()) };
            let whole = LineMatcher::new(&query).unwrap();
            let split = LineMatcher { piece: 128, ..whole.clone() };
            let content = lines.join("\n");
            let (whole, split) = (matching(&whole, &content), matching(&split, &content));
            prop_assert!(split.iter().all(|number| whole.contains(number)), "{:?} of {:?}", split, whole);
            if !parts.concat().contains('*') {
                prop_assert_eq!(split, whole);
            }
        }
    }
}
