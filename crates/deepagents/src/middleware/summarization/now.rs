//! Compaction that a person asks for.

use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::Update;

use super::threshold::Size;
use super::{Inner, Summarization};

/// Messages that stay when a person asks for room: the last exchange.
const KEEP: usize = 2;

impl Summarization {
    /// Puts a summary in the place of all but the last exchange, however full the window is. Returns the change of the
    /// state and how many messages it evicts; nothing where there is nothing to evict.
    pub(crate) async fn compact_now(&self, cx: &Context) -> Result<Option<(usize, Update)>, String> {
        let inner: &Inner = &self.inner;
        let backend = inner.workspace.kept_for(cx);
        let mut ledger = inner.take(cx);
        let shown = ledger.view.view(cx.messages(), &inner.state(cx), inner.options.args.as_ref());
        let mut work = inner.work(ModelRequest::new(shown), cx, &*backend, inner.model.clone(), ledger);
        work.manual = true;
        work.measure();
        let evicted = work.compact(Size::Messages(KEEP), None, true).await?;
        Ok(evicted.map(|evicted| (evicted, work.update())))
    }
}
