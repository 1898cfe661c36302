//! Version 2 of the streaming protocol.

use deepagents::DeepAgent;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents_core::store::MemoryStore;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Nothing, run, say, serve, serve_on, server, soon};
use crate::websocket::Socket;

const ALL: [&str; 5] = ["values", "messages", "tools", "lifecycle", "input"];

fn ends(event: &Value) -> bool {
    let params = &event["params"];
    let over = ["completed", "failed", "interrupted"].iter().any(|word| params["data"]["event"] == *word);
    event["method"] == "lifecycle" && params["namespace"] == json!([]) && over
}

fn start(id: u32, text: &str) -> Value {
    json!({"id": id, "method": "run.start", "params": say(text)})
}

#[tokio::test]
async fn a_threads_event_stream_spans_its_runs_with_rising_sequence_numbers() {
    let client = serve(vec![Turn::call("ls", json!({"path": "/"})), Turn::text("One."), Turn::text("Two.")]).await;
    let id = client.thread().await;
    for (number, text) in [(1, "first"), (2, "second")] {
        let answer = client.post(&format!("/threads/{id}/commands"), start(number, text)).await;
        assert_eq!((&answer["type"], &answer["id"]), (&json!("success"), &json!(number)));
        let run = answer["result"]["run_id"].as_str().unwrap();
        client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    }
    let count = std::cell::Cell::new(0);
    let second = |event: &Value| ends(event) && count.replace(count.get() + 1) == 1;
    let all = client.thread_events(&id, &json!({"channels": ALL}), second).await;
    let numbers: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let words: Vec<&str> = all
        .iter()
        .filter(|event| event["method"] == "tools" || event["method"] == "lifecycle")
        .map(|event| event["params"]["data"]["event"].as_str().unwrap())
        .collect();
    assert_eq!(words, ["running", "tool-started", "tool-finished", "completed", "running", "completed"]);
    // A client that has read up to an event continues with the next one.
    for at in 0..all.len() - 1 {
        count.set(all[..=at].iter().filter(|event| ends(event)).count());
        let wanted = json!({"channels": ALL, "since": numbers[at]});
        let rest = client.thread_events(&id, &wanted, second).await;
        let rest: Vec<u64> = rest.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(rest, numbers[at + 1..], "after {}", all[at]);
    }
}

#[tokio::test]
async fn checkpoint_steps_keep_counting_across_the_runs_of_a_thread() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let id = client.thread().await;
    for (number, text) in [(1, "first"), (2, "second")] {
        let answer = client.post(&format!("/threads/{id}/commands"), start(number, text)).await;
        let run = answer["result"]["run_id"].as_str().unwrap();
        client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    }
    let count = std::cell::Cell::new(0);
    let second = |event: &Value| ends(event) && count.replace(count.get() + 1) == 1;
    let all = client.thread_events(&id, &json!({"channels": ["checkpoints", "lifecycle"]}), second).await;
    let told = all.iter().filter(|event| event["method"] == "checkpoints").map(|event| &event["params"]["data"]);
    let told: Vec<(Value, Value)> = told.map(|data| (data["id"].clone(), data["step"].clone())).collect();
    let history = client.post(&format!("/threads/{id}/history"), json!({"limit": 100})).await;
    let states = history.as_array().unwrap().iter().rev();
    let known: Vec<(Value, Value)> =
        states.map(|state| (state["checkpoint_id"].clone(), state["metadata"]["step"].clone())).collect();
    assert_eq!(told, known);
}

#[tokio::test]
async fn an_interrupt_asks_and_an_answer_resumes() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/commands");
    client.post(&path, start(1, "book")).await;
    let events = client.thread_events(&id, &json!({"channels": ["input", "lifecycle"]}), ends).await;
    let asked = events.iter().find(|event| event["method"] == "input.requested").unwrap();
    let interrupt = &asked["params"]["data"]["interrupt_id"];
    let answer = |interrupt: &Value, decisions: Value| {
        let params = json!({"namespace": [], "interrupt_id": interrupt, "response": {"decisions": decisions}});
        json!({"id": 2, "method": "input.respond", "params": params})
    };
    let approve = json!([{"type": "approve"}]);
    let wrong = client.post(&path, answer(&json!("nope"), approve.clone())).await;
    assert_eq!(wrong["error"], "no_such_interrupt");
    let wrong = client.post(&path, answer(interrupt, json!([]))).await;
    assert_eq!(wrong["error"], "invalid_argument", "{wrong}");
    let one = json!({"interrupt_id": interrupt, "response": {"decisions": approve}});
    let twice = json!({"id": 2, "method": "input.respond", "params": {"responses": [one, one]}});
    assert_eq!(client.post(&path, twice).await["error"], "invalid_argument");
    let right = client.post(&path, answer(interrupt, approve)).await;
    let run = right["result"]["run_id"].as_str().unwrap();
    let values = client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    assert_eq!(values["messages"][2]["content"], "booked Oslo");
}

#[tokio::test]
async fn a_reader_receives_only_the_events_it_asked_for() {
    let client = serve(vec![Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/commands"), start(1, "look")).await;
    let wanted = json!({"channels": ["messages", "lifecycle"], "namespaces": [[]], "depth": 0});
    let events = client.thread_events(&id, &wanted, ends).await;
    assert!(events.iter().all(|event| event["method"] == "messages" || event["method"] == "lifecycle"));
    assert!(events.iter().all(|event| event["params"]["namespace"] == json!([])));
    let text: String = events
        .iter()
        .filter(|event| event["params"]["data"]["delta"]["type"] == "text-delta")
        .map(|event| event["params"]["data"]["delta"]["text"].as_str().unwrap())
        .collect();
    assert_eq!(text, "Done.");
}

#[tokio::test]
async fn streams_end_on_server_shutdown_so_that_clients_reconnect() {
    let (client, end, serving) = run(server(vec![Turn::text("Hello.")])).await;
    let id = client.thread().await;
    let wanted = json!({"channels": ALL});
    let reads = std::sync::Arc::new(tokio::sync::Notify::new());
    let reading = {
        let (client, id, reads) = (client.clone(), id.clone(), reads.clone());
        let last = move |_: &Value| {
            reads.notify_one();
            false
        };
        tokio::spawn(async move { client.thread_events(&id, &wanted, last).await })
    };
    client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    soon(reads.notified()).await;
    end.send(()).unwrap();
    soon(serving).await.unwrap();
    assert!(ends(reading.await.unwrap().last().unwrap()));
}

#[tokio::test]
async fn a_subscription_ends_on_request_and_a_lost_one_resumes_after_the_last_event() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/commands");
    client.post(&path, start(1, "first")).await;
    let first = client.thread_events(&id, &json!({"channels": ["lifecycle"]}), ends).await;
    let mut socket = Socket::open(&client, &id).await;
    let reconnect = |since: Value| {
        let params = json!({"subscription_id": "mine", "channels": ["lifecycle"], "since": since});
        json!({"id": 1, "method": "subscription.reconnect", "params": params})
    };
    for wrong in [json!(null), json!(-1), json!(true), json!("1")] {
        assert_eq!(socket.command(&reconnect(wrong)).await.0["error"], "invalid_argument");
    }
    let since = first[0]["seq"].clone();
    let (answer, _) = socket.command(&reconnect(since)).await;
    assert_eq!(answer["result"], json!({"subscription_id": "mine"}));
    let read = socket.read().await;
    assert_eq!((&read["seq"], &read["params"]["data"]["event"]), (&first[1]["seq"], &json!("completed")));
    let unsubscribe = json!({"id": 2, "method": "subscription.unsubscribe", "params": {"subscription_id": "mine"}});
    assert_eq!(socket.command(&unsubscribe).await.0["result"], json!({}));
    assert_eq!(socket.command(&unsubscribe).await.0["error"], "no_such_subscription");
    let (started, events) = socket.command(&start(3, "second")).await;
    let run = started["result"]["run_id"].as_str().unwrap();
    client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    let tree = json!({"id": 4, "method": "agent.getTree", "params": {}});
    let (tree, more) = socket.command(&tree).await;
    assert!(events.is_empty() && more.is_empty(), "nothing is sent any more: {events:?} {more:?}");
    let expected = json!({"namespace": [], "status": "completed", "graph_name": "agent", "children": []});
    assert_eq!(tree["result"]["tree"], expected);
}

#[tokio::test]
async fn a_command_reads_the_state_and_another_sends_a_message_to_a_running_run() {
    let gate = std::sync::Arc::new(tokio::sync::Notify::new());
    let wait = gate.clone();
    let work = deepagents::tool_fn("work", "Works.", move |_: Nothing, _cx| {
        let wait = wait.clone();
        async move {
            wait.notified().await;
            Ok("worked")
        }
    });
    let journal: std::sync::Arc<dyn deepagents::Journal> = std::sync::Arc::new(deepagents::MemoryJournal::new());
    let model = ScriptedModel::new([Turn::call("work", json!({})), Turn::text("Well then.")]);
    let agent = DeepAgent::builder().model(model).journal(journal.clone()).tool(work).build().unwrap();
    let client = serve_on(agent, journal, std::sync::Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/commands");
    let inject =
        json!({"id": 2, "method": "input.inject", "params": {"message": {"role": "user", "content": "hurry"}}});
    assert_eq!(client.post(&path, inject.clone()).await["error"], "no_such_run");
    client.post(&path, start(1, "work")).await;
    let begun = |event: &Value| event["params"]["data"]["event"] == "tool-started";
    client.thread_events(&id, &json!({"channels": ["tools"]}), begun).await;
    let empty = json!({"id": 2, "method": "input.inject", "params": {}});
    assert_eq!(client.post(&path, empty).await["error"], "invalid_argument");
    assert_eq!(client.post(&path, inject).await["type"], "success");
    gate.notify_one();
    client.thread_events(&id, &json!({"channels": ["lifecycle"]}), ends).await;
    let get = |params: Value| json!({"id": 3, "method": "state.get", "params": params});
    let state = client.post(&path, get(json!({"keys": ["messages"]}))).await;
    let values = state["result"]["values"].as_object().unwrap();
    assert_eq!(values.keys().collect::<Vec<_>>(), ["messages"]);
    let texts: Vec<_> = values["messages"].as_array().unwrap().iter().map(|one| one["content"].clone()).collect();
    assert_eq!(texts, ["work", "", "worked", "hurry", "Well then."]);
    let below = client.post(&path, get(json!({"namespace": ["tools:1"]}))).await;
    assert_eq!(below["error"], "no_such_namespace");
    assert_eq!(
        client.post(&path, json!({"id": 4, "method": "state.gte", "params": {}})).await["error"],
        "unknown_command"
    );
}

#[tokio::test]
async fn an_idle_websocket_is_kept_alive() {
    let client = serve(vec![]).await;
    let id = client.thread().await;
    let mut socket = Socket::open(&client, &id).await;
    assert_eq!(
        (socket.0.read_u8().await.unwrap(), socket.0.read_u8().await.unwrap()),
        (0x89, 0),
        "a ping without a text"
    );
    // Answer the ping with a pong.
    socket.0.write_all(&[0x8a, 0x80, 0, 0, 0, 0]).await.unwrap();
    let subscribe = json!({"id": 2, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}});
    socket.write(&subscribe).await;
    assert_eq!(socket.read().await["result"], json!({"subscription_id": "sub-1"}));
}

#[tokio::test]
async fn commands_and_events_share_one_websocket() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let id = client.thread().await;
    let mut socket = Socket::open(&client, &id).await;
    socket.write(&start(1, "too early")).await;
    assert_eq!(socket.read().await["error"], "invalid_argument");
    let subscribe = json!({"id": 2, "method": "subscription.subscribe", "params": {"channels": ["lifecycle"]}});
    socket.write(&subscribe).await;
    assert_eq!(socket.read().await["result"], json!({"subscription_id": "sub-1"}));
    socket.write(&start(3, "hi")).await;
    let mut words = Vec::new();
    while words.last() != Some(&json!("completed")) {
        let read = socket.read().await;
        if read["type"] == "event" {
            words.push(read["params"]["data"]["event"].clone());
        }
    }
    assert_eq!(words, ["running", "completed"]);
}

#[tokio::test]
async fn messages_in_values_events_have_lists_of_blocks() {
    let client = serve(vec![Turn::call("ls", json!({"path": "/"})).and_text("I look."), Turn::text("Done.")]).await;
    let id = client.thread().await;
    let flat = client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let all = client.thread_events(&id, &json!({"channels": ["values", "lifecycle"]}), ends).await;
    let last = all.iter().rev().find(|event| event["method"] == "values").unwrap();
    let messages = &last["params"]["data"]["messages"];
    assert_eq!(messages[0]["content"], json!([{"type": "text", "text": "hi"}]));
    let call = &flat["messages"][1]["tool_calls"][0];
    assert_eq!(messages[1]["content"], json!([{"type": "text", "text": "I look."}, call]), "{messages}");
    assert_eq!(&messages[1]["tool_calls"][0], call);
}
