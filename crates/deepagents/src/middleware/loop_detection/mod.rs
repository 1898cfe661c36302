//! Notices that an agent repeats itself without progress: first the model is told, then the run is stopped.
//!
//! What is looked at are the turns since the last word of a person, with their calls and results; nothing is counted
//! beside them, so it is the same after a resume and in every process. A turn that brings anything new ends a pattern: a
//! loop that looks until something changes is one as long as nothing does.

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
use deepagents_core::state::ChannelSpec;

use patterns::Finding;

pub use policy::{LoopPolicy, LoopThreshold, ThresholdError};

deepagents_core::last_value!(
    /// Length of the conversation up to the result that the last note was about, so that it is given once.
    Noted("loop_noted_at"): usize => private
);

/// Tells the model that it repeats itself, and stops the run with
/// [`FinishReason::NoProgress`](deepagents_core::run::FinishReason::NoProgress) where it goes on all the same.
///
/// | pattern | told after | stopped after |
/// |---|---|---|
/// | the same calls with the same results | 5 turns | 10 turns |
/// | two or three turns in alternation | 4 rounds | 8 rounds |
/// | changes of a file that undo each other | 3 | 6 |
/// | turns in which every call failed | 6 turns | 12 turns |
///
/// The thresholds are [`LoopPolicy`]. The note is a message of the harness at the end of the conversation, so the prompt
/// stays as it was; the event `loop_detected` tells the application. Errors of the agent never come from here.
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
    /// With these thresholds.
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
        let mut output = HookOutput::message(note);
        output.update = output.update.with::<Noted>(seen);
        Ok(output)
    }
}
