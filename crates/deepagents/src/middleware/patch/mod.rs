//! Repairs the history at the start of a run so that providers accept it.

mod ids;
mod repair;

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::MessageOp;
use deepagents_core::middleware::{HookOutput, Middleware};
use deepagents_core::run::Context;
use deepagents_core::state::MessagesChannel;

use repair::Repair;

/// Repairs the history at the start of a run: it replaces call ids that a provider would reject (unless a provider
/// created them), answers dangling tool calls, moves results next to their calls, and drops results without a call.
///
/// The repair is an ordinary update of the thread, reported with the event `history_repaired`. A valid history is not
/// changed.
///
/// ```
/// use deepagents::core::agent::Agent;
/// use deepagents::middleware::PatchToolCalls;
/// use deepagents::models::scripted::{ScriptedModel, Turn};
/// // A deep agent has it anyway.
/// let agent = Agent::builder(ScriptedModel::new([Turn::text("Hello.")])).middleware(PatchToolCalls::default()).build()?;
/// # Ok::<(), deepagents::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct PatchToolCalls {
    _private: (),
}

impl Middleware for PatchToolCalls {
    fn name(&self) -> &str {
        "PatchToolCalls"
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let Some(repaired) = repair::repair(cx.messages()) else { return Ok(HookOutput::next()) };
        let Repair { messages, answered, moved, dropped, renamed } = repaired;
        cx.report(MiddlewareEvent::HistoryRepaired { answered, moved, dropped, renamed });
        let ops = std::iter::once(MessageOp::RemoveAll).chain(messages.into_iter().map(MessageOp::Put));
        Ok(HookOutput::set::<MessagesChannel>(ops.collect()))
    }
}
