//! Decisions made before the user left the questions: the model learns of them with the next message.

use deepagents::{ActionRequest, DecisionRecord, Message, left_decisions};

use super::{Result, Session};
use crate::host::Connection;

impl Session {
    /// Returns tool results for the calls that were decided on, and remarks for decisions on calls outside the last
    /// answer.
    pub(super) async fn decided_results(
        &self,
        connection: &Connection,
        decided: Vec<(ActionRequest, DecisionRecord)>,
    ) -> Result<Vec<Message>> {
        let Some(thread) = self.thread().filter(|_| !decided.is_empty()) else { return Ok(Vec::new()) };
        let state = connection.agent.state(&thread).await?;
        Ok(left_decisions(&state, decided.into_iter().map(|(request, record)| (request, record.decision))))
    }
}
