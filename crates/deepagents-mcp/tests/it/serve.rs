//! A served agent, and another agent that uses it.

use std::sync::Arc;

use deepagents_core::agent::Agent;
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::tool::{DynTool, ToolContext, ToolError, json_tool};
use deepagents_mcp::serve::{AgentServer, ServeError};
use deepagents_mcp::{McpOptions, McpServers, ServerConfig};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::StreamExt;
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::script::{options, results, run};
use crate::wire::Client;

/// Serves an agent until the guard is dropped. Returns the configuration to reach it.
pub(crate) async fn served(server: AgentServer) -> (ServerConfig, tokio_util::sync::DropGuard) {
    let stop = CancellationToken::new();
    let (tell, told) = oneshot::channel();
    let until = stop.clone();
    tokio::spawn(async move {
        let ready = |address: &str| tell.send(address.to_owned()).unwrap();
        server.serve_http("127.0.0.1:0".parse().unwrap(), until, ready).await.unwrap();
    });
    (ServerConfig::http(told.await.unwrap()), stop.drop_guard())
}

/// A tool that pays once a person approves.
pub(crate) fn pay() -> Arc<dyn DynTool> {
    let pay = json_tool("pay", "Pays.", json!({"type": "object"}), |_args, cx: ToolContext| async move {
        match cx.interrupt("Pay 3 euros?", [DecisionKind::Approve, DecisionKind::Reject])? {
            Decision::Approve => Ok("paid".to_owned()),
            _ => Err(ToolError::denied("not paid")),
        }
    });
    Arc::new(pay)
}

fn inner(turns: impl IntoIterator<Item = Turn>) -> Agent {
    Agent::builder(ScriptedModel::new(turns)).tool(pay()).journal(MemoryJournal::new()).build().unwrap()
}

#[tokio::test]
async fn a_served_agent_does_tasks_reports_progress_and_knows_its_threads() {
    let inner = inner([
        Turn::text("Four."),
        Turn::with(|request| Turn::text(format!("{} messages before", request.messages.len() - 1))),
    ]);
    let (config, _serving) = served(AgentServer::new(&inner).description("Counts.")).await;
    let servers = McpServers::new([("alpha", config)], options());
    let model = ScriptedModel::new([
        Turn::call("mcp__alpha__agent", json!({"task": "Two and two?"})),
        Turn::with(|request| {
            let said = request.messages.iter().last().unwrap().text();
            let thread = said.split("[thread ").nth(1).unwrap().trim_end_matches(']').to_owned();
            Turn::call("mcp__alpha__agent", json!({"task": "And?", "thread": thread}))
        }),
        Turn::text("Done."),
    ]);
    let outer = Agent::builder(model.clone()).middleware(servers.clone()).build().unwrap();
    let (outcome, _) = run(&outer, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].0.starts_with("Four.") && !results[0].1, "{results:?}");
    assert!(results[1].0.starts_with("2 messages before"), "{results:?}");
    assert_eq!(model.requests()[0].tools[0].description, "Counts.");
}

#[tokio::test]
async fn a_served_agents_questions_are_put_to_the_clients_user() {
    for (answer, paid) in [("approve", true), ("reject", false)] {
        let inner = inner([Turn::call("pay", json!({})), Turn::text("It is over.")]);
        let (config, _serving) = served(AgentServer::new(&inner)).await;
        let servers = McpServers::new([("alpha", config)], McpOptions { elicitation: true, ..options() });
        let model = ScriptedModel::new([Turn::call("mcp__alpha__agent", json!({"task": "Pay."})), Turn::text("Done.")]);
        let outer = Agent::builder(model).middleware(servers.clone()).journal(MemoryJournal::new()).build().unwrap();
        let (waiting, _) = run(&outer, RunInput::new("Go.").thread("t")).await;
        assert_eq!(waiting.stop, FinishReason::Interrupted);
        let question = waiting.action_requests().remove(0);
        assert!(question.text.contains("Pay 3 euros?"), "{question:?}");
        let answer = Decision::Respond { message: json!({"decision": answer}).to_string() };
        let (done, _) = run(&outer, RunInput::resume("t").decide(question.id, answer)).await;
        servers.close().await;
        assert!(results(&done)[0].0.starts_with("It is over."), "{:?}", results(&done));
        let threads = inner.threads().unwrap();
        let all = threads.journal().threads().list(&Default::default()).await.unwrap();
        let state = threads.state(&all.last().unwrap().id).await.unwrap();
        let said = state.messages().iter().any(|message| message.text() == "paid");
        assert_eq!(said, paid);
    }
}

#[tokio::test]
async fn calls_that_need_approval_are_not_made_when_the_client_cannot_ask() {
    let inner = inner([Turn::call("pay", json!({})), Turn::text("It is over.")]);
    let (config, _serving) = served(AgentServer::new(&inner)).await;
    let servers = McpServers::new([("alpha", config)], options());
    let model = ScriptedModel::new([Turn::call("mcp__alpha__agent", json!({"task": "Pay."})), Turn::text("Done.")]);
    let outer = Agent::builder(model).middleware(servers.clone()).build().unwrap();
    let (done, _) = run(&outer, "Go.").await;
    servers.close().await;
    assert!(results(&done)[0].0.starts_with("It is over."));
}

#[tokio::test]
async fn the_agents_tools_can_be_served_individually() {
    let add = json_tool("add", "Adds.", json!({"type": "object"}), |args, _cx: ToolContext| async move {
        Ok((args["a"].as_i64().unwrap() + args["b"].as_i64().unwrap()).to_string())
    });
    let inner = Agent::builder(ScriptedModel::new([])).tool(add).tool(pay()).build().unwrap();
    let (config, _serving) = served(AgentServer::new(&inner).tools(["add"])).await;
    let servers = McpServers::new([("alpha", config)], options());
    let model = ScriptedModel::new([Turn::call("mcp__alpha__add", json!({"a": 2, "b": 40})), Turn::text("Done.")]);
    let outer = Agent::builder(model).middleware(servers.clone()).build().unwrap();
    let mut told = Vec::new();
    let mut events = outer.run("Go.");
    while let Some(event) = events.next().await {
        if let EventKind::ToolFinished { text, error, .. } = event.kind {
            told.push((text, error));
        }
    }
    assert_eq!(told, [("42".to_owned(), false)]);
    assert_eq!(servers.tools().names().collect::<Vec<_>>(), ["mcp__alpha__add", "mcp__alpha__agent"]);
    servers.close().await;
}

#[tokio::test]
async fn a_public_address_is_rejected() {
    let server = AgentServer::new(&inner([]));
    let refused = server.serve_http("0.0.0.0:0".parse().unwrap(), CancellationToken::new(), |_| {}).await;
    assert!(matches!(refused, Err(ServeError::Address(why)) if why.contains("127.0.0.1")));
}

#[tokio::test]
async fn invalid_threads_and_empty_tasks_are_refused() {
    let (config, _serving) = served(AgentServer::new(&inner([]))).await;
    let servers = McpServers::new([("alpha", config)], options());
    let model = ScriptedModel::new([
        Turn::call("mcp__alpha__agent", json!({"task": "Go.", "thread": "../other"})),
        Turn::call("mcp__alpha__agent", json!({"task": " "})),
        Turn::call("mcp__alpha__agent", json!({"task": "Go.", "thread": "mcp-gone"})),
        Turn::text("Done."),
    ]);
    let outer = Agent::builder(model).middleware(servers.clone()).build().unwrap();
    let (outcome, _) = run(&outer, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results.iter().all(|(_, error)| *error), "{results:?}");
    assert!(results[0].0.contains("is not the name of a thread") && results[1].0.contains("task"), "{results:?}");
    assert!(results[2].0.contains("there is no thread `mcp-gone`"), "{results:?}");
}

#[tokio::test]
async fn lone_surrogates_are_accepted_and_unreadable_requests_are_answered_by_id() {
    let inner = inner([Turn::with(|request| Turn::text(request.messages.last().unwrap().text()))]);
    let mut client = Client::begin(AgentServer::new(&inner), json!({})).await;
    let call = r#"{"jsonrpc":"2.0","id":74,"method":"tools/call","params":{"name":"agent","arguments":{"task":"lone \ud83d x"}}}"#;
    client.raw(&format!("\u{feff}{call}")).await;
    let mut answer = client.read().await;
    while answer["id"] != 74 {
        answer = client.read().await;
    }
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().starts_with("lone \u{fffd} x"), "{answer}");
    client.raw(r#"{"jsonrpc":"2.0","id":75,"method":"ping","params":{"key":"sk-hush",}}"#).await;
    let answer = client.read().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(75), &json!(-32700)), "{answer}");
    assert!(!answer.to_string().contains("hush"), "{answer}");
}

#[tokio::test]
async fn a_clients_last_line_needs_no_newline() {
    let mut client = Client::begin(AgentServer::new(&inner([])), json!({})).await;
    client.last(r#"{"jsonrpc":"2.0","id":76,"method":"ping"}"#).await;
    assert_eq!(client.read().await["id"], 76);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_skipped_and_the_request_in_it_refused() {
    let mut client = Client::begin(AgentServer::new(&inner([])), json!({})).await;
    let long = "x".repeat(17 << 20);
    client.raw(&long).await;
    client.raw(r#"{"jsonrpc":"2.0","id":77,"method":"ping"}"#).await;
    assert_eq!(client.read().await["id"], 77);
    client.raw(&json!({"jsonrpc": "2.0", "method": "ping", "params": {"x": long}, "id": "78"}).to_string()).await;
    let refused = client.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("78"), &json!(-32600)), "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("16 MiB"), "{refused}");
    client.last(&json!({"id": 79, "method": "ping", "params": {"x": long}}).to_string()).await;
    assert_eq!(client.read().await["id"], 79);
}

#[tokio::test]
async fn a_request_of_another_form_is_refused_under_its_id() {
    let mut client = Client::begin(AgentServer::new(&inner([])), json!({})).await;
    for (request, code) in [
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[]}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":2,"method":"later/method","params":"x"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":"3","method":7}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":4,"method":"unusable","params":{"why":"mine"}}"#, -32601),
        (r#"{"jsonrpc":"2.0","id":5,"method":"tools/call"}"#, -32602),
    ] {
        client.raw(request).await;
        let refused = client.read().await;
        let sent: serde_json::Value = serde_json::from_str(request).unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&sent["id"], &json!(code)), "{request} {refused}");
    }
}

#[tokio::test]
async fn several_requests_on_a_line_and_requests_without_a_version_are_answered() {
    let mut client = Client::begin(AgentServer::new(&inner([])), json!({})).await;
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    client.send(&json!([ping(1), {"jsonrpc": "2.0", "method": "notifications/other"}, ping(2), {"id": 3, "method": "ping"}])).await;
    let mut answered = Vec::new();
    for _ in 0..3 {
        let answer = client.read().await;
        assert!(answer["result"].is_object(), "{answer}");
        answered.push(answer["id"].as_u64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [1, 2, 3]);
}

#[tokio::test]
async fn several_messages_on_a_line_that_are_no_requests_are_refused_one_by_one() {
    let mut client = Client::begin(AgentServer::new(&inner([])), json!({})).await;
    let ping = |id: u32| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let broken = format!("[{}, {{\"id\":", ping(1));
    let long = format!("[\"{}\", {}]", "x".repeat(17 << 20), ping(2));
    for (line, refusals) in [
        ("[]".to_owned(), 1),
        ("[1]".to_owned(), 1),
        ("[1, \"x\", null]".to_owned(), 3),
        ("[[]]".to_owned(), 1),
        ("[{}, {\"id\": 9}]".to_owned(), 2),
        ("[".to_owned(), 1),
        (broken, 1),
        (long, 1),
    ] {
        client.raw(&line).await;
        for _ in 0..refusals {
            let refused = client.read().await;
            let short: String = line.chars().take(40).collect();
            assert_eq!(
                (&refused["id"], &refused["error"]["code"]),
                (&json!(null), &json!(-32600)),
                "{short}: {refused}"
            );
        }
    }
    client.send(&json!([1, ping(3), []])).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let answer = client.read().await;
        answers.push((answer["id"].clone(), answer["error"]["code"].clone()));
    }
    answers.sort_by_key(|(id, _)| id.is_null());
    assert_eq!(answers, [(json!(3), json!(null)), (json!(null), json!(-32600)), (json!(null), json!(-32600))]);
}
