//! A person decides before a call is made.

use deepagents_core::error::{Error, Result};
use deepagents_core::interrupt::{
    ActionRequest, ActionRequestChange, ActionRequests, ActionReview, Decision, DecisionAuthor,
};
use deepagents_core::message::{Block, ToolCall};
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, ToolResponse};
use deepagents_core::run::Context;
use deepagents_core::state::ChannelSpec;
use deepagents_core::tool::{CallId, SchemaCheck, closed};

use crate::approvals::{InterruptOn, InterruptPolicy};
use crate::channels::CallReview;
use crate::permission_interrupts;
use crate::workspace::Workspace;

/// Asks a person before calls are made. All gated calls of a turn are asked about before any call of the turn is made; a
/// gated call that comes another way, such as with the input, is asked about when it is its turn.
///
/// A call whose arguments its tool does not take is refused before anybody is asked. One with arguments that the tool does
/// not name is asked about as it is, and the question says so. A question about a path says where links lead, and the call
/// is refused if they lead elsewhere by the time that it is approved. Where [hooks](crate::middleware::hooks) change the arguments
/// of a call, it is judged, asked about and made as they have changed it.
///
/// Given to a builder beside `interrupt_on`, both hold. Approved calls run; an edited one runs in the place of the model's, which stays in the conversation with a note; a
/// rejected or answered one does not run.
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
    /// The files that calls are about, if they are known.
    files: Option<Workspace>,
}

impl HumanInTheLoop {
    /// Asks about these calls.
    pub fn new(approvals: InterruptPolicy) -> Self {
        Self { approvals, files: None }
    }

    /// Looks at these files for where links lead.
    pub(crate) fn files(mut self, files: Workspace) -> Self {
        self.files = Some(files);
        self
    }

    /// What it asks about.
    pub(crate) fn approvals(&self) -> &InterruptPolicy {
        &self.approvals
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
        // A time that is out of range never comes.
        match ask.expires_after.and_then(|after| now.checked_add(after).ok()) {
            Some(at) => question.expires_at(at.to_string()),
            None => question,
        }
    }

    /// Where the path of a call leads, if that is not where it says. What cannot be looked at answers the call itself.
    async fn leads_to(&self, call: &ToolCall, cx: &Context) -> Option<String> {
        let (path, at_link) = permission_interrupts::path_of(call)?;
        let backend = self.files.as_ref()?.backend_for(cx);
        let (from, name) = match (at_link, path.parent(), path.name()) {
            (true, Some(parent), Some(name)) => (parent, Some(name)),
            _ => (path.clone(), None),
        };
        let place = backend.resolve(cx.state(), &from).await.ok()?;
        let place = name.and_then(|name| place.join(name).ok()).unwrap_or(place);
        (place != path).then(|| place.to_string())
    }
}

/// Why a call cannot be made as it is: its tool does not take the arguments.
fn unfit(call: &ToolCall, cx: &Context) -> Option<String> {
    Some(refusal(call, &cx.tool(&call.name)?.misfit(&call.args)?))
}

/// What is wrong with a call whose tool takes its arguments, and does not name all of them: it may leave some out of
/// account.
fn unknown(call: &ToolCall, cx: &Context) -> Option<String> {
    let check = SchemaCheck::new(closed(&cx.tool(&call.name)?.spec().schema).into());
    check.check(&call.args).err()
}

fn refusal(call: &ToolCall, why: &str) -> String {
    format!("Error: {} does not take these arguments: {why}", call.name)
}

/// What a person is asked: an argument that comes to nothing must not be what they agree for.
fn question_text(ask: &InterruptOn, call: &ToolCall, cx: &Context) -> String {
    let text = ask.question(call, cx);
    match unknown(call, cx) {
        Some(why) => format!("{text}\n{} does not name all of these arguments and may ignore some: {why}", call.name),
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
            // What there is nothing to decide about is answered when it is its turn.
            if cx.tool(&call.name).is_some() && unfit(&call, cx).is_none() {
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
                    )));
                }
                (answer.decision, answer.author)
            }
            (_, Some(_)) if request.tool.is_none() => return next.run(request).await,
            (_, Some(ask)) => {
                if let Some(why) = unfit(&request.call, &request.cx) {
                    return Ok(ToolResponse::error(why));
                }
                let text = question_text(ask, &request.call, &request.cx);
                let rule = self.approvals.rules_about(&request.call, allowed, &request.cx);
                (request.interrupt_by(rule, text, ask.allowed.clone())?, None)
            }
            (_, None) => return next.run(request).await,
        };
        let name = request.call.name.clone();
        match decision {
            Decision::Edit { edited_action } => {
                let who = match author {
                    None | Some(DecisionAuthor::Person) => "A person".to_owned(),
                    Some(DecisionAuthor::Rule { text }) => format!("A rule ({text})"),
                    Some(other) => format!("What decides here ({other})"),
                };
                let changed = format!("{} with {}", edited_action.name, edited_action.args);
                request.tool = request.cx.tool(&edited_action.name).cloned();
                let own = unknown(&request.call, &request.cx);
                request.call =
                    ToolCall { id: request.call.id, name: edited_action.name, args: edited_action.args, native: None };
                // A person's slip is not made without what it was to say; what the model's call has too is none.
                let slip = || unknown(&request.call, &request.cx).filter(|_| own.is_none());
                let why = unfit(&request.call, &request.cx);
                let refused = why.or_else(|| slip().map(|why| refusal(&request.call, &why)));
                let became = if refused.is_some() { "It was not made either" } else { "Made instead" };
                let note = format!(
                    "{who} changed this call before it was made, on purpose; do not make your own again. {became}: {changed}"
                );
                let note = request.cx.receive_text(note)?;
                let mut response = match refused {
                    Some(why) => ToolResponse::error(why),
                    None => next.run(request).await?,
                };
                response.content.insert(0, Block::text(note));
                Ok(response)
            }
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

/// What the model is told of a call of a tool that a person has rejected, with their reason if they gave one.
///
/// ```
/// use deepagents::middleware::approval::rejection;
/// assert!(rejection("execute", Some("too slow")).starts_with("User rejected the call of execute: too slow."));
/// ```
pub fn rejection(tool: &str, reason: Option<&str>) -> String {
    let reason = behind(reason);
    format!("User rejected the call of {tool}{reason}. It was not made; make it again only if asked to.")
}

/// The same where no person has rejected it, but a rule, or that nobody was there.
fn refused_unasked(tool: &str, reason: Option<&str>) -> String {
    let reason = behind(reason);
    format!(
        "The call of {tool} was refused{reason}. Nobody was asked, and it was not made; make it again only if asked to."
    )
}

fn behind(reason: Option<&str>) -> String {
    reason.filter(|reason| !reason.trim().is_empty()).map(|reason| format!(": {reason}")).unwrap_or_default()
}
