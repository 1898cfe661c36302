//! A single component of a glob.
//!
//! Matching scans the name once and backtracks only to the last star, so no pattern can make it use exponential time or
//! memory.

use std::sync::Arc;

use super::PatternError;

/// A compiled component. Matches a single name, never a `/`.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// Any number of whole components: `**`.
    Globstar,
    /// Exactly this name.
    Literal(String),
    /// A name with this suffix: `*.rs`.
    Suffix(String),
    /// Anything else.
    Glob(Arc<[Token]>),
}

/// Part of a component, or of a word of a command rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// Any text: `*`.
    Text,
    /// Any character: `?`.
    Any,
    /// This character.
    Char(char),
    /// One of these characters, or any other character if negated.
    Class { negated: bool, ranges: Box<[(char, char)]> },
}

impl Token {
    pub(crate) fn matches(&self, c: char) -> bool {
        match self {
            Self::Text | Self::Any => true,
            Self::Char(own) => *own == c,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(first, last)| (*first..=*last).contains(&c)) != *negated
            }
        }
    }
}

impl Segment {
    pub(super) fn compile(text: &str) -> Result<Self, PatternError> {
        if text == "**" {
            return Ok(Self::Globstar);
        }
        if let Some(name) = literal(text) {
            return Ok(Self::Literal(name));
        }
        if let Some(end) = text.strip_prefix('*').and_then(literal) {
            return Ok(Self::Suffix(end));
        }
        let refused = |reason: String| PatternError::Component { text: text.to_owned(), reason };
        Ok(Self::Glob(tokens(text).map_err(refused)?.into()))
    }

    /// Returns whether the component matches a name. A leading dot must be matched explicitly unless `dots` is set.
    pub(super) fn matches(&self, name: &str, dots: bool) -> bool {
        let hidden = !dots && name.starts_with('.');
        match self {
            Self::Globstar => !hidden,
            Self::Literal(text) => text == name,
            Self::Suffix(end) => !hidden && name.ends_with(end.as_str()),
            Self::Glob(tokens) => {
                (!hidden || matches!(tokens.first(), Some(Token::Char('.')))) && matches_tokens(tokens, name)
            }
        }
    }

    pub(super) fn is_globstar(&self) -> bool {
        matches!(self, Self::Globstar)
    }

    pub(super) fn literal(&self) -> Option<&str> {
        if let Self::Literal(name) = self { Some(name) } else { None }
    }

    /// Returns whether the component can match no name at all: a name is not `.` or `..` and contains no slash,
    /// backslash or NUL.
    pub(super) fn matches_nothing(&self) -> bool {
        let never = |c: char| matches!(c, '/' | '\\' | '\0');
        match self {
            Self::Globstar => false,
            Self::Literal(name) => !crate::path::is_component(name),
            Self::Suffix(end) => end.contains(never),
            Self::Glob(tokens) => {
                let nothing = |token: &Token| match token {
                    Token::Text | Token::Any => false,
                    Token::Char(c) => never(*c),
                    Token::Class { negated: true, ranges } => ranges.contains(&('\0', char::MAX)),
                    Token::Class { negated: false, ranges } => {
                        ranges.iter().all(|(first, last)| first > last || first == last && never(*first))
                    }
                };
                let dot = |token: &Token| match token {
                    Token::Char(c) => *c == '.',
                    Token::Class { negated: false, ranges } => ranges.iter().all(|range| *range == ('.', '.')),
                    _ => false,
                };
                tokens.iter().any(nothing) || tokens.len() <= 2 && tokens.iter().all(dot)
            }
        }
    }
}

/// Returns whether tokens match a name. On a mismatch, the last star takes one more character.
pub(crate) fn matches_tokens(tokens: &[Token], name: &str) -> bool {
    let (mut tokens, mut rest) = (tokens, name);
    let mut star: Option<(&[Token], &str)> = None;
    loop {
        match (tokens.split_first(), rest.chars().next()) {
            (Some((Token::Text, after)), _) => {
                tokens = after;
                star = Some((after, rest));
                // A trailing star matches the rest.
                if after.is_empty() {
                    return true;
                }
                continue;
            }
            (Some((token, after)), Some(c)) if token.matches(c) => {
                tokens = after;
                rest = rest.get(c.len_utf8()..).unwrap_or_default();
                continue;
            }
            (None, None) => return true,
            _ => {}
        }
        let Some((after, from)) = star else { return false };
        let Some(taken) = from.chars().next() else { return false };
        rest = from.get(taken.len_utf8()..).unwrap_or_default();
        tokens = after;
        star = Some((after, rest));
    }
}

/// Returns the only name a component matches, if it has no wildcards.
fn literal(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' | '?' => return None,
            '[' if class(rest.as_str()).is_some() => return None,
            '\\' => out.push(rest.next().unwrap_or(c)),
            c => out.push(c),
        }
    }
    Some(out)
}

/// Splits a component into tokens, merging adjacent stars.
fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut out = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' if matches!(out.last(), Some(Token::Text)) => {}
            '*' => out.push(Token::Text),
            '?' => out.push(Token::Any),
            '\\' => out.push(Token::Char(rest.next().unwrap_or(c))),
            '[' if let Some((class, after)) = class(rest.as_str()) => {
                if let Token::Class { ranges, .. } = &class
                    && let Some((first, last)) = ranges.iter().find(|(first, last)| first > last)
                {
                    return Err(format!("the range `{first}-{last}` is the wrong way round"));
                }
                out.push(class);
                rest = after.chars();
            }
            c => out.push(Token::Char(c)),
        }
    }
    Ok(out)
}

/// Parses a character class after its `[` and returns it with the remaining text; `None` if it is not closed.
fn class(text: &str) -> Option<(Token, &str)> {
    let (negated, body) = match text.strip_prefix(['!', '^']) {
        Some(body) => (true, body),
        None => (false, text),
    };
    let (mut rest, mut ranges) = (body, Vec::new());
    // A `]` in first position is a member of the class.
    while !rest.starts_with(']') || rest.len() == body.len() {
        if let Some((name, after)) = rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"))
            && let Some((_, named)) = NAMES.iter().find(|(own, _)| *own == name)
        {
            ranges.extend_from_slice(named);
            rest = after;
            continue;
        }
        let (first, after) = character(rest)?;
        rest = after;
        let mut last = first;
        if let Some((end, after)) = after.strip_prefix('-').filter(|end| !end.starts_with(']')).and_then(character) {
            last = end;
            rest = after;
        }
        ranges.push((first, last));
    }
    Some((Token::Class { negated, ranges: ranges.into() }, rest.strip_prefix(']')?))
}

/// Named classes, ASCII only.
const NAMES: [(&str, &[(char, char)]); 13] = [
    ("alnum", &[('0', '9'), ('A', 'Z'), ('a', 'z')]),
    ("alpha", &[('A', 'Z'), ('a', 'z')]),
    ("blank", &[('\t', '\t'), (' ', ' ')]),
    ("cntrl", &[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')]),
    ("digit", &[('0', '9')]),
    ("graph", &[('!', '~')]),
    ("lower", &[('a', 'z')]),
    ("print", &[(' ', '~')]),
    ("punct", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("space", &[('\t', '\r'), (' ', ' ')]),
    ("upper", &[('A', 'Z')]),
    ("word", &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')]),
    ("xdigit", &[('0', '9'), ('A', 'F'), ('a', 'f')]),
];

fn character(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\').filter(|rest| !rest.is_empty()).unwrap_or(text);
    let mut chars = text.chars();
    Some((chars.next()?, chars.as_str()))
}
