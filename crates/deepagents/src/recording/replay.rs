//! Replays recordings.

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::error::Result;
use deepagents_core::event::Event;
use deepagents_core::run::{Outcome, RunError};
use serde::Deserialize;
use tokio::sync::watch;

use super::expected::State;
use super::{Completeness, Divergence, RunRecording};
use crate::shared::lock;

/// How long a replay waits for the next event. Only tools take time in a replay, so after this time it is stuck: the
/// recorded event will not occur.
const fn change_timeout(tools: Tools) -> Duration {
    match tools {
        Tools::Recorded => Duration::from_secs(10),
        Tools::Live => Duration::from_secs(600),
    }
}

/// The source of tool results in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tools {
    /// The recording: no tool is executed. Calls that run sub-agents are made, and the sub-agents are replayed.
    #[default]
    Recorded,
    /// The tools: they are executed and must behave as recorded.
    Live,
}

/// Replays a recording: a [`RunObserver`](deepagents_core::run::RunObserver) that takes the place of models and tools
/// and compares events with the recording. Can be used once. See the [module](super) for an example.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::recording::{RunRecording, Tools};
/// # async fn example(recording: RunRecording) -> Result<(), Box<dyn std::error::Error>> {
/// let agent = DeepAgent::builder().model(recording.model()).build()?;
/// // The tools are run, and have to do what they did.
/// let replayed = recording.replay(Tools::Live).run(&agent).await?;
/// println!("{}", replayed.text().unwrap_or_default());
/// # Ok(()) }
/// ```
pub struct Replay {
    pub(super) recording: RunRecording,
    pub(super) tools: Tools,
    completeness: Completeness,
    pub(super) state: Mutex<State>,
    /// Signals changes that waiting tasks may depend on.
    pub(super) changed: watch::Sender<()>,
}

/// The result of a replay without divergence.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// The result of the run, or of the last one if there were several; `None` if the recording has no runs.
    pub result: Option<Result<Outcome, Box<RunError>>>,
    /// How complete the recording is, and with it the replay.
    pub completeness: Completeness,
}

impl Replayed {
    /// Returns the final answer, if the run reached one.
    pub fn text(&self) -> Option<String> {
        self.result.as_ref()?.as_ref().ok().map(Outcome::text)
    }
}

impl Replay {
    pub(super) fn new(recording: RunRecording, tools: Tools) -> Arc<Self> {
        let state = State::new(&recording);
        let completeness = recording.completeness();
        Arc::new(Self { recording, tools, completeness, state: Mutex::new(state), changed: watch::Sender::new(()) })
    }

    /// Returns the recording.
    pub fn recording(&self) -> &RunRecording {
        &self.recording
    }

    /// Replays the whole recording with an agent: the input of the run and all its continuations. If the run had a
    /// thread, the agent needs a journal without that thread.
    ///
    /// # Errors
    /// Returns the first divergence.
    pub async fn run(self: &Arc<Self>, agent: &Agent) -> Result<Replayed, Divergence> {
        let mut result = None;
        for input in self.recording.inputs().to_vec() {
            let input = input.into_input(agent.schema());
            let input = input.map_err(|error| Divergence::Input { reason: error.to_string() })?;
            result = Some(agent.run(input.observer(self.clone())).outcome().await);
            if let Some(divergence) = self.divergence() {
                return Err(divergence);
            }
        }
        self.finish()?;
        Ok(Replayed { result, completeness: self.completeness.clone() })
    }

    /// Returns the first divergence so far.
    pub fn divergence(&self) -> Option<Divergence> {
        lock(&self.state).divergence.clone()
    }

    /// Returns `true` if the recording contains the event, and `false` if it only occurs because the recording ends
    /// before its run did.
    pub fn has(&self, event: &Event) -> bool {
        !lock(&self.state).beyond.contains(&event.seq)
    }

    /// Returns the events at the end of the recording that are not replayed: those from ending the run from outside,
    /// and from work in progress at the end.
    pub fn unplayed(&self) -> Vec<Event> {
        let (_, rest) = self.recording.split_events();
        rest.into_iter().filter_map(|event| Event::deserialize(event).ok()).collect()
    }

    /// Checks, after the last run, that everything was replayed.
    ///
    /// # Errors
    /// Returns the first divergence.
    pub fn finish(&self) -> Result<(), Divergence> {
        let mut state = lock(&self.state);
        if state.divergence.is_none() {
            state.divergence = state.missing().or_else(|| state.unasked().filter(|_| self.is_whole()));
        }
        state.divergence.clone().map_or(Ok(()), Err)
    }

    /// Returns `true` if the recording covers its whole run.
    pub(super) fn is_whole(&self) -> bool {
        self.completeness == Completeness::Finished
    }

    /// Records the first divergence and cancels the run.
    pub(super) fn diverge(&self, divergence: Divergence) -> Divergence {
        let mut state = lock(&self.state);
        let first = state.divergence.get_or_insert(divergence).clone();
        if let Some(cancel) = &state.cancel {
            cancel.cancel();
        }
        drop(state);
        self.changed.send_replace(());
        first
    }

    /// Waits until a condition holds. If nothing changes for too long, the first recorded event that is missing becomes
    /// the divergence.
    pub(super) async fn wait(&self, ready: impl Fn(&State) -> bool) -> Result<(), Divergence> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let state = lock(&self.state);
                if let Some(divergence) = &state.divergence {
                    return Err(divergence.clone());
                }
                if ready(&state) {
                    return Ok(());
                }
            }
            if tokio::time::timeout(change_timeout(self.tools), changes.changed()).await.is_err() {
                let missing = lock(&self.state).missing();
                return missing.map_or(Ok(()), |missing| Err(self.diverge(missing)));
            }
        }
    }

    /// Waits for the end of an incomplete recording.
    pub(super) async fn wait_for_end(&self) -> Divergence {
        self.end_if_over();
        match self.wait(|state| state.is_over).await {
            // The run is cancelled at the end of the recording, so nobody receives this.
            Ok(()) => std::future::pending().await,
            Err(divergence) => divergence,
        }
    }

    pub(super) fn end_if_over(&self) {
        let mut state = lock(&self.state);
        if !self.is_whole() && state.left == 0 && !state.is_over {
            state.is_over = true;
            if let Some(cancel) = &state.cancel {
                cancel.cancel();
            }
        }
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.state);
        f.debug_struct("Replay")
            .field("left", &state.left)
            .field("divergence", &state.divergence)
            .finish_non_exhaustive()
    }
}
