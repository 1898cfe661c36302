//! Tool calls that small models write into their text.

use std::sync::Arc;

use deepagents_core::message::Block;
use deepagents_core::model::{
    ChatModel, ModelError, ModelEvent, ModelOutput, ModelProfile, ModelRequest, ModelServer, StopReason,
};
use futures_core::future::BoxFuture;
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use serde_json::Value;

/// A model whose calls are found in its text, where it writes them there in place of making them.
///
/// What counts is `<tool_call>{…}</tool_call>`, a fenced block of JSON, or a text that is nothing but JSON; each an object
/// (or a list of them) with the `name` of a tool that is on offer, and `arguments` or `parameters`. The call takes the
/// place of those words in the answer. A text that was told while it came is not taken back. An answer with a call that the
/// provider itself made is left as it is. Set [`ModelConfig::text_tool_calls`](crate::ModelConfig::text_tool_calls) to have a
/// registry do this.
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
    /// This model, with the calls in its text made.
    pub fn new(model: Arc<dyn ChatModel>) -> Self {
        Self(model)
    }
}

impl ChatModel for TextToolCalls {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn profile(&self) -> ModelProfile {
        self.0.profile()
    }

    fn server(&self) -> Option<ModelServer> {
        self.0.server()
    }

    fn count_tokens(&self, request: ModelRequest) -> BoxFuture<'static, Result<Option<u64>, ModelError>> {
        self.0.count_tokens(request)
    }

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

/// The end of an answer, after the calls that were found in it.
fn finished(mut output: ModelOutput, tools: &[String]) -> Vec<ModelEvent> {
    let content = &mut output.message.content;
    let made = content.iter().any(|block| matches!(block, Block::ToolCall(_) | Block::InvalidToolCall(_)));
    let mut events = Vec::new();
    if !made && !tools.is_empty() {
        let mut calls = Vec::new();
        for block in content.iter_mut() {
            if let Block::Text(text) = block {
                let (rest, found) = find(&text.text, tools);
                if !found.is_empty() {
                    // The provider's own item would say the words again.
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

/// How calls are set off in a text: where they begin and end.
const MARKS: [(&str, &str); 4] =
    [("<tool_call>", "</tool_call>"), ("<function_call>", "</function_call>"), ("```json", "```"), ("```", "```")];

/// The text without the calls in it, and those.
fn find(text: &str, tools: &[String]) -> (String, Vec<Call>) {
    if let Some(calls) = read(text, tools) {
        return (String::new(), calls);
    }
    for (open, close) in MARKS {
        let (mut rest, mut calls, mut left) = (String::new(), Vec::new(), text);
        while let Some((before, after)) = left.split_once(open) {
            // A model that stops right after its call leaves the end away.
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

/// The calls that a text is, if it is nothing else and all are of tools on offer.
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
