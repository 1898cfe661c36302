//! Line wrapping.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Maximum columns of a tab.
const TAB_COLUMNS: usize = 4;

/// Returns the width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(|grapheme| grapheme_width(grapheme, 0)).sum()
}

/// Returns the width of a line in columns.
pub(crate) fn line_width(line: &Line<'_>) -> usize {
    line.spans.iter().map(|span| width(&span.content)).sum()
}

fn grapheme_width(grapheme: &str, column: usize) -> usize {
    if grapheme == "\t" { TAB_COLUMNS - column % TAB_COLUMNS } else { grapheme.width().min(2) }
}

/// A grapheme with its style and width.
struct Cell<'a> {
    text: &'a str,
    width: usize,
    style: Style,
}

/// Wraps a line at spaces, and within words that are longer than a line. `indent` precedes each line but the first.
pub(crate) fn wrap(line: &Line<'_>, columns: usize, indent: &str) -> Vec<Line<'static>> {
    layout(line, columns, indent, true)
}

/// Breaks a line at the last column, for code.
pub(crate) fn hard_wrap(line: &Line<'_>, columns: usize, indent: &str) -> Vec<Line<'static>> {
    layout(line, columns, indent, false)
}

fn layout(line: &Line<'_>, columns: usize, indent: &str, words: bool) -> Vec<Line<'static>> {
    let columns = columns.max(2);
    // An indent that leaves too little room is omitted.
    let indent = if width(indent) * 2 > columns { "" } else { indent };
    let indent_width = width(indent);
    let mut cells: Vec<Cell<'_>> = Vec::new();
    for span in &line.spans {
        let style = line.style.patch(span.style);
        cells.extend(span.content.graphemes(true).map(|text| Cell { text, width: 0, style }));
    }
    let (mut out, mut from, mut used, mut blank) = (Vec::new(), 0, 0, None::<usize>);
    let mut at = 0;
    while let Some(cell) = cells.get_mut(at) {
        cell.width = grapheme_width(cell.text, used);
        if used + cell.width > columns && at > from {
            let end = blank.filter(|blank| words && *blank > from).unwrap_or(at);
            out.push(build(cells.get(from..end).unwrap_or_default(), if out.is_empty() { "" } else { indent }));
            from = end;
            if words {
                // The space at a line break is not shown.
                while cells.get(from).is_some_and(|cell| cell.text == " ") {
                    from += 1;
                }
            }
            (at, used, blank) = (from, indent_width, None);
            continue;
        }
        used += cell.width;
        at += 1;
        if cell.text == " " {
            blank = Some(at);
        }
    }
    if from < cells.len() || out.is_empty() {
        out.push(build(cells.get(from..).unwrap_or_default(), if out.is_empty() { "" } else { indent }));
    }
    out
}

fn build(cells: &[Cell<'_>], indent: &str) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    if !indent.is_empty() {
        spans.push(Span::raw(indent.to_owned()));
    }
    for cell in cells {
        let text = if cell.text == "\t" { "    ".get(..cell.width).unwrap_or("    ") } else { cell.text };
        match spans.last_mut() {
            Some(span) if span.style == cell.style => span.content.to_mut().push_str(text),
            _ => spans.push(Span::styled(text.to_owned(), cell.style)),
        }
    }
    Line::from(spans)
}

/// Cuts a line to fit, with an ellipsis if cut.
pub(crate) fn clip(line: &Line<'_>, columns: usize) -> Line<'static> {
    if line_width(line) <= columns {
        return Line::from(line.spans.iter().map(|s| Span::styled(s.content.to_string(), s.style)).collect::<Vec<_>>());
    }
    let mut first = hard_wrap(line, columns.saturating_sub(1).max(1), "").into_iter().next().unwrap_or_default();
    first.spans.push(Span::raw("…"));
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str, columns: usize) -> Vec<String> {
        wrap(&Line::from(text.to_owned()), columns, "").iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_break_at_spaces_and_overlong_words_at_the_line_end() {
        assert_eq!(lines("one two three", 8), ["one two ", "three"]);
        assert_eq!(lines("abcdefghij kl", 4), ["abcd", "efgh", "ij ", "kl"]);
        assert_eq!(lines("", 4), [""]);
        assert_eq!(lines("漢字テスト", 5), ["漢字", "テス", "ト"]);
    }

    #[test]
    fn a_wide_character_gets_a_two_column_line() {
        assert_eq!(lines("漢字", 1), ["漢", "字"]);
    }
}
