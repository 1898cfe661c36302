//! The events of a run.

use std::collections::BTreeMap;

use deepagents_core::env::Timestamp;
use deepagents_core::event::{Event, EventKind, LoadedFile, MiddlewareEvent};
use deepagents_core::interrupt::{Decision, DecisionAuthor};
use deepagents_core::last_value;
use deepagents_core::message::{Block, Reasoning, Usage};
use deepagents_core::middleware::{HookOutput, Middleware, before_agent};
use deepagents_core::model::{ModelError, ModelEvent, StopReason};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing, Update};
use deepagents_core::tool::{CallId, ToolOutput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::support::{agent, kinds, tool, watch};

last_value!(City("city"): Option<String>);

struct Hidden;
impl Channel for Hidden {
    const NAME: &'static str = "hidden";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = u32;
    type Update = u32;
    fn reduce(value: &mut u32, update: u32) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

struct Channels;
impl Middleware for Channels {
    fn name(&self) -> &str {
        "Channels"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<City>(), ChannelSpec::new::<Hidden>()]
    }
}

/// A run with almost every kind of event.
async fn eventful() -> Vec<Event> {
    let first = Turn::call("travel", json!({"to": "Turin"})).thinking("Where to?").and_text("Going.").usage(Usage {
        input: 10,
        output: 5,
        ..Usage::default()
    });
    let travel = tool("travel", |args, cx| async move {
        cx.progress("half way");
        cx.custom("map", json!({"zoom": 3}));
        let to = args["to"].as_str().map(str::to_owned);
        Ok(ToolOutput::text("arrived").with_update(Update::new::<City>(to).with::<Hidden>(1)))
    });
    let agent = agent(ScriptedModel::new([first, Turn::text("We are in Turin.")]))
        .name("guide")
        .middleware(Channels)
        .tool(travel)
        .build()
        .unwrap();
    let (events, outcome) = watch(agent.run("Take me away.")).await;
    assert_eq!(outcome.unwrap().stop, FinishReason::Done);
    events
}

#[tokio::test]
async fn a_run_reports_all_its_events_in_order_and_without_gaps() {
    let events = eventful().await;
    assert_eq!(events.iter().map(|e| e.seq).collect::<Vec<_>>(), (0..events.len() as u64).collect::<Vec<_>>());
    assert!(events.iter().all(|e| e.v == 1 && &*e.run == "run_1" && e.path.is_empty()));
    let mut kinds = kinds(&events);
    kinds.dedup();
    let expected = [
        "run_started",
        "agent_started",
        "model_started",
        "reasoning_delta",
        "text_delta",
        "tool_call_delta",
        "model_finished",
        "tool_started",
        "tool_progress",
        "custom",
        "state_changed",
        "tool_finished",
        "model_started",
        "text_delta",
        "model_finished",
        "agent_finished",
        "run_finished",
    ];
    assert_eq!(kinds, expected);
}

#[tokio::test]
async fn deltas_add_up_to_what_is_stored() {
    let events = eventful().await;
    let mut text = String::new();
    let mut args = String::new();
    let mut names = Vec::new();
    for event in &events {
        match &event.kind {
            EventKind::TextDelta { turn: 0, text: delta, .. } => text.push_str(delta),
            EventKind::ToolCallDelta { name, args: delta, .. } => {
                names.extend(name.clone());
                args.push_str(delta);
            }
            _ => {}
        }
    }
    assert_eq!((text.as_str(), names), ("Going.", vec!["travel".to_owned()]));
    assert_eq!(serde_json::from_str::<Value>(&args).unwrap(), json!({"to": "Turin"}));
}

#[tokio::test]
async fn state_changes_are_reported_except_for_private_channels_and_messages() {
    let changes: Vec<(String, Value)> = eventful()
        .await
        .into_iter()
        .filter_map(|event| match event.kind {
            EventKind::StateChanged { channel, update } => Some((channel, update)),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [("city".to_owned(), json!("Turin"))]);
}

fn of_each_kind() -> Vec<EventKind> {
    let call = || CallId { path: vec![], turn: 1, index: 0 };
    let nested = || CallId { path: vec!["task:0.1".to_owned()], turn: 1, index: 0 };
    let usage = Usage { input: 7, output: 3, cache_read: 2, ..Usage::default() };
    let attempt = (1, 0);
    vec![
        EventKind::RunStarted { thread: Some("t".into()) },
        EventKind::RunStarted { thread: None },
        EventKind::AgentStarted { name: "agent".into() },
        EventKind::ModelStarted { model: "p:m".into(), turn: attempt.0, attempt: attempt.1, message: "msg_1".into() },
        EventKind::TextDelta { turn: 1, attempt: 0, text: "Hel".into() },
        EventKind::ReasoningDelta { turn: 1, attempt: 0, text: "hm".into() },
        EventKind::ToolCallDelta {
            turn: 1,
            attempt: 0,
            block: 2,
            id: Some("c1".into()),
            name: Some("ls".into()),
            args: String::new(),
        },
        EventKind::ToolCallDelta { turn: 1, attempt: 0, block: 2, id: None, name: None, args: "{\"a\":".into() },
        EventKind::AttemptDiscarded {
            turn: 1,
            attempt: 0,
            reason: "reset".into(),
            retry_after_ms: 250,
            requested: false,
            again: true,
            next: "msg_1-2".into(),
        },
        EventKind::ModelFinished { turn: 1, attempt: 0, message: "msg_1".into(), usage, stop: StopReason::ToolCalls },
        EventKind::ToolStarted { call: call(), id: "call_1".into(), name: "ls".into(), args: json!({"path": "/"}) },
        EventKind::ToolProgress { call: nested(), text: "half way".into() },
        EventKind::ToolFinished {
            call: call(),
            id: "call_1".into(),
            name: "ls".into(),
            error: false,
            text: "a.txt".into(),
        },
        EventKind::StateChanged { channel: "city".into(), update: json!("Turin") },
        EventKind::Steered { text: "faster".into() },
        EventKind::Custom { name: "map".into(), data: json!({"zoom": 3}) },
        EventKind::AgentFinished { stop: FinishReason::Done, usage },
        EventKind::AgentFailed { kind: "tool".into(), error: "gone".into() },
        EventKind::RunFinished { stop: FinishReason::StepLimit, usage, model_calls: 2 },
        EventKind::RunFailed { kind: "transport".into(), error: "reset".into() },
        EventKind::ActionDecided {
            id: "1.0".into(),
            decision: Decision::Approve,
            author: Some(DecisionAuthor::Person),
        },
        EventKind::Middleware(MiddlewareEvent::SkillsLoaded { skills: vec!["pdf".into()], warnings: vec![] }),
        EventKind::Middleware(MiddlewareEvent::Hook {
            event: "PreToolUse".into(),
            source: Some("hooks.json".into()),
            command: Some("guard".into()),
            message: "the hook `guard` is broken: it took too long".into(),
            error: Some("it took too long".into()),
            ended: false,
        }),
        EventKind::Middleware(MiddlewareEvent::MemoryLoaded {
            files: vec![
                LoadedFile::Read { path: "/a.md".into(), chars: 4, cut: false },
                LoadedFile::Unreadable { path: "/b.md".into(), problem: "it is a directory".into() },
                LoadedFile::Missing { path: "/c.md".into(), missing: true },
            ],
        }),
        EventKind::Lagged { dropped: 3 },
        EventKind::Unknown,
    ]
}

#[test]
fn each_kind_of_event_is_a_flat_object_and_survives_json() {
    let events: Vec<Event> = (0..)
        .zip(of_each_kind())
        .map(|(seq, kind)| Event {
            v: 1,
            seq,
            run: "run_1".into(),
            path: ["task:0.1".to_owned()].into(),
            at: Timestamp::UNIX_EPOCH,
            attempt: 0,
            position: (seq == 0).then_some(7),
            kind,
        })
        .collect();
    let texts: Vec<String> = events.iter().map(|event| serde_json::to_string(event).unwrap()).collect();
    insta::assert_snapshot!("events_as_json", texts.join("\n"));
    for (event, text) in events.iter().zip(&texts) {
        assert_eq!(&serde_json::from_str::<Event>(text).unwrap(), event);
        let object: BTreeMap<String, Value> = serde_json::from_str(text).unwrap();
        assert!(["v", "seq", "run", "path", "time", "run_attempt", "type"].iter().all(|key| object.contains_key(*key)));
    }
}

#[tokio::test]
async fn a_reader_that_keeps_up_sees_every_delta_of_a_fast_model() {
    let many = || (0..2_000).map(|n| Ok(ModelEvent::Text { block: 0, delta: format!("{n} ") }));
    let full: String = (0..2_000).map(|n| format!("{n} ")).collect();
    let output =
        deepagents_core::model::ModelOutput::new(deepagents_core::message::AssistantMessage::new(vec![Block::text(
            full.clone(),
        )]));
    let turn = Turn::raw(many().chain([Ok(ModelEvent::Finished(Box::new(output)))]));
    let model = ScriptedModel::new([turn]);
    let agent = agent(model).build().unwrap();
    let (events, outcome) = watch(agent.run("count")).await;
    let text: String = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TextDelta { text, .. } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(text, full);
    assert_eq!(outcome.unwrap().text(), full);
}

#[test]
fn events_of_earlier_and_later_versions_can_be_read() {
    let earlier = r#"{"v":1,"seq":0,"run":"r","path":[],"type":"custom","name":"map","data":{"zoom":3}}"#;
    let event: Event = serde_json::from_str(earlier).unwrap();
    assert_eq!((event.at, event.attempt, event.position), (Timestamp::UNIX_EPOCH, 0, None));
    assert_eq!(event.kind, EventKind::Custom { name: "map".into(), data: json!({"zoom": 3}) });
    let later = r#"{"v":1,"seq":0,"run":"r","path":[],"mood":"good","type":"sang","song":{"of":"joy"}}"#;
    assert_eq!(serde_json::from_str::<Event>(later).unwrap().kind, EventKind::Unknown);
    let other_shape = json!({"type": "custom", "name": "skills_loaded", "data": {"skills": 3}});
    let read: EventKind = serde_json::from_value(other_shape).unwrap();
    assert!(matches!(read, EventKind::Custom { .. }), "what does not fit is as an application's: {read:?}");
}

#[tokio::test]
async fn chatty_tools_do_not_stall_a_reader_that_only_awaits_the_outcome() {
    let chatty = tool("chatty", |_, cx| async move {
        for n in 0..1_000 {
            cx.progress(n.to_string());
        }
        Ok("done")
    });
    let turn = Turn::calls((0..8).map(|_| ("chatty", json!({}))));
    let agent = agent(ScriptedModel::new([turn, Turn::text("done")])).tool(chatty).build().unwrap();
    assert_eq!(agent.run("go").outcome().await.unwrap().text(), "done");
    let model = ScriptedModel::new([Turn::call("quiet", json!({})), Turn::text("done")]);
    let quiet = tool("quiet", |_, cx| async move {
        cx.progress("to nobody");
        Ok("ok")
    });
    let agent = crate::support::agent(model).tool(quiet).build().unwrap();
    assert_eq!(agent.invoke("go").await.unwrap().text(), "done", "without events nothing waits for a reader");
}

#[tokio::test]
async fn the_last_event_is_the_runs_end_even_if_a_task_still_holds_its_context() {
    let (keep, mut kept) = tokio::sync::mpsc::unbounded_channel();
    let agent = agent(ScriptedModel::new([Turn::text("done"), Turn::text("done")]))
        .middleware(before_agent(move |cx| {
            // A context may outlive its run, as in a task that a tool spawned.
            keep.send(cx).unwrap();
            async { Ok(HookOutput::next()) }
        }))
        .build()
        .unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    assert_eq!(outcome.unwrap().text(), "done");
    assert_eq!(kinds(&events).last().unwrap(), "run_finished");
    let outcome = agent.run("hi").outcome().await.unwrap();
    assert_eq!(outcome.text(), "done");
    kept.recv().await.unwrap().custom("late", json!(null));
}

#[tokio::test]
async fn a_failed_run_ends_with_an_event_that_names_the_error_class() {
    let turn = Turn::error(ModelError::transport("reset"));
    let agent = agent(ScriptedModel::new([turn])).build().unwrap();
    let (events, _) = watch(agent.run(RunInput::new("hi"))).await;
    let EventKind::RunFailed { kind, error } = &events.last().unwrap().kind else { panic!("{events:?}") };
    assert_eq!((kind.as_str(), error.as_str()), ("transport", "could not reach the provider: reset"));
}

#[tokio::test]
async fn thinking_is_distinguished_from_text() {
    let thought = Block::Reasoning(Reasoning { text: "deep".into(), native: None });
    let turn = Turn::blocks([thought, Block::text("shallow")]);
    let (events, _) = watch(agent(ScriptedModel::new([turn])).build().unwrap().run("hi")).await;
    let deep = events.iter().any(|e| matches!(&e.kind, EventKind::ReasoningDelta { text, .. } if text == "deep"));
    let shallow = events.iter().any(|e| matches!(&e.kind, EventKind::TextDelta { text, .. } if text == "shallow"));
    assert!(deep && shallow);
}
