//! Encodes requests of the Messages API directly from the messages.

use std::borrow::Cow;

use deepagents_core::message::{Block, MediaKind, MediaSource, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest, SystemBlock, ToolChoice};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::turns::{Item, Part, check_marks, first_marked, sendable, turns};
use super::{Host, Messages};
use crate::body::{
    self, CacheControl, Extra, Fields, RequestBody, TextPart, WrittenFields, wire_name_within, write_head,
};
use crate::exact::Exact;
use crate::schema;

/// Encodes the body of a request.
pub(super) fn body(wire: &Messages, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    let extra = Extra { model: &wire.extra, request: &request.settings.extra };
    let head = Head { wire, request, extra, stream };
    let known = wire.written.take(&request.messages, first_marked(request)?);
    let turns = turns(request, known.messages(), &wire.origin)?;
    check_marks(request, &turns, extra)?;
    if extra.get("messages").is_some() {
        return write_head(&head, head.shared()?);
    }
    let mut lasting = true;
    let turns = turns.iter().map(|turn| {
        lasting &= !turn.is_marked();
        body::Turn { upto: turn.upto, settled: lasting && turn.is_settled(), item: turn }
    });
    body::write(&wire.written, known, request, (&head, head.shared()?), ("messages", &[]), turns)
}

/// Everything in a body except the conversation.
struct Head<'a> {
    wire: &'a Messages,
    request: &'a ModelRequest,
    extra: Extra<'a>,
    stream: bool,
}

impl Head<'_> {
    /// Thinking tokens count towards the limit, so a thinking budget is added to the usual output limit.
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
            _ if self.tools().is_empty() => return None,
            ToolChoice::Auto if !single => return None,
            ToolChoice::None => return Some(json!({"type": "none"})),
            // The API rejects a forced call together with thinking, so the choice is left to the model.
            ToolChoice::Any | ToolChoice::Tool(_) if thinks(self.extra.get("thinking")) && !single => return None,
            ToolChoice::Any | ToolChoice::Tool(_) if thinks(self.extra.get("thinking")) => json!({"type": "auto"}),
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

impl<'a> Head<'a> {
    /// Returns the encoded fields that most requests share.
    fn shared(&self) -> Result<WrittenFields, ModelError> {
        let tools = || {
            let mut tools: Vec<MarkedTool<'_>> =
                self.tools().into_iter().map(|tool| MarkedTool { tool, cache_control: None }).collect();
            if let Some(last) = tools.last_mut() {
                last.cache_control = self.request.cache.tools.map(CacheControl::from);
            }
            (!tools.is_empty()).then_some(tools)
        };
        let system = || {
            let system = system(&self.request.system);
            (!system.is_empty()).then_some(system)
        };
        let written = &self.wire.written;
        let (tools, system) = (written.tools(self.request, tools)?, written.system(self.request, system)?);
        Ok(self.extra.left([("tools", tools), ("system", system)]))
    }

    /// Returns our tools, then those that the provider runs; a cache mark goes on the last one.
    fn tools(&self) -> Vec<AnyTool<'a>> {
        let own = self.request.tools.iter().map(|spec| {
            AnyTool::Own(Tool { name: &spec.name, description: &spec.description, input_schema: &spec.schema })
        });
        own.chain(self.request.provider_tools_for(&self.wire.origin).map(AnyTool::Provider)).collect()
    }
}

impl Serialize for Head<'_> {
    /// Serialises what changes between calls last, so that bodies share the longest prefix.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.request.settings;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        match self.wire.host.version() {
            None => fields.put("model", &self.wire.origin.model)?,
            Some(version) => fields.put("anthropic_version", version)?,
        }
        fields.put("max_tokens", &self.max_tokens())?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        fields.put_some("stop_sequences", (!settings.stop.is_empty()).then_some(&settings.stop))?;
        // On Bedrock, the URL requests a stream.
        if self.stream && self.wire.host != Host::Bedrock {
            fields.put("stream", &true)?;
        }
        fields.put_some("tool_choice", self.tool_choice())?;
        if let Some(config) = self.output_config() {
            fields.map.serialize_entry("output_config", &config)?;
        }
        fields.put_extra(&["output_config"])?;
        fields.map.end()
    }
}

/// Returns whether this `thinking` setting enables thinking.
pub(crate) fn thinks(thinking: Option<&Value>) -> bool {
    let kind = thinking.and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "disabled")
}

#[derive(Serialize)]
struct MarkedTool<'a> {
    #[serde(flatten)]
    tool: AnyTool<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum AnyTool<'a> {
    Own(Tool<'a>),
    Provider(&'a Value),
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

fn system(blocks: &[SystemBlock]) -> Vec<TextPart<'_>> {
    let blocks = blocks.iter().filter(|block| !block.text.trim().is_empty());
    blocks.map(|block| TextPart::new(&*block.text, block.cache)).collect()
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cache_control = self.mark.map(CacheControl::from);
        let content = match (self.item, &cache_control) {
            (Item::Verbatim(Value::Object(item)), Some(mark)) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, item) in item.iter().filter(|(key, _)| *key != "cache_control") {
                    match key.as_str() {
                        "input" => map.serialize_entry(key, &Exact { item, path: &[] })?,
                        _ => map.serialize_entry(key, item)?,
                    }
                }
                map.serialize_entry("cache_control", mark)?;
                return map.end();
            }
            (Item::Verbatim(item), _) => return Exact { item, path: &["input"] }.serialize(serializer),
            (Item::Text(text), _) => return TextPart::new(text, self.mark).serialize(serializer),
            (Item::Block(block), _) => content(block),
            (Item::Result(result, own), _) => Ok(tool_result(result, own)),
        };
        Marked { content: content.map_err(<S::Error as serde::ser::Error>::custom)?, cache_control }
            .serialize(serializer)
    }
}

#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Content<'a> {
    Text {
        text: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, Value>,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        source: Source<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        title: Option<&'a str>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Source<'a> {
    Base64 { media_type: &'a str, data: &'a str },
    Url { url: &'a str },
    File { file_id: &'a str },
}

/// Maximum length of a tool name; IDs may have any length.
const MAX_NAME_LENGTH: usize = 128;

fn content(block: &Block) -> Result<Content<'_>, &'static str> {
    let call = |id, name, input| {
        let (id, name) = (wire_name_within(id, usize::MAX), wire_name_within(name, MAX_NAME_LENGTH));
        Content::ToolUse { id, name, input }
    };
    Ok(match block {
        Block::Text(text) => Content::Text { text: &text.text },
        Block::ToolCall(made) => call(&made.id, &made.name, Cow::Borrowed(&made.args)),
        Block::InvalidToolCall(made) => call(&made.id, &made.name, Cow::Owned(Value::Object(Map::new()))),
        Block::Media(media) => {
            let source = match &media.source {
                MediaSource::Base64(data) => Source::Base64 { media_type: &media.mime, data },
                MediaSource::Url(url) => Source::Url { url },
                MediaSource::FileId(file_id) => Source::File { file_id },
                _ => return Err("a media block has a source that the Messages API does not know"),
            };
            match media.kind {
                MediaKind::Image => Content::Image { source },
                _ => Content::Document { source, title: media.name.as_deref() },
            }
        }
        _ => return Err("a block is of a kind that cannot be converted, only sent verbatim"),
    })
}

fn tool_result(result: &ToolMessage, own: bool) -> Content<'_> {
    let id = result.call_id.as_str();
    let mut items: Vec<Item<'_>> = result.content.iter().filter_map(sendable).collect();
    // Missing content means no output, but the API requires content for an error.
    if result.is_error && items.is_empty() {
        items.push(Item::Text("(no output)"));
    }
    Content::ToolResult {
        tool_use_id: if own { Cow::Borrowed(id) } else { wire_name_within(id, usize::MAX) },
        content: items.into_iter().map(|item| Part { item, mark: None }).collect(),
        is_error: result.is_error,
    }
}
