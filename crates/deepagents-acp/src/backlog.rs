//! Counts the session updates that an editor has not read yet, so that runs are not shown faster than it reads.

use std::sync::Arc;

use tokio::sync::watch;

/// Number of updates from which on showing waits for the editor.
const MAX_UNSENT_UPDATES: usize = 256;

/// The updates of a connection that are not written yet. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog(Arc<watch::Sender<usize>>);

impl Backlog {
    /// Counts an update that is about to be sent.
    pub(crate) fn queued(&self) {
        self.0.send_modify(|unsent| *unsent += 1);
    }

    /// Counts a line that is being written, if it is an update.
    pub(crate) fn written(&self, line: &str) {
        // The first member of this name is that of the message: its parameters, which may contain such members, follow.
        if line.split_once(r#""method":"#).is_some_and(|(_, rest)| rest.starts_with(r#""session/update""#)) {
            self.0.send_modify(|unsent| *unsent = unsent.saturating_sub(1));
        }
    }

    /// Waits until the editor has read enough for more to be sent.
    pub(crate) async fn has_room(&self) {
        // Waiting may yield to the run even if there is room, and so miss pieces of its answer.
        if *self.0.borrow() < MAX_UNSENT_UPDATES {
            return;
        }
        // The sender lives as long as `self`.
        let _ = self.0.subscribe().wait_for(|unsent| *unsent < MAX_UNSENT_UPDATES).await;
    }
}
