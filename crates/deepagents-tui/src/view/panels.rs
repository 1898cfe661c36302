//! Inputs, rows, menus, and questions of the program itself.

use ratatui::text::{Line, Span};

use super::items::dim;
use super::question::counted;
use crate::app::menu::Menu;
use crate::app::{App, TrustQuestion};
use crate::input::Editor;
use crate::key_map::Action;
use crate::text::{clip, count, hard_wrap, shorten, visible, width, wrap};
use crate::theme::Theme;

/// Lines, and the position of the cursor in them, if it is there.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    pub(crate) lines: Vec<Line<'static>>,
    pub(crate) cursor: Option<(usize, usize)>,
}

impl From<Vec<Line<'static>>> for Panel {
    fn from(lines: Vec<Line<'static>>) -> Self {
        Self { lines, cursor: None }
    }
}

impl Panel {
    /// Adds another panel below.
    pub(super) fn above(mut self, below: Self) -> Self {
        self.cursor = self.cursor.or(below.cursor.map(|(x, y)| (x, self.lines.len() + y)));
        self.lines.extend(below.lines);
        self
    }

    /// Shortens the panel to `rows` rows that include the one with the cursor, so that nothing is drawn at a cursor
    /// outside.
    pub(super) fn fit(&mut self, rows: usize) {
        let hidden = self.cursor.map_or(0, |(_, y)| (y + 1).saturating_sub(rows)).min(self.lines.len());
        self.lines.drain(..hidden);
        self.lines.truncate(rows);
        self.cursor = self.cursor.filter(|_| rows > 0).map(|(x, y)| (x, y - hidden));
    }
}

/// Maximum rows of an input.
const INPUT: usize = 8;

/// Renders an input of limited size, with a label before it and a hint below.
pub(super) fn input_line(
    editor: &Editor,
    lead: &'static str,
    hint: &str,
    (columns, most): (usize, usize),
    theme: Theme,
) -> Panel {
    let room = columns.saturating_sub(width(lead)).max(4);
    let (rows, (x, y)) = editor.rows(room);
    let indent = width(lead).min(columns.saturating_sub(4));
    let mut lines: Vec<Line<'static>> = rows
        .into_iter()
        .enumerate()
        .map(|(at, row)| {
            let lead = if at == 0 { Span::styled(lead, theme.accent) } else { Span::raw(" ".repeat(indent)) };
            Line::from(vec![lead, Span::raw(row)])
        })
        .collect();
    // The lines around the cursor remain visible.
    let most = most.clamp(1, INPUT);
    let cut = lines.len().saturating_sub(most).min(y);
    lines.drain(..cut);
    lines.truncate(most);
    lines.push(dim(hint, theme));
    Panel { lines, cursor: Some((indent + x, y - cut)) }
}

/// Renders keys, each with what it does.
pub(super) fn keys_line<'a>(keys: impl IntoIterator<Item = (&'a str, &'a str)>, theme: Theme) -> Line<'static> {
    let spans = |(key, what): (&str, &str)| [Span::styled(key.to_owned(), theme.selected), Span::raw(what.to_owned())];
    keys.into_iter().flat_map(spans).collect()
}

pub(super) fn row(selected: bool, label: &str, detail: &str, columns: usize, theme: Theme) -> Line<'static> {
    let (mark, style) = if selected { ("❯ ", theme.selected) } else { ("  ", ratatui::style::Style::new()) };
    let label = shorten(&visible(label), columns.saturating_sub(2));
    let mut spans = vec![Span::styled(mark, theme.selected), Span::styled(label, style)];
    if !detail.is_empty() {
        spans.push(Span::styled(format!("  {}", visible(detail)), theme.dim));
    }
    clip(&Line::from(spans), columns)
}

/// Renders the input of a provider's key, which shows only its length.
pub(super) fn secret(app: &App, provider: &str, editor: &Editor, columns: usize) -> Panel {
    let theme = app.theme;
    let title = format!("The key for {} (stored in a file that only you can read)", visible(provider));
    let mut lines = vec![clip(&Line::from(Span::styled(title, theme.heading)), columns)];
    let letters = editor.text().chars().count();
    let room = columns.saturating_sub(8);
    let shown = letters.min(room);
    lines.push(Line::from(vec![Span::styled("key: ", theme.accent), Span::raw("•".repeat(shown))]));
    lines.push(clip(&dim(format!("Enter stores it · {} back", app.keys.name(Action::Stop)), theme), columns));
    Panel { lines, cursor: Some((5 + shown, 1)) }
}

/// Renders completions.
pub(crate) fn menu(menu: &Menu, columns: usize, rows: usize, theme: Theme) -> Vec<Line<'static>> {
    // If not all rows fit, the last one says how many are hidden.
    let hidden = menu.rows.len() > rows && rows > 2;
    let (first, shown) = menu.visible(if hidden { rows - 1 } else { rows });
    let widest = shown.iter().map(|row| width(&row.text)).max().unwrap_or(0);
    let lines = shown.iter().enumerate().map(|(at, entry)| {
        let gap = if entry.detail.is_empty() { 0 } else { widest.saturating_sub(width(&entry.text)) };
        let text = format!("{}{}", entry.text, " ".repeat(gap));
        row(first + at == menu.selected, &text, &entry.detail, columns, theme)
    });
    let more = format!("  … {} more (↑ ↓)", menu.rows.len() - shown.len());
    let more = hidden.then(|| clip(&dim(more, theme), columns));
    lines.chain(more).collect()
}

/// Renders a question of the program itself in at most `rows` rows. Its keys and its subject are always visible.
pub(crate) fn trust(app: &App, question: &TrustQuestion, columns: usize, rows: usize) -> Panel {
    let theme = app.theme;
    let mut lines = trust_title(question, columns, theme);
    let title_rows = lines.len();
    lines.truncate(rows.saturating_sub(2));
    let has_title = lines.len() == title_rows;
    let room = rows.saturating_sub(lines.len() + 1);
    let body = trust_body(question, columns, theme);
    let total = body.len();
    let shown = if room == 1 && total > 1 {
        lines.extend(body.first().map(|first| counted(first, total, columns, theme)));
        1
    } else {
        lines.extend(body.into_iter().take(room));
        room
    };
    question.is_whole.set(has_title && total <= shown);
    lines.push(trust_keys(app, total.saturating_sub(shown), columns));
    lines.into()
}

/// Renders the question in full, without its keys.
pub(super) fn whole_trust(question: &TrustQuestion, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = trust_title(question, columns, theme);
    lines.extend(trust_body(question, columns, theme));
    lines
}

fn trust_title(question: &TrustQuestion, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    wrap(&Line::from(Span::styled(visible(&question.title).into_owned(), theme.bold)), columns, "")
}

fn trust_body(question: &TrustQuestion, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let body = theme.exact(&question.body);
    // The indent sets continued lines apart from other entries.
    body.lines().flat_map(|line| hard_wrap(&Line::from(format!("  {line}")), columns, "      ")).collect()
}

/// Renders its keys in one row, with the number of hidden lines.
pub(super) fn trust_keys(app: &App, more: usize, columns: usize) -> Line<'static> {
    let (theme, all) = (app.theme, app.keys.name(Action::Details));
    let told = if more > 0 { format!(" {}", count(more as u64, "more line")) } else { String::new() };
    let row = |yes: &'static str, no: &'static str, told: &str| {
        let mut line = keys_line([("y", yes), ("n", no)], theme);
        if more > 0 {
            line.spans.extend([Span::styled(all.clone(), theme.selected), Span::styled(told.to_owned(), theme.warn)]);
        }
        line
    };
    let no = if more > 0 { " not now · " } else { " not now" };
    let rows = [row(" allow them · ", no, &told), row(" allow them · ", no, ""), row(" ", " ", "")];
    let [.., short] = &rows;
    clip(rows.iter().find(|row| width(&row.to_string()) <= columns).unwrap_or(short), columns)
}
