//! Context compaction: keeps the conversation that a model is shown within its context window.
//!
//! Messages are never rewritten. Changes to the view of them are recorded as events in a private channel
//! ([`Compactions`]), and every request is computed from the thread and these events:
//!
//! 1. Long arguments of old `write_file`, `edit_file` and `apply_patch` calls are truncated.
//! 2. The oldest messages are written to `/conversation_history/{thread}.md`, verified, and only then replaced by a
//!    summary. If they cannot be stored, or there is no summary, nothing is evicted and the event `compaction_failed`
//!    gives the reason.
//! 3. If a request still does not fit, or the provider rejects it as too long, more messages are evicted and large
//!    results are truncated, once; their images and other media are replaced by the paths where they are.
//!
//! Each is reported to the application as an event: `arguments_truncated`, `conversation_compacted`, `results_clipped`,
//! `compaction_failed`.
//!
//! The system prompt, memory, the todo list, the last message of a person and calls without results are always kept.

mod archive;
mod clip;
mod compact;
mod count;
mod cut;
mod event;
mod notice;
mod options;
mod render;
mod requested;
mod sections;
mod summary;
mod threshold;
mod view;
mod work;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use deepagents_core::agent::BuildError;
use deepagents_core::error::{Error, Result};
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::middleware::{HookOutput, Middleware, ModelNext, ModelResponse};
use deepagents_core::model::{ChatModel, ErrorInfo, ModelError, ModelRequest};
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::DynTool;
use deepagents_fs::Backend;

use crate::shared::{agent_key, lock};
use crate::workspace::Workspace;
use archive::Archive;
use count::Tally;
use options::Settled;
use view::ViewCache;
use work::Work;

pub use count::estimated_tokens;
pub(crate) use event::ShownPart;
pub use event::{Compaction, CompactionEvent, CompactionState, Compactions, CutPoint};
pub use options::{CacheReuse, SummarizationOptions, TruncateArgs};
pub use sections::SummaryText;
pub use threshold::{Size, Trigger};

/// Maximum number of agents whose counts are cached, more than may run concurrently by default; others count from
/// scratch.
const MAX_CACHED_COUNTS: usize = 1_024;

/// Keeps the conversation within the model's context window; see the [module](self).
///
/// ```
/// use std::sync::Arc;
/// use deepagents::middleware::summarization::{Summarization, SummarizationOptions};
/// use deepagents::models::scripted::ScriptedModel;
/// let model = ScriptedModel::new([]);
/// let options = SummarizationOptions::default().max_tokens_before_summary(120_000).messages_to_keep(6);
/// let summarization = Summarization::new(Arc::new(model), deepagents_fs::StateBackend::new(), options)?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Summarization {
    inner: Arc<Inner>,
}

struct Inner {
    workspace: Workspace,
    options: Settled,
    /// The agent's model, for compaction between its calls.
    model: Arc<dyn ChatModel>,
    /// By run and path, the oldest first.
    run_counts: Mutex<VecDeque<(String, RunCounts)>>,
}

/// State cached between the requests of a run, so that each costs only what it adds.
#[derive(Default)]
struct RunCounts {
    view: ViewCache,
    tally: Tally,
    /// Number of messages of the thread that have no arguments left to truncate.
    cut_upto: usize,
    /// Number of tokens that the last summary was to replace, if it was no shorter. Another summary is only worth its
    /// price if it replaces twice as many.
    unhelpful_size: Option<u64>,
}

impl Summarization {
    /// Creates compaction for a model, with the history on a backend.
    ///
    /// # Errors
    /// Returns an error if a size is invalid, or is a fraction of an unknown window.
    pub fn new(
        model: Arc<dyn ChatModel>,
        backend: impl Backend,
        options: SummarizationOptions,
    ) -> Result<Self, BuildError> {
        Self::on(Workspace::one(backend), model, options)
    }

    pub(crate) fn on(
        workspace: Workspace,
        model: Arc<dyn ChatModel>,
        options: SummarizationOptions,
    ) -> Result<Self, BuildError> {
        let options = options.settle(model.profile().context_window)?;
        let run_counts = Mutex::default();
        Ok(Self { inner: Arc::new(Inner { workspace, options, model, run_counts }) })
    }
}

impl Inner {
    fn state(&self, cx: &Context) -> CompactionState {
        cx.get::<Compactions>()
    }

    /// Takes the counts of a run out of the cache, so that no lock is held while it is used.
    fn take(&self, cx: &Context) -> RunCounts {
        let key = agent_key(cx.run_id(), cx);
        let mut run_counts = lock(&self.run_counts);
        let at = run_counts.iter().position(|(known, _)| *known == key);
        at.and_then(|at| run_counts.remove(at)).map(|(_, counts)| counts).unwrap_or_default()
    }

    fn put(&self, cx: &Context, counts: RunCounts) {
        let mut run_counts = lock(&self.run_counts);
        if run_counts.len() >= MAX_CACHED_COUNTS {
            run_counts.pop_front();
        }
        run_counts.push_back((agent_key(cx.run_id(), cx), counts));
    }

    fn work<'a>(
        &'a self,
        request: ModelRequest,
        cx: &'a Context,
        backend: &'a dyn Backend,
        model: Arc<dyn ChatModel>,
        counts: RunCounts,
    ) -> Work<'a> {
        Work {
            cx,
            options: &self.options,
            window: self.options.given.context_window.or(model.profile().context_window),
            model,
            archive: Archive::new(self.workspace.artifacts(), backend, cx.state()),
            request,
            state: self.state(cx),
            events: Vec::new(),
            count: counts.tally.last,
            counts,
            problem: None,
            manual: false,
        }
    }

    /// Performs whatever is due before a request is sent.
    async fn prepare(&self, work: &mut Work<'_>) -> Result<()> {
        work.measure();
        work.count_exactly().await;
        // If the incompressible part alone does not fit, do not pay for a summary.
        if let Some(limit) = work.limit().filter(|limit| work.count.surely_fixed() > *limit) {
            return Err(too_long(work, limit));
        }
        if let Some(args) = &self.options.args
            && (work.is_over() || work.cuts_args() || args.trigger.met(work.length()))
        {
            work.truncate_args(Some(args.keep)).await;
        }
        if let Some(budget) = work.budget().filter(|_| work.is_over()) {
            // Leave some room, so that the next messages do not trigger it again.
            work.try_compact(Some(work.room(budget / 4 * 3)), true).await;
        } else if self.options.trigger.met(work.length()) && !work.is_pausing() {
            work.try_compact(None, false).await;
        }
        if let Some(budget) = work.budget().filter(|_| work.is_over()) {
            work.shrink(budget).await;
        }
        match work.limit() {
            Some(limit) if work.count.tokens > limit => Err(too_long(work, limit)),
            _ => Ok(()),
        }
    }
}

fn too_long(work: &Work<'_>, limit: u64) -> Error {
    let (tokens, fixed) = (work.count.tokens, work.count.surely_fixed());
    if fixed > limit {
        let text = format!(
            "system prompt and tools alone have about {fixed} tokens and at most {limit} fit; leave out tools, skills or notes, or use a model with a larger window"
        );
        return Error::Model(ModelError::ContextLength(ErrorInfo::from(text)));
    }
    let why = work.problem.as_ref().map(|problem| format!(" ({problem})")).unwrap_or_default();
    let text = format!(
        "the request has about {tokens} tokens and at most {limit} fit, also after compaction{why}; shorten the last message or use a model with a larger window"
    );
    Error::Model(ModelError::ContextLength(ErrorInfo::from(text)))
}

impl Middleware for Summarization {
    fn name(&self) -> &str {
        "Summarization"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.inner.workspace.channels().into_iter().chain([ChannelSpec::new::<Compactions>()]).collect()
    }

    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        self.inner
            .options
            .given
            .compact_tool
            .then(|| requested::compact_conversation(&self.inner))
            .into_iter()
            .collect()
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        if let Some(trigger_tokens) = self.inner.options.guessed {
            let model = self.inner.model.name().to_owned();
            cx.report(MiddlewareEvent::ContextWindowUnknown { model, trigger_tokens });
        }
        Ok(HookOutput::next())
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let Some(state) = cx.state().get::<Compactions>().filter(|state| !state.is_plain()) else { return Ok(request) };
        let mut counts = self.inner.take(cx);
        request.messages = counts.view.view(&request.messages, state, self.inner.options.args.as_ref());
        self.inner.put(cx, counts);
        Ok(request)
    }

    async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        let inner = &*self.inner;
        // Reuses the changes that an earlier attempt has made.
        let (before, cx) = (inner.state(next.cx()), next.cx().with_queued_updates()?);
        let backend = inner.workspace.kept_for(&cx);
        let counts = inner.take(&cx);
        let mut work = inner.work(request, &cx, &*backend, next.model().clone(), counts);
        work.show_changes_since(&before);
        // Compaction is rare and its future is large: boxed, so that waiting for the model does not need its space.
        let prepared = Box::pin(inner.prepare(&mut work)).await;
        work.keep();
        prepared?;
        let mut answer = next.run(work.request.clone()).await;
        if matches!(&answer, Err(error) if matches!(error.as_model(), Some(ModelError::ContextLength(_)))) {
            let tokens = work.count.tokens;
            let by = Some(work.model.name().to_owned());
            work.note(CompactionEvent::Refused { tokens, by });
            let half = tokens / 2;
            let target = work.budget().map_or(half, |budget| budget.min(half));
            let is_smaller = Box::pin(work.shrink(target)).await;
            work.keep();
            if is_smaller {
                answer = next.run(work.request.clone()).await;
            }
        }
        // A failed run does not reach `after_agent`, which removes the counts; a retry counts from scratch.
        if answer.is_ok() {
            inner.put(&cx, work.counts);
        }
        answer
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        drop(self.inner.take(cx));
        Ok(HookOutput::next())
    }
}

impl std::fmt::Debug for Summarization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summarization")
            .field("model", &self.inner.model.name())
            .field("trigger", &self.inner.options.trigger)
            .field("keep", &self.inner.options.keep)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use deepagents_core::agent::Agent;
    use deepagents_fs::StateBackend;
    use deepagents_models::scripted::{ScriptedModel, Turn};

    use super::*;

    #[tokio::test]
    async fn no_state_is_kept_for_a_failed_run() {
        let model = ScriptedModel::new([Turn::error(ModelError::invalid("no")), Turn::text("Done.")]);
        let options = SummarizationOptions::default();
        let summarization = Summarization::new(Arc::new(model.clone()), StateBackend::new(), options).unwrap();
        let agent = Agent::builder(model).middleware(summarization.clone()).build().unwrap();
        let remembered = || summarization.inner.run_counts.lock().unwrap().len();
        agent.invoke("Go.").await.unwrap_err();
        assert_eq!(remembered(), 0);
        agent.invoke("Go.").await.unwrap();
        assert_eq!(remembered(), 0);
    }
}
