//! Renders the form for a question.

use ratatui::text::{Line, Span};

use super::panels::{input_line, row};
use crate::app::App;
use crate::app::field::FieldInput;
use crate::app::form::Form;
use crate::key_map::Action;
use crate::text::{clip, visible, wrap};

/// Maximum number of options shown at once.
const MAX_OPTIONS: usize = 9;

/// Renders the current field within `rows` rows. Returns the position of the cursor in it.
pub(super) fn form(
    app: &App,
    form: &Form,
    columns: usize,
    rows: usize,
) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let (theme, esc) = (app.theme, app.keys.name(Action::Stop));
    let own_words = format!("type your answer · ↑ ↓ other choices · {esc} stop");
    let Some((field, number, count)) = form.current() else { return (Vec::new(), None) };
    let place = if count > 1 { format!(" ({number} of {count})") } else { String::new() };
    let title = format!("{}{place}", visible(&field.title));
    // The question is shown above; only fields have titles.
    let title = (!title.is_empty()).then(|| clip(&Line::from(Span::styled(title, theme.bold)), columns));
    let mut lines: Vec<Line<'static>> = title.into_iter().collect();
    let (options, selected, chosen, hint) = match &field.input {
        FieldInput::Text { editor, .. } => {
            let own = app.keys.name(Action::Editor);
            let hint = format!("Enter goes on · {esc} back · {own} your editor");
            let most = rows.saturating_sub(lines.len() + 1);
            let (input, cursor) = input_line(editor, "› ", &hint, (columns, most), theme);
            let cursor = cursor.map(|(x, y)| (x, lines.len() + y));
            lines.extend(input);
            return (lines, cursor);
        }
        FieldInput::Choice { options, selected } => {
            let hint = match form.is_choosing() {
                true if form.is_own_marked() => own_words,
                true => format!("↑ ↓ or its number · Enter answers · n no · f no, because… · {esc} stop"),
                false => format!("↑ ↓ choose · Enter goes on · {esc} back"),
            };
            (options, *selected, None, hint)
        }
        FieldInput::Several { options, chosen, selected } => {
            let hint = match form.is_choosing() {
                true if form.is_own_marked() => own_words,
                true => format!("↑ ↓ · Space selects · Enter answers · n no · f no, because… · {esc} stop"),
                false => format!("↑ ↓ · Space selects · Enter goes on · {esc} back"),
            };
            (options, *selected, Some(chosen), hint)
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
    lines.push(clip(&Line::from(Span::styled(hint, theme.dim)), columns));
    (lines, None)
}
