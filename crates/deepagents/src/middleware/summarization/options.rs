//! Options of compaction.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::model::ChatModel;
use deepagents_core::run::Context;
use futures_util::future::BoxFuture;

use super::threshold::{Size, Trigger};
use crate::shared::Shared;

/// Number of tokens at which to compact if the model's window is unknown.
const FALLBACK_TRIGGER_TOKENS: u64 = 170_000;
/// Number of messages to keep in that case.
const FALLBACK_KEPT_MESSAGES: usize = 6;
/// Number of messages whose arguments stay whole in that case.
const FALLBACK_WHOLE_MESSAGES: usize = 20;
/// Fraction of a known window at which to compact.
const TRIGGER_FRACTION: f64 = 0.85;
/// Fraction of a known window to keep.
const KEPT: f64 = 0.10;

/// Options of compaction. The defaults depend on the model: if its context window is known, compaction starts at 85 %
/// of it and keeps the last 10 %. If it is unknown, compaction starts at 170 000 tokens and keeps the last 6 messages.
/// That may be too late for the model, so the event `context_window_unknown` informs the application at the start of
/// each run.
///
/// ```
/// use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger};
/// let options = SummarizationOptions::default()
///     .trigger(Trigger::tokens(60_000).or(Trigger::messages(300)))
///     .keep(Size::Messages(12))
///     .compact_tool(true);
/// ```
#[derive(Clone, Debug)]
pub struct SummarizationOptions {
    pub(super) trigger: Option<Trigger>,
    pub(super) keep: Option<Size>,
    pub(super) truncate_args: Option<TruncateArgs>,
    pub(super) context_window: Option<u64>,
    pub(super) model: Option<Shared<dyn ChatModel>>,
    pub(super) prefix: CacheReuse,
    pub(super) prompt: Option<Arc<str>>,
    pub(super) max_summary_tokens: u64,
    pub(super) compact_tool: bool,
    pub(super) provider_counts: bool,
    pub(super) before: Option<Shared<BeforeCompaction>>,
}

/// A check before compaction, which is told whether the model requested it with its tool; an error prevents it.
pub(crate) type BeforeCompaction = dyn Fn(&Context, bool) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Whether the request for a summary reuses the provider's cached prefix of the conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheReuse {
    /// If the provider's last answer shows that it caches, and it is cheaper than sending only the evicted messages.
    #[default]
    WhereCheaper,
    /// Whenever it fits the window and the conversation's model writes the summary.
    Always,
    /// Never: only the evicted messages are sent, without tools.
    Never,
}

/// Truncation of long arguments of old `write_file`, `edit_file` and `apply_patch` calls in the model's view. The
/// thread keeps them, and the written content is in the file.
///
/// ```
/// use deepagents::middleware::summarization::{Size, TruncateArgs};
/// let sooner = TruncateArgs { keep: Some(Size::Messages(8)), max_length: 500, ..TruncateArgs::default() };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TruncateArgs {
    /// When to truncate; by default when the conversation would be compacted. Once some are truncated, others follow as
    /// they grow old.
    pub trigger: Option<Trigger>,
    /// How much of the conversation's end stays whole; by default 10 % of the model's window, or 20 messages.
    pub keep: Option<Size>,
    /// Maximum number of characters of an argument that stays whole.
    pub max_length: usize,
    /// The text after the first 20 characters of a truncated one.
    pub text: Arc<str>,
}

impl Default for TruncateArgs {
    fn default() -> Self {
        Self { trigger: None, keep: None, max_length: 2_000, text: "...(argument truncated)".into() }
    }
}

impl Default for SummarizationOptions {
    fn default() -> Self {
        Self {
            trigger: None,
            keep: None,
            truncate_args: Some(TruncateArgs::default()),
            context_window: None,
            model: None,
            prefix: CacheReuse::default(),
            prompt: None,
            max_summary_tokens: 8_000,
            compact_tool: false,
            provider_counts: false,
            before: None,
        }
    }
}

impl SummarizationOptions {
    crate::shared::setters! {
        /// Sets when to compact. Regardless of this setting, compaction also happens if a request would not fit the
        /// window.
        trigger(trigger: Trigger) => trigger = Some(trigger);

        /// Sets how much of the conversation's end is kept.
        keep(size: Size) => keep = Some(size);
    }

    /// Sets a [`trigger`](Self::trigger) in tokens.
    #[must_use]
    pub fn max_tokens_before_summary(self, tokens: u64) -> Self {
        self.trigger(Trigger::tokens(tokens))
    }

    /// Sets [`keep`](Self::keep) in messages.
    #[must_use]
    pub fn messages_to_keep(self, messages: usize) -> Self {
        self.keep(Size::Messages(messages))
    }

    crate::shared::setters! {
        /// Sets how long arguments are truncated; `None` leaves them whole.
        truncate_args(truncation: impl Into<Option<TruncateArgs>>) => truncate_args = truncation.into();

        /// Sets the context window in tokens, for a model whose profile does not have it or overstates it. Sub-agents
        /// with another model whose profile has it use that.
        context_window(tokens: u64) => context_window = Some(tokens);

        /// Sets another model for the summaries, such as a smaller one. If it fails, the conversation's model writes
        /// them.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// Sets whether requests for summaries reuse the cached prefix.
        prefix(reuse: CacheReuse) => prefix = reuse;

        /// Sets the prompt for the summaries. The sections `## Goal`, `## Instructions`, `## Decisions` and `## Paths`
        /// carry over from one summary to the next, even if a later answer omits them.
        prompt(prompt: impl Into<Arc<str>>) => prompt = Some(prompt.into());

        /// Sets the maximum number of tokens of a summary; 8000 by default.
        max_summary_tokens(tokens: u64) => max_summary_tokens = tokens.max(1);

        /// Sets whether the model is offered the tool `compact_conversation`. Off by default.
        compact_tool(on: bool) => compact_tool = on;

        /// Sets whether to ask the provider for the number of tokens of a request ([`ChatModel::count_tokens`]) if it
        /// has not reported any for the current view and the estimate is close to a limit: for an imported
        /// conversation, another model, or after a compaction. Off by default, as every such request takes time. If the
        /// provider does not count, and in replays of recordings, the estimate is used.
        provider_counts(on: bool) => provider_counts = on;
    }

    /// Returns the options for another model, whose context window is known.
    pub(crate) fn for_other_model(mut self) -> Self {
        self.context_window = None;
        self
    }

    /// Sets a check before compaction.
    pub(crate) fn before(
        mut self,
        ask: impl Fn(&Context, bool) -> BoxFuture<'static, Result<(), String>> + Send + Sync + 'static,
    ) -> Self {
        self.before = Some(Shared(Arc::new(ask)));
        self
    }

    pub(super) fn settle(self, window: Option<u64>) -> Result<Settled, BuildError> {
        let window = self.context_window.or(window);
        let (usual_trigger, usual_keep, whole) = match window {
            Some(_) => (Trigger::fraction(TRIGGER_FRACTION), Size::Fraction(KEPT), Size::Fraction(KEPT)),
            None => (
                Trigger::tokens(FALLBACK_TRIGGER_TOKENS),
                Size::Messages(FALLBACK_KEPT_MESSAGES),
                Size::Messages(FALLBACK_WHOLE_MESSAGES),
            ),
        };
        let old = if window.is_some() { usual_trigger.clone() } else { Trigger::messages(FALLBACK_WHOLE_MESSAGES) };
        let args = self.truncate_args.clone().map(|args| SettledArgs {
            trigger: args.trigger.unwrap_or(old),
            keep: args.keep.unwrap_or(whole),
            max_length: args.max_length,
            text: args.text,
        });
        // If messages are counted, do not keep a fraction of the window, which might hold all of a few short messages.
        let counted = self.trigger.as_ref().and_then(Trigger::fewest_messages);
        let usual_keep = counted.map_or(usual_keep, |n| Size::Messages(FALLBACK_KEPT_MESSAGES.min(n / 2).max(1)));
        let settled = Settled {
            guessed: (self.trigger.is_none() && window.is_none()).then_some(FALLBACK_TRIGGER_TOKENS),
            trigger: self.trigger.clone().unwrap_or(usual_trigger),
            keep: self.keep.unwrap_or(usual_keep),
            args,
            prompt: self.prompt.clone().unwrap_or_else(|| include_str!("../../prompts/summary.md").trim_end().into()),
            given: self,
        };
        settled.trigger.check(window)?;
        settled.keep.check(Some(window))?;
        if let Some(args) = &settled.args {
            args.trigger.check(window)?;
            args.keep.check(Some(window))?;
        }
        Ok(settled)
    }
}

/// Options with the model's defaults applied.
pub(super) struct Settled {
    pub(super) given: SummarizationOptions,
    /// The trigger in tokens if neither the caller nor the model determines one.
    pub(super) guessed: Option<u64>,
    pub(super) trigger: Trigger,
    pub(super) keep: Size,
    pub(super) args: Option<SettledArgs>,
    pub(super) prompt: Arc<str>,
}

pub(super) struct SettledArgs {
    pub(super) trigger: Trigger,
    pub(super) keep: Size,
    pub(super) max_length: usize,
    pub(super) text: Arc<str>,
}
