//! Messages as text, for the history file and the summarizing model.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use deepagents_core::message::{Author, Block, Media, MediaKind, MediaSource, Message};
use deepagents_fs::VPath;

/// The files of stored media, by the message's index in a list and the block's index in the message.
pub(super) type Stored = BTreeMap<(usize, usize), VPath>;

/// Formats a message with its number in the thread. Reasoning is left out.
pub(super) fn message(message: &Message, number: usize, place: usize, stored: &Stored) -> String {
    let mut out = match message {
        Message::User(user) if user.author == Author::Harness => format!("### {number} note of the harness"),
        Message::User(_) => format!("### {number} user"),
        Message::Assistant(_) => format!("### {number} assistant"),
        Message::Tool(result) => {
            let outcome = if result.is_error { ", failed" } else { "" };
            format!("### {number} result of {} ({}{outcome})", result.name, result.call_id)
        }
        _ => format!("### {number}"),
    };
    out.push('\n');
    for (at, block) in message.content().iter().enumerate() {
        match block {
            Block::Text(text) => out.push_str(&text.text),
            Block::ToolCall(call) => {
                let _ = write!(out, "call {} ({}): {}", call.name, call.id, call.args);
            }
            Block::InvalidToolCall(call) => {
                let _ = write!(out, "malformed call {} ({}): {}", call.name, call.id, call.raw);
            }
            Block::Media(media) => out.push_str(&tag(media, stored.get(&(place, at)))),
            Block::ProviderItem(item) => {
                let item = item.native.value();
                let kind = item.get("type").and_then(serde_json::Value::as_str).unwrap_or("item");
                if !kind.contains("thinking") && !kind.contains("reasoning") {
                    let _ = write!(out, "{kind}: {}", item.to_string().chars().take(500).collect::<String>());
                }
            }
            _ => continue,
        }
        if !out.ends_with('\n') {
            out.push('\n');
        }
    }
    out
}

fn tag(media: &Media, stored: Option<&VPath>) -> String {
    let kind = match media.kind {
        MediaKind::Image => "image",
        MediaKind::Audio => "audio",
        MediaKind::Video => "video",
        _ => "file",
    };
    let name = media.name.as_deref().map(|name| format!(" name={name:?}")).unwrap_or_default();
    match (stored, &media.source) {
        (Some(path), _) => format!("<{kind} file=\"{path}\"{name}/>"),
        (None, MediaSource::Url(url)) if !url.starts_with("data:") => format!("<{kind} url=\"{url}\"{name}/>"),
        (None, MediaSource::FileId(id)) => format!("<{kind} id=\"{id}\"{name}/>"),
        (None, _) => format!("<{kind}{name}/>"),
    }
}
