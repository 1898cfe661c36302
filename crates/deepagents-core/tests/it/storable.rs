//! Data that could not be read back from the log is rejected when created, and the thread stays readable.

use std::collections::BTreeMap;
use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::error::Error;
use deepagents_core::event::EventKind;
use deepagents_core::journal::{MemoryJournal, Record, decode, encode, fold};
use deepagents_core::message::{Block, Message, ProviderBlock, ProviderItem, ToolMessage};
use deepagents_core::middleware::{HookOutput, Middleware, before_model};
use deepagents_core::run::{Outcome, RunInput};
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing, State, Update};
use deepagents_core::tool::{ToolError, ToolOutput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::support::{agent, assert_sound, lines, records, tool, until};

deepagents_core::last_value!(Level("level"): f64);
deepagents_core::last_value!(Guess("guess"): Option<f32>);
deepagents_core::last_value!(Grid("grid"): BTreeMap<String, BTreeMap<Pair, u8>>);
deepagents_core::last_value!(Tree("tree"): Value);
deepagents_core::last_value!(Hidden("hidden"): Half);

type Pair = (u8, u8);

/// Does not serialise a field that it needs to deserialise.
#[allow(dead_code, reason = "it is about what serde makes of it")]
#[derive(Clone, Default, Serialize, Deserialize, PartialEq)]
struct Half {
    #[serde(skip_serializing)]
    needed: u8,
}

/// Divides. Its value may become NaN although every update is a number.
struct Ratio;
impl Channel for Ratio {
    const NAME: &'static str = "ratio";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::copied();
    type Value = f64;
    type Update = f64;
    fn reduce(value: &mut f64, update: f64) -> Result<(), ChannelError> {
        *value /= update;
        Ok(())
    }
}

struct Declares;
impl Middleware for Declares {
    fn name(&self) -> &str {
        "Declares"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![
            ChannelSpec::new::<Level>(),
            ChannelSpec::new::<Guess>(),
            ChannelSpec::new::<Grid>(),
            ChannelSpec::new::<Tree>(),
            ChannelSpec::new::<Hidden>(),
            ChannelSpec::new::<Ratio>(),
        ]
    }
}

fn nested(levels: usize) -> Value {
    (0..levels).fold(json!(1), |inner, _| json!({"a": inner}))
}

fn pairs() -> BTreeMap<String, BTreeMap<Pair, u8>> {
    BTreeMap::from([("a".to_owned(), BTreeMap::from([((1, 2), 3)]))])
}

/// Updates that cannot be read back, each with part of the error.
fn lost() -> Vec<(Update, &'static str)> {
    vec![
        (
            Update::new::<Level>(f64::NAN),
            "channel `level`: the value cannot be stored as JSON and read back: JSON cannot represent the number NaN",
        ),
        (Update::new::<Level>(f64::INFINITY), "JSON cannot represent the number inf"),
        (Update::new::<Guess>(Some(f32::NAN)), "channel `guess`"),
        (Update::new::<Grid>(pairs()), "key must be a string"),
        (Update::new::<Tree>(nested(97)), "nested more than 96 levels deep"),
        (Update::new::<Hidden>(Half::default()), "missing field `needed`"),
        (Update::new::<Level>(1.0).with::<Level>(f64::NAN), "NaN"),
    ]
}

/// The state of the thread `t` in another process, which reads the log as text.
async fn read_again(agent: &Agent, journal: &MemoryJournal) -> State {
    let texts = records(journal, "t").await.iter().map(|record| encode(record).unwrap()).collect::<Vec<_>>();
    let read = texts.iter().map(|text| decode("t", 0, text).unwrap()).collect::<Vec<Record>>();
    fold("t", agent.schema().clone(), read).unwrap().state
}

/// Runs an agent whose tool returns this.
async fn with_tool(output: impl Fn() -> ToolOutput + Send + Sync + 'static) -> (Agent, Arc<MemoryJournal>, Outcome) {
    let model = ScriptedModel::new([Turn::call("make", json!({})), Turn::text("done")]);
    let output = Arc::new(output);
    let make = tool("make", move |_, _| {
        let output = output.clone();
        async move { Ok::<_, ToolError>(output()) }
    });
    let journal = Arc::new(MemoryJournal::new());
    let agent = agent(model).tool(make).middleware(Declares).journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    (agent, journal, outcome)
}

#[tokio::test]
async fn a_tools_unstorable_update_gets_an_error_result_and_changes_nothing() {
    for (update, why) in lost() {
        let (agent, journal, outcome) = with_tool(move || ToolOutput::text("made").with_update(update.clone())).await;
        let line = lines(outcome.messages()).remove(2);
        assert!(line.starts_with("error: made [the call was made, but its changes") && line.contains(why), "{line}");
        assert_eq!(outcome.state.get::<Level>(), Some(&0.0));
        assert_eq!(lines(read_again(&agent, &journal).await.messages()), lines(outcome.messages()));
    }
}

#[tokio::test]
async fn a_too_deeply_nested_artifact_or_block_gets_an_error_result() {
    let deep_block = || Block::ProviderItem(ProviderBlock { native: ProviderItem::new(nested(97)) });
    let (agent, journal, outcome) = with_tool(|| ToolOutput::text("made").with_artifact(nested(97))).await;
    let line = lines(outcome.messages()).remove(2);
    assert_eq!(line, "error: Error: the result of make was not kept: it is nested more than 96 levels deep.");
    read_again(&agent, &journal).await;
    let (agent, journal, outcome) = with_tool(move || ToolOutput::blocks(vec![deep_block()])).await;
    assert!(lines(outcome.messages())[2].starts_with("error: "));
    read_again(&agent, &journal).await;
    let (agent, journal, outcome) = with_tool(|| ToolOutput::text("made").with_artifact(nested(96))).await;
    assert_eq!(lines(outcome.messages())[2], "result: made");
    read_again(&agent, &journal).await;
}

#[tokio::test]
async fn a_message_with_a_too_deeply_nested_value_is_refused_whatever_its_source() {
    let said = || Message::Tool(ToolMessage { artifact: Some(nested(97)), ..ToolMessage::error("c", "x", "y") });
    let (_, _, outcome) = with_tool(move || ToolOutput::text("made").with_update(Update::message(said()))).await;
    assert!(lines(outcome.messages())[2].contains("channel `messages`"), "{:?}", lines(outcome.messages()));
    let call = Block::call("c", "make", nested(97));
    let given = Message::Assistant(deepagents_core::message::AssistantMessage::new(vec![call]));
    let agent = agent(ScriptedModel::new([])).build().unwrap();
    let error = agent.invoke(RunInput::messages([given])).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Channel(ChannelError::NotStorable { channel: "messages", .. })), "{error}");
}

#[tokio::test]
async fn a_hooks_unstorable_update_ends_the_run_and_the_thread_can_continue() {
    for (update, why) in lost() {
        let journal = Arc::new(MemoryJournal::new());
        let hook = before_model(move |_| {
            let update = update.clone();
            async move { Ok(HookOutput::update(update)) }
        });
        let built = |model| agent(model).middleware(Declares).journal(journal.clone());
        let bad = built(ScriptedModel::new([])).middleware(hook).build().unwrap();
        let error = bad.invoke(RunInput::new("go").thread("t")).await.unwrap_err();
        let Error::Hook { hook: "before_model", source, .. } = &*error.error else { panic!("{error}") };
        assert!(source.to_string().contains(why), "{error}");
        assert_eq!(error.kind(), "state");
        let good = built(ScriptedModel::new([Turn::text("done")])).build().unwrap();
        read_again(&good, &journal).await;
        assert_eq!(good.invoke(RunInput::resume("t")).await.unwrap().text(), "done");
    }
}

#[tokio::test]
async fn unstorable_inputs_and_outside_updates_are_refused_and_change_nothing() {
    for (update, why) in lost() {
        let journal = Arc::new(MemoryJournal::new());
        let model = ScriptedModel::new([Turn::text("done")]);
        let agent = agent(model).middleware(Declares).journal(journal.clone()).build().unwrap();
        agent.update_state("t", Update::new::<Level>(2.0)).await.unwrap();
        let before = records(&*journal, "t").await.len();
        let error = agent.update_state("t", update.clone()).await.unwrap_err();
        assert!(matches!(&error, Error::Channel(ChannelError::NotStorable { .. })), "{error}");
        assert_eq!(records(&*journal, "t").await.len(), before, "{why}");
        let error = agent.invoke(RunInput::new("go").thread("t").update(update)).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(read_again(&agent, &journal).await.get::<Level>(), Some(&2.0));
        assert_eq!(agent.invoke(RunInput::new("go").thread("t")).await.unwrap().text(), "done");
    }
}

#[tokio::test]
async fn an_unstorable_value_prevents_a_snapshot_and_the_log_stays_readable() {
    let journal = Arc::new(MemoryJournal::new());
    let long = tool("make", |_, _| async {
        let zero_by_zero = Update::new::<Ratio>(0.0);
        Ok(ToolOutput::text("x".repeat(300_000)).with_update(zero_by_zero))
    });
    let model = ScriptedModel::new([Turn::call("make", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(long).middleware(Declares).journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert!(outcome.state.get::<Ratio>().is_some_and(|ratio| ratio.is_nan()));
    let state = agent.state("t").await.unwrap();
    assert_eq!(lines(state.messages()), lines(outcome.messages()));
}

#[tokio::test]
async fn a_sub_agent_whose_initial_state_is_unstorable_does_not_start() {
    let journal = Arc::new(MemoryJournal::new());
    let below = agent(ScriptedModel::new([])).middleware(Declares).build().unwrap();
    let delegate = tool("delegate", move |_, cx| {
        let below = below.clone();
        async move {
            let mut given = cx.state().fork(below.schema().clone())?;
            given.apply(&Update::new::<Ratio>(0.0))?;
            Ok(cx.run_child(&below, "below", given, "do it").await?.result?.text())
        }
    });
    let model = ScriptedModel::new([Turn::call("delegate", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(delegate).middleware(Declares).journal(journal.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let line = lines(outcome.messages()).remove(2);
    assert!(line.starts_with("error: ") && line.contains("channel `ratio`"), "{line}");
    read_again(&agent, &journal).await;
}

#[tokio::test]
async fn a_too_deeply_nested_custom_event_is_sent_as_text() {
    let tells = tool("tell", |_, cx| async move {
        cx.custom("shallow", nested(96));
        cx.custom("deep", nested(130));
        Ok("told")
    });
    let model = ScriptedModel::new([Turn::call("tell", json!({})), Turn::text("done")]);
    let agent = agent(model).tool(tells).build().unwrap();
    let mut run = agent.run("go");
    for (name, expected) in [("shallow", nested(96)), ("deep", Value::String(nested(130).to_string()))] {
        let event = until(&mut run, |kind| matches!(kind, EventKind::Custom { .. })).await;
        let read: deepagents_core::event::Event =
            serde_json::from_str(&serde_json::to_string(&event).unwrap()).unwrap();
        assert_eq!(read.kind, EventKind::Custom { name: name.to_owned(), data: expected });
    }
}
