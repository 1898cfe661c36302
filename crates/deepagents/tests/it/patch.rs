//! Repair of histories that providers would refuse.

use deepagents::core::message::{AssistantMessage, ToolMessage};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Block, DeepAgent, Message, RunInput};
use serde_json::json;

fn call(id: &str) -> Block {
    Block::call(id, "get_weather", json!({}))
}

fn assistant(blocks: Vec<Block>) -> Message {
    Message::Assistant(AssistantMessage::of(blocks))
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool(ToolMessage { call_id: id.into(), content: vec![Block::text(text)], ..Default::default() })
}

/// What the model is shown for a history, one word a message: `u`, `a(ids)`, `t(id text)`.
async fn shown(history: Vec<Message>) -> Vec<String> {
    let model = ScriptedModel::new([Turn::text("All right.")]);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    agent.invoke(RunInput::messages(history)).await.unwrap();
    let requests = model.requests();
    let short = |m: &Message| match m {
        Message::Assistant(a) => format!("a({})", a.call_ids().collect::<Vec<_>>().join(" ")),
        Message::Tool(t) if t.is_error => format!("t({} error)", t.call_id),
        Message::Tool(t) => format!("t({} {})", t.call_id, m.text()),
        _ => "u".to_owned(),
    };
    requests[0].messages.iter().map(|m| short(m)).collect()
}

#[tokio::test]
async fn a_call_without_a_result_is_answered() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call("d1"), call("d2")]),
        result("d1", "sunny"),
        Message::user("Never mind."),
    ];
    assert_eq!(shown(history).await, ["u", "a(d1 d2)", "t(d1 sunny)", "t(d2 error)", "u"]);
}

#[tokio::test]
async fn a_result_in_the_wrong_place_is_brought_to_its_call() {
    let history =
        vec![Message::user("Start."), assistant(vec![call("d1")]), Message::user("Hello?"), result("d1", "sunny")];
    assert_eq!(shown(history).await, ["u", "a(d1)", "t(d1 sunny)", "u"]);
}

#[tokio::test]
async fn a_result_before_its_call_or_without_one_is_dropped() {
    let history = vec![
        Message::user("Start."),
        result("d1", "early"),
        assistant(vec![call("d1")]),
        result("other", "orphan"),
        Message::user("Go on."),
    ];
    assert_eq!(shown(history).await, ["u", "a(d1)", "t(d1 error)", "u"]);
}

#[tokio::test]
async fn an_id_that_two_turns_share_belongs_to_each_turn_once() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call("x")]),
        result("x", "first"),
        assistant(vec![call("x")]),
        result("x", "second"),
        Message::user("Go on."),
    ];
    assert_eq!(shown(history).await, ["u", "a(x)", "t(x first)", "a(x)", "t(x second)", "u"]);
}

#[tokio::test]
async fn ids_that_providers_refuse_are_replaced_in_call_and_result_alike() {
    let history =
        vec![Message::user("Start."), assistant(vec![call("a.b/c")]), result("a.b/c", "sunny"), Message::user("?")];
    let shown = shown(history).await;
    let id = shown[1].strip_prefix("a(").unwrap().strip_suffix(')').unwrap();
    assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{id}");
    assert_eq!(shown[2], format!("t({id} sunny)"));
}

#[tokio::test]
async fn a_whole_history_is_not_touched() {
    let history = vec![Message::user("Start."), assistant(vec![call("d1")]), result("d1", "sunny"), Message::user("?")];
    let model = ScriptedModel::new([Turn::text("All right.")]);
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(history.clone())).await.unwrap();
    let texts: Vec<String> = outcome.messages().iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["Start.", "", "sunny", "?", "All right."]);
}
