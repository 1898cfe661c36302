//! An answer as it is given: blocks that begin, grow and are complete.

use std::sync::Arc;

use deepagents::EventKind;
use deepagents_core::message::{AssistantMessage, Block};

use super::event::{Delta, Kind, OpenBlock};

/// What was streamed of an answer so far.
#[derive(Debug, Default)]
pub(super) struct OpenAnswer {
    id: Arc<str>,
    begun: bool,
    /// Whether its pieces say nothing new.
    complete: bool,
    blocks: Vec<Streamed>,
}

#[derive(Debug)]
struct Streamed {
    sort: Sort,
    finished: bool,
}

/// What tells blocks of an answer apart while it is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Text,
    Reasoning,
    /// By its place in the answer.
    Call(usize),
    /// One that is only there when it is complete.
    Whole,
}

impl OpenAnswer {
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.into(), ..Self::default() }
    }

    /// One whose pieces come after it was shown as a whole.
    pub(super) fn complete() -> Self {
        Self { complete: true, ..Self::default() }
    }

    /// Whether it was shown as a whole before its pieces came.
    pub(super) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Whether no model has begun it, so that its id is not known yet.
    pub(super) fn is_unnamed(&self) -> bool {
        self.id.is_empty()
    }

    /// Takes in a piece; other events say nothing.
    pub(super) fn piece(&mut self, event: &EventKind) -> Vec<Kind> {
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
            out.push(Kind::MessageStarted { id: self.id.to_string() });
        }
    }

    /// The index of the block that a piece belongs to: texts go on where the last block is one.
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

    /// What was streamed does not count; none where nothing was.
    pub(super) fn void(&mut self, reason: &str) -> Option<Kind> {
        self.blocks.clear();
        std::mem::take(&mut self.begun).then(|| Kind::MessageVoided { reason: reason.to_owned() })
    }

    /// The answer is complete: what was not streamed of it, and the end of each block. None stands for what was, so that the
    /// events of the record have the same numbers whether anybody saw the pieces or not.
    pub(super) fn finish(&mut self, answer: &AssistantMessage) -> Vec<Option<Kind>> {
        if *self.id != *answer.id {
            *self = Self::new(&answer.id);
        }
        let (mut out, mut added) = (Vec::new(), Vec::new());
        self.begin(&mut added);
        out.push(added.pop());
        for block in &answer.content {
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
                // Items of a provider alone say nothing to clients.
                _ => continue,
            };
            let index = match self.unfinished(sort) {
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
        out.push(Some(Kind::MessageFinished { message: Arc::new(answer.clone()) }));
        out
    }

    /// The first block of a sort that was streamed and is not complete yet.
    fn unfinished(&self, sort: Sort) -> Option<usize> {
        let fits = |known: &Streamed| match sort {
            Sort::Call(_) => matches!(known.sort, Sort::Call(_)),
            other => known.sort == other,
        };
        self.blocks.iter().position(|known| !known.finished && fits(known))
    }
}
