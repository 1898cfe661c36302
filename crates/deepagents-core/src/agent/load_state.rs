//! The state that `before_agent` hooks load.

use super::Agent;
use crate::context::ContextBuilder;
use crate::error::{Error, Result};
use crate::state::State;

impl Agent {
    /// Returns the state that the named middlewares give a new run: their `before_agent` hooks are called on an empty
    /// state, in order. A program uses this to show what is loaded from files, such as skills and sub-agents, before
    /// running anything. Nothing is stored.
    ///
    /// ```
    /// use deepagents_core::agent::Agent;
    /// use deepagents_core::message::Message;
    /// use deepagents_core::middleware::{HookOutput, before_agent};
    /// use deepagents_core::model::NoModel;
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let notice = before_agent(|_cx| async { Ok(HookOutput::message(Message::harness("It is Friday."))) });
    /// let agent = Agent::builder(NoModel).middleware(notice).build().unwrap();
    /// let name = agent.middlewares().next().unwrap().name().to_owned();
    /// assert_eq!(agent.load_state(&[&name]).await?.messages().len(), 1);
    /// assert_eq!(agent.load_state(&[]).await?.messages().len(), 0);
    /// # Ok::<(), deepagents_core::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Returns an error if a hook fails or makes a change that is not allowed.
    pub async fn load_state(&self, middlewares: &[&str]) -> Result<State> {
        let definition = &self.definition;
        let mut state = State::new(definition.schema.clone());
        for middleware in definition.middlewares().filter(|middleware| middlewares.contains(&middleware.name())) {
            let cx = ContextBuilder::for_agent(definition).state(state.clone()).build();
            let output = middleware.before_agent(&cx).await?;
            state.apply(&output.update.with_ids(&*definition.ids)).map_err(Error::from)?;
        }
        Ok(state)
    }
}
