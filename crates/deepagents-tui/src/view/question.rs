//! Renders calls that need a decision.

use std::cell::RefCell;
use std::sync::Arc;

use deepagents::escape::escaped;
use deepagents::remembered::RememberedRule;
use deepagents::{ActionRequest, AnswerForm, DecisionKind};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::calls::change_lines;
use super::items::{dim, indented};
use super::panels::{Panel, input_line, keys_line};
use super::question_keys::{brief_keys, joined_keys, keys, short_keys};
use crate::app::App;
use crate::app::event::PendingApproval;
use crate::app::pending::Asking;
use crate::app::transcript::text_arg;
use crate::key_map::Action;
use crate::text::{clip, count, hard_wrap, is_context, shorten, visible, width, wrap};
use crate::theme::Theme;

/// The tool with which the agent asks the user.
const ASK_USER: &str = "ask_user";
/// Maximum characters of a sub-agent's task.
const MAX_TASK_CHARS: usize = 100;
/// The tool that runs commands.
const EXECUTE: &str = "execute";
/// Rows of the call that take precedence over the descriptions of the keys.
const MIN_BODY_ROWS: usize = 3;

/// The layout of what a call would do, and the width and theme that it was made for. `true` stands for a whole one.
type Made = ((usize, Theme, bool), Arc<Vec<Line<'static>>>);

/// The last layout of what a call would do.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaidOut(RefCell<Option<Made>>);

/// Returns the layout of everything that a call would do. Unless it `is_whole`, unchanged lines around a change take one
/// row each.
fn question_body(question: &PendingApproval, columns: usize, theme: Theme, is_whole: bool) -> Arc<Vec<Line<'static>>> {
    let wanted = (columns, theme, is_whole);
    let mut last = question.laid_out.0.borrow_mut();
    match &*last {
        Some((made, lines)) if *made == wanted => lines.clone(),
        _ => {
            let lines = Arc::new(lay_out_body(question, columns, theme, is_whole));
            *last = Some((wanted, lines.clone()));
            lines
        }
    }
}

fn lay_out_body(question: &PendingApproval, columns: usize, theme: Theme, is_whole: bool) -> Vec<Line<'static>> {
    let request = &question.request;
    let room = columns.saturating_sub(2).max(2);
    let raw: Vec<Line<'static>> = match request.tool.as_str() {
        EXECUTE => {
            let command = theme.exact(text_arg(&request.args, "command")).into_owned();
            let mut lines: Vec<Line<'static>> =
                command.split('\n').map(|line| Line::from(Span::styled(line.to_owned(), theme.bold))).collect();
            if let Some(first) = lines.first_mut() {
                first.spans.insert(0, Span::styled("$ ", theme.dim));
            }
            if let Some(timeout) = request.args.get("timeout").filter(|timeout| !timeout.is_null()) {
                lines.push(dim(format!("at most {timeout} seconds"), theme));
            }
            if request.args.get("background").and_then(Value::as_bool) == Some(true) {
                lines.push(dim("while the agent does other things", theme));
            }
            lines
        }
        "write_file" | "edit_file" => change_lines(&request.tool, &request.args, question.file.as_deref(), theme),
        _ => {
            let mut lines = Vec::new();
            // A question that a tool or its server asks comes first, then the call that it is about.
            if !request.allowed.contains(&DecisionKind::Edit) {
                lines.extend(asked_lines(request, theme));
            }
            let args = request.args.as_object().filter(|_| request.tool != ASK_USER);
            for (name, value) in args.into_iter().flatten() {
                let text = value.as_str().map_or_else(|| pretty(value), str::to_owned);
                let text = theme.exact(&text).into_owned();
                for (at, line) in text.split('\n').enumerate() {
                    let lead = if at == 0 { format!("{}: ", theme.exact(name)) } else { "  ".to_owned() };
                    lines.push(Line::from(vec![Span::styled(lead, theme.dim), Span::raw(line.to_owned())]));
                }
            }
            lines
        }
    };
    let noted = |text: String| Line::from(Span::styled(text, theme.warn));
    let leads = request.leads_to.iter().map(|path| noted(format!("the path leads to {}", theme.exact(&escaped(path)))));
    let is_change = matches!(request.tool.as_str(), "write_file" | "edit_file");
    let laid_out = |line: Line<'static>| match is_whole {
        false if is_change && is_context(&line) => vec![clip(&line, room)],
        _ => hard_wrap(&line, room, ""),
    };
    indented(leads.chain(raw).flat_map(laid_out).collect()).collect()
}

/// Renders the rule that requires the decision.
fn rule_lines(request: &ActionRequest, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let Some(rule) = &request.rule else { return Vec::new() };
    let line = dim(format!("asked by {}", theme.exact(&escaped(rule))), theme);
    indented(hard_wrap(&line, columns.saturating_sub(2).max(2), "")).collect()
}

/// Renders the question, without the part that a form shows.
fn asked_lines(request: &ActionRequest, theme: Theme) -> Vec<Line<'static>> {
    let text = match &request.form {
        // The text before the list of choices.
        Some(AnswerForm::Choices { .. }) => request.text.split("\n1. ").next().unwrap_or_default(),
        Some(AnswerForm::Fields { .. }) => {
            request.text.split("\nRespond with a JSON object").next().unwrap_or_default()
        }
        _ => request.text.as_str(),
    };
    theme.exact(text).lines().map(|line| Line::from(Span::styled(line.to_owned(), theme.bold))).collect()
}

/// Renders the answers to choose from, with their numbers.
fn choice_lines(request: &ActionRequest, columns: usize) -> Vec<Line<'static>> {
    let Some(AnswerForm::Choices { choices, .. }) = &request.form else { return Vec::new() };
    let line = |(number, choice): (usize, &String)| Line::from(format!("  {number}. {}", visible(choice)));
    (1..).zip(choices).flat_map(|choice| wrap(&line(choice), columns, "     ")).collect()
}

/// Renders the whole question, with the answers to choose from.
pub(crate) fn whole_question(question: &PendingApproval, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::clone(&question_body(question, columns, theme, true));
    lines.extend(rule_lines(&question.request, columns, theme));
    lines.extend(choice_lines(&question.request, columns));
    lines
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Renders the title of a question.
pub(crate) fn question_title(
    app: &App,
    question: &PendingApproval,
    (at, of): (usize, usize),
    columns: usize,
) -> Vec<Line<'static>> {
    let request = &question.request;
    let file = app.theme.exact(text_arg(&request.args, "file_path"));
    let what = match request.tool.as_str() {
        EXECUTE => "Run this command?".to_owned(),
        "write_file" if question.file.is_some() => format!("Overwrite {file}?"),
        "write_file" => format!("Write the new file {file}?"),
        "edit_file" => format!("Change {file}?"),
        "delete" => format!("Delete {file}?"),
        ASK_USER => "The agent asks you".to_owned(),
        tool if !request.allowed.contains(&DecisionKind::Approve) => format!("{} asks you", app.theme.exact(tool)),
        tool => format!("Call {}?", app.theme.exact(tool)),
    };
    let mut spans = vec![Span::styled("? ", app.theme.warn), Span::styled(what, app.theme.bold)];
    if of > 1 {
        spans.push(Span::styled(format!("  ({at} of {of})"), app.theme.accent));
    }
    if !request.call.path.is_empty() {
        let agent = app.live.agents.get(&request.call.path).map(|agent| agent.work.name.clone());
        let agent = request.agent.clone().or(agent);
        let agent = agent.filter(|name| !name.is_empty()).unwrap_or_else(|| "a sub-agent".to_owned());
        // Several sub-agents of a kind may be running.
        let task = app.live.task_at(&request.call.path).or(question.task.as_deref()).unwrap_or_default();
        let task = shorten(task, MAX_TASK_CHARS);
        let given = if task.is_empty() { String::new() } else { format!(" for “{}”", visible(&task)) };
        spans.push(Span::styled(format!("  asked by {}{given}", visible(&agent)), app.theme.dim));
    }
    if request.tool == EXECUTE
        && let Some(connected) = &app.session.connected
        && !connected.sandbox.is_empty()
    {
        spans.push(Span::styled(format!("  {}", connected.sandbox), app.theme.dim));
    }
    wrap(&Line::from(spans), columns, "  ")
}

/// Renders the current question in at most `rows` rows. The question and its keys are always visible.
pub(crate) fn question(app: &App, columns: usize, rows: usize) -> Panel {
    let Some(question) = app.questions.current() else { return Panel::default() };
    let theme = app.theme;
    let (esc, own) = (app.keys.name(Action::Stop), app.keys.name(Action::Editor));
    let mut title = question_title(app, question, app.questions.position(), columns);
    let input = |editor, lead, hint: &str| input_line(editor, lead, hint, (columns, rows.saturating_sub(1)), theme);
    let mut foot = match &app.questions.asking {
        Asking::Decide => wrap(&keys(app), columns, "  ").into(),
        Asking::Reason(editor) => {
            input(editor, "no, because: ", &format!("Enter refuses · {esc} back · {own} your editor"))
        }
        Asking::Respond(form) => super::form::form(app, form, columns, rows.saturating_sub(title.len() + 1)),
        Asking::Change(editor) => {
            input(editor, "instead: ", &format!("Enter runs it · {esc} back · {own} your editor"))
        }
        Asking::Remember(rule) => keeping(rule, columns, theme).into(),
    };
    let body = question_body(question, columns, theme, false);
    // A form shows the choices itself.
    let mut rest = match app.questions.asking {
        Asking::Decide => choice_lines(&question.request, columns),
        _ => Vec::new(),
    };
    let least = (body.len() + rest.len()).min(MIN_BODY_ROWS);
    if rows < title.len() + foot.lines.len() + least {
        title.truncate(1);
        match app.questions.asking {
            Asking::Decide => {
                foot.lines = wrap(&joined_keys(app, brief_keys(app)), columns, "  ");
                if rows < title.len() + foot.lines.len() + least {
                    foot.lines = vec![short_keys(app, columns)];
                }
            }
            // The last row of an input is the hint about its keys.
            Asking::Reason(_) | Asking::Change(_) => drop(foot.lines.pop()),
            Asking::Respond(_) | Asking::Remember(_) => {}
        }
        // A command is recognisable without a title; a change needs the name of its file.
        if rows < foot.lines.len() + 2 && question.request.tool == EXECUTE {
            title.clear();
        }
    } else {
        rest.extend(rule_lines(&question.request, columns, theme));
    }
    if let Some(problem) = &app.questions.problem {
        foot.lines.extend(wrap(&Line::from(Span::styled(visible(problem).into_owned(), theme.bad)), columns, ""));
    }
    let room = rows.saturating_sub(title.len() + foot.lines.len());
    let total = body.len() + rest.len();
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
        let (more, key) = (count((total - shown) as u64, "more line"), app.keys.name(Action::Details));
        let text = format!("  … {more} of {total} ({key} shows all)");
        lines.push(clip(&Line::from(Span::styled(text, theme.warn)), columns));
    }
    Panel::from(lines).above(foot)
}

/// Renders a line that stands for `total` lines, clipped to fit.
pub(super) fn counted(line: &Line<'static>, total: usize, columns: usize, theme: Theme) -> Line<'static> {
    let told = format!(" … {}", count(total as u64, "line"));
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
