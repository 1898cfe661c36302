//! Thresholds for repetitions.

use std::collections::BTreeSet;

/// Defines what counts as a lack of progress. A pattern without a threshold is ignored.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::loop_detection::LoopPolicy;
/// use deepagents::models::scripted::ScriptedModel;
/// // A key that is pressed again and again does something new each time.
/// let policy = LoopPolicy::default().ignoring(["press_key"]);
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).loop_detection(policy).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopPolicy {
    /// The same calls with the same results, counted in turns.
    pub same_calls: Option<LoopThreshold>,
    /// Two or three turns in alternation, counted in rounds.
    pub alternation: Option<LoopThreshold>,
    /// Changes to one file that each undo the previous one.
    pub undone_edits: Option<LoopThreshold>,
    /// Turns in which every call failed.
    pub errors: Option<LoopThreshold>,
    /// Tools whose calls may repeat: a turn with such a call never equals another.
    pub ignored_tools: BTreeSet<String>,
}

/// Tools that poll background work.
const WATCHING: [&str; 2] = ["check_async_task", "list_async_tasks"];

impl Default for LoopPolicy {
    fn default() -> Self {
        let threshold = |note, stop| Some(LoopThreshold { note, stop });
        Self {
            same_calls: threshold(5, 10),
            alternation: threshold(4, 8),
            undone_edits: threshold(3, 6),
            errors: threshold(6, 12),
            ignored_tools: WATCHING.map(str::to_owned).into(),
        }
    }
}

impl LoopPolicy {
    /// Returns a policy under which nothing counts as a loop.
    pub fn off() -> Self {
        Self { same_calls: None, alternation: None, undone_edits: None, errors: None, ignored_tools: BTreeSet::new() }
    }

    /// Allows calls of these tools to repeat, in addition to the current ones.
    #[must_use]
    pub fn ignoring<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.ignored_tools.extend(tools.into_iter().map(Into::into));
        self
    }
}

/// The numbers of repetitions after which the model is warned and the run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopThreshold {
    note: u32,
    stop: u32,
}

/// An error for an invalid threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a loop needs at least two repetitions, and the model is told before the run is stopped: {note} and {stop} are \
     not valid thresholds; give at least 2, and a second number above the first"
)]
pub struct ThresholdError {
    note: u32,
    stop: u32,
}

impl LoopThreshold {
    /// Warns the model at `note` repetitions and stops the run at `stop`.
    ///
    /// # Errors
    /// Returns an error if `note` is below two, or if `stop` is not above `note`.
    pub fn new(note: u32, stop: u32) -> Result<Self, ThresholdError> {
        if note < 2 || stop <= note { Err(ThresholdError { note, stop }) } else { Ok(Self { note, stop }) }
    }

    /// Returns the number of repetitions at which the model is warned.
    pub fn note(self) -> u32 {
        self.note
    }

    /// Returns the number of repetitions at which the run is stopped.
    pub fn stop(self) -> u32 {
        self.stop
    }
}
