//! Interrupts and the responses to them.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, InterruptPolicy, Journal, MemoryJournal, tool_fn};
use deepagents_core::store::MemoryStore;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::support::{City, Client, roles, say, serve, serve_on};

#[tokio::test]
async fn a_wrong_number_of_decisions_is_rejected_and_the_right_one_then_works() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/runs/wait");
    let values = client.post(&path, say("book")).await;
    assert_eq!(values["__interrupt__"][0]["value"]["action_requests"][0]["name"], "book");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
    let answer = |decisions: Value| json!({"assistant_id": "agent", "command": {"resume": {"decisions": decisions}}});
    let two = answer(json!([{"type": "approve"}, {"type": "approve"}]));
    assert_eq!(client.send(Method::POST, &path, &two).await.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
    let values = client.post(&path, answer(json!([{"type": "approve"}]))).await;
    assert_eq!(values["messages"][2]["content"], "booked Oslo");
}

#[tokio::test]
async fn a_second_answer_to_one_question_leaves_the_thread_unchanged() {
    for by_checkpoint in ["", "checkpoint", "checkpoint_id", "config"] {
        let client = serve(vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]).await;
        let id = client.thread().await;
        client.post(&format!("/threads/{id}/runs/wait"), say("book")).await;
        // Both are accepted while the interrupt is pending.
        let mut answer = json!({"assistant_id": "agent", "after_seconds": 1, "command": {"resume": {"decisions": [{"type": "approve"}]}}});
        let newest = client.get(&format!("/threads/{id}/state")).await["checkpoint"].clone();
        match by_checkpoint {
            "checkpoint" => answer["checkpoint"] = newest,
            "checkpoint_id" => answer["checkpoint_id"] = newest["checkpoint_id"].clone(),
            "config" => answer["config"] = json!({"configurable": newest}),
            _ => {}
        }
        let first = client.post(&format!("/threads/{id}/runs"), answer.clone()).await;
        let second = client.post(&format!("/threads/{id}/runs"), answer).await;
        for run in [&first, &second] {
            client.get(&format!("/threads/{id}/runs/{}/join", run["run_id"].as_str().unwrap())).await;
        }
        let thread = client.get(&format!("/threads/{id}")).await;
        assert_eq!((&thread["status"], &thread["error"]), (&json!("idle"), &Value::Null), "{thread}");
        assert_eq!(roles(&thread["values"]), ["human", "ai", "tool", "ai"]);
        let status = async |run: &Value| {
            client.get(&format!("/threads/{id}/runs/{}", run["run_id"].as_str().unwrap())).await["status"].clone()
        };
        let mut ends = [status(&first).await, status(&second).await].map(|status| status.to_string());
        // Either may be due first.
        ends.sort_unstable();
        assert_eq!(ends, ["\"error\"", "\"success\""], "{by_checkpoint}");
    }
}

#[tokio::test]
async fn ending_a_waiting_thread_clears_its_interrupt_without_making_the_call() {
    let client = serve(vec![Turn::call("book", json!({"city": "Oslo"}))]).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/runs/wait");
    client.post(&path, say("book")).await;
    client.post(&path, json!({"assistant_id": "agent", "command": {"goto": "__end__"}})).await;
    let thread = client.get(&format!("/threads/{id}")).await;
    assert_eq!((&thread["status"], &thread["interrupts"]), (&json!("idle"), &json!({})));
    assert_eq!(roles(&thread["values"]), ["human", "ai", "tool"]);
    assert_eq!(thread["values"]["messages"][2]["status"], "error");
}

/// Creates a thread with a pending call. Returns the client, the thread's id, and the path to wait for its runs.
async fn waiting(turns: Vec<Turn>) -> (Client, String, String) {
    let client = serve(turns).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/runs/wait");
    client.post(&path, say("book")).await;
    (client, id, path)
}

fn booked() -> Vec<Turn> {
    vec![Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked.")]
}

fn also() -> Value {
    json!({"messages": [{"role": "user", "content": "also"}]})
}

fn told(command: &Value) -> Value {
    json!({"assistant_id": "agent", "command": command})
}

#[tokio::test]
async fn a_message_sent_with_or_before_an_answer_follows_the_tool_result() {
    let approve = json!({"decisions": [{"type": "approve"}]});
    let at_once = [told(&json!({"resume": approve, "update": also()}))];
    let before = [told(&json!({"update": also()})), told(&json!({"resume": approve}))];
    for commands in [at_once.to_vec(), before.to_vec()] {
        let (client, id, path) = waiting(booked()).await;
        let (last, first) = commands.split_last().unwrap();
        for command in first {
            let values = client.post(&path, command.clone()).await;
            assert_eq!(values["__interrupt__"][0]["value"]["action_requests"][0]["name"], "book", "{values}");
            assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
        }
        let values = client.post(&path, last.clone()).await;
        assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"], "{values}");
        let said = |at: usize| values["messages"][at]["content"].clone();
        assert_eq!((said(2), said(3)), (json!("booked Oslo"), json!("also")));
        assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
    }
}

#[tokio::test]
async fn an_update_sent_with_an_input_response_follows_the_tool_result() {
    let (client, id, _) = waiting(booked()).await;
    let open = client.get(&format!("/threads/{id}/state")).await["interrupts"][0]["id"].clone();
    let params = json!({"interrupt_id": open, "response": {"decisions": [{"type": "approve"}]}, "update": also()});
    let answer = json!({"id": 1, "method": "input.respond", "params": params});
    let run = client.post(&format!("/threads/{id}/commands"), answer).await["result"]["run_id"].clone();
    let values = client.get(&format!("/threads/{id}/runs/{}/join", run.as_str().unwrap())).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "human", "ai"], "{values}");
}

#[tokio::test]
async fn an_approved_call_is_made_wherever_the_command_goes_next() {
    let (client, id, path) = waiting(booked()).await;
    let command = told(&json!({"resume": {"decisions": [{"type": "approve"}]}, "goto": "__end__"}));
    let values = client.post(&path, command).await;
    assert_eq!(values["messages"][2]["content"], "booked Oslo", "{values}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "idle");
}

#[tokio::test]
async fn an_edit_that_the_tool_does_not_take_is_refused_and_the_call_still_waits() {
    let (client, id, path) = waiting(booked()).await;
    let resume = |args: Value| {
        let edit = json!({"type": "edit", "edited_action": {"name": "book", "args": args}});
        json!({"assistant_id": "agent", "command": {"resume": {"decisions": [edit]}}})
    };
    let (status, answer) = client.send(Method::POST, &path, &resume(json!({"town": "Rome"}))).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY, "{answer}");
    assert!(answer["detail"].as_str().unwrap().contains("city"), "{answer}");
    assert_eq!(client.get(&format!("/threads/{id}")).await["status"], "interrupted");
    assert_eq!(roles(&client.post(&path, resume(json!({"city": "Rome"}))).await), ["human", "ai", "tool", "ai"]);
}

#[tokio::test]
async fn the_outcome_of_a_waiting_run_has_the_results_of_finished_calls_as_its_thread_has() {
    let todos = json!({"todos": [{"content": "a", "status": "completed"}]});
    let calls =
        Turn::calls([("task", json!({"description": "ask", "subagent_type": "asker"})), ("write_todos", todos)]);
    let book = tool_fn("book", "Books a trip.", |args: City, _cx| async move { Ok(format!("booked {}", args.city)) });
    let asks: InterruptPolicy = serde_json::from_value(json!({"book": true})).unwrap();
    let journal: Arc<dyn Journal> = Arc::new(MemoryJournal::new());
    let turns = [calls, Turn::call("book", json!({"city": "Oslo"})), Turn::text("Booked."), Turn::text("Done.")];
    let builder = DeepAgent::builder().model(ScriptedModel::new(turns)).journal(journal.clone());
    let builder = builder.tool(book).interrupt_on(asks).sub_agent(SubAgentSpec::new("asker", "Asks."));
    let client = serve_on(builder.build().unwrap(), journal, Arc::new(MemoryStore::default())).await;
    let id = client.thread().await;
    let path = format!("/threads/{id}/runs/wait");
    let values = client.post(&path, say("go")).await;
    let state = client.get(&format!("/threads/{id}/state")).await;
    assert_eq!(roles(&values), ["human", "ai", "tool"], "{values}");
    assert_eq!(values["messages"], state["values"]["messages"]);
    let values = client.post(&path, told(&json!({"resume": {"decisions": [{"type": "approve"}]}}))).await;
    assert_eq!(roles(&values), ["human", "ai", "tool", "tool", "ai"], "{values}");
    let ids = |list: &Value, key: &str| list.as_array().unwrap().iter().map(|one| one[key].clone()).collect::<Vec<_>>();
    let calls = ids(&values["messages"][1]["tool_calls"], "id");
    assert_eq!(ids(&json!([values["messages"][2], values["messages"][3]]), "tool_call_id"), calls);
}

#[tokio::test]
async fn reviews_name_their_action_in_both_spellings() {
    let (client, id, _) = waiting(booked()).await;
    let thread = client.get(&format!("/threads/{id}")).await;
    let asked = thread["interrupts"].as_object().unwrap().values().next().unwrap();
    let config = &asked[0]["value"]["review_configs"][0];
    assert_eq!((&config["action_name"], &config["actionName"]), (&json!("book"), &json!("book")), "{config}");
    assert_eq!(config["allowed_decisions"], config["allowedDecisions"]);
}
