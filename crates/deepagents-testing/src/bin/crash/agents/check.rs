//! What must hold after every kill and at the end.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use deepagents_core::message::Messages;

use super::cast::USAGE;
use super::log::Log;
use super::notes::Note;
use super::plan::{AgentPlan, MAIN, Operation, Plan};
use super::script::{Tag, is_unknown, report};

/// What is known of a run across its kills.
#[derive(Debug, Default)]
pub(crate) struct LoggedState {
    /// Results seen in the log, and how often their calls had taken effect when first seen there.
    finished: BTreeMap<String, (String, usize)>,
}

/// Returns the keys under which each call took effect.
fn effects(notes: &[Note]) -> BTreeMap<&str, Vec<&str>> {
    let mut effects: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for note in notes {
        if let Note::Effect { tag, key } = note {
            effects.entry(tag).or_default().push(key);
        }
    }
    effects
}

impl LoggedState {
    /// Checks what a process has left: finished calls stay finished, and no forbidden call was made.
    pub(crate) fn check(&mut self, plan: &Plan, log: &Log, notes: &[Note]) -> Result<()> {
        let effects = effects(notes);
        for tag in effects.keys() {
            ensure!(log.started.contains(*tag), "call {tag} took effect, and the log does not know of it");
        }
        for (tag, (before, _)) in &self.finished {
            let now = log.finished.get(tag).with_context(|| format!("the result of call {tag} was lost"))?;
            ensure!(now == before, "call {tag} was answered once more: {before}, then {now}");
        }
        for (tag, text) in &log.finished {
            let now = effects.get(tag.as_str()).map_or(0, Vec::len);
            let (_, then) = self.finished.entry(tag.clone()).or_insert_with(|| (text.clone(), now));
            ensure!(*then == now, "call {tag} had finished and was made again");
        }
        for (tag, keys) in effects {
            let operation = operation(plan, tag)?;
            let times = log.in_doubt.get(tag).copied().unwrap_or(0);
            let most = if operation.is_repeatable() { 1 + times } else { 1 };
            ensure!(keys.len() <= most, "call {tag} took effect {} times", keys.len());
            ensure!(*operation != Operation::Steal, "call {tag} was made, and a person had not approved it");
            ensure!(keys.iter().all(|key| keys.first() == Some(key)), "call {tag} had several keys: {keys:?}");
        }
        check_order(plan, notes)
    }
}

/// Checks the final state of the run.
pub(crate) fn check_end(plan: &Plan, log: &Log, notes: &[Note], messages: &Messages) -> Result<()> {
    deepagents_models::scripted::check_history(messages)?;
    ensure!(messages.last().is_some_and(|message| message.text() == report(MAIN)), "the main agent did not finish");
    let shown = shown(notes)?;
    let effects = effects(notes);
    for tag in effects.keys() {
        ensure!(shown.contains_key(*tag), "call {tag} took effect, and nobody was told of its result");
    }
    for tag in shown.keys() {
        ensure!(log.finished.contains_key(*tag), "the log lacks the result of call {tag}, which was shown");
    }
    for agent in &plan.agents {
        check_results(plan, log, agent, &shown, &effects)?;
    }
    check_spending(log, notes)
}

fn check_results(
    plan: &Plan,
    log: &Log,
    agent: &AgentPlan,
    shown: &BTreeMap<&str, &str>,
    effects: &BTreeMap<&str, Vec<&str>>,
) -> Result<()> {
    let parsed: Vec<(Tag, &str)> = shown.iter().filter_map(|(tag, text)| Some((Tag::parse(tag)?, *text))).collect();
    for (turn, operations) in agent.turns.iter().enumerate() {
        for (at, operation) in operations.iter().enumerate() {
            let name = agent.name;
            let of = |tag: &&(Tag, &str)| tag.0.agent == name && (tag.0.turn, tag.0.at) == (turn, at);
            let results: Vec<&(Tag, &str)> = parsed.iter().filter(of).collect();
            ensure!(!results.is_empty(), "operation {at} of turn {turn} of {name} was never made");
            let again = operation.path().is_some();
            ensure!(again || results.len() == 1, "operation {at} of turn {turn} of {name} was made twice");
            for (tag, text) in results {
                if is_unknown(text) {
                    ensure!(
                        log.in_doubt.contains_key(&tag.to_string()),
                        "call {tag} was answered as unknown and was not"
                    );
                    ensure!(!operation.is_repeatable(), "call {tag} may be made again and was not");
                    ensure!(
                        !matches!(operation, Operation::Delegate(_) | Operation::Start(_)),
                        "the work of call {tag} was given up"
                    );
                    continue;
                }
                let result = plan.result(operation, tag);
                if *operation == Operation::Steal {
                    ensure!(text.contains("Do not."), "rejected call {tag} came to: {text}");
                    continue;
                }
                ensure!(result.as_deref().is_none_or(|result| result == *text), "call {tag} came to: {text}");
                if plan.is_noted(operation) {
                    let done = effects.contains_key(tag.to_string().as_str());
                    ensure!(done, "call {tag} came to {text:?} and had no effect");
                }
            }
        }
    }
    Ok(())
}

fn operation<'a>(plan: &'a Plan, tag: &str) -> Result<&'a Operation> {
    let operation = Tag::parse(tag).and_then(|tag| tag.operation(plan));
    operation.with_context(|| format!("the plan has no call {tag}"))
}

/// Checks that no agent goes back: once an answer is stored, no process requests it again.
fn check_order(plan: &Plan, notes: &[Note]) -> Result<()> {
    // The number of answers of an agent that are certainly stored.
    let mut stored: BTreeMap<String, usize> = BTreeMap::new();
    let mut asked: BTreeSet<(&str, usize, bool)> = BTreeSet::new();
    let mut decided = false;
    for note in notes {
        match note {
            Note::Killed => asked.clear(),
            Note::Decided => decided = true,
            Note::Interrupted { .. } => {}
            Note::Effect { tag, .. } => {
                ensure!(
                    decided || *operation(plan, tag)? != Operation::Pay,
                    "call {tag} was made before it was decided on"
                );
                let Some(tag) = Tag::parse(tag) else { continue };
                let answers = stored.entry(tag.agent).or_default();
                *answers = (*answers).max(tag.answer + 1);
            }
            Note::Model { agent, after, summary, .. } => {
                let shown = after.map_or(0, |answer| answer + 1);
                // The main agent is called again when background results arrive.
                let told = agent == MAIN && plan.has_background();
                let twice = !asked.insert((agent, shown, *summary)) && !told;
                ensure!(!twice, "{agent} was asked twice after {shown} answers by one process");
                // A summary covers earlier answers.
                if !summary {
                    let answers = stored.entry(agent.clone()).or_default();
                    ensure!(shown >= *answers, "{agent} had given {answers} answers and was asked as after {shown}");
                    *answers = shown;
                }
            }
        }
    }
    Ok(())
}

/// Returns the results that agents were shown, by tag, and checks that each was always the same.
fn shown(notes: &[Note]) -> Result<BTreeMap<&str, &str>> {
    let mut shown: BTreeMap<&str, &str> = BTreeMap::new();
    for note in notes {
        let Note::Model { results, .. } = note else { continue };
        for (tag, text) in results {
            let before = *shown.entry(tag).or_insert(text);
            ensure!(before == text, "the result of {tag} was {before} and became {text}");
        }
    }
    Ok(shown)
}

/// Checks that the recorded spending is at least the cost of the stored answers and at most that of all requests.
fn check_spending(log: &Log, notes: &[Note]) -> Result<()> {
    let spent = log.spent.context("the log does not say what was spent")?;
    let mut answers: BTreeSet<(&str, Option<usize>)> = BTreeSet::new();
    let mut requests = 0_u64;
    for note in notes {
        if let Note::Model { agent, after, summary, .. } = note {
            requests += 1;
            if !summary {
                answers.insert((agent, *after));
            }
        }
    }
    let least = answers.len() as u64;
    let fits = |number: u64, each: u64| (least * each..=requests * each).contains(&number);
    ensure!(
        fits(spent.model_calls, 1) && fits(spent.output, USAGE.output),
        "{least} answers were given to {requests} requests, and {spent:?} is said to be spent"
    );
    Ok(())
}
