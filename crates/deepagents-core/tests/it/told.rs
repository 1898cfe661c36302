//! Every model response is reported in events, in pieces or as a whole.

use deepagents_core::event::{Event, EventKind};
use deepagents_core::message::{AssistantMessage, Block, Message};
use deepagents_core::middleware::{HookOutput, JumpTo, ModelResponse, after_model, before_model, wrap_model_call};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelOutput, model_fn};
use deepagents_models::scripted::{ScriptedModel, Turn};

use crate::support::{agent, watch};

/// A model that returns its response in one piece.
fn at_once(text: &'static str) -> impl ChatModel {
    model_fn("at once", move |_| async move { Ok(text) })
}

/// The text deltas of a run with their turns and attempts, and where responses finish.
fn told(events: &[Event]) -> Vec<String> {
    let line = |event: &Event| match &event.kind {
        EventKind::TextDelta { turn, attempt, text } => Some(format!("{turn}.{attempt} {text}")),
        EventKind::ModelFinished { turn, attempt, .. } => Some(format!("{turn}.{attempt} finished")),
        EventKind::AttemptDiscarded { turn, attempt, .. } => Some(format!("{turn}.{attempt} discarded")),
        _ => None,
    };
    events.iter().filter_map(line).collect()
}

fn canned(text: &str) -> ModelResponse {
    ModelOutput::new(AssistantMessage::new(vec![Block::text(text)])).into()
}

#[tokio::test]
async fn an_unstreamed_answer_is_one_delta_and_a_streamed_one_is_not_repeated() {
    let (events, _) = watch(agent(at_once("all of it")).build().unwrap().run("go")).await;
    assert_eq!(told(&events), ["0.0 all of it", "0.0 finished"]);
    let silent = wrap_model_call(|_, _| async { Ok(canned("ask me tomorrow")) });
    let (events, _) = watch(agent(ScriptedModel::new([])).middleware(silent).build().unwrap().run("go")).await;
    assert_eq!(told(&events), ["0.0 ask me tomorrow", "0.0 finished"]);
    let changed = wrap_model_call(|request, next| async move {
        next.run(request).await?;
        Ok(canned("the same in other words"))
    });
    let agent = agent(ScriptedModel::new([Turn::text("said")])).middleware(changed).build().unwrap();
    let (events, _) = watch(agent.run("go")).await;
    assert_eq!(told(&events).concat(), "0.0 said0.0 finished", "what has been shown is not shown twice");
}

#[tokio::test]
async fn an_answer_that_replaces_a_broken_one_is_reported() {
    let broken = Turn::raw([
        Ok(ModelEvent::Text { block: 0, delta: "half of".to_owned() }),
        Err(ModelError::truncated("the connection was lost")),
    ]);
    let sorry = wrap_model_call(|request, next| async move { Ok(next.run(request).await.unwrap_or(canned("sorry"))) });
    let (events, _) = watch(agent(ScriptedModel::new([broken])).middleware(sorry).build().unwrap().run("go")).await;
    assert_eq!(told(&events), ["0.0 half of", "0.0 discarded", "0.0 sorry", "0.0 finished"]);
}

#[tokio::test]
async fn a_message_with_which_a_hook_ends_a_run_is_reported() {
    let enough = || HookOutput::message(Message::assistant("enough")).and_go(JumpTo::End);
    let before = before_model(move |_| async move { Ok(enough()) });
    let (events, _) = watch(agent(ScriptedModel::new([])).middleware(before).build().unwrap().run("go")).await;
    assert_eq!(told(&events), ["0.0 enough"]);
    let after = after_model(move |_| async move { Ok(enough()) });
    let agent = agent(ScriptedModel::new([Turn::text("said")])).middleware(after).build().unwrap();
    let (events, outcome) = watch(agent.run("go")).await;
    let told = told(&events);
    assert_eq!((told.last().unwrap().as_str(), outcome.unwrap().text().as_str()), ("1.1 enough", "enough"), "{told:?}");
}
