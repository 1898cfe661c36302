//! Tool calls that small models write in their text.

use std::sync::Arc;

use deepagents_core::forward_model;
use deepagents_core::message::Block;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest, StopReason};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde_json::Value;

use crate::blocks::has_calls;

/// Wraps a model and extracts tool calls that it writes in its text instead of making them.
///
/// Recognises `<tool_call>{…}</tool_call>` or `<function_call>{…}</function_call>`, a fenced block of JSON, or a text
/// that consists of JSON only. Each contains an object, or a list of objects, with the `name` of an available tool and
/// its `arguments`, `parameters` or `args`.
///
/// The call replaces that part of the text in the response. Text that was already streamed is not retracted. A response
/// with a call made by the provider itself is left unchanged. Set
/// [`ModelConfig::text_tool_calls`](crate::ModelConfig::text_tool_calls) to enable this in a registry.
///
/// ```
/// use std::sync::Arc;
/// use deepagents_models::{ModelConfig, Ollama, TextToolCalls};
/// let model = TextToolCalls::new(Arc::new(Ollama::new("gemma3:4b", ModelConfig::default())?));
/// # Ok::<(), deepagents_models::ConfigError>(())
/// ```
#[derive(Clone)]
pub struct TextToolCalls(Arc<dyn ChatModel>);

impl TextToolCalls {
    /// Wraps a model.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self(model)
    }
}

impl ChatModel for TextToolCalls {
    forward_model!([.0]; name, profile, server, count_tokens);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let tools: Vec<String> = request.tools.iter().map(|spec| spec.name.clone()).collect();
        let told = self.0.stream(request).flat_map(move |told| {
            let events = match told {
                Ok(ModelEvent::Finished(output)) => finished(*output, &tools).into_iter().map(Ok).collect(),
                other => vec![other],
            };
            stream::iter(events)
        });
        Box::pin(told)
    }
}

impl std::fmt::Debug for TextToolCalls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TextToolCalls").field(&self.0.name()).finish()
    }
}

/// Returns the final events of a response, preceded by those of the calls found in it.
fn finished(mut output: ModelOutput, tools: &[String]) -> Vec<ModelEvent> {
    let content = &mut output.message.content;
    let mut events = Vec::new();
    if !has_calls(content) && !tools.is_empty() {
        let mut calls = Vec::new();
        for block in content.iter_mut() {
            if let Block::Text(text) = block {
                let (rest, found) = find(&text.text, tools);
                if !found.is_empty() {
                    // The provider's own item would repeat the removed text.
                    (text.text, text.native) = (rest, None);
                    calls.extend(found);
                }
            }
        }
        for (name, args) in calls {
            let (block, id) = (content.len(), format!("call_{}", content.len()));
            events.push(ModelEvent::ToolCall { block, id: id.clone(), name: name.clone() });
            events.push(ModelEvent::ToolArgs { block, delta: args.to_string() });
            content.push(Block::call(id, name, args));
        }
    }
    if !events.is_empty() {
        output.stop = StopReason::ToolCalls;
    }
    events.push(ModelEvent::Finished(Box::new(output)));
    events
}

type Call = (String, Value);

/// Delimiters of calls in a text.
const MARKS: [(&str, &str); 4] =
    [("<tool_call>", "</tool_call>"), ("<function_call>", "</function_call>"), ("```json", "```"), ("```", "```")];

/// Returns the text without its calls, and the calls.
fn find(text: &str, tools: &[String]) -> (String, Vec<Call>) {
    if let Some(calls) = read(text, tools) {
        return (String::new(), calls);
    }
    for (open, close) in MARKS {
        let (mut rest, mut calls, mut left) = (String::new(), Vec::new(), text);
        while let Some((before, after)) = left.split_once(open) {
            // A model that stops right after its call omits the closing delimiter.
            let (inner, next) = after.split_once(close).unwrap_or((after, ""));
            match read(inner, tools) {
                Some(found) => {
                    rest.push_str(before);
                    calls.extend(found);
                }
                None => {
                    rest.extend([before, open, inner]);
                    rest.push_str(if after.len() == inner.len() { "" } else { close });
                }
            }
            left = next;
        }
        if !calls.is_empty() {
            rest.push_str(left);
            return (rest.trim().to_owned(), calls);
        }
    }
    (text.to_owned(), Vec::new())
}

/// Parses a text that consists only of calls of available tools.
fn read(text: &str, tools: &[String]) -> Option<Vec<Call>> {
    let list = match serde_json::from_str(text.trim()).ok()? {
        Value::Array(list) => list,
        object @ Value::Object(_) => vec![object],
        _ => return None,
    };
    let call = |item: &Value| {
        let call = item.get("function").filter(|function| function.is_object()).unwrap_or(item);
        let name = call.get("name")?.as_str().filter(|name| tools.iter().any(|tool| tool == name))?;
        let args = match ["arguments", "parameters", "args"].iter().find_map(|key| call.get(*key)) {
            Some(Value::String(raw)) => crate::args::parse(raw).ok()?,
            Some(args @ Value::Object(_)) => args.clone(),
            _ => return None,
        };
        Some((name.to_owned(), args))
    };
    list.iter().map(call).collect::<Option<Vec<_>>>().filter(|calls| !calls.is_empty())
}
