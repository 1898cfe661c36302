//! Background tasks that outlive their process.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deepagents::channels::Files;
use deepagents::core::agent::BackgroundError;
use deepagents::core::event::{EventKind, Subscribe};
use deepagents::core::journal::{
    Appended, Fence, Journal, JournalError, Loaded, LogPosition, Record, RetentionPolicy, RunStatus,
};
use deepagents::core::message::Usage;
use deepagents::core::run::Budget;
use deepagents::fs::VPath;
use deepagents::middleware::background::KnownTasks;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    Decision, DeepAgent, DeepAgentBuilder, FinishReason, InterruptOn, InterruptPolicy, MemoryJournal, Message,
    ModelRequest, Outcome, RunInput, forward_journal, json_tool,
};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::results;

/// The journal as seen by a process that ends after this many appends. Its leases are then expired.
pub(crate) struct Process {
    inner: Arc<MemoryJournal>,
    appends: AtomicUsize,
    /// Number of appends to threads of tasks that may proceed.
    tasks: Semaphore,
    /// Whether the logs of tasks are damaged.
    damaged: AtomicBool,
}

impl Process {
    pub(crate) fn ending_after(inner: &Arc<MemoryJournal>, appends: usize) -> Arc<Self> {
        let tasks = Semaphore::new(Semaphore::MAX_PERMITS);
        let damaged = AtomicBool::new(false);
        Arc::new(Self { inner: inner.clone(), appends: AtomicUsize::new(appends), tasks, damaged })
    }

    /// A process that hangs where it would start a task.
    fn stopped_at_a_task(inner: &Arc<MemoryJournal>) -> Arc<Self> {
        let (appends, damaged) = (AtomicUsize::new(usize::MAX), AtomicBool::new(false));
        Arc::new(Self { inner: inner.clone(), appends, tasks: Semaphore::new(0), damaged })
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.appends.load(Ordering::SeqCst) == 0
    }
}

impl Journal for Process {
    forward_journal!([.inner]; claim, renew, release, read, put_snapshot, threads);

    fn append<'a>(
        &'a self,
        thread: &'a str,
        fence: Fence,
        expected: LogPosition,
        records: Vec<Record>,
    ) -> BoxFuture<'a, Result<Appended, JournalError>> {
        Box::pin(async move {
            if thread.contains('/') {
                let _permit = self.tasks.acquire().await.unwrap();
            }
            let one_less = |left: usize| left.checked_sub(1);
            if self.appends.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_err() {
                return Err(JournalError::Storage("the process has ended".into()));
            }
            self.inner.append(thread, fence, expected, records).await
        })
    }
    fn load<'a>(&'a self, thread: &'a str, at: Option<LogPosition>) -> BoxFuture<'a, Result<Loaded, JournalError>> {
        Box::pin(async move {
            if thread.contains('/') && self.damaged.load(Ordering::SeqCst) {
                let (thread, reason) = (thread.to_owned(), "it is no JSON".to_owned());
                return Err(JournalError::Damaged { thread, position: 3, reason });
            }
            self.inner.load(thread, at).await
        })
    }
}

/// What happened in all processes of a test.
#[derive(Clone, Default)]
struct World {
    /// The `work` calls made.
    worked: Arc<Mutex<Vec<String>>>,
    requests: Arc<AtomicUsize>,
    /// Releases calls of `gate`.
    gate: Arc<Gate>,
}

struct Gate {
    begun: Semaphore,
    go: Semaphore,
}

impl Default for Gate {
    fn default() -> Self {
        Self { begun: Semaphore::new(0), go: Semaphore::new(0) }
    }
}

/// An agent that starts tasks and makes the calls written as JSON in messages. A task makes the calls listed as JSON in
/// its description, one by one.
fn agent(world: &World, journal: impl Journal) -> DeepAgentBuilder {
    let counted = world.requests.clone();
    let answer = move |request: &ModelRequest| {
        counted.fetch_add(1, Ordering::SeqCst);
        let first = request.messages.get(0).map(|message| message.text()).unwrap_or_default();
        let last = request.messages.last().unwrap();
        let turns = request.messages.iter().filter(|message| message.as_assistant().is_some()).count();
        let turn = match serde_json::from_str::<Vec<(String, Value)>>(&first) {
            Ok(calls) => match calls.get(turns) {
                Some((tool, args)) => Turn::call(tool, args.clone()),
                None => Turn::text(format!("Found after: {}", last.text())),
            },
            Err(_) => match serde_json::from_str::<(String, Value)>(&last.text()) {
                Ok((tool, args)) if matches!(**last, Message::User(_)) => Turn::call(tool, args),
                _ => Turn::text("Fine."),
            },
        };
        turn.usage(Usage { input: 10, output: 1, ..Usage::default() })
    };
    let worked = world.worked.clone();
    let work = json_tool("work", "Works.", json!({"type": "object"}), move |args: Value, _cx| {
        worked.lock().unwrap().push(args["n"].to_string());
        async move { Ok("worked") }
    });
    let gate = world.gate.clone();
    let gate = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let gate = gate.clone();
        async move {
            gate.begun.add_permits(1);
            gate.go.acquire().await?.forget();
            Ok("open")
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(answer)).build();
    DeepAgent::builder().model(model).background_agents(true).journal(journal).tool(work).tool(gate)
}

fn start(calls: &Value) -> String {
    let args = json!({"description": calls.to_string(), "subagent_type": "general-purpose"});
    json!(["start_async_task", args]).to_string()
}

fn input(text: impl Into<String>) -> RunInput {
    RunInput::new(text.into()).thread("t").budget(Budget::default().tokens(1_000_000))
}

async fn say(agent: &DeepAgent, text: impl Into<String>) -> Outcome {
    agent.invoke(input(text)).await.unwrap()
}

fn told(outcome: &Outcome) -> Vec<String> {
    let users = outcome.messages().iter().filter(|m| matches!(***m, Message::User(_)));
    users.map(|m| m.text()).filter(|text| text.contains("background task has ended")).collect()
}

async fn until_told(agent: &DeepAgent) -> Outcome {
    loop {
        tokio::task::yield_now().await;
        let outcome = say(agent, "Anything?").await;
        if !told(&outcome).is_empty() {
            return outcome;
        }
    }
}

fn has_report(outcome: &Outcome) -> bool {
    outcome.state.get::<Files>().unwrap().get(&VPath::parse("/report.md").unwrap()).is_some()
}

/// Runs turns until the task's result is reported, in a process that may end before. Returns the outcomes.
async fn work_through(agent: &DeepAgent, journal: &MemoryJournal, task: &str) -> Option<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    let info = journal.threads().get("t").await.unwrap();
    let first = match info.map(|info| info.status) {
        None | Some(RunStatus::Empty) => input(task),
        Some(RunStatus::Open) => RunInput::resume("t").take_over(),
        Some(_) => input("Anything?"),
    };
    outcomes.push(agent.invoke(first).await.ok()?);
    while told(outcomes.last().unwrap()).is_empty() {
        tokio::task::yield_now().await;
        outcomes.push(agent.invoke(input("Anything?")).await.ok()?);
    }
    Some(outcomes)
}

/// The `work` calls that have finished according to the logs of the tasks.
async fn finished(journal: &MemoryJournal) -> BTreeSet<String> {
    let mut finished = BTreeSet::new();
    let threads = journal.threads().list(&deepagents::core::journal::ThreadQuery::default().parent("t")).await.unwrap();
    for thread in threads {
        let mut calls = 0;
        for entry in journal.read(&thread.id, 0..thread.end).await.unwrap() {
            if let Record::ToolFinished { message, .. } = entry.record
                && message.name == "work"
            {
                calls += 1;
                finished.insert(calls.to_string());
            }
        }
    }
    finished
}

#[tokio::test]
async fn a_crash_at_any_append_loses_no_call_and_delivers_the_result_once() {
    let task = start(&json!([
        ["work", {"n": 1}],
        ["write_file", {"file_path": "/report.md", "content": "found"}],
        ["work", {"n": 2}],
    ]));
    for appends in 0.. {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let process = Process::ending_after(&journal, appends);
        let mut outcomes = Vec::new();
        {
            let agent = agent(&world, process.clone()).build().unwrap();
            outcomes.extend(work_through(&agent, &journal, &task).await);
        }
        let is_last = !process.has_ended();
        // Lets aborted tasks end before the next process starts.
        tokio::task::yield_now().await;
        let before = finished(&journal).await;
        let made_before = world.worked.lock().unwrap().len();
        let agent = agent(&world, journal.clone()).build().unwrap();
        outcomes.push(work_through(&agent, &journal, &task).await.unwrap());
        let outcome = outcomes.last().and_then(|outcomes| outcomes.last()).unwrap();
        let news = told(outcome);
        assert_eq!(news.len(), 1, "after {appends} appends: {news:?}");
        check_history(outcome.messages()).unwrap();
        assert!(news[0].contains("status: success") && news[0].contains("Found after"), "{appends}: {news:?}");
        let worked = world.worked.lock().unwrap().clone();
        for call in &before {
            let again = worked[made_before..].contains(call);
            assert!(!again, "after {appends} appends: {call} had ended and was made again: {worked:?}");
        }
        let tasks = agent.background("t").await.unwrap();
        assert_eq!(tasks.len(), 1, "after {appends} appends");
        let left = tasks[0].report(agent.schema().clone(), None).await.unwrap();
        let written = left.state.get::<Files>().unwrap().get(&VPath::parse("/report.md").unwrap()).is_some();
        assert_eq!(has_report(outcome), written, "after {appends} appends");
        let again = say(&agent, "Again?").await;
        assert_eq!(told(&again).len(), 1, "once, after {appends} appends");
        // The usage is counted once, in the run that reported the result.
        let known = again.state.get::<KnownTasks>().unwrap();
        assert_eq!(known[0].counted.unwrap().1, left.spent);
        let counted: u64 = outcomes.iter().flatten().map(|outcome| outcome.spent.model_calls).sum();
        let (requests, last) = (world.requests.load(Ordering::SeqCst) as u64, again.spent.model_calls);
        assert!(counted + last <= requests, "after {appends} appends: {counted} and {last} of {requests}");
        if is_last {
            assert_eq!(counted + last, requests);
            assert!(appends > 10, "the process ended before it began");
            break;
        }
    }
}

/// The results of calls.
fn answers(outcome: &Outcome) -> String {
    results(outcome).into_iter().map(|(text, _)| text).collect()
}

/// Starts a task in a process that ends after this many appends. Returns whether it ended, and whether the task's
/// thread was created.
async fn begun_by_a_process_that_ends(world: &World, journal: &Arc<MemoryJournal>, appends: usize) -> (bool, bool) {
    let process = Process::ending_after(journal, appends);
    {
        let agent = agent(world, process.clone()).build().unwrap();
        let _ = agent.invoke(input(start(&json!([["work", {"n": 1}]])))).await;
    }
    tokio::task::yield_now().await;
    let tasks = agent(world, journal.clone()).build().unwrap().background("t").await.unwrap();
    (process.has_ended(), tasks.iter().any(|task| task.end > 0))
}

#[tokio::test]
async fn a_task_whose_start_call_got_no_answer_still_reports_to_its_conversation() {
    let mut orphans = 0;
    for appends in 1.. {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let (has_ended, begun) = begun_by_a_process_that_ends(&world, &journal, appends).await;
        let next = agent(&world, journal.clone()).build().unwrap();
        // A new run instead of a resumed one: calls in doubt get a result that says so.
        let first = next.invoke(input("Go on.").take_over()).await.unwrap();
        let said = answers(&first);
        orphans += usize::from(begun && said.contains("is unknown"));
        if begun {
            let outcome = until_told(&next).await;
            assert_eq!(told(&outcome).len(), 1, "after {appends} appends");
            assert!(told(&outcome)[0].contains("status: success"), "after {appends} appends: {:?}", told(&outcome));
        }
        let tasks = next.background("t").await.unwrap();
        let open = tasks.iter().filter(|task| task.end > 0 && task.status != RunStatus::Ended).count();
        assert_eq!(open, 0, "after {appends} appends");
        if !has_ended {
            break;
        }
    }
    assert!(orphans > 0, "no start was in doubt with its task begun");
}

#[tokio::test]
async fn a_task_started_late_by_a_superseded_process_is_reported_by_the_next_run() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let stopped = Process::stopped_at_a_task(&journal);
    let first = agent(&world, stopped.clone()).build().unwrap();
    let run = first.run(input(start(&json!([["work", {"n": 1}]])))).detach();
    // The call has started, but not its task.
    let mut events = run.subscribe(Subscribe::Start);
    while !matches!(events.next().await.unwrap().kind, EventKind::ToolStarted { .. }) {}
    let next = agent(&world, journal.clone()).build().unwrap();
    let without = next.invoke(input("Go on.").take_over()).await.unwrap();
    assert!(answers(&without).contains("is unknown"), "{}", answers(&without));
    stopped.tasks.add_permits(1000);
    assert!(run.outcome().await.is_err(), "its thread has another owner");
    let outcome = until_told(&next).await;
    assert_eq!(told(&outcome).len(), 1);
    assert!(told(&outcome)[0].contains("status: success"), "{:?}", told(&outcome));
    assert_eq!(told(&say(&next, "Again?").await).len(), 1);
}

#[tokio::test]
async fn a_task_call_begun_by_an_earlier_process_is_repeated_despite_a_spent_budget() {
    let mut refused = 0;
    for appends in 1.. {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let (has_ended, begun) = begun_by_a_process_that_ends(&world, &journal, appends).await;
        if !has_ended {
            break;
        }
        let next = agent(&world, journal.clone()).build().unwrap();
        let info = journal.threads().get("t").await.unwrap();
        if info.is_none_or(|info| info.status != RunStatus::Open) {
            continue;
        }
        let none = Budget::default().tool_calls(0);
        let outcome = next.invoke(RunInput::resume("t").take_over().budget(none)).await.unwrap();
        let said = answers(&outcome);
        assert!(!begun || !said.contains("was not made"), "after {appends} appends: {said}");
        refused += usize::from(said.contains("was not made"));
    }
    assert!(refused > 0, "no call was refused at all");
}

#[tokio::test]
async fn a_task_run_by_another_process_is_left_alone_and_its_result_is_shared() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal.clone()).build().unwrap();
    let theirs = agent(&world, journal.clone()).build().unwrap();
    say(&ours, start(&json!([["gate", {}], ["work", {"n": 1}]]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    assert!(told(&say(&theirs, "Anything?").await).is_empty());
    let task = theirs.background("t").await.unwrap().pop().unwrap();
    assert!(task.handle().is_none() && task.status == RunStatus::Open);
    assert!(matches!(task.steer("x"), Err(BackgroundError::Elsewhere { .. })));
    assert!(matches!(task.subscribe(Subscribe::Now), Err(BackgroundError::Elsewhere { .. })));
    assert!(matches!(task.cancel().await, Err(BackgroundError::Elsewhere { .. })));
    let outcome = tokio::spawn(async move { task.outcome().await });
    world.gate.go.add_permits(1);
    assert_eq!(outcome.await.unwrap().unwrap().text(), "Found after: worked");
    assert_eq!(told(&say(&theirs, "Anything?").await).len(), 1);
    assert_eq!(told(&say(&ours, "Anything?").await).len(), 1, "it is the same message");
    assert_eq!((*world.worked.lock().unwrap()).len(), 1);
}

#[tokio::test]
async fn a_task_of_a_dead_process_is_resumed_by_its_conversations_next_run() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let first = agent(&world, journal.clone()).build().unwrap();
    say(&first, start(&json!([["work", {"n": 1}], ["gate", {}], ["work", {"n": 2}]]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    drop(first);
    tokio::task::yield_now().await;
    let next = agent(&world, journal.clone()).build().unwrap();
    let task = next.background("t").await.unwrap().pop().unwrap();
    assert!(task.is_abandoned());
    assert!(matches!(task.outcome().await, Err(BackgroundError::NotRunning { .. })));
    let mut run = next.run(input("Anything?"));
    let mut paths = BTreeSet::new();
    let answer = loop {
        let Some(event) = run.next().await else { break None };
        paths.insert(event.path.to_vec());
        assert_eq!(&*event.run, run.id());
        if matches!(event.kind, EventKind::RunFinished { .. }) {
            break Some(());
        }
    };
    assert!(answer.is_some());
    drop(run);
    let outcome = until_told(&next).await;
    assert!(told(&outcome)[0].contains("status: success"), "{:?}", told(&outcome));
    assert_eq!(*world.worked.lock().unwrap(), ["1", "2"]);
    assert!(task.refresh().await.unwrap().status == RunStatus::Ended);
}

/// Continues after a process that ended after this many appends. Returns whether that process had finished its run.
async fn go_on_after(appends: usize) -> bool {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let first = agent(&world, Process::ending_after(&journal, appends)).build().unwrap();
    let task = start(&json!([["gate", {}], ["work", {"n": 1}]]));
    let ended = first.invoke(input(task)).await.is_ok();
    drop(first);
    tokio::task::yield_now().await;
    let next = agent(&world, journal.clone()).build().unwrap();
    let status = journal.threads().get("t").await.unwrap().map(|info| info.status);
    if status == Some(RunStatus::Open) {
        next.invoke(RunInput::resume("t").take_over()).await.unwrap();
        world.gate.go.add_permits(2);
        let tasks = next.background("t").await.unwrap();
        assert!(tasks.len() == 1 || !has_known_tasks(&next).await, "after {appends} appends");
        for task in tasks {
            let outcome = task.outcome().await;
            let outcome = outcome.unwrap_or_else(|error| panic!("after {appends} appends: {error}"));
            assert_eq!(outcome.text(), "Found after: worked", "after {appends} appends");
        }
    }
    ended
}

async fn has_known_tasks(agent: &DeepAgent) -> bool {
    agent.state("t").await.unwrap().get::<KnownTasks>().is_some_and(|known| !known.is_empty())
}

#[tokio::test]
async fn a_run_resumed_anywhere_also_resumes_its_tasks() {
    let mut appends = 0;
    while !go_on_after(appends).await {
        appends += 1;
    }
    assert!(appends > 3, "the first process has left nothing");
}

#[tokio::test]
async fn a_task_cancelled_while_nobody_runs_it_is_reported_as_cancelled() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let first = agent(&world, journal.clone()).build().unwrap();
    say(&first, start(&json!([["gate", {}]]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    drop(first);
    tokio::task::yield_now().await;
    let next = agent(&world, journal.clone()).build().unwrap();
    let task = next.background("t").await.unwrap().pop().unwrap();
    task.cancel().await.unwrap();
    let outcome = until_told(&next).await;
    assert!(told(&outcome)[0].contains("status: cancelled"), "{:?}", told(&outcome));
    // The task accepts another message, because its open call has a result.
    let more = json!(["update_async_task", {"task_id": task.id, "message": "Go on."}]).to_string();
    let said = say(&next, more).await;
    assert_eq!(results(&said).last().unwrap().0, "It goes on with this.");
}

fn careful(world: &World, journal: &Arc<MemoryJournal>) -> DeepAgent {
    let policy = InterruptPolicy::new().before("work", InterruptOn::any());
    agent(world, journal.clone()).interrupt_on(policy).build().unwrap()
}

#[tokio::test]
async fn a_task_waits_for_a_decision_across_processes_and_takes_it_either_way() {
    for direct in [false, true] {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let first = careful(&world, &journal);
        say(&first, start(&json!([["work", {"n": 1}]]))).await;
        let id = first.background("t").await.unwrap().pop().unwrap().id;
        first.background("t").await.unwrap().pop().unwrap().outcome().await.unwrap();
        drop(first);
        let next = careful(&world, &journal);
        if direct {
            let task = next.background("t").await.unwrap().pop().unwrap();
            let waits = task.outcome().await.unwrap();
            assert_eq!(waits.stop, FinishReason::Interrupted);
            let resume = RunInput::resume(format!("t/{id}"));
            let run = next.run(resume.decide(&waits.action_requests()[0].id, Decision::Approve));
            let mut events = run.handle().subscribe(Subscribe::Start);
            while let Some(event) = events.next().await {
                assert!(event.path.is_empty() || event.path[0] == id, "{event:?}");
            }
            assert_eq!(run.outcome().await.unwrap().text(), "Found after: worked");
        } else {
            let check = json!(["check_async_task", {"task_id": id}]).to_string();
            let asked = say(&next, check).await;
            assert_eq!(asked.stop, FinishReason::Interrupted);
            let answer = RunInput::resume("t").decide(&asked.action_requests()[0].id, Decision::Approve);
            let third = careful(&world, &journal);
            third.invoke(answer).await.unwrap();
            third.background("t").await.unwrap().pop().unwrap().outcome().await.unwrap();
        }
        let outcome = until_told(&next).await;
        assert!(told(&outcome)[0].contains("Found after: worked"), "{:?}", told(&outcome));
        assert_eq!(*world.worked.lock().unwrap(), ["1"]);
    }
}

#[tokio::test]
async fn a_tasks_events_appear_in_its_own_run_and_in_its_conversations_active_run() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal.clone()).build().unwrap();
    say(&ours, start(&json!([["gate", {}], ["gate", {}]]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    let task = ours.background("t").await.unwrap().pop().unwrap();
    let mut own = task.subscribe(Subscribe::Now).unwrap();
    // A later run of the conversation, which also waits.
    let mut run = ours.run(input(json!(["gate", {}]).to_string()));
    world.gate.begun.acquire().await.unwrap().forget();
    world.gate.go.add_permits(1);
    let seen = loop {
        let event = run.next().await.unwrap();
        if event.path.first() == Some(&task.id) && matches!(event.kind, EventKind::ToolFinished { .. }) {
            break event;
        }
    };
    assert_eq!((&*seen.run, seen.position), (run.id(), None));
    let first = own.next().await.unwrap();
    assert_eq!((first.path.to_vec(), &*first.run), (vec![task.id.clone()], task.handle().unwrap().id()));
    world.gate.go.add_permits(2);
    drop(own);
    run.outcome().await.unwrap();
    task.outcome().await.unwrap();
}

#[tokio::test]
async fn a_copied_conversation_gets_copies_of_its_tasks_and_their_results() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal.clone()).build().unwrap();
    let write = json!(["write_file", {"file_path": "/report.md", "content": "found"}]);
    say(&ours, start(&json!([["gate", {}], write]))).await;
    world.gate.go.add_permits(1);
    let task = ours.background("t").await.unwrap().pop().unwrap();
    task.outcome().await.unwrap();
    journal.threads().copy("t", "copy", None).await.unwrap();
    for thread in ["t", "copy"] {
        let outcome = ours.invoke(RunInput::new("Anything?").thread(thread)).await.unwrap();
        assert_eq!(told(&outcome).len(), 1, "{thread}");
        assert!(has_report(&outcome), "{thread}");
    }
    let copies = ours.background("copy").await.unwrap();
    assert_eq!((copies[0].id.as_str(), copies[0].agent.as_str()), (task.id.as_str(), "general-purpose"));
}

#[tokio::test]
async fn a_tasks_changes_are_reported_as_not_kept_if_its_history_was_pruned() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal.clone()).build().unwrap();
    let write = json!(["write_file", {"file_path": "/report.md", "content": "found"}]);
    say(&ours, start(&json!([["gate", {}], write]))).await;
    world.gate.go.add_permits(1);
    let task = ours.background("t").await.unwrap().pop().unwrap();
    task.outcome().await.unwrap();
    ours.prune(&task.thread, &RetentionPolicy::Latest).await.unwrap();
    let outcome = until_told(&ours).await;
    assert!(told(&outcome)[0].contains("status: success") && told(&outcome)[0].contains("not kept"));
    assert!(!has_report(&outcome));
}

#[tokio::test]
async fn usage_after_the_starting_run_is_counted_once_by_the_run_that_is_told() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal.clone()).build().unwrap();
    let first = say(&ours, start(&json!([["gate", {}], ["work", {"n": 1}]]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    world.gate.go.add_permits(1);
    ours.background("t").await.unwrap().pop().unwrap().outcome().await.unwrap();
    let second = say(&ours, "Anything?").await;
    let third = say(&ours, "And now?").await;
    let spent = [&first, &second, &third].map(|outcome| outcome.spent.model_calls);
    assert_eq!(spent.iter().sum::<u64>(), world.requests.load(Ordering::SeqCst) as u64, "{spent:?}");
    assert_eq!(third.spent.model_calls, 1);
    assert_eq!(
        second.usage_by_agent["general-purpose"].input
            + first.usage_by_agent.get("general-purpose").map_or(0, |usage| usage.input),
        30
    );
}

/// Like [`work_through`], with approvals.
async fn decide_through(agent: &DeepAgent, journal: &MemoryJournal, task: &str) -> Option<Outcome> {
    let info = journal.threads().get("t").await.unwrap();
    let mut outcome = match info.map(|info| info.status) {
        None | Some(RunStatus::Empty) => agent.invoke(input(task)).await.ok()?,
        Some(RunStatus::Open | RunStatus::Interrupted) => agent.invoke(RunInput::resume("t").take_over()).await.ok()?,
        Some(_) => agent.invoke(input("Anything?")).await.ok()?,
    };
    while told(&outcome).is_empty() {
        if outcome.stop == FinishReason::Interrupted {
            let answered = outcome
                .action_requests()
                .into_iter()
                .fold(RunInput::resume("t"), |input, question| input.decide(question.id, Decision::Approve));
            outcome = agent.invoke(answered).await.ok()?;
            continue;
        }
        tokio::task::yield_now().await;
        let task = agent.background("t").await.unwrap().pop();
        let waits = task.filter(|task| task.status == RunStatus::Interrupted && task.handle().is_none());
        let next = waits.map(|task| json!(["check_async_task", {"task_id": task.id}]).to_string());
        outcome = agent.invoke(input(next.unwrap_or_else(|| "Anything?".to_owned()))).await.ok()?;
    }
    Some(outcome)
}

#[tokio::test]
async fn a_crash_at_any_append_is_survived_while_a_task_waits_for_decisions() {
    let task = start(&json!([["work", {"n": 1}], ["work", {"n": 2}]]));
    let build = |world: &World, journal: Arc<dyn Journal>| {
        let policy = InterruptPolicy::new().before("work", InterruptOn::any());
        agent(world, journal).interrupt_on(policy).build().unwrap()
    };
    for appends in 0.. {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let process = Process::ending_after(&journal, appends);
        let ended = decide_through(&build(&world, process.clone()), &journal, &task).await;
        tokio::task::yield_now().await;
        let (before, made) = (finished(&journal).await, world.worked.lock().unwrap().len());
        let next = build(&world, journal.clone());
        let outcome = decide_through(&next, &journal, &task).await.unwrap();
        assert_eq!(told(&outcome).len(), 1, "after {appends} appends");
        check_history(outcome.messages()).unwrap();
        let worked = world.worked.lock().unwrap().clone();
        assert!(worked[made..].iter().all(|call| !before.contains(call)), "after {appends} appends: {worked:?}");
        assert_eq!(told(&say(&next, "Again?").await).len(), 1, "after {appends} appends");
        if ended.is_some() && !process.has_ended() {
            assert_eq!(worked, ["1", "2"]);
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn tasks_started_concurrently_in_parallel_threads_are_each_reported_once() {
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let ours = agent(&world, journal).build().unwrap();
    let runs = (0..8).map(|n| {
        let ours = ours.clone();
        tokio::spawn(async move {
            let thread = format!("t{n}");
            let input = |text: String| RunInput::new(text).thread(thread.as_str());
            let mut outcome = ours.invoke(input(start(&json!([["work", {"n": n}]])))).await.unwrap();
            while told(&outcome).is_empty() {
                tokio::task::yield_now().await;
                outcome = ours.invoke(input("Anything?".to_owned())).await.unwrap();
            }
            told(&ours.invoke(input("Again?".to_owned())).await.unwrap()).len()
        })
    });
    for run in runs.collect::<Vec<_>>() {
        assert_eq!(run.await.unwrap(), 1);
    }
}

#[cfg(unix)]
#[tokio::test]
async fn files_changed_by_a_task_are_rewound_with_its_conversation() {
    use deepagents::fs::{LocalBackend, LocalOptions, OnConflict, UndoStore};
    use deepagents::rewind::Rewind;

    let (dir, beside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let undo = Some(UndoStore::at(beside.path().join("undo.db")));
    let files = LocalBackend::open_with(dir.path(), LocalOptions { undo, ..LocalOptions::default() }).unwrap();
    let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
    let build = || agent(&world, journal.clone()).backend(files.clone()).build().unwrap();
    let write = |name: &str| json!(["write_file", {"file_path": name, "content": "found"}]);
    let first = build();
    say(&first, start(&json!([write("/one.md"), ["gate", {}], write("/two.md")]))).await;
    world.gate.begun.acquire().await.unwrap().forget();
    drop(first);
    tokio::task::yield_now().await;
    let next = build();
    until_told(&next).await;
    assert!(dir.path().join("one.md").exists() && dir.path().join("two.md").exists());
    let oldest = next.history("t", None, 100).await.unwrap().last().map_or(0, |checkpoint| checkpoint.position);
    let back = Rewind::new(&next, &files, "t", oldest);
    back.apply(&back.plan().await.unwrap(), OnConflict::Refuse).await.unwrap();
    assert!(!dir.path().join("one.md").exists() && !dir.path().join("two.md").exists());
}

#[tokio::test]
async fn a_task_with_an_unreadable_log_is_reported_as_failed_once() {
    for ends in [true, false] {
        let (world, journal) = (World::default(), Arc::new(MemoryJournal::new()));
        let process = Process::ending_after(&journal, usize::MAX);
        {
            let agent = agent(&world, process.clone()).build().unwrap();
            say(&agent, start(&json!([["gate", {}]]))).await;
            world.gate.begun.acquire().await.unwrap().forget();
            if ends {
                world.gate.go.add_permits(1);
                agent.background("t").await.unwrap()[0].outcome().await.unwrap();
            }
        }
        // Tasks in flight stop where they are.
        tokio::task::yield_now().await;
        process.damaged.store(true, Ordering::SeqCst);
        let agent = agent(&world, process.clone()).build().unwrap();
        for words in ["Anything?", "And now?"] {
            let outcome = say(&agent, words).await;
            check_history(outcome.messages()).unwrap();
            let news = told(&outcome);
            assert_eq!(news.len(), 1, "ended: {ends}: {news:?}");
            assert!(
                news[0].contains("status: error") && news[0].contains("It is lost: record 3 of thread"),
                "{news:?}"
            );
        }
        let id = &agent.background("t").await.unwrap()[0].id;
        let checked = say(&agent, json!(["check_async_task", {"task_id": id}]).to_string()).await;
        assert!(answers(&checked).contains("record 3 of thread"), "{}", answers(&checked));
        let more = json!(["update_async_task", {"task_id": id, "message": "Go on."}]).to_string();
        assert!(answers(&say(&agent, more).await).contains("Error: "), "it cannot go on");
    }
}
