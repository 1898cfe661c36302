//! The same for callers without an async runtime.
//!
//! ```
//! use deepagents::DeepAgent;
//! use deepagents::blocking::BlockingAgent;
//! use deepagents::models::scripted::{ScriptedModel, Turn};
//!
//! let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Hello.")])).build()?;
//! let agent = BlockingAgent::new(agent)?;
//! assert_eq!(agent.invoke("Say hello.")?.text(), "Hello.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::io;

use deepagents_core::error::Result;
use deepagents_core::event::Event;
use deepagents_core::run::{Outcome, Run, RunError, RunInput};
use deepagents_core::state::State;
use futures_util::StreamExt;
use tokio::runtime::Runtime;

use crate::DeepAgent;

/// A deep agent with a runtime of its own. Not to be used inside another runtime, whose thread it would block.
#[derive(Debug)]
pub struct BlockingAgent {
    agent: DeepAgent,
    runtime: Runtime,
}

impl BlockingAgent {
    /// Gives an agent a runtime.
    ///
    /// # Errors
    /// When the system gives no threads.
    pub fn new(agent: DeepAgent) -> io::Result<Self> {
        Ok(Self { agent, runtime: tokio::runtime::Builder::new_multi_thread().enable_all().build()? })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        self.runtime.block_on(self.agent.invoke(input))
    }

    /// Starts a run; iterate it for its events.
    pub fn run(&self, input: impl Into<RunInput>) -> BlockingRun<'_> {
        let _inside = self.runtime.enter();
        BlockingRun { run: self.agent.run(input), runtime: &self.runtime }
    }

    /// The state of a thread.
    ///
    /// # Errors
    /// When the agent has no journal or the log cannot be read.
    pub fn state(&self, thread: &str) -> Result<State> {
        self.runtime.block_on(self.agent.state(thread))
    }
}

/// A run under way: an iterator of its events.
#[derive(Debug)]
pub struct BlockingRun<'a> {
    run: Run,
    runtime: &'a Runtime,
}

impl BlockingRun<'_> {
    /// The run below, to steer or cancel it.
    pub fn handle(&self) -> &Run {
        &self.run
    }

    /// Waits for the end.
    ///
    /// # Errors
    /// When the run fails; the error holds what it had finished.
    pub fn outcome(self) -> Result<Outcome, Box<RunError>> {
        self.runtime.block_on(self.run.outcome())
    }
}

impl Iterator for BlockingRun<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.runtime.block_on(self.run.next())
    }
}
