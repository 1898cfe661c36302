//! Hooks that the interface runs: before the user is asked, and when a thread is closed.

use std::collections::BTreeSet;
use std::time::Duration;

use deepagents::middleware::hooks::{HookEvent, HookRunner};
use deepagents::{ActionRequest, DecisionAuthor, DecisionRecord};

use super::Session;
use crate::host::Connection;

/// Time limit for hooks when the program ends.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Returns whether any hook may decide on the user's behalf.
pub(super) fn decides(connection: &Connection) -> bool {
    let runner = connection.hooks.as_ref();
    runner.is_some_and(|runner| runner.hooks().iter().any(|hook| hook.event() == HookEvent::PermissionRequest))
}

impl Session {
    /// Returns the hooks' decisions on calls that they have not seen yet.
    pub(super) async fn decided_by_hooks(
        &self,
        connection: &Connection,
        questions: &[ActionRequest],
        seen: &mut BTreeSet<String>,
    ) -> Vec<(String, DecisionRecord)> {
        let (Some(runner), Some(thread)) = (&connection.hooks, self.thread()) else { return Vec::new() };
        let mut decided = Vec::new();
        for question in questions.iter().filter(|question| seen.insert(question.id.clone())) {
            let decision = runner.permission_request(&thread, question).await;
            let author = DecisionAuthor::Rule { text: "a hook".to_owned() };
            decided.extend(decision.map(|decision| (question.id.clone(), DecisionRecord::new(decision, author))));
        }
        decided
    }

    /// Notifies hooks that the user is asked.
    pub(super) fn asked(&self, connection: &Connection, question: &ActionRequest) {
        if let (Some(runner), Some(thread)) = (&connection.hooks, self.thread()) {
            tokio::spawn(runner.question(&thread, question));
        }
    }

    /// Notifies hooks that the agent is done and waits for the user.
    pub(super) fn idle(&self) {
        if let Some((runner, thread)) = self.hooks_of_thread() {
            tokio::spawn(runner.notification(&thread, "the agent is done and waits for you", "idle_prompt"));
        }
    }

    /// Notifies hooks that the open thread is being closed.
    pub(super) fn notify_closing(&self, reason: &str) {
        if let Some((runner, thread)) = self.hooks_of_thread() {
            tokio::spawn(runner.session_end(&thread, reason));
        }
    }

    /// Notifies hooks that the program is done with the open thread, and waits for them to finish.
    pub(crate) async fn end(&self) {
        if let Some((runner, thread)) = self.hooks_of_thread() {
            // The user has quit and waits for the shell prompt.
            let _ = tokio::time::timeout(END_TIMEOUT, runner.session_end(&thread, "prompt_input_exit")).await;
        }
    }

    /// Returns the hooks and the open thread, if there are both. An agent that is still being built has no hooks.
    fn hooks_of_thread(&self) -> Option<(HookRunner, String)> {
        let thread = self.thread()?;
        let connection = self.slot.borrow();
        let runner = connection.as_ref()?.as_ref().ok()?.hooks.clone()?;
        Some((runner, thread))
    }
}
