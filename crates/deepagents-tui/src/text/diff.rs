//! Diffs of texts, by line and by word.

use ratatui::text::{Line, Span};
use similar::{Algorithm, ChangeTag, TextDiff};

use crate::theme::Theme;

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 2;
/// Opening quotes and brackets.
const OPENING: [char; 7] = ['"', '\'', '`', '(', '[', '{', '<'];
/// Time limit for the search for a minimal diff; after it, a larger one is shown.
const DIFF_TIMEOUT: std::time::Duration = std::time::Duration::from_millis(40);

/// Renders the diff of two texts. If they are `whole` files, lines are numbered.
pub(crate) fn diff_lines(old: &str, new: &str, whole: bool, theme: Theme) -> Vec<Line<'static>> {
    let diff = TextDiff::configure().algorithm(Algorithm::Patience).timeout(DIFF_TIMEOUT).diff_lines(old, new);
    let mut out = Vec::new();
    for (at, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
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
                let mut pieces: Vec<(bool, String)> =
                    change.iter_strings_lossy().map(|(changed, text)| (changed, text.into_owned())).collect();
                shift_to_opening(&mut pieces);
                for (changed, text) in pieces {
                    let text = text.trim_end_matches(['\n', '\r']);
                    spans.push(Span::styled(theme.exact(text).into_owned(), if changed { strong } else { style }));
                }
                out.push(Line::from(spans));
                if whole && change.missing_newline() && change.tag() != ChangeTag::Equal {
                    out.push(Line::from(Span::styled("      \\ no newline at the end", theme.dim)));
                }
            }
        }
    }
    out
}

/// Returns whether a line of a diff is unchanged.
pub(crate) fn is_context(line: &Line<'_>) -> bool {
    line.spans.get(1).is_some_and(|mark| mark.content == " ")
}

/// Shifts a mark that starts after an opening quote or bracket and ends with the next one, so that it starts and ends
/// before them: the insertion is `"a", ` and not `a", "`.
fn shift_to_opening(pieces: &mut [(bool, String)]) {
    for at in 1..pieces.len().saturating_sub(1) {
        let Some([(false, before), (true, marked), (false, after)]) = pieces.get_mut(at - 1..=at + 1) else { continue };
        let Some(opening) = before.chars().next_back().filter(|c| OPENING.contains(c)) else { continue };
        if marked.ends_with(opening) {
            before.pop();
            marked.pop();
            marked.insert(0, opening);
            after.insert(0, opening);
        }
    }
}

/// Renders an edit of a file, with surrounding lines if the text of the file is known.
pub(crate) fn edit_diff(file: Option<&str>, old: &str, new: &str, all: bool, theme: Theme) -> Vec<Line<'static>> {
    match file.filter(|text| !old.is_empty() && text.contains(old)) {
        Some(text) => {
            let after = if all { text.replace(old, new) } else { text.replacen(old, new, 1) };
            diff_lines(text, &after, true, theme)
        }
        None => diff_lines(&ended(old), &ended(new), false, theme),
    }
}

/// Renders a new file.
pub(crate) fn new_file(text: &str, theme: Theme) -> Vec<Line<'static>> {
    diff_lines("", &ended(text), true, theme)
}

/// Adds a final line break, so that a missing one is no difference.
fn ended(text: &str) -> String {
    if text.is_empty() || text.ends_with('\n') { text.to_owned() } else { format!("{text}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_insertion_before_similar_text_is_marked_from_its_own_start() {
        let mut pieces = vec![(false, "{\"".to_owned()), (true, "d\": 8, \"".to_owned()), (false, "h".to_owned())];
        shift_to_opening(&mut pieces);
        assert_eq!(pieces.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>(), ["{", "\"d\": 8, ", "\"h"]);
    }
}
