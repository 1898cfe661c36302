//! Questions, lists and menus.

use deepagents::escape::escaped;
use deepagents::remembered::RememberedRule;
use deepagents::{ActionRequest, AnswerForm, DecisionKind};
use ratatui::text::{Line, Span};
use serde_json::Value;

use crate::app::App;
use crate::app::event::PendingApproval;
use crate::app::menu::Menu;
use crate::app::pending::Asking;
use crate::app::transcript::{Call, text_arg};
use crate::input::Editor;
use crate::text::{clip, count, exact, hard_wrap, shorten, visible, wrap};
use crate::theme::Theme;

use super::items::change_lines;

/// The tool with which the agent asks.
const ASK_USER: &str = "ask_user";
/// Characters of a command that is shown once more.
const LONG_RULE: usize = 60;

/// Lines, and where the cursor stands among them, if it does.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    pub(crate) lines: Vec<Line<'static>>,
    pub(crate) cursor: Option<(usize, usize)>,
}

/// Everything that a call would do.
fn question_body(question: &PendingApproval, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let request = &question.request;
    let room = columns.saturating_sub(2).max(2);
    let raw: Vec<Line<'static>> = match request.tool.as_str() {
        "execute" => {
            let command = exact(text_arg(&request.args, "command")).into_owned();
            let mut lines: Vec<Line<'static>> =
                command.split('\n').map(|line| Line::from(Span::styled(line.to_owned(), theme.bold))).collect();
            if let Some(first) = lines.first_mut() {
                first.spans.insert(0, Span::styled("$ ", theme.dim));
            }
            if let Some(timeout) = request.args.get("timeout").filter(|timeout| !timeout.is_null()) {
                lines.push(Line::from(Span::styled(format!("for {timeout} seconds at most"), theme.dim)));
            }
            if request.args.get("background").and_then(Value::as_bool) == Some(true) {
                lines.push(Line::from(Span::styled("while the agent does other things", theme.dim)));
            }
            lines
        }
        "write_file" | "edit_file" => {
            let call = Call {
                name: request.tool.clone(),
                args: request.args.clone(),
                file: question.file.clone(),
                ..Call::default()
            };
            change_lines(&call, theme)
        }
        _ => {
            let mut lines = Vec::new();
            // What a tool or its server asks by itself is the question; the call is what it is about.
            if !request.allowed.contains(&DecisionKind::Edit) {
                lines.extend(asked_lines(request, theme));
            }
            let args = request.args.as_object().filter(|_| request.tool != ASK_USER);
            for (name, value) in args.into_iter().flatten() {
                let text = value.as_str().map_or_else(|| pretty(value), str::to_owned);
                let text = exact(&text).into_owned();
                for (at, line) in text.split('\n').enumerate() {
                    let lead = if at == 0 { format!("{}: ", exact(name)) } else { "  ".to_owned() };
                    lines.push(Line::from(vec![Span::styled(lead, theme.dim), Span::raw(line.to_owned())]));
                }
            }
            lines
        }
    };
    let noted = |text: String| Line::from(Span::styled(text, theme.warn));
    let leads = request.leads_to.iter().map(|path| noted(format!("the path leads to {}", escaped(path))));
    let rule =
        request.rule.iter().map(|rule| Line::from(Span::styled(format!("asked by {}", escaped(rule)), theme.dim)));
    let raw: Vec<Line<'static>> = leads.chain(raw).chain(rule).collect();
    let wrapped = raw.iter().flat_map(|line| hard_wrap(line, room, ""));
    wrapped
        .map(|line| {
            let mut spans = vec![Span::raw("  ")];
            spans.extend(line.spans);
            Line::from(spans)
        })
        .collect()
}

/// What is asked, without what a form shows.
fn asked_lines(request: &ActionRequest, theme: Theme) -> Vec<Line<'static>> {
    let text = match &request.form {
        // The words before the answers that can be chosen.
        Some(AnswerForm::Choices { .. }) => request.text.split("\n1. ").next().unwrap_or_default(),
        Some(AnswerForm::Fields { .. }) => {
            request.text.split("\nRespond with a JSON object").next().unwrap_or_default()
        }
        _ => request.text.as_str(),
    };
    exact(text).lines().map(|line| Line::from(Span::styled(line.to_owned(), theme.bold))).collect()
}

/// The answers that can be chosen, with the numbers that choose them.
fn choice_lines(request: &ActionRequest, columns: usize) -> Vec<Line<'static>> {
    let Some(AnswerForm::Choices { choices, .. }) = &request.form else { return Vec::new() };
    let line = |(number, choice): (usize, &String)| Line::from(format!("  {number}. {}", visible(choice)));
    (1..).zip(choices).flat_map(|choice| wrap(&line(choice), columns, "     ")).collect()
}

/// Everything that is asked, with the answers that can be chosen.
pub(crate) fn whole_question(question: &PendingApproval, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = question_body(question, columns, theme);
    lines.extend(choice_lines(&question.request, columns));
    lines
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// What is asked, in a line or two.
pub(crate) fn question_title(
    app: &App,
    question: &PendingApproval,
    (at, of): (usize, usize),
    columns: usize,
) -> Vec<Line<'static>> {
    let request = &question.request;
    let what = match request.tool.as_str() {
        "execute" => "Run this command?".to_owned(),
        "write_file" if question.file.is_some() => {
            format!("Overwrite {}?", exact(text_arg(&request.args, "file_path")))
        }
        "write_file" => format!("Write the new file {}?", exact(text_arg(&request.args, "file_path"))),
        "edit_file" => format!("Change {}?", exact(text_arg(&request.args, "file_path"))),
        "delete" => format!("Delete {}?", exact(text_arg(&request.args, "file_path"))),
        ASK_USER => "The agent asks you".to_owned(),
        tool if !request.allowed.contains(&DecisionKind::Approve) => format!("{} asks you", exact(tool)),
        tool => format!("Call {}?", exact(tool)),
    };
    let mut spans = vec![Span::styled("? ", app.theme.warn), Span::styled(what, app.theme.bold)];
    if of > 1 {
        spans.push(Span::styled(format!("  ({at} of {of})"), app.theme.accent));
    }
    if !request.call.path.is_empty() {
        let agent = app.live.agents.get(&request.call.path).map(|agent| agent.work.name.clone());
        let agent = request.agent.clone().or(agent);
        let agent = agent.filter(|name| !name.is_empty()).unwrap_or_else(|| "a sub-agent".to_owned());
        spans.push(Span::styled(format!("  asked by {}", visible(&agent)), app.theme.dim));
    }
    if request.tool == "execute"
        && let Some(connected) = &app.session.connected
        && !connected.sandbox.is_empty()
    {
        spans.push(Span::styled(format!("  {}", connected.sandbox), app.theme.dim));
    }
    wrap(&Line::from(spans), columns, "  ")
}

/// A call that waits, in at most so many rows: the keys are always there.
pub(crate) fn question(app: &App, columns: usize, rows: usize) -> Panel {
    let Some(question) = app.questions.current() else { return Panel::default() };
    let theme = app.theme;
    let mut panel = Panel::default();
    let title = question_title(app, question, app.questions.position(), columns);
    let (foot, cursor) = match &app.questions.asking {
        Asking::Decide => (wrap(&keys(app), columns, "  "), None),
        Asking::Reason(editor) => input_line(editor, "no, because: ", "Enter refuses · Esc back", columns, theme),
        Asking::Respond(form) => super::form::form(form, columns, theme),
        Asking::Change(editor) => input_line(editor, "instead: ", "Enter runs it · Esc back", columns, theme),
        Asking::Keep(rule) => (keeping(rule, columns, theme), None),
    };
    let mut foot = foot;
    if let Some(problem) = &app.questions.problem {
        foot.extend(wrap(&Line::from(Span::styled(visible(problem).into_owned(), theme.bad)), columns, ""));
    }
    let room = rows.saturating_sub(title.len() + foot.len());
    let mut body = question_body(question, columns, theme);
    // A form that is filled in shows them itself.
    if matches!(app.questions.asking, Asking::Decide) {
        body.extend(choice_lines(&question.request, columns));
    }
    panel.lines = title;
    panel.lines.truncate(rows.saturating_sub(foot.len()).max(1));
    if body.len() <= room {
        panel.lines.extend(body);
    } else if room > 0 {
        let shown = room - 1;
        let more = body.len() - shown;
        let total = body.len();
        panel.lines.extend(body.into_iter().take(shown));
        let text = format!("  … {} of {total} (ctrl+o shows all)", count(more as u64, "more line"));
        panel.lines.push(clip(&Line::from(Span::styled(text, theme.warn)), columns));
    }
    panel.cursor = cursor.map(|(x, y)| (x, panel.lines.len() + y));
    panel.lines.extend(foot);
    panel
}

/// The question whether a rule is kept for good, which is shown as it would be kept.
fn keeping(rule: &RememberedRule, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let rule = exact(&rule.to_string()).into_owned();
    let asked = Line::from(vec![
        Span::styled("allow it and keep this rule for the directory, for later sessions too? ", theme.warn),
        Span::styled(rule, theme.bold),
    ]);
    let mut lines = wrap(&asked, columns, "  ");
    let keys = [("y", " keep the rule · "), ("n", " back to the question")];
    let keys = keys.into_iter().flat_map(|(key, what)| [Span::styled(key, theme.selected), Span::raw(what)]);
    lines.push(clip(&Line::from(keys.collect::<Vec<_>>()), columns));
    lines
}

/// The keys of a question.
pub(crate) fn keys(app: &App) -> Line<'static> {
    let theme = app.theme;
    let always = app.questions.rule().map(|rule| format!("always {}", exact(&rule.to_string())));
    let lasting = app.lasting_rule().map(|rule| format!("in this directory always {}", lasting_words(&rule)));
    let allows = |kind| app.questions.allows(kind);
    let (approves, rejects) = (allows(DecisionKind::Approve), allows(DecisionKind::Reject));
    let words = app.questions.wants_words();
    let answer = if app.questions.has_choices() { "answer (↑ ↓), or its number" } else { "answer" };
    let mut spans = Vec::new();
    if app.is_writing() && app.overlay.is_none() {
        spans.push(Span::styled("once the input is empty (Ctrl+C): ", theme.warn));
    }
    let lead = spans.len();
    for (key, what, offered) in [
        ("y", "yes", approves),
        // Words are what is wanted where yes is no answer.
        ("type", "your answer", words),
        ("r", answer, allows(DecisionKind::Respond) && !approves && !words),
        ("n", "no", rejects && !words),
        ("a", always.as_deref().unwrap_or_default(), always.is_some()),
        ("p", lasting.as_deref().unwrap_or_default(), lasting.is_some()),
        (if words { "Tab" } else { "f" }, "no, because…", rejects),
        ("t", "all together", !app.questions.together().is_empty()),
        ("e", "edit", allows(DecisionKind::Edit)),
        ("Esc", "stop", true),
    ] {
        if !offered {
            continue;
        }
        if spans.len() > lead {
            spans.push(Span::styled(" · ", theme.dim));
        }
        spans.push(Span::styled(key, theme.selected));
        spans.push(Span::raw(format!(" {what}")));
    }
    Line::from(spans)
}

/// What a rule for the directory covers, in few words: the call that it was made of is shown above.
fn lasting_words(rule: &RememberedRule) -> String {
    let path = rule.args.get("file_path").and_then(Value::as_str).filter(|_| rule.with_others);
    let command = rule.command.as_ref().map(|command| command.commands.join("` or `"));
    match (command, path) {
        (Some(command), _) if command.chars().count() <= LONG_RULE => format!("`{}` alone", exact(&command)),
        (_, Some(path)) => format!("{} of {}", exact(&rule.tool), exact(path)),
        _ => "this very call".to_owned(),
    }
}

/// An input with words before it and a hint below.
pub(super) fn input_line(
    editor: &Editor,
    lead: &'static str,
    hint: &'static str,
    columns: usize,
    theme: Theme,
) -> (Vec<Line<'static>>, Option<(usize, usize)>) {
    let room = columns.saturating_sub(lead.len()).max(4);
    let (rows, (x, y)) = editor.rows(room);
    let indent = lead.len().min(columns.saturating_sub(4));
    let mut lines: Vec<Line<'static>> = rows
        .into_iter()
        .enumerate()
        .map(|(at, row)| {
            let lead = if at == 0 { Span::styled(lead, theme.accent) } else { Span::raw(" ".repeat(indent)) };
            Line::from(vec![lead, Span::raw(row.text)])
        })
        .collect();
    // The end is what is being written.
    let most = 8;
    let cut = lines.len().saturating_sub(most).min(y);
    lines.drain(..cut);
    lines.truncate(most);
    lines.push(Line::from(Span::styled(hint, theme.dim)));
    (lines, Some((indent + x, y - cut)))
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

/// Typing a key, of which nothing but its length is seen.
pub(crate) fn secret(provider: &str, editor: &Editor, columns: usize, theme: Theme) -> Panel {
    let title = format!("The key of {} (it is kept in a file that only you can read)", visible(provider));
    let mut lines = vec![clip(&Line::from(Span::styled(title, theme.heading)), columns)];
    let letters = editor.text().chars().count();
    let room = columns.saturating_sub(8);
    let shown = letters.min(room);
    lines.push(Line::from(vec![Span::styled("key: ", theme.accent), Span::raw("•".repeat(shown))]));
    lines.push(clip(&Line::from(Span::styled("Enter keeps it · Esc back", theme.dim)), columns));
    Panel { lines, cursor: Some((5 + shown, 1)) }
}

/// Completions.
pub(crate) fn menu(menu: &Menu, columns: usize, rows: usize, theme: Theme) -> Vec<Line<'static>> {
    // The last row says how much more there is, where there is more.
    let hidden = menu.rows.len() > rows && rows > 2;
    let (first, shown) = menu.visible(if hidden { rows - 1 } else { rows });
    let widest = shown.iter().map(|row| crate::text::width(&row.text)).max().unwrap_or(0);
    let lines = shown.iter().enumerate().map(|(at, entry)| {
        let gap = " ".repeat(widest.saturating_sub(crate::text::width(&entry.text)));
        let text = if entry.detail.is_empty() { entry.text.clone() } else { format!("{}{gap}", entry.text) };
        row(first + at == menu.selected, &text, &entry.detail, columns, theme)
    });
    let more = format!("  … {} more (↑ ↓)", menu.rows.len() - shown.len());
    let more = hidden.then(|| clip(&Line::from(Span::styled(more, theme.dim)), columns));
    lines.chain(more).collect()
}

/// A question of the program itself.
pub(crate) fn trust(title: &str, body: &str, columns: usize, rows: usize, theme: Theme) -> Panel {
    let mut lines = wrap(&Line::from(Span::styled(visible(title).into_owned(), theme.bold)), columns, "");
    let room = rows.saturating_sub(lines.len() + 1);
    let body = exact(body).into_owned();
    let body: Vec<Line<'static>> =
        body.lines().flat_map(|line| hard_wrap(&Line::from(format!("  {line}")), columns, "")).collect();
    let more = body.len().saturating_sub(room);
    lines.extend(body.into_iter().take(room));
    let text = if more > 0 { format!("{more} more lines · ") } else { String::new() };
    lines.push(clip(
        &Line::from(vec![
            Span::styled(text, theme.warn),
            Span::styled("y", theme.selected),
            Span::raw(" allow them · "),
            Span::styled("n", theme.selected),
            Span::raw(" not now"),
        ]),
        columns,
    ));
    Panel { lines, cursor: None }
}
