//! The editor of a session: its capabilities, requests and notifications.

mod call;
mod files;
mod form;
mod terminal;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deepagents::AnswerForm;
use deepagents::fs::AccessGuard;

use crate::backlog::Backlog;
use crate::wire;

pub(crate) use call::{BEFORE, CurrentCall, EditorCalls, TERMINAL};
pub(crate) use files::{EditorFiles, on_disk};
pub(crate) use form::FormAnswer;
pub(crate) use terminal::SessionShell;

/// Timeout for reading or writing a file and for creating a terminal.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The editor of a session. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Editor {
    connection: wire::Connection,
    capabilities: Arc<wire::ClientCapabilities>,
    session: wire::SessionId,
    backlog: Backlog,
}

/// Why a request to the editor failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EditorError {
    #[error("the editor does not have it")]
    NotFound,
    #[error("the editor did not answer within {} s", REQUEST_TIMEOUT.as_secs())]
    Silent,
    #[error("the editor refused: {0}")]
    Refused(String),
    #[error("the editor's answer cannot be used: {0}")]
    Odd(String),
}

impl From<wire::Error> for EditorError {
    fn from(error: wire::Error) -> Self {
        if i32::from(error.code) == -32002 {
            return Self::NotFound;
        }
        let detail = error.data.as_ref().and_then(|data| data.as_str()).map(|data| format!(" ({data})"));
        Self::Refused(format!("{}{}", error.message, detail.unwrap_or_default()))
    }
}

/// Asks the editor to cancel a request if it has not answered it by then.
struct CancelOnDrop(wire::RequestCancellationHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        // Fails only if the editor has disconnected.
        let _ = self.0.cancel();
    }
}

impl Editor {
    pub(crate) fn new(
        connection: wire::Connection,
        capabilities: Arc<wire::ClientCapabilities>,
        session: wire::SessionId,
        backlog: Backlog,
    ) -> Self {
        Self { connection, capabilities, session, backlog }
    }

    pub(crate) fn session(&self) -> &wire::SessionId {
        &self.session
    }

    pub(crate) fn reads_files(&self) -> bool {
        self.capabilities.fs.read_text_file
    }

    pub(crate) fn writes_files(&self) -> bool {
        self.capabilities.fs.write_text_file
    }

    pub(crate) fn has_terminals(&self) -> bool {
        self.capabilities.terminal
    }

    /// Whether the editor supports forms.
    pub(crate) fn has_forms(&self) -> bool {
        self.capabilities.elicitation.as_ref().is_some_and(|elicitation| elicitation.form.is_some())
    }

    /// Shows a notice next to the conversation. Returns whether the editor supports notices.
    pub(crate) fn notice(&self, severity: wire::NoticeSeverity, title: &str, description: Option<String>) -> bool {
        let takes = self.capabilities.session.as_ref().is_some_and(|session| session.notices.is_some());
        if takes {
            let notice = wire::Notice::new(severity, title).description(description);
            self.update(wire::SessionUpdate::Notice(notice));
        }
        takes
    }

    /// Shows that the conversation was compacted, or that compaction failed, if the editor supports this.
    pub(crate) fn compacted(&self, id: String, failure: Option<&str>) {
        if self.capabilities.session.as_ref().is_some_and(|session| session.compaction.is_some()) {
            let update = match failure {
                None => wire::CompactionUpdate::new(id, wire::CompactionStatus::Completed),
                Some(why) => wire::CompactionUpdate::new(id, wire::CompactionStatus::Failed).error(why.to_owned()),
            };
            self.update(wire::SessionUpdate::CompactionUpdate(update));
        }
    }

    /// Shows a text as output of the agent.
    pub(crate) fn say(&self, text: String) {
        let chunk = wire::ContentChunk::new(wire::ContentBlock::from(text));
        self.update(wire::SessionUpdate::AgentMessageChunk(chunk));
    }

    /// Sends a session update. No-op if the editor has disconnected.
    pub(crate) fn update(&self, update: wire::SessionUpdate) {
        self.backlog.queued();
        let _ = self.connection.send_notification(wire::SessionNotification::new(self.session.clone(), update));
    }

    /// Waits until the editor has read enough of the earlier updates for more to be sent.
    pub(crate) async fn has_room(&self) {
        self.backlog.has_room().await;
    }

    /// Sends a request and waits for the response, up to a time limit.
    async fn request<R: wire::JsonRpcRequest>(&self, request: R) -> Result<R::Response, EditorError> {
        let answer = tokio::time::timeout(REQUEST_TIMEOUT, self.connection.send_request(request).block_task()).await;
        Ok(answer.map_err(|_| EditorError::Silent)??)
    }

    /// Returns the text of a file as the person sees it, saved or not.
    pub(crate) async fn read_text(&self, path: &Path) -> Result<String, EditorError> {
        Ok(self.request(wire::ReadTextFileRequest::new(self.session.clone(), path)).await?.content)
    }

    /// Writes the text of a file. The editor may write it even if the caller has given up, so `access` is kept until it
    /// has answered.
    pub(crate) async fn write_text(&self, path: &Path, text: &str, access: AccessGuard) -> Result<(), EditorError> {
        let sent = self.connection.send_request(wire::WriteTextFileRequest::new(self.session.clone(), path, text));
        let _cancel = CancelOnDrop(sent.cancellation_handle());
        let answer = tokio::spawn(async move {
            let answer = sent.block_task().await;
            drop(access);
            answer
        });
        match tokio::time::timeout(REQUEST_TIMEOUT, answer).await {
            Ok(Ok(answer)) => answer.map(drop).map_err(EditorError::from),
            Ok(Err(_)) | Err(_) => Err(EditorError::Silent),
        }
    }

    /// Asks the person to approve a call. Returns `None` if they did not decide. No timeout.
    pub(crate) async fn permission(
        &self,
        call: wire::ToolCallUpdate,
        options: Vec<wire::PermissionOption>,
    ) -> Result<Option<wire::PermissionOptionId>, EditorError> {
        let request = wire::RequestPermissionRequest::new(self.session.clone(), call, options);
        match self.connection.send_request(request).block_task().await?.outcome {
            wire::RequestPermissionOutcome::Selected(selected) => Ok(Some(selected.option_id)),
            _ => Ok(None),
        }
    }

    /// Asks the person for an answer, with the form of the question. No timeout.
    pub(crate) async fn ask_for_answer(
        &self,
        call: &str,
        question: &str,
        form: Option<&AnswerForm>,
    ) -> Result<FormAnswer, EditorError> {
        let scope = wire::ElicitationSessionScope::new(self.session.clone()).tool_call_id(wire::ToolCallId::new(call));
        let request = form::request(scope, question, form)?;
        form::answer(&self.connection.send_request(request).block_task().await?, form)
    }

    /// Creates a terminal that runs a command. No timeout: a terminal that was created must be released, however late.
    pub(crate) async fn create_terminal(
        &self,
        request: wire::CreateTerminalRequest,
    ) -> Result<wire::TerminalId, EditorError> {
        Ok(self.connection.send_request(request).block_task().await?.terminal_id)
    }

    /// Waits until the command in a terminal exits.
    pub(crate) async fn wait_for_exit(
        &self,
        terminal: &wire::TerminalId,
    ) -> Result<wire::TerminalExitStatus, EditorError> {
        let request = wire::WaitForTerminalExitRequest::new(self.session.clone(), terminal.clone());
        Ok(self.connection.send_request(request).block_task().await?.exit_status)
    }

    pub(crate) async fn terminal_output(
        &self,
        terminal: &wire::TerminalId,
    ) -> Result<wire::TerminalOutputResponse, EditorError> {
        self.request(wire::TerminalOutputRequest::new(self.session.clone(), terminal.clone())).await
    }

    /// Kills the command in a terminal, but keeps the terminal.
    pub(crate) async fn kill_terminal(&self, terminal: &wire::TerminalId) {
        let _ = self.request(wire::KillTerminalRequest::new(self.session.clone(), terminal.clone())).await;
    }

    /// Releases a terminal, which kills its command. The request is sent at once; the future waits for the answer.
    pub(crate) fn release_terminal(&self, terminal: &wire::TerminalId) -> impl Future<Output = ()> + Send + use<> {
        let request = wire::ReleaseTerminalRequest::new(self.session.clone(), terminal.clone());
        let sent = self.connection.send_request(request);
        async move {
            let _ = tokio::time::timeout(REQUEST_TIMEOUT, sent.block_task()).await;
        }
    }
}
