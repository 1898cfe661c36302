//! When a repetition is one too many.

use std::collections::BTreeSet;

/// What counts as no progress. A pattern without a threshold is not looked for.
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
    /// The same calls with the same results, in turns.
    pub same_calls: Option<LoopThreshold>,
    /// Two or three turns in alternation, in rounds.
    pub alternation: Option<LoopThreshold>,
    /// Changes of one file each of which takes the one before back.
    pub undone_edits: Option<LoopThreshold>,
    /// Turns in which every call failed.
    pub errors: Option<LoopThreshold>,
    /// Tools whose calls may be repeated: a turn with one of them is never the same as another.
    pub ignored_tools: BTreeSet<String>,
}

/// Tools that look at work which goes on beside the agent.
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
    /// Nothing counts as a loop.
    pub fn off() -> Self {
        Self { same_calls: None, alternation: None, undone_edits: None, errors: None, ignored_tools: BTreeSet::new() }
    }

    /// Lets calls of these tools be repeated too.
    #[must_use]
    pub fn ignoring<N: Into<String>>(mut self, tools: impl IntoIterator<Item = N>) -> Self {
        self.ignored_tools.extend(tools.into_iter().map(Into::into));
        self
    }
}

/// After how many repetitions the model is told, and after how many the run is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopThreshold {
    note: u32,
    stop: u32,
}

/// A threshold that makes no sense.
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
    /// Tells the model at `note` repetitions and stops the run at `stop`.
    ///
    /// # Errors
    /// When the first is below two, or the second not above the first.
    pub fn new(note: u32, stop: u32) -> Result<Self, ThresholdError> {
        if note < 2 || stop <= note { Err(ThresholdError { note, stop }) } else { Ok(Self { note, stop }) }
    }

    /// At how many the model is told.
    pub fn note(self) -> u32 {
        self.note
    }

    /// At how many the run is stopped.
    pub fn stop(self) -> u32 {
        self.stop
    }
}
