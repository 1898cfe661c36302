//! What changes in a text, line by line and word by word.

use ratatui::text::{Line, Span};
use similar::{Algorithm, ChangeTag, TextDiff};

use super::exact;
use crate::theme::Theme;

/// Lines that stay and are shown around a change.
const CONTEXT: usize = 2;
/// Time that finding the smallest difference may take; a larger one is shown after it.
const TIME: std::time::Duration = std::time::Duration::from_millis(40);

/// What makes one text of another. Lines have numbers where the texts are whole files.
pub(crate) fn diff_lines(old: &str, new: &str, whole: bool, theme: Theme) -> Vec<Line<'static>> {
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).timeout(TIME).diff_lines(old, new);
    let mut out = Vec::new();
    for (at, group) in diff.grouped_ops(CONTEXT).iter().enumerate() {
        if at > 0 {
            out.push(Line::from(Span::styled("       ⋮", theme.dim)));
        }
        for op in group {
            for change in diff.iter_inline_changes(op) {
                let (mark, style, strong) = match change.tag() {
                    ChangeTag::Delete => ("-", theme.removed, theme.removed_word),
                    ChangeTag::Insert => ("+", theme.added, theme.added_word),
                    ChangeTag::Equal => (" ", theme.dim, theme.dim),
                };
                let number = change.old_index().filter(|_| change.tag() == ChangeTag::Delete).or(change.new_index());
                let number = number.filter(|_| whole).map_or(String::new(), |number| (number + 1).to_string());
                let mut spans = vec![Span::styled(format!("{number:>5} "), theme.dim), Span::styled(mark, style)];
                spans.push(Span::styled(" ", style));
                for (changed, text) in change.iter_strings_lossy() {
                    let text = text.trim_end_matches(['\n', '\r']);
                    spans.push(Span::styled(exact(text).into_owned(), if changed { strong } else { style }));
                }
                out.push(Line::from(spans));
            }
        }
    }
    out
}

/// An edit of a file as it comes to stand: with the lines around it where the file's text is known.
pub(crate) fn edit_diff(file: Option<&str>, old: &str, new: &str, all: bool, theme: Theme) -> Vec<Line<'static>> {
    match file.filter(|text| !old.is_empty() && text.contains(old)) {
        Some(text) => {
            let after = if all { text.replace(old, new) } else { text.replacen(old, new, 1) };
            diff_lines(text, &after, true, theme)
        }
        None => diff_lines(&ended(old), &ended(new), false, theme),
    }
}

/// A file that was not there before.
pub(crate) fn new_file(text: &str, theme: Theme) -> Vec<Line<'static>> {
    diff_lines("", &ended(text), true, theme)
}

/// With an end of its last line, so that a missing one is no difference.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}
