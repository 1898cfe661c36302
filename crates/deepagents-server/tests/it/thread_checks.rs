//! Threads that an agent must not work on.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal, tool_fn};
use deepagents_core::journal::ThreadInfo;
use deepagents_core::store::MemoryStore;
use deepagents_server::Server;
use reqwest::{Method, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;

use crate::support::{Client, Nothing, agent, run, say, soon, until};

/// Serves an agent that may only work on threads without the metadata `kept`.
async fn checked(agent: DeepAgent, journal: Arc<dyn Journal>) -> Client {
    let check = |thread: &ThreadInfo| match thread.metadata.get("kept") {
        None => Ok(()),
        Some(_) => Err("this thread is kept".to_owned()),
    };
    let server = Server::new(journal, Arc::new(MemoryStore::default())).agent("agent", agent).unwrap();
    run(server.check_threads(check)).await.0
}

/// Does what another program on the journal does.
async fn keep(journal: &dyn Journal, thread: &str) {
    let kept = Map::from_iter([("kept".to_owned(), json!(true))]);
    journal.threads().update_metadata(thread, kept).await.unwrap();
}

async fn ask_a2a(client: &Client, message: Value) -> Value {
    let request = client.http.post(format!("{}/a2a/agent", client.url)).header("A2A-Version", "1.0");
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": {"message": message}});
    request.json(&body).send().await.unwrap().json().await.unwrap()
}

#[tokio::test]
async fn a_run_on_a_thread_that_the_agents_check_refuses_is_refused_however_it_is_started() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let turns = vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Not to be asked for.")];
    let client = checked(agent(turns, journal.clone()), journal.clone()).await;
    let message = json!({"role": "ROLE_USER", "messageId": "m1", "parts": [{"text": "Book Oslo"}]});
    let task = ask_a2a(&client, message).await["result"]["task"].take();
    let thread = task["contextId"].as_str().unwrap().to_owned();
    let path = format!("/threads/{thread}");
    let state = client.get(&format!("{path}/state")).await;
    let asked = state["tasks"][0]["interrupts"][0]["id"].clone();
    keep(&*journal, &thread).await;
    let before = (client.get(&path).await, client.get(&format!("{path}/runs")).await);

    let yes = json!({"decisions": [{"type": "approve"}]});
    let resume = json!({"assistant_id": "agent", "command": {"resume": yes}});
    let mut cron = say("again");
    cron["schedule"] = json!("0 5 1 1 *");
    let call = json!({"name": "agent", "arguments": {"message": "hi", "thread_id": thread}});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call});
    let respond = json!({"interrupt_id": asked, "response": yes});
    let mut interrupting = say("hi");
    interrupting["multitask_strategy"] = json!("interrupt");
    for (place, body) in [
        (format!("{path}/runs"), say("hi")),
        (format!("{path}/runs/wait"), say("hi")),
        (format!("{path}/runs/stream"), interrupting),
        (format!("{path}/runs/wait"), resume),
        (format!("{path}/runs/crons"), cron),
        (format!("{path}/commands"), json!({"id": 1, "method": "run.start", "params": say("hi")})),
        (format!("{path}/commands"), json!({"id": 1, "method": "input.respond", "params": respond})),
        ("/mcp".to_owned(), call),
    ] {
        let (status, answer) = client.send(Method::POST, &place, &body).await;
        assert!(answer.to_string().contains("this thread is kept"), "{place} {body}: {status} {answer}");
        let in_body = place.ends_with("/commands") || place == "/mcp";
        assert!(in_body || status == StatusCode::CONFLICT, "{place}: {status}");
    }
    for message in [
        json!({"role": "ROLE_USER", "messageId": "m2", "contextId": thread, "parts": [{"text": "hi"}]}),
        json!({"role": "ROLE_USER", "messageId": "m3", "taskId": task["id"], "parts": [{"text": "approve"}]}),
    ] {
        // A repeated message is not taken for one that was accepted.
        for _ in 0..2 {
            let answer = ask_a2a(&client, message.clone()).await;
            assert!(answer["error"].to_string().contains("this thread is kept"), "{answer}");
        }
    }
    assert_eq!(before, (client.get(&path).await, client.get(&format!("{path}/runs")).await));
    assert_eq!(client.get(&format!("{path}/state")).await["values"], state["values"]);
    assert_eq!(client.post("/runs/crons/count", json!({})).await, json!(0));

    // Nothing is done by ending the thread where it stands.
    let end = json!({"assistant_id": "agent", "command": {"goto": "__end__"}});
    client.post(&format!("{path}/runs/wait"), end).await;
    assert_eq!(client.get(&format!("{path}/state")).await["tasks"], json!([]));
}

#[tokio::test]
async fn an_accepted_run_fails_if_its_thread_is_refused_when_it_begins() {
    let (entered, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (enters, goes) = (entered.clone(), go.clone());
    let hold = tool_fn("hold", "Waits.", move |_: Nothing, _cx| {
        let (entered, go) = (enters.clone(), goes.clone());
        async move {
            entered.notify_one();
            go.notified().await;
            Ok("done".to_owned())
        }
    });
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new(vec![Turn::call("hold", json!({})), Turn::text("One."), Turn::text("Two.")]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(hold).build().unwrap();
    let client = checked(agent, journal.clone()).await;
    let thread = client.thread().await;
    let runs = format!("/threads/{thread}/runs");
    client.post(&runs, say("first")).await;
    soon(entered.notified()).await;
    let mut second = say("second");
    second["multitask_strategy"] = json!("enqueue");
    let second = client.post(&runs, second).await["run_id"].as_str().unwrap().to_owned();
    keep(&*journal, &thread).await;
    go.notify_one();
    until(async || client.get(&format!("{runs}/{second}")).await["status"] == "error").await;
    let joined = client.get(&format!("{runs}/{second}/join")).await;
    assert!(joined.to_string().contains("this thread is kept"), "{joined}");
    let values = client.get(&format!("/threads/{thread}/state")).await["values"].clone();
    assert!(values.to_string().contains("One.") && !values.to_string().contains("second"), "{values}");
}
