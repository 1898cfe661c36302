//! Parsing of content blocks from clients: LangChain's, and those of the providers that LangChain leaves in messages.

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, ProviderBlock, ProviderItem, Reasoning};
use serde_json::{Map, Value};

use super::message_input::call_of;

/// What a block is.
enum Read {
    Block(Block),
    /// A tool call, in the form of its provider or in LangChain's.
    Call(Block),
    /// Something that models are not shown.
    Unknown,
}

/// Whose message a block is in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Person,
    /// A model or a tool.
    Agent,
}

/// Parses the content of a message of a person. Blocks of unknown types are left out; the message keeps them as sent.
pub(super) fn user_blocks(value: &Value) -> Result<Vec<Block>, String> {
    blocks(value, Sender::Person, |read, _| match read {
        Read::Block(block) => Some(block),
        Read::Call(_) | Read::Unknown => None,
    })
}

/// Parses the content of an answer whose calls are known. Calls among the blocks are added unless they are known, and
/// blocks of unknown types are kept without being shown to models.
pub(super) fn answer_blocks(value: &Value, calls: &[Block]) -> Result<Vec<Block>, String> {
    let id_of = |block: &Block| match block {
        Block::ToolCall(call) => Some(call.id.clone()),
        Block::InvalidToolCall(call) => Some(call.id.clone()),
        _ => None,
    };
    let known: Vec<Option<String>> = calls.iter().map(id_of).collect();
    blocks(value, Sender::Agent, |read, value| match read {
        Read::Block(block) => Some(block),
        Read::Call(call) => (!known.contains(&id_of(&call))).then_some(call),
        Read::Unknown => Some(Block::ProviderItem(ProviderBlock { native: ProviderItem::new(value.clone()) })),
    })
}

/// Parses the content of a tool result. What is neither text nor media becomes text, because the model asked for it.
pub(super) fn result_blocks(value: &Value) -> Result<Vec<Block>, String> {
    match value {
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => Ok(vec![Block::text(value.to_string())]),
        _ => blocks(value, Sender::Agent, |read, value| match read {
            Read::Block(block) => Some(block),
            Read::Call(_) | Read::Unknown => Some(Block::text(value.to_string())),
        }),
    }
}

fn blocks(value: &Value, sender: Sender, take: impl Fn(Read, &Value) -> Option<Block>) -> Result<Vec<Block>, String> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::String(text) if text.is_empty() => Ok(Vec::new()),
        Value::String(text) => Ok(vec![Block::text(text.as_str())]),
        Value::Array(blocks) => {
            let all = blocks.iter().map(|value| Ok(take(read(value, sender)?, value)));
            all.filter_map(Result::transpose).collect()
        }
        _ => Err("content must be a string or a list of blocks".to_owned()),
    }
}

fn read(value: &Value, sender: Sender) -> Result<Read, String> {
    let Value::Object(block) = value else {
        return Ok(value.as_str().map_or(Read::Unknown, |text| Read::Block(Block::text(text))));
    };
    let text = |key: &str| block.get(key).and_then(Value::as_str);
    let owned = |key: &str| text(key).unwrap_or_default().to_owned();
    let kind = text("type").unwrap_or_default();
    let said = match kind {
        "text" => Some(text("text").ok_or("a text block needs `text`")?),
        "text-plain" | "input_text" | "output_text" | "" => text("text"),
        "refusal" => text("refusal"),
        // LangChain's earlier form of a text document.
        "file" if text("source_type") == Some("text") => text("text"),
        "document" => {
            source(block).filter(|source| source.get("type").is_some_and(|kind| kind == "text")).and_then(data)
        }
        _ => None,
    };
    if let Some(said) = said {
        return Ok(Read::Block(Block::text(said)));
    }
    Ok(match kind {
        "reasoning" | "thinking" | "reasoning_content" => Read::Block(Block::Reasoning(reasoning(block))),
        "tool_call" | "tool_call_chunk" | "invalid_tool_call" => {
            Read::Call(call_of(owned("id"), owned("name"), block.get("args").unwrap_or(&Value::Null)))
        }
        "tool_use" => Read::Call(call_of(owned("id"), owned("name"), block.get("input").unwrap_or(&Value::Null))),
        "function_call" => {
            let id = text("call_id").map_or_else(|| owned("id"), str::to_owned);
            Read::Call(call_of(id, owned("name"), block.get("arguments").unwrap_or(&Value::Null)))
        }
        "image_url" | "input_image" => {
            let url = block.get("image_url").and_then(|url| url.as_str().or_else(|| url.get("url")?.as_str()));
            let file =
                || text("file_id").map(|id| media(MediaKind::Image, String::new(), MediaSource::FileId(id.into())));
            let image = url.map(|url| media_at(MediaKind::Image, url)).or_else(file);
            match image {
                None if sender == Sender::Agent => Read::Unknown,
                image => Read::Block(Block::Media(image.ok_or("an image block needs `image_url`")?)),
            }
        }
        "input_audio" => input_audio(block).map_or(Read::Unknown, |audio| Read::Block(Block::Media(audio))),
        "image" | "audio" | "video" | "file" | "media" | "document" | "input_file" | "text-plain" => {
            match medium(kind, block) {
                // Providers have forms of their own, which a client only sends back; documents may have parts.
                Err(_) if sender == Sender::Agent || kind == "document" => Read::Unknown,
                found => Read::Block(Block::Media(found?)),
            }
        }
        _ => Read::Unknown,
    })
}

/// Returns the source of a block in the form of Anthropic.
fn source(block: &Map<String, Value>) -> Option<&Map<String, Value>> {
    block.get("source").and_then(Value::as_object)
}

fn data(source: &Map<String, Value>) -> Option<&str> {
    source.get("data").and_then(Value::as_str)
}

/// Returns the readable part of a reasoning block; encrypted reasoning has none.
fn reasoning(block: &Map<String, Value>) -> Reasoning {
    let text = |value: &Value| value.as_str().or_else(|| value.get("text")?.as_str()).map(str::to_owned);
    let own = ["reasoning", "thinking", "text", "reasoning_content"].into_iter().find_map(|key| text(block.get(key)?));
    let parts = || {
        let parts = block.get("summary").and_then(Value::as_array)?;
        Some(parts.iter().filter_map(text).collect::<Vec<_>>().join("\n"))
    };
    Reasoning { text: own.or_else(parts).unwrap_or_default(), native: None }
}

fn media(kind: MediaKind, mime: String, source: MediaSource) -> Media {
    Media { kind, mime, source, name: None }
}

/// Returns the media at a URL, which may be a `data:` URL.
fn media_at(kind: MediaKind, url: &str) -> Media {
    match url.strip_prefix("data:").and_then(|data| data.split_once(";base64,")) {
        Some((mime, data)) => media(kind, mime.to_owned(), MediaSource::Base64(data.to_owned())),
        None => media(kind, String::new(), MediaSource::Url(url.to_owned())),
    }
}

/// Returns audio in the form of OpenAI.
fn input_audio(block: &Map<String, Value>) -> Option<Media> {
    let audio = block.get("input_audio")?;
    let text = |key: &str| audio.get(key).and_then(Value::as_str);
    let mime = match text("format") {
        Some("mp3") => "audio/mpeg".to_owned(),
        Some(format) => format!("audio/{format}"),
        None => String::new(),
    };
    Some(media(MediaKind::Audio, mime, MediaSource::Base64(text("data")?.to_owned())))
}

fn medium(kind: &str, block: &Map<String, Value>) -> Result<Media, String> {
    // OpenAI and Anthropic put the fields into an object of their own.
    let nested = block.get("file").and_then(Value::as_object).or_else(|| source(block));
    let text = |key: &str| {
        let found = block.get(key).and_then(Value::as_str).or_else(|| nested?.get(key)?.as_str());
        found.map(str::to_owned)
    };
    let mime = ["mime_type", "mimeType", "media_type"].into_iter().find_map(text).unwrap_or_default();
    let of_kind = match kind {
        "image" => MediaKind::Image,
        "audio" => MediaKind::Audio,
        "video" => MediaKind::Video,
        "media" => Media::new(mime.as_str(), MediaSource::Url(String::new())).kind,
        _ => MediaKind::File,
    };
    let url = || ["url", "file_data", "file_url"].into_iter().find_map(text).map(|url| media_at(of_kind, &url));
    let by_id = || text("id").filter(|_| text("source_type").as_deref() == Some("id"));
    let given = text("base64").or_else(|| text("data")).map(MediaSource::Base64);
    let file = || text("file_id").or_else(by_id).map(MediaSource::FileId);
    let found = given.map(|source| media(of_kind, String::new(), source)).or_else(url);
    let found = found.or_else(|| file().map(|source| media(of_kind, String::new(), source)));
    let found = found.ok_or_else(|| format!("a block of type `{kind}` needs `base64`, `url` or `file_id`"))?;
    let noted = |key: &str| Some(block.get("metadata")?.get(key)?.as_str()?.to_owned());
    let name = text("filename").or_else(|| text("name")).or_else(|| noted("filename")).or_else(|| noted("name"));
    let mime = if mime.is_empty() { found.mime } else { mime };
    Ok(Media { mime, name: name.or_else(|| text("title")), ..found })
}
