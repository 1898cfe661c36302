//! Request bodies of the Messages API, written straight from the messages.

use std::borrow::Cow;
use std::sync::Arc;

use deepagents_core::message::{Block, Media, MediaKind, MediaSource, ToolMessage};
use deepagents_core::model::{CacheTtl, ModelError, ModelRequest, SystemBlock, ToolChoice};
use deepagents_core::tool::ToolSpec;
use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value, json};

use super::Messages;
use super::turns::{Item, Part, Role, Turn, check_marks, first_marked, turns};
use crate::extra::{Extra, Fields};
use crate::schema;

/// The body of a request.
pub(super) fn body(wire: &Messages, request: &ModelRequest, stream: bool) -> Result<Vec<u8>, ModelError> {
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let failed = |error| ModelError::invalid(format!("the request cannot be written: {error}"));
    let mut known = wire.written.take(&request.messages, first_marked(request)?);
    let turns = turns(request, known.messages(), &wire.origin)?;
    if known.messages() == 0 && turns.iter().next().is_none() {
        return Err(ModelError::invalid("there is nothing to send: add at least one message with content"));
    }
    check_marks(request, &turns, extra)?;
    // Most of a body is conversation: room for it at once saves copying it as it grows.
    let mut out = Vec::with_capacity(known.text().len() + (16 << 10));
    serde_json::to_writer(&mut out, &Head { wire, request, extra, stream }).map_err(failed)?;
    if extra.get("messages").is_some() {
        return Ok(out);
    }
    // The conversation comes last, so that the object can be opened again for it.
    out.pop();
    out.extend_from_slice(b",\"messages\":[");
    let start = out.len();
    out.extend_from_slice(known.text());
    let (mut cuts, mut lasting) = (Vec::new(), true);
    for turn in turns.iter() {
        if out.len() > start {
            out.push(b',');
        }
        serde_json::to_writer(&mut out, &turn).map_err(failed)?;
        lasting &= !turn.is_marked();
        if lasting && turn.is_settled() {
            cuts.push((turn.upto, out.len() - start));
        }
    }
    known.extend(&request.messages, out.get(start..).unwrap_or_default(), cuts.into_iter());
    wire.written.keep(known);
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// All of a body but the conversation.
struct Head<'a> {
    wire: &'a Messages,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
}

impl Head<'_> {
    /// Thinking tokens count towards the limit, so a budget is added to what an answer usually gets.
    fn max_tokens(&self) -> u64 {
        let budget =
            self.extra.get("thinking").and_then(|thinking| thinking.get("budget_tokens")).and_then(Value::as_u64);
        let usual = self.wire.max_tokens;
        self.request.settings.max_tokens.unwrap_or_else(|| match budget {
            Some(budget) if budget >= usual => budget.saturating_add(usual),
            _ => usual,
        })
    }

    fn tool_choice(&self) -> Option<Value> {
        let single = self.request.parallel_tool_calls == Some(false);
        let mut choice = match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => return None,
            ToolChoice::Auto if !single => return None,
            ToolChoice::None => return Some(json!({"type": "none"})),
            ToolChoice::Any => json!({"type": "any"}),
            ToolChoice::Tool(name) => json!({"type": "tool", "name": name}),
            _ => json!({"type": "auto"}),
        };
        if let (true, Value::Object(choice)) = (single, &mut choice) {
            choice.insert("disable_parallel_tool_use".to_owned(), Value::Bool(true));
        }
        Some(choice)
    }

    fn output_config(&self) -> Option<Map<String, Value>> {
        let given = self.extra.get("output_config").and_then(Value::as_object);
        let mut config = given.cloned().unwrap_or_default();
        if let Some(output) = &self.request.output_schema {
            let format = json!({"type": "json_schema", "schema": schema::closed(&output.schema)});
            config.entry("format").or_insert(format);
        }
        (!config.is_empty()).then_some(config)
    }
}

impl Serialize for Head<'_> {
    /// What changes from call to call comes last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.request.settings;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        fields.put("model", &self.wire.origin.model)?;
        fields.put("max_tokens", &self.max_tokens())?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        fields.put_some("stop_sequences", (!settings.stop.is_empty()).then_some(&settings.stop))?;
        if self.stream {
            fields.put("stream", &true)?;
        }
        fields.put_some("tool_choice", self.tool_choice())?;
        if let Some(config) = self.output_config() {
            fields.map.serialize_entry("output_config", &config)?;
        }
        fields.put_extra(&["output_config"])?;
        if !self.request.tools.is_empty() {
            fields.put("tools", &Tools { tools: &self.request.tools, mark: self.request.cache.tools })?;
        }
        if self.request.system.iter().any(|block| !block.text.trim().is_empty()) {
            fields.put("system", &System(&self.request.system))?;
        }
        fields.map.end()
    }
}

struct CacheControl(CacheTtl);

impl Serialize for CacheControl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "ephemeral")?;
        if self.0 == CacheTtl::OneHour {
            map.serialize_entry("ttl", "1h")?;
        }
        map.end()
    }
}

fn put_mark<M: SerializeMap>(map: &mut M, mark: Option<CacheTtl>) -> Result<(), M::Error> {
    mark.map_or(Ok(()), |ttl| map.serialize_entry("cache_control", &CacheControl(ttl)))
}

struct Tools<'a> {
    tools: &'a [Arc<ToolSpec>],
    mark: Option<CacheTtl>,
}

impl Serialize for Tools<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.tools.len()))?;
        for (at, spec) in self.tools.iter().enumerate() {
            let mark = self.mark.filter(|_| at + 1 == self.tools.len());
            list.serialize_element(&Tool { spec, mark })?;
        }
        list.end()
    }
}

struct Tool<'a> {
    spec: &'a ToolSpec,
    mark: Option<CacheTtl>,
}

impl Serialize for Tool<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.spec.name)?;
        map.serialize_entry("description", &self.spec.description)?;
        map.serialize_entry("input_schema", &self.spec.schema)?;
        put_mark(&mut map, self.mark)?;
        map.end()
    }
}

struct System<'a>(&'a [SystemBlock]);

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for block in self.0.iter().filter(|block| !block.text.trim().is_empty()) {
            list.serialize_element(&TextItem { text: &block.text, mark: block.cache })?;
        }
        list.end()
    }
}

struct TextItem<'a> {
    text: &'a str,
    mark: Option<CacheTtl>,
}

impl Serialize for TextItem<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "text")?;
        map.serialize_entry("text", self.text)?;
        put_mark(&mut map, self.mark)?;
        map.end()
    }
}

impl Serialize for Turn<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", if self.role == Role::User { "user" } else { "assistant" })?;
        map.serialize_entry("content", self.content)?;
        map.end()
    }
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.item, self.mark) {
            (Item::Verbatim(item), None) => item.serialize(serializer),
            (Item::Verbatim(Value::Object(item)), mark) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in item.iter().filter(|(key, _)| *key != "cache_control") {
                    map.serialize_entry(key, value)?;
                }
                put_mark(&mut map, mark)?;
                map.end()
            }
            (Item::Verbatim(item), Some(_)) => item.serialize(serializer),
            (Item::Block(block), mark) => serialize_block(block, mark, serializer),
            (Item::Result(result, own), mark) => serialize_result(result, own, mark, serializer),
        }
    }
}

fn serialize_block<S: Serializer>(block: &Block, mark: Option<CacheTtl>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    match block {
        Block::Text(text) => {
            map.serialize_entry("type", "text")?;
            map.serialize_entry("text", &text.text)?;
        }
        Block::ToolCall(call) => {
            map.serialize_entry("type", "tool_use")?;
            map.serialize_entry("id", &wire_name(&call.id))?;
            map.serialize_entry("name", &wire_name(&call.name))?;
            map.serialize_entry("input", &call.args)?;
        }
        Block::InvalidToolCall(call) => {
            map.serialize_entry("type", "tool_use")?;
            map.serialize_entry("id", &wire_name(&call.id))?;
            map.serialize_entry("name", &wire_name(&call.name))?;
            map.serialize_entry("input", &Map::new())?;
        }
        Block::Media(media) => {
            map.serialize_entry("type", if media.kind == MediaKind::Image { "image" } else { "document" })?;
            map.serialize_entry("source", &Source(media))?;
            if let (MediaKind::File, Some(name)) = (media.kind, &media.name) {
                map.serialize_entry("title", name)?;
            }
        }
        // Others are sent verbatim or not at all; see `turns`.
        _ => {}
    }
    put_mark(&mut map, mark)?;
    map.end()
}

struct Source<'a>(&'a Media);

impl Serialize for Source<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match &self.0.source {
            MediaSource::Base64(data) => {
                map.serialize_entry("type", "base64")?;
                map.serialize_entry("media_type", &self.0.mime)?;
                map.serialize_entry("data", data)?;
            }
            MediaSource::Url(url) => {
                map.serialize_entry("type", "url")?;
                map.serialize_entry("url", url)?;
            }
            MediaSource::FileId(id) => {
                map.serialize_entry("type", "file")?;
                map.serialize_entry("file_id", id)?;
            }
            _ => return Err(serde::ser::Error::custom("a medium has a source that the Messages API does not know")),
        }
        map.end()
    }
}

fn serialize_result<S: Serializer>(
    result: &ToolMessage,
    own: bool,
    mark: Option<CacheTtl>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(None)?;
    map.serialize_entry("type", "tool_result")?;
    let id = if own { Cow::Borrowed(&*result.call_id) } else { wire_name(&result.call_id) };
    map.serialize_entry("tool_use_id", &id)?;
    // No content says that there is no output; of an error the API wants some.
    if result.is_error || result.content.iter().any(is_sendable) {
        map.serialize_entry("content", &ResultContent(&result.content))?;
    }
    if result.is_error {
        map.serialize_entry("is_error", &true)?;
    }
    put_mark(&mut map, mark)?;
    map.end()
}

struct ResultContent<'a>(&'a [Block]);

/// Whether a block may be part of a result: the API refuses empty text.
fn is_sendable(block: &Block) -> bool {
    match block {
        Block::Text(text) => !text.text.trim().is_empty(),
        Block::Media(_) | Block::Opaque(_) => true,
        _ => false,
    }
}

impl Serialize for ResultContent<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        if !self.0.iter().any(is_sendable) {
            list.serialize_element(&TextItem { text: "(no output)", mark: None })?;
        }
        for block in self.0.iter().filter(|block| is_sendable(block)) {
            let item = match block {
                Block::Opaque(opaque) => Item::Verbatim(opaque.native.value()),
                block => Item::Block(block),
            };
            list.serialize_element(&Part { item, mark: None })?;
        }
        list.end()
    }
}

/// Ids and names of other providers' calls may hold characters that this API refuses.
fn wire_name(name: &str) -> Cow<'_, str> {
    if is_wire_name(name) {
        return Cow::Borrowed(name);
    }
    if name.is_empty() {
        return Cow::Borrowed("unnamed");
    }
    Cow::Owned(name.chars().map(|c| if is_legal(c) { c } else { '_' }).collect())
}

/// Whether an id or name is written as it is.
pub(super) fn is_wire_name(name: &str) -> bool {
    // By bytes, since every call and result of a long history passes here for every request.
    !name.is_empty() && name.bytes().all(|byte| is_legal(char::from(byte)))
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}
