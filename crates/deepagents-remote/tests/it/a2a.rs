//! A2A: our client against our server.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remote::{Protocol, RemoteAgent, RemoteConfig, RemoteTask};
use deepagents::{Decision, DeepAgent, FinishReason, MemoryJournal, RunInput, json_tool};
use serde_json::{Value, json};

use crate::support::{Running, below, delegating, play, steps, text_below};

fn there(server: &Running) -> RemoteConfig {
    RemoteConfig::a2a(&format!("{}/a2a/worker", server.url)).unwrap()
}

async fn call(server: &Running, method: &str, params: Value) -> Value {
    server.post("/a2a/worker", json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params})).await
}

fn message(id: &str, text: &str) -> Value {
    json!({"message": {"kind": "message", "role": "user", "messageId": id, "parts": [{"kind": "text", "text": text}]}})
}

#[tokio::test]
async fn a_delegated_task_streams_its_answer_and_charges_its_tokens() {
    let server = Running::start().await;
    let agent = delegating(there(&server)).build().unwrap();
    let run = tokio::spawn(async move { play(&agent, steps(&[("gate", json!({}))])).await });
    server.gate.entered().await;
    server.gate.open();
    let (outcome, events) = run.await.unwrap();
    assert_eq!(outcome.text(), "Done: open", "the answer, and not what was said on the way");
    assert_eq!(text_below(&events), "Calling gate. Done: open");
    assert_eq!(outcome.usage_by_agent["worker"].input, 20, "{:?}", outcome.usage_by_agent);
    assert_eq!(server.statuses().await, ["success"]);
}

#[tokio::test]
async fn questions_become_input_required_tasks_and_their_answers_are_sent_back() {
    let server = Running::start().await;
    let agent = delegating(there(&server)).journal(MemoryJournal::new()).build().unwrap();
    let work = steps(&[("book", json!({"city": "Rome"})), ("book", json!({"city": "Oslo"}))]);
    let (outcome, _) = play(&agent, RunInput::new(work).thread("t")).await;
    let asked = outcome.action_requests();
    assert_eq!((asked[0].tool.as_str(), &asked[0].args), ("book", &json!({"city": "Rome"})));
    let (outcome, _) = play(&agent, RunInput::resume("t").decide(&asked[0].id, Decision::Approve)).await;
    let asked = outcome.action_requests();
    assert_eq!(asked[0].args, json!({"city": "Oslo"}));
    let refused = Decision::Reject { message: Some("Too cold.".to_owned()) };
    let (outcome, _) = play(&agent, RunInput::resume("t").decide(&asked[0].id, refused)).await;
    assert_eq!(outcome.stop, FinishReason::Done);
    assert!(outcome.text().contains("Too cold."), "{}", outcome.text());
}

#[tokio::test]
async fn cancelling_a_call_cancels_the_task() {
    let server = Running::start().await;
    let agent = delegating(there(&server)).build().unwrap();
    let run = agent.run(steps(&[("gate", json!({}))]));
    server.gate.entered().await;
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    server.until_interrupted().await;
}

#[tokio::test]
async fn a_servers_card_leads_to_the_named_agent() {
    let server = Running::start().await;
    let config = RemoteConfig::new(&server.url, Protocol::A2a, Some("worker")).unwrap();
    let (outcome, events) = play(&delegating(config).build().unwrap(), "Hi").await;
    assert_eq!(outcome.text(), "Heard: Hi");
    assert!(below(&events).last().unwrap().contains("ended"));
}

#[tokio::test]
async fn a_duplicate_message_is_processed_once() {
    let server = Running::start().await;
    let first = call(&server, "message/send", message("m1", "Hi")).await;
    assert_eq!(first["result"]["status"]["state"], "completed", "{first}");
    assert_eq!(first["result"]["artifacts"][0]["parts"][0]["text"], "Heard: Hi");
    let again = call(&server, "message/send", message("m1", "Hi")).await;
    assert_eq!(again["result"]["id"], first["result"]["id"]);
    assert_eq!(server.statuses().await, ["success"]);
    let known = call(&server, "tasks/get", json!({"id": first["result"]["id"], "historyLength": 1})).await;
    assert_eq!(known["result"]["history"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn text_replies_decide_a_task_question_and_invalid_ones_are_explained() {
    let server = Running::start().await;
    let work = steps(&[("book", json!({"city": "Rome"}))]);
    let asks = call(&server, "message/send", message("m1", &work)).await["result"].clone();
    assert_eq!(asks["status"]["state"], "input-required", "{asks}");
    let mut answer = message("m2", "no: too far");
    answer["message"]["taskId"] = asks["id"].clone();
    let done = call(&server, "message/send", answer.clone()).await["result"].clone();
    assert_eq!((&done["id"], &done["status"]["state"]), (&asks["id"], &json!("completed")), "{done}");
    assert!(done["artifacts"][0]["parts"][0]["text"].as_str().unwrap().contains("too far"), "{done}");
    answer["message"]["messageId"] = json!("m3");
    let late = call(&server, "message/send", answer).await;
    assert_eq!(late["error"]["code"], -32602, "{late}");
    assert!(late["error"]["message"].as_str().unwrap().contains("not waiting for an answer"));
}

#[tokio::test]
async fn an_invalid_request_gets_a_json_rpc_error() {
    let server = Running::start().await;
    let code = async |method: &str, params: Value| call(&server, method, params).await["error"]["code"].clone();
    assert_eq!(code("message/fly", json!({})).await, -32601);
    assert_eq!(code("message/send", json!({})).await, -32602);
    assert_eq!(code("message/send", json!({"message": {"messageId": "x", "parts": []}})).await, -32602);
    assert_eq!(code("tasks/get", json!({"id": "nothing"})).await, -32001);
    assert_eq!(code("tasks/cancel", json!({"id": "00000000-0000-4000-8000-000000000000"})).await, -32001);
    let done = call(&server, "message/send", message("m1", "Hi")).await;
    assert_eq!(code("tasks/cancel", json!({"id": done["result"]["id"]})).await, -32002);
    let mut elsewhere = message("m2", "Hi");
    elsewhere["message"]["contextId"] = json!("../../x");
    assert_eq!(code("message/send", elsewhere).await, -32602);
}

/// Builds an agent whose tool gives the user's message to the remote agent, always in the same conversation.
fn conversing(config: RemoteConfig) -> DeepAgent {
    let remote = RemoteAgent::new("worker", config).unwrap();
    let ask = json_tool("ask", "Asks.", json!({"type": "object"}), move |args: Value, cx| {
        let remote = remote.clone();
        async move {
            let task = RemoteTask::new(args["task"].as_str().unwrap()).conversation("c");
            remote.run(task, &cx).await
        }
    });
    let model = ScriptedModel::rules().always(Turn::with(|request| {
        let last = request.messages.iter().next_back().unwrap();
        if last.as_tool().is_some() { Turn::text(last.text()) } else { Turn::call("ask", json!({"task": last.text()})) }
    }));
    DeepAgent::builder().model(model.build()).tool(ask).build().unwrap()
}

#[tokio::test]
async fn work_in_a_conversation_first_cancels_what_is_left_of_earlier_work() {
    for protocol in [Protocol::A2a, Protocol::LangGraph] {
        let server = Running::start().await;
        let agent = || conversing(RemoteConfig::new(&server.url, protocol, Some("worker")).unwrap());
        let process = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let left = agent();
        process.spawn(async move { left.invoke(RunInput::new(steps(&[("gate", json!({}))]))).await });
        server.gate.entered().await;
        // As when a process ends: nobody cancels the remote run.
        process.shutdown_background();
        assert_eq!(play(&agent(), "And now?").await.0.text(), "Heard: And now?");
        let mut statuses = server.statuses().await;
        statuses.sort();
        assert_eq!(statuses, ["interrupted", "success"], "{protocol:?}");
    }
}
