//! Runs of background agents: the agent that started a child thread also runs it.

use std::sync::Arc;

use futures_core::future::BoxFuture;

use super::driver::{Driver, Place, Setting};
use super::start::AGENT;
use super::{Outcome, RunError, RunInput};
use crate::context::AgentDefinition;
use crate::error::{Error, Result};
use crate::event::EventKind;
use crate::journal;
use crate::journal::JournalError::{Busy, Fenced, Unavailable};

/// The thread metadata key that holds why the thread's last run failed.
pub(crate) const ERROR: &str = "error";

impl Driver {
    /// Runs the agent that the thread belongs to. A child thread belongs to the background agent that started it.
    pub(super) async fn run_as(
        agent: Arc<AgentDefinition>,
        input: Box<RunInput>,
        setting: Setting,
    ) -> Result<Outcome, Box<RunError>> {
        let thread = input.thread.clone().filter(|thread| thread.contains('/'));
        let (mut child, mut own) = (matches!(setting.place, Place::Background(_)), agent.clone());
        if let Some(thread) = thread.as_deref().filter(|_| !child && setting.above.is_none()) {
            match agent_of(&agent, thread).await {
                Ok(Some(found)) => (child, own) = (true, found),
                Ok(None) => {}
                Err(error) => {
                    setting.events.emit(&setting.path, None, || EventKind::failed(&error, true));
                    return Err(Box::new(RunError::without_state(error)));
                }
            }
        }
        child |= setting.above.is_some();
        let result = Self::run(own.clone(), input, setting).await;
        if let (Some(thread), Err(failure), true, Some(journal)) = (thread, &result, child, &own.journal)
            // The thread was left neither to another owner nor open to be resumed.
            && !matches!(*failure.error, Error::Journal(Busy { .. } | Fenced { .. } | Unavailable { .. }))
        {
            // The log records only that the run failed. The reason goes into the metadata for readers of the task; if
            // storing it fails, they only lack the reason.
            let metadata = [(ERROR.to_owned(), failure.to_string().into())].into_iter().collect();
            let _ = journal.threads().set_metadata(&thread, metadata).await;
        }
        result
    }
}

/// Returns the background agent that a thread belongs to, with access to the journal, or `None` if the thread is of
/// another kind.
///
/// # Errors
/// Returns an error if no middleware of the parent agent knows the agent, or the journal fails.
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
