//! Short, readable renderings of model requests, for snapshots.
//!
//! A snapshot of a whole request is too long to read and changes with every word of a prompt. Its shape shows what
//! matters for the harness: the blocks and tools, the structure of the conversation, and the cache breakpoints.
//!
//! | line | |
//! |---|---|
//! | `system 2 blocks 340 chars *5m` | blocks and characters of the system prompt; a `*` per breakpoint, with the number of the block before it unless that is the last: `*1:1h` |
//! | `tools ls read_file *5m` | the names in the order sent, and the breakpoint after them |
//! | `choice …`, `parallel …`, `output …`, `settings …` | only what is set |
//! | `01 user "text"` | one line per message, counted from 1; `harness` for a message of the harness in the user's role |
//! | `02 assistant thinking+"text"+call ls{"path":"/"}#c1` | the blocks in order; `#` and the call id |
//! | `03 tool c1 ok "text" *5m` | the id of the answered call, `ok` or `error`, and a breakpoint after the message |

use std::fmt::Write as _;

use deepagents_core::message::{Author, Block, MediaKind, MediaSource, Message};
use deepagents_core::model::{CacheTtl, ModelRequest, ToolChoice};

/// Maximum number of characters shown of a text or of arguments.
const MAX_CHARS: usize = 60;

/// Returns the shape of a request: one line per item that the model is shown, without a final line break.
///
/// ```
/// use deepagents_core::message::{AssistantMessage, Block, Message, ToolMessage};
/// use deepagents_core::model::{CacheTtl, ModelRequest, SystemBlock};
/// use deepagents_testing::shapes::shape;
/// use serde_json::json;
///
/// let call = Block::call("c1", "ls", json!({"path": "/"}));
/// let mut request = ModelRequest::new(vec![
///     Message::user("What is here?"),
///     Message::Assistant(AssistantMessage::new(vec![Block::text("I shall look."), call])),
///     Message::Tool(ToolMessage::error("c1", "ls", "no such directory")),
/// ]);
/// request.system = vec![SystemBlock::new("Be brief.").cached(CacheTtl::FiveMinutes)];
///
/// assert_eq!(
///     shape(&request),
///     r#"system 1 block 9 chars *5m
/// 01 user "What is here?"
/// 02 assistant "I shall look."+call ls{"path":"/"}#c1
/// 03 tool c1 error "no such directory""#
/// );
/// ```
pub fn shape(request: &ModelRequest) -> String {
    let mut lines = Vec::new();
    lines.extend(system(request));
    lines.extend(tools(request));
    lines.extend(options(request));
    for (at, message) in request.messages.iter().enumerate() {
        let mut line = format!("{:02} {}", at + 1, message_shape(message));
        for (_, ttl) in request.cache.messages.iter().filter(|(marked, _)| *marked == at) {
            let _ = write!(line, " *{}", ttl_name(*ttl));
        }
        lines.push(line);
    }
    lines.join("\n")
}

/// Returns the shape of one message, as a line of [`shape`] without its number.
pub fn message_shape(message: &Message) -> String {
    match message {
        Message::User(user) => {
            let who = if user.author == Author::Harness { "harness" } else { "user" };
            format!("{who} {}", blocks(&user.content))
        }
        Message::Assistant(turn) => format!("assistant {}", blocks(&turn.content)),
        Message::Tool(result) => {
            let end = if result.is_error { "error" } else { "ok" };
            format!("tool {} {end} {}", result.call_id, blocks(&result.content))
        }
        other => format!("{other:?}"),
    }
}

fn system(request: &ModelRequest) -> Option<String> {
    let count = request.system.len();
    if count == 0 {
        return None;
    }
    let chars: usize = request.system.iter().map(|block| block.text.chars().count()).sum();
    let mut line = format!("system {count} block{} {chars} chars", if count == 1 { "" } else { "s" });
    for (at, block) in request.system.iter().enumerate() {
        let Some(ttl) = block.cache else { continue };
        let after = if at + 1 == count { String::new() } else { format!("{}:", at + 1) };
        let _ = write!(line, " *{after}{}", ttl_name(ttl));
    }
    Some(line)
}

fn tools(request: &ModelRequest) -> Option<String> {
    let mut line = String::from("tools");
    for tool in &request.tools {
        let _ = write!(line, " {}", tool.name);
    }
    for tool in &request.provider_tools {
        let kind = tool.spec.get("type").and_then(serde_json::Value::as_str).unwrap_or("?");
        let _ = write!(line, " {}:{kind}", tool.provider);
    }
    if let Some(ttl) = request.cache.tools {
        let _ = write!(line, " *{}", ttl_name(ttl));
    }
    (line != "tools").then_some(line)
}

fn options(request: &ModelRequest) -> Vec<String> {
    let mut lines = Vec::new();
    match &request.tool_choice {
        ToolChoice::Auto => {}
        ToolChoice::None => lines.push("choice none".to_owned()),
        ToolChoice::Any => lines.push("choice any".to_owned()),
        ToolChoice::Tool(name) => lines.push(format!("choice tool {name}")),
        other => lines.push(format!("choice {other:?}")),
    }
    lines.extend(request.parallel_tool_calls.map(|parallel| format!("parallel {parallel}")));
    lines.extend(request.output_schema.as_ref().map(|schema| format!("output {}", schema.name)));
    let settings = &request.settings;
    let mut set = String::new();
    for (name, value) in [
        ("max_tokens", settings.max_tokens.map(|n| n.to_string())),
        ("temperature", settings.temperature.map(|n| n.to_string())),
        ("top_p", settings.top_p.map(|n| n.to_string())),
        ("stop", (!settings.stop.is_empty()).then(|| format!("{:?}", settings.stop))),
        ("timeout", settings.timeout.map(|time| format!("{time:?}"))),
        ("extra", (!settings.extra.is_empty()).then(|| serde_json::json!(settings.extra).to_string())),
    ] {
        if let Some(value) = value {
            let _ = write!(set, " {name}={}", shortened(&value));
        }
    }
    if !set.is_empty() {
        lines.push(format!("settings{set}"));
    }
    lines
}

fn blocks(content: &[Block]) -> String {
    if content.is_empty() {
        return "nothing".to_owned();
    }
    content.iter().map(block).collect::<Vec<_>>().join("+")
}

fn block(block: &Block) -> String {
    match block {
        Block::Text(text) => format!("{:?}", shortened(&text.text)),
        Block::Reasoning(_) => "thinking".to_owned(),
        Block::ToolCall(call) => format!("call {}{}#{}", call.name, shortened(&call.args.to_string()), call.id),
        Block::InvalidToolCall(call) => format!("invalid call {} {:?}#{}", call.name, shortened(&call.raw), call.id),
        Block::Media(media) => {
            let kind = match media.kind {
                MediaKind::Image => "image",
                MediaKind::Audio => "audio",
                MediaKind::Video => "video",
                _ => "file",
            };
            let source = match &media.source {
                MediaSource::Base64(data) => format!("{} chars", data.chars().count()),
                MediaSource::Url(url) => shortened(url),
                MediaSource::FileId(id) => id.clone(),
                other => format!("{other:?}"),
            };
            format!("{kind} {} {source}", media.mime)
        }
        Block::ProviderItem(item) => {
            let kind = item.native.value().get("type").and_then(serde_json::Value::as_str);
            format!("opaque {}", kind.unwrap_or("item"))
        }
        other => format!("{other:?}"),
    }
}

fn ttl_name(ttl: CacheTtl) -> &'static str {
    match ttl {
        CacheTtl::FiveMinutes => "5m",
        CacheTtl::OneHour => "1h",
    }
}

/// Replaces the middle of a long text by the number of characters left out.
fn shortened(text: &str) -> String {
    let length = text.chars().count();
    if length <= MAX_CHARS {
        return text.to_owned();
    }
    let head: String = text.chars().take(MAX_CHARS * 2 / 3).collect();
    let tail: String = text.chars().skip(length - MAX_CHARS / 6).collect();
    format!("{head}…{}…{tail}", length - MAX_CHARS * 2 / 3 - MAX_CHARS / 6)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use deepagents_core::message::{
        AssistantMessage, InvalidToolCall, Media, ProviderBlock, ProviderItem, Reasoning, ToolMessage, UserMessage,
    };
    use deepagents_core::model::{OutputSchema, SystemBlock};
    use deepagents_core::tool::ToolSpec;
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_shown_to_a_model_appears_in_the_shape() {
        let media = Block::Media(Media {
            kind: MediaKind::Image,
            mime: "image/png".into(),
            source: MediaSource::Base64("aGVsbG8=".into()),
            name: None,
        });
        let native = ProviderItem::new(json!({"type": "server_tool_use"}));
        let invalid =
            InvalidToolCall { id: "c2".into(), name: "ls".into(), raw: "{".into(), error: "cut".into(), native: None };
        let mut request = ModelRequest::new(vec![
            Message::User(UserMessage { content: vec![Block::text("Look:\nhere"), media], ..Default::default() }),
            Message::Assistant(AssistantMessage::new(vec![
                Block::Reasoning(Reasoning::default()),
                Block::ProviderItem(ProviderBlock { native }),
                Block::call("c1", "write_file", json!({"content": "é".repeat(200)})),
                Block::InvalidToolCall(invalid),
            ])),
            Message::Tool(ToolMessage { call_id: "c1".into(), ..Default::default() }),
            Message::Tool(ToolMessage::error("c2", "ls", "arguments are not JSON")),
            Message::harness("Go on."),
        ]);
        let block = |text: &str, cache| SystemBlock { cache, ..SystemBlock::new(text) };
        request.system = vec![block("Be brief.", Some(CacheTtl::OneHour)), block("Mémoire", None)];
        let tool = |name: &str| ToolSpec { name: name.into(), description: String::new(), schema: Arc::default() };
        request.tools = vec![Arc::new(tool("ls")), Arc::new(tool("write_file"))];
        request.tool_choice = ToolChoice::Tool("ls".into());
        request.parallel_tool_calls = Some(false);
        request.output_schema = Some(OutputSchema { name: "answer".into(), schema: Arc::default() });
        request.settings.max_tokens = Some(100);
        request.cache.tools = Some(CacheTtl::OneHour);
        request.cache.messages = vec![(4, CacheTtl::FiveMinutes)];
        assert_eq!(
            shape(&request),
            [
                "system 2 blocks 16 chars *1:1h",
                "tools ls write_file *1h",
                "choice tool ls",
                "parallel false",
                "output answer",
                "settings max_tokens=100",
                r#"01 user "Look:\nhere"+image image/png 8 chars"#,
                &format!(
                    r##"02 assistant thinking+opaque server_tool_use+call write_file{{"content":"{}…164…{}"}}#c1+invalid call ls "{{"#c2"##,
                    "é".repeat(28),
                    "é".repeat(8),
                ),
                "03 tool c1 ok nothing",
                r#"04 tool c2 error "arguments are not JSON""#,
                r#"05 harness "Go on." *5m"#,
            ]
            .join("\n")
        );
    }

    #[test]
    fn an_empty_request_has_an_empty_shape() {
        assert_eq!(shape(&ModelRequest::default()), "");
    }
}
