//! Tables with aligned columns.

use pulldown_cmark::Alignment;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::{line_width, width, wrap};
use crate::theme::Theme;

/// Minimum width of a column, if there is room.
const MIN_COLUMN_WIDTH: usize = 4;

/// A table that is being parsed.
pub(super) struct Table {
    rows: Vec<Vec<Vec<Span<'static>>>>,
    alignments: Vec<Alignment>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self { rows: Vec::new(), alignments }
    }

    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self) {
        if let Some(row) = self.rows.last_mut() {
            row.push(Vec::new());
        }
    }

    pub(super) fn text(&mut self, text: &str, style: Style) {
        if let Some(cell) = self.rows.last_mut().and_then(|row| row.last_mut()) {
            cell.push(Span::styled(text.to_owned(), style));
        }
    }

    /// Renders the table within `room` columns. Cells that do not fit are wrapped.
    pub(super) fn lines(&self, room: usize, theme: Theme) -> Vec<Line<'static>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let free = room.saturating_sub(columns.saturating_sub(1) * 3);
        let widths = self.widths(columns, free);
        // Side by side, the columns might not fit on the screen.
        if theme.spoken || widths.iter().sum::<usize>() > free {
            return self.spoken_lines(room);
        }
        let mut out = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let cell = |(column, room): (usize, &usize)| {
                wrap(&Line::from(row.get(column).cloned().unwrap_or_default()), *room, "")
            };
            let cells: Vec<Vec<Line<'static>>> = widths.iter().enumerate().map(cell).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let mut spans = Vec::new();
                for (column, (room, lines)) in widths.iter().zip(&cells).enumerate() {
                    if column > 0 {
                        spans.push(Span::styled(" │ ", theme.dim));
                    }
                    let part = lines.get(line).cloned().unwrap_or_default();
                    let free = room.saturating_sub(line_width(&part));
                    let before = match self.alignments.get(column) {
                        Some(Alignment::Right) => free,
                        Some(Alignment::Center) => free / 2,
                        _ => 0,
                    };
                    spans.push(Span::raw(" ".repeat(before)));
                    spans.extend(part.spans);
                    if column + 1 < widths.len() {
                        spans.push(Span::raw(" ".repeat(free - before)));
                    }
                }
                out.push(Line::from(spans));
            }
            if at == 0 {
                let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                out.push(Line::from(Span::styled(rule.join("─┼─"), theme.dim)));
            }
        }
        out
    }

    /// Renders rows for screen readers, and for tables that are too wide: each cell after the heading of its column.
    fn spoken_lines(&self, room: usize) -> Vec<Line<'static>> {
        let mut rows = self.rows.iter();
        // A heading without rows is read as a row.
        let heads = if self.rows.len() > 1 { rows.next().cloned().unwrap_or_default() } else { Vec::new() };
        let of_row = |row: &Vec<Vec<Span<'static>>>| {
            let mut spans = Vec::new();
            for (at, cell) in row.iter().enumerate() {
                if at > 0 {
                    spans.push(Span::raw("; "));
                }
                if let Some(head) = heads.get(at).filter(|head| !head.is_empty()) {
                    spans.extend(head.iter().cloned());
                    spans.push(Span::raw(": "));
                }
                spans.extend(cell.iter().cloned());
            }
            wrap(&Line::from(spans), room.max(1), "")
        };
        rows.flat_map(of_row).collect()
    }

    /// Returns the widths of the columns: those of their contents, with the widest reduced to fit.
    fn widths(&self, columns: usize, room: usize) -> Vec<usize> {
        let mut widths = vec![1; columns];
        for row in &self.rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = cell.iter().map(|span| width(&span.content)).sum::<usize>().max(*widest);
            }
        }
        while widths.iter().sum::<usize>() > room {
            let Some(widest) = widths.iter_mut().max() else { break };
            if *widest <= MIN_COLUMN_WIDTH {
                break;
            }
            *widest -= 1;
        }
        widths
    }
}
