//! The scripted model.

use std::time::Duration;

use deepagents_core::message::{AssistantMessage, Block, Message, ToolMessage, Usage};
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, ModelRequest, StopReason};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::json;

fn ask(text: &str) -> ModelRequest {
    ModelRequest::new(text)
}

async fn events(model: &ScriptedModel, request: ModelRequest) -> Vec<Result<ModelEvent, ModelError>> {
    model.stream(request).collect().await
}

#[tokio::test]
async fn a_turn_is_streamed_in_small_deltas_that_add_up_to_the_final_message() {
    let turn = Turn::call("ls", json!({"path": "/Möbel"})).and_text("Einen Augenblick, bitte.").thinking("Hm.");
    let usage = Usage { input: 10, output: 5, ..Usage::default() };
    let model = ScriptedModel::new([turn.usage(usage)]).with_chunk_size(3);
    let (mut thought, mut text, mut args) = (String::new(), String::new(), String::new());
    let mut finished = None;
    for event in events(&model, ask("hi")).await {
        match event.unwrap() {
            ModelEvent::Reasoning { block: 0, delta } => thought += &delta,
            ModelEvent::Text { block: 1, delta } => {
                assert!(delta.chars().count() <= 3);
                text += &delta;
            }
            ModelEvent::ToolCall { block: 2, id, name } => assert_eq!((&*id, &*name), ("call_1", "ls")),
            ModelEvent::ToolArgs { block: 2, delta } => args += &delta,
            ModelEvent::Finished(output) => finished = Some(output),
            other => panic!("unexpected {other:?}"),
        }
    }
    assert_eq!((&*thought, &*text, &*args), ("Hm.", "Einen Augenblick, bitte.", r#"{"path":"/Möbel"}"#));
    let output = finished.unwrap();
    assert_eq!(output.stop, StopReason::ToolCalls);
    assert_eq!(output.usage, usage);
    assert_eq!(output.message.text(), text);
}

#[tokio::test]
async fn call_ids_are_numbered_unless_given() {
    let model = ScriptedModel::new([
        Turn::call("a", json!({})),
        Turn::calls([("mine", "b", json!({})), ("", "c", json!({}))]),
        Turn::call("d", json!({})).stop(StopReason::MaxTokens),
    ]);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let output = model.invoke(ask("hi")).await.unwrap();
        ids.extend(output.message.call_ids().map(str::to_owned));
    }
    assert_eq!(ids, ["call_1", "mine", "call_3", "call_4"]);
}

#[tokio::test]
async fn an_exhausted_script_reports_how_many_turns_were_played() {
    let model = ScriptedModel::new([Turn::text("one")]);
    assert_eq!(model.remaining(), 1);
    model.invoke(ask("hi")).await.unwrap();
    let error = model.invoke(ask("hi")).await.unwrap_err();
    assert!(matches!(error, ModelError::Invalid(_)));
    assert_eq!(error.info().message, "the script has no turn left (1 played)");
}

#[tokio::test]
async fn an_exhausted_rule_is_named_by_its_number() {
    let model =
        ScriptedModel::rules().when(|request| request.messages.len() > 1, []).otherwise([Turn::text("one")]).build();
    model.invoke(ask("hi")).await.unwrap();
    let error = model.invoke(ask("hi")).await.unwrap_err();
    assert_eq!(error.info().message, "rule 2 of the script has no turn left (1 played)");
}

#[tokio::test]
async fn all_clones_share_the_recorded_requests() {
    let model = ScriptedModel::new([Turn::text("one"), Turn::text("two")]);
    model.clone().invoke(ask("first")).await.unwrap();
    model.invoke(ask("second")).await.unwrap();
    let asked: Vec<_> = model.requests().iter().map(|r| r.messages.last().unwrap().text()).collect();
    assert_eq!(asked, ["first", "second"]);
}

#[tokio::test]
async fn scripted_errors_and_broken_streams_are_played_unchanged() {
    let delta = || Ok(ModelEvent::Text { block: 0, delta: "Hel".to_owned() });
    let model = ScriptedModel::new([
        Turn::error(ModelError::transport("connection reset")),
        Turn::raw([delta(), Err(ModelError::truncated("gone"))]),
        Turn::raw([delta()]),
    ]);
    assert!(matches!(model.invoke(ask("hi")).await, Err(ModelError::Transport(_))));
    let broken = events(&model, ask("hi")).await;
    assert!(matches!(&broken[..], [Ok(ModelEvent::Text { .. }), Err(ModelError::Truncated(_))]), "{broken:?}");
    assert!(matches!(&events(&model, ask("hi")).await[..], [Ok(ModelEvent::Text { .. })]));
}

#[tokio::test]
async fn scripted_answers_can_be_computed_from_the_request() {
    let model = ScriptedModel::new([Turn::with(|request| {
        let text = request.messages.last().map(|message| message.text()).unwrap_or_default();
        Turn::with(move |_| Turn::text(text.to_uppercase()))
    })]);
    assert_eq!(model.invoke(ask("loud")).await.unwrap().message.text(), "LOUD");
}

#[tokio::test(start_paused = true)]
async fn a_delayed_turn_emits_nothing_before_its_time() {
    let model = ScriptedModel::new([Turn::text("late").delay(Duration::from_secs(60))]);
    let start = tokio::time::Instant::now();
    let mut stream = model.stream(ask("hi"));
    assert!(tokio::time::timeout(Duration::from_secs(59), stream.next()).await.is_err());
    stream.next().await.unwrap().unwrap();
    assert!(start.elapsed() >= Duration::from_secs(60));
}

#[tokio::test]
async fn rules_give_concurrent_agents_their_own_scripts() {
    let about = |topic: &'static str| {
        move |request: &ModelRequest| request.messages.iter().next().is_some_and(|message| message.text() == topic)
    };
    let model = ScriptedModel::rules()
        .when(about("cats"), [Turn::call("ls", json!({})), Turn::text("meow")])
        .when(about("dogs"), [Turn::call("ls", json!({})), Turn::text("woof")])
        .build();
    let ask_twice = |topic: &'static str| {
        let model = model.clone();
        async move {
            let first = model.invoke(ask(topic)).await.unwrap();
            assert_eq!(first.message.call_ids().next(), Some("call_1"));
            model.invoke(ask(topic)).await.unwrap().message.text()
        }
    };
    let (cats, dogs) = tokio::join!(ask_twice("cats"), ask_twice("dogs"));
    assert_eq!((&*cats, &*dogs), ("meow", "woof"));
    assert!(model.invoke(ask("cats")).await.unwrap_err().to_string().contains("(2 played)"));
    assert!(model.invoke(ask("birds")).await.unwrap_err().to_string().contains("no rule"));
}

#[tokio::test]
async fn the_first_matching_rule_answers_and_a_repeated_turn_never_runs_out() {
    let model = ScriptedModel::rules()
        .when(|request| request.tools.is_empty(), [Turn::text("first")])
        .always(Turn::text("never"))
        .build();
    assert_eq!(model.invoke(ask("hi")).await.unwrap().message.text(), "first");
    let echo = ScriptedModel::rules().always(Turn::text("again")).build();
    for _ in 0..3 {
        assert_eq!(echo.invoke(ask("hi")).await.unwrap().message.text(), "again");
    }
}

fn calls(ids: &[&str]) -> Message {
    Message::Assistant(AssistantMessage::new(ids.iter().map(|id| Block::call(*id, "ls", json!({}))).collect()))
}

fn result(id: &str) -> Message {
    Message::Tool(ToolMessage { call_id: id.to_owned(), ..ToolMessage::default() })
}

#[tokio::test]
async fn an_invalid_history_is_rejected_with_the_message_position() {
    let user = || Message::user("hi");
    let cases: [(Vec<Message>, Option<&str>); 9] = [
        (vec![user(), calls(&["a", "b"]), result("b"), result("a"), user()], None),
        (vec![user(), calls(&["a"]), result("a"), calls(&["a"]), result("a")], None),
        (vec![user(), calls(&["a"])], Some("messages[1]: calls without a result right after them: a")),
        (vec![user(), calls(&["a", "b"]), result("a"), user()], Some("messages[1]: calls without")),
        (vec![user(), calls(&["a"]), user(), result("a")], Some("messages[1]: calls without")),
        (vec![user(), calls(&["a"]), result("a"), result("a")], Some("messages[3]: a second result")),
        (vec![user(), result("a")], Some("messages[1]: a result without its call")),
        (vec![user(), calls(&["a"]), result("a"), user(), result("a")], Some("messages[4]: a result without")),
        (vec![user(), calls(&["a", "a"]), result("a")], Some("messages[1]: two calls")),
    ];
    for (messages, fault) in cases {
        let model = ScriptedModel::new([Turn::text("fine")]);
        let answer = model.invoke(ModelRequest::new(messages)).await;
        match (fault, answer) {
            (None, Ok(_)) => {}
            (Some(fault), Err(ModelError::Invalid(info))) => {
                assert!(info.message.starts_with(fault), "{}", info.message);
                assert_eq!(model.remaining(), 1, "a refused request uses up no turn");
            }
            (fault, answer) => panic!("expected {fault:?}, got {answer:?}"),
        }
        assert_eq!(model.requests().len(), 1);
    }
}
