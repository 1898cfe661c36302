//! The shell sessions of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use deepagents_core::run::Context;
use deepagents_fs::Backend;
use deepagents_fs::shell::{SessionOptions, Shell};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::shared::{agent_key, lock};

type Sessions = Mutex<BTreeMap<String, Session>>;

/// The sessions of active runs. They end when the last clone is dropped.
#[derive(Clone, Default)]
pub(super) struct ShellSessions(Arc<Sessions>);

impl fmt::Debug for ShellSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellSessions").finish_non_exhaustive()
    }
}

struct Session {
    shell: Arc<dyn Shell>,
    /// Stops the task that watches the session.
    _watched: DropGuard,
}

impl ShellSessions {
    /// Returns the session of an agent's run, or `None` if the backend does not support sessions. The session ends when
    /// the run ends or is cancelled, and after being idle for `timeout`, because a failed or interrupted run may never
    /// resume.
    pub(super) fn open(
        &self,
        cx: &Context,
        backend: &dyn Backend,
        options: &SessionOptions,
        timeout: Duration,
    ) -> Option<Arc<dyn Shell>> {
        // Each agent of a run has its own session.
        let key = agent_key(cx.run_id(), cx);
        let ended = CancellationToken::new();
        // A resumed run has a new cancellation token, so every use starts a new watch.
        let watch = watch(Arc::downgrade(&self.0), key.clone(), cx.cancellation().clone(), ended.clone(), timeout);
        let watched = ended.drop_guard();
        let mut sessions = lock(&self.0);
        let shell = match sessions.remove(&key) {
            Some(known) => known.shell,
            // Two calls of one turn may race; the first opens the session.
            None => backend.shell()?.session(options)?,
        };
        sessions.insert(key, Session { shell: shell.clone(), _watched: watched });
        drop(sessions);
        tokio::spawn(watch);
        Some(shell)
    }

    /// Ends the session of an agent's run.
    pub(super) fn end(&self, cx: &Context) {
        let ended = lock(&self.0).remove(&agent_key(cx.run_id(), cx));
        drop(ended);
    }
}

/// Ends an unused session, unless it is used again first.
async fn watch(
    sessions: Weak<Sessions>,
    key: String,
    cancel: CancellationToken,
    used: CancellationToken,
    timeout: Duration,
) {
    tokio::select! {
        biased;
        () = used.cancelled() => return,
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(timeout) => {}
    }
    let Some(sessions) = sessions.upgrade() else { return };
    let mut open = lock(&sessions);
    let unused = if used.is_cancelled() { None } else { open.remove(&key) };
    drop(open);
    drop(unused);
}
