//! Exports the conversation as Markdown, JSON or HTML.

use std::path::Path;

use serde_json::{Value, json};

use super::transcript::{AgentWork, Call, Item};

/// Returns the file name and the contents of an export. If only a format is given, the name is a default.
pub(super) fn export(given: &str, title: &str, items: &[Item]) -> (String, String) {
    let file = match given {
        "" | "md" | "markdown" => "conversation.md".to_owned(),
        "json" => "conversation.json".to_owned(),
        "html" => "conversation.html".to_owned(),
        file => file.to_owned(),
    };
    let ending = Path::new(&file).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let text = match ending.to_ascii_lowercase().as_str() {
        "json" => to_json(title, items),
        "html" | "htm" => html(title, items),
        _ => markdown(items),
    };
    (file, text)
}

/// Renders the conversation as Markdown.
fn markdown(items: &[Item]) -> String {
    let mut out = String::new();
    for item in items {
        match item {
            Item::User(text) => out += &format!("## You\n\n{text}\n\n"),
            Item::Answer(text) => out += &format!("{}\n\n", text.trim_end()),
            Item::CutAnswer(text) => out += &format!("{}\n\n*The answer broke off here.*\n\n", text.trim_end()),
            Item::Call(call) => {
                let args = call.args.to_string();
                let fence = fence(&args, 1);
                out += &format!("**{}** {fence}{args}{fence}\n\n{}", call.name, fenced(&call.result));
            }
            Item::Agent(work) => out += &format!("**{}**: {}\n\n{}", work.name, work.task, fenced(&work.answer)),
            Item::Shell { command, output, .. } => out += &format!("**$ {command}**\n\n{}", fenced(output)),
            Item::Picture(picture) => out += &format!("*{}*\n\n", picture.about),
            Item::Thinking(_)
            | Item::FileDiff { .. }
            | Item::Head { .. }
            | Item::Todos(_)
            | Item::Note { .. }
            | Item::Card { .. } => {}
        }
    }
    out
}

/// Returns more backticks than a text contains in a row, and at least `least`.
fn fence(text: &str, least: usize) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    "`".repeat((longest + 1).max(least))
}

/// Renders a text as a code block.
fn fenced(text: &str) -> String {
    if text.trim().is_empty() {
        return String::new();
    }
    let fence = fence(text, 3);
    format!("{fence}\n{}\n{fence}\n\n", text.trim_end())
}

/// Renders the conversation as JSON: `{"v": 1, "title", "items": [{"type", …}]}`.
fn to_json(title: &str, items: &[Item]) -> String {
    let items: Vec<Value> = items.iter().filter_map(item_json).collect();
    format!("{:#}\n", json!({"v": 1, "title": title, "items": items}))
}

fn item_json(item: &Item) -> Option<Value> {
    Some(match item {
        Item::User(text) => json!({"type": "user", "text": text}),
        Item::Answer(text) => json!({"type": "answer", "text": text}),
        Item::CutAnswer(text) => json!({"type": "answer", "text": text, "broke_off": true}),
        Item::Thinking(text) => json!({"type": "thinking", "text": text}),
        Item::Call(Call { name, args, result, failed, .. }) => {
            json!({"type": "call", "tool": name, "args": args, "result": result, "failed": failed})
        }
        Item::Agent(AgentWork { name, task, items, answer, failed, calls, tokens, dollars, .. }) => {
            let items: Vec<Value> = items.iter().filter_map(item_json).collect();
            json!({
                "type": "sub_agent", "name": name, "task": task, "answer": answer, "failed": failed,
                "calls": calls, "tokens": tokens, "dollars": dollars, "items": items,
            })
        }
        Item::Shell { command, output, code, .. } => {
            json!({"type": "shell", "command": command, "output": output, "exit_code": code})
        }
        Item::Picture(picture) => json!({"type": "image", "about": picture.about}),
        Item::Todos(todos) => json!({"type": "todos", "todos": todos}),
        Item::FileDiff { .. } | Item::Head { .. } | Item::Note { .. } | Item::Card { .. } => return None,
    })
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}\
    pre,.t{white-space:pre-wrap;overflow-wrap:anywhere}pre{background:#8881;padding:.6rem;border-radius:.4rem}\
    .u{border-left:.3rem solid #47a;padding-left:.8rem;font-weight:600}details{margin:.6rem 0}.f{color:#b31d28}";

/// Renders the conversation as one HTML file that loads nothing. All texts are escaped.
fn html(title: &str, items: &[Item]) -> String {
    let (title, items) = (escaped(title), items.iter().map(item_html).collect::<String>());
    format!(
        "<!doctype html>\n<html><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head><body>\n\
         <h1>{title}</h1>\n{items}</body></html>\n"
    )
}

fn item_html(item: &Item) -> String {
    let folded = |head: &str, failed: bool, body: &str| {
        let class = if failed { " class=\"f\"" } else { "" };
        format!("<details><summary{class}>{}</summary>{body}</details>\n", escaped(head))
    };
    let pre = |text: &str| format!("<pre>{}</pre>", escaped(text.trim_end()));
    match item {
        Item::User(text) => format!("<div class=\"t u\">{}</div>\n", escaped(text)),
        Item::Answer(text) => format!("<div class=\"t\">{}</div>\n", escaped(text.trim_end())),
        Item::CutAnswer(text) => {
            format!("<div class=\"t\">{}\n<i>The answer broke off here.</i></div>\n", escaped(text.trim_end()))
        }
        Item::Thinking(text) => folded("thought", false, &pre(text)),
        Item::Call(call) => {
            let body = format!("{}{}", pre(&format!("{:#}", call.args)), pre(&call.result));
            folded(&crate::view::call_title(&call.name, &call.args), call.failed, &body)
        }
        Item::Agent(work) => {
            let steps: String = work.items.iter().map(item_html).collect();
            let body = format!("{steps}{}", pre(&work.answer));
            folded(&format!("{}: {}", work.name, crate::text::shorten(&work.task, 200)), work.failed, &body)
        }
        Item::Shell { command, output, code, .. } => folded(&format!("$ {command}"), *code != Some(0), &pre(output)),
        Item::Picture(picture) => format!("<div class=\"t\"><i>{}</i></div>\n", escaped(&picture.about)),
        Item::Todos(todos) => {
            let rows: String =
                todos.iter().map(|todo| format!("<li>{} ({:?})</li>", escaped(&todo.content), todo.status)).collect();
            format!("<ul>{rows}</ul>\n")
        }
        Item::FileDiff { .. } | Item::Head { .. } | Item::Note { .. } | Item::Card { .. } => String::new(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
