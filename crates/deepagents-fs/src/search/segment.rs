//! One component of a glob.

use std::fmt::Write;

use regex::{Regex, RegexBuilder};

use super::PatternError;

/// A compiled component: matches one name, never a `/`.
#[derive(Clone, Debug)]
pub(super) enum Segment {
    /// Any number of whole components: `**`.
    Globstar,
    /// This name alone.
    Literal(String),
    /// A name that ends so: `*.rs`.
    Suffix(String),
    /// Anything else, and whether it begins with a dot.
    Glob(Regex, bool),
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
        let expression = expression(text);
        let dot = expression.starts_with(r"^\.");
        let regex = RegexBuilder::new(&expression).dot_matches_new_line(true).build();
        let regex = regex.map_err(|error| PatternError::Component { text: text.to_owned(), reason: error.to_string() });
        Ok(Self::Glob(regex?, dot))
    }

    /// Whether it matches a name. A name that begins with a dot must be named by one, unless `dots` count like others.
    pub(super) fn matches(&self, name: &str, dots: bool) -> bool {
        let hidden = !dots && name.starts_with('.');
        match self {
            Self::Globstar => !hidden,
            Self::Literal(text) => text == name,
            Self::Suffix(end) => !hidden && name.ends_with(end.as_str()),
            Self::Glob(regex, dot) => (!hidden || *dot) && regex.is_match(name),
        }
    }

    pub(super) fn is_globstar(&self) -> bool {
        matches!(self, Self::Globstar)
    }

    pub(super) fn literal(&self) -> Option<&str> {
        if let Self::Literal(name) = self { Some(name) } else { None }
    }
}

/// The one name that a component matches, if it has no wildcards.
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

/// A component as a regular expression.
fn expression(text: &str) -> String {
    let mut out = String::from("^");
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => out.push_str(".*"),
            '?' => out.push('.'),
            '\\' => out.push_str(&escaped(rest.next().unwrap_or(c))),
            '[' if let Some((class, after)) = class(rest.as_str()) => {
                out.push_str(&class);
                rest = after.chars();
            }
            c => out.push_str(&escaped(c)),
        }
    }
    out.push('$');
    out
}

/// A class from behind its `[` as a regular expression, and what follows it; none if it is not closed.
fn class(text: &str) -> Option<(String, &str)> {
    let (mut out, body) = match text.strip_prefix(['!', '^']) {
        Some(body) => ("[^".to_owned(), body),
        None => ("[".to_owned(), text),
    };
    let mut rest = body;
    // A `]` that comes first is one of the characters.
    while !rest.starts_with(']') || rest.len() == body.len() {
        if let Some((name, after)) = rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"))
            && NAMES.contains(&name)
        {
            let _ = write!(out, "[:{name}:]");
            rest = after;
            continue;
        }
        let (first, after) = character(rest)?;
        out.push_str(&escaped(first));
        rest = after;
        if let Some((last, after)) = after.strip_prefix('-').filter(|end| !end.starts_with(']')).and_then(character) {
            let _ = write!(out, "-{}", escaped(last));
            rest = after;
        }
    }
    out.push(']');
    Some((out, rest.strip_prefix(']')?))
}

/// The classes with names, which are of ASCII characters.
const NAMES: [&str; 13] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word", "xdigit",
];

fn character(text: &str) -> Option<(char, &str)> {
    let text = text.strip_prefix('\\').filter(|rest| !rest.is_empty()).unwrap_or(text);
    let mut chars = text.chars();
    Some((chars.next()?, chars.as_str()))
}

fn escaped(c: char) -> String {
    regex::escape(c.encode_utf8(&mut [0; 4]))
}
