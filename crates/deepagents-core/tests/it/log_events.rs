//! Following a thread by its log, without a handle to the run.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::{Agent, ThreadAccess};
use deepagents_core::env::RandomIds;
use deepagents_core::event::{Event, EventKind};
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::Usage;
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::State;
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::{StreamExt, TryStreamExt};
use serde_json::{Value, json};

use crate::support::{agent, echo, tool, watch};

/// Durable events without their numbers and the fields that are not logged. Positions are those of the log.
fn told(events: &[Event]) -> Vec<Value> {
    let main_begins = |event: &&Event| event.path.is_empty() && matches!(event.kind, EventKind::AgentStarted { .. });
    let durable = events.iter().filter(|event| event.kind.is_durable() && !main_begins(event));
    let plain = durable.map(|event| {
        let mut json = serde_json::to_value(event).unwrap();
        let fields = json.as_object_mut().unwrap();
        for field in ["seq", "time", "attempt"] {
            fields.remove(field);
        }
        json
    });
    plain.collect()
}

/// The events of a thread from a position to the end of `runs` runs.
async fn followed(journal: &Arc<MemoryJournal>, from: u64, runs: usize) -> Vec<Event> {
    let threads = ThreadAccess::new(journal.clone(), State::default().schema().clone());
    let mut watched = std::pin::pin!(threads.watch("t", from));
    let mut events = Vec::new();
    let mut finished = 0;
    while finished < runs {
        let event = watched.try_next().await.unwrap().unwrap();
        finished += usize::from(matches!(event.kind, EventKind::RunFinished { .. }));
        events.push(event);
    }
    events
}

/// An agent that delegates, and whose subagent interrupts.
fn asking(journal: &Arc<MemoryJournal>) -> Agent {
    let below = ScriptedModel::rules()
        .when(|r| r.messages.len() == 1, vec![Turn::calls([("echo", json!({"n": 1})), ("echo", json!({"n": 2}))]); 4])
        .always(Turn::text("found"))
        .build();
    let below = agent(below).name("below").ids(RandomIds).tool(echo()).build().unwrap();
    let task = tool("task", move |_, cx| {
        let below = below.clone();
        async move {
            let given = State::new(below.schema().clone());
            Ok(cx.run_child(&below, "task", given, "do it").await?.result?.text())
        }
    });
    let asks = tool("asks", |_, cx| async move {
        cx.interrupt("May I?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let model = ScriptedModel::new([
        Turn::calls([("echo", json!({"x": 1})), ("task", json!({}))]),
        Turn::call("asks", json!({})),
        Turn::text("done"),
    ]);
    agent(model).ids(RandomIds).tool(echo()).tool(task).tool(asks).journal(journal.clone()).build().unwrap()
}

#[tokio::test]
async fn a_log_follower_sees_the_same_durable_events_as_the_runs_holder() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = asking(&journal);
    let (mut events, first) = watch(agent.run(RunInput::new("go").thread("t"))).await;
    let question = first.unwrap().action_requests().remove(0).id;
    let (more, last) = watch(agent.run(RunInput::resume("t").decide(question, Decision::Approve))).await;
    assert_eq!(last.unwrap().stop, FinishReason::Done);
    events.extend(more);
    let log = followed(&journal, 0, 2).await;
    let (live, log_events) = (told(&events), told(&log));
    for (at, (live, log)) in live.iter().zip(&log_events).enumerate() {
        assert_eq!(log, live, "event {at}");
    }
    assert_eq!(log_events.len(), live.len());
}

#[tokio::test]
async fn following_a_thread_from_any_event_position_matches_following_it_all() {
    let journal = Arc::new(MemoryJournal::new());
    let agent = asking(&journal);
    let first = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let answer = RunInput::resume("t").decide(first.action_requests().remove(0).id, Decision::Approve);
    agent.invoke(answer).await.unwrap();
    let whole = followed(&journal, 0, 2).await;
    let positions: BTreeSet<u64> = whole.iter().map(|event| event.position.unwrap()).collect();
    for from in positions {
        let rest: Vec<Event> = whole.iter().filter(|event| event.position.unwrap() > from).cloned().collect();
        if rest.is_empty() {
            continue;
        }
        let runs = rest.iter().filter(|event| matches!(event.kind, EventKind::RunFinished { .. })).count();
        let followed = followed(&journal, from, runs).await;
        // For a follower, the usage of subagents includes only the responses it has seen.
        let plain = |events: &[Event]| -> Vec<Value> {
            let mut all = told(events);
            all.iter_mut().for_each(|event| {
                event.as_object_mut().unwrap().remove("usage");
                event.as_object_mut().unwrap().remove("model_calls");
            });
            all
        };
        assert_eq!(plain(&followed), plain(&rest), "from {from}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_follower_can_wait_for_a_thread_that_does_not_exist_yet() {
    let journal = Arc::new(MemoryJournal::new());
    let threads = ThreadAccess::new(journal.clone(), State::default().schema().clone());
    let mut watched = std::pin::pin!(threads.watch("t", 0));
    let waits = tokio::time::timeout(Duration::from_secs(60), watched.next()).await;
    assert!(waits.is_err(), "nothing has happened");
    let agent = agent(ScriptedModel::new([Turn::text("done")])).journal(journal).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let mut kinds = Vec::new();
    while kinds.len() < 4 {
        kinds.push(watched.next().await.unwrap().unwrap().kind);
    }
    assert!(matches!(kinds[0], EventKind::RunStarted { .. }), "{kinds:?}");
    assert!(matches!(kinds[1], EventKind::ModelFinished { turn: 0, .. }), "{kinds:?}");
    assert!(matches!(kinds[3], EventKind::RunFinished { model_calls: 1, .. }), "{kinds:?}");
}

#[tokio::test]
async fn side_requests_are_included_in_the_logged_tokens_of_each_part() {
    let journal = Arc::new(MemoryJournal::new());
    let usage = |input| Usage { input, output: 1, ..Usage::default() };
    let asks = tool("asks", |_, cx| async move {
        let model = cx.context().model().clone();
        cx.context().invoke_model(&model, ModelRequest::new("Meanwhile?")).await?;
        cx.interrupt("May I?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let model = ScriptedModel::new([
        Turn::call("asks", json!({})).usage(usage(10)),
        Turn::text("Meanwhile.").usage(usage(200)),
        Turn::text("Once more.").usage(usage(3_000)),
        Turn::text("done").usage(usage(40_000)),
    ]);
    let agent = agent(model).tool(asks).journal(journal.clone()).build().unwrap();
    let first = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let answer = RunInput::resume("t").decide(first.action_requests().remove(0).id, Decision::Approve);
    let second = agent.invoke(answer).await.unwrap();
    let log = followed(&journal, 0, 2).await;
    let told: Vec<u64> = log
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::RunFinished { usage, .. } => Some(usage.input),
            _ => None,
        })
        .collect();
    assert_eq!(told, [210, 43_000]);
    assert_eq!([first.usage.input, second.usage.input], [210, 43_000]);
}
