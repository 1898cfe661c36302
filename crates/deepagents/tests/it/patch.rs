//! Repair of histories that providers would refuse.

use deepagents::core::message::{AssistantMessage, InvalidToolCall, Origin, ToolMessage};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{Block, DeepAgent, Message, RunInput};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::json;

fn call(id: &str) -> Block {
    Block::call(id, "get_weather", json!({}))
}

fn assistant(blocks: Vec<Block>) -> Message {
    Message::Assistant(AssistantMessage::new(blocks))
}

fn result(id: &str, text: &str) -> Message {
    Message::Tool(ToolMessage { call_id: id.into(), content: vec![Block::text(text)], ..Default::default() })
}

/// The history shown to the model, one word per message: `u`, `a(ids)`, `t(id text)`.
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
async fn a_call_without_a_result_gets_one() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call("d1"), call("d2")]),
        result("d1", "sunny"),
        Message::user("Never mind."),
    ];
    assert_eq!(shown(history).await, ["u", "a(d1 d2)", "t(d1 sunny)", "t(d2 error)", "u"]);
}

#[tokio::test]
async fn a_misplaced_result_is_moved_to_its_call() {
    let history =
        vec![Message::user("Start."), assistant(vec![call("d1")]), Message::user("Hello?"), result("d1", "sunny")];
    assert_eq!(shown(history).await, ["u", "a(d1)", "t(d1 sunny)", "u"]);
}

#[tokio::test]
async fn a_result_before_or_without_its_call_is_dropped() {
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
async fn an_id_used_in_two_turns_is_matched_within_each_turn() {
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
async fn a_call_without_a_result_does_not_take_that_of_a_later_call_with_its_id() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call("x")]),
        Message::user("Never mind."),
        assistant(vec![call("x"), call("y")]),
        result("y", "other"),
        result("x", "second"),
        Message::user("Go on."),
    ];
    assert_eq!(shown(history).await, ["u", "a(x)", "t(x error)", "u", "a(x y)", "t(x second)", "t(y other)", "u"]);
}

#[tokio::test]
async fn ids_that_providers_reject_are_replaced_in_calls_and_results_alike() {
    let history =
        vec![Message::user("Start."), assistant(vec![call("a.b/c")]), result("a.b/c", "sunny"), Message::user("?")];
    let shown = shown(history).await;
    let id = shown[1].strip_prefix("a(").unwrap().strip_suffix(')').unwrap();
    assert!(id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-'), "{id}");
    assert_eq!(shown[2], format!("t({id} sunny)"));
}

#[tokio::test]
async fn ids_given_by_a_provider_are_kept() {
    let origin = Some(Origin { api: "openai-chat".into(), provider: "elsewhere".into(), model: "m".into() });
    let given = AssistantMessage { origin, ..AssistantMessage::new(vec![call("functions.look:0"), call("open")]) };
    let history = vec![
        Message::user("Start."),
        Message::Assistant(given),
        result("functions.look:0", "sunny"),
        Message::user("?"),
    ];
    let expected = ["u", "a(functions.look:0 open)", "t(functions.look:0 sunny)", "t(open error)", "u"];
    assert_eq!(shown(history).await, expected);
}

#[tokio::test]
async fn a_complete_history_is_left_unchanged() {
    let history = vec![Message::user("Start."), assistant(vec![call("d1")]), result("d1", "sunny"), Message::user("?")];
    let model = ScriptedModel::new([Turn::text("All right.")]);
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(history.clone())).await.unwrap();
    let texts: Vec<String> = outcome.messages().iter().map(|m| m.text()).collect();
    assert_eq!(texts, ["Start.", "", "sunny", "?", "All right."]);
}

/// The tool results shown to the model: ID and text.
async fn answers(history: Vec<Message>) -> Vec<(String, String)> {
    let model = ScriptedModel::new([Turn::text("All right.")]);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    agent.invoke(RunInput::messages(history)).await.unwrap();
    let requests = model.requests();
    let results = requests[0].messages.iter().filter_map(|m| m.as_tool().map(|t| (t.call_id.clone(), m.text())));
    results.collect()
}

#[tokio::test]
async fn the_result_added_for_an_open_call_names_it_and_its_unknown_outcome() {
    let open = vec![Message::user("Start."), assistant(vec![call("d1")]), Message::user("?")];
    let [(id, text)] = answers(open).await.try_into().unwrap();
    assert_eq!(id, "d1");
    for words in ["get_weather", "d1", "has no result", "unknown"] {
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn an_unanswered_malformed_call_is_reported_as_not_made() {
    let broken = Block::InvalidToolCall(InvalidToolCall {
        id: "d1".into(),
        name: "get_weather".into(),
        raw: "{".into(),
        error: "cut off".into(),
        native: None,
    });
    let history = vec![Message::user("Start."), assistant(vec![call("d0"), broken]), Message::user("?")];
    let texts: Vec<String> = answers(history).await.into_iter().map(|(_, text)| text).collect();
    assert!(texts[0].contains("has no result"), "{texts:?}");
    assert!(texts[1].contains("d1") && texts[1].contains("malformed"), "{texts:?}");
}

#[tokio::test]
async fn empty_and_duplicate_ids_in_a_turn_are_replaced_and_each_call_answered() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call(""), call("x"), call("x")]),
        result("x", "sunny"),
        Message::user("?"),
    ];
    let answers = answers(history).await;
    let ids: std::collections::BTreeSet<&String> = answers.iter().map(|(id, _)| id).collect();
    assert_eq!((answers.len(), ids.len()), (3, 3), "{answers:?}");
    assert!(ids.iter().all(|id| !id.is_empty()));
    assert_eq!(answers.iter().filter(|(_, text)| text == "sunny").count(), 1);
}

#[tokio::test]
async fn an_event_reports_how_much_was_repaired() {
    let history = vec![
        Message::user("Start."),
        assistant(vec![call("d1"), call("a.b")]),
        Message::user("Hello?"),
        result("a.b", "sunny"),
        result("other", "orphan"),
    ];
    let model = ScriptedModel::new([Turn::text("All right.")]);
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let told = crate::memory::told(&agent, RunInput::messages(history), "history_repaired").await;
    assert_eq!(told, [json!({"answered": 1, "moved": 1, "dropped": 1, "renamed": 1})]);
}

#[tokio::test]
async fn an_empty_history_needs_no_repair() {
    let agent = DeepAgent::builder().model(ScriptedModel::new([Turn::text("All right.")])).build().unwrap();
    assert_eq!(agent.invoke("Start.").await.unwrap().messages().len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_history_is_repaired_into_one_that_providers_accept(
        history in vec(prop_oneof![
            Just(Message::user("Hello.")),
            vec(id(), 0..3).prop_map(|ids| assistant(ids.iter().map(|id| call(id)).chain([Block::text("Hm.")]).collect())),
            id().prop_map(|id| result(&id, "sunny")),
        ], 0..12),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let model = ScriptedModel::new([Turn::text("All right.")]);
        let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
        let history: Vec<Message> = history.into_iter().chain([Message::user("Go on.")]).collect();
        runtime.block_on(agent.invoke(RunInput::messages(history))).unwrap();
        check_history(&model.requests()[0].messages).unwrap();
    }
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![Just("a".to_owned()), Just("b".to_owned()), Just("x.y".to_owned()), Just(String::new())]
}
