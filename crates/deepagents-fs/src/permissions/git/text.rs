//! Parses git configuration, as git does. Where git would refuse a file, the rest of it is read nevertheless.

use std::iter::Peekable;
use std::str::Chars;

/// Parses the settings in a text.
pub(super) fn settings(text: &str) -> Vec<Parsed> {
    let text = text.trim_start_matches('\u{feff}').replace("\r\n", "\n");
    let mut reader = Reader { rest: text.chars().peekable() };
    let (mut section, mut out) = ((String::new(), String::new()), Vec::new());
    while let Some(c) = reader.rest.next() {
        match c {
            '#' | ';' => reader.skip_line(),
            '[' => section = reader.header(),
            c if c.is_alphabetic() => {
                let mut key = c.to_ascii_lowercase().to_string();
                while let Some(c) = reader.rest.next_if(|c| c.is_alphanumeric() || *c == '-') {
                    key.push(c.to_ascii_lowercase());
                }
                while reader.rest.next_if(|c| matches!(c, ' ' | '\t')).is_some() {}
                if reader.rest.next_if_eq(&'=').is_some() {
                    let (section, subsection) = section.clone();
                    out.push(Parsed { section, subsection, key, value: reader.value() });
                }
            }
            _ => {}
        }
    }
    out
}

/// A setting as written.
pub(super) struct Parsed {
    pub(super) section: String,
    pub(super) subsection: String,
    pub(super) key: String,
    pub(super) value: String,
}

struct Reader<'a> {
    rest: Peekable<Chars<'a>>,
}

impl Reader<'_> {
    fn skip_line(&mut self) {
        while self.rest.next_if(|c| *c != '\n').is_some() {}
    }

    /// Reads a section's name after its bracket: `core]`, `alias "x"]` or, as of old, `alias.x]`.
    fn header(&mut self) -> (String, String) {
        let (mut section, mut subsection, mut quoted) = (String::new(), None::<String>, false);
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            match (c, &mut subsection) {
                (']', _) if !quoted => break,
                ('"', _) => quoted = !quoted,
                ('\\', Some(name)) if quoted => name.extend(self.rest.next_if(|c| *c != '\n')),
                (c, Some(name)) => name.push(c),
                (c, None) if c == '.' || c.is_whitespace() => subsection = Some(String::new()),
                (c, None) => section.push(c.to_ascii_lowercase()),
            }
        }
        (section, subsection.unwrap_or_default())
    }

    /// Reads a value up to the end of its line, without comments, quotation marks and escapes.
    fn value(&mut self) -> String {
        let (mut out, mut quoted, mut kept) = (String::new(), false, 0);
        while let Some(c) = self.rest.next_if(|c| *c != '\n') {
            match c {
                '#' | ';' if !quoted => {
                    self.skip_line();
                    break;
                }
                '"' => quoted = !quoted,
                '\\' => match self.rest.next() {
                    Some('\n') | None => continue,
                    Some('n') => out.push('\n'),
                    Some('t') => out.push('\t'),
                    Some('b') => out.push('\u{8}'),
                    Some(c) => out.push(c),
                },
                c if c.is_whitespace() && !quoted => {
                    if !out.is_empty() {
                        out.push(c);
                    }
                    continue;
                }
                c => out.push(c),
            }
            kept = out.len();
        }
        out.truncate(kept);
        out
    }
}
