//! Calls that wait for approval: raised in one process, answered in others.
#![allow(clippy::disallowed_methods, reason = "tests look at real files")]

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::env::{Clock, FixedClock, SystemClock, Timestamp};
use deepagents_core::error::Error;
use deepagents_core::interrupt::{Decision, DecisionError, DecisionKind};
use deepagents_core::journal::{Claim, Journal, MemoryJournal, RunStatus, ThreadQuery, decode};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::tool::{DynTool, ToolContext, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_persist::{PostgresOptions, Sqlite};
use serde_json::json;

use crate::sqlite::place;

/// Environment variable with the role of a child process and its parameters.
const ROLE: &str = "DEEPAGENTS_TEST_ROLE";
const PLACE: &str = "DEEPAGENTS_TEST_PLACE";
const FOLDER: &str = "DEEPAGENTS_TEST_FOLDER";

const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);

/// Opens a database by path or URL.
async fn open(place: &str) -> Arc<dyn Journal> {
    match place.split_once('#') {
        Some((url, schema)) => {
            let options = PostgresOptions { schema: schema.to_owned(), connections: 2, ..PostgresOptions::default() };
            Arc::new(options.connect(url).await.unwrap())
        }
        None => Arc::new(Sqlite::open(place).await.unwrap()),
    }
}

/// A tool that requires approval before it has an effect, and one that does not.
fn tools(folder: &Path) -> [Box<dyn DynTool>; 2] {
    let (sent, noted) = (folder.join("sent"), folder.join("noted"));
    let schema = json!({"type": "object"});
    let send = move |_, cx: ToolContext| {
        let sent = sent.clone();
        async move {
            match cx.interrupt("Send it?", [DecisionKind::Approve, DecisionKind::Reject])? {
                Decision::Approve => Ok(line(&sent, &cx.call_id().to_string())),
                _ => Ok("not sent".to_owned()),
            }
        }
    };
    let note = move |_, cx: ToolContext| {
        let said = line(&noted, &cx.call_id().to_string());
        async move { Ok(said) }
    };
    [Box::new(json_tool("send", "Sends.", schema.clone(), send)), Box::new(json_tool("note", "Notes.", schema, note))]
}

fn line(path: &Path, text: &str) -> String {
    let mut file = OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(format!("{text}\n").as_bytes()).unwrap();
    "done".to_owned()
}

fn lines(path: PathBuf) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn agent(journal: Arc<dyn Journal>, folder: &Path, clock: impl Clock) -> Agent {
    let model = ScriptedModel::rules()
        .always(Turn::with(|request| {
            if request.messages.iter().any(|message| message.as_tool().is_some()) {
                Turn::text("It is sent.")
            } else {
                Turn::calls([("note", json!({})), ("send", json!({}))])
            }
        }))
        .build();
    let [send, note] = tools(folder);
    Agent::builder(model)
        .tool(Arc::<dyn DynTool>::from(send))
        .tool(Arc::<dyn DynTool>::from(note))
        .clock(clock)
        .journal(journal)
        .build()
        .unwrap()
}

/// Runs this test again as a child process with a role.
fn process(test: &str, role: &str, place: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("approvals::{test}"), "--nocapture"])
        .envs([(ROLE, role), (PLACE, place)])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The lines that a child process printed with the prefix `> `.
fn said(child: Child) -> Vec<String> {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    text.lines().filter_map(|line| line.strip_prefix("> ").map(str::to_owned)).collect()
}

/// Plays the role of this process, if it has one.
async fn play() -> bool {
    let Ok(role) = std::env::var(ROLE) else { return false };
    let (place, folder) = (std::env::var(PLACE).unwrap(), PathBuf::from(std::env::var_os(FOLDER).unwrap()));
    println!();
    if role == "wait" {
        wait(&place, &folder).await;
        return true;
    }
    let agent = agent(open(&place).await, &folder, SystemClock);
    if role == "ask" {
        let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        assert_eq!(outcome.stop, FinishReason::Interrupted);
        println!("> {}", outcome.action_requests()[0].id);
    } else {
        // All answering processes start together, once the file exists.
        while !folder.join("go").exists() {
            std::thread::yield_now();
        }
        match agent.invoke(RunInput::resume("t").decide(role, Decision::Approve)).await {
            Ok(outcome) => println!("> {:?}", outcome.stop),
            Err(error) => println!("> refused: {}", error.error),
        }
    }
    true
}

/// Raises the interrupt in one process, waits a week, answers in several others at once, and then once more.
async fn check(test: &str, place: String) {
    let folder = tempfile::tempdir().unwrap();
    let id = said(process(test, "ask", &place, folder.path())).remove(0);
    let journal = open(&place).await;
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().status, RunStatus::Interrupted);
    assert_eq!((lines(folder.path().join("noted")).len(), lines(folder.path().join("sent")).len()), (1, 0));

    let later = FixedClock(SystemClock.now() + WEEK);
    let wrong = Decision::Respond { message: "x".to_owned() };
    let error = agent(journal.clone(), folder.path(), later).invoke(RunInput::resume("t").decide(&*id, wrong)).await;
    assert!(matches!(&*error.unwrap_err().error, Error::Answer(DecisionError::NotAllowed { .. })));

    let answering: Vec<Child> = (0..4).map(|_| process(test, &id, &place, folder.path())).collect();
    std::fs::write(folder.path().join("go"), "").unwrap();
    let answers: Vec<String> = answering.into_iter().flat_map(said).collect();
    assert_eq!(answers.len(), 4, "{answers:?}");
    assert_eq!(answers.iter().filter(|answer| *answer == "Done").count(), 1, "{answers:?}");
    assert_eq!(lines(folder.path().join("sent")), ["0.1"], "one effect: {answers:?}");
    assert_eq!(lines(folder.path().join("noted")), ["0.0"], "what had finished is not made again");

    let late = RunInput::resume("t").decide(&*id, Decision::Approve);
    let late = agent(journal.clone(), folder.path(), later).invoke(late).await.unwrap_err();
    assert!(matches!(&*late.error, Error::Answer(DecisionError::Unknown { .. })));
    assert_eq!(lines(folder.path().join("sent")).len(), 1);
    let state = agent(journal, folder.path(), later).state("t").await.unwrap();
    assert_eq!(state.messages().iter().last().unwrap().text(), "It is sent.");
}

#[tokio::test]
async fn only_one_of_many_processes_answering_on_sqlite_takes_effect() {
    if play().await {
        return;
    }
    check("only_one_of_many_processes_answering_on_sqlite_takes_effect", place().display().to_string()).await;
}

#[tokio::test]
async fn only_one_of_many_processes_answering_on_postgres_takes_effect() {
    if play().await {
        return;
    }
    let Some(url) = crate::postgres::url() else { return };
    let place = format!("{url}#approvals_{}", std::process::id());
    check("only_one_of_many_processes_answering_on_postgres_takes_effect", place).await;
}

/// Logs of waiting threads, written by earlier versions.
const LEFT: [&str; 1] = [include_str!("../corpus/waiting-v1.jsonl")];

#[tokio::test]
async fn a_question_from_an_older_version_can_be_answered_by_a_newer_one() {
    for log in LEFT {
        let folder = tempfile::tempdir().unwrap();
        for journal in [
            Arc::new(MemoryJournal::new()) as Arc<dyn Journal>,
            Arc::new(Sqlite::open(folder.path().join("t.db")).await.unwrap()),
        ] {
            let fence = journal.claim("t", Claim::new("older", Duration::from_secs(60))).await.unwrap();
            let records = log.lines().zip(0..).map(|(line, at)| decode("t", at, line).unwrap()).collect();
            journal.append("t", fence, 0, records).await.unwrap();
            journal.release("t", fence).await.unwrap();
            // The newer program has another tool.
            let [send, note] = tools(folder.path());
            let more = json_tool("more", "More.", json!({"type": "object"}), |_, _| async { Ok("more") });
            let agent = Agent::builder(ScriptedModel::new([Turn::text("It is sent.")]))
                .tool(Arc::<dyn DynTool>::from(send))
                .tool(Arc::<dyn DynTool>::from(note))
                .tool(more)
                .clock(FixedClock(Timestamp::MAX))
                .journal(journal)
                .build()
                .unwrap();
            let outcome = agent.invoke(RunInput::resume("t").decide("0.1?0", Decision::Approve)).await.unwrap();
            assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "It is sent.".to_owned()));
        }
        assert_eq!(lines(folder.path().join("sent")), ["0.1", "0.1"], "once on each journal");
        assert!(lines(folder.path().join("noted")).is_empty());
    }
}

/// The resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Runs threads until each waits. The agents are rebuilt now and then, because a scripted model keeps its requests.
async fn wait_in(journal: &Arc<dyn Journal>, folder: &Path, threads: std::ops::Range<u32>) {
    for some in threads.step_by(50) {
        let agent = agent(journal.clone(), folder, SystemClock);
        let runs = (some..some + 50).map(|thread| agent.invoke(RunInput::new("go").thread(format!("t{thread}"))));
        for outcome in futures_util::future::join_all(runs).await {
            assert_eq!(outcome.unwrap().stop, FinishReason::Interrupted);
        }
    }
}

/// Lets ten thousand threads wait, and prints what they use.
async fn wait(place: &str, folder: &Path) {
    let journal = open(place).await;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    // The first runs fill the caches.
    wait_in(&journal, folder, 0..2_000).await;
    let memory = resident();
    wait_in(&journal, folder, 2_000..10_000).await;
    let each = resident().saturating_sub(memory) / 8_000;
    // Lets aborted tasks of the last run finish.
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    println!("> {}", tasks() - before);
    println!("> {each}");
}

#[tokio::test]
async fn ten_thousand_waiting_threads_use_no_tasks_and_almost_no_memory() {
    if play().await {
        return;
    }
    let (folder, place) = (tempfile::tempdir().unwrap(), place().display().to_string());
    // Other tests in the same process would use memory too.
    let test = "ten_thousand_waiting_threads_use_no_tasks_and_almost_no_memory";
    let taken: Vec<u64> =
        said(process(test, "wait", &place, folder.path())).iter().map(|figure| figure.parse().unwrap()).collect();
    println!("{} bytes for each thread that waits", taken[1]);
    // A leaked run would take tens of kilobytes; the allocator and SQLite's caches vary by about one.
    assert!(taken[0] == 0 && taken[1] < 4_096, "tasks, and bytes for each thread: {taken:?}");
    let journal = open(&place).await;
    let waiting = journal.threads().list(&ThreadQuery::default().status(RunStatus::Interrupted)).await.unwrap();
    assert_eq!(waiting.len(), 10_000);
    assert!(waiting.iter().all(|thread| thread.owner.is_none()), "nobody owns what waits");
    let agent = agent(journal, folder.path(), SystemClock);
    let answered = agent.invoke(RunInput::resume("t77").decide("0.1?0", Decision::Approve)).await.unwrap();
    assert_eq!(answered.stop, FinishReason::Done);
}
