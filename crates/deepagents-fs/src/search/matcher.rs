//! Searching one file's lines.

use std::io::Read;
use std::sync::Arc;

use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};

use super::{GrepLine, GrepQuery};
use crate::FsError;
use crate::lines::BOM;

/// A line longer than this is shown in part.
const LONGEST: usize = 4096;
/// What is shown before the first match of such a line.
const LEAD: usize = 256;
/// A line may take so much memory while a large file is streamed.
const HEAP: usize = 64 << 20;

/// A compiled grep pattern.
#[derive(Clone, Debug)]
pub(crate) struct LineMatcher {
    matcher: Arc<RegexMatcher>,
    context: usize,
    /// At most so many matches are wanted of one file.
    most: Option<u64>,
}

impl LineMatcher {
    pub(crate) fn new(query: &GrepQuery) -> Result<Self, FsError> {
        let refused = |reason: String| query.scope.refuse(&query.pattern, reason);
        // What ends a line is not part of it, but people copy it along.
        let pattern = query.pattern.strip_suffix('\n').unwrap_or(&query.pattern);
        let pattern = pattern.strip_suffix('\r').filter(|_| query.pattern.ends_with('\n')).unwrap_or(pattern);
        if pattern.contains('\n') {
            return Err(refused("a match lies within one line; search for one of the lines".to_owned()));
        }
        let mut builder = RegexMatcherBuilder::new();
        builder.fixed_strings(!query.regex).case_insensitive(query.ignore_case).line_terminator(Some(b'\n'));
        if query.regex {
            // `^` and `$` stand at the ends of each line, also before `\r\n`.
            builder.multi_line(true).crlf(true);
        }
        let matcher = builder.build(pattern).map_err(|error| refused(error.to_string()))?;
        // One more than is allowed in all, to see that there are more.
        let of_all = query.max_count.map(|max| max.saturating_add(1));
        let most = match (query.max_per_file, of_all) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(Self { matcher: Arc::new(matcher), context: query.context, most: most.map(|most| most as u64) })
    }

    /// A searcher, to be used for many files by one thread.
    pub(crate) fn searcher(&self) -> Searcher {
        let terminator = self.matcher.line_terminator().unwrap_or(LineTerminator::byte(b'\n'));
        SearcherBuilder::new()
            .line_terminator(terminator)
            .line_number(true)
            .bom_sniffing(false)
            .binary_detection(BinaryDetection::none())
            .before_context(self.context)
            .after_context(self.context)
            .heap_limit(Some(HEAP))
            .build()
    }

    /// The matching lines of content that is at hand.
    pub(crate) fn slice(&self, searcher: &mut Searcher, content: &[u8]) -> std::io::Result<Vec<GrepLine>> {
        let content = content.strip_prefix(BOM).unwrap_or(content);
        let mut lines = self.sink();
        searcher.search_slice(&*self.matcher, content, &mut lines)?;
        Ok(lines.lines)
    }

    /// The matching lines of content that is too large to be held: its beginning, and what follows.
    pub(crate) fn stream(
        &self,
        searcher: &mut Searcher,
        head: &[u8],
        rest: impl Read,
    ) -> std::io::Result<Vec<GrepLine>> {
        let mut lines = self.sink();
        let head = head.strip_prefix(BOM).unwrap_or(head);
        searcher.search_reader(&*self.matcher, head.chain(rest), &mut lines)?;
        Ok(lines.lines)
    }

    fn sink(&self) -> Lines<'_> {
        Lines { of: self, lines: Vec::new(), matches: 0 }
    }
}

struct Lines<'a> {
    of: &'a LineMatcher,
    lines: Vec<GrepLine>,
    matches: u64,
}

impl Lines<'_> {
    fn push(&mut self, number: Option<u64>, bytes: &[u8], matched: bool) {
        let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
        let mut shown = bytes;
        if bytes.len() > LONGEST {
            let at = if matched { self.of.matcher.find(bytes).ok().flatten().map_or(0, |m| m.start()) } else { 0 };
            let start = at.saturating_sub(LEAD).min(bytes.len() - LONGEST);
            shown = bytes.get(start..start + LONGEST).unwrap_or(bytes);
            // Not in the middle of a character.
            let begin = shown.iter().position(|b| (b & 0xc0) != 0x80).unwrap_or(0);
            shown = shown.get(begin..).unwrap_or(shown);
        }
        let text = String::from_utf8_lossy(shown);
        let clipped = shown.len() < bytes.len();
        let text = if clipped { text.trim_end_matches('\u{fffd}').to_owned() } else { text.into_owned() };
        self.lines.push(GrepLine { number: number.unwrap_or(0), text, matched, clipped });
    }
}

impl Sink for Lines<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        if self.of.most.is_some_and(|most| self.matches >= most) {
            return Ok(false);
        }
        self.matches += 1;
        self.push(found.line_number(), found.bytes(), true);
        // With context the search goes on for the lines behind the last match.
        Ok(self.of.context > 0 || self.of.most.is_none_or(|most| self.matches < most))
    }

    fn context(&mut self, _: &Searcher, found: &SinkContext<'_>) -> Result<bool, Self::Error> {
        if self.of.most.is_some_and(|most| self.matches >= most)
            && *found.kind() == grep_searcher::SinkContextKind::Before
        {
            return Ok(false);
        }
        self.push(found.line_number(), found.bytes(), false);
        Ok(true)
    }
}
