//! Model usage of a thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::agents::Pages;
use super::{Journal, JournalError, LogEntry, Record, RecordUpdate, read_intact};
use crate::ids::LogPosition;
use crate::machine::{BudgetUsage, Machine};
use crate::message::{AssistantMessage, Message, MessageId, MessageOp, Usage};
use crate::state::{MessagesChannel, Schema};

/// Model usage of a thread as far as its log was read: by all processes, by sub-agents that share its log, and on
/// abandoned branches. Excludes background agents, which have their own threads.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadUsage {
    /// The usage of each answer, by model.
    answers: BTreeMap<String, Vec<Usage>>,
    /// Outside conversations, in runs that have ended and between runs.
    outside_conversations: Usage,
    run: RunUsage,
    counted: BTreeSet<MessageId>,
    end: LogPosition,
}

/// Usage of the run being read.
#[derive(Clone, Debug, Default, PartialEq)]
struct RunUsage {
    /// Of its answers, including those of sub-agents.
    answers: Usage,
    /// Total according to its last step, if recorded; and the total before the answers that were read.
    kept: Option<BudgetUsage>,
    before: Option<BudgetUsage>,
}

impl ThreadUsage {
    /// Iterates over the usage by model, as `provider:model`. Usage of unknown models has an empty name.
    pub fn models(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.answers.iter().map(|(model, answers)| (model.as_str(), answers.iter().copied().sum()))
    }

    /// Returns the usage of each answer with its model, named as by [`models`](Self::models). The price of an answer
    /// may depend on the size of its prompt.
    pub fn answers(&self) -> impl Iterator<Item = (&str, Usage)> {
        self.answers.iter().flat_map(|(model, answers)| answers.iter().map(|usage| (model.as_str(), *usage)))
    }

    /// Returns the usage outside conversations, for example by judges and summaries, as far as it was recorded.
    pub fn outside_conversations(&self) -> Usage {
        [self.outside_conversations, self.run.outside_conversations()].into_iter().sum()
    }

    /// Returns the total.
    pub fn total(&self) -> Usage {
        self.answers().map(|(_, usage)| usage).chain([self.outside_conversations()]).sum()
    }

    fn read(&mut self, record: Record, schema: &Schema) {
        let (record, is_main) = match record {
            Record::Child { entry, .. } => (*entry, false),
            own => (own, true),
        };
        match record {
            Record::RunStarted { .. } if is_main => {
                self.end_run();
                self.run.before = Some(BudgetUsage::default());
            }
            // At the earlier position, the resumed run had used less.
            Record::Rewind { .. } if is_main => self.end_run(),
            Record::Step { machine, .. } if is_main => self.run.step(&machine),
            Record::BudgetCharged { spent } if is_main => self.outside_conversations += spent.usage,
            Record::Update { update } | Record::StateUpdated { update, .. } | Record::ToolFinished { update, .. } => {
                self.updated(update, schema);
            }
            _ => {}
        }
    }

    fn end_run(&mut self) {
        self.outside_conversations += std::mem::take(&mut self.run).outside_conversations();
    }

    fn updated(&mut self, update: RecordUpdate, schema: &Schema) {
        // Changes that cannot be read are skipped: the rest is still useful.
        let Ok(update) = update.resolve(schema) else { return };
        for op in update.get::<MessagesChannel>().flatten() {
            if let MessageOp::Put(message) = op
                && let Message::Assistant(answer) = &**message
            {
                self.answered(answer);
            }
        }
    }

    fn answered(&mut self, answer: &AssistantMessage) {
        let Some(usage) = answer.usage else { return };
        // An answer that was replaced by one with the same id was paid for only once.
        if !self.counted.insert(answer.id.clone()) {
            return;
        }
        let model = answer.origin.as_ref().map(|origin| format!("{}:{}", origin.provider, origin.model));
        self.answers.entry(model.unwrap_or_default()).or_default().push(usage);
        self.run.answers += usage;
    }
}

impl RunUsage {
    fn step(&mut self, machine: &Machine) {
        let Some(budget_state) = machine.budget_state() else { return };
        if self.before.is_none() {
            let answers = BudgetUsage { usage: self.answers, ..BudgetUsage::default() };
            self.before = Some(budget_state.own().since(&answers));
        }
        self.kept = Some(budget_state.own());
    }

    /// Returns the usage that belongs to none of the answers.
    fn outside_conversations(&self) -> Usage {
        let Some(kept) = &self.kept else { return Usage::default() };
        let answers = BudgetUsage { usage: self.answers, ..BudgetUsage::default() };
        kept.since(&self.before.unwrap_or_default()).since(&answers).usage
    }
}

/// Adds the model usage in a thread from where it was last read, page by page.
///
/// # Errors
/// Returns an error if the log cannot be read.
pub async fn usage(
    journal: &dyn Journal,
    thread: &str,
    schema: &Arc<Schema>,
    mut before: ThreadUsage,
) -> Result<ThreadUsage, JournalError> {
    for page in Pages::from(journal, thread, before.end).await? {
        let end = page.end;
        for LogEntry { record, .. } in read_intact(journal, thread, page).await? {
            before.read(record, schema);
        }
        before.end = end;
    }
    Ok(before)
}
