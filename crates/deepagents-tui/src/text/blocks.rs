//! The blocks of a Markdown text that is still being received.

use std::borrow::Cow;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag};

use super::markdown::options;
use super::visible;

/// Returns the start of the last block of a Markdown text, and whether it is a table. Further text does not change what
/// precedes it. The last line counts only once it is complete, as a `|` may become a row of the table above it.
pub(crate) fn last_block(text: &str) -> (usize, bool) {
    let text = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let (mut depth, mut last) = (0_usize, (0, false));
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(tag) => {
                if depth == 0 {
                    last = (range.start, matches!(tag, Tag::Table(_)));
                }
                depth += 1;
            }
            Event::End(_) => depth = depth.saturating_sub(1),
            _ if depth == 0 => last = (range.start, false),
            _ => {}
        }
    }
    last
}

/// Returns the position in a paragraph after its first `shown` displayed characters, not counting white space. Returns
/// `None` if what follows could not stand alone as the rest of the paragraph: within a marked part, or where it would
/// begin something else than text.
pub(crate) fn paragraph_cut(text: &str, shown: usize) -> Option<usize> {
    // Making control characters visible would shift the positions.
    let Cow::Borrowed(text) = visible(text) else { return None };
    let letters = |text: &str| text.chars().filter(|c| !c.is_whitespace()).count();
    let (mut depth, mut left) = (0_usize, shown);
    for (event, range) in Parser::new_ext(text, options()).into_offset_iter() {
        match event {
            Event::Start(Tag::Paragraph | Tag::Emphasis | Tag::Strong | Tag::Strikethrough) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            Event::Text(words) if letters(&words) > left => {
                let mut rest = words.char_indices().filter(|(_, c)| !c.is_whitespace());
                let (at, next) = rest.nth(left)?;
                let is_plain = depth == 1 && text.get(range.clone()) == Some(&*words);
                // Only spaces are left out at a line break; a line can begin with any other white space.
                let before = words.get(..at)?.strip_suffix(' ');
                let is_after_blank = before.is_some_and(|before| !before.ends_with(char::is_whitespace));
                return (is_plain && is_after_blank && next.is_alphabetic()).then_some(range.start + at);
            }
            Event::Text(words) | Event::Code(words) => left = left.checked_sub(letters(&words))?,
            Event::SoftBreak | Event::HardBreak => {}
            _ => return None,
        }
    }
    None
}

/// Returns the opening line of a text that is a fenced code block, and the position of its last `lines` lines. Returns
/// `None` if the text is anything else, or is not longer than that.
pub(crate) fn code_cut(text: &str, lines: usize) -> Option<(&str, usize)> {
    let fence = text.get(..=text.find('\n')?)?;
    let at = text.rmatch_indices('\n').nth(lines.checked_sub(1)?)?.0 + 1;
    let (event, range) = Parser::new_ext(text, options()).into_offset_iter().next()?;
    let is_code = matches!(event, Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))));
    (is_code && range == (0..text.len()) && at > fence.len()).then_some((fence, at))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::markdown;
    use super::*;
    use crate::theme::Theme;

    #[test]
    fn a_partly_received_table_is_never_taken_as_finished() {
        let text = "Words.\n\n| a | b |\n|---|---|\n| `x` | 1 |\n| y | 2 |\n\nMore words.\n\nThe end.\n";
        let (table, after) = (text.find("| a").unwrap(), text.find("More").unwrap());
        for end in 0..=text.len() {
            let come = text.get(..end).unwrap();
            let (start, _) = last_block(come);
            assert!(start <= table || (start >= after && end > after), "{come:?}");
        }
        assert_eq!(last_block(text).0, text.find("The end").unwrap());
    }

    /// Returns the lines of a paragraph.
    fn lines(text: &str) -> Vec<String> {
        markdown(text, 20, Theme::plain()).iter().map(ToString::to_string).collect()
    }

    proptest! {
        #[test]
        fn what_follows_a_cut_is_laid_out_as_before(
            words in prop::collection::vec("[a-z]{1,9}|\\*[a-z]{3}\\*|`a b`|- x|[0-9]\\.|[a-z]{1,5}\n", 30..60),
        ) {
            let text = format!("begin {}", words.join(" "));
            let all = lines(&text);
            for count in 1..all.len() {
                let shown = all[..count].concat().chars().filter(|c| !c.is_whitespace()).count();
                if let Some(rest) = paragraph_cut(&text, shown).map(|at| text.get(at..).unwrap()) {
                    prop_assert_eq!(&lines(rest), &all[count..], "{:?}", rest);
                }
            }
        }
    }

    #[test]
    fn a_paragraph_is_not_cut_after_white_space_that_a_line_can_begin_with() {
        assert_eq!(paragraph_cut("一二三四\u{3000}五六七八", 4), None);
        assert_eq!(paragraph_cut("one\u{a0}two", 3), None);
    }

    #[test]
    fn a_paragraph_is_cut_between_its_words_but_not_within_marked_parts() {
        let text = "one two *three four* five - six";
        let cuts: Vec<Option<&str>> =
            [3, 6, 11, 15, 19, 20].map(|shown| paragraph_cut(text, shown).map(|at| text.get(at..).unwrap())).to_vec();
        let five = Some("five - six");
        assert_eq!(cuts, [Some("two *three four* five - six"), None, None, five, None, Some("six")]);
        assert_eq!(paragraph_cut("a [link](there) and more", 1), None);
    }
}
