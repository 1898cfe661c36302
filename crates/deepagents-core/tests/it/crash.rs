//! Logs of processes that ended in the middle of a turn.

use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::journal::{MemoryJournal, Record, RecordUpdate, fold};
use deepagents_core::message::{AssistantMessage, Block, Message, ToolMessage};
use deepagents_core::run::RunInput;
use deepagents_core::state::Update;
use deepagents_core::tool::CallId;
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, echo, lines, records, tool, write};

fn id(index: u32) -> CallId {
    CallId { path: vec![], turn: 0, index }
}

fn message(message: Message, id: &str) -> Record {
    let mut message = message;
    message.set_id(id.to_owned());
    Record::Update { update: RecordUpdate::Live(Update::message(message)) }
}

fn started(index: u32, name: &str) -> Record {
    Record::ToolStarted {
        call: id(index),
        provider_call_id: format!("c{index}"),
        name: name.to_owned(),
        repeatable: false,
        args: None,
    }
}

fn finished(index: u32, name: &str, update: Update) -> Record {
    let mut result = ToolMessage::text(&Default::default(), format!("result {index}"));
    result.id = format!("r{index}");
    result.call_id = format!("c{index}");
    result.name = name.to_owned();
    Record::ToolFinished { call: id(index), message: Arc::new(result), update: RecordUpdate::Live(update) }
}

/// A log that ends in a turn of three calls.
async fn left(records: impl IntoIterator<Item = Record>) -> (Agent, Notes) {
    let journal = MemoryJournal::new();
    let calls = (0..3).map(|n| Block::call(format!("c{n}"), "work", json!({"n": n}))).collect();
    let mut log = vec![
        Record::RunStarted { run: "run_0".to_owned(), at: "1970-01-01T00:00:00Z".to_owned(), thread: None },
        message(Message::user("go"), "m0"),
        message(Message::Assistant(AssistantMessage::new(calls)), "m1"),
    ];
    log.extend(records);
    write(&journal, "t", 0, log).await.unwrap();
    let notes = Notes::default();
    let ran = notes.clone();
    let work = tool("work", move |args, _| {
        ran.add(args.to_string());
        async { Ok("ran again") }
    });
    let agent = agent(ScriptedModel::new([Turn::text("I see."), Turn::text("Still here.")])).tool(work).tool(echo());
    (agent.journal(journal).build().unwrap(), notes)
}

async fn go_on(agent: &Agent) -> Vec<String> {
    let outcome = agent.invoke(RunInput::new("what happened?").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    let stored = agent.state("t").await.unwrap();
    assert_eq!(stored.messages(), outcome.messages(), "the log folds to what the run left");
    lines(outcome.messages())
}

#[tokio::test]
async fn a_started_call_is_answered_as_unknown_and_an_unstarted_one_as_never_made() {
    let (agent, ran) = left([started(0, "work"), started(1, "work")]).await;
    let lines = go_on(&agent).await;
    assert!(lines[2].starts_with("error: ") && lines[2].contains("unknown"), "{}", lines[2]);
    assert!(lines[3].starts_with("error: ") && lines[3].contains("unknown"), "{}", lines[3]);
    assert!(lines[4].starts_with("error: ") && lines[4].contains("never made"), "{}", lines[4]);
    assert_eq!(lines[5..], ["user: what happened?", "assistant: I see."]);
    assert!(ran.list().is_empty(), "nothing is run again");
}

#[tokio::test]
async fn finished_results_of_an_uncommitted_turn_are_kept_in_call_order() {
    let none = Update::none;
    let (agent, _) = left([
        started(0, "work"),
        started(1, "work"),
        started(2, "work"),
        finished(2, "work", none()),
        finished(0, "work", none()),
        finished(1, "work", none()),
    ])
    .await;
    assert_eq!(
        lines(agent.state("t").await.unwrap().messages())[2..],
        ["result: result 0", "result: result 1", "result: result 2"]
    );
    assert_eq!(go_on(&agent).await[2..5], ["result: result 0", "result: result 1", "result: result 2"]);
}

#[tokio::test]
async fn results_and_answers_for_open_calls_are_in_call_order_too() {
    let (agent, _) = left([started(0, "work"), started(1, "work"), finished(1, "work", Update::none())]).await;
    let lines = go_on(&agent).await;
    assert!(lines[2].contains("unknown") && lines[4].contains("never made"), "{lines:?}");
    assert_eq!(lines[3], "result: result 1");
}

#[tokio::test]
async fn extra_messages_of_a_finished_tool_follow_the_answers_of_the_other_calls() {
    let mut beside = Message::harness("beside");
    beside.set_id("m2".to_owned());
    let beside = Update::message(beside);
    let (agent, _) = left([started(0, "work"), started(1, "work"), finished(0, "work", beside)]).await;
    let lines = go_on(&agent).await;
    assert_eq!(lines[2], "result: result 0");
    assert!(lines[3].contains("unknown") && lines[4].contains("never made"), "{lines:?}");
    assert_eq!(lines[5..], ["user: beside", "user: what happened?", "assistant: I see."]);
    assert_eq!(go_on(&agent).await.len(), lines.len() + 2, "and it is said once");
}

#[tokio::test]
async fn a_committed_turn_is_not_in_doubt() {
    let none = Update::none;
    let all = vec![id(0), id(1), id(2)];
    let (agent, _) = left([
        started(0, "work"),
        finished(0, "work", none()),
        finished(1, "work", none()),
        finished(2, "work", none()),
        Record::ToolsCommitted { calls: all },
    ])
    .await;
    assert_eq!(go_on(&agent).await[5..], ["user: what happened?", "assistant: I see."]);
}

#[tokio::test]
async fn a_log_cut_anywhere_continues_with_a_valid_history() {
    let journal = Arc::new(MemoryJournal::new());
    let turns = || {
        let calls = Turn::calls([("echo", json!({"n": 1})), ("echo", json!({"n": 2})), ("nope", json!({}))]);
        [calls, Turn::call("echo", json!({})), Turn::text("done")]
    };
    let agent = agent(ScriptedModel::new(turns())).tool(echo()).journal(journal.clone()).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let log = records(&*journal, "t").await;
    assert!(log.len() > 15, "{}", log.len());
    for cut in 0..=log.len() {
        let shorter = MemoryJournal::new();
        write(&shorter, "t", 0, log[..cut].to_vec()).await.unwrap();
        let agent = Agent::builder(ScriptedModel::new([Turn::text("I am back.")]))
            .tool(echo())
            .journal(shorter)
            .build()
            .unwrap();
        let outcome = agent.invoke(RunInput::new("and now?").thread("t")).await.unwrap();
        assert_sound(outcome.messages());
        let stored = agent.state("t").await.unwrap();
        assert_eq!(stored.messages(), outcome.messages(), "cut at {cut}");
        assert_eq!(outcome.text(), "I am back.");
    }
}

#[tokio::test]
async fn a_fold_reports_the_calls_in_doubt_and_the_end_of_the_log() {
    let (agent, _) = left([started(0, "work"), started(1, "work"), finished(1, "work", Update::none())]).await;
    let records = vec![started(0, "work"), started(1, "work"), finished(1, "work", Update::none())];
    let folded = fold("t", agent.schema().clone(), records).unwrap();
    assert_eq!(folded.end, 3);
    assert_eq!(folded.in_doubt.into_iter().collect::<Vec<_>>(), [(id(0), ("c0".to_owned(), "work".to_owned(), false))]);
}

#[tokio::test]
async fn a_damaged_record_is_an_error_with_its_position() {
    let (agent, _) =
        left([Record::Update { update: RecordUpdate::Stored(vec![("messages".to_owned(), json!("not a list"))]) }])
            .await;
    let error = agent.invoke(RunInput::new("hi").thread("t")).await.unwrap_err();
    assert_eq!(error.kind(), "journal");
    assert!(error.to_string().contains("record 3 of thread `t`"), "{error}");
}
