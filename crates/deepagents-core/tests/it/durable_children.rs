//! Subagents whose process ended: finished work is kept, and they resume where they were.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::env::RandomIds;
use deepagents_core::forward_journal;
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::{
    Appended, Fence, Journal, JournalError, LogPosition, MemoryJournal, Record, RetentionPolicy, RunStatus,
};
use deepagents_core::model::ModelRequest;
use deepagents_core::run::{Budget, FinishReason, Outcome, RunInput};
use deepagents_core::state::{Channel, ChannelError, ChannelSpec, Sharing, Update};
use deepagents_core::tool::{CallId, Tool, ToolContext, ToolError, ToolOutput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::{Value, json};

use crate::appends::Appends;
use crate::support::{Notes, agent, assert_sound, lines, records, tool};

/// The work done, as a list passed to child agents and back.
struct Done;

impl Channel for Done {
    const NAME: &'static str = "done";
    const SHARING: Sharing<Self::Value, Self::Update> =
        Sharing::shared_by(|given, left| left.get(given.len()..).map(<[String]>::to_vec));
    type Value = Vec<String>;
    type Update = Vec<String>;

    fn reduce(value: &mut Vec<String>, update: Vec<String>) -> Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

/// Declares the channel.
struct Keeps;

impl deepagents_core::middleware::Middleware for Keeps {
    fn name(&self) -> &str {
        "Keeps"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Done>()]
    }
}

/// Delegates to a child agent.
struct Task(Agent);

impl Tool for Task {
    type Args = Value;

    fn name(&self) -> &str {
        "task"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn idempotent(&self, _args: &Value) -> bool {
        true
    }

    async fn call(&self, _args: Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let given = cx.state().fork(self.0.schema().clone())?;
        let ended = cx.run_child(&self.0, "task", given, "do it").await?;
        let text = ended.result?.text();
        Ok(ToolOutput::text(text).with_child_state(ended.child_state))
    }
}

/// Makes the calls of each turn, then returns a text, whatever the tools returned.
fn model(turns: Vec<Vec<(&'static str, Value)>>) -> ScriptedModel {
    let asked = move |request: &ModelRequest| {
        let turn = request.messages.iter().filter(|message| message.as_assistant().is_some()).count();
        match turns.get(turn) {
            Some(calls) => Turn::calls(calls.clone()),
            None => Turn::text("done"),
        }
        .usage(deepagents_core::message::Usage { input: 10, output: 1, ..Default::default() })
    };
    ScriptedModel::rules().always(Turn::with(asked)).build()
}

/// An agent `depth` levels above the leaf. Each agent works, delegates twice in parallel, and works again.
fn tree(depth: usize, notes: &Notes, journal: Option<&Arc<Appends>>) -> Agent {
    let noted = notes.clone();
    let work = tool("work", move |_, cx| {
        noted.add(cx.call_id().to_string());
        async move {
            let done = Update::new::<Done>(vec![cx.call_id().to_string()]);
            Ok(ToolOutput::text("worked").with_update(done))
        }
    });
    let work_twice = vec![("work", json!({})), ("work", json!({}))];
    let built = if depth == 0 {
        agent(model(vec![work_twice.clone(), work_twice]))
    } else {
        let tasks = vec![("task", json!({})), ("task", json!({})), ("work", json!({}))];
        let below = tree(depth - 1, notes, None);
        agent(model(vec![work_twice.clone(), tasks, work_twice])).tool(Task(below))
    };
    let built = built.name(format!("level{depth}")).ids(RandomIds).middleware(Keeps).tool(work);
    match journal {
        Some(journal) => built.journal(journal.clone()).build().unwrap(),
        None => built.build().unwrap(),
    }
}

/// The `work` calls that have started according to the log, and those that have finished.
fn worked(records: &[Record]) -> (BTreeSet<CallId>, BTreeSet<CallId>) {
    let (mut started, mut finished) = (BTreeSet::new(), BTreeSet::new());
    for record in records {
        let mut record = record;
        while let Record::Child { entry, .. } = record {
            record = entry;
        }
        match record {
            Record::ToolStarted { call, name, .. } if name == "work" => started.insert(call.clone()),
            // An aborted call has not done its work.
            Record::ToolFinished { call, message, .. } if message.name == "work" && !message.is_error => {
                finished.insert(call.clone())
            }
            _ => continue,
        };
    }
    (started, finished)
}

fn calls(calls: &BTreeSet<CallId>) -> BTreeSet<String> {
    calls.iter().map(ToString::to_string).collect()
}

fn done(outcome: &Outcome) -> BTreeSet<String> {
    let list = outcome.state.get::<Done>().unwrap().clone();
    let set: BTreeSet<String> = list.iter().cloned().collect();
    assert_eq!(set.len(), list.len(), "what was done is handed back once: {list:?}");
    set
}

#[tokio::test]
async fn a_log_cut_anywhere_resumes_every_sub_agent_without_repeating_or_losing_work() {
    for depth in [1, 2] {
        let journal = Arc::new(Appends::default());
        let notes = Notes::default();
        let whole = tree(depth, &notes, Some(&journal)).invoke(RunInput::new("go").thread("t")).await.unwrap();
        let all: BTreeSet<String> = notes.list().into_iter().collect();
        assert_eq!(all.len(), if depth == 1 { 13 } else { 31 }, "depth {depth}");
        assert_eq!(done(&whole), all, "everything comes back to the main agent");
        let log = records(&*journal, "t").await;
        for cut in journal.cuts() {
            let thread = format!("t{cut}");
            journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
            let (started, finished) = worked(&log[..cut]);
            let notes = Notes::default();
            let agent = tree(depth, &notes, Some(&journal));
            let outcome = agent.invoke(RunInput::resume(thread.as_str())).await.unwrap();
            assert_sound(outcome.messages());
            assert_eq!(outcome.text(), "done", "cut at {cut} of depth {depth}");
            let again: BTreeSet<String> = notes.list().into_iter().collect();
            assert_eq!(again.len(), notes.list().len(), "no call is made twice, cut at {cut}");
            let began = calls(&started);
            assert!(again.is_disjoint(&began), "what had begun is not made again, cut at {cut}");
            let made: BTreeSet<String> = again.union(&began).cloned().collect();
            assert_eq!(made, all, "every call is made, cut at {cut} of depth {depth}");
            // Calls in doubt have no result; everything else is passed back.
            let in_doubt: BTreeSet<String> = calls(&started.difference(&finished).cloned().collect());
            let expected: BTreeSet<String> = all.difference(&in_doubt).cloned().collect();
            assert_eq!(done(&outcome), expected, "cut at {cut} of depth {depth}");
        }
    }
}

#[tokio::test]
async fn a_thread_that_continues_differently_keeps_its_sub_agents_finished_work() {
    let journal = Arc::new(Appends::default());
    let notes = Notes::default();
    tree(2, &notes, Some(&journal)).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let log = records(&*journal, "t").await;
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (_, finished) = worked(&log[..cut]);
        let agent = tree(0, &Notes::default(), Some(&journal));
        let outcome = agent.invoke(RunInput::new("something else").thread(thread.as_str())).await.unwrap();
        assert_sound(outcome.messages());
        let before: BTreeSet<String> = calls(&finished);
        assert!(done(&outcome).is_superset(&before), "cut at {cut}: {:?} of {before:?}", done(&outcome));
    }
}

#[tokio::test]
async fn history_may_be_pruned_while_sub_agents_are_working() {
    let journal = Arc::new(Appends::default());
    let notes = Notes::default();
    tree(2, &notes, Some(&journal)).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let all: BTreeSet<String> = notes.list().into_iter().collect();
    let log = records(&*journal, "t").await;
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (started, _) = worked(&log[..cut]);
        let notes = Notes::default();
        let agent = tree(2, &notes, Some(&journal));
        agent.prune(&thread, &RetentionPolicy::Latest).await.unwrap();
        let outcome = agent.invoke(RunInput::resume(thread.as_str())).await.unwrap();
        assert_eq!(outcome.text(), "done");
        let again: BTreeSet<String> = notes.list().into_iter().collect();
        let made: BTreeSet<String> = again.union(&calls(&started)).cloned().collect();
        assert!(again.is_disjoint(&calls(&started)) && made == all, "cut at {cut}");
    }
}

#[tokio::test]
async fn every_sub_agents_conversation_can_be_read_at_any_depth() {
    let journal = Arc::new(Appends::default());
    let agent = tree(2, &Notes::default(), Some(&journal));
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let all = agent.sub_agents("t").await.unwrap();
    assert_eq!(all.len(), 6);
    for info in &all {
        let depth = info.path.len();
        assert_eq!((info.agent.as_str(), info.status), (["level1", "level0"][depth - 1], RunStatus::Ended));
        let state = agent.sub_agent_state("t", &info.path).await.unwrap();
        assert_sound(state.messages());
        let lines = lines(state.messages());
        assert_eq!((lines[0].as_str(), lines.last().unwrap().as_str()), ("user: do it", "assistant: done"));
        assert_eq!(lines.iter().filter(|line| *line == "result: worked").count(), [5, 4][depth - 1]);
        let own = format!("{}/0.0", info.path.join("/"));
        assert!(state.get::<Done>().unwrap().contains(&own), "what it was handed and what it did are there");
    }
    let unknown = agent.sub_agent_state("t", &["task:9.9".to_owned()]).await.unwrap_err();
    assert_eq!(unknown.to_string(), "thread `t` has no sub-agent `task:9.9`; `sub_agents` lists those it has");
}

#[tokio::test]
async fn sub_agent_spending_counts_once_however_often_the_process_dies() {
    let journal = Arc::new(Appends::default());
    let limited = || RunInput::new("go").thread("t").budget(Budget::default().tokens(1_000_000));
    let whole = tree(2, &Notes::default(), Some(&journal)).invoke(limited()).await.unwrap();
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let agent = tree(2, &Notes::default(), Some(&journal));
        let outcome = agent.invoke(RunInput::resume(thread.as_str())).await.unwrap();
        let (spent, expected) = (outcome.spent.usage.total(), whole.spent.usage.total());
        // A response missing from the log is requested again: at most one per active agent.
        assert!(spent <= expected && spent + 3 * 2 * 11 >= expected, "cut at {cut}: {spent} of {expected}");
    }
}

/// Subagents that interrupt before they work.
fn asking(notes: &Notes, journal: &Arc<Appends>) -> Agent {
    let noted = notes.clone();
    let asks = tool("asks", move |_, cx| {
        let noted = noted.clone();
        async move {
            let decision = cx.interrupt("May I?", [DecisionKind::Approve, DecisionKind::Reject])?;
            noted.add(format!("{} {decision:?}", cx.call_id()));
            Ok("asked")
        }
    });
    let noted = notes.clone();
    let work = tool("work", move |_, cx| {
        noted.add(cx.call_id().to_string());
        async { Ok("worked") }
    });
    let turns =
        vec![vec![("work", json!({}))], vec![("asks", json!({})), ("work", json!({}))], vec![("asks", json!({}))]];
    let below = agent(model(turns)).name("below").ids(RandomIds).tool(asks).tool(work).build().unwrap();
    let tasks = vec![("task", json!({})), ("task", json!({}))];
    let above = agent(model(vec![tasks])).ids(RandomIds).middleware(Keeps).tool(Task(below));
    above.journal(journal.clone()).build().unwrap()
}

async fn answered(agent: &Agent, thread: &str) -> Outcome {
    let mut outcome = agent.invoke(RunInput::resume(thread)).await.unwrap();
    for _ in 0..20 {
        let Some(question) = outcome.action_requests().pop() else { return outcome };
        outcome = agent.invoke(RunInput::resume(thread).decide(question.id, Decision::Approve)).await.unwrap();
    }
    panic!("the questions do not end");
}

#[tokio::test]
async fn a_waiting_or_answered_sub_agent_continues_after_a_cut_anywhere() {
    let journal = Arc::new(Appends::default());
    let notes = Notes::default();
    let agent = asking(&notes, &journal);
    agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    answered(&agent, "t").await;
    let all: BTreeSet<String> = notes.list().into_iter().collect();
    assert_eq!((all.len(), notes.list().len()), (8, 8), "{all:?}");
    let log = records(&*journal, "t").await;
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let notes = Notes::default();
        let outcome = answered(&asking(&notes, &journal), &thread).await;
        assert_sound(outcome.messages());
        assert_eq!(lines(outcome.messages())[2..], ["result: done", "result: done", "assistant: done"], "cut at {cut}");
        let again: BTreeSet<String> = notes.list().into_iter().collect();
        let (started, finished) = worked(&log[..cut]);
        assert!(again.is_disjoint(&calls(&started)), "cut at {cut}");
        assert_eq!(again.len(), notes.list().len(), "cut at {cut}");
        let missing = all.iter().filter(|call| !again.contains(*call)).count();
        let asked = log[..cut].iter().filter(|record| {
            let Record::Child { entry, .. } = record else { return false };
            matches!(&**entry, Record::ToolFinished { message, .. } if message.name == "asks")
        });
        let doubtful = started.difference(&finished).count();
        assert!(missing <= finished.len() + asked.count() + doubtful + 2, "cut at {cut}: {missing} missing");
    }
}

#[tokio::test]
async fn spending_of_waiting_sub_agents_counts_once_wherever_the_log_is_cut() {
    let journal = Arc::new(Appends::default());
    let agent = asking(&Notes::default(), &journal);
    let limited = RunInput::new("go").thread("t").budget(Budget::default().tokens(1_000_000));
    agent.invoke(limited).await.unwrap();
    let outcome = answered(&agent, "t").await;
    // Two responses of the main agent, and four of each subagent.
    let calls = 2 + 2 * 4;
    assert_eq!((outcome.spent.model_calls, outcome.spent.usage.total()), (calls, calls * 11));
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let spent = answered(&asking(&Notes::default(), &journal), &thread).await.spent.usage.total();
        // A response missing from the log is requested again: at most one per active agent.
        assert!(spent <= calls * 11 && spent + 2 * 11 >= calls * 11, "cut at {cut}: {spent}");
    }
}

#[tokio::test]
async fn the_cost_of_stored_answers_is_never_lost_while_sub_agents_wait() {
    for seed in 0..60 {
        let mut random = fastrand::Rng::with_seed(seed);
        let journal = Arc::new(Appends::default());
        let limited = RunInput::new("go").thread("t").budget(Budget::default().tokens(1_000_000));
        asking(&Notes::default(), &journal).invoke(limited).await.unwrap();
        let mut thread = "t".to_owned();
        let mut begun = 0;
        let mut outcome;
        let mut processes = 0;
        loop {
            let agent = asking(&Notes::default(), &journal);
            outcome = agent.invoke(RunInput::resume(thread.as_str())).await.unwrap();
            for _ in 0..random.usize(0..3) {
                let Some(question) = outcome.action_requests().pop() else { break };
                let answer = RunInput::resume(thread.as_str()).decide(question.id, Decision::Approve);
                outcome = agent.invoke(answer).await.unwrap();
            }
            processes += 1;
            if outcome.text() == "done" && (processes > 12 || random.bool()) {
                break;
            }
            let ends: Vec<usize> = journal.ends(&thread).into_iter().filter(|end| *end > begun).collect();
            let Some(cut) = random.choice(ends) else { continue };
            begun = cut;
            let next = format!("t{processes}");
            journal.threads().copy(&thread, &next, Some(cut as u64)).await.unwrap();
            thread = next;
        }
        let stored = records(&*journal, &thread).await.iter().filter(|record| is_answer(record)).count() as u64;
        assert_eq!(stored, 10, "seed {seed}");
        assert!(outcome.spent.model_calls >= stored, "seed {seed}: {} of {stored}", outcome.spent.model_calls);
    }
}

/// Whether a record stores a model response.
fn is_answer(record: &Record) -> bool {
    let record = if let Record::Child { entry, .. } = record { entry } else { record };
    let Record::Update { .. } = record else { return false };
    deepagents_core::journal::encode(record).unwrap().contains("\"assistant\"")
}

/// An agent whose subagent works, interrupts, and works again in the process that has the answer.
fn asking_in_between(notes: &Notes, journal: &Arc<Appends>) -> Agent {
    let noted = notes.clone();
    let work = tool("work", move |_, cx| {
        noted.add(cx.call_id().to_string());
        let done = Update::new::<Done>(vec![cx.call_id().to_string()]);
        async move { Ok(ToolOutput::text("worked").with_update(done)) }
    });
    let noted = notes.clone();
    let asks = tool("asks", move |_, cx| {
        let noted = noted.clone();
        async move {
            cx.interrupt("May I?", DecisionKind::ALL)?;
            noted.add(format!("asked {}", cx.call_id()));
            Ok("asked")
        }
    });
    let turns = [vec![("work", json!({}))], vec![("asks", json!({}))], vec![("work", json!({}))]];
    let below = agent(model(turns.to_vec())).name("below").ids(RandomIds).middleware(Keeps).tool(work).tool(asks);
    let above = agent(model(vec![vec![("task", json!({}))]])).ids(RandomIds).middleware(Keeps);
    above.tool(Task(below.build().unwrap())).journal(journal.clone()).build().unwrap()
}

#[tokio::test]
async fn a_waiting_sub_agents_remaining_work_survives_a_crash_after_the_answer() {
    let journal = Arc::new(Appends::default());
    let notes = Notes::default();
    let agent = asking_in_between(&notes, &journal);
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    let waited = records(&*journal, "t").await.len();
    let answer = RunInput::resume("t").decide(waits.action_requests().remove(0).id, Decision::Approve);
    let whole = agent.invoke(answer).await.unwrap();
    let (all, left) = (notes.list(), done(&whole));
    assert_eq!((all.len(), left.len()), (3, 2), "{all:?}");
    let log = records(&*journal, "t").await;
    for cut in journal.cuts().into_iter().filter(|cut| *cut > waited) {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (started, finished) = worked(&log[..cut]);
        let notes = Notes::default();
        let outcome = asking_in_between(&notes, &journal).invoke(RunInput::resume(thread.as_str())).await.unwrap();
        assert_sound(outcome.messages());
        assert!(outcome.action_requests().is_empty(), "it was answered, cut at {cut}");
        let in_doubt = calls(&started.difference(&finished).cloned().collect());
        assert_eq!(done(&outcome), left.difference(&in_doubt).cloned().collect(), "cut at {cut}");
        let again: BTreeSet<String> = notes.list().into_iter().collect();
        assert!(again.is_disjoint(&calls(&started)), "cut at {cut}: {again:?}");
    }
}

#[tokio::test]
async fn a_sub_agent_whose_call_may_not_be_repeated_hands_back_its_changes() {
    let journal = Arc::new(Appends::default());
    tree(2, &Notes::default(), Some(&journal)).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let log = records(&*journal, "t").await;
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (_, finished) = worked(&log[..cut]);
        let agent = tree(2, &Notes::default(), Some(&journal));
        let spent = RunInput::resume(thread.as_str()).budget(Budget::default().tool_calls(0));
        let outcome = agent.invoke(spent).await.unwrap();
        assert_sound(outcome.messages());
        assert!(done(&outcome).is_superset(&calls(&finished)), "cut at {cut}: {:?} of {finished:?}", done(&outcome));
    }
}

#[tokio::test]
async fn a_run_stopped_before_resuming_keeps_earlier_finished_work() {
    let journal = Arc::new(Appends::default());
    tree(2, &Notes::default(), Some(&journal)).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let log = records(&*journal, "t").await;
    for cut in journal.cuts() {
        let thread = format!("t{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (started, finished) = worked(&log[..cut]);
        let notes = Notes::default();
        let agent = tree(2, &notes, Some(&journal));
        let over = RunInput::resume(thread.as_str()).timeout(std::time::Duration::from_nanos(1));
        let outcome = agent.invoke(over).await.unwrap();
        assert_sound(outcome.messages());
        assert!(done(&outcome).is_superset(&calls(&finished)), "cut at {cut}: {:?} of {finished:?}", done(&outcome));
        // The results of the main agent's own calls are in the history exactly once.
        let own = finished.iter().filter(|call| call.path.is_empty()).count();
        let shown = lines(outcome.messages()).iter().filter(|line| *line == "result: worked").count();
        assert_eq!(shown, own, "cut at {cut}");
        let read_again = agent.state(&thread).await.unwrap();
        assert_eq!(lines(read_again.messages()), lines(outcome.messages()), "cut at {cut}");
        agent.invoke(RunInput::resume(thread.as_str())).await.unwrap();
        let again: BTreeSet<String> = notes.list().into_iter().collect();
        assert!(again.is_disjoint(&calls(&started)), "cut at {cut}: {again:?}");
    }
}

/// What the repeated delegating call does before it resumes its child agent.
#[derive(Clone, Copy, Debug)]
enum Before {
    GoesOn,
    Waits,
    Fails,
    Panics,
}

/// Delegates to a child agent, unless told otherwise.
struct Hesitates(Task, Before);

impl Tool for Hesitates {
    type Args = Value;

    fn name(&self) -> &str {
        self.0.name()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    fn idempotent(&self, args: &Value) -> bool {
        self.0.idempotent(args)
    }

    async fn call(&self, args: Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        match self.1 {
            Before::GoesOn => self.0.call(args, cx).await,
            Before::Waits => std::future::pending().await,
            Before::Fails => Err(ToolError::model("nobody is there")),
            Before::Panics => panic!("nobody is there"),
        }
    }
}

fn hesitating(before: Before, journal: &Arc<impl Journal>) -> Agent {
    let work = tool("work", |_, cx| {
        let done = Update::new::<Done>(vec![cx.call_id().to_string()]);
        async move { Ok(ToolOutput::text("worked").with_update(done)) }
    });
    let turns = vec![vec![("work", json!({}))], vec![("work", json!({})), ("work", json!({}))]];
    let below = agent(model(turns)).name("below").ids(RandomIds).middleware(Keeps).tool(work);
    let above = agent(model(vec![vec![("task", json!({})), ("task", json!({}))]])).ids(RandomIds).middleware(Keeps);
    above.tool(Hesitates(Task(below.build().unwrap()), before)).journal(journal.clone()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_before_resuming_its_sub_agent_keeps_the_sub_agents_work() {
    let journal = Arc::new(Appends::default());
    hesitating(Before::GoesOn, &journal).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let log = records(&*journal, "t").await;
    for (before, cut) in journal
        .cuts()
        .into_iter()
        .flat_map(|cut| [Before::GoesOn, Before::Waits, Before::Fails, Before::Panics].map(|before| (before, cut)))
    {
        let thread = format!("{before:?}-{cut}");
        journal.threads().copy("t", &thread, Some(cut as u64)).await.unwrap();
        let (_, finished) = worked(&log[..cut]);
        let agent = hesitating(before, &journal);
        let limited = RunInput::resume(thread.as_str()).timeout(Duration::from_secs(1));
        let outcome = agent.invoke(limited).await.unwrap();
        assert_sound(outcome.messages());
        let (done, kept) = (done(&outcome), calls(&finished));
        assert!(done.is_superset(&kept), "{before:?}, cut at {cut}: {done:?} of {kept:?}");
        let read_again = agent.state(&thread).await.unwrap();
        assert_eq!(read_again.get::<Done>(), outcome.state.get::<Done>(), "{before:?}, cut at {cut}");
    }
}

/// A journal in which one append takes longer than the grace period for subagents.
struct Stalls {
    inner: MemoryJournal,
    appends_before: AtomicUsize,
    seconds: u64,
}

impl Journal for Stalls {
    forward_journal!([.inner]; claim, renew, release, load, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            if self.appends_before.fetch_sub(1, Ordering::SeqCst) == 0 {
                tokio::time::sleep(Duration::from_secs(self.seconds)).await;
            }
            self.inner.append(thread, fence, expected, records).await
        })
    }
}

/// An agent that delegates twice in parallel, `depth` levels deep. Each leaf works three times.
fn delegating(depth: usize, journal: &Arc<Stalls>) -> Agent {
    let work = tool("work", |_, cx| {
        let done = Update::new::<Done>(vec![cx.call_id().to_string()]);
        async move { Ok(ToolOutput::text("worked").with_update(done)) }
    });
    let turns = vec![vec![("work", json!({}))], vec![("work", json!({})), ("work", json!({}))]];
    let mut below = agent(model(turns)).name("below").ids(RandomIds).middleware(Keeps).tool(work).build().unwrap();
    for _ in 1..depth {
        let middle = agent(model(vec![vec![("task", json!({}))]])).name("middle").ids(RandomIds).middleware(Keeps);
        below = middle.tool(Task(below)).build().unwrap();
    }
    let above = agent(model(vec![vec![("task", json!({})), ("task", json!({}))]])).ids(RandomIds).middleware(Keeps);
    above.tool(Task(below)).journal(journal.clone()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn sub_agents_aborted_while_the_storage_hangs_keep_what_was_logged() {
    let mut aborted = 0;
    for depth in 1..=3 {
        for appends_before in 0.. {
            let journal =
                Arc::new(Stalls { inner: MemoryJournal::new(), appends_before: appends_before.into(), seconds: 8 });
            let agent = delegating(depth, &journal);
            let limited = RunInput::new("go").thread("t").timeout(Duration::from_secs(1));
            let ended = agent.invoke(limited).await;
            let is_last = ended.as_ref().is_ok_and(|outcome| outcome.stop == FinishReason::Done);
            // By then, pending appends are written.
            tokio::time::sleep(Duration::from_secs(20)).await;
            let outcome = match ended {
                Ok(outcome) => outcome,
                // A new run reads everything that is in the log.
                Err(_) if agent.state("t").await.is_err() => continue,
                Err(_) => agent.invoke(RunInput::new("on").thread("t")).await.unwrap(),
            };
            let (_, finished) = worked(&records(&*journal, "t").await);
            let (done, kept) = (done(&outcome), calls(&finished));
            assert!(done.is_superset(&kept), "depth {depth}, append {appends_before}: {done:?} of {kept:?}");
            aborted += usize::from(!is_last && !kept.is_empty());
            let read_again = agent.state("t").await.unwrap();
            assert_eq!(read_again.get::<Done>(), outcome.state.get::<Done>(), "depth {depth}, append {appends_before}");
            if is_last {
                break;
            }
        }
    }
    assert!(aborted > 0, "nothing was aborted behind a finished call");
}

#[tokio::test(start_paused = true)]
async fn a_sub_agent_cancelled_while_the_storage_hangs_keeps_its_trees_logged_work() {
    let mut cancelled = 0;
    for depth in 1..=3 {
        for appends_before in 0.. {
            let journal =
                Arc::new(Stalls { inner: MemoryJournal::new(), appends_before: appends_before.into(), seconds: 20 });
            let agent = delegating(depth, &journal);
            let run = agent.run(RunInput::new("go").thread("t")).detach();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let ended = run.cancel_agent(&["task:0.0".to_owned()]);
            let outcome = run.outcome().await.unwrap();
            assert_eq!(outcome.stop, FinishReason::Done, "depth {depth}, append {appends_before}");
            let (_, finished) = worked(&records(&*journal, "t").await);
            let (done, kept) = (done(&outcome), calls(&finished));
            assert!(done.is_superset(&kept), "depth {depth}, append {appends_before}: {done:?} of {kept:?}");
            cancelled += usize::from(ended && !kept.is_empty());
            if journal.appends_before.load(Ordering::SeqCst) < usize::MAX / 2 {
                break;
            }
        }
    }
    assert!(cancelled > 0, "nothing was cancelled behind a finished call");
}

/// An agent two levels above one that works and then interrupts twice, while a parallel call never ends.
fn asking_two_below(beside: &'static str) -> Agent {
    let work = tool("work", |_, cx| {
        let done = Update::new::<Done>(vec![cx.call_id().to_string()]);
        async move { Ok(ToolOutput::text("worked").with_update(done)) }
    });
    let asks = tool("asks", |_, cx| async move {
        cx.interrupt("First?", [DecisionKind::Approve])?;
        cx.interrupt("Second?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let turns = vec![vec![("work", json!({}))], vec![("asks", json!({}))]];
    let below = agent(model(turns)).name("below").ids(RandomIds).middleware(Keeps).tool(work).tool(asks);
    let middle = agent(model(vec![vec![("task", json!({}))]])).name("middle").ids(RandomIds).middleware(Keeps);
    let middle = middle.tool(Task(below.build().unwrap())).build().unwrap();
    let above = agent(model(vec![vec![("task", json!({})), (beside, json!({}))]])).ids(RandomIds).middleware(Keeps);
    let hangs = tool("hangs", |_, _| std::future::pending::<Result<&str, ToolError>>());
    let quick = tool("quick", |_, _| async { Ok("done") });
    above.tool(Task(middle)).tool(hangs).tool(quick).journal(MemoryJournal::new()).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn work_done_two_levels_down_before_waiting_is_kept_when_the_run_ends() {
    let agent = asking_two_below("hangs");
    let limited = RunInput::new("go").thread("t").timeout(Duration::from_secs(1));
    let halted = agent.invoke(limited).await.unwrap();
    assert_eq!((halted.stop.clone(), done(&halted).len()), (FinishReason::Deadline, 1));
    assert_eq!(agent.state("t").await.unwrap().get::<Done>(), halted.state.get::<Done>());

    let agent = asking_two_below("quick");
    let waits = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(done(&waits).len(), 0, "it is not handed back before it ends");
    let on = agent.invoke(RunInput::new("on").thread("t")).await.unwrap();
    assert_eq!(done(&on).len(), 1, "the conversation goes on without it");
}
