//! Asks a person for approval before calls are made.

use std::any::Any;

use deepagents_core::error::{Error, Result};
use deepagents_core::interrupt::{
    ActionRequest, ActionRequestChange, ActionRequests, ActionReview, Decision, DecisionAuthor, EditedAction,
};
use deepagents_core::message::{Block, ToolCall};
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::{CallId, unnamed_fields};

use crate::approvals::{InterruptOn, InterruptPolicy};
use crate::channels::CallReview;
use crate::permission_interrupts;
use crate::workspace::{self, Workspace};

/// Asks a person for approval before calls are made. The requests for all gated calls of a turn are made before any
/// call of the turn runs. A gated call from elsewhere, such as the input, is asked about when it is due.
///
/// A call with arguments that do not fit its tool is rejected without asking. If the tool does not define some of the
/// arguments, the call is asked about and the question says so. A question about a path says where links lead, and the
/// call is rejected if they lead elsewhere once it is approved. If [hooks](crate::middleware::hooks) change the
/// arguments of a call, it is checked, asked about and made with the changed ones.
///
/// If given to a builder in addition to `interrupt_on`, both policies apply. Approved calls run. An edited call runs in
/// place of the model's, which stays in the conversation with a note. A rejected or answered call does not run.
///
/// ```
/// use deepagents::middleware::HumanInTheLoop;
/// use deepagents::subagents::SubAgentSpec;
/// use deepagents::{InterruptOn, InterruptPolicy};
/// // A sub-agent that is asked about more than the agent above.
/// let asks = HumanInTheLoop::new(InterruptPolicy::new().before("send_mail", InterruptOn::any()));
/// let clerk = SubAgentSpec::new("clerk", "Answers letters.").middleware(asks);
/// ```
#[derive(Clone, Debug)]
pub struct HumanInTheLoop {
    approvals: InterruptPolicy,
    /// The files that calls refer to, if known.
    files: Option<Workspace>,
}

impl HumanInTheLoop {
    /// Asks about the calls selected by this policy.
    pub fn new(approvals: InterruptPolicy) -> Self {
        Self { approvals, files: None }
    }

    /// Sets the files in which links are resolved.
    pub(crate) fn files(mut self, files: Workspace) -> Self {
        self.files = Some(files);
        self
    }

    /// Returns the policy of a middleware that is one of these.
    pub(crate) fn policy_of(middleware: &dyn Any) -> Option<InterruptPolicy> {
        middleware.downcast_ref::<Self>().map(|human| human.approvals.clone())
    }

    async fn question(
        &self,
        id: &CallId,
        call: &ToolCall,
        (ask, allowed): (&InterruptOn, bool),
        cx: &Context,
    ) -> ActionRequest {
        let now = cx.clock().now();
        let mut question = ActionRequest::about(id, &call.name, call.args.clone(), now.to_string())
            .text(question_text(ask, call, cx))
            .rule(self.approvals.rules_about(call, allowed, cx))
            .allowed(ask.allowed.clone())
            .tools(cx.tool_names())
            .agent(cx.sub_agent_name());
        question.leads_to = self.leads_to(call, cx).await;
        // A time out of range never arrives.
        match ask.expires_after.and_then(|after| now.checked_add(after).ok()) {
            Some(at) => question.expires_at(at.to_string()),
            None => question,
        }
    }

    /// Returns the target of the call's path, if it differs from the path. If it cannot be resolved, the call itself
    /// will fail.
    async fn leads_to(&self, call: &ToolCall, cx: &Context) -> Option<String> {
        let (path, at_link) = permission_interrupts::path_of(call)?;
        let backend = self.files.as_ref()?.backend_for(cx);
        let place = workspace::resolve(&*backend, cx.state(), &path, at_link).await.ok()?;
        (place != path).then(|| place.to_string())
    }
}

/// Returns why the arguments do not fit the tool, if they do not.
fn argument_error(call: &ToolCall, cx: &Context) -> Option<String> {
    Some(refusal(call, &cx.tool(&call.name)?.misfit(&call.args)?))
}

/// Lists the arguments that the tool of a call accepts without naming them; the tool may ignore these.
fn unnamed(call: &ToolCall, cx: &Context) -> Option<String> {
    unnamed_fields(&cx.tool(&call.name)?.spec().schema, &call.args)
}

fn refusal(call: &ToolCall, why: &str) -> String {
    format!("Error: {} does not take these arguments: {why}", call.name)
}

/// Returns the question, with a warning about arguments that the tool may ignore: a person must not approve a call
/// because of them.
fn question_text(ask: &InterruptOn, call: &ToolCall, cx: &Context) -> String {
    let text = ask.question(call, cx);
    match unnamed(call, cx) {
        Some(fields) => {
            format!("{text}\n{} does not name all of these arguments and may ignore some: {fields}", call.name)
        }
        None => text,
    }
}

impl Middleware for HumanInTheLoop {
    fn name(&self) -> &str {
        "HumanInTheLoop"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        self.files.iter().flat_map(Workspace::channels).collect()
    }

    async fn after_model(&self, cx: &Context) -> Result<HookOutput> {
        let mut questions = Vec::new();
        for (id, mut call) in cx.open_calls() {
            let review = CallReview::of(&id, cx);
            let (allowed, denied) = (review.allows(), review.denies());
            call.args = review.args.unwrap_or(call.args);
            let Some(ask) = self.approvals.about(&call, allowed, cx).filter(|_| !denied) else { continue };
            // Invalid calls are answered when they are due; there is nothing to decide.
            if cx.tool(&call.name).is_some() && argument_error(&call, cx).is_none() {
                questions
                    .push(ActionRequestChange::Request(Box::new(self.question(&id, &call, (ask, allowed), cx).await)));
            }
        }
        Ok(if questions.is_empty() { HookOutput::next() } else { HookOutput::set::<ActionRequests>(questions) })
    }

    async fn wrap_tool_call(&self, mut request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        let asked = request.cx.get::<ActionRequests>().remove(&request.id().to_string());
        let review = CallReview::of(request.id(), &request.cx);
        let (allowed, denied) = (review.allows(), review.denies());
        request.call.args = review.args.unwrap_or(request.call.args);
        let about = self.approvals.about(&request.call, allowed, &request.cx).filter(|_| !denied);
        let (decision, author) = match (asked, about) {
            (Some(ActionReview { request: question, decision: Some(answer) }), _) => {
                let place = self.leads_to(&request.call, &request.cx).await;
                if answer.decision == Decision::Approve && place != question.leads_to {
                    let place = place.as_deref().unwrap_or("where it says");
                    return Ok(ToolResponse::error(format!(
                        "Error: the path of this call leads elsewhere than when a person agreed to it: to {place}. It \
                         was not made"
                    ))
                    .refused());
                }
                (answer.decision, answer.author)
            }
            (_, Some(_)) if request.tool.is_none() => return next.run(request).await,
            (_, Some(ask)) => {
                if let Some(why) = argument_error(&request.call, &request.cx) {
                    return Ok(ToolResponse::error(why).refused());
                }
                let text = question_text(ask, &request.call, &request.cx);
                let rule = self.approvals.rules_about(&request.call, allowed, &request.cx);
                (request.interrupt_by(rule, text, ask.allowed.clone())?, None)
            }
            (_, None) => return next.run(request).await,
        };
        let name = request.call.name.clone();
        match decision {
            Decision::Edit { edited_action } => run_edited(request, edited_action, author.as_ref(), next).await,
            Decision::Reject { message } => {
                let words = match author {
                    None | Some(DecisionAuthor::Person) => rejection(&name, message.as_deref()),
                    Some(_) => refused_unasked(&name, message.as_deref()),
                };
                Ok(ToolResponse::error(words).synthetic())
            }
            Decision::Respond { message } => Ok(ToolResponse::text(message).synthetic()),
            Decision::Approve => next.run(request).await,
            other => Err(Error::Input(format!("a decision to {} a call is not known here", other.kind()))),
        }
    }
}

/// Makes a call as it was changed by a person or a rule, and tells the model so.
async fn run_edited(
    mut request: ToolRequest,
    edited: EditedAction,
    author: Option<&DecisionAuthor>,
    next: ToolNext,
) -> Result<ToolResponse> {
    let who = match author {
        None | Some(DecisionAuthor::Person) => "A person".to_owned(),
        Some(DecisionAuthor::Rule { text }) => format!("A rule ({text})"),
        Some(other) => format!("What decides here ({other})"),
    };
    let changed = format!("{} with {}", edited.name, edited.args);
    request.tool = request.cx.tool(&edited.name).cloned();
    let own = unnamed(&request.call, &request.cx);
    request.call = ToolCall { id: request.call.id, name: edited.name, args: edited.args, native: None };
    // Reject an edit with arguments that the tool may ignore, unless the model's call had such arguments too.
    let slip = || unnamed(&request.call, &request.cx).filter(|_| own.is_none());
    let why = argument_error(&request.call, &request.cx);
    let misses = |fields: String| refusal(&request.call, &format!("it does not name {fields}"));
    let refused = why.or_else(|| slip().map(misses));
    let became = if refused.is_some() { "It was not made either" } else { "Made instead" };
    let note = format!(
        "{who} changed this call before it was made, on purpose; do not make your own again. {became}: {changed}"
    );
    let note = request.cx.receive_text(note)?;
    let mut response = match refused {
        Some(why) => ToolResponse::error(why).refused(),
        None => next.run(request).await?,
    };
    response.content.insert(0, Block::text(note));
    Ok(response)
}

/// Returns the result of a call that a person has rejected, with their reason if they gave one.
///
/// ```
/// use deepagents::middleware::approval::rejection;
/// assert!(rejection("execute", Some("too slow")).starts_with("User rejected the call of execute: too slow."));
/// ```
pub fn rejection(tool: &str, reason: Option<&str>) -> String {
    let reason = reason_suffix(reason);
    format!("User rejected the call of {tool}{reason}. It was not made; make it again only if asked to.")
}

/// Returns the result of a call that was rejected without asking: by a rule, or because nobody was there.
fn refused_unasked(tool: &str, reason: Option<&str>) -> String {
    let reason = reason_suffix(reason);
    format!(
        "The call of {tool} was refused{reason}. Nobody was asked, and it was not made; make it again only if asked to."
    )
}

fn reason_suffix(reason: Option<&str>) -> String {
    reason.filter(|reason| !reason.trim().is_empty()).map(|reason| format!(": {reason}")).unwrap_or_default()
}
