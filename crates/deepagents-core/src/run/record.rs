//! Outcomes of runs as data, for queues, other processes and other languages.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Outcome, RunError, RunInput};
use crate::ids::ThreadId;
use crate::machine::BudgetUsage;
use crate::message::Usage;
use crate::state::{ChannelError, Schema, State};
use crate::status::FinishReason;

/// Version of the JSON forms of [`Outcome`] and [`RunError`]. It is incremented when a field changes meaning or is
/// removed, not when one is added.
pub const OUTCOME_VERSION: u32 = 1;

/// An [`Outcome`] as data. Deserialise its JSON as this type if the agent's channels are not known. Private channels
/// are not included.
///
/// ```
/// # async fn f(agent: deepagents_core::agent::Agent) -> Result<(), Box<dyn std::error::Error>> {
/// use deepagents_core::run::OutcomeRecord;
/// let json = serde_json::to_string(&agent.invoke("Count the files.").await?)?;
/// let record: OutcomeRecord = serde_json::from_str(&json)?;
/// let outcome = record.into_outcome(agent.schema())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutcomeRecord {
    /// [`OUTCOME_VERSION`].
    pub v: u32,
    /// The run's id.
    pub run: String,
    /// The thread, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<ThreadId>,
    /// Why the run ended.
    pub stop: FinishReason,
    /// Tokens used by all its agents.
    pub usage: Usage,
    /// Tokens by agent name.
    #[serde(default)]
    pub usage_by_agent: BTreeMap<String, Usage>,
    /// Number of model calls of the main agent, not counting retries.
    pub model_calls: u32,
    /// The amount spent by all its agents.
    pub spent: BudgetUsage,
    /// The state by channel, as [`State::to_json`] returns it.
    pub state: Map<String, Value>,
}

/// A [`RunError`] as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RunErrorRecord {
    /// [`OUTCOME_VERSION`].
    pub v: u32,
    /// A stable identifier for the class of the error; see [`Error::kind`](crate::error::Error::kind).
    pub kind: String,
    /// The error as text.
    pub error: String,
    /// Tokens used.
    pub usage: Usage,
    /// The state by channel, as [`State::to_json`] returns it.
    pub state: Map<String, Value>,
}

impl OutcomeRecord {
    /// Converts the record into an outcome for an agent with these channels. Values of other channels are left out.
    ///
    /// # Errors
    /// Returns an error if a value does not have its channel's type.
    pub fn into_outcome(self, schema: &Arc<Schema>) -> Result<Outcome, ChannelError> {
        Ok(Outcome {
            stop: self.stop,
            state: State::from_json(schema.clone(), self.state)?,
            usage: self.usage,
            usage_by_agent: self.usage_by_agent,
            model_calls: self.model_calls,
            spent: self.spent,
            thread: self.thread,
            run: self.run,
        })
    }
}

impl Outcome {
    /// Returns the outcome as data.
    ///
    /// # Errors
    /// Returns an error if a value cannot be serialised as JSON.
    pub fn record(&self) -> Result<OutcomeRecord, ChannelError> {
        Ok(OutcomeRecord {
            v: OUTCOME_VERSION,
            run: self.run.clone(),
            thread: self.thread.clone(),
            stop: self.stop.clone(),
            usage: self.usage,
            usage_by_agent: self.usage_by_agent.clone(),
            model_calls: self.model_calls,
            spent: self.spent,
            state: self.state.to_json(false)?,
        })
    }
}

impl RunError {
    /// Returns the error as data.
    ///
    /// # Errors
    /// Returns an error if a value of the state cannot be serialised as JSON.
    pub fn record(&self) -> Result<RunErrorRecord, ChannelError> {
        Ok(RunErrorRecord {
            v: OUTCOME_VERSION,
            kind: self.kind().to_owned(),
            error: self.error.to_string(),
            usage: self.usage,
            state: self.state.to_json(false)?,
        })
    }
}

/// Serialises as an [`OutcomeRecord`].
impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.record().map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Serialises as a [`RunErrorRecord`].
impl Serialize for RunError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.record().map_err(S::Error::custom)?.serialize(serializer)
    }
}

/// Serialises as an [`InputRecord`](super::InputRecord), which says what it leaves out.
impl Serialize for RunInput {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.record().map_err(S::Error::custom)?.serialize(serializer)
    }
}
