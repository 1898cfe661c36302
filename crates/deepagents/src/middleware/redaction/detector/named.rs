//! Values under the name of a secret, as in `password = "…"`.

use std::ops::Range;

use regex::Captures;

use super::is_unspaced;
use super::judge::{self, Style};

/// A name that indicates a secret.
const NAME: &str = r"[A-Za-z0-9_.-]*(?:api[_-]?key|(?:access|account|encryption|private|signing|storage)[_-]?key|secret|token|passw|passphrase|pwd|[_-]pass|[_-]pat|(?-i:[a-z]Pat))[A-Za-z0-9_-]*";
/// Maximum number of bytes of a value to examine: the beginning of a longer one shows whether it is a secret.
const MAX_JUDGED_BYTES: usize = 1024;
/// A type between a name and its value.
const TYPE: &str = r"(?:&[ \t]*(?:'[a-z]+[ \t]+)?)?[A-Za-z_][A-Za-z0-9_<>\[\]]*";

expression!(
    HEAD = r#"(?i)(?P<name>{NAME})\\*["'`]?\]?(?:[!?]?[ \t]*:[ \t]*{TYPE}[ \t]*=[ \t]*[rbf]{{0,2}}#*(?P<typed>["'`])|(?P<is>[ \t]*(?:=>|:=|[:=：＝])[ \t]*)(?:[rbf]{{0,2}}#*(?P<quote>\\*["'`]))?)"#
);
expression!(HEAD_BEGIN = r#"(?i){NAME}\\*["'`]?\]?[!?]?[ \t]*(?:[:=][ \t]*(?:{TYPE})?[ \t]*=?[ \t]*)?\z"#);
expression!(DECLARED = r"^{TYPE}[ \t]+=");
expression!(ELEMENT = r"(?i)<(?P<name>{NAME})>(?P<value>[^<>\s]{{6,}})</");

/// Returns `true` if a value under this name in structured data is a secret.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    judge::secrecy(name).is_some_and(|secrecy| judge::is_secret(name, value, secrecy, Style::Quoted))
}

/// Returns `true` if a value stands for another: a variable, a template placeholder, a redaction mark.
pub(super) fn is_placeholder(value: &str) -> bool {
    judge::is_placeholder(value) || judge::speaks_of_secrets(value)
}

/// Returns the values under names of secrets.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for head in Heads::of(text) {
        // Skip values that are already hidden with that of an earlier name.
        if found.last().is_some_and(|last| head.value.end <= last.end) {
            continue;
        }
        let value = judged(text.get(head.value.clone()).unwrap_or_default());
        let secrecy = judge::secrecy(head.name);
        if secrecy.is_some_and(|secrecy| judge::is_secret(head.name, value, secrecy, head.style)) {
            found.push(head.value);
        }
    }
    for element in ELEMENT.iter().flat_map(|element| element.captures_iter(text)) {
        let group = |name: &str| element.name(name);
        found.extend(
            group("name")
                .zip(group("value"))
                .and_then(|(name, value)| is_secret(name.as_str(), value.as_str()).then(|| value.range())),
        );
    }
    found
}

/// Returns the position from which there may be an incomplete name and value.
pub(super) fn open_from(text: &str) -> usize {
    let open = Heads::of(text).find(|head| head.open).map(|head| head.start);
    let begun = HEAD_BEGIN.iter().find_map(|begin| begin.find(text)).map(|begin| begin.start());
    open.into_iter().chain(begun).min().unwrap_or(text.len())
}

/// A name with the position of its value.
struct Head<'a> {
    start: usize,
    name: &'a str,
    value: Range<usize>,
    style: Style,
    /// Whether the text ends before the value does.
    open: bool,
}

/// Returns the part of a value to examine.
fn judged(value: &str) -> &str {
    value.get(..value.floor_char_boundary(MAX_JUDGED_BYTES)).unwrap_or(value)
}

/// Iterates over the names in a text with their values. A name within a value counts too.
struct Heads<'a> {
    text: &'a str,
    at: usize,
    /// The word in which the last unquoted value began.
    word: Word,
}

/// A run of text without quotes and spaces. Many values may begin in one and end with it, so its end is found once.
#[derive(Default)]
struct Word {
    start: usize,
    end: usize,
    /// The position of its last opening bracket.
    opened: Option<usize>,
    /// Its end without trailing closing brackets.
    closed: usize,
}

impl Word {
    fn at(text: &str, start: usize) -> Self {
        let rest = text.get(start..).unwrap_or_default();
        let word = rest.get(..bare(rest)).unwrap_or_default();
        let opened = word.rfind(['(', '[', '{', '<']).map(|at| start + at);
        let closed = start + word.trim_end_matches([')', ']', '}', '>']).len();
        Self { start, end: start + word.len(), opened, closed }
    }

    /// Returns the value that begins at a position in the word. Brackets that close one opened before the value are not
    /// part of it.
    fn value(&self, start: usize) -> Range<usize> {
        let opens = self.opened.is_some_and(|opened| opened >= start);
        start..if opens { self.end } else { self.closed.max(start) }
    }
}

impl<'a> Heads<'a> {
    fn of(text: &'a str) -> Self {
        Self { text, at: 0, word: Word::default() }
    }

    fn head(&mut self, found: &Captures<'a>) -> Option<Head<'a>> {
        let whole = found.get(0)?;
        let (start, end) = (whole.start(), whole.end());
        let rest = self.text.get(end..)?;
        let quote = found.name("typed").or_else(|| found.name("quote"));
        let sign = found.name("is").map_or("", |sign| sign.as_str());
        let style = match sign {
            _ if quote.is_some() => Style::Quoted,
            "=" => Style::Assigned,
            // Strings after a closure arrow or in a Go declaration are quoted.
            _ if matches!(sign.trim(), "=>" | ":=") => Style::Code,
            // The type in a declaration.
            _ if DECLARED.iter().any(|declared| declared.is_match(rest)) => Style::Code,
            _ => Style::Bare,
        };
        let (value, ends) = match quote {
            Some(quote) => {
                let value = end..end + quoted(rest, quote.as_str());
                let ends = value.end;
                (value, ends)
            }
            None => {
                if !(self.word.start..=self.word.end).contains(&end) {
                    self.word = Word::at(self.text, end);
                }
                (self.word.value(end), self.word.end)
            }
        };
        let open = ends == self.text.len();
        Some(Head { start, name: found.name("name")?.as_str(), value, style, open })
    }
}

impl<'a> Iterator for Heads<'a> {
    type Item = Head<'a>;

    fn next(&mut self) -> Option<Head<'a>> {
        let found = HEAD.as_ref()?.captures_at(self.text, self.at)?;
        let head = self.head(&found)?;
        // A redaction mark contains a name and a value that are not a secret.
        let is_mark = judge::is_placeholder(judged(self.text.get(head.value.clone())?));
        self.at = if is_mark { head.value.end } else { found.get(0)?.end() };
        Some(head)
    }
}

/// Returns the number of bytes up to the quote that ends a value, or to the end of its line. If the opening quote is
/// JSON-escaped, so is the closing one.
fn quoted(rest: &str, quote: &str) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\n' => return at,
            '\\' if quote.starts_with('\\') => return at,
            '\\' => escaped = true,
            _ if quote.ends_with(c) => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the number of bytes of an unquoted value.
fn bare(rest: &str) -> usize {
    let ends = |(at, c): &(usize, char)| match c {
        '"' | '\'' | '`' | ',' | ';' => true,
        '\\' => rest.get(at + 1..).is_some_and(|next| next.starts_with(['n', 'r', 't', '"'])),
        _ => c.is_whitespace() || is_unspaced(*c),
    };
    rest.char_indices().find(ends).map_or(rest.len(), |(at, _)| at)
}
