//! A form that a question is answered with.

use ratatui::text::{Line, Span};

use super::panels::{input_line, row};
use crate::app::form::{FieldInput, Form};
use crate::text::{clip, visible, wrap};
use crate::theme::Theme;

/// Options that are shown at once.
const OPTIONS: usize = 8;

/// The present field, and where the cursor is in it.
pub(super) fn form(form: &Form, columns: usize, theme: Theme) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let Some((field, number, count)) = form.current() else { return (Vec::new(), None) };
    let place = if count > 1 { format!(" ({number} of {count})") } else { String::new() };
    let title = format!("{}{place}", visible(&field.title));
    // What is asked stands above; only fields have names.
    let title = (!title.is_empty()).then(|| clip(&Line::from(Span::styled(title, theme.bold)), columns));
    let mut lines: Vec<Line<'static>> = title.into_iter().collect();
    let (options, selected, chosen, hint) = match &field.input {
        FieldInput::Text { editor, .. } => {
            let (input, cursor) = input_line(editor, "› ", "Enter goes on · Esc back", columns, theme);
            let cursor = cursor.map(|(x, y)| (x, lines.len() + y));
            lines.extend(input);
            return (lines, cursor);
        }
        FieldInput::Choice { options, selected } => (options, *selected, None, "↑ ↓ choose · Enter goes on · Esc back"),
        FieldInput::Several { options, chosen, selected } => {
            (options, *selected, Some(chosen), "↑ ↓ · Space takes or leaves · Enter goes on · Esc back")
        }
    };
    let first = selected.saturating_sub(OPTIONS - 1);
    for (at, option) in options.iter().enumerate().skip(first).take(OPTIONS) {
        let mark = match chosen.and_then(|chosen| chosen.get(at)) {
            Some(true) => "☑ ",
            Some(false) => "☐ ",
            None => "",
        };
        let label = format!("{mark}{}", option.label);
        if at == selected {
            // The one that is chosen is read whole.
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
