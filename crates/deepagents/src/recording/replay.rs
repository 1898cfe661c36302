//! Playing a recording.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::error::Result;
use deepagents_core::event::Event;
use deepagents_core::run::{Outcome, RunError};
use serde::Deserialize;
use tokio::sync::watch;

use super::expected::State;
use super::{Completeness, Divergence, RunRecording};

/// How long a replay that has nothing to play waits for something to happen. Only tools take time in it, so that it is
/// stuck then: what was recorded does not come.
const fn patience(tools: Tools) -> Duration {
    match tools {
        Tools::Recorded => Duration::from_secs(10),
        Tools::Live => Duration::from_secs(600),
    }
}

/// Where the results of tools come from in a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tools {
    /// From the recording: no tool is run. Calls that run sub-agents are made, and what these do is played.
    #[default]
    Recorded,
    /// From the tools: they are run, and have to do what they did.
    Live,
}

/// Plays a recording: a [`RunObserver`](deepagents_core::run::RunObserver) that stands in the place of models and tools and compares what
/// happens. One plays once. See the [module](super) for an example.
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
    state: Mutex<State>,
    /// Tells of whatever may let something that waits go on.
    pub(super) changed: watch::Sender<()>,
}

/// What came of a replay that did not diverge.
#[derive(Debug)]
#[non_exhaustive]
pub struct Replayed {
    /// How the run ended, the last one where there were several; nothing where the recording holds none.
    pub result: Option<Result<Outcome, Box<RunError>>>,
    /// How far the recording goes, and with it the replay.
    pub completeness: Completeness,
}

impl Replayed {
    /// The answer, where the run came to one.
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

    /// The recording.
    pub fn recording(&self) -> &RunRecording {
        &self.recording
    }

    /// Plays the whole recording with an agent: what the run was given, and then whatever it went on with. An agent whose
    /// run had a thread needs a journal in which that thread is new.
    ///
    /// # Errors
    /// The first divergence.
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

    /// The first divergence so far.
    pub fn divergence(&self) -> Option<Divergence> {
        self.lock().divergence.clone()
    }

    /// Whether an event is one that the recording has too, and not one that comes only because the recording ends before
    /// its run did.
    pub fn has(&self, event: &Event) -> bool {
        !self.lock().beyond.contains(&event.seq)
    }

    /// The events at the end of the recording that are not played: how the run was ended from outside, and what had
    /// begun where the recording ends.
    pub fn unplayed(&self) -> Vec<Event> {
        let (_, rest) = self.recording.split_events();
        rest.into_iter().filter_map(|event| Event::deserialize(event).ok()).collect()
    }

    /// Says, once all is run, whether all was played.
    ///
    /// # Errors
    /// The first divergence.
    pub fn finish(&self) -> Result<(), Divergence> {
        let mut state = self.lock();
        if state.divergence.is_none() {
            state.divergence = state.missing().or_else(|| state.unasked().filter(|_| self.is_whole()));
        }
        state.divergence.clone().map_or(Ok(()), Err)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the recording goes to the end of its run.
    pub(super) fn is_whole(&self) -> bool {
        self.completeness == Completeness::Finished
    }

    /// Keeps a divergence, the first one only, and ends the run.
    pub(super) fn diverge(&self, divergence: Divergence) -> Divergence {
        let mut state = self.lock();
        let first = state.divergence.get_or_insert(divergence).clone();
        if let Some(cancel) = &state.cancel {
            cancel.cancel();
        }
        drop(state);
        self.changed.send_replace(());
        first
    }

    /// Waits for something that has to happen before. Whatever waits for nothing to happen is stuck.
    pub(super) async fn wait(&self, ready: impl Fn(&State) -> bool) -> Result<(), Divergence> {
        let mut changes = self.changed.subscribe();
        loop {
            {
                let state = self.lock();
                if let Some(divergence) = &state.divergence {
                    return Err(divergence.clone());
                }
                if ready(&state) {
                    return Ok(());
                }
            }
            if tokio::time::timeout(patience(self.tools), changes.changed()).await.is_err() {
                let missing = self.lock().missing();
                return missing.map_or(Ok(()), |missing| Err(self.diverge(missing)));
            }
        }
    }

    /// Waits for the end of a recording that ends before its run.
    pub(super) async fn over(&self) -> Divergence {
        self.end_if_over();
        match self.wait(|state| state.is_over).await {
            // The run is cancelled where the recording ends, so that nobody hears this.
            Ok(()) => std::future::pending().await,
            Err(divergence) => divergence,
        }
    }

    pub(super) fn end_if_over(&self) {
        let mut state = self.lock();
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
        let state = self.lock();
        f.debug_struct("Replay")
            .field("left", &state.left)
            .field("divergence", &state.divergence)
            .finish_non_exhaustive()
    }
}
