//! What the results of the open thread are judged by.

use deepagents::middleware::rubric::{RubricState, RubricText, RubricUntilMet};
use deepagents::{RunInput, Update};

use super::{Result, Session};
use crate::host::Connection;

/// A goal for the open thread, until a run has it.
#[derive(Clone, Debug)]
pub(super) struct Goal {
    /// `None` clears the thread's.
    pub(super) text: Option<String>,
    /// Whether it ends when it is met.
    pub(super) once: bool,
}

impl Session {
    /// Adds the goal to the input of a run.
    pub(super) fn with_goal(&self, connection: &Connection, input: RunInput) -> Result<RunInput> {
        let Some(Goal { text, once }) = self.with(|state| state.goal.clone()) else { return Ok(input) };
        // What the agent redacts in messages is redacted in the goal too.
        let text = text.map(|text| connection.agent.receive_text(text)).transpose()?;
        Ok(input.update(Update::new::<RubricText>(text).with::<RubricUntilMet>(once)))
    }

    /// Describes the goal and how far it is met.
    pub(super) async fn goal(&self) -> Result<String> {
        let next = self.with(|state| state.goal.clone());
        let stored = match self.thread() {
            Some(thread) => Some(self.connection().await?.agent.state(&thread).await?),
            None => None,
        };
        let of_thread = || {
            let state = stored.as_ref()?;
            let once = state.get::<RubricUntilMet>().copied().unwrap_or_default();
            Some(Goal { text: state.get::<RubricText>()?.clone(), once })
        };
        let is_new = next.is_some();
        let Some(Goal { text: Some(text), once }) = next.or_else(of_thread) else {
            return Ok("there is none: /goal TEXT works on until one is met, /rubric TEXT sets what every result is \
                       judged by"
                .to_owned());
        };
        let until = if once { "until it is met" } else { "until /goal clear" };
        let mut lines = vec![text, String::new(), format!("Results are judged by this {until}.")];
        let known = stored.as_ref().and_then(|state| state.get::<RubricState>()).filter(|_| !is_new);
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
