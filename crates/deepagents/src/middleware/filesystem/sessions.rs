//! The shell sessions of runs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use deepagents_core::run::Context;
use deepagents_fs::Backend;
use deepagents_fs::shell::{SessionOptions, Shell};
use tokio_util::sync::{CancellationToken, DropGuard};

type Sessions = Mutex<BTreeMap<String, Session>>;

/// The sessions of the runs that go on. They end when this is dropped for the last time.
#[derive(Clone, Default)]
pub(super) struct ShellSessions(Arc<Sessions>);

impl fmt::Debug for ShellSessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShellSessions").finish_non_exhaustive()
    }
}

struct Session {
    shell: Arc<dyn Shell>,
    /// Ends the task that watches over it.
    _watched: DropGuard,
}

impl ShellSessions {
    /// Each agent of a run has its own.
    fn key(cx: &Context) -> String {
        std::iter::once(cx.run_id()).chain(cx.path().iter().map(String::as_str)).collect::<Vec<_>>().join("/")
    }

    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The session of an agent's run; none where the backend has none. It ends when the run ends or is cancelled, and when
    /// it was not used for so long: a run that failed or waits for a decision may be gone on with, or not.
    pub(super) fn open(
        &self,
        cx: &Context,
        backend: &dyn Backend,
        options: &SessionOptions,
        patience: Duration,
    ) -> Option<Arc<dyn Shell>> {
        let key = Self::key(cx);
        let ended = CancellationToken::new();
        // A run that goes on has another token than the part of it that opened the session, so each use is watched anew.
        let watch = watch(Arc::downgrade(&self.0), key.clone(), cx.cancellation().clone(), ended.clone(), patience);
        let watched = ended.drop_guard();
        let shell = self.with(|sessions| {
            let shell = match sessions.remove(&key) {
                Some(known) => known.shell,
                // Of two calls of one turn one comes first.
                None => backend.shell()?.session(options)?,
            };
            sessions.insert(key, Session { shell: shell.clone(), _watched: watched });
            Some(shell)
        })?;
        tokio::spawn(watch);
        Some(shell)
    }

    /// Ends the session of an agent's run.
    pub(super) fn end(&self, cx: &Context) {
        let ended = self.with(|sessions| sessions.remove(&Self::key(cx)));
        drop(ended);
    }
}

/// Ends a session that nobody will use any more, unless it is used again before.
async fn watch(
    sessions: Weak<Sessions>,
    key: String,
    cancel: CancellationToken,
    used: CancellationToken,
    patience: Duration,
) {
    tokio::select! {
        biased;
        () = used.cancelled() => return,
        () = cancel.cancelled() => {}
        () = tokio::time::sleep(patience) => {}
    }
    let Some(sessions) = sessions.upgrade() else { return };
    let mut open = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let unused = if used.is_cancelled() { None } else { open.remove(&key) };
    drop(open);
    drop(unused);
}
