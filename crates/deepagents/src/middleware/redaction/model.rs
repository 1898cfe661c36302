//! A model whose answers are redacted while they are streamed.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use deepagents_core::forward_model;
use deepagents_core::message::Block;
use deepagents_core::middleware::on_text;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, ModelRequest};
use futures_util::stream::{self, BoxStream, StreamExt};

use super::messages::{bytes_of, redact_blocks};
use super::rules::Rules;
use super::span::Found;
use super::stream::StreamRedactor;
use crate::blocked::RedactionBlocked;
use crate::shared::lock;

/// The findings of one call, for the wrap that made it.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) found: Found,
    pub(super) blocked: Option<RedactionBlocked>,
}

/// A model whose answers are redacted before any part of them is shown.
pub(super) struct RedactedModel {
    pub(super) model: Arc<dyn ChatModel>,
    pub(super) rules: Arc<Rules>,
    pub(super) report: Arc<Mutex<Findings>>,
}

impl ChatModel for RedactedModel {
    forward_model!([.model]; name, profile, server, count_tokens);

    fn stream(&self, request: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let pieces = Pieces { rules: self.rules.clone(), report: self.report.clone(), open: BTreeMap::new() };
        let redacted = stream::unfold((self.model.stream(request), pieces), |(mut events, mut pieces)| async move {
            let shown = match events.next().await? {
                Ok(event) => {
                    let bytes = pieces.bytes(&event);
                    let (shown, back) = on_text(bytes, move || (pieces.take(event), pieces)).await;
                    pieces = back;
                    shown
                }
                Err(error) => vec![Err(error)],
            };
            Some((shown, (events, pieces)))
        });
        redacted.flat_map(stream::iter).boxed()
    }
}

/// A text that is being streamed.
#[derive(Default)]
struct Streamed {
    redactor: StreamRedactor,
    shown: String,
    /// Whether a later block has begun, so that nothing is held back any more. Further pieces may complete a match that
    /// is half shown, so they wait for the complete answer.
    closed: bool,
}

impl Streamed {
    /// Adds a piece and returns the text to show.
    fn push(&mut self, delta: &str, rules: &Rules) -> Result<String, RedactionBlocked> {
        if self.closed {
            return Ok(String::new());
        }
        let ready = self.redactor.push(delta, rules)?;
        self.shown.push_str(&ready);
        Ok(ready)
    }

    /// Returns the held text, because a later block begins.
    fn close(&mut self, rules: &Rules) -> Result<String, RedactionBlocked> {
        self.closed = true;
        let ready = self.redactor.finish(rules)?;
        self.shown.push_str(&ready);
        Ok(ready)
    }

    /// Returns what is left to show of the redacted text; nothing if what was shown is not its beginning.
    fn rest(&self, text: &str) -> String {
        text.strip_prefix(self.shown.as_str()).unwrap_or_default().to_owned()
    }
}

/// A block that is being streamed.
enum Open {
    Text(Streamed),
    Reasoning(Streamed),
    /// Arguments are held until they are complete, because a value may be split anywhere.
    Arguments,
}

/// The state of one streamed answer.
struct Pieces {
    rules: Arc<Rules>,
    report: Arc<Mutex<Findings>>,
    open: BTreeMap<usize, Open>,
}

type Redacted = Result<Vec<ModelEvent>, RedactionBlocked>;

impl Pieces {
    fn take(&mut self, event: ModelEvent) -> Vec<Result<ModelEvent, ModelError>> {
        match self.redacted(event) {
            Ok(events) => events.into_iter().map(Ok).collect(),
            Err(blocked) => {
                let error = ModelError::invalid(blocked.to_string());
                lock(&self.report).blocked = Some(blocked);
                vec![Err(error)]
            }
        }
    }

    /// Returns the number of bytes of text that are checked for an event.
    fn bytes(&self, event: &ModelEvent) -> usize {
        let complete = |block: usize| -> usize {
            let held = self.open.range(..block).map(|(_, open)| match open {
                Open::Text(held) | Open::Reasoning(held) => held.redactor.len(),
                Open::Arguments => 0,
            });
            held.sum()
        };
        match event {
            ModelEvent::Text { block, .. }
            | ModelEvent::Reasoning { block, .. }
            | ModelEvent::ToolCall { block, .. } => complete(*block),
            ModelEvent::Finished(output) => bytes_of(&output.message.content),
            _ => 0,
        }
    }

    fn redacted(&mut self, event: ModelEvent) -> Redacted {
        match event {
            ModelEvent::Text { block, delta } => self.piece(block, &delta, Open::Text),
            ModelEvent::Reasoning { block, delta } => self.piece(block, &delta, Open::Reasoning),
            ModelEvent::ToolCall { block, id, name } => {
                let mut events = self.close_before(block)?;
                self.open.insert(block, Open::Arguments);
                events.push(ModelEvent::ToolCall { block, id, name });
                Ok(events)
            }
            ModelEvent::ToolArgs { .. } => Ok(Vec::new()),
            ModelEvent::Retry { error, after } => {
                self.open.clear();
                Ok(vec![ModelEvent::Retry { error, after }])
            }
            ModelEvent::Finished(output) => self.finished(*output),
            other => Ok(vec![other]),
        }
    }

    fn piece(&mut self, block: usize, delta: &str, kind: fn(Streamed) -> Open) -> Redacted {
        let mut events = self.close_before(block)?;
        let open = self.open.entry(block).or_insert_with(|| kind(Streamed::default()));
        let shown = match open {
            Open::Text(held) | Open::Reasoning(held) => held.push(delta, &self.rules)?,
            Open::Arguments => String::new(),
        };
        events.extend(Self::event(block, open, shown));
        Ok(events)
    }

    fn event(block: usize, open: &Open, delta: String) -> Option<ModelEvent> {
        match open {
            _ if delta.is_empty() => None,
            Open::Text(_) => Some(ModelEvent::Text { block, delta }),
            Open::Reasoning(_) => Some(ModelEvent::Reasoning { block, delta }),
            Open::Arguments => Some(ModelEvent::ToolArgs { block, delta }),
        }
    }

    /// Shows the held text of earlier blocks, which are complete.
    fn close_before(&mut self, block: usize) -> Redacted {
        let mut events = Vec::new();
        for (at, open) in self.open.range_mut(..block) {
            if let Open::Text(held) | Open::Reasoning(held) = open {
                let shown = held.close(&self.rules)?;
                events.extend(Self::event(*at, open, shown));
            }
        }
        Ok(events)
    }

    fn finished(&mut self, mut output: ModelOutput) -> Redacted {
        let mut events = self.close_before(usize::MAX)?;
        let mut found = Found::new();
        redact_blocks(&mut output.message.content, &self.rules, &mut found)?;
        for (at, open) in std::mem::take(&mut self.open) {
            let left = match (&open, output.message.content.get(at)) {
                (Open::Arguments, Some(Block::ToolCall(call))) => call.args.to_string(),
                (Open::Arguments, Some(Block::InvalidToolCall(call))) => call.raw.clone(),
                (Open::Text(said), Some(Block::Text(text))) => said.rest(&text.text),
                (Open::Reasoning(said), Some(Block::Reasoning(thought))) => said.rest(&thought.text),
                _ => continue,
            };
            events.extend(Self::event(at, &open, left));
        }
        lock(&self.report).found = found;
        events.push(ModelEvent::Finished(Box::new(output)));
        Ok(events)
    }
}
