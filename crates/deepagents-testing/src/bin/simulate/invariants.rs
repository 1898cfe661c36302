//! What must hold after every run and at the end.

use std::sync::Arc;

use anyhow::Result;
use deepagents::channels::Files;
use deepagents::fs::VPath;
use deepagents::{DeepAgent, FinishReason, Outcome};
use deepagents_core::journal::{Journal, Record, encode, fold, load};
use deepagents_core::run::BudgetUsage;

use super::cast::{USAGE, path};
use super::script::Tag;
use super::world::World;

/// Checks what always holds: the log is complete, and replaying it from its start or from a snapshot gives the same
/// state.
pub(crate) async fn check(world: &Arc<World>, agent: &DeepAgent) -> Result<()> {
    let thread = world.thread();
    let Some(info) = world.journal.threads().get(&thread).await? else { return Ok(()) };
    let entries = world.journal.read(&thread, 0..info.end).await?;
    let branches = world.lock().branches.clone();
    let expected = (0..info.end).filter(|at| !branches.is_removed(*at));
    let whole = expected.eq(entries.iter().map(|entry| entry.position));
    world.check(whole, || format!("the log has {} records and ends at {}", entries.len(), info.end));
    let schema = agent.schema();
    let loaded = match load(&*world.journal, &thread, schema.clone(), None).await {
        Ok(loaded) => loaded.state.to_json(true)?,
        Err(error) => {
            world.broken(&format!("the log cannot be read: {error}"));
            return Ok(());
        }
    };
    // If records were removed or the thread was rewound, the plain sequence of records is not a state.
    if !branches.is_plain() {
        return Ok(());
    }
    let records: Vec<Record> = entries.into_iter().map(|entry| entry.record).collect();
    match fold(&thread, schema.clone(), records) {
        Ok(folded) => {
            let folded = folded.state.to_json(true)?;
            world.check(folded == loaded, || "a snapshot is not what the records amount to".to_owned());
        }
        Err(error) => world.broken(&format!("the log cannot be read: {error}")),
    }
    Ok(())
}

/// Checks the outcome of a run whose thread no other process has claimed: it equals the state in the log.
pub(crate) async fn check_outcome(world: &Arc<World>, agent: &DeepAgent, outcome: &Outcome) -> Result<()> {
    // Results of an open turn are in the log but not yet in the conversation.
    if matches!(outcome.stop, FinishReason::Interrupted | FinishReason::Suspended) {
        return Ok(());
    }
    // A run that ended before it loaded its thread has no state.
    if outcome.messages().is_empty() {
        return Ok(());
    }
    let log = load(&*world.journal, &world.thread(), agent.schema().clone(), None).await?;
    let (run, stored) = (outcome.state.to_json(true)?, log.state.to_json(true)?);
    for (channel, value) in &run {
        let there = stored.get(channel);
        world.check(there == Some(value), || {
            format!(
                "what the run left in {channel} is not in its log: {value} and {}",
                there.cloned().unwrap_or_default()
            )
        });
    }
    Ok(())
}

/// Checks what holds once the thread is finished.
pub(crate) async fn check_end(world: &Arc<World>, agent: &DeepAgent, outcome: &Outcome) -> Result<()> {
    if let Err(error) = deepagents_models::scripted::check_history(outcome.messages()) {
        world.broken(&format!("the history is not whole: {error}"));
    }
    check_outcome(world, agent, outcome).await?;
    check_files(world, outcome);
    check_words(world, outcome);
    check_spending(world, outcome.spent).await
}

/// Checks that files created by finished calls exist.
fn check_files(world: &World, outcome: &Outcome) {
    let finished = world.lock().finished.clone();
    let files = outcome.state.get::<Files>();
    for (tag, text) in finished {
        let Some(tag) = Tag::parse(&tag).filter(|tag| !world.scenario.is_in_background(&tag.agent)) else {
            continue;
        };
        let path = path(&tag);
        if text.contains(&path) && !text.contains("rror") && !text.contains("not ") && !text.contains("unknown") {
            let there = files.is_some_and(|files| VPath::parse(&path).is_ok_and(|path| files.get(&path).is_some()));
            world.check(there, || format!("{path} was made, and is lost: {text:?}"));
        }
    }
}

/// Checks that each message sent to a run in flight appears at most once.
fn check_words(world: &World, outcome: &Outcome) {
    let messages: Vec<String> = outcome.messages().iter().map(|message| message.text()).collect();
    let said = world.lock().accepted.clone();
    for text in said {
        let times = messages.iter().filter(|message| message.contains(&text)).count();
        world.check(times <= 1, || format!("{text:?} was said once and is there {times} times"));
    }
}

/// Checks that the recorded spending is at most that of all requests and at least that of the stored answers.
async fn check_spending(world: &Arc<World>, spent: BudgetUsage) -> Result<()> {
    let requests = world.lock().requests;
    let answers = stored_answers(world).await?;
    let calls = spent.model_calls;
    world.check(calls <= requests, || format!("{requests} requests were made, and {calls} are counted"));
    let (output, each) = (spent.usage.output, USAGE.output);
    world
        .check(output <= requests * each, || format!("{requests} requests were made, and {output} tokens are counted"));
    world.check(output >= answers * each, || format!("{answers} answers are stored, and {output} tokens are counted"));
    Ok(())
}

/// Counts the answers that the last run has stored, across all its processes.
async fn stored_answers(world: &World) -> Result<u64> {
    let mut answers = 0;
    let (thread, branches) = (world.thread(), world.lock().branches.clone());
    let end = world.journal.threads().get(&thread).await?.map_or(0, |info| info.end);
    for entry in world.journal.read(&thread, 0..end).await? {
        if !branches.is_live(entry.position, end) {
            continue;
        }
        let mut record = &entry.record;
        if matches!(record, Record::RunStarted { .. }) {
            answers = 0;
        }
        while let Record::Child { entry, .. } = record {
            record = entry;
        }
        if matches!(record, Record::Update { .. }) {
            answers += u64::from(encode(record)?.contains("\"role\":\"assistant\""));
        }
    }
    Ok(answers)
}
