//! Renders what a call that needs a decision would do.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use deepagents::escape::escaped;
use deepagents::{ActionRequest, AnswerForm, DecisionKind};
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::calls::change_lines;
use super::items::{dim, indented};
use super::question_title::{ASK_USER, EXECUTE};
use crate::app::event::PendingApproval;
use crate::app::transcript::text_arg;
use crate::text::{clip, hard_wrap, is_context, visible, wrap};
use crate::theme::Theme;

/// The layout of what a call would do, and the width and theme that it was made for. `true` stands for a whole one.
type Made = ((usize, Theme, bool), Arc<Vec<Line<'static>>>);

/// The last layout of what a call would do.
#[derive(Clone, Debug, Default)]
pub(crate) struct LaidOut {
    made: RefCell<Option<Made>>,
    /// Whether the question, as it was last drawn, shows the whole call. `None` if it has not been drawn.
    shows_all: Cell<Option<bool>>,
}

impl LaidOut {
    /// Returns whether the question, as it was last drawn, shows the whole call. `None` if it has not been drawn.
    pub(crate) fn shows_all(&self) -> Option<bool> {
        self.shows_all.get()
    }

    pub(super) fn drawn(&self, shows_all: bool) {
        self.shows_all.set(Some(shows_all));
    }
}

/// Returns the layout of everything that a call would do. Unless it `is_whole`, unchanged lines around a change take one
/// row each.
pub(super) fn question_body(
    question: &PendingApproval,
    columns: usize,
    theme: Theme,
    is_whole: bool,
) -> Arc<Vec<Line<'static>>> {
    let wanted = (columns, theme, is_whole);
    let mut last = question.laid_out.made.borrow_mut();
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
pub(super) fn rule_lines(request: &ActionRequest, columns: usize, theme: Theme) -> Vec<Line<'static>> {
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
pub(super) fn choice_lines(request: &ActionRequest, columns: usize) -> Vec<Line<'static>> {
    let Some(AnswerForm::Choices { choices, .. }) = &request.form else { return Vec::new() };
    let line = |(number, choice): (usize, &String)| Line::from(format!("  {number}. {}", visible(choice)));
    (1..).zip(choices).flat_map(|choice| wrap(&line(choice), columns, "     ")).collect()
}

/// Renders the whole question, with the answers to choose from.
pub(super) fn whole_question(question: &PendingApproval, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::clone(&question_body(question, columns, theme, true));
    lines.extend(rule_lines(&question.request, columns, theme));
    lines.extend(choice_lines(&question.request, columns));
    lines
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
