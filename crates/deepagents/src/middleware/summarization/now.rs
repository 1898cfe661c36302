//! Compaction requested by a person.

use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::Update;

use super::threshold::Size;
use super::{Inner, Summarization};

/// Number of messages to keep when a person requests compaction: the last exchange.
const KEPT_MESSAGES: usize = 2;

impl Summarization {
    /// Replaces all but the last exchange with a summary, however full the window is. Returns the number of evicted
    /// messages and the state update, or `None` if there is nothing to evict.
    pub(crate) async fn compact_now(&self, cx: &Context) -> Result<Option<(usize, Update)>, String> {
        let inner: &Inner = &self.inner;
        let backend = inner.workspace.kept_for(cx);
        let mut counts = inner.take(cx);
        let shown = counts.view.view(cx.messages(), &inner.state(cx), inner.options.args.as_ref());
        let mut work = inner.work(ModelRequest::new(shown), cx, &*backend, inner.model.clone(), counts);
        work.manual = true;
        work.measure();
        let evicted = work.compact(Size::Messages(KEPT_MESSAGES), None, true).await?;
        Ok(evicted.map(|evicted| (evicted, work.update())))
    }
}
