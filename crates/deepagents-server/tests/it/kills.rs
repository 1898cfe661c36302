//! A server whose process is killed while it works.
#![allow(clippy::disallowed_methods, reason = "a process of its own, and files that it leaves")]

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, tool_fn};
use deepagents_core::store::Store;
use deepagents_persist::Sqlite;
use deepagents_server::Server;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{City, Client, roles, run, say};

/// Where the process that is killed keeps everything; without it that process is not meant.
const FOLDER: &str = "DEEPAGENTS_TEST_SERVER_FOLDER";

/// Notes each call of its tool in a file.
fn noting_agent(journal: Arc<dyn Journal>, notes: PathBuf) -> DeepAgent {
    let note = tool_fn("note", "Notes.", move |args: City, _cx| {
        let notes = notes.clone();
        async move {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(notes).unwrap();
            writeln!(file, "{}", args.city).unwrap();
            Ok("noted".to_owned())
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(message) if message.as_tool().is_some() => Turn::text("Done."),
        Some(message) => Turn::call("note", json!({"city": message.text()})),
        None => Turn::text("Nothing was said."),
    }));
    DeepAgent::builder().model(model.build()).journal(journal).tool(note).build().unwrap()
}

async fn noting_server(folder: &Path) -> Server {
    let database = Arc::new(Sqlite::open(folder.join("server.db")).await.unwrap());
    let (journal, store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    let agent = noting_agent(journal.clone(), folder.join("notes"));
    Server::new(journal, store).agent("agent", agent).unwrap().lease(Duration::from_secs(1))
}

#[tokio::test]
#[ignore = "it is the process that other tests kill"]
async fn a_server_for_the_tests_that_kill_it() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let (client, _end, serving) = run(noting_server(Path::new(&folder)).await).await;
    let mut out = std::io::stdout();
    writeln!(out, "\nlistening {}", client.url).unwrap();
    out.flush().unwrap();
    serving.await.unwrap();
}

/// The process, and a client of it.
fn start(folder: &Path) -> (Child, Client) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::a_server_for_the_tests_that_kill_it", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let url = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("listening ").map(str::to_owned));
    (child, Client::new(url.unwrap()))
}

#[tokio::test]
async fn of_runs_that_were_accepted_before_a_kill_none_is_lost_and_none_is_made_twice() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted: Vec<(String, String)> = Vec::new();
    for round in 0..5 {
        let (mut child, client) = start(folder.path());
        for number in 0..12 {
            let text = format!("round {round} number {number}");
            let thread = client.thread().await;
            let made = client.post(&format!("/threads/{thread}/runs"), say(&text)).await;
            accepted.push((format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap()), text));
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let (client, _end, _serving) = run(noting_server(folder.path()).await).await;
    for (path, text) in &accepted {
        let values = client.get(&format!("{path}/join")).await;
        assert_eq!(roles(&values), ["human", "ai", "tool", "ai"], "{text}: {values}");
        assert_eq!(client.get(path).await["status"], "success");
    }
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let mut made: Vec<&str> = notes.lines().collect();
    let all = made.len();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), all, "a call was made twice");
    let known = client.send(Method::POST, "/threads/count", &json!({})).await.1;
    assert_eq!(known, Value::from(accepted.len()));
}
