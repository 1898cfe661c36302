//! Renders the view that covers the screen.

use ratatui::buffer::Buffer;
use ratatui::text::{Line, Span};

use super::live::paint;
use super::panels::{keys_line, trust_keys};
use super::question_keys::{keys, short_keys};
use super::standing::{mode, question_waits};
use crate::app::event::PendingApproval;
use crate::app::pager::{Pager, Source};
use crate::app::transcript::text_arg;
use crate::app::{App, Overlay};
use crate::key_map::Action;
use crate::text::{clip, visible, wrap};
use crate::theme::Theme;

/// Draws the pager, with its keys in the last rows.
pub(crate) fn pager(app: &mut App) -> Option<Buffer> {
    let Overlay::Pager(mut pager) = std::mem::take(&mut app.overlay) else { return None };
    let (columns, rows) = (usize::from(app.size.0), usize::from(app.size.1));
    let room = rows.saturating_sub(foot(app, &pager, columns, rows).len()).max(1);
    let source = pager.source.clone();
    let (parts, part) = super::parts(app, &source, columns);
    let mut lines = pager.view(room, parts, part);
    lines.resize(room, Line::default());
    // What it says about the rest depends on what is in view.
    lines.extend(foot(app, &pager, columns, rows));
    lines.truncate(rows.max(1));
    app.overlay = Overlay::Pager(pager);
    Some(paint(&lines.into(), columns).0)
}

/// Renders the tool of a call, and its file.
pub(super) fn subject(question: &PendingApproval, theme: Theme) -> Line<'static> {
    let file = text_arg(&question.request.args, "file_path");
    let text = format!("? {} {}", theme.exact(&question.request.tool), theme.exact(file));
    Line::from(Span::styled(text, theme.warn))
}

fn foot(app: &App, pager: &Pager, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let back = app.keys.name(Action::Details);
    let scrolls = match app.must_read_on(pager) && !pager.has_shown_end() {
        true => Span::styled(format!(" · more below (y, PgDn) · {back} back"), app.theme.warn),
        false => Span::styled(format!(" · PgUp PgDn ↑ ↓ scroll · {back} back"), app.theme.dim),
    };
    let scroll = Line::from(vec![mode(app), scrolls]);
    let mut lines = match &pager.source {
        Source::Approval(question) => {
            let mut lines = vec![clip(&subject(question, app.theme), columns)];
            let keys = wrap(&keys(app), columns, "  ");
            // The contents have at least half of the screen.
            lines.extend(if keys.len() + 2 > rows / 2 { vec![short_keys(app, columns)] } else { keys });
            lines.push(clip(&scroll, columns));
            lines
        }
        Source::Together(calls) => {
            let title = Line::from(Span::styled(format!("? All {} of them?", calls.len()), app.theme.warn));
            let esc = app.keys.name(Action::Stop);
            let keys = [("y", " yes to all · "), ("n", " no to all · "), (&*esc, " one by one")];
            vec![clip(&title, columns), clip(&keys_line(keys, app.theme), columns), clip(&scroll, columns)]
        }
        // If there is little room, the keys remain.
        Source::Trust(_) => vec![trust_keys(app, 0, columns), clip(&scroll, columns)],
        Source::Preview(picker) => {
            let label = picker.current().map(|choice| choice.label).unwrap_or_default();
            let title = format!("before “{}”", visible(&label));
            vec![clip(&Line::from(Span::styled(title, app.theme.heading)), columns), clip(&scroll, columns)]
        }
        Source::Items { title, .. } => {
            let title = Line::from(Span::styled(visible(title).into_owned(), app.theme.heading));
            vec![clip(&title, columns), clip(&scroll, columns)]
        }
        Source::Conversation => vec![clip(&scroll, columns)],
    };
    // The foot of a pager that shows a question already refers to it.
    if !app.questions.is_empty() && !matches!(pager.source, Source::Approval(_) | Source::Together(_)) {
        lines.insert(0, question_waits(app, columns));
    }
    lines
}
