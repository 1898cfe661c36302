//! Hooks at the start and the end of agents.

use deepagents_core::error::Result;
use deepagents_core::event::MiddlewareEvent;
use deepagents_core::message::{Author, Message, MessageOp, ToolCall};
use deepagents_core::middleware::{HookOutput, JumpTo, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::state::{ChannelSpec, MessagesChannel, Update};
use deepagents_core::tool::CallId;
use serde_json::{Value, json};

use super::{HookAnswer, HookEvent, HookRunner};
use crate::channels::{CallReview, CallReviews, HookReviewsChange};

/// Reports that a hook has ended the run, and why.
pub(super) fn report_end(cx: &Context, event: HookEvent, why: &str) {
    report_event(cx, event, format!("a hook ended the run: {why}"), true);
}

/// Reports an event that does not concern a single hook.
fn report_event(cx: &Context, event: HookEvent, message: String, ended: bool) {
    let event = event.as_str().to_owned();
    cx.report(MiddlewareEvent::Hook { event, source: None, command: None, message, error: None, ended });
}

/// Returns the text of hooks for the model as a message.
fn context_message(answer: &HookAnswer) -> Option<MessageOp> {
    let text = answer.context.join("\n\n");
    (!text.is_empty()).then(|| MessageOp::put(Message::harness(text)))
}

fn context_update(answer: &HookAnswer) -> Update {
    Update::new::<MessagesChannel>(context_message(answer).into_iter().collect())
}

/// Why a hook of an event ends the run.
type End = (HookEvent, String);

/// Makes changes, and reports why the run ends if it does.
fn updated_or_ended(update: Update, end: Option<End>, cx: &Context) -> HookOutput {
    let output = HookOutput::update(update);
    let Some((event, why)) = end else { return output };
    report_end(cx, event, &why);
    output.and_go(JumpTo::End)
}

impl HookRunner {
    /// Runs the hooks for the start of a thread and for new messages of a person. Returns the changes of the
    /// conversation, and why the run ends if a hook ends it.
    async fn begin(&self, cx: &Context) -> (Vec<MessageOp>, Option<End>) {
        let mut ops = Vec::new();
        if let Some(source) = self.begins(cx) {
            let answer = self.ask(HookEvent::SessionStart, json!({"source": source}), cx).await;
            ops.extend(context_message(&answer));
            if let Some(why) = answer.stop {
                return (ops, Some((HookEvent::SessionStart, why)));
            }
        }
        let said = cx.messages().iter().rev().map_while(|message| Some((message, message.as_user()?)));
        let said: Vec<_> = said.filter(|(_, user)| user.author == Author::Human).map(|(message, _)| message).collect();
        if said.is_empty() {
            return (ops, None);
        }
        let prompt: Vec<String> = said.iter().rev().map(|message| message.text()).collect();
        let answer = self.ask(HookEvent::UserPromptSubmit, json!({"prompt": prompt.join("\n\n")}), cx).await;
        match answer.block {
            // The model never sees the messages, not even in later runs.
            Some(_) => ops.extend(said.iter().map(|message| MessageOp::Remove(message.id().to_owned()))),
            None => ops.extend(context_message(&answer)),
        }
        (ops, answer.block.or(answer.stop).map(|why| (HookEvent::UserPromptSubmit, why)))
    }

    /// Runs the hooks of an agent that is about to end. One that blocks makes it continue.
    async fn finish(&self, cx: &Context) -> HookOutput {
        let event = if cx.path().is_empty() { HookEvent::Stop } else { HookEvent::SubagentStop };
        let done = matches!(cx.stop(), Some(FinishReason::Done | FinishReason::ReturnDirect | FinishReason::Empty));
        if !done || !self.has(event) || cx.get::<CallReviews>().stop.is_some() {
            return HookOutput::next();
        }
        let last = cx.messages().last().map(|message| message.text()).unwrap_or_default();
        let fields = json!({"stop_hook_active": self.continued(cx) > 0, "last_assistant_message": last});
        let answer = self.ask(event, fields, cx).await;
        if let Some(why) = answer.stop {
            report_end(cx, event, &why);
            return HookOutput::next();
        }
        let Some(why) = answer.block else { return HookOutput::next() };
        if !self.count_continuation(cx) {
            report_event(cx, event, "hooks have made the run go on too often, so it ends".to_owned(), false);
            return HookOutput::next();
        }
        HookOutput::message(Message::harness(why)).and_go(JumpTo::Model)
    }
}

impl Middleware for HookRunner {
    fn name(&self) -> &str {
        "Hooks"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<CallReviews>()]
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let fresh = Update::new::<CallReviews>(vec![HookReviewsChange::Clear]);
        if cx.path().is_empty() {
            let (ops, end) = self.begin(cx).await;
            return Ok(updated_or_ended(fresh.and(Update::new::<MessagesChannel>(ops)), end, cx));
        }
        let answer = self.ask(HookEvent::SubagentStart, json!({}), cx).await;
        let update = fresh.and(context_update(&answer));
        Ok(updated_or_ended(update, answer.stop.map(|why| (HookEvent::SubagentStart, why)), cx))
    }

    async fn before_model(&self, cx: &Context) -> Result<HookOutput> {
        if let Some(why) = cx.get::<CallReviews>().stop {
            return Ok(updated_or_ended(Update::none(), Some((HookEvent::PostToolUse, why)), cx));
        }
        if !cx.path().is_empty() || !self.was_compacted(cx) {
            return Ok(HookOutput::next());
        }
        let answer = self.ask(HookEvent::SessionStart, json!({"source": "compact"}), cx).await;
        Ok(updated_or_ended(context_update(&answer), answer.stop.map(|why| (HookEvent::SessionStart, why)), cx))
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        Ok(self.review(cx).await)
    }

    fn planned_args(&self, id: &CallId, _: &ToolCall, cx: &Context) -> Option<Value> {
        CallReview::of(id, cx).args
    }

    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        self.call(request, next).await
    }

    async fn after_agent(&self, cx: &Context) -> Result<HookOutput> {
        Ok(self.finish(cx).await)
    }
}
