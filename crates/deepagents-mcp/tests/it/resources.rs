//! Resources and prompts of servers: available on request, never in a prompt by default.

use deepagents_core::event::{EventKind, MiddlewareEvent};
use deepagents_models::scripted::Turn;
use futures_util::StreamExt;
use serde_json::{Map, json};

use crate::script::{Script, agent, alone, echo, offered, results, text};

fn library() -> Script {
    let listed = json!({"resources": [{"uri": "mem://note/1", "name": "first", "description": "a note\u{1b}[2J"}]});
    let templates = json!({"resourceTemplates": [{"uriTemplate": "mem://note/{n}", "name": "any"}]});
    let read = json!({"_meta": {"example.com/age": 3}, "contents": [
        {"uri": "mem://note/1", "text": "words of the note"},
        {"uri": "mem://note/2", "mimeType": "application/octet-stream", "blob": "AAEC"},
    ]});
    let prompts = json!({"prompts": [{"name": "greet", "description": "Greets", "arguments": [{"name": "who", "required": true}]}]});
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "Say hello to Ada."}}]});
    Script::new(&[echo()], text("fine"))
        .capable(
            "resources",
            &[("resources/list", listed), ("resources/templates/list", templates), ("resources/read", read)],
        )
        .capable("prompts", &[("prompts/list", prompts), ("prompts/get", prompt)])
}

#[tokio::test]
async fn resources_are_listed_and_read_when_the_model_asks_for_them() {
    let script = library();
    let servers = alone(script.config());
    let turns = [
        Turn::call("mcp__list_resources", json!({})),
        Turn::call("mcp__read_resource", json!({"server": "alpha", "uri": "mem://note/1"})),
        Turn::call("mcp__read_resource", json!({"server": "beta", "uri": "mem://note/1"})),
        Turn::text("Done."),
    ];
    let (agent, model) = agent(&servers, turns);
    let mut run = agent.run("Go.");
    let (mut sources, mut metas) = (Vec::new(), Vec::new());
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::ForeignResult { source, meta, .. }) = event.kind {
            sources.push(source);
            metas.push(meta);
        }
    }
    let outcome = run.outcome().await.unwrap();
    servers.close().await;
    let results = results(&outcome);
    assert_eq!(results[0].0, "alpha:\n  mem://note/1 (first): a note[2J\n  mem://note/{n} (any)");
    let words = "mem://note/1:\nwords of the note";
    assert!(results[1].0.starts_with(words) && results[1].0.contains("3 bytes, not shown"), "{results:?}");
    assert!(results[2].1 && results[2].0.contains("there is no MCP server `beta`"), "{results:?}");
    assert_eq!(sources, ["mcp:resources", "mcp:alpha"]);
    assert_eq!(metas, [None, Some(json!({"example.com/age": 3}))]);
    assert!(offered(&model, 0).contains(&"mcp__read_resource".to_owned()));
    let first = serde_json::to_string(&model.requests()[0].messages).unwrap();
    assert!(!first.contains("mem://"), "nothing is told unasked: {first}");
}

#[tokio::test]
async fn a_servers_prompts_can_be_listed_and_filled_in() {
    let script = library();
    let servers = alone(script.config());
    let prompts = servers.prompts().await;
    assert_eq!(
        (prompts.len(), prompts[0].name.as_str(), &prompts[0].arguments),
        (1, "greet", &vec![("who".to_owned(), true)])
    );
    let arguments: Map<_, _> = [("who".to_owned(), json!("Ada"))].into_iter().collect();
    assert_eq!(servers.prompt("alpha", "greet", arguments).await.unwrap(), "Say hello to Ada.");
    let missing = servers.prompt("beta", "greet", Map::new()).await.unwrap_err();
    assert!(missing.to_string().contains("beta"), "{missing}");
    servers.close().await;
}

#[tokio::test]
async fn one_malformed_list_entry_does_not_affect_the_others() {
    let listed = json!({"resources": [
        {"uri": "mem://1", "title": "First"}, 7, {"uri": "mem://2", "name": "second", "size": "large"},
    ]});
    let prompts =
        json!({"prompts": [{"title": "?"}, {"name": "greet", "arguments": [{"name": "who", "required": "yes"}]}]});
    let prompt = json!({"messages": [
        {"role": "user", "content": {"type": "resource", "resource": {"uri": "mem://1", "text": "words"}}},
        {"role": "user", "content": {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="}},
        {"role": "user", "content": [{"type": "text", "text": "What do they say?"}]},
    ]});
    let script = Script::new(&[echo()], text("fine"))
        .capable("resources", &[("resources/list", listed), ("resources/templates/list", json!({}))])
        .capable("prompts", &[("prompts/list", prompts), ("prompts/get", prompt)]);
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, [Turn::call("mcp__list_resources", json!({})), Turn::text("Done.")]);
    let outcome = agent.invoke("Go.").await.unwrap();
    let found = servers.prompts().await;
    let said = servers.prompt("alpha", "greet", Map::new()).await.unwrap();
    servers.close().await;
    assert_eq!(results(&outcome)[0].0, "alpha:\n  mem://1 (First)\n  mem://2 (second)");
    assert_eq!((found.len(), found[0].name.as_str()), (1, "greet"));
    assert_eq!(said, "mem://1:\nwords\n\n[a medium of the type image/png, not shown]\n\nWhat do they say?");
}

#[tokio::test]
async fn a_server_without_resources_and_prompts_is_asked_for_neither() {
    let script = Script::new(&[echo()], text("fine"));
    let servers = alone(script.config());
    let (agent, model) = agent(&servers, [Turn::text("Done.")]);
    agent.invoke("Go.").await.unwrap();
    assert!(servers.prompts().await.is_empty());
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(script.sent("resources/list") + script.sent("prompts/list"), 0);
}
