//! Converts call results to what a model is shown.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Block, Media, MediaKind, MediaSource, is_text_type, media_type_of};
use deepagents_core::tool::{ToolContext, ToolOutput};
use serde_json::Value;

use crate::text;

/// Maximum size of a media block, in bytes. Providers refuse larger ones.
const MAX_MEDIA_BYTES: usize = 5 << 20;
/// Maximum size of a result's `_meta`, in bytes.
const MAX_META_BYTES: usize = 16 << 10;
/// Maximum number of media blocks in a result.
const MAX_MEDIA_BLOCKS: usize = 20;

/// Converts the result of `tools/call`. A block that cannot be shown becomes a text that describes it. Structured
/// content is shown only if the result has no text of its own.
pub(crate) fn output(result: &Value) -> ToolOutput {
    let blocks = result.get("content").and_then(Value::as_array);
    let structured = result.get("structuredContent").filter(|value| !value.is_null());
    if let Some(why) = malformed(result).filter(|_| structured.is_none()) {
        return ToolOutput::text(format!("[the result cannot be read: {why}]")).as_error();
    }
    let is_said = blocks.into_iter().flatten().any(has_text);
    let mut content: Vec<Block> = Vec::new();
    let mut media = 0;
    for block in blocks.into_iter().flatten() {
        let made = shown(block);
        media += usize::from(matches!(made, Block::Media(_)));
        content.push(if media > MAX_MEDIA_BLOCKS && matches!(made, Block::Media(_)) {
            Block::text("[one more medium, not shown]")
        } else {
            made
        });
    }
    content.retain(|block| block.as_text().is_none_or(|text| !text.trim().is_empty()));
    content.extend(structured.filter(|_| !is_said).map(|value| Block::text(value.to_string())));
    if content.is_empty() {
        content.push(Block::text("(no content)"));
    }
    let output = ToolOutput::blocks(content);
    let output = structured.into_iter().fold(output, |output, value| output.with_artifact(value.clone()));
    if result.get("isError").and_then(Value::as_bool) == Some(true) { output.as_error() } else { output }
}

/// Reports that the result of a call comes from a server.
pub(crate) fn report_foreign(cx: &ToolContext, server: &str, meta: Option<Value>) {
    cx.report(MiddlewareEvent::ForeignResult {
        call: cx.provider_call_id().to_owned(),
        tool: cx.tool_name().to_owned(),
        source: format!("mcp:{server}"),
        meta,
    });
}

/// Returns a result's `_meta`, which is for programs and not for the model. Returns `None` if it is empty or too large
/// for an event.
pub(crate) fn meta(result: &Value) -> Option<Value> {
    let meta = result.get("_meta").filter(|meta| meta.as_object().is_some_and(|meta| !meta.is_empty()))?;
    (meta.to_string().len() <= MAX_META_BYTES).then(|| meta.clone())
}

/// Returns why a result is malformed, if it is. A result without content is valid.
fn malformed(result: &Value) -> Option<&'static str> {
    let Some(fields) = result.as_object() else { return Some("it is no object") };
    match fields.get("content").filter(|content| !content.is_null()) {
        Some(content) if !content.is_array() => Some("its content is no list of blocks"),
        Some(_) => None,
        None => {
            let is_known = |name: &String| ["content", "isError", "_meta", "resultType"].contains(&name.as_str());
            (!fields.keys().all(is_known)).then_some("it has no content")
        }
    }
}

/// Whether a block has text from the server: a text block, or a resource with text.
fn has_text(block: &Value) -> bool {
    let text = match block.get("type").and_then(Value::as_str) {
        Some("text") => block.get("text"),
        Some("resource") => block.get("resource").and_then(|resource| resource.get("text")),
        _ => None,
    };
    text.and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
}

/// Renders a block as text. A plain string counts as a text block.
pub(crate) fn as_text(block: &Value) -> String {
    if let Some(text) = block.as_str() {
        return text.to_owned();
    }
    match shown(block) {
        Block::Text(text) => text.text,
        Block::Media(media) => format!("[a medium of the type {}, not shown]", media.mime),
        _ => String::new(),
    }
}

/// Converts a content block.
fn shown(block: &Value) -> Block {
    let field = |name: &str| block.get(name).and_then(Value::as_str).unwrap_or_default();
    match field("type") {
        "text" => Block::text(field("text")),
        "image" => medium("image", field("mimeType"), field("data"), ""),
        "audio" => medium("audio", field("mimeType"), field("data"), ""),
        "resource" => resource(block.get("resource").unwrap_or(&Value::Null)),
        "resource_link" => Block::text(link(block)),
        other => Block::text(format!("[content of the type {}, not shown]", text::line(other, 40))),
    }
}

/// Converts the contents of a resource, with its URI.
pub(crate) fn resource(resource: &Value) -> Block {
    let field = |name: &str| resource.get(name).and_then(Value::as_str).unwrap_or_default();
    let uri = text::line(field("uri"), 2_000);
    match resource.get("blob").and_then(Value::as_str) {
        Some(data) => medium("resource", field("mimeType"), data, &uri),
        None => Block::text(format!("{uri}:\n{}", field("text"))),
    }
}

/// Describes a resource link.
fn link(link: &Value) -> String {
    let field = |name: &str| text::line(link.get(name).and_then(Value::as_str).unwrap_or_default(), 500);
    let parts = [field("name"), field("mimeType"), field("description")];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("[resource {} ({})]", field("uri"), parts.join(", "))
}

/// Makes a media block if providers accept the data, otherwise a text that describes it. The data itself becomes text
/// only if a resource declares a text type.
///
/// The leading bytes decide the type, not the declared one: a provider refuses every request of a conversation that
/// holds a mislabelled medium. Audio is always described, because most providers refuse it in a tool result and a
/// server must not be able to break a conversation.
fn medium(what: &str, mime: &str, data: &str, uri: &str) -> Block {
    let mime = text::line(mime, 100).to_ascii_lowercase();
    // Base64 data is often wrapped, which providers refuse.
    let data: String = data.chars().filter(|c| !c.is_ascii_whitespace()).collect();
    let mut named = if uri.is_empty() { String::new() } else { format!(" {uri}") };
    if !mime.is_empty() {
        named = format!("{named} of the type {mime}");
    }
    let Ok(bytes) = STANDARD.decode(&data) else {
        return Block::text(format!("[{what}{named}, not shown: its data is not base64]"));
    };
    let known = media_type_of(&bytes).filter(|_| what != "audio" && bytes.len() <= MAX_MEDIA_BYTES);
    if let Some(known) = known {
        let kind = if known.starts_with("image/") { MediaKind::Image } else { MediaKind::File };
        let name = (!uri.is_empty()).then(|| uri.to_owned());
        return Block::Media(Media { kind, mime: known.to_owned(), source: MediaSource::Base64(data), name });
    }
    if let Some(words) = std::str::from_utf8(&bytes)
        .ok()
        .filter(|_| what == "resource" && is_text_type(mime.split(';').next().unwrap_or_default().trim()))
    {
        return Block::text(format!("{uri}:\n{words}"));
    }
    Block::text(format!("[{what}{named}, {} bytes, not shown]", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(result: &Value) -> Vec<String> {
        output(result).content.iter().map(|block| block.as_text().unwrap_or("<medium>").to_owned()).collect()
    }

    #[test]
    fn texts_links_and_resources_are_shown_with_their_sources() {
        let result = json!({"content": [
            {"type": "text", "text": "here:"},
            {"type": "resource", "resource": {"uri": "mem://note/1", "text": "words"}},
            {"type": "resource_link", "uri": "mem://note/2", "name": "second", "mimeType": "text/plain"},
            {"type": "hologram"},
        ]});
        let expected = [
            "here:",
            "mem://note/1:\nwords",
            "[resource mem://note/2 (second, text/plain)]",
            "[content of the type hologram, not shown]",
        ];
        assert_eq!(texts(&result), expected);
    }

    #[test]
    fn media_are_passed_on_and_what_cannot_be_shown_is_described() {
        let result = json!({"content": [
            {"type": "image", "data": "iVBORw\r\n0KGgo=\n", "mimeType": "image/jpg"},
            {"type": "image", "data": "AAEC", "mimeType": "image/svg+xml"},
            {"type": "image", "data": "?", "mimeType": "image/png"},
            {"type": "audio", "data": "UklGRg==", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "mem://bin/1", "mimeType": "application/octet-stream", "blob": "AAEC"}},
            {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "mem://bin/2", "mimeType": "application/pdf", "blob": "aGVsbG8="}},
        ]});
        let expected = [
            "<medium>",
            "[image of the type image/svg+xml, 3 bytes, not shown]",
            "[image of the type image/png, not shown: its data is not base64]",
            "[audio of the type audio/wav, 4 bytes, not shown]",
            "[resource mem://bin/1 of the type application/octet-stream, 3 bytes, not shown]",
            "[image of the type image/png, 5 bytes, not shown]",
            "[resource mem://bin/2 of the type application/pdf, 5 bytes, not shown]",
        ];
        assert_eq!(texts(&result), expected);
        let media = match &output(&result).content[0] {
            Block::Media(media) => media.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!((media.mime.as_str(), media.source), ("image/png", MediaSource::Base64("iVBORw0KGgo=".to_owned())));
    }

    #[test]
    fn text_sent_as_bytes_is_shown_as_text() {
        let blob = |mime: &str, data: &str| json!({"type": "resource", "resource": {"uri": "mem://t", "mimeType": mime, "blob": data}});
        let types = ["text/plain", "Text/Markdown; charset=utf-8", "application/json", "image/svg+xml"];
        let content: Vec<Value> = types.iter().map(|mime| blob(mime, "aGVsbG8=")).collect();
        assert_eq!(texts(&json!({"content": content})), ["mem://t:\nhello"; 4]);
        let broken = texts(&json!({"content": [blob("text/plain", "/w==")]}));
        assert_eq!(broken, ["[resource mem://t of the type text/plain, 1 bytes, not shown]"]);
    }

    #[test]
    fn structured_content_is_shown_when_there_is_no_text() {
        let only = json!({"content": [], "structuredContent": {"city": "Oslo"}});
        assert_eq!(texts(&only), ["{\"city\":\"Oslo\"}"]);
        let both = json!({"content": [{"type": "text", "text": "41"}], "structuredContent": {"n": 41}});
        assert_eq!(texts(&both), ["41"]);
        assert_eq!(output(&both).artifact, Some(json!({"n": 41})));
        for (beside, shown) in [
            (json!({"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}), "<medium>"),
            (
                json!({"type": "audio", "data": "UklG", "mimeType": "audio/wav"}),
                "[audio of the type audio/wav, 3 bytes, not shown]",
            ),
            (json!({"type": "resource_link", "uri": "mem://x", "name": "x"}), "[resource mem://x (x)]"),
        ] {
            let beside = json!({"content": [{"type": "text", "text": " "}, beside], "structuredContent": {"n": 41}});
            assert_eq!(texts(&beside), [shown, "{\"n\":41}"]);
        }
        assert_eq!(texts(&json!({"content": []})), ["(no content)"]);
        assert_eq!(texts(&json!({})), ["(no content)"]);
    }

    #[test]
    fn result_metadata_is_an_object_of_limited_size() {
        let said = json!({"example.com/page": 2});
        assert_eq!(meta(&json!({"_meta": said, "content": []})), Some(said));
        for none in [
            json!({}),
            json!({"_meta": {}}),
            json!({"_meta": "x"}),
            json!({"_meta": {"x": "x".repeat(MAX_META_BYTES)}}),
        ] {
            assert_eq!(meta(&none), None);
        }
    }

    #[test]
    fn a_malformed_result_is_an_error_that_says_so() {
        for (result, shape) in [
            (json!("done"), "it is no object"),
            (json!(null), "it is no object"),
            (json!({"content": "done"}), "its content is no list of blocks"),
            (json!({"content": {"type": "text"}}), "its content is no list of blocks"),
            (json!({"toolResult": "done"}), "it has no content"),
        ] {
            let read = output(&result);
            assert!(read.is_error && texts(&result)[0].contains(shape), "{result}: {:?}", texts(&result));
        }
        assert_eq!(texts(&json!({"content": "done", "structuredContent": {"n": 1}})), ["{\"n\":1}"]);
    }

    #[test]
    fn a_failed_call_is_an_error() {
        assert!(output(&json!({"content": [], "isError": true})).is_error);
        assert!(!output(&json!({"content": [], "isError": "yes"})).is_error);
    }
}
