//! Replaces old tool results with a line of text in long conversations.

mod clear;
mod size;

use std::collections::{BTreeMap, BTreeSet};

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::middleware::{HookOutput, Middleware};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::Context;
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing};
use serde::{Deserialize, Serialize};

use crate::channels::{ShownPart, StoredResults};

/// Settings for clearing results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextEdits {
    /// Number of tokens of the conversation above which results are cleared; 100,000 by default.
    pub trigger: u64,
    /// Number of tokens to clear down to, as far as there are results to clear; 60,000 by default. The gap to the
    /// trigger makes clearing rare: each time, the provider's cache after the first cleared result is invalidated.
    pub target: u64,
    /// Minimum number of tokens to clear; if less can be cleared, nothing is. 10,000 by default.
    pub clear_at_least: u64,
    /// Number of results at the end that are never cleared; 3 by default.
    pub keep: usize,
    /// Whether the arguments of the calls are cleared too; `false` by default.
    pub clear_inputs: bool,
    /// Tools whose results are never cleared.
    pub exclude: BTreeSet<String>,
}

impl Default for ContextEdits {
    fn default() -> Self {
        Self {
            trigger: 100_000,
            target: 60_000,
            clear_at_least: 10_000,
            keep: 3,
            clear_inputs: false,
            exclude: BTreeSet::new(),
        }
    }
}

/// An error for settings with which clearing would never end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a conversation above {trigger} tokens cannot be brought down to {target}; give a lower target than the trigger"
)]
pub struct ContextEditsError {
    trigger: u64,
    target: u64,
}

/// The cleared results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cleared {
    /// The ids of the results.
    results: BTreeSet<String>,
    /// The answer after which results were last cleared, so that each token count triggers at most one clearing.
    after: String,
}

#[derive(Debug)]
struct ClearedResults;

impl Channel for ClearedResults {
    const NAME: &'static str = "cleared_results";
    const SHARING: Sharing<Cleared, Cleared> = Sharing::private();
    type Value = Cleared;
    type Update = Cleared;

    fn reduce(value: &mut Cleared, update: Cleared) -> Result<(), ChannelError> {
        value.results.extend(update.results);
        value.after = update.after;
        Ok(())
    }
}

/// Replaces old tool results with a line of text once the conversation exceeds a size.
///
/// The messages themselves do not change: the thread stores which results are cleared, so the same requests are sent
/// after a resume. The size is the provider's count for the last request plus an estimate of what was added since. The
/// line names the file with the whole result, if there is one.
///
/// ```
/// use deepagents::DeepAgent;
/// use deepagents::middleware::context_editing::{ContextEditing, ContextEdits};
/// use deepagents::models::scripted::ScriptedModel;
/// let edits = ContextEdits { trigger: 50_000, target: 30_000, keep: 5, ..ContextEdits::default() };
/// let agent = DeepAgent::builder().model(ScriptedModel::new([])).middleware(ContextEditing::new(edits)?).build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ContextEditing {
    edits: ContextEdits,
}

impl ContextEditing {
    /// Creates a middleware with these settings.
    ///
    /// # Errors
    /// Returns an error if the target is not below the trigger.
    pub fn new(edits: ContextEdits) -> std::result::Result<Self, ContextEditsError> {
        let ContextEdits { trigger, target, .. } = edits;
        if target >= trigger { Err(ContextEditsError { trigger, target }) } else { Ok(Self { edits }) }
    }
}

impl Middleware for ContextEditing {
    fn name(&self) -> &str {
        "ContextEditing"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<ClearedResults>()]
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let messages = cx.messages();
        let known = cx.state().get::<ClearedResults>();
        let after = messages.last_assistant().and_then(|at| messages.get(at)).map_or("", |answer| answer.id());
        if known.is_some_and(|known| !after.is_empty() && known.after == after) {
            return Ok(HookOutput::next());
        }
        let (none, nothing) = (BTreeSet::new(), BTreeMap::new());
        let cleared = known.map_or(&none, |known| &known.results);
        let shown = ShownPart::of(cx);
        let tokens_before = size::tokens(messages, shown, cleared);
        if tokens_before <= self.edits.trigger {
            return Ok(HookOutput::next());
        }
        let wanted = tokens_before.saturating_sub(self.edits.target);
        let stored = cx.state().get::<StoredResults>().unwrap_or(&nothing);
        let (mut results, mut saved) = (BTreeSet::new(), 0);
        for (id, tokens) in clear::candidates(messages, shown, cleared, &self.edits, stored) {
            if saved >= wanted {
                break;
            }
            results.insert(id.to_owned());
            saved += tokens;
        }
        if results.is_empty() || saved < self.edits.clear_at_least {
            return Ok(HookOutput::next());
        }
        let tokens_after = tokens_before.saturating_sub(saved);
        cx.report(MiddlewareEvent::ResultsCleared { results: results.len(), tokens_before, tokens_after });
        Ok(HookOutput::set::<ClearedResults>(Cleared { results, after: after.to_owned() }))
    }

    async fn modify_request(&self, mut request: ModelRequest, cx: &Context) -> Result<ModelRequest> {
        let Some(cleared) = cx.state().get::<ClearedResults>().filter(|cleared| !cleared.results.is_empty()) else {
            return Ok(request);
        };
        let nothing = BTreeMap::new();
        let stored = cx.state().get::<StoredResults>().unwrap_or(&nothing);
        let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for id in &cleared.results {
            let Some(message) = request.messages.by_id(id).cloned() else { continue };
            if let Some(result) = message.as_tool() {
                calls.entry(result.call_id.clone()).or_default().insert(id.clone());
                request.messages.put(clear::without_result(result, stored));
            }
        }
        if self.edits.clear_inputs {
            clear::clear_inputs(&mut request.messages, &calls);
        }
        Ok(request)
    }
}
