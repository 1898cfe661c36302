//! A2A version 1.0. Version 0.3 is tested with our own client.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::hooked::HookedStore;
use crate::support::{Client, agent, serve, serve_on, soon};

async fn ask(client: &Client, version: &str, method: &str, params: Value) -> Value {
    ask_of("agent", client, version, method, params).await
}

async fn ask_of(assistant: &str, client: &Client, version: &str, method: &str, params: Value) -> Value {
    let request = client.http.post(format!("{}/a2a/{assistant}", client.url)).header("A2A-Version", version);
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    request.json(&body).send().await.unwrap().json().await.unwrap()
}

async fn asked(client: &Client, method: &str, params: Value) -> Value {
    let mut answer = ask(client, "1.0", method, params).await;
    assert_eq!(answer["error"], Value::Null, "{answer}");
    answer["result"].take()
}

fn message(id: &str, text: &str) -> Value {
    json!({"message": {"role": "ROLE_USER", "messageId": id, "parts": [{"text": text}]}})
}

/// Returns the results of a stream.
async fn streamed(client: &Client, method: &str, params: Value) -> Vec<Value> {
    let request = client.http.post(format!("{}/a2a/agent", client.url)).header("A2A-Version", "1.0");
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
    let text = request.json(&body).send().await.unwrap().text().await.unwrap();
    let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
    data.map(|data| serde_json::from_str::<Value>(data).unwrap()["result"].take()).collect()
}

#[tokio::test]
async fn a_card_offers_both_versions_newest_first() {
    let client = serve(Vec::new()).await;
    let card = client.get("/a2a/agent/.well-known/agent-card.json").await;
    let url = format!("{}/a2a/agent", client.url);
    let offered = |version: &str| json!({"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version});
    assert_eq!(card["supportedInterfaces"], json!([offered("1.0"), offered("0.3")]));
    assert_eq!((&card["protocolVersion"], &card["url"]), (&json!("0.3.0"), &json!(url)));
}

#[tokio::test]
async fn a_task_is_sent_answered_read_and_listed() {
    let turns = [Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked."), Turn::text("Hello.")];
    let client = serve(turns.to_vec()).await;
    let task = asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"].take();
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED");
    let question = &task["status"]["message"];
    assert_eq!(
        (&question["role"], &question["parts"][1]["data"]["interrupts"][0]["value"]["action_requests"][0]["name"]),
        (&json!("ROLE_AGENT"), &json!("book"))
    );
    assert!(question["parts"][0]["text"].is_string() && !task.to_string().contains("\"kind\""), "{task}");
    let mut answer = message("m2", "approve");
    answer["message"]["taskId"] = task["id"].clone();
    let done = asked(&client, "SendMessage", answer).await["task"].take();
    assert_eq!((&done["id"], &done["status"]["state"]), (&task["id"], &json!("TASK_STATE_COMPLETED")));
    assert_eq!(done["artifacts"][0]["parts"], json!([{"text": "Booked."}]));
    assert_eq!(done["history"][0]["role"], "ROLE_USER");

    // The answer comes in pieces, also to a message with a file; the last event is a status.
    let mut more = message("m3", "Look at this");
    let file = json!({"raw": "AA==", "filename": "a.png", "mediaType": "image/png"});
    more["message"]["parts"].as_array_mut().unwrap().push(file);
    let events = streamed(&client, "SendStreamingMessage", more).await;
    assert!(events[0]["task"]["id"].is_string(), "{events:?}");
    let pieces: String =
        events.iter().filter_map(|e| e["artifactUpdate"]["artifact"]["parts"][0]["text"].as_str()).collect();
    assert_eq!(pieces, "Hello.");
    assert_eq!(events.last().unwrap()["statusUpdate"]["status"]["state"], "TASK_STATE_COMPLETED");
    assert!(events.last().unwrap()["statusUpdate"]["final"].is_null());

    let read = asked(&client, "GetTask", json!({"id": done["id"], "historyLength": 0})).await;
    assert_eq!((&read["artifacts"], &read["history"]), (&done["artifacts"], &json!([])));
    let first = asked(&client, "ListTasks", json!({"pageSize": 1, "includeArtifacts": true})).await;
    assert_eq!((&first["totalSize"], &first["pageSize"]), (&json!(2), &json!(1)));
    assert_eq!(first["tasks"][0]["artifacts"][0]["parts"][0]["text"], "Hello.", "the last one first");
    let second = asked(&client, "ListTasks", json!({"pageSize": 1, "pageToken": first["nextPageToken"]})).await;
    assert_eq!((&second["tasks"][0]["id"], &second["nextPageToken"]), (&done["id"], &json!("")));
    assert!(second["tasks"][0]["artifacts"].is_null());
    let of = |filter: Value| {
        let client = &client;
        async move { asked(client, "ListTasks", filter).await["totalSize"].as_u64().unwrap() }
    };
    assert_eq!(of(json!({"contextId": done["contextId"]})).await, 1);
    assert_eq!(of(json!({"status": "TASK_STATE_COMPLETED"})).await, 2);
    assert_eq!(of(json!({"status": "TASK_STATE_FAILED"})).await, 0);
    assert_eq!(of(json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"})).await, 0);
}

#[tokio::test]
async fn unsupported_and_invalid_a2a_requests_get_the_protocols_error_codes() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let task = asked(&client, "SendMessage", message("m1", "Hi")).await["task"].take();
    let id = json!({"id": task["id"]});
    let refusals = [
        ("SubscribeToTask", id.clone(), -32004),
        ("CancelTask", id.clone(), -32002),
        ("GetTask", json!({"id": "01890a5d-ac96-774b-bcce-b302099a8057"}), -32001),
        ("GetExtendedAgentCard", json!({}), -32007),
        ("CreateTaskPushNotificationConfig", id, -32003),
        ("ListTasks", json!({"pageSize": 1_000}), -32602),
        ("ListTasks", json!({"pageToken": "x"}), -32602),
        ("SendMessage", json!({"message": {"role": "ROLE_USER", "messageId": "m2", "parts": [{}]}}), -32602),
        ("SendNothing", json!({}), -32601),
    ];
    for (method, params, code) in refusals {
        assert_eq!(ask(&client, "1.0", method, params).await["error"]["code"], code, "{method}");
    }
    assert_eq!(ask(&client, "2.0", "SendMessage", message("m3", "Hi")).await["error"]["code"], -32009);
}

#[tokio::test]
async fn an_empty_context_id_is_none() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]).await;
    let mut first = message("m1", "Book Oslo");
    first["message"]["contextId"] = json!("");
    let task = asked(&client, "SendMessage", first).await["task"].take();
    assert!(!task["contextId"].as_str().unwrap().is_empty(), "{task}");
    let mut answer = message("m2", "approve");
    (answer["message"]["contextId"], answer["message"]["taskId"]) = (json!(""), task["id"].clone());
    let done = asked(&client, "SendMessage", answer).await["task"].take();
    assert_eq!((&done["contextId"], &done["status"]["state"]), (&task["contextId"], &json!("TASK_STATE_COMPLETED")));
}

#[tokio::test]
async fn a_task_not_waited_for_can_be_cancelled() {
    let client = serve(vec![Turn::text("Late.").delay(std::time::Duration::from_secs(600))]).await;
    let mut now = message("m1", "Hi");
    now["configuration"] = json!({"returnImmediately": true});
    let task = asked(&client, "SendMessage", now).await["task"].take();
    assert!(
        ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"].map(Value::from).contains(&task["status"]["state"]),
        "{task}"
    );
    let cancelled = asked(&client, "CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED");
}

#[tokio::test]
async fn a_repeated_message_changes_nothing() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let store = Arc::new(HookedStore::default());
    let turns = vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")];
    let client = serve_on(agent(turns, journal.clone()), journal, store.clone()).await;
    // The same message arrives between the request that finds no such message and the one that stores it.
    fn is_message(namespace: &[String]) -> bool {
        namespace.get(1).is_some_and(|kind| kind == "a2a-messages")
    }
    let ((told, tells), again, armed) = (oneshot::channel(), client.clone(), store.clone());
    store.once(is_message, async move {
        armed.once(is_message, async move {
            told.send(asked(&again, "SendMessage", message("m1", "Book Oslo")).await["task"].take()).unwrap();
        });
    });
    let task = asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"].take();
    assert_eq!(soon(tells).await.unwrap()["id"], task["id"]);
    assert_eq!(asked(&client, "ListTasks", json!({})).await["totalSize"], 1);

    let mut answer = message("m2", "approve");
    answer["message"]["taskId"] = task["id"].clone();
    answer["message"]["contextId"] = json!("01890a5d-ac96-774b-bcce-b302099a8057");
    assert_eq!(ask(&client, "1.0", "SendMessage", answer.clone()).await["error"]["code"], -32602);
    answer["message"]["contextId"] = task["contextId"].clone();
    let done = asked(&client, "SendMessage", answer).await["task"].take();
    assert_eq!(done["status"]["state"], "TASK_STATE_COMPLETED");
    // The client did not get an answer to its first message, and sends it again.
    assert_eq!(asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"], done);
}

#[tokio::test]
async fn a_task_is_known_to_its_assistant_alone() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"}))]).await;
    let task = asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"].take();
    let agent = client.post("/assistants/search", json!({})).await[0]["assistant_id"].take();
    let other = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].take();
    let id = json!({"id": task["id"]});
    let own = ask_of(agent.as_str().unwrap(), &client, "1.0", "GetTask", id.clone()).await;
    assert_eq!(own["result"]["id"], task["id"], "{own}");
    let mut answer = message("m2", "approve");
    answer["message"]["taskId"] = task["id"].clone();
    for (method, params) in [("GetTask", id.clone()), ("CancelTask", id), ("SendMessage", answer)] {
        let refused = ask_of(other.as_str().unwrap(), &client, "1.0", method, params).await;
        assert_eq!(refused["error"]["code"], -32001, "{method}: {refused}");
    }
    let none = ask_of(other.as_str().unwrap(), &client, "1.0", "ListTasks", json!({})).await;
    assert_eq!(none["result"]["totalSize"], 0, "{none}");
    let unknown = ask_of("nobody", &client, "1.0", "ListTasks", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
}

#[tokio::test]
async fn a_task_that_waits_can_be_cancelled() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Hello.")]).await;
    let task = asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"].take();
    let cancelled = asked(&client, "CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    let again = ask(&client, "1.0", "CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(again["error"]["code"], -32002, "{again}");
    let mut next = message("m2", "Hi");
    next["message"]["contextId"] = task["contextId"].clone();
    let next = asked(&client, "SendMessage", next).await["task"].take();
    assert_eq!(next["status"]["state"], "TASK_STATE_COMPLETED", "{next}");
    assert_eq!(asked(&client, "GetTask", json!({"id": task["id"]})).await["status"], cancelled["status"]);
}

#[tokio::test]
async fn a_task_whose_conversation_went_on_without_an_answer_is_cancelled_and_has_its_own_messages() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Hello.")]).await;
    let task = asked(&client, "SendMessage", message("m1", "Book Oslo")).await["task"].take();
    let mut next = message("m2", "Hi");
    next["message"]["contextId"] = task["contextId"].clone();
    let next = asked(&client, "SendMessage", next).await["task"].take();
    let texts = |task: &Value| -> Vec<Value> {
        task["history"].as_array().unwrap().iter().map(|message| message["parts"][0]["text"].clone()).collect()
    };
    assert_eq!(texts(&next), ["Hi", "Hello."], "{next}");
    let left = asked(&client, "GetTask", json!({"id": task["id"]})).await;
    assert_eq!((&left["status"]["state"], texts(&left)), (&json!("TASK_STATE_CANCELED"), vec![json!("Book Oslo")]));
}
