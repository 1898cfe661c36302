//! The calls and spending of all agents according to a log. This reads the JSON of the records, so it does not depend
//! on how records of sub-agents are nested.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use deepagents_core::journal::{Journal, ThreadQuery};
use serde_json::Value;

/// The content of a log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Started calls, by tag.
    pub(crate) started: BTreeSet<String>,
    /// Results, by tag.
    pub(crate) finished: BTreeMap<String, String>,
    /// How often a call was in flight when a process resumed the work of an earlier one. Only the log knows this,
    /// because the last write of a process may arrive after it was killed.
    pub(crate) in_doubt: BTreeMap<String, usize>,
    /// The spending of the main agent and all below it, according to the last step.
    pub(crate) spent: Option<Spending>,
}

/// The compared part of the spending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spending {
    pub(crate) model_calls: u64,
    pub(crate) output: u64,
}

impl Log {
    pub(crate) async fn read(journal: &dyn Journal, thread: &str) -> Result<Self> {
        let end = journal.load(thread, None).await?.end;
        let entries = journal.read(thread, 0..end).await?;
        ensure!(entries.len() as u64 == end, "the log has {} records and ends at {end}", entries.len());
        let records = entries.iter().map(|entry| serde_json::to_value(&entry.record));
        let mut log = Self::of_records(&records.collect::<Result<Vec<_>, _>>()?)?;
        // Background agents have logs of their own.
        for child in journal.threads().list(&ThreadQuery::default().parent(thread)).await? {
            log.add(Box::pin(Self::read(journal, &child.id)).await?);
        }
        Ok(log)
    }

    /// Reads a thread exported by `threads export`.
    pub(crate) fn exported(document: &Value) -> Result<Self> {
        let entries = document.get("records").and_then(Value::as_array).context("an export without records")?;
        let records: Vec<Value> = entries.iter().filter_map(|entry| entry.get("record")).cloned().collect();
        let mut log = Self::of_records(&records)?;
        for child in document.get("children").and_then(Value::as_array).into_iter().flatten() {
            log.add(Self::exported(child)?);
        }
        Ok(log)
    }

    fn of_records(records: &[Value]) -> Result<Self> {
        let mut log = Self::default();
        for record in records {
            match kind(record) {
                Some("step") => log.spent = spending(record).or(log.spent),
                Some("run_resumed") => log.resumed(),
                _ => {}
            }
            log.take(record)?;
        }
        Ok(log)
    }

    /// Adds the log of a background agent.
    fn add(&mut self, child: Self) {
        self.started.extend(child.started);
        self.finished.extend(child.finished);
        self.in_doubt.extend(child.in_doubt);
    }

    fn resumed(&mut self) {
        for tag in self.started.iter().filter(|tag| !self.finished.contains_key(*tag)) {
            *self.in_doubt.entry(tag.clone()).or_default() += 1;
        }
    }

    fn take(&mut self, record: &Value) -> Result<()> {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        match kind(record) {
            Some("tool_started") => {
                self.started.insert(text(record.get("wire_id")).context("a call without an id")?);
            }
            Some("tool_finished") => {
                let message = record.get("message").context("a result without a message")?;
                let tag = text(message.get("call_id")).context("a result without an id")?;
                let before = self.finished.insert(tag.clone(), message.to_string());
                ensure!(before.is_none(), "call {tag} has two results in the log");
            }
            // These contain no calls and no nested records.
            Some("update" | "state_updated" | "step") => {}
            _ => {
                let Value::Object(fields) = record else { return Ok(()) };
                fields.values().try_for_each(|field| self.take_inner(field))?;
            }
        }
        Ok(())
    }

    fn take_inner(&mut self, value: &Value) -> Result<()> {
        match value {
            Value::Object(_) => self.take(value),
            Value::Array(values) => values.iter().try_for_each(|value| self.take_inner(value)),
            _ => Ok(()),
        }
    }
}

fn kind(record: &Value) -> Option<&str> {
    record.get("record")?.as_str()
}

fn spending(step: &Value) -> Option<Spending> {
    let spent = step.pointer("/machine/ledger/spent")?;
    let number = |at: &str| spent.pointer(at).and_then(Value::as_u64).unwrap_or(0);
    Some(Spending { model_calls: number("/model_calls"), output: number("/usage/output") })
}
