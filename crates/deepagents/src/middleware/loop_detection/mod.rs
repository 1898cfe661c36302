//! Detects an agent that repeats itself without progress: the model is warned first, then the run is stopped.
//!
//! The detection considers the turns since the last message of a person, with their calls and results. It keeps no
//! counters, so it works the same after a resume and in every process. A turn with anything new ends a pattern: polling
//! for a change is a loop only while nothing changes.

mod edits;
mod patterns;
mod policy;
mod turns;
mod words;

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::Message;
use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, Middleware};
use deepagents_core::run::Context;
use deepagents_core::state::{ChannelSpec, Update};

use patterns::Finding;

pub use policy::{LoopPolicy, LoopThreshold, ThresholdError};

deepagents_core::last_value!(
    /// The length of the conversation up to the result that the last warning was about, so that it is given once.
    Noted("loop_noted_at"): usize => private
);

/// Warns the model that it repeats itself, and stops the run with
/// [`FinishReason::NoProgress`](deepagents_core::run::FinishReason::NoProgress) if it continues to.
///
/// | pattern | warning after | stopped after |
/// |---|---|---|
/// | the same calls with the same results | 5 turns | 10 turns |
/// | two or three turns in alternation | 4 rounds | 8 rounds |
/// | changes to a file that undo each other | 3 | 6 |
/// | turns in which every call failed | 6 turns | 12 turns |
///
/// [`LoopPolicy`] sets the thresholds. The warning is a message of the harness at the end of the conversation, so the
/// prompt does not change; the event `loop_detected` notifies the application. The agent never fails with an error
/// because of this middleware.
///
/// ```
/// use deepagents::middleware::loop_detection::{LoopDetection, LoopPolicy, LoopThreshold};
/// let mut policy = LoopPolicy::default();
/// policy.same_calls = Some(LoopThreshold::new(3, 6)?);
/// let detection = LoopDetection::new(policy);
/// # Ok::<(), deepagents::middleware::loop_detection::ThresholdError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LoopDetection {
    policy: LoopPolicy,
}

impl LoopDetection {
    /// Creates a middleware with these thresholds.
    pub fn new(policy: LoopPolicy) -> Self {
        Self { policy }
    }
}

impl Middleware for LoopDetection {
    fn name(&self) -> &str {
        "LoopDetection"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Noted>()]
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        let messages = cx.messages();
        let Some(Finding { pattern, times, threshold, tools, .. }) = patterns::find(messages, &self.policy) else {
            return Ok(HookOutput::next());
        };
        let stopped = times >= threshold.stop();
        let seen = (0..messages.len()).rev().find(|at| messages.get(*at).is_some_and(|m| m.as_tool().is_some()));
        let seen = seen.map_or(0, |at| at + 1);
        if !stopped && cx.get::<Noted>() == seen {
            return Ok(HookOutput::next());
        }
        cx.report(MiddlewareEvent::LoopDetected { pattern, times, stopped });
        if stopped {
            let last = Message::assistant(words::stopped(pattern, times, &tools));
            return Ok(HookOutput::message(last).and_go(JumpTo::EndBecause(EndReason::NoProgress)));
        }
        let note = Message::harness(words::note(pattern, times, &tools));
        Ok(HookOutput::update(Update::message(note).with::<Noted>(seen)))
    }
}
