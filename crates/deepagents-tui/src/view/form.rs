//! Renders the form for a question.

use ratatui::text::{Line, Span};

use super::items::dim;
use super::panels::{Panel, input_line, row};
use crate::app::App;
use crate::app::field::FieldInput;
use crate::app::form::Form;
use crate::key_map::Action;
use crate::text::{clip, visible, wrap};

/// Maximum number of options shown at once.
const MAX_OPTIONS: usize = 9;

/// Renders the current field within `rows` rows.
pub(super) fn form(app: &App, form: &Form, columns: usize, rows: usize) -> Panel {
    let (theme, esc) = (app.theme, app.keys.name(Action::Stop));
    let Some((field, number, count)) = form.current() else { return Panel::default() };
    let place = if count > 1 { format!(" ({number} of {count})") } else { String::new() };
    let title = format!("{}{place}", visible(&field.title));
    // The question is shown above; only fields have titles.
    let title = (!title.is_empty()).then(|| clip(&Line::from(Span::styled(title, theme.bold)), columns));
    let mut lines: Vec<Line<'static>> = title.into_iter().collect();
    let (options, selected, chosen, (answers, goes_on)) = match &field.input {
        FieldInput::Text { editor, .. } => {
            let own = app.keys.name(Action::Editor);
            let hint = format!("Enter goes on · {esc} back · {own} your editor");
            let most = rows.saturating_sub(lines.len() + 1);
            return Panel::from(lines).above(input_line(editor, "› ", &hint, (columns, most), theme));
        }
        FieldInput::Choice { options, selected } => (options, *selected, None, ("↑ ↓ or its number", "↑ ↓ choose")),
        FieldInput::Several { options, chosen, selected } => {
            (options, *selected, Some(chosen), ("↑ ↓ · Space selects", "↑ ↓ · Space selects"))
        }
    };
    let most = rows.saturating_sub(lines.len() + 1).clamp(1, MAX_OPTIONS);
    let first = selected.saturating_sub(most - 1);
    for (at, option) in options.iter().enumerate().skip(first).take(most) {
        let mark = match chosen.and_then(|chosen| chosen.get(at)) {
            Some(true) => "☑ ",
            Some(false) => "☐ ",
            None => "",
        };
        let number = if form.is_choosing() { format!("{}. ", at + 1) } else { String::new() };
        let label = format!("{mark}{number}{}", option.label);
        if at == selected {
            // The selected option is shown in full.
            let whole = Line::from(vec![
                Span::styled("❯ ", theme.selected),
                Span::styled(visible(&label).into_owned(), theme.selected),
            ]);
            lines.extend(wrap(&whole, columns, "    "));
        } else {
            lines.push(row(false, &label, "", columns, theme));
        }
    }
    let hint = match form.is_choosing() {
        true if form.is_own_marked() => format!("type your answer · ↑ ↓ other choices · {esc} stop"),
        true => format!("{answers} · Enter answers · n no · f no, because… · {esc} stop"),
        false => format!("{goes_on} · Enter goes on · {esc} back"),
    };
    lines.push(clip(&dim(hint, theme), columns));
    lines.into()
}
