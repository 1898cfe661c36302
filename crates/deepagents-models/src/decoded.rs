//! A decoded response with the provider's own stop reason and usage.

use deepagents_core::message::{AssistantMessage, Block, Origin, Usage};
use deepagents_core::model::{ModelOutput, StopReason};
use serde_json::Value;

use crate::json::{count, whole_number};

/// A decoded response, with the provider's own stop reason and token usage.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Decoded {
    /// The response in the harness's types.
    pub output: ModelOutput,
    /// The provider's stop reason.
    pub stop: Option<String>,
    /// Token usage as the provider reported it, an object; null if it reported none.
    pub usage: Value,
}

impl Decoded {
    /// `word` and `reported` are the provider's own values; `stop` and `usage` are their translations.
    pub(crate) fn new(
        id: String,
        content: Vec<Block>,
        (stop, word): (StopReason, Option<String>),
        (usage, reported): (Usage, Value),
    ) -> Self {
        let message = AssistantMessage { id, content, usage: Some(usage), ..AssistantMessage::default() };
        Self { output: ModelOutput { message, usage, stop, price: None }, stop: word, usage: reported }
    }

    /// Sets the model that responded.
    pub(crate) fn of(mut self, wire: &(impl AsRef<Origin> + ?Sized)) -> Self {
        self.output.message.origin = Some(wire.as_ref().clone());
        self
    }
}

/// Reads a report of OpenAI's APIs and their imitators, which differ in the names of the `input` and the `output` tokens.
pub(crate) fn openai_usage(reported: &Value, [input, output]: [&str; 2]) -> Usage {
    let count = |pointer: &str| reported.pointer(pointer).and_then(whole_number);
    let detail = |of: &str, name: &str| count(&format!("/{of}_details/{name}"));
    let (read, written) =
        (count(&format!("/{input}")).unwrap_or_default(), count(&format!("/{output}")).unwrap_or_default());
    let reasoning = detail(output, "reasoning_tokens").unwrap_or_default();
    // Some services exclude reasoning from the output tokens, which the total reveals.
    let apart = count("/total_tokens") == Some(read.saturating_add(written).saturating_add(reasoning));
    let cached = detail(input, "cached_tokens").or_else(|| count("/prompt_cache_hit_tokens"));
    Usage {
        input: read,
        output: if apart { written.saturating_add(reasoning) } else { written },
        cache_read: cached.or_else(|| count("/cached_tokens")).unwrap_or_default(),
        cache_write: detail(input, "cache_write_tokens").unwrap_or_default(),
        reasoning,
        ..Usage::default()
    }
}

/// Reads a report whose input tokens exclude cached ones; ours count all. The names are those of the input tokens, the
/// output tokens, and those read from and written to the cache.
pub(crate) fn usage_without_cache(reported: &Value, names: [&str; 4]) -> Usage {
    let [input, output, cache_read, cache_write] = names.map(|name| count(reported, name));
    let input = input.saturating_add(cache_read).saturating_add(cache_write);
    Usage { input, output, cache_read, cache_write, ..Usage::default() }
}

/// Reads a report of Google, which counts tokens of tools beside the input and thoughts beside the output. The names are
/// those of the input, the tools, the cached input, the output and the thoughts.
pub(crate) fn google_usage(reported: &Value, names: [&str; 5]) -> Usage {
    let [input, tools, cache_read, output, reasoning] = names.map(|name| count(reported, name));
    let (input, output) = (input.saturating_add(tools), output.saturating_add(reasoning));
    Usage { input, output, cache_read, reasoning, ..Usage::default() }
}
