//! How the official clients use states, searches and nodes, with the responses of the reference implementation.

use std::sync::Arc;

use axum::http::{Method, StatusCode};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal};
use deepagents_core::state::{Channel, ChannelError, Sharing};
use deepagents_core::store::MemoryStore;
use serde_json::{Value, json};

use crate::support::{Client, say, serve, serve_on};

fn texts(values: &Value) -> Vec<String> {
    let messages = values["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| message["content"].as_str().unwrap_or_default().to_owned()).collect()
}

async fn texts_of(client: &Client, thread: &str) -> Vec<String> {
    texts(&client.get(&format!("/threads/{thread}/state")).await["values"])
}

fn todos() -> Turn {
    Turn::call("write_todos", json!({"todos": [{"content": "a", "status": "completed"}]}))
}

#[tokio::test]
async fn a_run_stops_before_and_after_each_named_node() {
    for (stops, next) in [
        (json!({"interrupt_before": ["model"]}), vec!["model", "model"]),
        (json!({"interrupt_before": "*"}), vec!["model", "tools", "model"]),
        (json!({"interrupt_before": ["tools"]}), vec!["tools"]),
        (json!({"interrupt_after": ["model"]}), vec!["tools"]),
        (json!({"interrupt_after": ["tools"]}), vec!["model"]),
        (json!({"interrupt_after": "*"}), vec!["tools", "model"]),
    ] {
        let client = serve(vec![todos(), Turn::text("Done.")]).await;
        let id = client.thread().await;
        let body = |mut body: Value| {
            body.as_object_mut().unwrap().extend(stops.as_object().unwrap().clone());
            body
        };
        let run = format!("/threads/{id}/runs/wait");
        client.post(&run, body(say("go"))).await;
        let mut seen = Vec::new();
        loop {
            let state = client.get(&format!("/threads/{id}/state")).await;
            let Some(node) = state["next"][0].as_str().map(str::to_owned) else { break };
            seen.push(node);
            assert!(seen.len() < 9, "{stops}: {seen:?}");
            client.post(&run, body(json!({"assistant_id": "agent"}))).await;
        }
        assert_eq!(seen, next, "{stops}");
        assert_eq!(texts_of(&client, &id).await.last().unwrap(), "Done.", "{stops}");
    }
    let client = serve(vec![]).await;
    let mut other = say("go");
    other["interrupt_before"] = json!(["PatchToolCallsMiddleware.before_agent"]);
    let (status, told) = client.send(Method::POST, "/runs/wait", &other).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        told["detail"],
        "`interrupt_before` has `PatchToolCallsMiddleware.before_agent`, which is not a node; the nodes are model and tools, and * for both"
    );
}

#[tokio::test]
async fn an_update_command_calls_no_model_and_a_goto_the_model_does() {
    let client = serve(["One.", "Two.", "Three."].map(Turn::text).into()).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    client.post(&run, say("first")).await;
    let command = |command: Value| json!({"assistant_id": "agent", "command": command});
    let note = json!({"messages": [{"role": "user", "content": "note"}]});
    let values = client.post(&run, command(json!({"update": note}))).await;
    assert_eq!(texts(&values), ["first", "One.", "note"], "{values}");
    assert_eq!(texts_of(&client, &id).await, ["first", "One.", "note"]);
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
    let values = client.post(&run, command(json!({"goto": "model"}))).await;
    assert_eq!(texts(&values), ["first", "One.", "note", "Two."], "{values}");
    let values = client.post(&run, command(json!({"update": note, "goto": ["model"]}))).await;
    assert_eq!(texts(&values), ["first", "One.", "note", "Two.", "note", "Three."], "{values}");
    let (status, told) = client.send(Method::POST, &run, &command(json!({"goto": "tools"}))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{told}");
    let (status, told) = client.send(Method::POST, "/runs/wait", &command(json!({"resume": "yes"}))).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
}

/// Creates a thread whose call waits for a person.
async fn asking(client: &Client) -> (String, String) {
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("book")).await;
    let state = client.get(&format!("/threads/{id}/state")).await;
    let call = state["values"]["messages"][1]["tool_calls"][0]["id"].as_str().unwrap().to_owned();
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
    (id, call)
}

#[tokio::test]
async fn a_waiting_state_can_be_updated_as_a_node_and_other_updates_are_rejected() {
    let book = || Turn::call("book", json!({"city": "Turin"}));
    let client = serve(vec![book(), Turn::text("Booked by hand."), book()]).await;
    let (id, call) = asking(&client).await;
    let state = format!("/threads/{id}/state");
    let said = json!({"values": {"messages": [{"role": "user", "content": "wait"}]}});
    let (status, told) = client.send(Method::POST, &state, &said).await;
    assert!(status.is_client_error(), "{status} {told}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
    // A person has made the call by hand.
    let result = json!({"role": "tool", "tool_call_id": call, "name": "book", "content": "done by hand"});
    client.post(&state, json!({"values": {"messages": [result]}, "as_node": "tools"})).await;
    let shown = client.get(&state).await;
    assert_eq!((&shown["interrupts"], &shown["next"]), (&json!([]), &json!(["model"])), "{shown}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["interrupts"], json!({}));
    let values = client.post(&format!("/threads/{id}/runs/wait"), json!({"assistant_id": "agent"})).await;
    assert_eq!(texts(&values).last().unwrap(), "Booked by hand.", "{values}");

    let (id, call) = asking(&client).await;
    let result = json!({"role": "tool", "tool_call_id": call, "name": "book", "content": "not made"});
    let state = format!("/threads/{id}/state");
    client.post(&state, json!({"values": {"messages": [result]}, "as_node": "__end__"})).await;
    let shown = client.get(&state).await;
    assert_eq!((&shown["interrupts"], &shown["next"]), (&json!([]), &json!([])), "{shown}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
}

#[tokio::test]
async fn a_refused_update_at_a_checkpoint_leaves_the_thread_where_it_was() {
    let client = serve(vec![Turn::call("book", json!({"city": "Turin"})), Turn::text("Booked.")]).await;
    let (id, _) = asking(&client).await;
    let place = format!("/threads/{id}/state");
    let seen = async || {
        let (state, thread) = (client.get(&place).await, client.get(&format!("/threads/{id}")).await);
        [&state["values"], &state["next"], &state["interrupts"], &state["checkpoint"], &thread].map(Value::clone)
    };
    let before = seen().await;
    let first = client.post(&format!("/threads/{id}/history"), json!({"limit": 9})).await[1]["checkpoint"].clone();
    let said = json!({"messages": [{"role": "user", "content": "wait"}]});
    let refused = json!({"values": said, "as_node": "model", "checkpoint": first});
    assert_eq!(client.send(Method::POST, &place, &refused).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(seen().await, before);
    let approve = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), approve).await;
    assert_eq!(texts(&values).last().unwrap(), "Booked.", "{values}");
}

#[tokio::test]
async fn a_waiting_threads_questions_survive_updates_until_its_calls_are_removed() {
    let client = serve(vec![Turn::call("book", json!({"city": "Turin"})); 2]).await;
    let (id, _) = asking(&client).await;
    let state = format!("/threads/{id}/state");
    let asked = client.get(&state).await["interrupts"].clone();
    client.post(&state, json!({"values": {"todos": [{"content": "a", "status": "pending"}]}})).await;
    assert_eq!(client.get(&state).await["interrupts"], asked);
    client.post(&state, json!({"values": {"messages": [{"type": "remove", "id": "__remove_all__"}]}})).await;
    let shown = client.get(&state).await;
    assert_eq!((&shown["interrupts"], &shown["values"]["messages"]), (&json!([]), &Value::Null), "{shown}");
}

#[tokio::test]
async fn an_answered_interrupt_stays_visible_in_its_earlier_state() {
    let client = serve(vec![Turn::call("book", json!({"city": "Turin"})), Turn::text("Booked.")]).await;
    let (id, _) = asking(&client).await;
    let waiting = client.get(&format!("/threads/{id}/state")).await;
    let resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": [{"type": "approve"}]}}});
    client.post(&format!("/threads/{id}/runs/wait"), resume).await;
    let history = client.post(&format!("/threads/{id}/history"), json!({"limit": 100})).await;
    let then: Vec<&Value> =
        history.as_array().unwrap().iter().filter(|state| state["interrupts"] != json!([])).collect();
    assert_eq!(then.len(), 1, "{history}");
    for key in ["interrupts", "next", "tasks", "checkpoint_id", "values"] {
        assert_eq!(then[0][key], waiting[key], "{key}");
    }
    let at = format!("/threads/{id}/state/{}", waiting["checkpoint_id"].as_str().unwrap());
    assert_eq!(client.get(&at).await["interrupts"], waiting["interrupts"]);
}

#[tokio::test]
async fn a_thread_can_be_created_with_supersteps_and_invalid_ones_are_rejected() {
    let client = serve(vec![Turn::text("Three.")]).await;
    let message = |role: &str, text: &str| json!({"messages": [{"role": role, "content": text}]});
    let step = |values: Value, node: &str| json!({"updates": [{"values": values, "as_node": node}]});
    let steps = json!([step(message("user", "one"), "__start__"), step(message("assistant", "two"), "model")]);
    let made = client.post("/threads", json!({"metadata": {"graph_id": "agent"}, "supersteps": steps})).await;
    let id = made["thread_id"].as_str().unwrap();
    assert_eq!(texts(&made["values"]), ["one", "two"], "{made}");
    assert_eq!(client.get(&format!("/threads/{id}/state")).await["next"], json!([]));
    let values = client.post(&format!("/threads/{id}/runs/wait"), say("three")).await;
    assert_eq!(texts(&values), ["one", "two", "three", "Three."]);
    for (body, status) in [
        (json!({"supersteps": steps}), StatusCode::UNPROCESSABLE_ENTITY),
        (json!({"metadata": {"graph_id": "other"}, "supersteps": steps}), StatusCode::NOT_FOUND),
        (
            json!({"metadata": {"graph_id": "agent"}, "supersteps": [step(message("user", "x"), "nowhere")]}),
            StatusCode::BAD_REQUEST,
        ),
        (
            json!({"metadata": {"graph_id": "agent"}, "supersteps": [step(message("user", "x"), "model")]}),
            StatusCode::UNPROCESSABLE_ENTITY,
        ),
    ] {
        let mut body = body;
        body["thread_id"] = json!("7f2b1f9e-0000-4000-8000-000000000001");
        let (answered, told) = client.send(Method::POST, "/threads", &body).await;
        assert_eq!(answered, status, "{told}");
        let made = client.send(Method::GET, "/threads/7f2b1f9e-0000-4000-8000-000000000001", &json!({})).await;
        assert_eq!(made.0, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn configurable_and_context_are_the_same_under_two_names() {
    let client = serve(["a", "b", "c"].map(Turn::text).into()).await;
    let id = client.thread().await;
    let run = async |more: Value| {
        let mut body = say("go");
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.send(Method::POST, &format!("/threads/{id}/runs"), &body).await
    };
    let (_, begun) = run(json!({"context": {"user": "u1"}})).await;
    assert_eq!(begun["kwargs"]["config"]["configurable"]["user"], "u1", "{begun}");
    let (_, begun) = run(json!({"config": {"configurable": {"user": "u2", "thread_id": id}}})).await;
    assert_eq!(begun["kwargs"]["context"], json!({"user": "u2"}), "{begun}");
    let both = json!({"context": {"user": "u1"}, "config": {"configurable": {"user": "u2"}}});
    let (status, told) = run(both.clone()).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{told}");
    let mut made = both;
    made["graph_id"] = json!("agent");
    assert_eq!(client.send(Method::POST, "/assistants", &made).await.0, StatusCode::BAD_REQUEST);
    let made = client.post("/assistants", json!({"graph_id": "agent", "context": {"user": "u3"}})).await;
    assert_eq!(made["config"]["configurable"]["user"], "u3");
}

#[tokio::test]
async fn states_carry_their_runs_metadata_and_can_be_filtered_by_it() {
    let client = serve(["a", "b"].map(Turn::text).into()).await;
    let id = client.thread().await;
    for (text, more) in [("one", json!({"metadata": {"mine": 1}, "context": {"user": "u1"}})), ("two", json!({}))] {
        let mut body = say(text);
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post(&format!("/threads/{id}/runs/wait"), body).await;
    }
    let history = async |metadata: Value| {
        let body = json!({"limit": 100, "metadata": metadata});
        client.post(&format!("/threads/{id}/history"), body).await.as_array().unwrap().clone()
    };
    let (all, one) = (history(json!({})).await, history(json!({"mine": 1})).await);
    assert!(!one.is_empty() && one.len() < all.len(), "{} of {}", one.len(), all.len());
    assert!(one.iter().all(|state| state["metadata"]["mine"] == 1 && state["metadata"]["user"] == "u1"));
    assert_eq!(history(json!({"user": "u1"})).await, one);
    assert!(history(json!({"mine": 2})).await.is_empty());
    assert_eq!(history(json!({"nothing": null})).await, all, "what is missing is null");
    assert_eq!(history(json!({"nothing": null, "mine": 1})).await, one);
    assert!(history(json!({"step": null})).await.is_empty());
    assert_eq!(history(json!({"mine": null})).await.len(), all.len() - one.len());
    assert_eq!(history(json!({"thread_id": id, "parents": {}})).await, all);
}

#[tokio::test]
async fn searches_return_the_selected_fields_and_extracted_values() {
    let client = serve(vec![Turn::text("Hi.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hello")).await;
    let search = async |body: Value| client.send(Method::POST, "/threads/search", &body).await;
    let extract = json!({"last": "values.messages[-1].content", "none": "values.messages[7].content"});
    let (_, found) = search(json!({"extract": extract, "select": ["thread_id"]})).await;
    assert_eq!(found, json!([{"thread_id": id, "extracted": {"last": "Hi.", "none": null}}]));
    let (_, found) = search(json!({"select": []})).await;
    assert_eq!(found[0]["status"], "idle");
    for wrong in [
        json!({"extract": {"x": "elsewhere.x"}}),
        json!({"select": ["nothing"]}),
        json!({"sort_by": "nothing"}),
        json!({"sort_order": "sideways"}),
    ] {
        for path in ["/threads/search", "/assistants/search", "/runs/crons/search"] {
            if path != "/threads/search" && wrong.get("extract").is_some() {
                continue;
            }
            let (status, told) = client.send(Method::POST, path, &wrong).await;
            assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {wrong}: {told}");
        }
    }
    let runs = client.get(&format!("/threads/{id}/runs?select=run_id&select=status")).await;
    assert_eq!(runs[0].as_object().unwrap().keys().collect::<Vec<_>>(), ["run_id", "status"]);
}

#[tokio::test]
async fn updating_pruning_and_closing_threads_match_the_reference_clients() {
    let client = serve(vec![Turn::text("Hi."), Turn::text("Hi.")]).await;
    let id = client.thread().await;
    let place = format!("/threads/{id}");
    client.post(&format!("{place}/runs/wait"), say("hello")).await;
    let before = client.get(&place).await;
    let changed = client.send(Method::PATCH, &place, &json!({"metadata": {"a": 1}})).await.1;
    assert_eq!((&changed["metadata"]["a"], &changed["state_updated_at"]), (&json!(1), &before["state_updated_at"]));
    client.post(&format!("{place}/state"), json!({"values": {"messages": [{"role": "user", "content": "x"}]}})).await;
    assert!(client.get(&place).await["state_updated_at"].as_str() > before["state_updated_at"].as_str());
    let minimal = client.http.patch(format!("{}{place}", client.url)).header("prefer", "return=minimal");
    let answer = minimal.json(&json!({"metadata": {"a": 2}})).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);
    assert_eq!(client.get(&place).await["metadata"]["a"], 2);
    let unknown = "7f2b1f9e-0000-4000-8000-000000000002";
    let pruned = client.post("/threads/prune", json!({"thread_ids": [unknown, id]})).await;
    assert_eq!(pruned["pruned_count"], 1);
    assert_eq!(client.send(Method::GET, &place, &json!({})).await.0, StatusCode::NOT_FOUND);

    let made = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let (theirs, other) = (client.thread().await, client.thread().await);
    let body = json!({"assistant_id": made, "input": say("go")["input"]});
    client.post(&format!("/threads/{theirs}/runs/wait"), body).await;
    let gone = format!("/assistants/{}?delete_threads=true", made.as_str().unwrap());
    assert_eq!(client.send(Method::DELETE, &gone, &json!({})).await.0, StatusCode::NO_CONTENT);
    let thread = async |id: &str| client.send(Method::GET, &format!("/threads/{id}"), &json!({})).await.0;
    assert_eq!((thread(&theirs).await, thread(&other).await), (StatusCode::NOT_FOUND, StatusCode::OK));
}

#[tokio::test]
async fn a_thread_stream_includes_a_run_another_client_waits_for() {
    let client = serve(vec![Turn::text("Hi.")]).await;
    let id = client.thread().await;
    let mut stream = client.follow(&format!("/threads/{id}/stream")).await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hello")).await;
    loop {
        let (name, data) = stream.read().await.unwrap();
        if name == "values" && texts(&data).last().is_some_and(|last| last == "Hi.") {
            break;
        }
    }
}

#[tokio::test]
async fn a_clients_message_is_returned_unchanged_and_the_model_gets_its_content() {
    let client = serve(["a", "b"].map(Turn::text).into()).await;
    let id = client.thread().await;
    let data = "iVBORw0KGgo=".repeat(50);
    let address = format!("data:image/png;base64,{data}");
    let long = "a long text ".repeat(20);
    let content = json!([
        {"type": "text", "text": long},
        {"type": "image_url", "image_url": {"url": address, "detail": "low"}},
        {"type": "file", "mimeType": "application/pdf", "data": data, "metadata": {"filename": "x.pdf", "__block__": 9}},
        {"type": "text", "text": "short"},
    ]);
    let message = json!({
        "type": "human", "id": "m1", "content": content, "name": "Ada", "additional_kwargs": {"mine": [1]},
        "response_metadata": {"x": 1},
    });
    let system = json!({"type": "system", "id": "m2", "content": [{"type": "text", "text": "Be short."}]});
    let plain = json!({"type": "human", "id": "m3", "content": "hi"});
    let body = json!({"assistant_id": "agent", "input": {"messages": [message, system, plain]}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), body).await;
    let state = client.get(&format!("/threads/{id}/state")).await;
    for values in [&values, &state["values"]] {
        for (at, sent) in [&message, &system, &plain].into_iter().enumerate() {
            for (key, sent) in sent.as_object().unwrap() {
                assert_eq!(&values["messages"][at][key], sent, "{at} {key}");
            }
        }
    }
}

#[tokio::test]
async fn a_fresh_thread_whose_state_was_written_runs_the_model_without_an_input() {
    let client = serve(vec![Turn::text("Hello.")]).await;
    let made = client.post("/threads", json!({"metadata": {"graph_id": "agent"}})).await;
    let place = format!("/threads/{}", made["thread_id"].as_str().unwrap());
    let said = json!({"values": {"messages": [{"role": "user", "content": "say hello"}]}});
    client.post(&format!("{place}/state"), said).await;
    assert_eq!(client.get(&format!("{place}/state")).await["next"], json!(["model"]));
    let values = client.post(&format!("{place}/runs/wait"), json!({"assistant_id": "agent", "input": null})).await;
    assert_eq!(texts(&values), ["say hello", "Hello."], "{values}");
}

#[tokio::test]
async fn an_answer_with_calls_written_by_hand_has_them_made_next() {
    let client = serve(vec![Turn::text("Hello."), Turn::text("Looked.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("hi")).await;
    let call = json!({"id": "c1", "name": "write_todos", "args": {"todos": []}});
    let answer = json!({"role": "assistant", "content": "", "tool_calls": [call]});
    client.post(&format!("/threads/{id}/state"), json!({"values": {"messages": [answer]}})).await;
    assert_eq!(client.get(&format!("/threads/{id}/state")).await["next"], json!(["tools"]));
    let values = client.post(&format!("/threads/{id}/runs/wait"), json!({"assistant_id": "agent"})).await;
    let last: Vec<&str> = values["messages"].as_array().unwrap().iter().map(|m| m["type"].as_str().unwrap()).collect();
    assert_eq!((last, texts(&values).pop().unwrap()), (vec!["human", "ai", "ai", "tool", "ai"], "Looked.".to_owned()));
}

#[tokio::test]
async fn states_are_written_as_the_input_and_copied_into_new_checkpoints() {
    let client = serve(vec![Turn::text("One."), Turn::text("Two.")]).await;
    let step = |values: Value, node: &str| json!({"updates": [{"values": values, "as_node": node}]});
    let said = json!({"messages": [{"role": "user", "content": "one"}]});
    let steps = json!([step(said, "__input__"), step(Value::Null, "__copy__")]);
    let made = client.post("/threads", json!({"metadata": {"graph_id": "agent"}, "supersteps": steps})).await;
    let place = format!("/threads/{}", made["thread_id"].as_str().unwrap());
    assert_eq!(texts(&made["values"]), ["one"], "{made}");
    let state = client.get(&format!("{place}/state")).await;
    assert_eq!((&state["metadata"]["source"], &state["next"]), (&json!("fork"), &json!(["model"])), "{state}");
    let values = client.post(&format!("{place}/runs/wait"), json!({"assistant_id": "agent"})).await;
    assert_eq!(texts(&values), ["one", "One."], "{values}");
    let copied = json!({"as_node": "__copy__", "checkpoint": state["checkpoint"]});
    client.post(&format!("{place}/state"), copied).await;
    let again = client.get(&format!("{place}/state")).await;
    assert_eq!((texts(&again["values"]), &again["next"]), (vec!["one".to_owned()], &json!(["model"])), "{again}");
    let values = client.post(&format!("{place}/runs/wait"), json!({"assistant_id": "agent"})).await;
    assert_eq!(texts(&values), ["one", "Two."], "{values}");
    let changed = json!({"as_node": "__copy__", "values": {"messages": [{"role": "user", "content": "x"}]}});
    let (status, _) = client.send(Method::POST, &format!("{place}/state"), &changed).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn files_given_as_texts_have_times_and_can_all_be_replaced() {
    let client = serve(["One.", "Two."].map(Turn::text).into()).await;
    let id = client.thread().await;
    let place = format!("/threads/{id}/state");
    let files = async || client.get(&place).await["values"]["files"].clone();
    client.post(&place, json!({"values": {"files": {"/a.txt": "one", "/b.txt": "two"}}})).await;
    let first = files().await;
    assert!(first["/a.txt"]["created_at"].is_string(), "{first}");
    client.post(&place, json!({"values": {"files": {"/a.txt": "three"}}})).await;
    let second = files().await;
    assert_eq!((&second["/a.txt"]["content"], &second["/b.txt"]), (&json!("three"), &first["/b.txt"]));
    assert_eq!(second["/a.txt"]["created_at"], first["/a.txt"]["created_at"]);
    client.post(&place, json!({"values": {"files": {"__overwrite__": {"/c.txt": "four"}}}})).await;
    assert_eq!(files().await.as_object().unwrap().keys().collect::<Vec<_>>(), ["/c.txt"]);
    let mut body = say("hi");
    body["input"]["files"] = json!({"type": "__overwrite__", "value": {"/d.txt": "five"}});
    let values = client.post(&format!("/threads/{id}/runs/wait"), body).await;
    assert_eq!(values["files"].as_object().unwrap().keys().collect::<Vec<_>>(), ["/d.txt"]);
}

#[tokio::test]
async fn files_of_every_form_and_of_supersteps_have_times() {
    let client = serve(vec![]).await;
    let update = |files: Value| json!({"updates": [{"values": {"files": files}, "as_node": "__start__"}]});
    let lines = json!({"content": ["one", "two"]});
    let steps =
        json!([update(json!({"/a.txt": "one", "/b.txt": lines})), update(json!({"__overwrite__": {"/a.txt": "two"}}))]);
    let made = json!({"metadata": {"graph_id": "agent"}, "supersteps": steps});
    let id = client.post("/threads", made).await["thread_id"].as_str().unwrap().to_owned();
    let place = format!("/threads/{id}/state");
    let files = async || client.get(&place).await["values"]["files"].clone();
    let first = files().await;
    assert_eq!(first.as_object().unwrap().keys().collect::<Vec<_>>(), ["/a.txt"], "{first}");
    assert!(first["/a.txt"]["created_at"].is_string() && first["/a.txt"]["modified_at"].is_string(), "{first}");
    let change = json!({"/a.txt": {"content": "three", "encoding": "utf-8"}, "/c.txt": {"content": "four", "created_at": "2026-01-01T00:00:00Z"}});
    client.post(&place, json!({"values": {"files": change}})).await;
    let second = files().await;
    assert_eq!(second["/a.txt"]["created_at"], first["/a.txt"]["created_at"]);
    assert!(second["/a.txt"]["modified_at"].as_str() > first["/a.txt"]["modified_at"].as_str(), "{second}");
    assert_eq!(second["/c.txt"]["created_at"], "2026-01-01T00:00:00Z");
    assert!(second["/c.txt"]["modified_at"].is_string());
}

/// Counts up.
struct Score;

impl Channel for Score {
    const NAME: &'static str = "score";
    const SHARING: Sharing<u64, u64> = Sharing::separate();
    type Value = u64;
    type Update = u64;
    fn reduce(value: &mut u64, update: u64) -> Result<(), ChannelError> {
        *value += update;
        Ok(())
    }
}

#[tokio::test]
async fn a_channel_that_adds_up_its_updates_is_not_replaced_by_adding_to_it() {
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let agent = DeepAgent::builder().model(ScriptedModel::new([])).journal(journal.clone()).channel::<Score>();
    let client = serve_on(agent.build().unwrap(), journal, Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let place = format!("/threads/{id}/state");
    let score = async || client.get(&place).await["values"]["score"].clone();
    // Nothing is lost while the channel is empty.
    client.post(&place, json!({"values": {"score": {"__overwrite__": 2}}})).await;
    client.post(&place, json!({"values": {"score": 3}})).await;
    let replaced = json!({"values": {"score": {"__overwrite__": 1}}});
    let (status, answer) = client.send(Method::POST, &place, &replaced).await;
    assert_eq!((status, score().await), (StatusCode::UNPROCESSABLE_ENTITY, json!(5)), "{answer}");
    let todos = json!({"values": {"todos": {"__overwrite__": [{"content": "pack", "status": "pending"}]}}});
    client.post(&place, todos).await;
    assert_eq!(client.get(&place).await["values"]["todos"][0]["content"], "pack");
}
