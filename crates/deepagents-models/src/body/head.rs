//! Everything in a body except the conversation.

use deepagents_core::model::{ModelError, ModelRequest, ModelSettings, SystemBlock, ToolChoice, ToolSpec};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{EncodedStart, Extra, RequestBody, Turn, WrittenFields, write, write_head};
use crate::client::Target;

/// Everything in a body except the conversation. Each wire serialises it with its own fields, those that change between
/// calls last, so that bodies share the longest prefix.
pub(crate) struct Head<'a, W> {
    pub(crate) target: &'a Target<W>,
    pub(crate) request: &'a ModelRequest,
    pub(crate) extra: Extra<'a>,
    pub(crate) stream: bool,
}

impl<'a, W> Head<'a, W> {
    pub(crate) fn new(target: &'a Target<W>, request: &'a ModelRequest, stream: bool) -> Self {
        let extra = Extra { model: &target.extra, request: &request.settings.extra };
        Self { target, request, extra, stream }
    }

    /// Encodes the tools and the system prompt under the wire's names, once for all requests with the same ones.
    pub(crate) fn shared<T: Serialize, S: Serialize>(
        &self,
        (tools_field, tools): (&'static str, impl FnOnce() -> Option<T>),
        (system_field, system): (&'static str, impl FnOnce() -> Option<S>),
    ) -> Result<WrittenFields, ModelError> {
        let written = &self.target.written;
        let (tools, system) = (written.tools(self.request, tools)?, written.system(self.request, system)?);
        Ok(self.extra.left([(tools_field, tools), (system_field, system)]))
    }

    /// Returns our tools, each as `declare` writes it, then those that the provider runs.
    pub(crate) fn tools(&self, declare: impl Fn(&ToolSpec) -> Value) -> Vec<Value> {
        let own = self.request.tools.iter().map(|spec| declare(spec));
        own.chain(self.request.provider_tools_for(&self.target.origin).cloned()).collect()
    }

    /// Returns the tool choice, given how the wire writes that no tool, any or a certain one must be called; nothing if
    /// the model decides.
    pub(crate) fn tool_choice(
        &self,
        none: Option<Value>,
        any: Value,
        tool: impl FnOnce(&str) -> Value,
    ) -> Option<Value> {
        match &self.request.tool_choice {
            _ if self.request.tools.is_empty() => None,
            ToolChoice::None => none,
            ToolChoice::Any => Some(any),
            ToolChoice::Tool(name) => Some(tool(name)),
            _ => None,
        }
    }

    /// Iterates over the blocks of the system prompt that are not blank.
    pub(crate) fn system(&self) -> impl Iterator<Item = &'a SystemBlock> + use<'a, W> {
        self.request.system.iter().filter(|block| !block.text.trim().is_empty())
    }

    /// Returns the system prompt as one text, unless it is blank.
    pub(crate) fn system_text(&self) -> Option<String> {
        Some(self.request.system_text()).filter(|text| !text.trim().is_empty())
    }

    /// Returns the sampling settings under the wire's names for the maximum of tokens, the temperature, top-p and the
    /// stop sequences, followed by `more`. All of it is merged with the extra field `key`, which wins.
    pub(crate) fn settings(
        &self,
        key: &str,
        names: [&'static str; 4],
        more: impl IntoIterator<Item = (&'static str, Option<Value>)>,
    ) -> Map<String, Value> {
        let ModelSettings { max_tokens, temperature, top_p, stop, .. } = &self.request.settings;
        let stop = (!stop.is_empty()).then(|| json!(stop));
        let values = [max_tokens.map(Value::from), temperature.map(Value::from), top_p.map(Value::from), stop];
        let fields = names.into_iter().zip(values).chain(more);
        let mut settings: Map<_, _> = fields.filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        if let Some(Value::Object(given)) = self.extra.get(key) {
            settings.extend(given.clone());
        }
        settings
    }
}

impl<W> Head<'_, W>
where
    Self: Serialize,
{
    /// Encodes the body: the head, the fields `shared`, and the conversation in `field`, after `lead`. `turns` encodes
    /// what follows the known start; an extra field may replace it all.
    pub(crate) fn body<T: Serialize, I: Iterator<Item = Turn<T>>>(
        &self,
        shared: WrittenFields,
        (field, lead): (&str, &[T]),
        first_marked: usize,
        turns: impl FnOnce(&mut EncodedStart) -> Result<I, ModelError>,
    ) -> Result<RequestBody, ModelError> {
        if self.extra.get(field).is_some() {
            return write_head(self, shared);
        }
        let written = &self.target.written;
        let mut known = written.take(&self.request.messages, first_marked);
        let turns = turns(&mut known)?;
        write(written, known, self.request, (self, shared), (field, lead), turns)
    }
}

/// Returns a list, unless it is empty.
pub(crate) fn filled<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}
