//! Scripts that do not separate words with spaces.

use std::fmt;

/// Letters and punctuation of these scripts: Thai and Lao, Burmese, Khmer, Chinese, Japanese, Korean.
const UNSPACED: [(char, char); 9] = [
    ('\u{0E00}', '\u{0EFF}'),
    ('\u{1000}', '\u{11FF}'),
    ('\u{1780}', '\u{17FF}'),
    ('\u{2E80}', '\u{A4CF}'),
    ('\u{AC00}', '\u{D7FF}'),
    ('\u{F900}', '\u{FAFF}'),
    ('\u{FE30}', '\u{FE4F}'),
    ('\u{FF00}', '\u{FFEF}'),
    ('\u{20000}', '\u{3FFFF}'),
];

/// Returns `true` for a letter or punctuation mark of these scripts.
pub(crate) fn is_unspaced(c: char) -> bool {
    UNSPACED.iter().any(|(first, last)| (*first..=*last).contains(&c))
}

/// Formats all ranges for use in a regex character class.
pub(crate) struct Unspaced;

impl fmt::Display for Unspaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        UNSPACED
            .iter()
            .try_for_each(|(first, last)| write!(f, r"\u{{{:X}}}-\u{{{:X}}}", u32::from(*first), u32::from(*last)))
    }
}
