//! What a terminal shows of a surface.

use proptest::prelude::*;
use ratatui::style::Style;

use super::*;

const COLUMNS: u16 = 12;
const ROWS: u16 = 5;

/// The line of this number. Some are as wide as the screen, or wider.
fn line(at: usize) -> String {
    format!("line {at}{}", "-".repeat(at * 3 % 14))
}

/// What is seen of a line.
fn seen(line: &str) -> String {
    line.chars().take(COLUMNS.into()).collect()
}

/// A terminal that shows the output of a surface.
struct Shown {
    surface: Surface,
    terminal: vt100::Parser,
    committed: usize,
}

impl Shown {
    fn new() -> Self {
        let terminal = vt100::Parser::new(ROWS.try_into().unwrap(), COLUMNS.try_into().unwrap(), 1000);
        Self { surface: Surface::new(COLUMNS, ROWS, true, true), terminal, committed: 0 }
    }

    /// Draws a frame: `lines` new lines above a live area of `height` rows.
    fn frame(&mut self, lines: usize, height: u16) {
        let new: Vec<Line<'_>> = (self.committed..self.committed + lines).map(|at| Line::raw(line(at))).collect();
        self.committed += lines;
        let mut live = Buffer::empty(Rect::new(0, 0, COLUMNS, height));
        for y in 0..height {
            live.set_string(0, y, format!("live {y}"), Style::default());
        }
        self.surface.shrink(height);
        if !new.is_empty() {
            self.surface.commit(&new);
        }
        self.surface.draw(&live, Some((0, height - 1)));
        self.terminal.process(&self.surface.take());
    }

    /// Returns the lines on the screen.
    fn rows(&self) -> Vec<String> {
        let rows = self.terminal.screen().rows(0, COLUMNS).map(|row| row.trim_end().to_owned());
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// Returns the lines in the scrollback and on the screen.
    fn all(&mut self) -> Vec<String> {
        let screen = self.terminal.screen_mut();
        screen.set_scrollback(usize::MAX);
        let mut rows = Vec::new();
        for back in (1..=screen.scrollback()).rev() {
            screen.set_scrollback(back);
            rows.extend(screen.rows(0, COLUMNS).next());
        }
        screen.set_scrollback(0);
        rows.extend(self.rows());
        rows
    }
}

#[test]
fn lines_committed_while_the_live_area_shrinks_stay_on_screen() {
    let mut shown = Shown::new();
    shown.frame(1, 4);
    shown.frame(3, 2);
    assert_eq!(shown.rows(), ["line 1---", "line 2------", "line 3------", "live 0", "live 1"]);
}

proptest! {
    #[test]
    fn every_line_appears_once_in_order_above_the_live_area(
        frames in prop::collection::vec((0_usize..9, 1..ROWS), 1..20),
    ) {
        let mut shown = Shown::new();
        for (lines, height) in frames {
            shown.frame(lines, height);
            let live = (0..height).map(|y| format!("live {y}"));
            let expected: Vec<String> = (0..shown.committed).map(|at| seen(&line(at))).chain(live).collect();
            prop_assert_eq!(&shown.all(), &expected);
            let seen = lines.min(usize::from(ROWS - height)) + usize::from(height);
            prop_assert!(shown.rows().len() >= seen, "{:?}", shown.rows());
        }
    }
}
