//! The keys of a question, as many as fit.

use deepagents::DecisionKind;
use deepagents::remembered::RememberedRule;
use ratatui::text::{Line, Span};
use serde_json::Value;

use crate::app::App;
use crate::key_map::Action;
use crate::text::clip;
use crate::theme::Theme;

/// Maximum characters of a command that is repeated in a rule.
const MAX_RULE_CHARS: usize = 60;

/// Returns the keys available at the question, with their descriptions.
fn offered_keys(app: &App) -> Vec<(String, String)> {
    let always = app.session_rule().map(|rule| format!("always {}", app.theme.exact(&rule.to_string())));
    let lasting =
        app.lasting_rule().map(|rule| format!("in this directory always {}", rule_description(&rule, app.theme)));
    let allows = |kind| app.questions.allows(kind);
    let (approves, rejects) = (allows(DecisionKind::Approve), allows(DecisionKind::Reject));
    let words = app.questions.accepts_only_text();
    let is_offered = |is_it: bool, what: &str| is_it.then(|| what.to_owned());
    let esc = app.keys.name(Action::Stop);
    let all = [
        ("y", is_offered(approves, "yes")),
        // At a question for a text, the user types the answer.
        ("type", is_offered(words, "your answer")),
        (
            "r",
            is_offered(allows(DecisionKind::Respond) && !approves && !words && !app.questions.has_choices(), "answer"),
        ),
        ("n", is_offered(rejects && !words, "no")),
        ("a", always),
        ("p", lasting),
        (if words { "Tab" } else { "f" }, is_offered(rejects, "no, because…")),
        ("t", is_offered(!app.questions.together().is_empty(), "all together")),
        ("e", is_offered(allows(DecisionKind::Edit), "edit")),
        (&*esc, is_offered(true, "stop")),
    ];
    all.into_iter().filter_map(|(key, what)| Some((key.to_owned(), what?))).collect()
}

/// Returns the keys without a description of the rules, for little room.
pub(super) fn brief_keys(app: &App) -> Vec<(String, String)> {
    let brief = |(key, what): (String, String)| match key.as_str() {
        "a" => (key, "always".to_owned()),
        "p" => (key, "here always".to_owned()),
        _ => (key, what),
    };
    offered_keys(app).into_iter().map(brief).collect()
}

/// Renders the keys of a question.
pub(crate) fn keys(app: &App) -> Line<'static> {
    joined_keys(app, offered_keys(app))
}

pub(super) fn joined_keys(app: &App, keys: Vec<(String, String)>) -> Line<'static> {
    let theme = app.theme;
    let mut spans = Vec::new();
    if app.is_writing() && app.overlay.is_none() {
        spans.push(Span::styled("once the input is empty (Ctrl+C): ", theme.warn));
    }
    for (at, (key, what)) in keys.into_iter().enumerate() {
        if at > 0 {
            spans.push(Span::styled(" · ", theme.dim));
        }
        spans.push(Span::styled(key, theme.selected));
        spans.push(Span::raw(format!(" {what}")));
    }
    Line::from(spans)
}

/// Renders only the keys, in one row. Dispensable ones are left out first.
pub(super) fn short_keys(app: &App, columns: usize) -> Line<'static> {
    let offered = offered_keys(app).into_iter().map(|(key, _)| key);
    let mut keys: Vec<String> = offered.chain([app.keys.name(Action::Details)]).collect();
    for spare in ["t", "p", "e", "a", "f"] {
        if keys.join(" ").len() > columns {
            keys.retain(|key| key != spare);
        }
    }
    clip(&Line::from(Span::styled(keys.join(" "), app.theme.selected)), columns)
}

/// Describes briefly what a rule for the directory covers. The call that it was made from is shown above.
fn rule_description(rule: &RememberedRule, theme: Theme) -> String {
    let path = rule.args.get("file_path").and_then(Value::as_str).filter(|_| rule.with_others);
    let command = rule.command.as_ref().map(|command| command.commands.join("` or `"));
    match (command, path) {
        (Some(command), _) if command.chars().count() <= MAX_RULE_CHARS => format!("only `{}`", theme.exact(&command)),
        (_, Some(path)) => format!("{} of {}", theme.exact(&rule.tool), theme.exact(path)),
        _ => "this very call".to_owned(),
    }
}
