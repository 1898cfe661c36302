//! The blocks of a Markdown text that is still being received.

use pulldown_cmark::{Event, Parser, Tag};

use super::markdown::options;

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

#[cfg(test)]
mod tests {
    use super::*;

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
}
