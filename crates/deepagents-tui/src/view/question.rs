//! Renders calls that need a decision.

use deepagents::DecisionKind;
use deepagents::remembered::RememberedRule;
use ratatui::text::{Line, Span};

use super::panels::{Panel, input_line, keys_line};
use super::question_body::{choice_lines, question_body, rule_lines};
use super::question_keys::{brief_keys, joined_keys, keys, short_keys};
use super::question_title::{EXECUTE, question_title, short_title};
use crate::app::App;
use crate::app::event::PendingApproval;
use crate::app::pending::Asking;
use crate::key_map::Action;
use crate::text::{clip, count, line_width, visible, width, wrap};
use crate::theme::Theme;

/// Rows of the call that take precedence over the descriptions of the keys.
const MIN_BODY_ROWS: usize = 3;

/// Renders the current question in at most `rows` rows. The question and its keys are always visible.
pub(crate) fn question(app: &App, columns: usize, rows: usize) -> Panel {
    let Some(question) = app.questions.current() else { return Panel::default() };
    let theme = app.theme;
    let mut title = question_title(app, question, app.questions.position(), columns);
    let mut foot = foot(app, title.len(), (columns, rows));
    let body = question_body(question, columns, theme, false);
    // A form shows the choices itself.
    let mut rest = match app.questions.asking {
        Asking::Decide => choice_lines(&question.request, columns),
        _ => Vec::new(),
    };
    let of_call = body.len() + rest.len();
    let least = of_call.min(MIN_BODY_ROWS);
    let mut names_all = true;
    if rows < title.len() + foot.lines.len() + least {
        shorten_foot(app, &mut foot, least, (columns, rows));
        // A command is recognisable without a title; a change needs the name of its file.
        if rows < foot.lines.len() + 2 && question.request.tool == EXECUTE {
            title.clear();
        } else {
            // Without a row of its own, the body is counted in the title's.
            let shared = if rows > foot.lines.len() + 1 { 0 } else { width(&count_of(of_call)) };
            (title, names_all) = one_row(app, question, title, columns.saturating_sub(shared));
        }
    } else {
        rest.extend(rule_lines(&question.request, columns, theme));
    }
    if let Some(problem) = &app.questions.problem {
        foot.lines.extend(wrap(&Line::from(Span::styled(visible(problem).into_owned(), theme.bad)), columns, ""));
    }
    let room = rows.saturating_sub(title.len() + foot.lines.len());
    let total = body.len() + rest.len();
    let visible_rows = if total <= room { total } else { room.saturating_sub(1) };
    question.laid_out.drawn(names_all && visible_rows >= of_call);
    let mut body = body.iter().chain(&rest);
    let mut lines = title;
    match (room, lines.pop()) {
        // The title and the body share one row.
        (0, Some(last)) if total > 0 => lines.push(counted(&last, total, columns, theme)),
        (_, last) => lines.extend(last),
    }
    if total <= room {
        lines.extend(body.cloned());
    } else if room == 1 {
        lines.extend(body.next().map(|first| counted(first, total, columns, theme)));
    } else if let Some(shown) = room.checked_sub(1) {
        lines.extend(body.take(shown).cloned());
        lines.push(left_out(app, total - shown, total, columns));
    }
    Panel::from(lines).above(foot)
}

/// Renders what is below the call: the keys, or the input of what is being typed.
fn foot(app: &App, title_rows: usize, (columns, rows): (usize, usize)) -> Panel {
    let (esc, own) = (app.keys.name(Action::Stop), app.keys.name(Action::Editor));
    let input = |editor, lead, enter: &str| {
        let hint = format!("Enter {enter} · {esc} back · {own} your editor");
        input_line(editor, lead, &hint, (columns, rows.saturating_sub(1)), app.theme)
    };
    match &app.questions.asking {
        Asking::Decide => wrap(&keys(app), columns, "  ").into(),
        Asking::Reason(editor) => input(editor, "no, because: ", "refuses"),
        Asking::Respond(form) => super::form::form(app, form, columns, rows.saturating_sub(title_rows + 1)),
        Asking::Change(editor) => input(editor, "instead: ", "runs it"),
        Asking::Remember(rule) => keeping(rule, columns, app.theme).into(),
    }
}

/// Leaves out what is dispensable below the call, for little room.
fn shorten_foot(app: &App, foot: &mut Panel, least: usize, (columns, rows): (usize, usize)) {
    match app.questions.asking {
        Asking::Decide => {
            foot.lines = wrap(&joined_keys(app, brief_keys(app)), columns, "  ");
            if rows < 1 + foot.lines.len() + least {
                foot.lines = vec![short_keys(app, columns)];
            }
        }
        // The last row of an input is the hint about its keys.
        Asking::Reason(_) | Asking::Change(_) => drop(foot.lines.pop()),
        Asking::Respond(_) | Asking::Remember(_) => {}
    }
}

/// Shortens a title to one row. Returns whether it still names the whole path of the file that the call is about, or
/// has all its text if it is about no file.
fn one_row(
    app: &App,
    question: &PendingApproval,
    mut title: Vec<Line<'static>>,
    columns: usize,
) -> (Vec<Line<'static>>, bool) {
    if title.len() == 1 && title.iter().all(|line| line_width(line) <= columns) {
        return (title, true);
    }
    match short_title(app, question, app.questions.position(), columns) {
        Some((line, names_all)) => (vec![line], names_all),
        None => {
            let is_whole = title.len() == 1;
            title.truncate(1);
            (title, is_whole)
        }
    }
}

/// Renders the number of lines that are left out, and which keys show them.
fn left_out(app: &App, more: usize, total: usize, columns: usize) -> Line<'static> {
    let (more, details) = (count(more as u64, "more line"), app.keys.name(Action::Details));
    let is_next = app.questions.allows(DecisionKind::Approve) && !app.questions.is_all_shown();
    let texts = if is_next {
        [format!("  … {more} of {total} (y or {details} shows all)"), format!("  … {more} of {total} (y shows all)")]
    } else {
        [format!("  … {more} of {total} ({details} shows all)"), format!("  … {more} of {total}")]
    };
    let [.., short] = &texts;
    let text = texts.iter().find(|text| width(text) <= columns).unwrap_or(short);
    clip(&Line::from(Span::styled(text.clone(), app.theme.warn)), columns)
}

/// Tells how many lines are left out.
fn count_of(total: usize) -> String {
    format!(" … {}", count(total as u64, "line"))
}

/// Renders a line that stands for `total` lines, clipped to fit.
pub(super) fn counted(line: &Line<'static>, total: usize, columns: usize, theme: Theme) -> Line<'static> {
    let told = count_of(total);
    let mut line = clip(line, columns.saturating_sub(width(&told)));
    line.spans.push(Span::styled(told, theme.warn));
    line
}

/// Renders the question whether to save a rule, which is shown as it would be saved.
fn keeping(rule: &RememberedRule, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let rule = theme.exact(&rule.to_string()).into_owned();
    let asked = Line::from(vec![
        Span::styled("allow it and keep this rule for this directory, also in later sessions? ", theme.warn),
        Span::styled(rule, theme.bold),
    ]);
    let mut lines = wrap(&asked, columns, "  ");
    let keys = keys_line([("y", " keep the rule · "), ("n", " back to the question")], theme);
    lines.push(clip(&keys, columns));
    lines
}
