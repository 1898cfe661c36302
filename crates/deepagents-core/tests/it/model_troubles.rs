//! Model responses that are cut off, malformed, empty or missing.

use std::time::Duration;

use deepagents_core::error::Error;
use deepagents_core::event::EventKind;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::{AssistantMessage, Block, InvalidToolCall, Media, MediaKind, MediaSource, Reasoning};
use deepagents_core::model::{ModelError, ModelEvent, ModelOutput, StopReason};
use deepagents_core::run::{FinishReason, Outcome, RunInput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{agent, assert_sound, echo, kinds, lines, watch};

async fn run(turns: impl IntoIterator<Item = Turn>) -> Outcome {
    let outcome = agent(ScriptedModel::new(turns)).tool(echo()).build().unwrap().invoke("hi").await.unwrap();
    assert_sound(outcome.messages());
    outcome
}

fn text(delta: &str) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Text { block: 0, delta: delta.to_owned() })
}

fn finished(message: AssistantMessage) -> Result<ModelEvent, ModelError> {
    Ok(ModelEvent::Finished(Box::new(ModelOutput::new(message))))
}

#[tokio::test]
async fn text_cut_off_by_its_token_limit_is_kept_and_reported() {
    let outcome = run([Turn::text("Once upon a").stop(StopReason::MaxTokens)]).await;
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::TokenLimit, "Once upon a".to_owned()));
    let outcome = run([Turn::text("Once").stop(StopReason::ContextWindow)]).await;
    assert_eq!(outcome.stop, FinishReason::TokenLimit);
}

#[tokio::test]
async fn complete_calls_in_a_cut_off_answer_are_run() {
    let cut = Turn::call("echo", json!({})).stop(StopReason::MaxTokens);
    let outcome = run([cut, Turn::text("done")]).await;
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "done".to_owned()));
}

#[tokio::test]
async fn malformed_arguments_get_an_error_and_the_run_continues() {
    let good = Block::call("c2", "echo", json!({"x": 1}));
    let outcome = run([Turn::blocks([half_a_call(), good]), Turn::text("done")]).await;
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("the JSON ends early"), "{}", lines[2]);
    assert_eq!(lines[3..], ["result: {\"x\":1}", "assistant: done"]);
}

/// A call whose arguments are cut off.
fn half_a_call() -> Block {
    let (raw, error) = ("{\"x\":".to_owned(), "the JSON ends early".to_owned());
    Block::InvalidToolCall(InvalidToolCall { id: "c1".into(), name: "echo".into(), raw, error, native: None })
}

#[tokio::test]
async fn a_call_cut_off_by_the_token_limit_is_answered_and_not_made() {
    let cut = Turn::blocks([Block::text("Now"), half_a_call()]).stop(StopReason::MaxTokens);
    let outcome = run([cut, Turn::text("Then in parts.")]).await;
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("Nothing was done"), "{}", lines[2]);
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "Then in parts.".to_owned()));
}

#[tokio::test]
async fn a_model_that_never_gets_arguments_right_reaches_the_step_limit() {
    let model = ScriptedModel::rules().always(Turn::blocks([half_a_call()])).build();
    let agent = agent(model).tool(echo()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("hi").max_model_calls(5)).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::StepLimit, 5));
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn a_stream_that_breaks_inside_a_call_makes_no_call() {
    let begun = || {
        let call = ModelEvent::ToolCall { block: 0, id: "c1".into(), name: "echo".into() };
        [Ok(call), Ok(ModelEvent::ToolArgs { block: 0, delta: "{\"x\":1}".into() })]
    };
    let notes = crate::support::Notes::default();
    let noted = notes.clone();
    let echo = crate::support::tool("echo", move |_, _| {
        noted.add("made");
        std::future::ready(Ok("ok"))
    });
    let broken = Turn::raw(begun().into_iter().chain([Err(ModelError::truncated("connection lost"))]));
    let agent = agent(ScriptedModel::new([broken])).tool(echo).build().unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert_eq!((error.kind(), lines(error.state.messages())), ("truncated", vec!["user: hi".to_owned()]));
    assert!(notes.list().is_empty());
}

#[tokio::test]
async fn a_thread_continues_after_an_empty_or_a_cut_off_answer() {
    for turn in [Turn::blocks([]), Turn::text("Once upon").stop(StopReason::MaxTokens)] {
        let model = ScriptedModel::new([Turn::call("echo", json!({})), turn, Turn::text("back again")]);
        let agent = agent(model.clone()).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
        let first = agent.invoke(RunInput::new("hi").thread("t")).await.unwrap();
        assert!(matches!(first.stop, FinishReason::Empty | FinishReason::TokenLimit));
        let outcome = agent.invoke(RunInput::new("and now?").thread("t")).await.unwrap();
        assert_sound(outcome.messages());
        assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "back again".to_owned()));
        assert_eq!(model.requests()[2].messages.len(), 5);
    }
}

#[tokio::test]
async fn an_answer_without_text_or_calls_is_reported_as_empty() {
    assert_eq!(run([Turn::blocks([])]).await.stop, FinishReason::Empty);
    assert_eq!(run([Turn::text(" \n")]).await.stop, FinishReason::Empty);
    let thought = Block::Reasoning(Reasoning { text: "hm".into(), native: None });
    assert_eq!(run([Turn::blocks([thought])]).await.stop, FinishReason::Empty);
}

#[tokio::test]
async fn an_image_without_text_is_an_answer() {
    let source = MediaSource::Base64("AAAA".into());
    let media = Media { kind: MediaKind::Image, mime: "image/png".into(), source, name: None };
    assert_eq!(run([Turn::blocks([Block::Media(media)])]).await.stop, FinishReason::Done);
}

#[tokio::test]
async fn a_refusal_is_reported_and_its_text_is_kept() {
    let outcome = run([Turn::text("I cannot help with that.").stop(StopReason::Refusal)]).await;
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Refused, "I cannot help with that.".to_owned()));
}

#[tokio::test]
async fn calls_in_a_refused_answer_are_not_made() {
    let declined = Turn::call("echo", json!({"x": 1})).stop(StopReason::Refusal);
    let model = ScriptedModel::new([declined, Turn::text("never asked")]);
    let outcome = agent(model.clone()).tool(echo()).build().unwrap().invoke("hi").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!((outcome.stop.clone(), model.requests().len()), (FinishReason::Refused, 1));
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("was not made"), "{}", lines[2]);
}

#[tokio::test]
async fn an_unknown_stop_reason_does_not_count_as_done() {
    let outcome = run([Turn::text("half").stop(StopReason::Other("incomplete".into()))]).await;
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::BrokenOff, "half".to_owned()));
    let call = Turn::call("echo", json!({})).stop(StopReason::Other("odd".into()));
    assert_eq!(run([call, Turn::text("done")]).await.stop, FinishReason::Done);
}

#[tokio::test]
async fn a_turn_paused_by_the_provider_is_continued() {
    let outcome = run([Turn::text("searching").stop(StopReason::Pause), Turn::text("found")]).await;
    assert_eq!(lines(outcome.messages()), ["user: hi", "assistant: searching", "assistant: found"]);
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::Done, 2));
}

#[tokio::test]
async fn a_stream_that_breaks_fails_the_run_and_leaves_the_history_unchanged() {
    let broken = Turn::raw([text("Hel"), Err(ModelError::transport("connection reset"))]);
    let ended = Turn::raw([text("Hel")]);
    let nothing = Turn::raw([]);
    for (turn, kind) in [(broken, "transport"), (ended, "truncated"), (nothing, "truncated")] {
        let agent = agent(ScriptedModel::new([turn])).build().unwrap();
        let (events, outcome) = watch(agent.run("hi")).await;
        let error = outcome.unwrap_err();
        assert!(error.error.as_model().is_some());
        assert_eq!(error.kind(), kind);
        assert_eq!(lines(error.state.messages()), ["user: hi"]);
        let kinds = kinds(&events);
        assert_eq!(kinds[kinds.len() - 2..], ["attempt_discarded", "run_failed"]);
    }
}

#[tokio::test]
async fn a_model_that_panics_fails_the_run() {
    let agent = agent(ScriptedModel::new([Turn::with(|_| panic!("a bug in a client"))])).build().unwrap();
    let error = agent.run("hi").outcome().await.unwrap_err();
    assert!(error.to_string().contains("a bug in a client"), "{error}");
    assert_eq!(lines(error.state.messages()), ["user: hi"]);
}

#[tokio::test]
async fn a_thread_continues_after_a_failed_model_call() {
    let model = ScriptedModel::new([
        Turn::call("echo", json!({})),
        Turn::error(ModelError::transport("down")),
        Turn::text("back again"),
    ]);
    let agent = agent(model).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::new("hi").thread("t")).await.unwrap_err();
    let outcome = agent.invoke(RunInput::new("and now?").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2..], ["result: {}", "user: and now?", "assistant: back again"]);
}

#[tokio::test]
async fn a_retry_inside_the_model_discards_the_attempt_and_renumbers_later_deltas() {
    let turn = Turn::raw([
        text("Hel"),
        Ok(ModelEvent::Retry { error: ModelError::transport("reset"), after: Duration::from_millis(250) }),
        text("Good"),
        text(" day"),
        finished(AssistantMessage::new(vec![Block::text("Good day")])),
    ]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("next")])).build().unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.text(), "Good day");
    let ids: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ModelStarted { message: id, .. }
            | EventKind::AttemptDiscarded { next: id, .. }
            | EventKind::ModelFinished { message: id, .. } => Some(id.clone()),
            _ => None,
        })
        .collect();
    let kept = outcome.messages().last().unwrap().id().to_owned();
    assert!(ids[0] != kept && ids[1..] == [kept.clone(), kept], "each try has an id of its own: {ids:?}");
    let told: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TextDelta { attempt, text, .. } => Some(format!("{attempt}: {text}")),
            EventKind::AttemptDiscarded { attempt, retry_after_ms, .. } => {
                Some(format!("{attempt} is void, again in {retry_after_ms} ms"))
            }
            EventKind::ModelFinished { attempt, .. } => Some(format!("{attempt} finished")),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["0: Hel", "0 is void, again in 250 ms", "1: Good", "1:  day", "1 finished"]);
}

#[tokio::test]
async fn a_message_id_repeated_by_a_provider_does_not_replace_an_older_message() {
    let same = |text: &str| {
        let message = AssistantMessage { id: "msg_x".into(), ..AssistantMessage::new(vec![Block::text(text)]) };
        let output = ModelOutput { message, stop: StopReason::Pause, ..ModelOutput::default() };
        Turn::raw([Ok(ModelEvent::Finished(Box::new(output)))])
    };
    let outcome = run([same("one"), same("two"), Turn::text("three")]).await;
    assert_eq!(lines(outcome.messages())[1..], ["assistant: one", "assistant: two", "assistant: three"]);
    assert_ne!(outcome.messages().get(1).unwrap().id(), outcome.messages().get(2).unwrap().id());
}

#[tokio::test]
async fn an_exceeded_context_length_is_a_typed_error() {
    let turn = Turn::error(ModelError::ContextLength("too long".into()));
    let agent = agent(ScriptedModel::new([turn])).build().unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert!(matches!(&*error.error, Error::Model(ModelError::ContextLength(_))));
}
