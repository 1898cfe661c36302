//! The tools offered to the model: the agent's own, and those that its middlewares offer per request.

use super::abort::Break;
use super::driver::Driver;
use crate::context::{AgentDefinition, Context};
use crate::error::{Error, Result};
use crate::panics::lock;
use crate::tool::{ToolSet, ToolSetError};

impl Driver {
    /// Returns the tools for calls of the current turn.
    pub(super) fn tools_on_offer(&self) -> ToolSet {
        lock(&self.shared.tools).clone()
    }

    /// Collects the middlewares' tools if this process has not done so yet, which is the case when it resumes with an
    /// answer from an earlier process.
    pub(super) async fn offer_tools_once(&mut self) -> Result<(), Break> {
        if self.offered.is_some() { Ok(()) } else { self.offer_tools().await }
    }

    /// Collects the middlewares' tools for the next request.
    pub(super) async fn offer_tools(&mut self) -> Result<(), Break> {
        let cx = Context::at(&self.shared, &self.state, self.machine.turn());
        let offered = self.guard_foreign(offered_tools(&cx)).await.map_err(Break::Halt)??;
        let none = Vec::new();
        let last = self.offered.as_ref().unwrap_or(&none);
        let same = last.len() == offered.len() && last.iter().zip(&offered).all(|(a, b)| a.is_same(b));
        if !same {
            let joined = join_offered(&self.shared.agent, &offered, &cx.tools)?;
            *lock(&self.shared.tools) = joined;
        }
        self.offered = Some(offered);
        Ok(())
    }
}

/// Collects the tools that an agent's middlewares offer.
pub(crate) async fn offered_tools(cx: &Context) -> Result<Vec<ToolSet>> {
    let mut offered = Vec::new();
    for middleware in cx.shared.agent.stack.iter() {
        let failed = |error: Error| error.in_hook(middleware.name(), "offered_tools");
        offered.extend(middleware.offered_tools(cx).await.map_err(failed)?);
    }
    Ok(offered)
}

/// Joins the agent's own tools with the offered ones, replacing the set `before`.
pub(crate) fn join_offered(agent: &AgentDefinition, offered: &[ToolSet], before: &ToolSet) -> Result<ToolSet> {
    let joined = agent.tools.joined(offered, before).map_err(|error| clash(&error))?;
    match agent.format.as_ref().filter(|format| joined.get(format.name()).is_some()) {
        Some(format) => Err(clash(&ToolSetError::Twice(format.name().to_owned()))),
        None => Ok(joined),
    }
}

fn clash(error: &ToolSetError) -> Error {
    Error::Input(format!("the tools that middlewares offer cannot be offered together: {error}"))
}
