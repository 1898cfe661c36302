//! Runs of agents in the background: a thread that is the child of another is run by the agent that began it.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::driver::{Driver, Place, Setting};
use super::start::AGENT;
use super::{Outcome, RunError, RunInput};
use crate::context::{AgentDefinition, Inbox};
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal::{self, JournalError};
use crate::message::Usage;
use crate::state::State;

/// The key of a thread's metadata that holds why its last run failed.
pub(crate) const ERROR: &str = "error";

impl Driver {
    /// Runs as the agent whose thread it is: that of a child thread is the agent in the background that began it.
    pub(super) async fn run_as(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
        inbox: Arc<Inbox>,
    ) -> Result<Outcome, Box<RunError>> {
        let thread = input.thread.clone().filter(|thread| thread.contains('/'));
        let (mut child, mut own) = (matches!(setting.place, Place::Background(_)), agent.clone());
        if let Some(thread) = thread.as_deref().filter(|_| !child && setting.above.is_none()) {
            match agent_of(&agent, thread).await {
                Ok(Some(found)) => (child, own) = (true, found),
                Ok(None) => {}
                Err(error) => {
                    let (kind, text) = (error.kind().to_owned(), error.to_string());
                    setting.events.emit(&setting.path, None, || EventKind::RunFailed { kind, error: text });
                    return Err(Box::new(RunError::new(error, State::default(), Usage::default())));
                }
            }
        }
        child |= setting.above.is_some();
        let result = Self::run(own.clone(), input, setting, Some(inbox)).await;
        if let (Some(thread), Err(failure), true, Some(journal)) = (thread, &result, child, &own.journal)
            && !is_left_open(&failure.error)
        {
            // The log says that the run failed. Why is for those who look at the task; without it they are told less.
            let metadata = [(ERROR.to_owned(), failure.to_string().into())].into_iter().collect();
            let _ = journal.threads().set_metadata(&thread, metadata).await;
        }
        result
    }
}

/// Whether a run that failed so has left its thread to another, or open to be gone on with.
fn is_left_open(error: &Error) -> bool {
    use JournalError::{Busy, Fenced, Unavailable};
    matches!(error, Error::Journal(Busy { .. } | Fenced { .. } | Unavailable { .. }))
}

/// The agent in the background whose thread it is, able to write to it; none if the thread is of another kind.
///
/// # Errors
/// When no middleware of the agent above knows it, or the journal fails.
pub(crate) fn agent_of<'a>(
    agent: &'a Arc<AgentDefinition>,
    thread: &'a str,
) -> BoxFuture<'a, Result<Option<Arc<AgentDefinition>>>> {
    Box::pin(async move {
        let Some(journal) = &agent.journal else { return Ok(None) };
        let Some(info) = journal.threads().get(thread).await? else { return Ok(None) };
        let name = info.metadata.get(AGENT).and_then(serde_json::Value::as_str);
        let (Some(parent), Some(name)) = (info.parent, name) else { return Ok(None) };
        let above = agent_of(agent, &parent).await?.unwrap_or_else(|| agent.clone());
        let state = journal::load(&**journal, &parent, above.schema.clone(), None).await?.state;
        let found = above.stack.iter().find_map(|middleware| middleware.background_agent(name, &state));
        match found {
            Some(found) => Ok(Some(found.below(&above, journal))),
            None => Err(Error::Input(format!(
                "thread `{thread}` belongs to `{name}`, which agent `{}` does not know: give it that sub-agent again",
                above.name
            ))),
        }
    })
}
