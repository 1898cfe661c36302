//! Encodes requests of Ollama's API.

use std::sync::Arc;

use deepagents_core::message::MediaSource;
use deepagents_core::model::{ModelError, ModelRequest, ToolChoice, ToolSpec};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::OllamaChat;
use super::messages::{ARGS, messages};
use crate::blocks::media;
use crate::body::{self, Fields, Head, RequestBody, WrittenFields, filled, write_head, write_value};
use crate::client::Target;
use crate::exact::Exact;

/// Encodes the body of a request.
pub(super) fn body(
    target: &Target<OllamaChat>,
    request: &ModelRequest,
    stream: bool,
) -> Result<RequestBody, ModelError> {
    let head = Head::new(target, request, stream);
    let mut sized = SizedHead { head: &head, num_ctx: None };
    if head.extra.get("messages").is_some() {
        return write_head(&sized, head.tools_field()?);
    }
    let system = head.system_text().map(|text| json!({"role": "system", "content": text}));
    let lead: Vec<Exact<'_>> = system.iter().map(|item| Exact::new(item, &[])).collect();
    let write = |sized: &SizedHead<'_>| {
        let known = target.written.take(&request.messages, usize::MAX);
        let turns = body::exact(messages(request, known.messages(), &target.origin)?, &ARGS);
        body::write(&target.written, known, request, (sized, head.tools_field()?), ("messages", &lead), turns)
    };
    let body = write(&sized)?;
    if sized.options().contains_key("num_ctx") {
        return Ok(body);
    }
    // The context size precedes the conversation but depends on its encoded size; the second time, the cached encoding
    // is used.
    let (images, count) = images(request);
    let bytes = body.len().saturating_sub(images).saturating_add(count * BYTES_PER_IMAGE);
    sized.num_ctx = Some(target.wire.context.size(bytes, request.settings.max_tokens)?);
    write(&sized)
}

/// Number of bytes that an image counts for, whatever its size: models see it in tiles.
const BYTES_PER_IMAGE: usize = 6000;

/// Returns the total bytes of the images in the conversation, and their number.
fn images(request: &ModelRequest) -> (usize, usize) {
    if !request.messages.has_media() {
        return (0, 0);
    }
    let all = request.messages.iter().flat_map(|message| media(message.content()));
    let sizes =
        all.filter_map(|media| if let MediaSource::Base64(data) = &media.source { Some(data.len()) } else { None });
    sizes.fold((0, 0), |(bytes, count), size| (bytes + size, count + 1))
}

/// The head with the context size.
struct SizedHead<'a> {
    head: &'a Head<'a, OllamaChat>,
    num_ctx: Option<u64>,
}

impl SizedHead<'_> {
    /// Sampling settings and the like; configured values are merged into those of the request.
    fn options(&self) -> Map<String, Value> {
        let num_ctx = [("num_ctx", self.num_ctx.map(Value::from))];
        self.head.settings("options", ["num_predict", "temperature", "top_p", "stop"], num_ctx)
    }
}

impl Head<'_, OllamaChat> {
    /// Returns the encoded tools, which most requests share.
    fn tools_field(&self) -> Result<WrittenFields, ModelError> {
        let tools = || filled(self.offered_tools());
        let chosen = matches!(self.request.tool_choice, ToolChoice::None | ToolChoice::Tool(_));
        let tools = if chosen { write_value(tools())? } else { self.target.written.tools(self.request, tools)? };
        Ok(self.extra.left([("tools", tools)]))
    }

    /// The API has no tool choice, so the choice is made by which tools are declared.
    fn offered_tools(&self) -> Vec<Value> {
        let offered = self.request.tools.iter().filter(|spec| match &self.request.tool_choice {
            ToolChoice::None => false,
            ToolChoice::Tool(name) => spec.name == *name,
            _ => true,
        });
        let tool = |spec: &Arc<ToolSpec>| {
            json!({"type": "function", "function":
                {"name": spec.name, "description": spec.description, "parameters": spec.schema}})
        };
        offered.map(tool).collect()
    }
}

impl Serialize for SizedHead<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Head { target, request, extra, stream } = self.head;
        let mut fields = Fields { map: serializer.serialize_map(None)?, extra: *extra };
        fields.put("model", &target.origin.model)?;
        fields.put("stream", stream)?;
        // A prompt that is too long must be an error.
        fields.put("truncate", &false)?;
        fields.put("shift", &false)?;
        fields.put_merged("options", &self.options())?;
        fields.put_some("format", request.output_schema.as_ref().map(|output| &output.schema))?;
        fields.put_extra(&["options"])?;
        fields.map.end()
    }
}
