//! Long pastes. Each is one character of the text and is drawn as a label.

use std::borrow::Cow;

use crate::text::count;

/// The characters for pastes: the end of the last private use plane, where fonts have no glyphs. They are removed from
/// all other input.
const FIRST_MARK: u32 = 0x10_f000;
const LAST_MARK: u32 = 0x10_fffd;

/// A text of more bytes than this is edited like a paste wherever it comes from, as it is laid out for each key.
const MAX_EDITED_BYTES: usize = 64 * 1024;

/// Returns whether a character stands for a paste.
pub(super) fn is_paste(c: char) -> bool {
    (FIRST_MARK..=LAST_MARK).contains(&u32::from(c))
}

/// Returns whether a character is part of a word. A paste is.
pub(super) fn is_letter(c: char) -> bool {
    c.is_alphanumeric() || is_paste(c)
}

/// Removes characters that would stand for pastes.
pub(super) fn foreign(text: &str) -> Cow<'_, str> {
    if text.contains(is_paste) { text.replace(is_paste, "").into() } else { text.into() }
}

#[derive(Clone, Debug)]
struct Paste {
    mark: char,
    number: usize,
    label: String,
    text: String,
}

/// The pastes that characters of the text stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Pastes {
    all: Vec<Paste>,
    /// The offset of the next character to use, so that one is not reused soon.
    made: u32,
}

impl Pastes {
    /// Stores a paste and returns its character. Returns `None` if all are in use.
    pub(super) fn add(&mut self, text: String) -> Option<char> {
        let mut free = (0..=LAST_MARK - FIRST_MARK).filter_map(|at| {
            let mark = char::from_u32(FIRST_MARK + (self.made + at) % (LAST_MARK - FIRST_MARK + 1))?;
            self.find(mark).is_none().then_some((mark, at))
        });
        let (mark, passed) = free.next()?;
        self.made = (self.made + passed + 1) % (LAST_MARK - FIRST_MARK + 1);
        let number = self.all.last().map_or(1, |last| last.number + 1);
        let lines = text.split('\n').count();
        let label =
            format!("[Pasted text #{number}: {}, {}]", count(lines as u64, "line"), count(text.len() as u64, "byte"));
        self.all.push(Paste { mark, number, label, text });
        Some(mark)
    }

    /// Returns a text in the form in which it is edited: without marks, and as a mark if it is long.
    pub(super) fn editable(&mut self, text: &str) -> String {
        let text = foreign(text).replace("\r\n", "\n");
        if text.len() <= MAX_EDITED_BYTES {
            return text;
        }
        let known = self.all.iter().find(|paste| paste.text == text).map(|paste| paste.mark);
        known.or_else(|| self.add(text.clone())).map_or(text, String::from)
    }

    fn find(&self, mark: char) -> Option<&Paste> {
        self.all.iter().find(|paste| paste.mark == mark)
    }

    /// Returns the label of a paste's character.
    pub(super) fn label(&self, c: char) -> Option<&str> {
        if is_paste(c) { self.find(c).map(|paste| paste.label.as_str()) } else { None }
    }

    /// Returns a text with its pastes expanded.
    pub(super) fn expand(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            match is_paste(c).then(|| self.find(c)) {
                None => out.push(c),
                Some(paste) => out.push_str(paste.map_or("", |paste| &paste.text)),
            }
        }
        out
    }

    /// Removes characters whose paste no longer exists.
    pub(super) fn known(&self, text: &str) -> String {
        text.chars().filter(|c| !is_paste(*c) || self.find(*c).is_some()).collect()
    }

    /// Removes the pastes that a text does not contain.
    pub(super) fn retain_in(&mut self, text: &str) {
        self.all.retain(|paste| text.contains(paste.mark));
    }
}
