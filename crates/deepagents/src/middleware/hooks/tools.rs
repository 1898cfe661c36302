//! Hooks for tool calls.

use std::collections::BTreeMap;

use deepagents_core::error::Result;
use deepagents_core::interrupt::{ActionRequests, Decision, DecisionKind, DecisionRecord};
use deepagents_core::message::{Block, ToolCall};
use deepagents_core::middleware::{HookOutput, JumpTo, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::Context;
use deepagents_core::state::Update;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::lifecycle::report_end;
use super::{HookAnswer, HookEvent, HookPermission, HookRunner, names, with_fields};
use crate::channels::{CallReview, CallReviews, HookDecision, HookReviewsChange};
use crate::text;

/// The name under which hooks appear as the rule behind a decision.
const HOOK: &str = "a hook";

impl HookRunner {
    fn fields(&self, call: &ToolCall) -> Value {
        let root = self.inner.root.as_deref();
        json!({
            "tool_name": names::on_wire(&call.name),
            "tool_input": names::args_on_wire(&call.name, &call.args, root),
            "tool_use_id": call.id,
        })
    }

    /// Runs hooks on the calls of an answer, before anybody is asked about them.
    pub(super) async fn review(&self, cx: &Context) -> HookOutput {
        if !self.has(HookEvent::PreToolUse) {
            return HookOutput::next();
        }
        let open = cx.open_calls();
        let reviews = join_all(open.iter().map(|(id, call)| async move {
            let answer = self.ask(HookEvent::PreToolUse, self.fields(call), cx).await;
            let stop = answer.stop.clone();
            (CallReview::key(id, cx), self.reviewed(call, answer), stop)
        }));
        let reviews = reviews.await;
        if reviews.is_empty() {
            return HookOutput::next();
        }
        let (mut said, mut stop) = (BTreeMap::new(), None);
        for (id, review, why) in reviews {
            stop = stop.or(why);
            if review != CallReview::default() {
                said.insert(id, review);
            }
        }
        if let Some(why) = &stop {
            report_end(cx, HookEvent::PreToolUse, why);
        }
        let mut changes = vec![HookReviewsChange::Turn(said)];
        changes.extend(stop.clone().map(HookReviewsChange::End));
        let output = HookOutput::set::<CallReviews>(changes);
        if stop.is_some() { output.and_go(JumpTo::End) } else { output }
    }

    fn reviewed(&self, call: &ToolCall, answer: HookAnswer) -> CallReview {
        let decision = match (answer.block, answer.permission) {
            (Some(why), _) | (None, Some((HookPermission::Deny, why))) => Some(HookDecision::Deny(why)),
            (None, Some((HookPermission::Ask, why))) => Some(HookDecision::Ask(why)),
            (None, Some((HookPermission::Allow, _))) => Some(HookDecision::Allow),
            (None, None) => None,
        };
        let root = self.inner.root.as_deref();
        let args = answer.updated_input.map(|args| names::args_from_wire(&call.name, args, root));
        let args = args.filter(|args| *args != call.args);
        CallReview { decision, args, context: answer.context }
    }

    /// Makes a call according to its review, and runs hooks on its result.
    pub(super) async fn call(&self, mut request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let id = request.id().to_string();
        let review = CallReview::of(request.id(), &request.cx);
        let allowed = review.allows();
        let mut note = None;
        // A call edited by a person is made as edited.
        if let Some(args) = review.args.filter(|_| !is_edited(&request)) {
            note = Some(changes(&request, &args));
            request.call.args = args;
        }
        match review.decision {
            Some(HookDecision::Deny(why)) => {
                let text = format!("A hook does not allow this call: {why}");
                return Ok(ToolResponse::error(&text).synthetic().denied_by(HOOK, text));
            }
            Some(HookDecision::Ask(why)) if !request.cx.get::<ActionRequests>().contains_key(&id) => {
                if request.cx.thread().is_none() && !request.cx.is_direct() {
                    let text = format!("A hook wants a person to be asked, and nobody can be: {why}");
                    return Ok(ToolResponse::error(text).synthetic());
                }
                let text =
                    if why.is_empty() { format!("A hook asks about this call of {}", request.call.name) } else { why };
                match request.interrupt_by(HOOK, text, [DecisionKind::Approve, DecisionKind::Reject])? {
                    Decision::Approve => {}
                    Decision::Reject { message: Some(why) } => {
                        let text = format!("The call was rejected: {why}. It was not made.");
                        return Ok(ToolResponse::error(text).synthetic());
                    }
                    _ => return Ok(ToolResponse::error("The call was rejected. It was not made.").synthetic()),
                }
            }
            _ => {}
        }
        let (call, cx) = (request.call.clone(), request.cx.clone());
        let mut response = next.run(request).await?;
        if allowed {
            response = response.allowed_by(HOOK);
        }
        if let Some(note) = note {
            response.content.insert(0, Block::text(note));
        }
        response.content.extend(review.context.into_iter().map(Block::text));
        self.after(&call, &cx, response).await
    }

    async fn after(&self, call: &ToolCall, cx: &Context, mut response: ToolResponse) -> Result<ToolResponse> {
        let failed = response.is_error;
        let event = if failed { HookEvent::PostToolUseFailure } else { HookEvent::PostToolUse };
        if !self.has(event) {
            return Ok(response);
        }
        let text = text::of_blocks(&response.content);
        let result = match (&response.artifact, failed) {
            (_, true) => json!({"error": text}),
            (Some(artifact), false) => json!({"tool_response": {"text": text, "artifact": artifact}}),
            (None, false) => json!({"tool_response": {"text": text}}),
        };
        let fields = with_fields(self.fields(call), result);
        let answer = self.ask(event, fields, cx).await;
        if let Some(output) = answer.updated_output {
            let text = output.as_str().map_or_else(|| output.to_string(), str::to_owned);
            response.content = vec![Block::text(text)];
        }
        let objection = answer.block.map(|why| format!("[a hook objects: {why}]"));
        response.content.extend(answer.context.into_iter().chain(objection).map(Block::text));
        if let Some(why) = answer.stop {
            response = response.with_update(Update::new::<CallReviews>(vec![HookReviewsChange::End(why)]));
        }
        Ok(response)
    }
}

/// Returns `true` if a person has edited this call.
fn is_edited(request: &ToolRequest) -> bool {
    let asked = request.cx.get::<ActionRequests>();
    let edits = |answer: &DecisionRecord| matches!(answer.decision, Decision::Edit { .. });
    asked.values().any(|asked| asked.request.call == *request.id() && asked.decision.as_ref().is_some_and(edits))
}

/// Maximum number of characters of a changed argument in the note.
const MAX_SHOWN_CHARS: usize = 1000;

/// Describes the arguments that hooks have changed, for the model and readers of the thread.
fn changes(request: &ToolRequest, args: &Value) -> String {
    let own = request.cx.open_calls().into_iter().find(|(id, _)| id == request.id());
    let own = own.map_or_else(|| request.call.args.clone(), |(_, call)| call.args);
    let shown =
        |name: &str, value: &Value| format!("{name} is {}", text::truncated(&value.to_string(), MAX_SHOWN_CHARS, "…"));
    let (Some(before), Some(after)) = (own.as_object(), args.as_object()) else {
        return format!("A hook changed this call before it was made: {}.", shown("all of its arguments", args));
    };
    let changed = after.iter().filter(|(name, value)| before.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| shown(name, value));
    let gone = before.keys().filter(|name| !after.contains_key(*name)).map(|name| format!("{name} is left out"));
    let changed: Vec<String> = changed.chain(gone).collect();
    format!("A hook changed this call before it was made: {}.", changed.join("; "))
}
