//! The contents of a log, and that they are the thread.

use std::sync::Arc;

use deepagents_core::env::{FixedClock, Timestamp};
use deepagents_core::journal::{Journal, JournalError, MemoryJournal, Record, RecordUpdate, fold};
use deepagents_core::last_value;
use deepagents_core::message::Message;
use deepagents_core::middleware::{HookOutput, Middleware, after_model};
use deepagents_core::run::RunInput;
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_core::tool::ToolOutput;
use deepagents_models::scripted::{ScriptedModel, Turn};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::appends::Appends;
use crate::support::{agent, assert_sound, records, tool, write};

last_value!(City("city"): Option<String>);

struct Channels;
impl Middleware for Channels {
    fn name(&self) -> &str {
        "Channels"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<City>()]
    }
}

/// What a tool does in a generated turn.
#[derive(Clone, Debug)]
struct Act {
    city: bool,
    says: bool,
    fails: bool,
}

fn any_act() -> impl Strategy<Value = Act> {
    any::<(bool, bool, bool)>().prop_map(|(city, says, fails)| Act { city, says, fails })
}

/// Runs these turns on a thread. Returns the agent, the journal and the final state.
async fn lived(turns: &[Vec<Act>]) -> (deepagents_core::agent::Agent, Arc<MemoryJournal>, Value) {
    let journal = Arc::new(MemoryJournal::with_clock(Arc::new(FixedClock(Timestamp::UNIX_EPOCH))));
    let act = tool("act", |args: Value, cx| async move {
        if args["fails"] == true {
            Err(deepagents_core::tool::ToolError::model("no"))?;
        }
        let mut output = ToolOutput::text("ok").with_artifact(json!({"args": args}));
        if args["city"] == true {
            output = output.with_update(Update::new::<City>(Some(cx.provider_call_id().to_owned())));
        }
        if args["says"] == true {
            output = output.with_update(Update::message(Message::harness("beside")));
        }
        Ok(output)
    });
    let mut script: Vec<Turn> = turns
        .iter()
        .map(|acts| {
            let args = |a: &Act| json!({"city": a.city, "says": a.says, "fails": a.fails});
            Turn::calls(acts.iter().map(|a| ("act", args(a)))).thinking("hm").and_text("so")
        })
        .collect();
    script.push(Turn::text("done"));
    let agent = agent(ScriptedModel::new(script))
        .middleware(Channels)
        .middleware(after_model(|cx: deepagents_core::run::Context| async move {
            let calls = cx.messages().last().and_then(|m| m.as_assistant().map(|a| a.has_calls()));
            Ok(if calls == Some(false) { HookOutput::message("noted") } else { HookOutput::next() })
        }))
        .tool(act)
        .journal(journal.clone())
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_sound(outcome.messages());
    let state = Value::Object(outcome.state.to_json(true).unwrap());
    (agent, journal, state)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_log_folds_to_the_runs_final_state_even_after_json(
        turns in prop::collection::vec(prop::collection::vec(any_act(), 1..4), 0..4)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (agent, journal, state) = lived(&turns).await;
            let log = records(&*journal, "t").await;
            let texts: Vec<String> = log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
            let read: Vec<Record> = texts.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
            let again: Vec<String> = read.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
            prop_assert_eq!(&texts, &again);
            for records in [log, read] {
                let folded = fold("t", agent.schema().clone(), records).unwrap();
                prop_assert_eq!(Value::Object(folded.state.to_json(true).unwrap()), state.clone());
                prop_assert!(folded.in_doubt.is_empty());
                prop_assert!(folded.late.is_empty());
            }
            Ok(())
        })?;
    }
}

#[tokio::test]
async fn a_turns_log_records_its_events_in_order() {
    let act = Act { city: true, says: true, fails: false };
    let (_, journal, _) = lived(&[vec![act]]).await;
    let log = records(&*journal, "t").await;
    let lines: Vec<String> = log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
    insta::assert_snapshot!("log_of_a_turn", lines.join("\n"));
}

#[tokio::test]
async fn bytes_written_per_step_do_not_grow_with_the_thread() {
    let turns = vec![vec![Act { city: true, says: false, fails: false }]; 60];
    let (_, journal, _) = lived(&turns).await;
    let log = records(&*journal, "t").await;
    let size = |records: &[Record]| -> usize { records.iter().map(|r| serde_json::to_string(r).unwrap().len()).sum() };
    let half = log.len() / 2;
    let (early, late) = (size(&log[..half]), size(&log[half..]));
    assert!(late < early + early / 10, "{early} bytes in the first half, {late} in the second");
}

#[tokio::test]
async fn a_memory_journal_appends_only_at_its_end_and_reads_up_to_a_position() {
    let journal = MemoryJournal::new();
    let record = |run: &str| Record::RunFinished { run: run.to_owned(), stop: None };
    assert_eq!(write(&journal, "t", 0, vec![record("a"), record("b")]).await.unwrap(), 2);
    let error = write(&journal, "t", 1, vec![record("c")]).await.unwrap_err();
    assert!(matches!(error, JournalError::Conflict { expected: 1, found: 2, .. }), "{error:?}");
    assert!(matches!(write(&journal, "u", 5, vec![]).await, Err(JournalError::Conflict { found: 0, .. })));
    assert_eq!(write(&journal, "t", 2, vec![record("c")]).await.unwrap(), 3);
    assert_eq!(journal.load("t", Some(2)).await.unwrap().entries.len(), 2);
    assert_eq!(journal.load("t", Some(99)).await.unwrap().entries.len(), 3);
    assert!(journal.load("nobody", None).await.unwrap().entries.is_empty());
}

#[test]
fn a_stored_update_skips_channels_the_agent_no_longer_has() {
    let schema = deepagents_core::state::Schema::new([ChannelSpec::new::<City>()]).unwrap();
    let stored = vec![("gone".to_owned(), json!(1)), ("city".to_owned(), json!("Oslo"))];
    let update = RecordUpdate::Stored(stored).resolve(&schema).unwrap();
    assert_eq!(update.channels().collect::<Vec<_>>(), ["city"]);
}

#[tokio::test]
async fn a_turn_is_appended_once_with_its_answer_and_once_with_its_result() {
    let mut appends = Vec::new();
    for turns in [1, 4] {
        let journal = Arc::new(Appends::default());
        let looks = (0..turns).map(|_| Turn::call("look", json!({}))).chain([Turn::text("done")]);
        let look = tool("look", |_: Value, _cx| async { Ok(ToolOutput::text("a cat")) });
        let agent = agent(ScriptedModel::new(looks)).tool(look).journal(journal.clone()).build().unwrap();
        agent.run(RunInput::new("go").thread("t")).outcome().await.unwrap();
        appends.push(journal.ends("t").len());
    }
    assert_eq!(appends[1] - appends[0], 2 * 3, "{appends:?}");
}
