//! A blocking API for callers without an async runtime.
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

use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use deepagents_core::error::{Error, Result};
use deepagents_core::event::Event;
use deepagents_core::run::{Outcome, Run, RunError, RunHandle, RunInput};
use deepagents_core::state::State;
use futures_util::StreamExt;
use tokio::runtime::{Handle, Runtime};

use crate::DeepAgent;

/// A deep agent with its own runtime. Its methods block the calling thread, and may also be called from within another
/// runtime.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::blocking::BlockingAgent;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
///
/// let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("Four.")])).build()?;
/// assert_eq!(BlockingAgent::new(agent)?.invoke("2 + 2?")?.text(), "Four.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlockingAgent {
    agent: DeepAgent,
    runtime: OwnRuntime,
}

/// A runtime that can be blocked on and dropped in any context.
#[derive(Debug)]
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// Blocks until the future completes. Within another runtime, whose threads must not block on a runtime, it blocks
    /// on a separate thread.
    fn wait<T: Send>(&self, work: impl Future<Output = T> + Send) -> io::Result<T> {
        let Some(runtime) = &self.0 else { return Err(io::ErrorKind::NotConnected.into()) };
        if Handle::try_current().is_err() {
            return Ok(runtime.block_on(work));
        }
        std::thread::scope(|scope| {
            let waiting = std::thread::Builder::new().spawn_scoped(scope, || runtime.block_on(work))?;
            Ok(waiting.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        // Within another runtime, a blocking shutdown would panic.
        if let Some(runtime) = self.0.take_if(|_| Handle::try_current().is_ok()) {
            runtime.shutdown_background();
        }
    }
}

impl BlockingAgent {
    /// Creates a runtime for an agent.
    ///
    /// # Errors
    /// Returns an error if the runtime cannot start its threads.
    pub fn new(agent: DeepAgent) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        Ok(Self { agent, runtime: OwnRuntime(Some(runtime)) })
    }

    /// Runs the agent to completion.
    ///
    /// # Errors
    /// Returns an error if the run fails; the error holds the state reached so far.
    pub fn invoke(&self, input: impl Into<RunInput>) -> Result<Outcome, Box<RunError>> {
        let input = input.into();
        self.runtime.wait(self.agent.invoke(input)).unwrap_or_else(|error| Err(failed(error)))
    }

    /// Starts a run. Iterate over it to receive its events.
    pub fn run(&self, input: impl Into<RunInput>) -> BlockingRun<'_> {
        let _inside = self.runtime.0.as_ref().map(Runtime::enter);
        BlockingRun { run: self.agent.run(input), _runtime: PhantomData }
    }

    /// Returns the state of a thread.
    ///
    /// # Errors
    /// Returns an error if the agent has no journal or the log cannot be read.
    pub fn state(&self, thread: &str) -> Result<State> {
        self.runtime.wait(self.agent.state(thread)).unwrap_or_else(|error| Err(Error::other(error)))
    }
}

/// Blocks the calling thread until a future completes that needs no runtime to be polled, only to be woken. Unlike a
/// runtime, this may block a thread of another runtime, and needs no thread of its own.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    // Within a task of another runtime, that task's share of polls would never be renewed.
    let mut work = pin!(tokio::task::unconstrained(work));
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
            return done;
        }
        std::thread::park();
    }
}

/// A run in progress: an iterator over its events. Waiting for the next event, or for the outcome, blocks the calling
/// thread, also one of another runtime. A tool or model that needs that thread would then wait forever.
///
/// ```
/// use deepagents::blocking::BlockingAgent;
/// use deepagents::{EventKind, Outcome, RunError};
/// fn run(agent: &BlockingAgent) -> Result<Outcome, Box<RunError>> {
///     let mut run = agent.run("Tidy up.");
///     for event in run.by_ref() {
///         if let EventKind::ToolStarted { name, .. } = event.kind {
///             println!("{name} …");
///         }
///     }
///     run.outcome()
/// }
/// ```
#[derive(Debug)]
pub struct BlockingRun<'a> {
    run: Run,
    /// It needs the agent's runtime.
    _runtime: PhantomData<&'a OwnRuntime>,
}

impl BlockingRun<'_> {
    /// Returns a handle of the run, to steer or cancel it, also from another thread.
    pub fn handle(&self) -> RunHandle {
        self.run.handle()
    }

    /// Waits for the run to end.
    ///
    /// # Errors
    /// Returns an error if the run fails; the error holds the state reached so far.
    pub fn outcome(self) -> Result<Outcome, Box<RunError>> {
        block_on(self.run.outcome())
    }
}

impl Iterator for BlockingRun<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        block_on(self.run.next())
    }
}

/// Returns the error of a run that could not be waited for.
fn failed(error: io::Error) -> Box<RunError> {
    Box::new(RunError::without_state(Error::other(error)))
}
