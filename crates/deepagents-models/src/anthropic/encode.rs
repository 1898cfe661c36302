//! Encodes requests of the Messages API directly from the messages.

use std::borrow::Cow;

use deepagents_core::message::{Block, MediaKind, MediaSource, ToolMessage};
use deepagents_core::model::{ModelError, ModelRequest, ToolChoice, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::turns::{Item, Part, check_marks, first_marked, sendable, turns};
use super::{Host, Messages};
use crate::body::{
    self, CacheControl, Fields, Head, RequestBody, TextPart, WrittenFields, filled, wire_name_within, write_head,
};
use crate::client::Target;
use crate::exact::Exact;
use crate::schema;

/// Encodes the body of a request.
pub(super) fn body(target: &Target<Messages>, request: &ModelRequest, stream: bool) -> Result<RequestBody, ModelError> {
    let head = Head::new(target, request, stream);
    let first_marked = first_marked(request)?;
    let known = target.written.take(&request.messages, first_marked);
    let turns = turns(request, known.messages(), &target.origin)?;
    check_marks(&head, &turns)?;
    let shared = head.tools_and_system()?;
    if head.extra.get("messages").is_some() {
        return write_head(&head, shared);
    }
    let turns = turns.iter().map(|turn| {
        let settled = turn.upto <= first_marked && turn.is_settled();
        body::Turn { upto: turn.upto, settled, item: turn }
    });
    body::write(&target.written, known, request, (&head, shared), ("messages", &[]), turns)
}

impl Head<'_, Messages> {
    /// Thinking tokens count towards the limit, so a thinking budget is added to the usual output limit.
    fn max_tokens(&self) -> u64 {
        let budget =
            self.extra.get("thinking").and_then(|thinking| thinking.get("budget_tokens")).and_then(Value::as_u64);
        let usual = self.target.wire.max_tokens;
        self.request.settings.max_tokens.unwrap_or_else(|| match budget {
            Some(budget) if budget >= usual => budget.saturating_add(usual),
            _ => usual,
        })
    }

    fn choice(&self) -> Option<Value> {
        let single = self.request.parallel_tool_calls == Some(false);
        // The API rejects a forced call together with thinking, so the choice is left to the model.
        let may_force = !thinks(self.extra.get("thinking"));
        let mut choice = match &self.request.tool_choice {
            _ if !self.has_tools() => return None,
            ToolChoice::None => return Some(json!({"type": "none"})),
            ToolChoice::Any if may_force => json!({"type": "any"}),
            ToolChoice::Tool(name) if may_force => json!({"type": "tool", "name": name}),
            _ if !single => return None,
            _ => json!({"type": "auto"}),
        };
        if let (true, Value::Object(choice)) = (single, &mut choice) {
            choice.insert("disable_parallel_tool_use".to_owned(), Value::Bool(true));
        }
        Some(choice)
    }

    fn output_config(&self) -> Map<String, Value> {
        let mut config = self.extra.get("output_config").and_then(Value::as_object).cloned().unwrap_or_default();
        if let Some(output) = &self.request.output_schema {
            let format = json!({"type": "json_schema", "schema": schema::closed(&output.schema)});
            config.entry("format").or_insert(format);
        }
        config
    }

    /// Returns the encoded fields that most requests share.
    fn tools_and_system(&self) -> Result<WrittenFields, ModelError> {
        let system = || filled(self.system().map(|block| TextPart::new(&*block.text, block.cache)).collect());
        self.shared(("tools", || filled(self.marked_tools())), ("system", system))
    }

    /// Returns whether there are tools, ours or the provider's.
    pub(super) fn has_tools(&self) -> bool {
        !self.request.tools.is_empty() || self.request.provider_tools_for(&self.target.origin).next().is_some()
    }

    /// Returns the tools; a cache mark goes on the last one.
    fn marked_tools(&self) -> Vec<Value> {
        let declare =
            |spec: &ToolSpec| json!({"name": spec.name, "description": spec.description, "input_schema": spec.schema});
        let mut tools = self.tools(declare);
        if let (Some(ttl), Some(Value::Object(last))) = (self.request.cache.tools, tools.last_mut()) {
            last.insert("cache_control".to_owned(), json!(CacheControl::from(ttl)));
        }
        tools
    }
}

impl Serialize for Head<'_, Messages> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let settings = &self.request.settings;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: self.extra };
        match self.target.wire.host.version() {
            None => fields.put("model", &self.target.origin.model)?,
            Some(version) => fields.put("anthropic_version", version)?,
        }
        fields.put("max_tokens", &self.max_tokens())?;
        fields.put_some("temperature", settings.temperature)?;
        fields.put_some("top_p", settings.top_p)?;
        fields.put_some("stop_sequences", (!settings.stop.is_empty()).then_some(&settings.stop))?;
        // On Bedrock, the URL requests a stream.
        if self.stream && self.target.wire.host != Host::Bedrock {
            fields.put("stream", &true)?;
        }
        fields.put_some("tool_choice", self.choice())?;
        fields.put_merged("output_config", &self.output_config())?;
        fields.put_extra(&["output_config"])?;
        fields.map.end()
    }
}

/// Returns whether this `thinking` setting enables thinking.
pub(crate) fn thinks(thinking: Option<&Value>) -> bool {
    let kind = thinking.and_then(|thinking| thinking.get("type")).and_then(Value::as_str);
    kind.is_some_and(|kind| kind != "disabled")
}

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cache_control = self.mark.map(CacheControl::from);
        let content = match (self.item, &cache_control) {
            (Item::Verbatim(Value::Object(item)), Some(mark)) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, item) in item.iter().filter(|(key, _)| *key != "cache_control") {
                    match key.as_str() {
                        "input" => map.serialize_entry(key, &Exact::new(item, &[]))?,
                        _ => map.serialize_entry(key, item)?,
                    }
                }
                map.serialize_entry("cache_control", mark)?;
                return map.end();
            }
            (Item::Verbatim(item), _) => return Exact::new(item, &["input"]).serialize(serializer),
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
