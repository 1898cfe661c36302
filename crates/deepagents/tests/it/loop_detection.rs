//! An agent in a loop is warned, then stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::core::event::LoopPattern;
use deepagents::core::tool::DynTool;
use deepagents::middleware::loop_detection::{LoopPolicy, LoopThreshold};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    Budget, DeepAgent, DeepAgentBuilder, EventKind, FinishReason, MemoryJournal, Message, MiddlewareEvent, Outcome,
    RunInput, ToolOutput, json_tool,
};
use futures_util::StreamExt;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::results;

type Told = (LoopPattern, u32, bool);

/// Runs an agent. Returns the outcome and the loop events.
async fn watch(agent: &DeepAgent, input: impl Into<RunInput>) -> (Outcome, Vec<Told>) {
    let mut run = agent.run(input);
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::LoopDetected { pattern, times, stopped }) = event.kind {
            told.push((pattern, times, stopped));
        }
    }
    (run.outcome().await.unwrap(), told)
}

/// Repeats a list of turns.
fn round(turns: Vec<Turn>) -> ScriptedModel {
    let count = AtomicUsize::new(0);
    ScriptedModel::rules()
        .always(Turn::with(move |_| turns[count.fetch_add(1, Ordering::Relaxed) % turns.len()].clone()))
        .build()
}

fn agent(turns: Vec<Turn>, configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> (DeepAgent, ScriptedModel) {
    let model = round(turns);
    (configure(DeepAgent::builder().model(model.clone())).build().unwrap(), model)
}

/// The harness messages in the conversation.
fn notes(outcome: &Outcome) -> Vec<String> {
    let said = outcome.messages().iter().filter(|m| m.as_user().is_some()).skip(1);
    said.map(|m| m.text()).collect()
}

fn ls() -> Turn {
    Turn::call("ls", json!({"path": "/"}))
}

fn look(at: &str) -> Turn {
    Turn::call("look", json!({"at": at}))
}

/// A tool whose result differs each time.
fn counting() -> impl DynTool {
    let count = AtomicUsize::new(0);
    json_tool("look", "Looks.", json!({"type": "object"}), move |_: Value, _cx| {
        let seen = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(format!("{seen} % done")) }
    })
}

/// A tool with the same result each time.
fn constant() -> impl DynTool {
    json_tool("look", "Looks.", json!({"type": "object"}), |args: Value, _cx| async move { Ok(args.to_string()) })
}

/// A tool that fails with a different message each time.
fn failing() -> impl DynTool {
    let count = AtomicUsize::new(0);
    json_tool("look", "Looks.", json!({"type": "object"}), move |_: Value, _cx| {
        let seen = count.fetch_add(1, Ordering::Relaxed);
        async move { Ok(ToolOutput::text(format!("error {seen}")).as_error()) }
    })
}

#[tokio::test]
async fn a_repeated_call_with_the_same_result_first_warns_and_then_ends_the_run() {
    let (agent, model) = agent(vec![ls()], |b| b);
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::SameCalls, 5, false), (LoopPattern::SameCalls, 10, true)]);
    assert_eq!((outcome.model_calls, results(&outcome).len()), (10, 10));
    check_history(outcome.messages()).unwrap();
    let seen: Vec<usize> =
        model.requests().iter().map(|r| r.messages.iter().filter(|m| m.text().starts_with("Note:")).count()).collect();
    assert_eq!(seen, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]);
    insta::assert_snapshot!(notes(&outcome).join("\n"), @"Note: the same call of ls was made 5 times in a row with the same result. Making it again will not help: change the approach or, if you wait for something, wait longer before you look; if you cannot go on, say what is missing. If this goes on, the run is stopped.");
    insta::assert_snapshot!(outcome.text(), @"Stopped without an answer, because there was no progress: the same call of ls was made 10 times in a row with the same result. The task may be unfinished.");
}

#[tokio::test]
async fn polling_until_something_changes_is_no_loop() {
    let turns: Vec<Turn> = (0..60).map(|_| look("build")).chain([Turn::text("Built.")]).collect();
    let agent = DeepAgent::builder().model(ScriptedModel::new(turns)).tool(counting()).build().unwrap();
    let (outcome, told) = watch(&agent, "Wait for the build.").await;
    assert_eq!((outcome.stop.clone(), told), (FinishReason::Done, vec![]));
}

#[tokio::test]
async fn alternating_calls_are_a_loop_after_enough_rounds() {
    let (two, _) = agent(vec![look("left"), look("right")], |b| b.tool(constant()));
    let (outcome, told) = watch(&two, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::Alternation, 4, false), (LoopPattern::Alternation, 8, true)]);
    assert_eq!(results(&outcome).len(), 16);
    insta::assert_snapshot!(outcome.text(), @"Stopped without an answer, because there was no progress: the same calls (look) were made in alternation, 8 rounds with the same results. The task may be unfinished.");

    let (three, _) = agent(vec![look("left"), ls(), look("right")], |b| b.tool(constant()));
    let (outcome, told) = watch(&three, "Go.").await;
    assert_eq!((told.len(), results(&outcome).len()), (2, 24));

    let (four, _) = agent(vec![look("a"), look("b"), look("c"), look("d")], |b| {
        b.tool(constant()).budget(Budget::default().model_calls(40))
    });
    let (outcome, told) = watch(&four, "Go.").await;
    assert_eq!((outcome.stop.clone(), told), (FinishReason::StepLimit, vec![]));
}

#[tokio::test]
async fn parallel_calls_with_one_new_result_are_no_loop() {
    let both = Turn::calls([("ls", json!({"path": "/"})), ("look", json!({}))]);
    let (agent, _) = agent(vec![both], |b| b.tool(counting()).budget(Budget::default().model_calls(30)));
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!((outcome.stop.clone(), told), (FinishReason::StepLimit, vec![]));
}

#[tokio::test]
async fn the_same_parallel_calls_in_another_order_are_the_same_turn() {
    let looks = |order: [&str; 3]| Turn::calls(order.map(|at| ("look", json!({"at": at}))));
    let orders = [["a", "b", "c"], ["b", "a", "c"], ["c", "b", "a"], ["a", "c", "b"], ["b", "c", "a"]];
    let (agent, _) = agent(orders.map(looks).to_vec(), |b| b.tool(constant()));
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::SameCalls, 5, false), (LoopPattern::SameCalls, 10, true)]);
}

#[tokio::test]
async fn edits_that_undo_each_other_are_a_loop_despite_calls_in_between() {
    let edit = |old: &str, new: &str| {
        Turn::call("edit_file", json!({"file_path": "/a.txt", "old_string": old, "new_string": new}))
    };
    let first = Turn::call("write_file", json!({"file_path": "/a.txt", "content": "one"}));
    let begun = AtomicUsize::new(0);
    let model = {
        let turns = [edit("one", "two"), look("tests"), edit("two", "one"), look("tests")];
        ScriptedModel::rules()
            .always(Turn::with(move |_| match begun.fetch_add(1, Ordering::Relaxed) {
                0 => first.clone(),
                n => turns[(n - 1) % turns.len()].clone(),
            }))
            .build()
    };
    let agent = DeepAgent::builder().model(model).tool(counting()).build().unwrap();
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::UndoneEdits, 3, false), (LoopPattern::UndoneEdits, 6, true)]);
    insta::assert_snapshot!(notes(&outcome).join("\n"), @"Note: the last 3 changes of a file with edit_file each took the one before back. Decide which version is right, and why, before you change the file again. If this goes on, the run is stopped.");
}

#[tokio::test]
async fn writing_two_versions_of_a_file_in_turn_is_a_loop_and_growing_it_is_not() {
    let write = |text: &str| Turn::call("write_file", json!({"file_path": "/a.txt", "content": text}));
    let policy = LoopPolicy { alternation: None, ..LoopPolicy::default() };
    let (by_turns, _) =
        agent(vec![write("one"), look("x"), write("two"), look("x")], |b| b.tool(counting()).loop_detection(policy));
    let (outcome, told) = watch(&by_turns, "Go.").await;
    assert_eq!((outcome.stop.clone(), told.len()), (FinishReason::NoProgress, 2));

    let growing: Vec<Turn> = (0..20).map(|n| write(&"line\n".repeat(n + 1))).chain([Turn::text("Done.")]).collect();
    let agent = DeepAgent::builder().model(ScriptedModel::new(growing)).build().unwrap();
    assert_eq!(watch(&agent, "Go.").await.1, []);
}

#[tokio::test]
async fn a_model_making_several_changes_per_turn_is_warned_before_it_is_stopped() {
    let write = |text: &str| ("write_file", json!({"file_path": "/a.txt", "content": text}));
    let (agent, _) = agent(vec![Turn::calls([write("one"), write("two")])], |b| b);
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::UndoneEdits, 4, false), (LoopPattern::UndoneEdits, 6, true)]);
}

#[tokio::test]
async fn errors_alone_are_a_loop_even_if_different_and_one_success_ends_it() {
    let (erring, _) = agent(vec![look("a"), look("b"), look("c"), look("d"), look("e")], |b| b.tool(failing()));
    let (outcome, told) = watch(&erring, "Go.").await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    assert_eq!(told, [(LoopPattern::Errors, 6, false), (LoopPattern::Errors, 12, true)]);
    insta::assert_snapshot!(notes(&outcome).join("\n"), @"Note: every call of the last 6 turns failed, look among them. Read the errors: change the approach, or say what is missing. If this goes on, the run is stopped.");

    let turns = (0..4).map(|n| look(&n.to_string())).chain([ls()]);
    let (mixed, _) = agent(turns.collect(), |b| b.tool(failing()).budget(Budget::default().model_calls(40)));
    assert_eq!(watch(&mixed, "Go.").await.1, []);
}

#[tokio::test]
async fn unreadable_arguments_count_as_errors_and_as_the_same_call() {
    let broken = Turn::blocks([deepagents::Block::InvalidToolCall(deepagents::core::message::InvalidToolCall {
        id: String::new(),
        name: "ls".to_owned(),
        raw: "{\"path\": ".to_owned(),
        error: "it ends early".to_owned(),
        native: None,
    })]);
    let (agent, _) = agent(vec![broken], |b| b);
    let (outcome, told) = watch(&agent, "Go.").await;
    assert_eq!((outcome.stop.clone(), told.len()), (FinishReason::NoProgress, 2));
}

#[tokio::test]
async fn a_large_result_stored_in_a_file_still_counts_as_the_same_result() {
    let long = json_tool("look", "Looks.", json!({"type": "object"}), |_: Value, _cx| async {
        Ok("the same line\n".repeat(20_000))
    });
    let (agent, _) = agent(vec![look("log")], |b| b.tool(long));
    let (outcome, told) = watch(&agent, "Go.").await;
    assert!(results(&outcome)[0].0.contains("too large to show"), "{:?}", results(&outcome)[0]);
    assert_eq!((outcome.stop.clone(), told.len()), (FinishReason::NoProgress, 2));
}

#[tokio::test]
async fn a_resumed_run_keeps_counting_and_the_model_is_not_warned_twice() {
    let model = round(vec![ls()]);
    let journal = Arc::new(MemoryJournal::new());
    let built = || DeepAgent::builder().model(model.clone()).journal(journal.clone()).build().unwrap();
    let limited = RunInput::new("Go.").thread("t").budget(Budget::default().model_calls(5));
    let (outcome, told) = watch(&built(), limited).await;
    // The limit applies before the warning: no further model call is made.
    assert_eq!((outcome.stop.clone(), told), (FinishReason::StepLimit, vec![]));
    let further = RunInput::resume("t").budget(Budget::default().model_calls(2));
    let (outcome, told) = watch(&built(), further).await;
    assert_eq!((outcome.stop.clone(), told), (FinishReason::StepLimit, vec![(LoopPattern::SameCalls, 5, false)]));
    let (outcome, told) = watch(&built(), RunInput::resume("t").budget(Budget::default().model_calls(50))).await;
    assert_eq!((outcome.stop.clone(), told), (FinishReason::NoProgress, vec![(LoopPattern::SameCalls, 10, true)]));
    assert_eq!(notes(&outcome).len(), 1);
}

#[tokio::test]
async fn a_user_message_restarts_loop_detection() {
    let journal = Arc::new(MemoryJournal::new());
    let (agent, _) = agent(vec![ls()], |b| b.journal(journal));
    let (outcome, _) = watch(&agent, RunInput::new("Go.").thread("t")).await;
    assert_eq!(outcome.stop, FinishReason::NoProgress);
    let (outcome, told) = watch(&agent, RunInput::new("Try once more.").thread("t")).await;
    assert_eq!((outcome.stop.clone(), told.len()), (FinishReason::NoProgress, 2));
    assert_eq!(results(&outcome).len(), 20);
    check_history(outcome.messages()).unwrap();
}

#[tokio::test]
async fn a_looping_sub_agent_is_stopped_and_its_parent_is_told() {
    let child = |r: &deepagents::ModelRequest| r.messages.get(0).is_some_and(|m| m.text().contains("Search"));
    let task = json!({"description": "Search.", "subagent_type": "general-purpose"});
    let model = ScriptedModel::rules()
        .when(child, std::iter::repeat_n(ls(), 30))
        .always(Turn::with(move |r| match r.messages.len() {
            1 => Turn::call("task", task.clone()),
            _ => Turn::text("It got stuck."),
        }))
        .build();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let (outcome, _) = watch(&agent, "Go.").await;
    let told = &results(&outcome)[0].0;
    assert_eq!(outcome.stop, FinishReason::Done);
    assert!(told.contains("may not have finished: the agent repeated itself without progress"), "{told}");
    assert!(told.contains("the same call of ls was made 10 times"), "{told}");
}

#[tokio::test]
async fn thresholds_are_configurable_and_patterns_can_be_disabled() {
    let bounded = |b: DeepAgentBuilder| b.budget(Budget::default().model_calls(30));
    let early = LoopPolicy { same_calls: Some(LoopThreshold::new(2, 3).unwrap()), ..LoopPolicy::default() };
    let (quick, _) = agent(vec![ls()], |b| b.loop_detection(early));
    assert_eq!(watch(&quick, "Go.").await.0.model_calls, 3);

    let none = LoopPolicy { same_calls: None, ..LoopPolicy::default() };
    let (off, _) = agent(vec![ls()], |b| bounded(b.loop_detection(none)));
    assert_eq!(watch(&off, "Go.").await.0.stop, FinishReason::StepLimit);

    let (ignoring, _) = agent(vec![ls()], |b| bounded(b.loop_detection(LoopPolicy::default().ignoring(["ls"]))));
    assert_eq!(watch(&ignoring, "Go.").await.0.stop, FinishReason::StepLimit);

    let (without, _) = agent(vec![ls()], |b| bounded(b.without("LoopDetection")));
    assert_eq!(watch(&without, "Go.").await.0.stop, FinishReason::StepLimit);

    for (note, stop) in [(0, 5), (1, 2), (5, 5), (6, 5)] {
        let error = LoopThreshold::new(note, stop).unwrap_err().to_string();
        assert!(error.contains("give at least 2"), "{error}");
    }
}

#[test]
fn loop_detection_does_not_change_the_fixed_prompt() {
    let built = |b: DeepAgentBuilder| b.model(ScriptedModel::new([])).build().unwrap().explain();
    let (with, without) = (built(DeepAgent::builder()), built(DeepAgent::builder().without("LoopDetection")));
    assert_eq!((with.fixed_tokens, with.system), (without.fixed_tokens, without.system));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn turns_that_each_bring_something_new_are_never_a_loop(picks in prop::collection::vec(0..4usize, 1..40)) {
        let turns = picks.iter().map(|pick| match pick {
            0 => look("a"),
            1 => look("b"),
            2 => Turn::calls([("look", json!({"at": "c"})), ("ls", json!({"path": "/"}))]),
            _ => Turn::calls([("look", json!({})), ("no_such_tool", json!({}))]),
        });
        let turns: Vec<Turn> = turns.chain([Turn::text("Done.")]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (outcome, told) = runtime.block_on(async {
            let agent = DeepAgent::builder().model(ScriptedModel::new(turns)).tool(counting()).build().unwrap();
            watch(&agent, Message::user("Go.")).await
        });
        prop_assert_eq!((outcome.stop.clone(), told), (FinishReason::Done, vec![]));
    }
}
