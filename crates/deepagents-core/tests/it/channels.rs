//! State: typed values, updates, and what agents share.

use std::sync::Arc;

use deepagents_core::last_value;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, Middleware, before_agent};
use deepagents_core::state::{
    Channel, ChannelError, ChannelSpec, ChildState, Concurrent, Merge, MessagesChannel, Schema, Sharing, State, Update,
};
use deepagents_core::tool::{Effect, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Map, Value, json};

use crate::support::{agent, assert_sound, lines, tool};

/// Adds up, and rejects a negative sum.
struct Counter;
impl Channel for Counter {
    const NAME: &'static str = "counter";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::merged(i64::clone, |parent, given, left| {
        let conflicts = if parent == given { vec![] } else { vec!["counter".to_owned()] };
        Merge { update: Some(left - given), conflicts }
    });
    type Value = i64;
    type Update = i64;
    fn reduce(value: &mut i64, update: i64) -> Result<(), ChannelError> {
        *value += update;
        if *value < 0 {
            return Err(ChannelError::Refused { channel: Self::NAME, reason: "it would be negative".to_owned() });
        }
        Ok(())
    }
}

struct Secret;
impl Channel for Secret {
    const NAME: &'static str = "secret";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    const CONCURRENT: Concurrent = Concurrent::Apply;
    type Value = String;
    type Update = String;
    fn reduce(value: &mut String, update: String) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

last_value!(City("city"): Option<String>);

mod elsewhere {
    /// Shadows `Result`, which the macro must not use.
    #[allow(dead_code, reason = "stands in the way")]
    type Result = std::fmt::Result;

    deepagents_core::last_value!(pub(super) City("city"): u32);
}

/// Declares channels.
struct Declares(&'static str, Vec<ChannelSpec>);
impl Middleware for Declares {
    fn name(&self) -> &str {
        self.0
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        self.1.clone()
    }
}

fn all() -> Vec<ChannelSpec> {
    vec![ChannelSpec::new::<Counter>(), ChannelSpec::new::<Secret>(), ChannelSpec::new::<City>()]
}

fn schema() -> Arc<Schema> {
    Arc::new(Schema::new(all().into_iter().chain([ChannelSpec::new::<MessagesChannel>()])).unwrap())
}

fn full() -> State {
    let mut state = State::new(schema());
    let update = Update::message(Message::user("hi"))
        .with::<Counter>(2)
        .with::<Counter>(3)
        .with::<Secret>("s".to_owned())
        .with::<City>(Some("Turin".to_owned()));
    state.apply(&update).unwrap();
    state
}

#[test]
fn values_are_typed_and_updates_of_one_channel_fold_in_order() {
    let state = full();
    assert_eq!(state.get::<Counter>(), Some(&5));
    assert_eq!(state.get::<City>(), Some(&Some("Turin".to_owned())));
    assert_eq!(state.get::<elsewhere::City>(), None, "another type with the name is not the channel");
    assert_eq!(State::default().get::<Counter>(), None);
}

#[test]
fn the_json_view_shows_private_channels_only_on_request_and_round_trips() {
    let state = full();
    let shown = state.to_json(false).unwrap();
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["city", "counter", "messages"]);
    let everything = state.to_json(true).unwrap();
    assert_eq!(everything["secret"], json!("s"));
    let back = State::from_json(schema(), everything.clone()).unwrap();
    assert_eq!(back.to_json(true).unwrap(), everything);
}

#[test]
fn unknown_channels_are_ignored_and_an_invalid_value_names_its_channel() {
    let values = |value: Value| json!({"counter": value, "gone": 1}).as_object().unwrap().clone();
    assert_eq!(State::from_json(schema(), values(json!(4))).unwrap().get::<Counter>(), Some(&4));
    let error = State::from_json(schema(), values(json!("four"))).unwrap_err();
    assert!(error.to_string().contains("counter"), "{error}");
}

#[test]
fn an_update_applies_completely_or_not_at_all() {
    let mut state = full();
    let before = state.to_json(true).unwrap();
    let refused = Update::new::<City>(None).with::<Counter>(-100);
    assert!(matches!(state.apply(&refused), Err(ChannelError::Refused { channel: "counter", .. })));
    let undeclared = Update::new::<City>(None).and(Update::new::<deepagents_core::state::StructuredResponse>(None));
    assert_eq!(state.apply(&undeclared), Err(ChannelError::Undeclared("structured_response".to_owned())));
    let clash = Update::new::<Counter>(1).with::<elsewhere::City>(7);
    assert_eq!(state.apply(&clash), Err(ChannelError::TypeClash("city".to_owned())));
    assert_eq!(state.to_json(true).unwrap(), before);
}

#[test]
fn updates_can_be_read_from_json_by_channel_name() {
    let updates = |json: Value| -> Map<String, Value> { json.as_object().unwrap().clone() };
    let update = Update::from_json(&schema(), updates(json!({"counter": 2, "city": "Oslo"}))).unwrap();
    let mut state = State::new(schema());
    state.apply(&update).unwrap();
    assert_eq!(state.get::<City>(), Some(&Some("Oslo".to_owned())));
    let error = Update::from_json(&schema(), updates(json!({"nope": 2}))).unwrap_err();
    assert_eq!(error, ChannelError::Undeclared("nope".to_owned()));
    assert!(Update::from_json(&schema(), updates(json!({"counter": []}))).is_err());
}

#[test]
fn a_fork_gets_shared_channels_but_no_private_ones_or_messages() {
    let child = full().fork(schema()).unwrap();
    assert_eq!(child.get::<Counter>(), Some(&5));
    assert_eq!(child.get::<Secret>(), Some(&String::new()));
    assert_eq!(child.get::<City>(), Some(&Some("Turin".to_owned())), "last values are shared");
    assert!(child.messages().is_empty());
}

#[test]
fn a_join_brings_the_childs_changes_back_and_names_conflicts() {
    let mut parent = full();
    let given = parent.fork(schema()).unwrap();
    let mut child = given.clone();
    child.apply(&Update::new::<Counter>(10)).unwrap();
    let (update, conflicts) = parent.join(&ChildState { given: given.clone(), left: child.clone() }).unwrap();
    assert_eq!((update.get::<Counter>().collect::<Vec<_>>(), conflicts), (vec![&10], vec![]));
    parent.apply(&Update::new::<Counter>(1)).unwrap();
    let (update, conflicts) = parent.join(&ChildState { given: given.clone(), left: child.clone() }).unwrap();
    assert_eq!(conflicts, ["counter"]);
    parent.apply(&update).unwrap();
    assert_eq!(parent.get::<Counter>(), Some(&16));
}

#[test]
fn two_types_with_one_channel_name_are_a_build_error_that_names_both() {
    let built = agent(ScriptedModel::new([]))
        .middleware(Declares("one", vec![ChannelSpec::new::<City>()]))
        .middleware(Declares("two", vec![ChannelSpec::new::<City>()]))
        .middleware(Declares("three", vec![ChannelSpec::new::<elsewhere::City>()]))
        .build();
    let error = built.unwrap_err().to_string();
    assert!(error.contains("`city`"), "{error}");
    assert!(error.contains("channels::City") && error.contains("channels::elsewhere::City"), "{error}");
}

#[test]
fn conflicting_types_of_parent_and_child_are_a_fork_error() {
    let other = Arc::new(Schema::new([ChannelSpec::new::<elsewhere::City>()]).unwrap());
    assert_eq!(full().fork(other).unwrap_err(), ChannelError::TypeClash("city".to_owned()));
}

#[tokio::test]
async fn a_hook_that_writes_an_undeclared_channel_fails_the_run_and_is_named() {
    let agent = agent(ScriptedModel::new([Turn::text("never")]))
        .middleware(before_agent(|_| async { Ok(HookOutput::set::<Counter>(1)) }))
        .build()
        .unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert_eq!(error.kind(), "state");
    assert!(error.to_string().contains("`counter`"), "{error}");
    assert_eq!(lines(error.state.messages()), ["user: hi"]);
}

/// Runs two calls of one turn that change the state, one after the other.
async fn two_writers(update: impl Fn(i64) -> Update + Send + Sync + 'static) -> (Vec<String>, State) {
    let update = Arc::new(update);
    let write = json_tool("write", "Writes.", json!({"type": "object"}), move |args: Value, _cx| {
        let update = update.clone();
        async move {
            let n = args["n"].as_i64().unwrap();
            Ok(ToolOutput::text(format!("wrote {n}")).with_update(update(n)))
        }
    })
    .effect(Effect::write("/same"));
    let turn = Turn::calls([("write", json!({"n": 1})), ("write", json!({"n": 2}))]);
    let agent = agent(ScriptedModel::new([turn, Turn::text("done")]))
        .middleware(Declares("all", all()))
        .tool(write)
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    (lines(outcome.messages()), outcome.state)
}

#[tokio::test]
async fn the_second_write_to_an_exclusive_channel_in_a_turn_is_an_error() {
    let (lines, state) = two_writers(|n| Update::new::<City>(Some(n.to_string())).with::<Counter>(n)).await;
    assert_eq!(lines[2], "result: wrote 1");
    let not_kept = "[the call was made, but its changes to the state were not kept: another call of this turn has already \
        changed `city`]";
    assert_eq!(lines[3], format!("error: wrote 2 {not_kept}"));
    assert_eq!(state.get::<City>(), Some(&Some("1".to_owned())));
    assert_eq!(state.get::<Counter>(), Some(&1), "the refused call's other change is dropped too");
}

#[tokio::test]
async fn two_calls_that_write_a_folding_channel_both_count() {
    let (lines, state) = two_writers(Update::new::<Counter>).await;
    assert_eq!(lines[2..4], ["result: wrote 1", "result: wrote 2"]);
    assert_eq!(state.get::<Counter>(), Some(&3));
}

#[tokio::test]
async fn a_call_whose_update_a_channel_rejects_gets_an_error_and_the_run_continues() {
    let (lines, state) = two_writers(|n| Update::new::<Counter>(if n == 1 { -1 } else { 5 })).await;
    assert!(lines[2].starts_with("error: ") && lines[2].contains("it would be negative"), "{}", lines[2]);
    assert_eq!(lines[3..], ["result: wrote 2", "assistant: done"]);
    assert_eq!(state.get::<Counter>(), Some(&5));
}

/// Hidden, but shared with subagents.
#[derive(Debug)]
struct Marks;

impl Channel for Marks {
    const NAME: &'static str = "marks";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::shared_by(|_, left| Some(*left)).hidden();
    type Value = u64;
    type Update = u64;

    fn reduce(value: &mut u64, update: u64) -> Result<(), ChannelError> {
        *value = update.max(*value);
        Ok(())
    }
}

#[test]
fn an_inherited_channel_is_shared_with_sub_agents_and_hidden_from_callers() {
    let schema = Arc::new(Schema::new([ChannelSpec::new::<Marks>()]).unwrap());
    let mut parent = State::new(schema.clone());
    parent.apply(&Update::new::<Marks>(3)).unwrap();
    let given = parent.fork(schema).unwrap();
    let mut child = given.clone();
    child.apply(&Update::new::<Marks>(5)).unwrap();
    parent.apply(&parent.join(&ChildState { given: given.clone(), left: child.clone() }).unwrap().0).unwrap();
    assert_eq!((given.get::<Marks>(), parent.get::<Marks>()), (Some(&3), Some(&5)));
    assert!(parent.to_json(false).unwrap().is_empty());
}

/// Rejects a sum of three.
struct Fragile;

impl Channel for Fragile {
    const NAME: &'static str = "fragile";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::separate();
    type Value = u32;
    type Update = u32;
    fn reduce(value: &mut u32, update: u32) -> Result<(), ChannelError> {
        *value += update;
        assert!(*value < 3, "three is too much");
        Ok(())
    }
}

#[tokio::test]
async fn a_panic_in_a_reducer_rejects_only_its_calls_result() {
    struct Declares;
    impl deepagents_core::middleware::Middleware for Declares {
        fn name(&self) -> &str {
            "Declares"
        }
        fn channels(&self) -> Vec<ChannelSpec> {
            vec![ChannelSpec::new::<Fragile>()]
        }
    }
    let adds = tool("adds", |_, _| async { Ok(ToolOutput::text("added").with_update(Update::new::<Fragile>(2))) });
    let model = ScriptedModel::new([Turn::calls([("adds", json!({})), ("adds", json!({}))]), Turn::text("done")]);
    let agent = agent(model).middleware(Declares).tool(adds).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(outcome.state.get::<Fragile>(), Some(&2));
    let lines = lines(outcome.messages());
    let refused = "error: added [the call was made, but its changes to the state were not kept: channel `fragile`: it \
        panicked: three is too much]";
    assert_eq!(lines[2..], ["result: added", refused, "assistant: done"]);
}

#[test]
fn a_private_channel_is_readable_by_type_and_not_shown() {
    let mut state =
        State::new(Arc::new(Schema::new([ChannelSpec::new::<Secret>(), ChannelSpec::new::<City>()]).unwrap()));
    state.apply(&Update::new::<Secret>("hush".to_owned()).and(Update::new::<City>(Some("Turin".to_owned())))).unwrap();
    assert_eq!(state.get::<Secret>().map(String::as_str), Some("hush"));
    let shown = format!("{state:?}");
    assert!(shown.contains("Turin") && !shown.contains("hush") && !shown.contains("secret"), "{shown}");
    assert!(!state.to_json(false).unwrap().contains_key("secret"));
}

last_value!(Plan("plan"): String => separate, not_projected);
last_value!(Draft("draft"): String => separate);

#[test]
fn a_channel_that_is_not_projected_is_empty_in_a_sub_agent_that_sees_the_conversation() {
    let schema = Arc::new(Schema::new([ChannelSpec::new::<Plan>(), ChannelSpec::new::<Draft>()]).unwrap());
    let mut state = State::new(schema.clone());
    state.apply(&Update::new::<Plan>("a".to_owned()).with::<Draft>("b".to_owned())).unwrap();
    let below = state.project(schema).unwrap();
    assert_eq!((below.get::<Plan>().unwrap().as_str(), below.get::<Draft>().unwrap().as_str()), ("", "b"));
}
