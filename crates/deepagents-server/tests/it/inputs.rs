//! Run inputs in the formats of other servers' clients.
#![allow(clippy::disallowed_methods, reason = "a skill is a file")]

use std::sync::Arc;

use deepagents::fs::LocalBackend;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Journal, MemoryJournal};
use deepagents_core::message::{Block, InvalidToolCall, Reasoning};
use deepagents_core::store::MemoryStore;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{roles, say, serve, serve_on};

#[tokio::test]
async fn todos_are_ignored_in_a_run_input_but_can_be_set_by_a_command() {
    let client = serve(["One.", "Two."].map(Turn::text).into()).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    let todos = json!([{"content": "a", "status": "completed"}]);
    let mut body = say("go");
    body["input"]["todos"] = todos.clone();
    let values = client.post(&run, body).await;
    assert_eq!((roles(&values).len(), values.get("todos")), (2, None), "{values}");
    let command = json!({"assistant_id": "agent", "command": {"update": {"todos": todos}, "goto": "model"}});
    let values = client.post(&run, command).await;
    assert_eq!((&values["todos"][0]["content"], &values["messages"][2]["content"]), (&json!("a"), &json!("Two.")));
    client.post(&format!("/threads/{id}/state"), json!({"values": {"todos": null}})).await;
    assert_eq!(client.get(&format!("/threads/{id}/state")).await["values"].get("todos"), None);
}

#[tokio::test]
async fn skills_pinned_in_a_run_input_are_shown_to_the_model() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("skills/pdf")).unwrap();
    let skill = "---\nname: pdf\ndescription: Reads PDF files.\n---\nUse the tool.\n";
    std::fs::write(folder.path().join("skills/pdf/SKILL.md"), skill).unwrap();
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let backend = LocalBackend::open(folder.path()).unwrap();
    let builder = DeepAgent::builder().model(model.clone()).backend(backend).skills(["/skills"]);
    let agent = builder.journal(journal.clone()).build().unwrap();
    let client = serve_on(agent, journal, Arc::new(MemoryStore::default())).await;
    let mut body = say("go");
    body["input"]["pinned_skills"] = json!(["pdf"]);
    let values = client.post("/runs/wait", body).await;
    assert!(model.requests()[0].messages.iter().any(|message| message.text().contains("Use the tool.")), "{values}");
    assert_eq!(values.get("pinned_skills"), None, "it has been shown: {values}");
}

#[tokio::test]
async fn an_empty_input_reruns_the_model_only_if_the_thread_has_messages() {
    let client = serve(["One.", "Two."].map(Turn::text).into()).await;
    let id = client.thread().await;
    let run = format!("/threads/{id}/runs/wait");
    let input = |input: Value| json!({"assistant_id": "agent", "input": input});
    for nothing in [json!({}), json!({"messages": []})] {
        assert_eq!(client.post(&run, input(nothing)).await, json!({}));
    }
    assert_eq!(client.get(&format!("/threads/{id}/runs")).await[0]["status"], "success");
    client.post(&run, say("hi")).await;
    let values = client.post(&run, input(json!({}))).await;
    assert_eq!(roles(&values), ["human", "ai", "ai"], "{values}");
}

#[tokio::test]
async fn messages_are_accepted_in_openai_and_serialized_langchain_form() {
    let client = serve(vec![Turn::text("Done.")]).await;
    let call = json!({"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{\"path\": \"/\"}"}});
    let stored = |class: &str, kwargs: Value| json!({"lc": 1, "type": "constructor", "id": ["langchain_core", "messages", class], "kwargs": kwargs});
    let messages = json!([
        stored("SystemMessage", json!({"content": "Be short.", "type": "system"})),
        stored("HumanMessage", json!({"content": "look", "id": "m1", "type": "human"})),
        {"role": "assistant", "content": null, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "nothing"},
    ]);
    let body = json!({"assistant_id": "agent", "input": {"messages": messages}});
    let values = client.post("/runs/wait", body).await;
    assert_eq!(roles(&values), ["system", "human", "ai", "tool", "ai"], "{values}");
    assert_eq!(values["messages"][1]["id"], "m1");
    assert_eq!(values["messages"][2]["tool_calls"][0]["args"], json!({"path": "/"}));
    let wrong = json!({"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{"}});
    let body = json!({"assistant_id": "agent", "input": {"messages": [{"role": "assistant", "tool_calls": [wrong]}]}});
    assert_eq!(client.send(Method::POST, "/runs/wait", &body).await.0, StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn an_answer_of_every_kind_can_be_sent_back_as_it_was_read() {
    let invalid = InvalidToolCall {
        id: "c2".to_owned(),
        name: "ls".to_owned(),
        raw: "{".to_owned(),
        error: "it ends too early".to_owned(),
        native: None,
    };
    let reasoning = Reasoning { text: "Hm.".to_owned(), native: None };
    let blocks = [
        Block::Reasoning(reasoning),
        Block::text("Let me see."),
        Block::call("c1", "ls", json!({"path": "/"})),
        Block::InvalidToolCall(invalid),
    ];
    let client = serve(vec![Turn::blocks(blocks), Turn::text("Done.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("look")).await;
    let place = format!("/threads/{id}/state");
    let read = client.get(&place).await["values"]["messages"].clone();
    assert_eq!(read[1]["invalid_tool_calls"][0]["args"], "{", "{read}");
    client.post(&place, json!({"values": {"messages": read}})).await;
    let again = client.get(&place).await["values"]["messages"].clone();
    for (one, other) in read.as_array().unwrap().iter().zip(again.as_array().unwrap()) {
        for field in ["type", "id", "content", "tool_calls", "invalid_tool_calls"] {
            assert_eq!(one[field], other[field], "{field}");
        }
    }
    let nothing =
        json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes", "tool_calls": null}]);
    client.post(&place, json!({"values": {"messages": nothing}})).await;
}

#[tokio::test]
async fn a_delayed_run_does_not_block_others() {
    let client = serve(vec![Turn::text("Now.")]).await;
    let id = client.thread().await;
    let runs = format!("/threads/{id}/runs");
    let mut later = say("later");
    later["after_seconds"] = json!(3600);
    let run = client.post(&runs, later).await["run_id"].as_str().unwrap().to_owned();
    let mut first = say("now");
    first["multitask_strategy"] = json!("reject");
    assert_eq!(client.send(Method::POST, &runs, &first).await.0, StatusCode::CONFLICT);
    let values = client.post(&format!("{runs}/wait"), say("now")).await;
    assert_eq!(roles(&values), ["human", "ai"], "{values}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "busy");
    client.post(&format!("{runs}/{run}/cancel?wait=1"), json!({})).await;
    assert_eq!(client.get(&format!("{runs}/{run}")).await["status"], "interrupted");
    let thread = client.get(&format!("/threads/{id}")).await;
    assert_eq!((&thread["status"], roles(&thread["values"]).len()), (&json!("idle"), 2));
}

#[tokio::test]
async fn ids_are_accepted_in_every_uuid_spelling() {
    let client = serve(vec![Turn::text("Hi.")]).await;
    let id = "0b7f2c1e-aaaa-4000-8000-00000000000f";
    assert_eq!(client.post("/threads", json!({"thread_id": id.to_uppercase()})).await["thread_id"], id);
    let again = client.send(Method::POST, "/threads", &json!({"thread_id": id})).await.0;
    assert_eq!(again, StatusCode::CONFLICT);
    for spelt in [id.to_uppercase(), id.replace('-', "")] {
        assert_eq!(client.get(&format!("/threads/{spelt}")).await["thread_id"], id);
    }
    client.post(&format!("/threads/{}/runs/wait", id.to_uppercase()), say("hi")).await;
    assert_eq!(client.get(&format!("/threads/{id}/state")).await["values"]["messages"][1]["content"], "Hi.");

    let assistant = client.post("/assistants", json!({"graph_id": "agent"})).await["assistant_id"].clone();
    let mut body = say("report");
    (body["assistant_id"], body["schedule"]) = (json!(assistant.as_str().unwrap().to_uppercase()), json!("0 5 1 1 *"));
    assert_eq!(client.post("/runs/crons", body).await["assistant_id"], assistant);
    let mut later = say("later");
    later["after_seconds"] = json!(3600);
    let run = client.post(&format!("/threads/{id}/runs"), later).await["run_id"].clone();
    let these = json!({"thread_id": id.to_uppercase(), "run_ids": [run.as_str().unwrap().to_uppercase()]});
    assert_eq!(client.send(Method::POST, "/runs/cancel", &these).await.0, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_call_rejected_by_the_user_is_not_a_tools_update() {
    let calls = Turn::calls([("book", json!({"city": "Oslo"})), ("book", json!({"city": "Rome"}))]);
    let client = serve(vec![calls, Turn::text("Booked.")]).await;
    let id = client.thread().await;
    client.post(&format!("/threads/{id}/runs/wait"), say("book two")).await;
    let decisions = json!([{"type": "approve"}, {"type": "reject", "message": "too dear"}]);
    let mut resume = json!({"assistant_id": "agent", "command": {"resume": {"decisions": decisions}}});
    resume["stream_mode"] = json!("updates");
    let frames = client.frames(Method::POST, &format!("/threads/{id}/runs/stream"), &resume).await;
    let updates = frames.iter().filter(|(name, _)| name == "updates");
    let told: Vec<&Value> = updates.filter_map(|(_, data)| data.get("tools")).collect();
    assert_eq!(told.len(), 1, "{frames:?}");
    assert_eq!(told[0]["messages"][0]["content"], "booked Oslo");
}

#[tokio::test]
async fn media_in_a_form_of_its_provider_and_system_messages_by_class_are_taken_and_shown_as_sent() {
    let client = serve(vec![Turn::text("Fine.")]).await;
    let text = |text: &str| json!({"type": "text", "text": text});
    let parts = json!({"type": "document", "source": {"type": "content", "content": [text("a")]}});
    let bedrock = json!({"type": "document", "document": {"format": "pdf", "name": "d"}});
    let image = json!({"type": "image", "source": {"type": "elsewhere"}});
    let messages = json!([
        {"role": "user", "content": [text("read"), parts, bedrock]},
        {"role": "assistant", "content": [text("Look."), image]},
        {"type": "SystemMessage", "content": "be brief"},
        {"role": null, "type": "system", "content": "be kind"},
        {"role": "user", "content": "go on"},
    ]);
    let body = json!({"assistant_id": "agent", "input": {"messages": messages}});
    let (status, values) = client.send(Method::POST, "/runs/wait", &body).await;
    assert_eq!(status, StatusCode::OK, "{values}");
    assert_eq!(values["messages"][0]["content"], messages[0]["content"], "{values}");
    let types: Vec<&Value> = values["messages"].as_array().unwrap().iter().map(|message| &message["type"]).collect();
    assert_eq!(types, ["human", "ai", "system", "system", "human", "ai"], "{values}");
}
