//! What the results of the open thread are judged by.

use deepagents::middleware::rubric::{RubricState, RubricStatus, RubricText};
use deepagents::{RunInput, State, Update};

use super::{Result, Session};
use crate::host::Connection;

/// The goal of the open thread, as far as it was set or cleared here.
#[derive(Debug, Default)]
pub(super) struct Goal {
    /// What the next message sets it to.
    next: Option<Option<String>>,
    /// Whether it ends when it is met.
    once: bool,
}

impl Session {
    pub(super) fn set_goal(&self, text: Option<String>, once: bool) {
        self.with(|state| state.goal = Goal { next: Some(text), once });
    }

    /// Adds the change of the goal to the input of a run.
    pub(super) fn with_goal(&self, connection: &Connection, input: RunInput) -> Result<RunInput> {
        let Some(goal) = self.with(|state| state.goal.next.clone()) else { return Ok(input) };
        // What the agent redacts in messages is redacted in the goal too.
        let goal = goal.map(|text| connection.agent.receive_text(&text)).transpose()?;
        self.with(|state| state.goal.next = None);
        Ok(input.update(Update::new::<RubricText>(goal)))
    }

    /// Clears a goal that is met.
    pub(super) fn goal_after(&self, state: &State) {
        let is_met = state.get::<RubricState>().is_some_and(|known| known.status == Some(RubricStatus::Satisfied));
        self.with(|state| {
            if is_met && state.goal.once && state.goal.next.is_none() {
                state.goal = Goal { next: Some(None), once: false };
            }
        });
    }

    /// Describes the goal and how far it is met.
    pub(super) async fn goal(&self) -> Result<String> {
        let (next, once) = self.with(|state| (state.goal.next.clone(), state.goal.once));
        let stored = match self.thread() {
            Some(thread) => Some(self.connection().await?.agent.state(&thread).await?),
            None => None,
        };
        let read = |state: &State| state.get::<RubricText>().cloned().flatten();
        let Some(text) = next.clone().unwrap_or_else(|| stored.as_ref().and_then(read)) else {
            return Ok("there is none: /goal TEXT works on until one is met, /rubric TEXT sets what every result is \
                       judged by"
                .to_owned());
        };
        let until = if once { "until it is met" } else { "until /goal clear" };
        let mut lines = vec![text, String::new(), format!("Results are judged by this {until}.")];
        let known = stored.as_ref().and_then(|state| state.get::<RubricState>()).filter(|_| next.is_none());
        if let Some(last) = known.and_then(|known| known.last.as_ref()) {
            lines.push(format!("The last was judged: {}", last.explanation));
            lines.extend(last.criteria.iter().map(|one| {
                let mark = if one.passed { "met" } else { "not met" };
                format!("- {}: {mark}{}", one.name, one.gap.iter().map(|gap| format!(", {gap}")).collect::<String>())
            }));
        }
        Ok(lines.join("\n"))
    }
}
