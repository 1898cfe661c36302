//! Tools cached by an earlier process.

use deepagents_mcp::{McpOptions, McpServers};
use deepagents_models::scripted::Turn;
use serde_json::json;

use crate::script::{Script, agent, echo, eventually, offered, one_call, options, results, run, text};

#[tokio::test]
async fn a_server_with_cached_tools_starts_on_its_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed"));
    let with_cache = || McpOptions { cache_dir: Some(folder.path().to_owned()), ..options() };
    let first = McpServers::new([("alpha", script.config())], with_cache());
    first.ready().await;
    first.close().await;
    assert_eq!(script.pids().len(), 1);

    let second = McpServers::new([("alpha", script.config())], with_cache());
    let (idle, model) = agent(&second, [Turn::text("Done.")]);
    run(&idle, "Go.").await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(script.pids().len(), 1);
    let (calling, _) = agent(&second, one_call("echo", json!({})));
    let (outcome, _) = run(&calling, "Go.").await;
    second.close().await;
    assert_eq!(results(&outcome), [("echoed".to_owned(), false)]);
    assert_eq!(script.pids().len(), 2);
}

#[tokio::test]
async fn a_servers_current_tools_replace_the_cached_ones() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed"));
    let with_cache = || McpOptions { cache_dir: Some(folder.path().to_owned()), ..options() };
    let first = McpServers::new([("alpha", script.config())], with_cache());
    first.ready().await;
    first.close().await;

    script.list(&[json!({"name": "other", "inputSchema": {"type": "object"}})]);
    let second = McpServers::new([("alpha", script.config())], with_cache());
    let (agent, model) = agent(&second, one_call("echo", json!({})));
    run(&agent, "Go.").await;
    second.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(offered(&model, 1), ["mcp__alpha__other"]);
}

#[tokio::test]
async fn a_damaged_cache_is_treated_as_missing() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed"));
    let with_cache = || McpOptions { cache_dir: Some(folder.path().to_owned()), ..options() };
    let first = McpServers::new([("alpha", script.config())], with_cache());
    first.ready().await;
    first.close().await;
    for file in std::fs::read_dir(folder.path()).unwrap() {
        std::fs::write(file.unwrap().path(), "{\"at\": 1, \"to").unwrap();
    }
    let second = McpServers::new([("alpha", script.config())], with_cache());
    second.ready().await;
    assert_eq!(second.tools().names().collect::<Vec<_>>(), ["mcp__alpha__echo"]);
    assert_eq!(script.pids().len(), 2);
    second.close().await;
}

#[tokio::test]
async fn a_tool_that_has_changed_since_it_was_cached_is_not_called() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed"));
    let review = deepagents_mcp::ToolReview::new(|_, tool| match tool.description.contains("somebody else") {
        true => Err("it says something else".to_owned()),
        false => Ok(()),
    });
    let with_cache =
        || McpOptions { cache_dir: Some(folder.path().to_owned()), review: Some(review.clone()), ..options() };
    let first = McpServers::new([("alpha", script.config())], with_cache());
    first.ready().await;
    first.close().await;

    let mut changed = echo();
    changed["description"] = json!("Says it again, and to somebody else.");
    script.list(&[changed]);
    let second = McpServers::new([("alpha", script.config())], with_cache());
    let (agent, model) = agent(&second, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    second.close().await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("was not made: it says something else"), "{results:?}");
    assert_eq!((script.sent("tools/call"), offered(&model, 1).len()), (0, 0));
}

#[tokio::test]
async fn asking_for_tools_while_servers_start_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed"));
    let with_cache = McpOptions { cache_dir: Some(folder.path().to_owned()), ..options() };
    let servers = McpServers::new([("alpha", script.config())], with_cache);
    let (agent, model) = agent(&servers, [Turn::text("Done.")]);
    // `start` reads the cache first, which takes a while.
    tokio::join!(servers.start(), async { drop(run(&agent, "Go.").await) });
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
}

#[tokio::test]
async fn closing_while_a_server_starts_keeps_its_cached_tools() {
    let folder = tempfile::tempdir().unwrap();
    let script = Script::new(&[echo()], text("echoed")).at_start("[ -e slow ] && exec sleep 1000");
    let with_cache = || McpOptions { cache_dir: Some(folder.path().to_owned()), ..options() };
    let first = McpServers::new([("alpha", script.config())], with_cache());
    first.ready().await;
    first.close().await;

    // An old entry starts the server, but nothing waits for it.
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        let mut cached: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        cached["at"] = json!(1);
        std::fs::write(&path, cached.to_string()).unwrap();
    }
    std::fs::write(script.file("slow"), "").unwrap();
    let second = McpServers::new([("alpha", script.config())], with_cache());
    second.start().await;
    eventually("the second start", || script.pids().len() == 2).await;
    second.close().await;

    let third = McpServers::new([("alpha", script.config())], with_cache());
    third.start().await;
    assert_eq!(third.tools().names().collect::<Vec<_>>(), ["mcp__alpha__echo"]);
    third.close().await;
}
