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

use crate::hooked::WithoutResults;
use crate::support::{City, Client, roles, run, say, soon};

/// The environment variable with the folder of the process to be killed. Without it, the test for that process does
/// nothing.
const FOLDER: &str = "DEEPAGENTS_TEST_SERVER_FOLDER";

/// The environment variable with which that process never stores the result of a run, nor deletes a run.
pub(crate) const STORES_NO_RESULT: &str = "DEEPAGENTS_TEST_SERVER_STORES_NO_RESULT";

/// Number of notes made by a long run.
const LONG: usize = 12;

/// Builds an agent that notes each call in a file. A message that begins with `long` leads to several notes, and one
/// that begins with `hold` to a call that does not end.
pub(crate) fn noting_agent(journal: Arc<dyn Journal>, notes: PathBuf) -> DeepAgent {
    let note = tool_fn("note", "Notes.", move |args: City, _cx| {
        let notes = notes.clone();
        async move {
            let mut file = std::fs::OpenOptions::new().append(true).create(true).open(notes).unwrap();
            writeln!(file, "{}", args.city).unwrap();
            if args.city.starts_with("hold") {
                std::future::pending::<()>().await;
            }
            Ok("noted".to_owned())
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(|request| match request.messages.iter().next_back() {
        Some(message) if message.as_tool().is_none() => Turn::call("note", json!({"city": message.text()})),
        Some(_) => {
            let said = request.messages.iter().rev().position(|message| message.as_user().is_some()).unwrap_or(0);
            let text = request.messages.iter().rev().nth(said).map(|message| message.text()).unwrap_or_default();
            let notes = said.div_ceil(2);
            if text.starts_with("long") && notes < LONG {
                Turn::call("note", json!({"city": format!("{text} {notes}")}))
            } else {
                Turn::text("Done.")
            }
        }
        None => Turn::text("Nothing was said."),
    }));
    DeepAgent::builder().model(model.build()).journal(journal).tool(note).build().unwrap()
}

/// Opens the database of a server.
pub(crate) async fn database(folder: &Path) -> Arc<Sqlite> {
    Arc::new(Sqlite::open(folder.join("server.db")).await.unwrap())
}

pub(crate) async fn noting_server(folder: &Path) -> Server {
    let database = database(folder).await;
    let (journal, mut store): (Arc<dyn Journal>, Arc<dyn Store>) = (database.clone(), database);
    if std::env::var_os(STORES_NO_RESULT).is_some() {
        store = Arc::new(WithoutResults(store));
    }
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

/// The process, killed at the latest when its test ends.
pub(crate) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // If it cannot be killed, it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the process and returns a client for it.
pub(crate) async fn start(folder: &Path) -> (Process, Client) {
    start_with(folder, None).await
}

/// Starts the process with another variable set, if one is given.
pub(crate) async fn start_with(folder: &Path, variable: Option<&str>) -> (Process, Client) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kills::a_server_for_the_tests_that_kill_it", "--ignored", "--nocapture"])
        .env(FOLDER, folder)
        .envs(variable.map(|name| (name, "1")))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let child = Process(child);
    let listening = move || {
        lines.map_while(Result::ok).find_map(|line| line.strip_prefix("listening ").map(str::to_owned)).unwrap()
    };
    let url = soon(tokio::task::spawn_blocking(listening)).await.unwrap();
    (child, Client::new(url))
}

#[tokio::test]
async fn no_accepted_run_is_lost_or_repeated_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted: Vec<(String, String)> = Vec::new();
    for round in 0..5 {
        let (child, client) = start(folder.path()).await;
        for number in 0..12 {
            let text = format!("round {round} number {number}");
            let thread = client.thread().await;
            let made = client.post(&format!("/threads/{thread}/runs"), say(&text)).await;
            accepted.push((format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap()), text));
        }
        drop(child);
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

/// Returns how often a server is killed; a variable can raise it.
fn rounds() -> usize {
    std::env::var("DEEPAGENTS_TEST_KILLS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

/// Reads the ids of a stream's events after one, until there are `most` or the stream ends.
async fn read(client: &Client, path: &str, last: &str, most: usize) -> Vec<String> {
    let request = client.http.get(format!("{}{path}", client.url)).header("last-event-id", last);
    let (mut ids, mut text) = (Vec::new(), String::new());
    let Ok(mut response) = request.send().await else { return ids };
    while let Ok(Some(bytes)) = response.chunk().await {
        text.push_str(&String::from_utf8_lossy(&bytes));
        while let Some((frame, rest)) = text.clone().split_once("\n\n") {
            text = rest.to_owned();
            ids.extend(frame.lines().find_map(|line| line.strip_prefix("id: ")).map(str::to_owned));
            if ids.len() >= most {
                return ids;
            }
        }
    }
    ids
}

#[tokio::test]
async fn streams_resumed_after_kills_have_no_gap_or_repeat_under_load() {
    let folder = tempfile::tempdir().unwrap();
    let mut accepted: Vec<String> = Vec::new();
    let mut streams: Vec<(String, Vec<String>)> = Vec::new();
    for round in 0..rounds() {
        let (child, client) = start(folder.path()).await;
        let thread = client.thread().await;
        let mut body = say(&format!("long {round}"));
        body["stream_resumable"] = json!(true);
        // Message chunks cannot be read again later, so they are left out.
        body["stream_mode"] = json!(["values", "updates"]);
        let made = client.post(&format!("/threads/{thread}/runs"), body).await;
        let path = format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap());
        accepted.push(path.clone());
        streams.push((path, Vec::new()));
        let load = (0..8).map(|number| {
            let client = &client;
            async move {
                let thread = client.thread().await;
                let text = format!("load {round} {number}");
                let made = client.post(&format!("/threads/{thread}/runs"), say(&text)).await;
                format!("/threads/{thread}/runs/{}", made["run_id"].as_str().unwrap())
            }
        });
        accepted.extend(futures_util::future::join_all(load).await);
        // Streams of this and earlier rounds are read for a while, each from its last event.
        for (at, (path, seen)) in streams.iter_mut().rev().take(3).enumerate() {
            let last = seen.last().cloned().unwrap_or_else(|| "-1".to_owned());
            let more = read(&client, &format!("{path}/stream"), &last, 3 + (round * 7 + at * 5) % 23).await;
            seen.extend(more);
        }
        drop(child);
    }
    let (client, _end, _serving) = run(noting_server(folder.path()).await).await;
    for path in &accepted {
        client.get(&format!("{path}/join")).await;
        assert_eq!(client.get(path).await["status"], "success", "{path}");
    }
    for (path, seen) in &mut streams {
        let last = seen.last().cloned().unwrap_or_else(|| "-1".to_owned());
        let rest = read(&client, &format!("{path}/stream"), &last, usize::MAX).await;
        seen.extend(rest);
        let whole = read(&client, &format!("{path}/stream"), "-1", usize::MAX).await;
        let again: Vec<&String> = seen.iter().filter(|id| whole.contains(id)).collect();
        assert_eq!(again, whole.iter().collect::<Vec<_>>(), "{path}");
    }
    let notes = std::fs::read_to_string(folder.path().join("notes")).unwrap_or_default();
    let mut made: Vec<&str> = notes.lines().collect();
    let all = made.len();
    made.sort_unstable();
    made.dedup();
    assert_eq!(made.len(), all, "a call was made twice");
}
