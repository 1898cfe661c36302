//! The progress of reading a run: the forwarded messages, and the usage charged for them.

use std::collections::{HashMap, HashSet};

use deepagents_core::agent::{ChildEvent, ChildScope};
use deepagents_core::message::Usage;
use deepagents_core::tool::ToolError;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The key in the local log.
const KEY: &str = "progress";

/// The progress of an earlier process with a run of the work, as recorded in the local log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Charged {
    /// The run's number within the work.
    round: usize,
    /// The number of complete messages that were forwarded.
    done: usize,
    /// The usage before the run started.
    before: Usage,
    /// The usage charged so far.
    charged: Usage,
}

/// The progress of reading one run.
pub(crate) struct Progress<'a> {
    scope: &'a ChildScope,
    mark: Charged,
    /// The number of messages that an earlier process forwarded. They are counted, but not forwarded again.
    skip: usize,
    /// The ids of complete messages.
    done: HashSet<String>,
    /// The ids of answers of which a part was forwarded.
    begun: HashSet<String>,
    /// The usage of each answer.
    spent: HashMap<String, Usage>,
}

/// Where an event happened in the remote tree of agents: the path, and the agent's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) path: &'a [String],
    pub(crate) name: &'a str,
}

impl<'a> Progress<'a> {
    /// Continues where an earlier process stopped, if that was in the same run.
    pub(crate) fn of_round(scope: &'a ChildScope, round: usize) -> Self {
        let known: Option<Charged> = scope.recorded(KEY).and_then(|value| serde_json::from_value(value).ok());
        let known = known.unwrap_or_default();
        // Under a budget, usage is durable before it is recorded here, so either count may be ahead.
        let charged = most(known.charged, scope.spent().usage);
        let (mark, skip) = match known.round == round {
            true => (Charged { charged, ..known }, known.done),
            false => (Charged { round, done: 0, before: charged, charged }, 0),
        };
        Self { scope, mark, skip, done: HashSet::new(), begun: HashSet::new(), spent: HashMap::new() }
    }

    /// Returns whether no process has read anything of the work yet.
    pub(crate) fn is_unread(&self) -> bool {
        self.mark.round == 0 && self.done.is_empty() && self.skip == 0
    }

    fn is_silent(&self) -> bool {
        self.done.len() < self.skip
    }

    fn emit(&self, place: Place<'_>, event: ChildEvent) {
        if !self.is_silent() {
            self.scope.emit_below(place.path, place.name, event);
        }
    }

    /// Forwards a piece of an answer. The first piece counts as a model call.
    pub(crate) fn forward_chunk(&mut self, place: Place<'_>, id: &str, event: ChildEvent) -> Result<(), ToolError> {
        if self.done.contains(id) {
            return Ok(());
        }
        if self.begun.insert(id.to_owned()) && !self.is_silent() {
            self.scope.begin_model_call()?;
        }
        self.emit(place, event);
        Ok(())
    }

    /// Forwards an event that belongs to no message.
    pub(crate) fn custom(&self, place: Place<'_>, name: &str, data: Value) {
        self.emit(place, ChildEvent::Custom { name: name.to_owned(), data });
    }

    /// Forwards a complete message in the form of the remote state, unless it was read before.
    pub(crate) async fn message(&mut self, place: Place<'_>, message: &Value) -> Result<(), ToolError> {
        let field = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        let (id, kind) = (field("id"), field("type"));
        if id.is_empty() || self.done.contains(id) {
            return Ok(());
        }
        match kind {
            "ai" | "AIMessage" | "AIMessageChunk" | "assistant" => {
                let usage = usage_of(message);
                if !self.begun.contains(id) {
                    let text = text_of(message);
                    self.forward_chunk(place, id, ChildEvent::Text(text))?;
                }
                self.emit(place, ChildEvent::Answered { usage });
                for call in message.get("tool_calls").and_then(Value::as_array).into_iter().flatten() {
                    let word = |key: &str| call.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
                    let args = call.get("args").cloned().unwrap_or_else(|| json!({}));
                    self.emit(place, ChildEvent::ToolStarted { id: word("id"), name: word("name"), args });
                }
                self.spent.insert(id.to_owned(), usage);
            }
            "tool" | "ToolMessage" => {
                let (call, name) = (field("tool_call_id").to_owned(), field("name").to_owned());
                let error = field("status") == "error";
                self.emit(place, ChildEvent::ToolFinished { id: call, name, error, text: text_of(message) });
            }
            _ => return Ok(()),
        }
        self.done.insert(id.to_owned());
        if self.done.len() > self.skip {
            self.charge_usage(Usage::default()).await?;
        }
        Ok(())
    }

    /// Charges the usage of the run so far: that of its messages or, if larger, `total`, which the end of the run
    /// reports.
    pub(crate) async fn charge_usage(&mut self, total: Usage) -> Result<(), ToolError> {
        let own = sum(std::iter::once(self.mark.before).chain(self.spent.values().copied()));
        let total = most(own, total);
        let new = subtract(total, self.mark.charged);
        if new != Usage::default() {
            self.scope.charge(new, 0.0).await?;
            self.mark.charged = most(self.mark.charged, total);
        }
        self.mark.done = self.done.len().max(self.skip);
        self.scope.record(KEY, json!(self.mark)).await
    }
}

fn combine(a: Usage, b: Usage, f: impl Fn(u64, u64) -> u64) -> Usage {
    Usage {
        input: f(a.input, b.input),
        output: f(a.output, b.output),
        cache_read: f(a.cache_read, b.cache_read),
        cache_write: f(a.cache_write, b.cache_write),
        cache_write_hour: f(a.cache_write_hour, b.cache_write_hour),
        reasoning: f(a.reasoning, b.reasoning),
    }
}

pub(crate) fn sum(all: impl Iterator<Item = Usage>) -> Usage {
    all.fold(Usage::default(), |mut sum, one| {
        sum += one;
        sum
    })
}

pub(crate) fn subtract(a: Usage, b: Usage) -> Usage {
    combine(a, b, u64::saturating_sub)
}

pub(crate) fn most(a: Usage, b: Usage) -> Usage {
    combine(a, b, u64::max)
}

/// Returns the token usage of a message in the remote state.
pub(crate) fn usage_of(message: &Value) -> Usage {
    let Some(usage) = message.get("usage_metadata").filter(|usage| usage.is_object()) else { return Usage::default() };
    let number = |value: &Value, key: &str| value.get(key).and_then(Value::as_u64).unwrap_or(0);
    let detail = |group: &str, key: &str| usage.get(group).map_or(0, |group| number(group, key));
    Usage {
        input: number(usage, "input_tokens"),
        output: number(usage, "output_tokens"),
        cache_read: detail("input_token_details", "cache_read"),
        cache_write: detail("input_token_details", "cache_creation"),
        cache_write_hour: 0,
        reasoning: detail("output_token_details", "reasoning"),
    }
}

/// Returns the text of a message's content, which is a string or a list of blocks.
pub(crate) fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => blocks.iter().filter_map(block_text).collect(),
        _ => String::new(),
    }
}

fn block_text(block: &Value) -> Option<&str> {
    block.as_str().or_else(|| {
        let is_text = block.get("type").is_none_or(|kind| kind == "text");
        block.get("text").filter(|_| is_text)?.as_str()
    })
}

/// Returns the reasoning in a message or a piece of one.
pub(crate) fn reasoning_of(message: &Value) -> String {
    let beside = message.get("additional_kwargs").and_then(|more| more.get("reasoning_content")?.as_str());
    if let Some(text) = beside {
        return text.to_owned();
    }
    let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
    let one = |block: &Value| {
        let keys = ["reasoning", "thinking"];
        keys.iter().find_map(|key| block.get(key)?.as_str()).map(str::to_owned)
    };
    blocks.filter_map(one).collect()
}
