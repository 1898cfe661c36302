//! Which requests are rejected, with which status, and which unusual ones are accepted.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use deepagents::{Journal, MemoryJournal};
use deepagents_core::journal::ThreadQuery;
use deepagents_core::store::MemoryStore;
use deepagents_server::{Server, ServerError};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{Client, agent, say, serve};

/// Returns the status of a request.
async fn status(client: &Client, method: Method, path: &str, body: &Value) -> u16 {
    let (status, answer) = client.send(method, path, body).await;
    assert!(status.is_success() || answer["detail"].is_string(), "{path} {body}: {status} {answer}");
    status.as_u16()
}

async fn posted(client: &Client, path: &str, body: Value) -> u16 {
    status(client, Method::POST, path, &body).await
}

#[tokio::test]
async fn unselected_fields_are_omitted_rather_than_null() {
    let client = serve(vec![]).await;
    let thread = client.thread().await;
    let (history, runs) = (format!("/threads/{thread}/history"), format!("/threads/{thread}/runs"));
    for (path, field) in [
        ("/threads", "metadata"),
        ("/threads", "thread_id"),
        ("/threads/search", "status"),
        ("/threads/search", "limit"),
        ("/threads/search", "offset"),
        ("/assistants/search", "metadata"),
        ("/assistants/search", "limit"),
        ("/runs/crons/search", "limit"),
        (&history, "limit"),
        (&runs, "metadata"),
        (&runs, "config"),
        (&runs, "stream_mode"),
        (&runs, "multitask_strategy"),
        (&runs, "checkpoint"),
        (&runs, "after_seconds"),
    ] {
        let mut body = if path == runs { say("hi") } else { json!({}) };
        body[field] = Value::Null;
        assert_eq!(posted(&client, path, body).await, 422, "{path} {field}");
    }
    for path in ["/threads", "/threads/search", "/threads/count", "/assistants/search", "/store/namespaces", &history] {
        let response = client.http.post(format!("{}{path}", client.url)).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 422, "{path} without a body");
    }
}

#[tokio::test]
async fn page_limits_are_1_to_1000_and_a_history_defaults_to_the_newest_state() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let thread = client.thread().await;
    client.post(&format!("/threads/{thread}/runs/wait"), say("hi")).await;
    let history = format!("/threads/{thread}/history");
    for path in ["/threads/search", "/assistants/search", "/runs/crons/search", "/assistants/agent/versions", &history]
    {
        for (limit, expected) in [(0, 422), (1, 200), (1000, 200), (1001, 422)] {
            assert_eq!(posted(&client, path, json!({"limit": limit})).await, expected, "{path} {limit}");
        }
    }
    assert_eq!(client.post(&history, json!({})).await.as_array().unwrap().len(), 1);
    assert_eq!(client.get(&history).await.as_array().unwrap().len(), 1);
    assert!(client.post(&history, json!({"limit": 10})).await.as_array().unwrap().len() > 1);
}

#[tokio::test]
async fn a_run_with_invalid_options_is_rejected_and_one_with_valid_options_accepted() {
    let client = serve(vec![Turn::text("Hello."); 8]).await;
    let thread = client.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    for (field, value, expected) in [
        ("durability", json!("never"), 422),
        ("durability", json!("exit"), 200),
        ("checkpoint_during", json!("x"), 422),
        ("feedback_keys", json!("mine"), 422),
        ("config", json!({"recursion_limit": "x"}), 422),
        ("config", json!({"recursion_limit": 0}), 422),
        ("config", json!({"recursion_limit": -1}), 422),
        ("config", json!({"tags": "mine"}), 422),
        ("config", json!({"tags": ["mine"], "recursion_limit": 9}), 200),
        ("interrupt_before", json!("tools"), 422),
        ("after_seconds", json!(-1), 200),
        ("after_seconds", json!(0.0), 200),
        ("after_seconds", json!("soon"), 422),
    ] {
        let mut body = say("hi");
        body[field] = value.clone();
        assert_eq!(posted(&client, &wait, body).await, expected, "{field} {value}");
    }
    assert_eq!(posted(&client, "/runs/batch", json!([])).await, 422);
}

#[tokio::test]
async fn a_tool_result_without_a_call_is_rejected_and_changes_nothing() {
    let client = serve(vec![Turn::text("Hello."); 2]).await;
    let thread = client.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    client.post(&wait, say("hi")).await;
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "done"});
    let mut body = say("hi");
    body["input"]["messages"] = json!([{"role": "user", "content": "look"}, result]);
    let (status, answer) = client.send(Method::POST, &wait, &body).await;
    assert_eq!((status.as_u16(), answer["detail"].as_str().unwrap().contains("messages[1]")), (422, true), "{answer}");
    assert_eq!(posted(&client, "/runs/wait", body.clone()).await, 422);
    let call = json!({"role": "assistant", "tool_calls": [{"id": "c1", "name": "ls", "args": {}}]});
    body["input"]["messages"] = json!([{"role": "user", "content": "look"}, call, result, result]);
    assert_eq!(posted(&client, &wait, body.clone()).await, 422, "the call has its result");
    body["input"]["messages"] = json!([{"role": "user", "content": "look"}, call, result]);
    assert_eq!(posted(&client, &wait, body.clone()).await, 200);
    // A model may give the id again, but the call of the earlier turn has its result.
    body["input"]["messages"] = json!([{"role": "user", "content": "look again"}, result]);
    assert_eq!(posted(&client, &wait, body).await, 422);
}

#[tokio::test]
async fn a_tool_result_answers_the_call_at_the_checkpoint_from_which_its_run_starts() {
    let client =
        serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked."), Turn::text("Done.")]).await;
    let thread = client.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    client.post(&wait, say("book")).await;
    let state = client.get(&format!("/threads/{thread}/state")).await;
    let call = state["values"]["messages"][1]["tool_calls"][0]["id"].clone();
    let mut body = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    client.post(&wait, body.take()).await;
    let mut body = say("hi");
    body["input"]["messages"] = json!([{"role": "tool", "tool_call_id": call, "content": "booked by hand"}]);
    assert_eq!(posted(&client, &wait, body.clone()).await, 422, "the call has its result");
    body["checkpoint"] = state["checkpoint"].clone();
    assert_eq!(posted(&client, &wait, body).await, 200);
}

#[tokio::test]
async fn extra_slashes_in_a_path_are_ignored() {
    let client = serve(vec![]).await;
    assert_eq!(status(&client, Method::GET, "//ok", &json!({})).await, 200);
    assert_eq!(posted(&client, "/threads/", json!({})).await, 200);
    assert_eq!(posted(&client, "/threads//search", json!({})).await, 200);
}

#[tokio::test]
async fn impossible_ids_are_distinguished_from_missing_ones() {
    let client = serve(vec![]).await;
    let none = "00000000-0000-4000-8000-000000000000";
    for what in ["", "/graph", "/schemas", "/subgraphs"] {
        for (id, expected) in [("zz", 422), (none, 404), ("agent", 200)] {
            let path = format!("/assistants/{id}{what}");
            assert_eq!(status(&client, Method::GET, &path, &json!({})).await, expected, "{path}");
        }
    }
    for (xray, expected) in [("-1", 422), ("zz", 422), ("true", 200), ("2", 200)] {
        let path = format!("/assistants/agent/graph?xray={xray}");
        assert_eq!(status(&client, Method::GET, &path, &json!({})).await, expected, "{path}");
    }
    assert_eq!(posted(&client, "/assistants/search", json!({"graph_id": "nobody"})).await, 404);
    let odd = json!({"graph_id": "agent", "config": {"recursion_limit": "x"}});
    assert_eq!(posted(&client, "/assistants", odd).await, 422);
    let thread = client.thread().await;
    assert_eq!(posted(&client, "/threads/search", json!({"ids": ["zz"]})).await, 400);
    assert_eq!(client.post("/threads/search", json!({"ids": []})).await[0]["thread_id"], thread, "no choice");
    assert_eq!(posted(&client, "/threads", json!({"ttl": {"ttl": 9, "strategy": "hide"}})).await, 422);
    assert_eq!(status(&client, Method::DELETE, "/threads", &json!({})).await, 405);
    assert_eq!(posted(&client, "/runs/crons", json!({"schedule": "* * * * *", "assistant_id": none})).await, 404);
    for (schedule, zone, expected) in
        [("0 0 31 2 *", "UTC", 400), ("0 0 1 1 *", "", 400), ("0 0 1 1 *", "Mars/Sea", 422)]
    {
        let body = json!({"schedule": schedule, "timezone": zone, "assistant_id": "agent", "input": {}});
        assert_eq!(posted(&client, "/runs/crons", body).await, expected, "{schedule} {zone}");
    }
    assert_eq!(posted(&client, "/runs/crons/search", json!({"thread_id": "zz"})).await, 422);
    let cron = json!({"schedule": "0 0 1 1 *", "assistant_id": "agent", "end_time": "2090-01-01T00:00:00"});
    let made = client.post("/runs/crons", cron).await;
    assert_eq!((&made["end_time"], &made["on_run_completed"]), (&json!("2090-01-01T00:00:00Z"), &json!("delete")));
    let path = format!("/runs/crons/{}", made["cron_id"].as_str().unwrap());
    assert_eq!(status(&client, Method::PATCH, &path, &json!({})).await, 400);
}

#[tokio::test]
async fn store_namespaces_take_labels_without_dots_and_fields_are_found_by_value() {
    let client = serve(vec![]).await;
    let put = |namespace: Value, key: &str, value: Value| json!({"namespace": namespace, "key": key, "value": value});
    for (namespace, expected) in
        [(json!(null), 422), (json!([]), 400), (json!(["langgraph"]), 400), (json!(["a.b"]), 422), (json!(["a"]), 204)]
    {
        let body = put(namespace, "k", json!({}));
        assert_eq!(status(&client, Method::PUT, "/store/items", &body).await, expected, "{body}");
    }
    let mut indexed = put(json!(["a"]), "k", json!({}));
    indexed["index"] = json!("x");
    assert_eq!(status(&client, Method::PUT, "/store/items", &indexed).await, 422);
    for query in ["key=k", "namespace=&key=k"] {
        assert_eq!(status(&client, Method::GET, &format!("/store/items?{query}"), &json!({})).await, 422, "{query}");
    }
    for (label, key, value) in
        [("x", "one", json!({"n": 1, "d": {"e": 1}})), ("y", "two", json!({"n": 2, "d": {"e": 2}}))]
    {
        let body = put(json!(["b", label]), key, value);
        assert_eq!(status(&client, Method::PUT, "/store/items", &body).await, 204);
    }
    for (filter, expected) in [
        (json!({"n": 1.0}), json!(["one"])),
        (json!({"d": {"e": {"$gt": 1}}}), json!(["two"])),
        (json!({"d": {"e": 1}}), json!(["one"])),
        (json!({"missing": null}), json!(["one", "two"])),
    ] {
        let found = client.post("/store/items/search", json!({"namespace_prefix": ["b"], "filter": filter})).await;
        let mut keys: Vec<&Value> = found["items"].as_array().unwrap().iter().map(|item| &item["key"]).collect();
        keys.sort_by_key(|key| key.to_string());
        assert_eq!(json!(keys), expected, "{filter}");
    }
    for (filter, told) in [
        (json!("n"), "`filter` must be an object of fields, not a string"),
        (json!([1]), "`filter` must be an object of fields, not a list"),
        (json!(true), "`filter` must be an object of fields, not true or false"),
        (json!({"n": {"$gt": null}}), "`$gt` of `n` takes a number or a string, not null"),
        (json!({"n": {"$lte": [1]}}), "`$lte` of `n` takes a number or a string, not a list"),
        (json!({"d": {"e": {"$lt": {}}}}), "`$lt` of `d.e` takes a number or a string, not an object"),
        (json!({"n": {"$gt": 1, "x": 2}}), "`x` is not a comparison; use $eq, $ne, $gt, $gte, $lt or $lte"),
        (json!({"n": {"$in": [1]}}), "`$in` is not a comparison; use $eq, $ne, $gt, $gte, $lt or $lte"),
        (json!({"l": [{"$gt": 0}]}), "`filter` cannot compare inside the list of `l`; lists are compared as a whole"),
    ] {
        let body = json!({"namespace_prefix": ["b"], "filter": filter});
        let (status, answer) = client.send(Method::POST, "/store/items/search", &body).await;
        assert_eq!((status.as_u16(), &answer["detail"]), (422, &json!(told)), "{filter}");
    }
    let found = client.post("/store/namespaces", json!({"suffix": ["*", "x"]})).await;
    assert_eq!(found["namespaces"], json!([["b", "x"]]));
    let found = client.post("/store/namespaces", json!({"suffix": ["*", "a"]})).await;
    assert_eq!(found["namespaces"], json!([]), "what is above those of clients is no label");
}

#[tokio::test]
async fn a_stream_is_read_from_its_start_with_last_event_id_0_or_minus_1() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let thread = client.thread().await;
    let mut body = say("hi");
    (body["stream_mode"], body["stream_resumable"]) = (json!(["values"]), json!(true));
    let run = client.post(&format!("/threads/{thread}/runs"), body).await["run_id"].as_str().unwrap().to_owned();
    client.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    let path = format!("/threads/{thread}/runs/{run}/stream");
    let all = client.events(Method::GET, &path, Some("-1"), &json!({})).await;
    assert!(all.len() > 1);
    assert_eq!(client.events(Method::GET, &path, Some("0"), &json!({})).await, all);
}

#[tokio::test]
async fn an_agent_on_another_journal_is_rejected_and_the_check_leaves_no_trace() {
    let (here, there) = (Arc::new(MemoryJournal::new()), Arc::new(MemoryJournal::new()));
    let server = |journal: &Arc<MemoryJournal>| Server::new(journal.clone(), Arc::new(MemoryStore::default()));
    let served = server(&here).agent("near", agent(vec![], here.clone())).unwrap();
    let error = served.agent("far", agent(vec![], there.clone())).unwrap().start().await.unwrap_err();
    assert!(matches!(&error, ServerError::OtherJournal(name) if name == "far"), "{error}");
    // Two handles to one journal count as one journal.
    let wrapped: Arc<dyn Journal> = Arc::new(here.clone());
    server(&here).agent("agent", agent(vec![], wrapped)).unwrap().start().await.unwrap();
    for journal in [here, there] {
        assert!(journal.threads().list(&ThreadQuery::default()).await.unwrap().is_empty());
    }
}

#[test]
fn an_agent_name_that_cannot_be_part_of_a_url_is_rejected() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    for name in ["", " ", "a/ b", "a\n", " a"] {
        let server = Server::new(journal.clone(), Arc::new(MemoryStore::default()));
        let error = server.agent(name, agent(vec![], journal.clone())).unwrap_err();
        assert!(matches!(error, ServerError::Name(_)), "{error}");
    }
}

#[tokio::test]
async fn a_list_or_a_text_where_an_object_is_expected_is_rejected_with_the_name_of_the_field() {
    let client = serve(vec![]).await;
    let thread = client.thread().await;
    let (runs, state) = (format!("/threads/{thread}/runs"), format!("/threads/{thread}/state"));
    let (history, at) = (format!("/threads/{thread}/history"), format!("/threads/{thread}/state/checkpoint"));
    let run = |field: &str, value: Value| {
        let mut body = json!({"assistant_id": "agent", "input": {}});
        body[field] = value;
        body
    };
    for (path, body, named) in [
        ("/threads", json!([]), "expected struct Create"),
        ("/threads/search", json!([]), "expected struct Search"),
        ("/threads", json!({"metadata": []}), "`metadata`"),
        ("/threads", json!({"supersteps": [[[]]]}), "`supersteps[0]`"),
        ("/threads", json!({"ttl": [5, "delete"]}), "`ttl`"),
        (&runs, run("input", json!([])), "`input`"),
        (&runs, run("input", json!("hi")), "`input`"),
        ("/runs/crons", json!({"schedule": "* * * * *", "assistant_id": "agent", "input": []}), "`input`"),
        (&runs, run("input", json!([["messages", []]])), "`input`"),
        (&runs, run("input", json!({"messages": [["user", "hi", "m1"]]})), "messages[0]"),
        (&runs, run("command", json!([1])), "`command`"),
        (&runs, run("command", json!({"update": [1]})), "`command.update`"),
        (&runs, run("command", json!({"update": "hi"})), "`command.update`"),
        (&runs, run("config", json!([])), "`config`"),
        (&runs, run("checkpoint", json!(["x"])), "`checkpoint`"),
        (&state, json!({"values": []}), "`values`"),
        (&state, json!({"values": 7}), "`values`"),
        (&history, json!({"before": ["x"]}), "`before`"),
        (&at, json!({"checkpoint": []}), "`checkpoint`"),
        ("/store/items/search", json!([[]]), "expected struct Search"),
        ("/runs/crons/search", json!({"metadata": []}), "`metadata`"),
    ] {
        let (status, answer) = client.send(Method::POST, path, &body).await;
        let detail = answer["detail"].as_str().unwrap_or_default();
        assert!(status.as_u16() == 422 && detail.contains(named), "{path} {body}: {status} {answer}");
    }
}

#[tokio::test]
async fn a_body_of_millions_of_json_values_is_rejected_before_they_take_memory() {
    let client = serve(vec![]).await;
    let zeros = format!("[{}0]", "0,".repeat(2_000_000));
    let body = format!("{{\"metadata\": {{\"a\": {zeros}}}}}");
    for path in ["/threads/search", "/runs/wait", "/mcp"] {
        let request = client.http.post(format!("{}{path}", client.url)).body(body.clone());
        let response = request.header("content-type", "application/json").send().await.unwrap();
        let (status, text) = (response.status(), response.text().await.unwrap());
        assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{path}: {text}");
        assert!(text.contains("more than 1000000 JSON values"), "{text}");
    }
}

#[tokio::test]
async fn a_search_for_too_many_words_is_rejected() {
    let client = serve(vec![]).await;
    client.send(Method::PUT, "/store/items", &json!({"namespace": ["n"], "key": "k", "value": {"x": "word1"}})).await;
    let query = |count: usize| (0..count).map(|n| format!("word{n}")).collect::<Vec<_>>().join(" ");
    let search = |query: String| json!({"namespace_prefix": ["n"], "query": query});
    let found = client.post("/store/items/search", search(query(256))).await;
    assert_eq!(found["items"][0]["score"], json!(1.0 / 256.0));
    // The same words again are no more words.
    let repeated = vec![query(10); 100].join(" ");
    client.post("/store/items/search", search(repeated)).await;
    let (status, body) = client.send(Method::POST, "/store/items/search", &search(query(257))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(body["detail"].as_str().unwrap().contains("256"), "{body}");
}
