//! Version 2 of the protocol.

use deepagents::models::scripted::Turn;
use serde_json::{Value, json};

use crate::support::{run, say, serve, server};

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
async fn a_thread_is_read_over_its_runs_and_its_numbers_rise() {
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
    // Whoever has read up to an event reads on right behind it.
    for at in 0..all.len() - 1 {
        count.set(all[..=at].iter().filter(|event| ends(event)).count());
        let wanted = json!({"channels": ALL, "since": numbers[at]});
        let rest = client.thread_events(&id, &wanted, second).await;
        let rest: Vec<u64> = rest.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
        assert_eq!(rest, numbers[at + 1..], "after {}", all[at]);
    }
}

#[tokio::test]
async fn a_pause_asks_and_an_answer_goes_on() {
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
    let right = client.post(&path, answer(interrupt, approve)).await;
    let run = right["result"]["run_id"].as_str().unwrap();
    let values = client.get(&format!("/threads/{id}/runs/{run}/join")).await;
    assert_eq!(values["messages"][2]["content"], "booked Oslo");
}

#[tokio::test]
async fn a_reader_gets_what_it_asked_for_and_nothing_else() {
    let client = serve(vec![Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/commands"), start(1, "look")).await;
    let wanted = json!({"channels": ["messages", "lifecycle"], "namespaces": [[]], "depth": 0});
    let events = client.thread_events(&id, &wanted, ends).await;
    assert!(events.iter().all(|event| event["method"] == "messages" || event["method"] == "lifecycle"));
    assert!(events.iter().all(|event| event["params"]["namespace"] == json!([])));
}

#[tokio::test]
async fn streams_end_when_the_server_does_so_that_clients_reconnect() {
    let (client, end, serving) = run(server(vec![Turn::text("Hello.")])).await;
    let id = client.thread().await;
    let wanted = json!({"channels": ALL});
    let reading = {
        let (client, id) = (client.clone(), id.clone());
        tokio::spawn(async move { client.thread_events(&id, &wanted, |_| false).await })
    };
    client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    end.send(()).unwrap();
    serving.await.unwrap();
    assert!(ends(reading.await.unwrap().last().unwrap()));
}
