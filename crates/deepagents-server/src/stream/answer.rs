//! An assistant message while it is streamed: its blocks start, grow and finish.

use std::sync::Arc;

use deepagents::EventKind;
use deepagents_core::message::{AssistantMessage, Block, Reasoning, Text};

use super::event::{Delta, Kind, OpenBlock};

/// What has been streamed of a message so far.
#[derive(Debug, Default)]
pub(super) struct OpenAnswer {
    id: Arc<str>,
    begun: bool,
    /// Whether it was shown as a whole, so that its chunks are ignored.
    complete: bool,
    blocks: Vec<Streamed>,
}

#[derive(Debug)]
struct Streamed {
    sort: Sort,
    finished: bool,
}

/// Distinguishes the blocks of a message while it is streamed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Text,
    Reasoning,
    /// Identified by its index in the message.
    Call(usize),
    /// A block that is not streamed in chunks.
    Whole,
}

impl OpenAnswer {
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// Creates a message that was shown as a whole before its chunks arrive.
    pub(super) fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Whether it was shown as a whole before its chunks arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether no model has started it, so that its id is not known yet.
    pub(super) fn is_unnamed(&self) -> bool {
        self.id.is_empty()
    }

    /// Handles a chunk. Other events produce nothing.
    pub(super) fn add_chunk(&mut self, event: &EventKind) -> Vec<Kind> {
        let mut out = Vec::new();
        if self.complete {
            return out;
        }
        match event {
            EventKind::TextDelta { text, .. } => {
                let index = self.open(Sort::Text, OpenBlock::Text, &mut out);
                out.push(self.delta(index, Delta::Text(text.clone())));
            }
            EventKind::ReasoningDelta { text, .. } => {
                let index = self.open(Sort::Reasoning, OpenBlock::Reasoning, &mut out);
                out.push(self.delta(index, Delta::Reasoning(text.clone())));
            }
            EventKind::ToolCallDelta { block, id, name, args, .. } => {
                let begins = OpenBlock::Call { id: id.clone(), name: name.clone() };
                let index = self.open(Sort::Call(*block), begins, &mut out);
                if !args.is_empty() {
                    out.push(self.delta(index, Delta::Args(args.clone())));
                }
            }
            _ => {}
        }
        out
    }

    fn delta(&self, index: usize, delta: Delta) -> Kind {
        Kind::BlockDelta { message: self.id.clone(), index, delta }
    }

    fn begin(&mut self, out: &mut Vec<Kind>) {
        if !std::mem::replace(&mut self.begun, true) {
            out.push(Kind::MessageStarted(self.id.to_string()));
        }
    }

    /// Returns the index of the block that a chunk belongs to. Text continues the last block if that is text, too.
    fn open(&mut self, sort: Sort, block: OpenBlock, out: &mut Vec<Kind>) -> usize {
        self.begin(out);
        let found = match sort {
            Sort::Call(_) => self.blocks.iter().position(|known| known.sort == sort),
            _ => self.blocks.len().checked_sub(1).filter(|last| self.blocks.get(*last).is_some_and(|b| b.sort == sort)),
        };
        found.unwrap_or_else(|| self.add(sort, block, out))
    }

    fn add(&mut self, sort: Sort, block: OpenBlock, out: &mut Vec<Kind>) -> usize {
        let index = self.blocks.len();
        self.blocks.push(Streamed { sort, finished: false });
        out.push(Kind::BlockStarted { message: self.id.clone(), index, block });
        index
    }

    /// Discards the streamed chunks. Returns an event if there were any.
    pub(super) fn discard(&mut self, reason: &str) -> Option<Kind> {
        self.blocks.clear();
        std::mem::take(&mut self.begun).then(|| Kind::MessageVoided(reason.to_owned()))
    }

    /// Finishes the message: emits what was not streamed, and the end of each block. `None` stands for an event that
    /// was streamed, so that event numbers do not depend on the chunks.
    pub(super) fn finish(&mut self, answer: &AssistantMessage) -> Vec<Option<Kind>> {
        if *self.id != *answer.id {
            *self = Self::new(&answer.id);
        }
        let (mut out, mut added) = (Vec::new(), Vec::new());
        self.begin(&mut added);
        out.push(added.pop());
        for block in &with_joined_texts(&answer.content) {
            let (sort, begins, all) = match block {
                Block::Text(text) if text.text.is_empty() => continue,
                Block::Text(text) => (Sort::Text, OpenBlock::Text, Delta::Text(text.text.clone())),
                Block::Reasoning(thought) if thought.text.is_empty() => continue,
                Block::Reasoning(thought) => {
                    (Sort::Reasoning, OpenBlock::Reasoning, Delta::Reasoning(thought.text.clone()))
                }
                Block::ToolCall(call) => {
                    let begins = OpenBlock::Call { id: Some(call.id.clone()), name: Some(call.name.clone()) };
                    (Sort::Call(usize::MAX), begins, Delta::Args(call.args.to_string()))
                }
                Block::InvalidToolCall(call) => {
                    let begins = OpenBlock::Call { id: Some(call.id.clone()), name: Some(call.name.clone()) };
                    (Sort::Call(usize::MAX), begins, Delta::Args(call.raw.clone()))
                }
                Block::Media(_) => (Sort::Whole, OpenBlock::Text, Delta::Text(String::new())),
                // Provider-specific items are not shown to clients.
                _ => continue,
            };
            let index = match self.first_open_block(sort) {
                Some(index) => {
                    out.extend([None, None]);
                    index
                }
                None => {
                    let index = self.add(sort, begins, &mut added);
                    out.push(added.pop());
                    out.push(Some(self.delta(index, all)));
                    index
                }
            };
            if let Some(streamed) = self.blocks.get_mut(index) {
                streamed.finished = true;
            }
            out.push(Some(Kind::BlockFinished { index, block: block.clone() }));
        }
        out.push(Some(Kind::MessageFinished(Arc::new(answer.clone()))));
        out
    }

    /// Returns the first unfinished block of a sort.
    fn first_open_block(&self, sort: Sort) -> Option<usize> {
        let fits = |known: &Streamed| match sort {
            Sort::Call(_) => matches!(known.sort, Sort::Call(_)),
            other => known.sort == other,
        };
        self.blocks.iter().position(|known| !known.finished && fits(known))
    }
}

/// Joins texts between which nothing is streamed, and likewise reasoning: their pieces arrive as those of one block.
fn with_joined_texts(blocks: &[Block]) -> Vec<Block> {
    let mut out: Vec<Block> = Vec::with_capacity(blocks.len());
    // The last block that is streamed. Provider-specific items and media are not.
    let mut last: Option<usize> = None;
    for block in blocks {
        match (last.and_then(|at| out.get_mut(at)), block) {
            (_, Block::Text(Text { text, .. }) | Block::Reasoning(Reasoning { text, .. })) if text.is_empty() => {}
            (Some(Block::Text(before)), Block::Text(more)) => {
                before.text.push_str(&more.text);
                before.native = None;
            }
            (Some(Block::Reasoning(before)), Block::Reasoning(more)) => {
                before.text.push_str(&more.text);
                before.native = None;
            }
            (_, block) => {
                if !matches!(block, Block::ProviderItem(_) | Block::Media(_)) {
                    last = Some(out.len());
                }
                out.push(block.clone());
            }
        }
    }
    out
}
