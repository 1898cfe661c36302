//! Line wrapping.

use std::collections::VecDeque;

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

/// Where a line may be broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// At spaces, and within words that are longer than a row.
    Words,
    /// At the last column, for code.
    Anywhere,
}

/// Wraps a line at spaces, and within words that are longer than a line. `indent` precedes each line but the first.
pub(crate) fn wrap(line: &Line<'_>, columns: usize, indent: &str) -> Vec<Line<'static>> {
    rows(line, columns, indent, Break::Words, usize::MAX)
}

/// Breaks a line at the last column, for code.
pub(crate) fn hard_wrap(line: &Line<'_>, columns: usize, indent: &str) -> Vec<Line<'static>> {
    rows(line, columns, indent, Break::Anywhere, usize::MAX)
}

/// Returns the first `most` rows of a line. The rest of it is not looked at.
pub(crate) fn rows(line: &Line<'_>, columns: usize, indent: &str, at: Break, most: usize) -> Vec<Line<'static>> {
    let columns = columns.max(2);
    // An indent that leaves too little room is omitted.
    let indent = if width(indent) * 2 > columns { "" } else { indent };
    let indent_width = width(indent);
    let mut cells = line.spans.iter().flat_map(|span| {
        let style = line.style.patch(span.style);
        span.content.graphemes(true).map(move |text| Cell { text, width: 0, style })
    });
    let mut out = Vec::new();
    // The cells of the row, and those to place before any others.
    let (mut row, mut next): (Vec<Cell<'_>>, VecDeque<Cell<'_>>) = (Vec::new(), VecDeque::new());
    let (mut used, mut blank) = (0, None::<usize>);
    while let Some(mut cell) = next.pop_front().or_else(|| cells.next()) {
        // The space at a line break is not shown.
        if at == Break::Words && cell.text == " " && row.is_empty() && !out.is_empty() {
            continue;
        }
        cell.width = grapheme_width(cell.text, used);
        if used + cell.width > columns && !row.is_empty() {
            let end = blank.filter(|_| at == Break::Words).unwrap_or(row.len());
            next.push_front(cell);
            row.drain(end..).rev().for_each(|cell| next.push_front(cell));
            out.push(build(&row, if out.is_empty() { "" } else { indent }));
            if out.len() == most {
                return out;
            }
            row.clear();
            (used, blank) = (indent_width, None);
            continue;
        }
        used += cell.width;
        if cell.text == " " {
            blank = Some(row.len() + 1);
        }
        row.push(cell);
    }
    if !row.is_empty() || out.is_empty() {
        out.push(build(&row, if out.is_empty() { "" } else { indent }));
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

/// Cuts a line to fit, with an ellipsis if cut. What does not fit is not looked at.
pub(crate) fn clip(line: &Line<'_>, columns: usize) -> Line<'static> {
    let mut used = 0;
    let mut graphemes = line.spans.iter().flat_map(|span| span.content.graphemes(true));
    let fits = graphemes.all(|grapheme| {
        used += grapheme_width(grapheme, 0);
        used <= columns
    });
    let room = if fits { columns } else { columns.saturating_sub(1) };
    let mut first = rows(line, room, "", Break::Anywhere, 1).pop().unwrap_or_default();
    if !fits {
        first.spans.push(Span::raw("…"));
    }
    first
}

/// Cuts a path to fit: of its middle, only an ellipsis is left. Its end says most, so more of that is kept.
pub(crate) fn cut_middle(path: &str, columns: usize) -> String {
    if width(path) <= columns {
        return path.to_owned();
    }
    let room = columns.saturating_sub(1);
    let taken = |graphemes: &mut dyn Iterator<Item = &str>, room: usize| -> Vec<String> {
        let mut used = 0;
        let fitting = graphemes.take_while(|grapheme| {
            used += grapheme_width(grapheme, 0);
            used <= room
        });
        fitting.map(str::to_owned).collect()
    };
    let head = taken(&mut path.graphemes(true), room / 3).concat();
    let mut tail = taken(&mut path.graphemes(true).rev(), room - width(&head));
    tail.reverse();
    format!("{head}…{}", tail.concat())
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
    fn spaces_at_a_break_are_left_out_and_others_are_kept() {
        assert_eq!(lines("  a    bcd  e", 5), ["  a  ", "bcd  ", "e"]);
        assert_eq!(lines("abcde   fgh", 5), ["abcde", "fgh"]);
        let code = Line::from("ab   cd".to_owned());
        let shown = hard_wrap(&code, 3, "").iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(shown, ["ab ", "  c", "d"]);
    }

    #[test]
    fn the_first_rows_of_a_line_are_those_of_the_whole_line() {
        let line = Line::from(vec![Span::raw("one two\tthree "), Span::raw("漢字 fourfivesix seven")]);
        for columns in [2, 5, 9] {
            for at in [Break::Words, Break::Anywhere] {
                let whole = rows(&line, columns, " ", at, usize::MAX);
                for most in 1..=whole.len() {
                    assert_eq!(rows(&line, columns, " ", at, most), whole[..most], "{columns} {at:?} {most}");
                }
            }
        }
        assert_eq!(clip(&Line::from("abcdef".to_owned()), 4).to_string(), "abc…");
        assert_eq!(clip(&Line::from("漢字漢字".to_owned()), 4).to_string(), "漢…");
        assert_eq!(clip(&Line::from("abcd".to_owned()), 4).to_string(), "abcd");
        assert_eq!(clip(&Line::from("a\tb".to_owned()), 8).to_string(), "a   b");
    }

    #[test]
    fn a_cut_path_keeps_its_beginning_and_its_end_and_never_exceeds_the_columns() {
        assert_eq!(cut_middle("/src/main.rs", 12), "/src/main.rs");
        assert_eq!(cut_middle("/deep/in/a/tree/main.rs", 13), "/dee…/main.rs");
        assert_eq!(cut_middle("/漢字/漢字/漢字", 10), "/漢…/漢字");
        for columns in 0..30 {
            let cut = cut_middle("/a/漢字テスト/b/漢字", columns);
            assert!(width(&cut) <= columns.max(1), "{columns}: {cut}");
        }
    }

    #[test]
    fn a_wide_character_gets_a_two_column_line() {
        assert_eq!(lines("漢字", 1), ["漢", "字"]);
    }
}
