//! How the conversation is compacted.

use std::sync::Arc;

use deepagents_core::agent::BuildError;
use deepagents_core::model::ChatModel;
use deepagents_core::run::Context;
use futures_util::future::BoxFuture;

use super::threshold::{Size, Trigger};
use crate::shared::Shared;

/// Tokens after which the conversation is compacted where the model's window is unknown.
const TOKENS: u64 = 170_000;
/// Messages that stay then.
const MESSAGES: usize = 6;
/// Messages whose arguments stay whole then.
const WHOLE_MESSAGES: usize = 20;
/// Share of a known window after which the conversation is compacted.
const FULL: f64 = 0.85;
/// Share of a known window that stays.
const KEPT: f64 = 0.10;

/// How the conversation is compacted. What is not set follows the model: where its window is known, at 85 % of it down to
/// the last 10 %. Where nobody knows it, at 170 000 tokens down to the last 6 messages, which may be too late for the model;
/// the application is told so in the event `context_window_unknown` at the beginning of each run.
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

/// Asked before the conversation is compacted, with whether a person or the model wants it; an error keeps it from being
/// compacted.
pub(crate) type BeforeCompaction = dyn Fn(&Context, bool) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// Whether the request for a summary begins like the requests before it, so that what the provider has cached serves it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheReuse {
    /// Where the provider's last answer shows that it caches, and it comes out cheaper than sending the evicted messages
    /// alone.
    #[default]
    WhereCheaper,
    /// Wherever it fits the window and the summary is written by the model of the conversation.
    Always,
    /// Never: the evicted messages alone are sent, without tools.
    Never,
}

/// Cutting of long arguments of old `write_file` and `edit_file` calls, as the model sees them. The thread keeps them, and
/// the file holds what was written.
///
/// ```
/// use deepagents::middleware::summarization::{Size, TruncateArgs};
/// let sooner = TruncateArgs { keep: Some(Size::Messages(8)), max_length: 500, ..TruncateArgs::default() };
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TruncateArgs {
    /// When; by default when the conversation would be compacted too. Once some are cut, others follow as they grow old.
    pub trigger: Option<Trigger>,
    /// What stays whole at the end of the conversation; by default 10 % of the model's window, or 20 messages.
    pub keep: Option<Size>,
    /// Characters of the longest argument that is left alone.
    pub max_length: usize,
    /// What follows the first 20 characters of one that is cut.
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
        /// When the conversation is compacted. Whatever is set here, it also is when a request would not fit the
        /// window.
        trigger(trigger: Trigger) => trigger = Some(trigger);

        /// How much of the conversation's end stays as it is.
        keep(size: Size) => keep = Some(size);
    }

    /// Another spelling of a [`trigger`](Self::trigger) by tokens.
    #[must_use]
    pub fn max_tokens_before_summary(self, tokens: u64) -> Self {
        self.trigger(Trigger::tokens(tokens))
    }

    /// Another spelling of a [`keep`](Self::keep) by messages.
    #[must_use]
    pub fn messages_to_keep(self, messages: usize) -> Self {
        self.keep(Size::Messages(messages))
    }

    crate::shared::setters! {
        /// How long arguments are cut; `None` leaves them whole.
        truncate_args(truncation: impl Into<Option<TruncateArgs>>) => truncate_args = truncation.into();

        /// Tokens of the model's window, for a model whose profile does not say it or says too much.
        context_window(tokens: u64) => context_window = Some(tokens);

        /// Another model for the summaries, such as a lighter one. Where it fails, the model of the conversation writes
        /// them.
        model(model: impl ChatModel) => model = Some(Shared(Arc::new(model)));

        /// Whether requests for summaries reuse the cached prefix.
        prefix(reuse: CacheReuse) => prefix = reuse;

        /// Another prompt for the summaries. The sections `## Goal`, `## Instructions`, `## Decisions` and `## Paths`
        /// are kept from one summary to the next even where a later answer leaves them out.
        prompt(prompt: impl Into<Arc<str>>) => prompt = Some(prompt.into());

        /// Tokens that a summary may have, 8000 unless told otherwise.
        max_summary_tokens(tokens: u64) => max_summary_tokens = tokens;

        /// Offers the model the tool `compact_conversation`; off unless told otherwise.
        compact_tool(on: bool) => compact_tool = on;

        /// Asks the provider for the number of tokens of a request ([`ChatModel::count_tokens`]) where it has not reported
        /// any for the conversation as it is shown, and the estimate is so near to a limit that it matters: a conversation
        /// from elsewhere, another model, after a compaction. Off unless told otherwise, as each question takes a moment. Where
        /// the provider does not count, and in replays of recordings, the estimate holds.
        provider_counts(on: bool) => provider_counts = on;
    }

    /// Asks before it compacts.
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
            Some(_) => (Trigger::fraction(FULL), Size::Fraction(KEPT), Size::Fraction(KEPT)),
            None => (Trigger::tokens(TOKENS), Size::Messages(MESSAGES), Size::Messages(WHOLE_MESSAGES)),
        };
        let old = if window.is_some() { usual_trigger.clone() } else { Trigger::messages(WHOLE_MESSAGES) };
        let args = self.truncate_args.map(|args| SettledArgs {
            trigger: args.trigger.unwrap_or(old),
            keep: args.keep.unwrap_or(whole),
            max_length: args.max_length,
            text: args.text,
        });
        // A share of the window says nothing where messages are counted: few short ones would all be kept.
        let counted = self.trigger.as_ref().and_then(Trigger::fewest_messages);
        let keep = self.keep.unwrap_or(counted.map_or(usual_keep, |n| Size::Messages(MESSAGES.min(n / 2).max(1))));
        let guessed = self.trigger.is_none() && window.is_none();
        let settled = Settled {
            guessed: guessed.then_some(TOKENS),
            trigger: self.trigger.unwrap_or(usual_trigger),
            keep,
            args,
            context_window: self.context_window,
            model: self.model,
            prefix: self.prefix,
            prompt: self.prompt.unwrap_or_else(|| include_str!("../../prompts/summary.md").trim_end().into()),
            max_summary_tokens: self.max_summary_tokens.max(1),
            provider_counts: self.provider_counts,
            before: self.before,
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

/// Options with the model's defaults filled in.
pub(super) struct Settled {
    /// Tokens of the trigger where neither the caller nor the model says anything.
    pub(super) guessed: Option<u64>,
    pub(super) trigger: Trigger,
    pub(super) keep: Size,
    pub(super) args: Option<SettledArgs>,
    pub(super) context_window: Option<u64>,
    pub(super) model: Option<Shared<dyn ChatModel>>,
    pub(super) prefix: CacheReuse,
    pub(super) prompt: Arc<str>,
    pub(super) max_summary_tokens: u64,
    pub(super) provider_counts: bool,
    pub(super) before: Option<Shared<BeforeCompaction>>,
}

pub(super) struct SettledArgs {
    pub(super) trigger: Trigger,
    pub(super) keep: Size,
    pub(super) max_length: usize,
    pub(super) text: Arc<str>,
}
