//! Encodes the conversation as messages of the Converse API, whose roles alternate.

use deepagents_core::message::{AssistantMessage, Block, Media, MediaKind, MediaSource, Message, Origin, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest};
use serde_json::{Value, json};

use super::Converse;
use super::blocks::{is_servers, is_thought};
use crate::body::{Turn, has_own_call, is_from, is_thought_by, last_answer, mark_on, own_item, wire_name};
use crate::client::Target;

/// MIME types of the documents other than PDF that Converse takes, each with its name there.
pub(super) const DOCUMENTS: [(&str, &str); 8] = [
    ("text/plain", "txt"),
    ("text/markdown", "md"),
    ("text/html", "html"),
    ("text/csv", "csv"),
    ("application/msword", "doc"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
];

/// Returns a cache point, up to which the prompt is cached.
pub(super) fn cache_point(ttl: CacheTtl) -> Value {
    match ttl {
        CacheTtl::FiveMinutes => json!({"cachePoint": {"type": "default"}}),
        CacheTtl::OneHour => json!({"cachePoint": {"type": "default", "ttl": "1h"}}),
    }
}

/// A message being assembled.
struct Draft {
    is_answer: bool,
    /// Results come first.
    results: Vec<Value>,
    content: Vec<Value>,
    upto: usize,
}

/// Encodes the messages from `from` on, which is the first or follows an assistant message. Results and subsequent user
/// messages form one message.
pub(super) fn messages(
    target: &Target<Converse>,
    request: &ModelRequest,
    from: usize,
    first_marked: usize,
) -> Result<Vec<Turn<Value>>, ModelError> {
    let origin = &target.origin;
    let mut drafts: Vec<Draft> = Vec::new();
    let mut last = last_answer(request, from);
    for (index, message) in (from..).zip(request.messages.tail(from)) {
        let is_answer = message.as_assistant().is_some();
        let (mut results, mut content) = (Vec::new(), Vec::new());
        match &**message {
            Message::User(user) => content = blocks(&user.content)?,
            Message::Tool(result) => {
                let own = last.is_some_and(|answer| has_own_call(answer, origin, &result.call_id));
                results.push(tool_result(result, own)?);
            }
            Message::Assistant(answer) => {
                last = Some(answer);
                let ongoing = !request.messages.get(index + 1).is_some_and(|next| matches!(**next, Message::User(_)));
                content = assistant(answer, origin, ongoing);
            }
            _ => return Err(ModelError::invalid("a message has a role that Converse does not know")),
        }
        if results.is_empty() && content.is_empty() {
            continue;
        }
        let mark = mark_on(request, index).filter(|_| target.wire.cache_points);
        let marked = if content.is_empty() { &mut results } else { &mut content };
        marked.extend(mark.map(cache_point));
        match drafts.last_mut().filter(|draft| draft.is_answer == is_answer) {
            Some(draft) => {
                draft.results.append(&mut results);
                draft.content.append(&mut content);
                draft.upto = index + 1;
            }
            None => drafts.push(Draft { is_answer, results, content, upto: index + 1 }),
        }
    }
    let turn = |mut draft: Draft| {
        draft.results.append(&mut draft.content);
        let role = if draft.is_answer { "assistant" } else { "user" };
        // Whether a server tool call at its end is kept depends on what follows.
        let is_open = draft.results.last().and_then(|item| item.get("toolUse")).is_some_and(is_servers);
        let settled = draft.is_answer && draft.upto <= first_marked && !is_open;
        Turn { item: json!({"role": role, "content": draft.results}), upto: draft.upto, settled }
    };
    Ok(drafts.into_iter().map(turn).collect())
}

fn tool_result(result: &ToolMessage, own: bool) -> Result<Value, ModelError> {
    let mut content = blocks(&result.content)?;
    if content.is_empty() {
        content.push(json!({"text": "(no output)"}));
    }
    let id = if own { result.call_id.clone() } else { wire_name(&result.call_id).into_owned() };
    let status = if result.is_error { "error" } else { "success" };
    Ok(json!({"toolResult": {"toolUseId": id, "content": content, "status": status}}))
}

fn blocks(content: &[Block]) -> Result<Vec<Value>, ModelError> {
    let mut blocks = Vec::with_capacity(content.len());
    for block in content {
        match block {
            Block::Text(text) if !text.text.trim().is_empty() => blocks.push(json!({"text": text.text})),
            Block::Media(media) => blocks.push(medium(media, blocks.len())?),
            Block::ProviderItem(item) => blocks.push(item.native.value().clone()),
            _ => {}
        }
    }
    // A document without text beside it is rejected.
    let has = |key: &str| blocks.iter().any(|block: &Value| block.get(key).is_some());
    if has("document") && !has("text") {
        blocks.push(json!({"text": "(see the document)"}));
    }
    Ok(blocks)
}

fn medium(media: &Media, at: usize) -> Result<Value, ModelError> {
    let source = match &media.source {
        MediaSource::Base64(data) => json!({"bytes": data}),
        MediaSource::Url(url) if url.starts_with("s3://") => json!({"s3Location": {"uri": url}}),
        _ => {
            return Err(ModelError::invalid(
                "Converse takes media as bytes or as an address that begins with s3://; fetch the content first",
            ));
        }
    };
    let subtype = media.mime.rsplit('/').next().unwrap_or_default();
    Ok(match media.kind {
        MediaKind::Image => {
            let format = if subtype == "jpg" { "jpeg" } else { subtype };
            json!({"image": {"format": format, "source": source}})
        }
        MediaKind::Video => json!({"video": {"format": subtype, "source": source}}),
        MediaKind::File => {
            let format = DOCUMENTS.iter().find(|(mime, _)| *mime == media.mime).map_or(subtype, |(_, format)| *format);
            json!({"document": {"format": format, "name": document_name(media.name.as_deref(), at), "source": source}})
        }
        _ => return Err(ModelError::invalid(format!("Converse takes no {} content", media.mime))),
    })
}

/// Document names may contain letters, digits, single spaces, hyphens and brackets.
fn document_name(name: Option<&str>, at: usize) -> String {
    let name = name.unwrap_or_default();
    let legal = |c: char| if c.is_ascii_alphanumeric() || "-()[]".contains(c) { c } else { ' ' };
    let words: Vec<String> = name.split(|c| legal(c) == ' ').filter(|w| !w.is_empty()).map(str::to_owned).collect();
    if words.is_empty() { format!("document {}", at + 1) } else { words.join(" ") }
}

/// Encodes an assistant message: its own blocks unchanged, reasoning only for the same model, and the canonical form of
/// other providers' blocks. `ongoing` means that the user has not replied.
fn assistant(answer: &AssistantMessage, origin: &Origin, ongoing: bool) -> Vec<Value> {
    let (own, thought_by) = (is_from(answer, origin), is_thought_by(answer, origin));
    let item = |block: &Block| {
        let native = own_item(block, own).cloned();
        let call = |id: &str, name: &str, input: &Value| json!({"toolUse": {"toolUseId": wire_name(id), "name": wire_name(name), "input": input}});
        match block {
            Block::Text(text) if text.text.trim().is_empty() => None,
            Block::Reasoning(_) if !thought_by => None,
            _ if native.is_some() => native,
            Block::Text(text) => Some(json!({"text": text.text})),
            Block::ToolCall(made) => Some(call(&made.id, &made.name, &made.args)),
            Block::InvalidToolCall(made) => Some(call(&made.id, &made.name, &json!({}))),
            _ => None,
        }
    };
    let mut items: Vec<Value> = answer.content.iter().filter_map(item).collect();
    // Reasoning without a signature cannot be verified by the model.
    items.retain(|item| {
        let signature = || item.pointer("/reasoningContent/reasoningText/signature");
        item.pointer("/reasoningContent/reasoningText/text").is_none()
            || signature().is_some_and(|signature| signature != "")
            || !origin.model.contains("anthropic.")
    });
    if !ongoing && !answer.has_calls() {
        let results = items.iter().filter_map(|item| item.pointer("/toolResult/toolUseId").cloned());
        let answered: Vec<Value> = results.collect();
        let is_open = |made: &Value| made.get("toolUseId").is_none_or(|id| !answered.contains(id));
        items.retain(|item| !item.get("toolUse").is_some_and(|made| is_servers(made) && is_open(made)));
    }
    // A response that was cut off in its reasoning must not end with reasoning.
    while items.pop_if(|item| is_thought(item)).is_some() {}
    items
}
