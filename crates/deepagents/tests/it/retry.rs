//! Retries of failed calls, and what happens after too many failures.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents::core::model::StopReason;
use deepagents::core::tool::DynTool;
use deepagents::middleware::ToolFilter;
use deepagents::middleware::redaction::{Detector, Redaction, Strategy};
use deepagents::middleware::retry::{Backoff, ModelFailure, ModelRetry, ToolFailure, ToolRetry};
use deepagents::middleware::tool_errors::{ToolErrorAction, ToolErrors};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    BoxError, Budget, Decision, DecisionKind, DeepAgent, Effect, Error, EventKind, FinishReason, InterruptOn,
    InterruptPolicy, MemoryJournal, MiddlewareEvent, ModelError, ModelNext, Outcome, RunError, RunInput, Tool,
    ToolContext, ToolError, ToolOutput, json_tool, tool_fn, wrap_model_call,
};
use futures_util::StreamExt;
use serde_json::json;

use crate::{play, results};

fn quick(retries: u32) -> Backoff {
    Backoff { retries, initial: Duration::ZERO, ..Backoff::default() }
}

fn retrying(retries: u32) -> ModelRetry {
    ModelRetry::new(quick(retries)).unwrap()
}

async fn ask(turns: Vec<Turn>, retry: ModelRetry) -> (Result<Outcome, Box<RunError>>, Vec<EventKind>, ScriptedModel) {
    let model = ScriptedModel::new(turns);
    let agent = DeepAgent::builder().model(model.clone()).middleware(retry).build().unwrap();
    let mut run = agent.run("Go.");
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event.kind.clone());
    }
    (run.outcome().await, events, model)
}

fn away() -> Turn {
    Turn::error(ModelError::transport("the cable is cut"))
}

#[tokio::test]
async fn a_transient_failure_is_retried_and_each_attempt_is_reported() {
    let (outcome, events, model) = ask(vec![away(), away(), Turn::text("Hello.")], retrying(2)).await;
    assert_eq!((outcome.unwrap().text(), model.requests().len()), ("Hello.".to_owned(), 3));
    let told: Vec<u32> = events
        .iter()
        .filter_map(|kind| match kind {
            EventKind::Middleware(MiddlewareEvent::ModelRetried { attempts, .. }) => Some(*attempts),
            _ => None,
        })
        .collect();
    assert_eq!(told, [1, 2]);
    let void = events.iter().filter(|kind| matches!(kind, EventKind::AttemptDiscarded { .. })).count();
    assert_eq!(void, 2);
}

#[tokio::test]
async fn exactly_the_transient_error_classes_are_retried() {
    let classes: [(ModelError, bool); 8] = [
        (ModelError::RateLimited("slow down".into()), true),
        (ModelError::Overloaded("busy".into()), true),
        (ModelError::transport("away"), true),
        (ModelError::truncated("half"), true),
        (ModelError::protocol("what?"), true),
        (ModelError::Auth("who?".into()), false),
        (ModelError::invalid("no"), false),
        (ModelError::ContextLength("too long".into()), false),
    ];
    for (error, again) in classes {
        let kind = error.kind();
        let (_, _, model) = ask(vec![Turn::error(error), Turn::text("Hello.")], retrying(1)).await;
        let too_long = kind == "context_length";
        // Compaction handles this error with its own retry.
        assert!(too_long || model.requests().len() == 1 + usize::from(again), "{kind}");
    }
}

#[tokio::test]
async fn a_run_fails_with_the_last_error_or_if_configured_with_a_marked_answer() {
    let (outcome, _, model) = ask(vec![away(), away()], retrying(1)).await;
    assert_eq!(outcome.unwrap_err().error.kind(), "transport");
    assert_eq!(model.requests().len(), 2);

    let (outcome, events, _) = ask(vec![away(), away()], retrying(1).on_failure(ModelFailure::Answer)).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stop, FinishReason::BrokenOff);
    insta::assert_snapshot!(outcome.text(), @"The model could not answer after 2 attempts: transport (could not reach the provider: the cable is cut)");
    let stop = events.iter().find_map(|kind| match kind {
        EventKind::ModelFinished { stop, .. } => Some(stop.clone()),
        _ => None,
    });
    assert_eq!(stop, Some(StopReason::Other("model_unavailable".to_owned())));

    let (outcome, _, _) = ask(vec![away()], retrying(0).on_failure(ModelFailure::Answer)).await;
    assert!(outcome.unwrap().text().contains("after 1 attempt:"));

    let own = ModelFailure::AnswerWith(Arc::new(|error, attempts| format!("{attempts} times {}", error.kind())));
    let (outcome, _, _) = ask(vec![away(), away()], retrying(1).on_failure(own)).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::BrokenOff, "2 times transport".to_owned()));
}

#[tokio::test]
async fn a_non_retryable_error_fails_the_run_whatever_is_configured() {
    let refused = Turn::error(ModelError::invalid("no such model"));
    let (outcome, _, _) = ask(vec![refused], retrying(3).on_failure(ModelFailure::Answer)).await;
    assert_eq!(outcome.unwrap_err().error.kind(), "invalid_request");
}

#[tokio::test]
async fn the_errors_to_retry_are_configurable() {
    let refused = || Turn::error(ModelError::invalid("no"));
    let all = retrying(2).retry_on(|error| error.as_model().is_some());
    let (outcome, _, _) = ask(vec![refused(), Turn::text("Yes.")], all).await;
    assert_eq!(outcome.unwrap().text(), "Yes.");
}

#[tokio::test]
async fn an_unclassified_error_of_another_middleware_is_retried_but_not_what_redaction_blocks() {
    let tries = Arc::new(AtomicUsize::new(0));
    let made = tries.clone();
    let odd = wrap_model_call(move |request, next: ModelNext| {
        let first = made.fetch_add(1, Ordering::Relaxed) == 0;
        async move { if first { Err(Error::other("the gateway is away")) } else { next.run(request).await } }
    });
    let (outcome, _) = play([Turn::text("Hello.")], |b| b.middleware(retrying(2)).middleware(odd)).await;
    assert_eq!((outcome.text().as_str(), tries.load(Ordering::Relaxed)), ("Hello.", 2));

    let model = ScriptedModel::new([Turn::text("Write to ann@example.org."), Turn::text("Hello.")]);
    let block = Redaction::new().with(Detector::Email, Strategy::Block).output(true);
    let agent = DeepAgent::builder().model(model.clone()).middleware(retrying(2)).redaction(block).build().unwrap();
    assert!(agent.invoke("Go.").await.is_err());
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn a_retry_after_beyond_the_maximum_delay_ends_the_retries() {
    let mut error = ModelError::RateLimited("slow down".into());
    error.info_mut().retry_after = Some(Duration::from_secs(3600));
    let (outcome, _, model) = ask(vec![Turn::error(error), Turn::text("Late.")], retrying(3)).await;
    assert_eq!((outcome.unwrap_err().error.kind(), model.requests().len()), ("rate_limited", 1));
}

#[tokio::test]
async fn an_exhausted_budget_ends_the_retries() {
    let model = ScriptedModel::new((0..5).map(|_| away()));
    let agent = DeepAgent::builder().model(model.clone()).middleware(retrying(4)).build().unwrap();
    let input = deepagents::RunInput::new("Go.").budget(Budget::default().model_calls(2));
    let outcome = agent.invoke(input).await;
    assert_eq!(model.requests().len(), 2);
    assert_eq!(outcome.unwrap().stop, FinishReason::StepLimit);
}

/// Fails a number of times, then works.
struct Shaky {
    name: &'static str,
    failures: AtomicUsize,
    calls: Arc<AtomicUsize>,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Io,
    Says,
    Fatal,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

impl Tool for Shaky {
    type Args = Nothing;
    fn name(&self) -> &str {
        self.name
    }
    fn description(&self) -> &str {
        "Works now and then."
    }
    fn effect(&self, _args: &Nothing) -> Effect {
        if self.name == "read" { Effect::Read } else { Effect::External }
    }
    async fn call(&self, _args: Nothing, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let fails =
            self.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        match self.how {
            How::Io if fails => Err(std::io::Error::other("the disk is away").into()),
            How::Says if fails => Ok(ToolOutput::text("nothing found").as_error()),
            How::Fatal if fails => Err(ToolError::fatal(BoxError::from("the house is on fire"))),
            _ => Ok("It works.".into()),
        }
    }
}

fn shaky(name: &'static str, failures: usize, how: How) -> (impl DynTool, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    (Shaky { name, failures: AtomicUsize::new(failures), calls: calls.clone(), how }, calls)
}

async fn call(name: &'static str, failures: usize, how: How, retry: ToolRetry) -> (Outcome, usize) {
    let (tool, calls) = shaky(name, failures, how);
    let (outcome, _) =
        play([Turn::call(name, json!({})), Turn::text("Done.")], |b| b.tool(tool).middleware(retry)).await;
    (outcome, calls.load(Ordering::Relaxed))
}

fn tool_retry(retries: u32) -> ToolRetry {
    ToolRetry::new(quick(retries)).unwrap()
}

#[tokio::test]
async fn read_only_calls_are_retried_and_non_idempotent_ones_only_if_configured() {
    let (outcome, calls) = call("read", 2, How::Io, tool_retry(2)).await;
    assert_eq!((results(&outcome), calls), (vec![("It works.".to_owned(), false)], 3));
    let (outcome, calls) = call("send", 2, How::Io, tool_retry(2)).await;
    assert_eq!((results(&outcome), calls), (vec![("the disk is away".to_owned(), true)], 1));
    let (_, calls) = call("send", 2, How::Io, tool_retry(2).tools(["send"])).await;
    assert_eq!(calls, 3);
    let (_, calls) = call("read", 2, How::Io, tool_retry(2).tools(["send"])).await;
    assert_eq!(calls, 1);
}

#[tokio::test]
async fn a_result_marked_as_error_by_its_tool_is_retried_only_if_configured() {
    let (_, calls) = call("read", 1, How::Says, tool_retry(2)).await;
    assert_eq!(calls, 1);
    let (outcome, calls) = call("read", 1, How::Says, tool_retry(2).retry_on(|_| true)).await;
    assert_eq!((results(&outcome)[0].0.as_str(), calls), ("It works.", 2));
}

#[tokio::test]
async fn a_call_that_keeps_failing_tells_the_model_or_ends_the_run() {
    let (outcome, calls) = call("read", 9, How::Io, tool_retry(1)).await;
    assert_eq!(calls, 2);
    insta::assert_snapshot!(results(&outcome)[0].0, @r"
    the disk is away
    [read failed 2 times; try something else, or again later]
    ");
    let own = ToolFailure::ContinueWith(Arc::new(|_, attempts| format!("gone after {attempts}")));
    let (outcome, _) = call("read", 9, How::Io, tool_retry(1).on_failure(own)).await;
    assert_eq!(results(&outcome), [("gone after 2".to_owned(), true)]);

    let (tool, _) = shaky("read", 9, How::Io);
    let model = ScriptedModel::new([Turn::call("read", json!({}))]);
    let retry = tool_retry(1).on_failure(ToolFailure::Error);
    let agent = DeepAgent::builder().model(model).tool(tool).middleware(retry).build().unwrap();
    let failure = agent.invoke("Go.").await.unwrap_err();
    assert_eq!(failure.error.to_string(), "tool `read` failed: the disk is away (after 2 attempts)");
    check_history(failure.state.messages()).unwrap();
}

#[tokio::test]
async fn a_person_who_has_answered_is_not_asked_again_by_a_call_that_fails_and_is_made_again() {
    for questions in [1, 2] {
        let tries = Arc::new(AtomicUsize::new(0));
        let made = tries.clone();
        let pay = json_tool("pay", "Pays.", json!({"type": "object"}), move |_: serde_json::Value, cx: ToolContext| {
            let made = made.clone();
            async move {
                for _ in 0..questions {
                    cx.interrupt("Pay it?", [DecisionKind::Approve])?;
                }
                match made.fetch_add(1, Ordering::Relaxed) {
                    0 | 1 => Err(ToolError::from(std::io::Error::other("the bank is away"))),
                    _ => Ok(ToolOutput::text("paid")),
                }
            }
        });
        let model = ScriptedModel::new([Turn::call("pay", json!({})), Turn::text("Done.")]);
        let retry = tool_retry(2).tools(["pay"]);
        let builder = DeepAgent::builder().model(model).tool(pay).middleware(retry).journal(MemoryJournal::new());
        let agent = builder.build().unwrap();
        let mut outcome = agent.invoke(RunInput::new("Pay.").thread("t")).await.unwrap();
        for answered in 0..questions {
            assert_eq!((outcome.action_requests().len(), tries.load(Ordering::Relaxed)), (1, 0), "{answered}");
            let input = RunInput::resume("t").decide(&outcome.action_requests()[0].id, Decision::Approve);
            outcome = agent.invoke(input).await.unwrap();
        }
        assert_eq!((&outcome.stop, results(&outcome)), (&FinishReason::Done, vec![("paid".to_owned(), false)]));
        assert_eq!(tries.load(Ordering::Relaxed), 3);
    }
}

#[test]
fn an_invalid_backoff_factor_is_rejected() {
    let wrong = Backoff { factor: 0.5, ..Backoff::default() };
    assert!(ModelRetry::new(wrong).unwrap_err().to_string().starts_with("waits cannot be multiplied by 0.5"));
    assert!(ToolRetry::new(wrong).is_err());
}

async fn handled(how: How, errors: ToolErrors) -> Result<Outcome, Box<RunError>> {
    let (tool, _) = shaky("send", 1, how);
    let model = ScriptedModel::new([Turn::call("send", json!({})), Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model).tool(tool).middleware(errors).build().unwrap();
    agent.invoke("Go.").await
}

#[tokio::test]
async fn a_handler_chooses_the_models_error_message_by_error_type() {
    let errors = || {
        ToolErrors::new(|failed| match failed.error {
            Some(error) if error.is::<std::io::Error>() => ToolErrorAction::Say("Error: io".to_owned()),
            _ => ToolErrorAction::Unchanged,
        })
    };
    assert_eq!(results(&handled(How::Io, errors()).await.unwrap()), [("Error: io".to_owned(), true)]);
    assert_eq!(results(&handled(How::Says, errors()).await.unwrap()), [("nothing found".to_owned(), true)]);
    let others = errors().tools(["read"]);
    assert_eq!(results(&handled(How::Io, others).await.unwrap()), [("the disk is away".to_owned(), true)]);
}

#[tokio::test]
async fn a_handler_sees_no_call_that_was_not_made() {
    let errors = || {
        ToolErrors::new(|failed| match failed.call.name.as_str() {
            "fails" => ToolErrorAction::Say("Error: it failed.".to_owned()),
            _ => ToolErrorAction::Fail,
        })
    };
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only its schema matters")]
    struct Letter {
        to: String,
    }
    let letter = tool_fn("letter", "Sends.", |_: Letter, _cx| async move { Ok("sent") });
    let barred = tool_fn("barred", "Is barred.", |_: Nothing, _cx| async move {
        Err::<ToolOutput, _>(ToolError::denied("It is not allowed."))
    });
    let other =
        || json_tool("pay", "Pays.", json!({"type": "object"}), |_: serde_json::Value, _cx| async { Ok("paid") });
    let fails = json_tool("fails", "Fails.", json!({"type": "object"}), |_: serde_json::Value, _cx| async {
        Err::<ToolOutput, _>(ToolError::model("the address of the server"))
    });
    let calls = ["letter", "barred", "nobody", "hidden", "fails", "pay"].map(|name| (name, json!({})));
    let model = ScriptedModel::new([Turn::calls(calls), Turn::text("Done.")]);
    let hidden =
        json_tool("hidden", "Is hidden.", json!({"type": "object"}), |_: serde_json::Value, _cx| async { Ok("") });
    let agent = DeepAgent::builder()
        .model(model)
        .tool(letter)
        .tool(barred)
        .tool(hidden)
        .tool(fails)
        .tool(other())
        .middleware(errors())
        .middleware(ToolFilter::exclude(["hidden"]))
        .interrupt_on(InterruptPolicy::new().before("pay", InterruptOn::any()))
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let rejected = Decision::Reject { message: Some("It is too dear.".to_owned()) };
    let question = waiting.action_requests().remove(0);
    let outcome = agent.invoke(RunInput::resume("t").decide(question.id, rejected)).await.unwrap();
    let told: Vec<String> = results(&outcome).into_iter().map(|(text, _)| text).collect();
    for part in ["bad arguments for letter", "It is not allowed.", "nobody is not a tool", "hidden is not available"] {
        assert!(told.iter().any(|text| text.contains(part)), "{part}: {told:?}");
    }
    assert!(told.iter().any(|text| text == "Error: it failed."), "{told:?}");
    assert!(told.iter().any(|text| text.contains("It is too dear.")), "{told:?}");
    assert_eq!(outcome.text(), "Done.");
}

#[tokio::test]
async fn a_handler_can_end_the_run_or_recover_from_a_fatal_error() {
    let fail = ToolErrors::new(|_| ToolErrorAction::Fail);
    let failure = handled(How::Io, fail).await.unwrap_err();
    assert_eq!(failure.error.to_string(), "tool `send` failed: the disk is away");
    let keep = ToolErrors::new(|_| ToolErrorAction::Unchanged);
    assert!(handled(How::Fatal, keep).await.is_err());
    let save = ToolErrors::new(|failed| {
        assert!(failed.is_fatal && failed.call.name == "send");
        ToolErrorAction::Say("Error: no more of it.".to_owned())
    });
    let outcome = handled(How::Fatal, save).await.unwrap();
    assert_eq!(
        (outcome.stop.clone(), results(&outcome)),
        (FinishReason::Done, vec![("Error: no more of it.".to_owned(), true)])
    );
}

#[tokio::test]
async fn the_error_behind_a_fatal_call_is_found_by_its_type() {
    let retry = tool_retry(1).on_failure(ToolFailure::Error);
    let says = || {
        ToolErrors::new(|failed| match failed.error {
            Some(error) if error.is::<std::io::Error>() && failed.is_fatal => {
                ToolErrorAction::Say(format!("Error: io: {}", failed.text))
            }
            _ => ToolErrorAction::Unchanged,
        })
    };
    let (tool, _) = shaky("read", 9, How::Io);
    let turns = || [Turn::call("read", json!({})), Turn::text("Done.")];
    let (outcome, _) = play(turns(), |b| b.tool(tool).middleware(says()).middleware(retry.clone())).await;
    assert_eq!(results(&outcome), [("Error: io: the disk is away (after 2 attempts)".to_owned(), true)]);

    let fails = ToolErrors::new(|_| ToolErrorAction::Fail);
    let failure = handled(How::Io, fails).await.unwrap_err();
    let Error::Tool { source, .. } = &*failure.error else { panic!("another error: {failure}") };
    assert!(source.source().is_some_and(|cause| cause.is::<std::io::Error>()), "{source:?}");
    let says_itself = ToolErrors::new(|_| ToolErrorAction::Fail);
    let failure = handled(How::Says, says_itself).await.unwrap_err();
    assert_eq!(failure.error.to_string(), "tool `send` failed: nothing found");
}
