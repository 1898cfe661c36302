//! Calls under way on a connection: who wants their progress, and whom a question of the server is about.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use deepagents_core::tool::{ToolContext, ToolError};
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use tokio::sync::Notify;

use crate::text;

/// Notices that came before their call was known and are kept for it.
const EARLY: usize = 32;
/// Characters of a notice.
const SHOWN: usize = 300;

/// The calls under way on a connection.
#[derive(Debug, Default)]
pub(crate) struct Calls(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<ProgressToken, Arc<Call>>,
    early: VecDeque<(ProgressToken, String)>,
}

/// A call under way.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) cx: ToolContext,
    /// Why it is to end: it waits for a person.
    interrupt: Mutex<Option<ToolError>>,
    interrupted: Notify,
}

/// A call is known as long as this lives.
pub(crate) struct Registered<'a> {
    calls: &'a Calls,
    token: ProgressToken,
    pub(crate) call: Arc<Call>,
}

impl Calls {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a call known under the token of its request.
    pub(crate) fn register(&self, token: ProgressToken, cx: &ToolContext) -> Registered<'_> {
        let call = Arc::new(Call { cx: cx.clone(), interrupt: Mutex::default(), interrupted: Notify::new() });
        let mut inner = self.inner();
        inner.open.insert(token.clone(), call.clone());
        let early: Vec<String> =
            inner.early.iter().filter(|(other, _)| *other == token).map(|(_, text)| text.clone()).collect();
        inner.early.retain(|(other, _)| *other != token);
        drop(inner);
        early.into_iter().for_each(|text| cx.progress(text));
        Registered { calls: self, token, call }
    }

    /// Tells the call that a notice is about.
    pub(crate) fn progress(&self, notice: &ProgressNotificationParam) {
        let text = said(notice);
        let mut inner = self.inner();
        match inner.open.get(&notice.progress_token).cloned() {
            Some(call) => {
                drop(inner);
                call.cx.progress(text);
            }
            None => {
                inner.early.push_back((notice.progress_token.clone(), text));
                if inner.early.len() > EARLY {
                    inner.early.pop_front();
                }
            }
        }
    }

    /// The call under way, if there is one alone: a server that asks something does not say which call it is about.
    pub(crate) fn only(&self) -> Option<Arc<Call>> {
        let inner = self.inner();
        let mut open = inner.open.values();
        open.next().filter(|_| open.next().is_none()).cloned()
    }
}

impl Call {
    /// Ends it: it is made again once a person has answered.
    pub(crate) fn interrupt(&self, why: ToolError) {
        *self.interrupt.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
        self.interrupted.notify_one();
    }

    /// Waits for [`interrupt`](Self::interrupt).
    pub(crate) async fn interrupted(&self) -> ToolError {
        loop {
            if let Some(why) = self.interrupt.lock().unwrap_or_else(PoisonError::into_inner).take() {
                return why;
            }
            self.interrupted.notified().await;
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.calls.inner().open.remove(&self.token);
    }
}

/// A notice in words.
fn said(notice: &ProgressNotificationParam) -> String {
    let amount = match notice.total {
        Some(total) if total > 0.0 => format!("{} of {total}", notice.progress),
        _ => notice.progress.to_string(),
    };
    match notice.message.as_deref().map(|message| text::line(message, SHOWN)).filter(|message| !message.is_empty()) {
        Some(message) => format!("{message} ({amount})"),
        None => amount,
    }
}
