//! What a person had decided when they left the questions: the model is told so with the next message.

use deepagents::{ActionRequest, DecisionRecord, Message, left_decisions};

use super::Session;
use crate::host::Connection;

impl Session {
    /// The results of calls that were decided about, and remarks on those that are no calls of the last answer.
    pub(super) async fn told_of(
        &self,
        connection: &Connection,
        decided: Vec<(ActionRequest, DecisionRecord)>,
    ) -> Result<Vec<Message>, String> {
        let Some(thread) = self.thread().filter(|_| !decided.is_empty()) else { return Ok(Vec::new()) };
        let state = connection.agent.state(&thread).await.map_err(|error| error.to_string())?;
        Ok(left_decisions(&state, decided.into_iter().map(|(request, record)| (request, record.decision))))
    }
}
