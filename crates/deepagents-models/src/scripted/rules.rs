//! Several scripts in one model, chosen by the request.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use deepagents_core::model::{ModelError, ModelRequest};

use super::{ScriptedModel, Turn};

pub(super) type Test = Arc<dyn Fn(&ModelRequest) -> bool + Send + Sync>;

/// A script and the requests it applies to.
pub(super) struct Script {
    pub(super) test: Test,
    pub(super) turns: VecDeque<Turn>,
    repeat: Option<Turn>,
    played: usize,
    /// Number of calls so far.
    pub(super) calls: usize,
}

impl Script {
    fn new(test: Test, turns: VecDeque<Turn>) -> Self {
        Self { test, turns, repeat: None, played: 0, calls: 0 }
    }

    pub(super) fn for_all(turns: VecDeque<Turn>) -> Self {
        Self::new(Arc::new(|_| true), turns)
    }

    /// Returns the next turn. `rule` is its number if there are several, for the error.
    pub(super) fn take(&mut self, rule: Option<usize>) -> Result<Turn, ModelError> {
        let Some(turn) = self.turns.pop_front().or_else(|| self.repeat.clone()) else {
            let name = rule.map_or_else(|| "the script".to_owned(), |rule| format!("rule {rule} of the script"));
            return Err(ModelError::invalid(format!("{name} has no turn left ({} played)", self.played)));
        };
        self.played += 1;
        Ok(turn)
    }
}

/// Scripts chosen by the request; created by [`ScriptedModel::rules`].
///
/// The first rule whose condition holds responds with its next turn. A rule that has played all its turns fails rather
/// than falling through to the next one.
///
/// ```
/// use deepagents_core::model::{ChatModel, ModelRequest};
/// use deepagents_models::scripted::{ScriptedModel, Turn};
///
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// let model = ScriptedModel::rules()
///     .when(|request| request.system_text().contains("researcher"), [Turn::text("Found it.")])
///     .always(Turn::text("Done."))
///     .build();
/// assert_eq!(model.invoke(ModelRequest::new("hi")).await?.message.text(), "Done.");
/// assert_eq!(model.invoke(ModelRequest::new("again")).await?.message.text(), "Done.");
/// # Ok::<(), deepagents_core::model::ModelError>(())
/// # }).unwrap();
/// ```
#[derive(Default)]
pub struct ScriptedRules {
    scripts: Vec<Script>,
}

impl ScriptedRules {
    /// Plays these turns, one per request, for requests that meet the condition.
    #[must_use]
    pub fn when(
        mut self,
        condition: impl Fn(&ModelRequest) -> bool + Send + Sync + 'static,
        turns: impl IntoIterator<Item = Turn>,
    ) -> Self {
        self.scripts.push(Script::new(Arc::new(condition), turns.into_iter().collect()));
        self
    }

    /// Plays these turns for requests that no earlier rule matches.
    #[must_use]
    pub fn otherwise(self, turns: impl IntoIterator<Item = Turn>) -> Self {
        self.when(|_| true, turns)
    }

    /// Plays this turn, any number of times, for requests that no earlier rule matches.
    #[must_use]
    pub fn always(mut self, turn: Turn) -> Self {
        let mut script = Script::for_all(VecDeque::new());
        script.repeat = Some(turn);
        self.scripts.push(script);
        self
    }

    /// Returns the model.
    #[must_use]
    pub fn build(self) -> ScriptedModel {
        ScriptedModel::playing(self.scripts)
    }
}

impl fmt::Debug for ScriptedRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScriptedRules").field("rules", &self.scripts.len()).finish()
    }
}
