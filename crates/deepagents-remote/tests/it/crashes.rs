//! Killed processes: the client's and the server's.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use deepagents::core::journal::Claim;
use deepagents::core::store::Store;
use deepagents::remote::RemoteConfig;
use deepagents::{DeepAgent, FinishReason, Journal, Outcome, RunInput};
use deepagents_persist::Sqlite;
use deepagents_server::Server;
use serde_json::json;
use tokio::net::TcpListener;

use crate::support::{Gate, Running, delegating, delegating_with, play, remote_agent, soon, steps};

/// Environment variable with the data directory of a child process.
const FOLDER: &str = "DEEPAGENTS_TEST_REMOTE_FOLDER";
/// Environment variable with the server's URL, to delegate to or to listen on.
const URL: &str = "DEEPAGENTS_TEST_REMOTE_URL";
/// Environment variable with the tool to delegate with.
const TOOL: &str = "DEEPAGENTS_TEST_REMOTE_TOOL";

/// A child process, killed at the latest when its test ends.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // If it cannot be killed, it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a test in a child process. Returns the lines that it prints after a marker.
fn process(test: &str, folder: &Path, url: &str, tool: &str) -> (Process, impl Iterator<Item = String> + use<>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .envs([(URL, url), (TOOL, tool)])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    (Process(child), lines.filter_map(|line| line.strip_prefix("told ").map(str::to_owned)))
}

fn tell(text: &str) {
    let mut out = std::io::stdout();
    writeln!(out, "\ntold {text}").unwrap();
    out.flush().unwrap();
}

async fn database(folder: &Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(folder.join("threads.db")).await.unwrap())
}

async fn delegating_agent(folder: &Path, url: &str, tool: &str) -> DeepAgent {
    let there = RemoteConfig::langgraph(url, "worker").unwrap();
    let tool = if tool == "task" { "task" } else { "start_async_task" };
    let builder = if tool == "task" { delegating(there) } else { delegating_with(tool, there).background_agents(true) };
    builder.journal(database(folder).await).build().unwrap()
}

#[tokio::test]
#[ignore = "it is the process that other tests kill"]
async fn a_process_that_delegates() {
    let (Some(folder), Ok(url), Ok(tool)) = (std::env::var_os(FOLDER), std::env::var(URL), std::env::var(TOOL)) else {
        return;
    };
    let agent = delegating_agent(Path::new(&folder), &url, &tool).await;
    let input = RunInput::new(steps(&[("gate", json!({}))])).thread("t").lease(Duration::from_secs(1));
    let outcome = agent.run(input).outcome().await.unwrap();
    tell(&outcome.text());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_process_restarted_after_a_kill_finds_its_delegated_run() {
    let (server, folder) = (Running::start().await, tempfile::tempdir().unwrap());
    let (child, _told) = process("crashes::a_process_that_delegates", folder.path(), &server.url, "task");
    server.gate.entered().await;
    drop(child);
    server.gate.open();
    let agent = delegating_agent(folder.path(), &server.url, "task").await;
    let outcome = taken_over(&agent).await;
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "Done: open".to_owned()));
    assert_eq!(server.statuses().await, ["success"], "it ran once");
}

/// Resumes the thread once its owner's lease has expired.
async fn taken_over(agent: &DeepAgent) -> Outcome {
    soon(async {
        loop {
            match agent.run(RunInput::resume("t")).outcome().await {
                Ok(outcome) => return outcome,
                Err(error) => assert_eq!(error.kind(), "journal", "{error}"),
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// Ends the lease of a killed process before it expires.
async fn give_up(folder: &Path, thread: &str) {
    let journal = database(folder).await;
    let claim = Claim::new("the test", Duration::from_secs(60)).take_over();
    let fence = Journal::claim(&*journal, thread, claim).await.unwrap();
    Journal::release(&*journal, thread, fence).await.unwrap();
}

#[tokio::test]
async fn a_background_task_of_a_killed_process_is_resumed() {
    let (server, folder) = (Running::start().await, tempfile::tempdir().unwrap());
    let (child, mut told) =
        process("crashes::a_process_that_delegates", folder.path(), &server.url, "start_async_task");
    let id = soon(tokio::task::spawn_blocking(move || told.next().unwrap())).await.unwrap();
    let id = id.rsplit(' ').next().unwrap().to_owned();
    server.gate.entered().await;
    drop(child);
    give_up(folder.path(), &format!("t/{id}")).await;
    server.gate.open();
    let agent = delegating_agent(folder.path(), &server.url, "start_async_task").await;
    let text = soon(async {
        loop {
            let outcome = agent.invoke(RunInput::new(format!("check_async_task {id}")).thread("t")).await;
            let Ok(outcome) = outcome else { continue };
            let all: Vec<String> = outcome.messages().iter().map(|message| message.text()).collect();
            if let Some(text) = all.into_iter().find(|text| text.contains("Done: open")) {
                return text;
            }
        }
    })
    .await;
    assert!(text.contains("success"), "{text}");
    assert_eq!(server.statuses().await, ["success"], "it ran once");
}

#[tokio::test]
#[ignore = "it is the server that other tests kill"]
async fn a_server_process() {
    let (Some(folder), Ok(url)) = (std::env::var_os(FOLDER), std::env::var(URL)) else { return };
    let folder = PathBuf::from(folder);
    let kept = database(&folder).await;
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (kept.clone(), kept);
    let gate = Gate::new();
    let agent = remote_agent(journal.clone(), &gate);
    let server = Server::new(journal, store).agent("worker", agent).unwrap().lease(Duration::from_secs(1));
    // The process before this one may still hold the port.
    let listener = soon(async {
        loop {
            if let Ok(listener) = TcpListener::bind(url.trim_start_matches("http://")).await {
                return listener;
            }
            tokio::task::yield_now().await;
        }
    })
    .await;
    let running = server.start().await.unwrap();
    tokio::spawn(async move {
        gate.entered().await;
        tell("entered");
        // The test cannot open the gate of another process, so it creates a file.
        while !folder.join("open").exists() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        gate.open();
    });
    tell("listening");
    running.serve(listener, std::future::pending()).await.unwrap();
}

#[tokio::test]
async fn a_killed_and_restarted_server_is_waited_for_and_its_run_followed() {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let start = |url: &str| {
        let (child, mut told) = process("crashes::a_server_process", folder.path(), url, "");
        assert_eq!(told.next().unwrap(), "listening");
        (child, told)
    };
    let (child, mut told) = start(&url);
    let there = RemoteConfig::langgraph(&url, "worker").unwrap();
    let agent = delegating(there).build().unwrap();
    let played = tokio::spawn(async move { play(&agent, steps(&[("gate", json!({}))])).await });
    soon(tokio::task::spawn_blocking(move || told.next().unwrap())).await.unwrap();
    drop(child);
    std::fs::write(folder.path().join("open"), "").unwrap();
    let (child, _told) = start(&url);
    let (outcome, _) = soon(played).await.unwrap();
    drop(child);
    assert!(outcome.text().starts_with("Done: "), "{}", outcome.text());
}
