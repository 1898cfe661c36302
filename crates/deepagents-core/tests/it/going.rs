//! Where hooks can send a run.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents_core::error::Error;
use deepagents_core::message::{AssistantMessage, Block, Message, MessageOp, ToolMessage};
use deepagents_core::middleware::{HookOutput, JumpTo, after_agent, after_model, before_agent, before_model};
use deepagents_core::run::{Context, FinishReason, RunInput};
use deepagents_core::state::{MessagesChannel, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, echo, lines};

/// Returns a step at the first call of a hook, and nothing later.
fn once(step: impl Fn() -> HookOutput + Send + Sync + 'static) -> impl Fn(Context) -> std::future::Ready<StepResult> {
    let calls = Arc::new(AtomicUsize::new(0));
    move |_cx| {
        let first = calls.fetch_add(1, Ordering::Relaxed) == 0;
        std::future::ready(Ok(if first { step() } else { HookOutput::next() }))
    }
}
type StepResult = deepagents_core::error::Result<HookOutput>;

fn noted(notes: &Notes, word: &'static str) -> impl Fn(Context) -> std::future::Ready<StepResult> + use<> {
    let notes = notes.clone();
    move |_cx| {
        notes.add(word);
        std::future::ready(Ok(HookOutput::next()))
    }
}

#[tokio::test]
async fn ending_before_the_agent_calls_no_model_but_runs_after_agent_hooks() {
    let (model, notes) = (ScriptedModel::new([]), Notes::default());
    let agent = agent(model.clone())
        .middleware(before_agent(once(|| HookOutput::message("not today").and_go(JumpTo::End))))
        .middleware(after_agent(noted(&notes, "after_agent")))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::Ended, 0));
    assert_eq!(notes.list(), ["after_agent"]);
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn ending_before_the_model_ends_the_run() {
    let agent =
        agent(ScriptedModel::new([])).middleware(before_model(once(|| HookOutput::go(JumpTo::End)))).build().unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Ended, String::new()));
}

fn open_call() -> Vec<Message> {
    let answer = AssistantMessage::new(vec![Block::call("c1", "echo", json!({"x": 1}))]);
    vec![Message::user("hi"), Message::Assistant(answer)]
}

#[tokio::test]
async fn jumping_to_tools_before_the_model_runs_the_inputs_open_calls() {
    for hook in ["before_agent", "before_model"] {
        let model = ScriptedModel::new([Turn::call("echo", json!({"y": 2})), Turn::text("done")]);
        let builder = agent(model).tool(echo());
        let builder = match hook {
            "before_agent" => builder.middleware(before_agent(once(|| HookOutput::go(JumpTo::Tools)))),
            _ => builder.middleware(before_model(once(|| HookOutput::go(JumpTo::Tools)))),
        };
        let outcome = builder.build().unwrap().invoke(RunInput::messages(open_call())).await.unwrap();
        assert_sound(outcome.messages());
        assert_eq!(
            lines(outcome.messages())[2..],
            ["result: {\"x\":1}", "assistant: [echo {\"y\":2}]", "result: {\"y\":2}", "assistant: done"],
            "{hook}"
        );
    }
}

#[tokio::test]
async fn calls_in_the_input_and_calls_of_the_model_have_different_identities() {
    let notes = Notes::default();
    let seen = notes.clone();
    let who = crate::support::tool("echo", move |_, cx| {
        seen.add(cx.key());
        async { Ok("ok") }
    });
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]))
        .middleware(before_agent(once(|| HookOutput::go(JumpTo::Tools))))
        .tool(who)
        .build()
        .unwrap();
    agent.invoke(RunInput::messages(open_call())).await.unwrap();
    let keys = notes.list();
    assert_eq!(keys.len(), 2);
    assert_ne!(keys[0], keys[1]);
}

#[tokio::test]
async fn an_unanswered_open_call_in_the_input_is_refused_before_the_model_is_called() {
    let model = ScriptedModel::new([Turn::text("never")]);
    let agent = agent(model.clone()).tool(echo()).build().unwrap();
    let mut input = open_call();
    input.push(Message::user("and now?"));
    let error = agent.invoke(RunInput::messages(input)).await.unwrap_err();
    assert!(matches!(&*error.error, Error::History(_)), "{error}");
    assert!(error.to_string().contains("c1"), "{error}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn jumping_to_the_model_after_the_model_answers_open_calls_and_asks_again() {
    let notes = Notes::default();
    let model = ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]);
    let agent = agent(model)
        .middleware(before_model(noted(&notes, "before_model")))
        .middleware(after_model(once(|| HookOutput::message("do it without tools").and_go(JumpTo::Model))))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_sound(outcome.messages());
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("was not made"), "{}", lines[2]);
    assert_eq!(lines[3..], ["user: do it without tools", "assistant: done"]);
    assert_eq!(notes.list().len(), 2, "before_model runs again");
}

#[tokio::test]
async fn ending_after_the_model_answers_the_open_calls() {
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({}))]))
        .middleware(after_model(once(|| HookOutput::go(JumpTo::End))))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!((outcome.stop.clone(), outcome.state.messages().len()), (FinishReason::Ended, 3));
}

#[tokio::test]
async fn jumping_to_tools_after_the_model_skips_the_remaining_hooks() {
    let notes = Notes::default();
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]))
        .middleware(after_model(noted(&notes, "the outer one")))
        .middleware(after_model(once(|| HookOutput::go(JumpTo::Tools))).named("goes"))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: {}");
    assert_eq!(notes.list().len(), 1, "only for the second answer");
}

#[tokio::test]
async fn a_hook_that_answers_the_calls_itself_returns_to_the_model() {
    let result = || ToolMessage::error("call_1", "echo", "rejected by a person");
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]))
        .middleware(after_model(once(move || {
            HookOutput::set::<MessagesChannel>(vec![
                MessageOp::put(Message::Tool(result())),
                MessageOp::put(Message::user("sorry")),
            ])
        })))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2..], ["error: rejected by a person", "user: sorry", "assistant: done"]);
}

#[tokio::test]
async fn a_message_between_calls_and_their_results_is_an_error_and_is_not_stored() {
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({}))]))
        .middleware(after_model(once(|| HookOutput::message("by the way"))).named("Chatty"))
        .tool(echo())
        .build()
        .unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert!(error.to_string().contains("Chatty") && error.to_string().contains("call_1"), "{error}");
    assert_sound(error.state.messages());
}

#[tokio::test]
async fn after_the_agent_a_jump_to_the_model_continues_and_one_to_the_end_ends() {
    let agent = agent(ScriptedModel::new([Turn::text("half"), Turn::text("whole")]))
        .middleware(after_agent(once(|| HookOutput::message("is that all?").and_go(JumpTo::Model))))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Done);
    assert_eq!(lines(outcome.messages())[2..], ["user: is that all?", "assistant: whole"]);

    let ends = crate::support::agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(after_agent(|_| async { Ok(HookOutput::go(JumpTo::End)) }))
        .build()
        .unwrap();
    assert_eq!(ends.invoke("hi").await.unwrap().stop, FinishReason::Done);
}

#[tokio::test]
async fn jumping_to_tools_with_nothing_pending_is_an_error_that_names_the_phase() {
    let agent = agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(after_model(|_| async { Ok(HookOutput::go(JumpTo::Tools)) }))
        .build()
        .unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert!(
        matches!(&*error.error, Error::Route(route) if (route.from, route.jump_to) == ("after_model", "tools")),
        "{error:?}"
    );
    assert_eq!(lines(error.state.messages()), ["user: hi", "assistant: done"]);
}

#[tokio::test]
async fn jumping_to_the_model_before_the_model_skips_the_remaining_hooks() {
    let notes = Notes::default();
    let agent = agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(before_agent(once(|| HookOutput::go(JumpTo::Model))).named("agent"))
        .middleware(before_agent(noted(&notes, "before_agent")))
        .middleware(before_model(once(|| HookOutput::go(JumpTo::Model))).named("model"))
        .middleware(before_model(noted(&notes, "before_model")))
        .build()
        .unwrap();
    assert_eq!(agent.invoke("hi").await.unwrap().text(), "done");
    assert!(notes.list().is_empty());
}

#[tokio::test]
async fn jumping_to_tools_after_the_agent_runs_open_calls_and_continues() {
    let agent = agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(before_agent(once(|| HookOutput::go(JumpTo::End))))
        .middleware(after_agent(once(|| HookOutput::go(JumpTo::Tools))))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::messages(open_call())).await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: {\"x\":1}", "assistant: done"]);
}

#[tokio::test]
async fn a_run_that_ends_early_answers_the_open_calls_of_its_input() {
    let agent = agent(ScriptedModel::new([]))
        .middleware(before_agent(once(|| HookOutput::go(JumpTo::End))))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::messages(open_call())).await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.messages().len(), 3);
}

#[tokio::test]
async fn the_step_limit_is_reported_keeps_the_state_and_cannot_be_extended() {
    let model = ScriptedModel::rules().always(Turn::call("echo", json!({}))).build();
    let notes = Notes::default();
    let noted = notes.clone();
    let agent = agent(model)
        .middleware(after_agent(move |_| {
            noted.add("after_agent");
            async { Ok(HookOutput::go(JumpTo::Model)) }
        }))
        .tool(echo())
        .max_model_calls(3)
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::StepLimit, 3));
    assert_eq!(outcome.messages().len(), 7);
    assert_sound(outcome.messages());
    assert_eq!(notes.list().len(), 1);
    let shorter = agent.invoke(RunInput::new("hi").max_model_calls(1)).await.unwrap();
    assert_eq!((shorter.stop, shorter.model_calls), (FinishReason::StepLimit, 1));
}

#[tokio::test]
async fn hooks_that_loop_without_model_calls_reach_the_limit_too() {
    let agent = agent(ScriptedModel::new([]))
        .middleware(before_model(|_| async { Ok(HookOutput::go(JumpTo::End)) }))
        .middleware(after_agent(|_| async { Ok(HookOutput::go(JumpTo::Model)) }))
        .max_model_calls(5)
        .build()
        .unwrap();
    assert_eq!(agent.invoke("hi").await.unwrap().stop, FinishReason::StepLimit);
}

#[tokio::test]
async fn an_update_given_with_the_input_applies_before_the_first_hook() {
    let agent = agent(ScriptedModel::new([Turn::text("done")])).build().unwrap();
    let input = RunInput::new("hi").update(Update::message(Message::harness("by the way")));
    let outcome = agent.invoke(input).await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: hi", "user: by the way", "assistant: done"]);
    let error = agent.invoke(RunInput::messages([])).await.unwrap_err();
    assert_eq!(error.kind(), "input");
}
