//! Tool results: immediate answers, provider IDs, and artifacts for the application.

use std::sync::Arc;

use deepagents_core::message::{AssistantMessage, Block, InvalidToolCall, Message};
use deepagents_core::model::ModelOutput;
use deepagents_core::run::FinishReason;
use deepagents_core::tool::{CallId, DynTool, ToolError, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Notes, agent, assert_sound, echo, lines, tool};

fn direct(name: &str) -> impl DynTool + use<> {
    json_tool(name, "Answers.", json!({"type": "object"}), |args: Value, _| async move {
        if args["fail"] == true { Err(ToolError::model("it failed")) } else { Ok(args["say"].to_string()) }
    })
    .return_direct()
}

async fn run_direct(turn: Turn) -> (FinishReason, Vec<String>) {
    let model = ScriptedModel::new([turn, Turn::text("the model's answer")]);
    let agent = agent(model).tool(direct("answer")).tool(direct("reply")).tool(echo()).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    (outcome.stop.clone(), lines(outcome.messages()))
}

#[tokio::test]
async fn a_turn_with_only_direct_results_is_the_runs_answer() {
    let (stop, lines) = run_direct(Turn::calls([("answer", json!({"say": 1})), ("reply", json!({"say": 2}))])).await;
    assert_eq!(stop, FinishReason::ReturnDirect);
    assert_eq!(lines.last().unwrap(), "result: 2");
}

#[tokio::test]
async fn a_turn_with_direct_and_other_results_continues() {
    let (stop, lines) = run_direct(Turn::calls([("answer", json!({"say": 1})), ("echo", json!({}))])).await;
    assert_eq!((stop, lines.last().unwrap().as_str()), (FinishReason::Done, "assistant: the model's answer"));
}

#[tokio::test]
async fn an_error_of_a_direct_tool_goes_back_to_the_model() {
    let (stop, lines) = run_direct(Turn::call("answer", json!({"fail": true}))).await;
    assert_eq!(stop, FinishReason::Done);
    assert_eq!(lines[2..], ["error: it failed", "assistant: the model's answer"]);
}

#[tokio::test]
async fn a_tools_artifact_never_reaches_the_model() {
    let model = ScriptedModel::new([Turn::call("rows", json!({})), Turn::text("done")]);
    let rows = tool("rows", |_, _| async { Ok(ToolOutput::text("3 rows").with_artifact(json!({"rows": [1, 2, 3]}))) });
    let agent = agent(model.clone()).tool(rows).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    let kept = outcome.messages().get(2).unwrap().as_tool().unwrap().artifact.clone();
    assert_eq!(kept, Some(json!({"rows": [1, 2, 3]})));
    // The model is shown only the content of a message.
    let request = model.requests().pop().unwrap();
    assert_eq!(lines(&request.messages)[2], "result: 3 rows");
}

#[tokio::test]
async fn json_results_are_shown_as_compact_text_and_blocks_unchanged() {
    let json_result = tool("json", |_, _| async { Ok(json!({"a": [1, 2]})) });
    let blocks = tool("blocks", |_, _| async { Ok(ToolOutput::blocks(vec![Block::text("x"), Block::text("y")])) });
    let turn = Turn::calls([("json", json!({})), ("blocks", json!({}))]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("done")])).tool(json_result).tool(blocks).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2..4], ["result: {\"a\":[1,2]}", "result: x y"]);
}

/// A turn whose calls have these IDs, like that of a careless provider.
fn careless(ids: &[&str]) -> Turn {
    let calls = ids.iter().enumerate().map(|(at, id)| match at % 3 {
        2 => Block::InvalidToolCall(InvalidToolCall {
            id: (*id).to_owned(),
            name: "echo".to_owned(),
            raw: "{".to_owned(),
            error: "cut off".to_owned(),
            native: None,
        }),
        _ => Block::call(*id, "echo", json!({"at": at})),
    });
    let output = ModelOutput::new(AssistantMessage::new(calls.collect()));
    Turn::raw([Ok(deepagents_core::model::ModelEvent::Finished(Box::new(output)))])
}

async fn ids_after(ids: &[&str]) -> Vec<String> {
    let agent = agent(ScriptedModel::new([careless(ids), Turn::text("done")])).tool(echo()).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    let Message::Assistant(answer) = &**outcome.messages().get(1).unwrap() else { panic!("no answer") };
    answer.call_ids().map(str::to_owned).collect()
}

#[tokio::test]
async fn empty_and_repeated_call_ids_become_distinct_and_the_first_keeps_its_own() {
    assert_eq!(ids_after(&["a", "a", "a"]).await, ["a", "call_0_1", "call_0_2"]);
    assert_eq!(ids_after(&["", "", "b"]).await, ["call_0_0", "call_0_1", "b"]);
    assert_eq!(ids_after(&["call_0_1", "call_0_1"]).await, ["call_0_1", "call_0_1_"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn calls_are_distinct_whatever_ids_a_provider_sends(ids in prop::collection::vec("(|a|call_0_[0-3]_?)", 1..6)) {
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let after = runtime.block_on(ids_after(&ids));
        let mut distinct = after.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), ids.len());
        for (before, after) in ids.iter().zip(&after) {
            let first = !before.is_empty() && ids.iter().filter(|id| *id == before).count() == 1;
            prop_assert!(!first || before == after, "{} became {}", before, after);
        }
    }
}

#[tokio::test]
async fn a_tool_knows_the_harness_id_of_its_call_whatever_the_provider_sends() {
    let notes = Notes::default();
    let seen = notes.clone();
    let who = tool("who", move |_, cx| {
        assert_eq!((cx.tool_name(), cx.path().len()), ("who", 0));
        seen.add(format!("{} is {} of {}", cx.provider_call_id(), cx.call_id(), cx.key()));
        async { Ok("ok") }
    });
    let twice = || Turn::calls([("same", "who", json!({})), ("same", "who", json!({}))]);
    let agent = agent(ScriptedModel::new([twice(), twice(), Turn::text("done")])).tool(who).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    let mut seen = notes.list();
    seen.sort();
    assert_eq!(
        seen,
        [
            "call_0_1 is 0.1 of run_1:0.1",
            "call_1_1 is 1.1 of run_1:1.1",
            "same is 0.0 of run_1:0.0",
            "same is 1.0 of run_1:1.0",
        ]
    );
}

#[test]
fn call_ids_order_by_agent_turn_and_index_and_survive_json() {
    let id = |path: &[&str], turn, index| CallId { path: path.iter().map(|p| (*p).to_owned()).collect(), turn, index };
    let mut ids = vec![id(&["task:1.0"], 0, 0), id(&[], 1, 0), id(&[], 0, 1), id(&[], 0, 0)];
    ids.sort();
    assert_eq!(ids.iter().map(ToString::to_string).collect::<Vec<_>>(), ["0.0", "0.1", "1.0", "task:1.0/0.0"]);
    let json = serde_json::to_string(&ids).unwrap();
    assert_eq!(serde_json::from_str::<Vec<CallId>>(&json).unwrap(), ids);
}

#[tokio::test]
async fn an_application_value_is_found_by_its_type() {
    struct User(&'static str);
    let who = tool("who", |_, cx| async move {
        let user = cx.extension::<Arc<User>>().map_or("nobody", |user| user.0);
        Ok(format!("{user} {:?} {}", cx.thread(), cx.agent_name()))
    });
    let agent =
        agent(ScriptedModel::new([Turn::call("who", json!({})), Turn::text("done")])).tool(who).build().unwrap();
    let input = deepagents_core::run::RunInput::new("go").with(Arc::new(User("ada")));
    let outcome = agent.invoke(input).await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: ada None agent");
}
