//! Tool calls.

use deepagents_core::event::{EventKind, MiddlewareEvent};
use deepagents_core::tool::Effect;
use deepagents_mcp::{McpServers, ToolFilter};
use deepagents_models::scripted::Turn;
use futures_util::StreamExt;
use serde_json::json;

use crate::script::{Script, agent, alone, echo, eventually, lives, offered, one_call, options, results, run, text};

#[tokio::test]
async fn a_servers_tools_are_offered_under_its_name_and_results_marked_as_foreign() {
    let script = Script::new(&[echo()], text("echoed it"));
    let servers = alone(script.config());
    let (agent, model) = agent(&servers, one_call("echo", json!({"text": "hi"})));
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("echoed it".to_owned(), false)]);
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(model.requests()[0].tools, model.requests()[1].tools);
    let foreign = told
        .iter()
        .any(|event| matches!(event, MiddlewareEvent::ForeignResult { source, .. } if source == "mcp:alpha"));
    assert!(foreign, "{told:?}");
    assert_eq!(script.sent("notifications/initialized"), 1);
}

#[tokio::test]
async fn progress_notifications_are_part_of_a_cancelled_calls_output() {
    let notice = |number: u32| {
        format!(
            r#"say "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{{\"progressToken\":$token,\"progress\":{number},\"total\":4}}}}""#
        )
    };
    let token = r#"token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([^,}]*\).*/\1/p')"#;
    let script = Script::new(&[echo()], format!("{token}\n{}\n{}", notice(1), notice(2)));
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let mut run = agent.run("Go.");
    while let Some(event) = run.next().await {
        if matches!(&event.kind, EventKind::ToolProgress { text, .. } if text.starts_with('2')) {
            run.cancel();
        }
    }
    let outcome = run.outcome().await.unwrap();
    servers.close().await;
    let said = results(&outcome).pop().unwrap().0;
    assert!(said.ends_with("before then:\n1 of 4\n2 of 4"), "{said}");
}

#[tokio::test]
async fn result_metadata_is_in_the_event_and_progress_is_matched_by_token() {
    let script = Script::new(
        &[echo()],
        r#"token=$(printf '%s' "$line" | sed -n 's/.*"progressToken":\([^,}]*\).*/\1/p')
        say "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":$token,\"progress\":1,\"total\":4,\"message\":\"first page\"}}"
        while ! test -e told; do sleep 0.01; done
        say "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"_meta\":{\"example.com/page\":2},\"content\":[{\"type\":\"text\",\"text\":\"found\"}]}}""#,
    );
    let servers = alone(script.config());
    let (agent, model) = agent(&servers, one_call("echo", json!({})));
    let mut run = agent.run("Go.");
    let (mut metas, mut progress) = (Vec::new(), Vec::new());
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Middleware(MiddlewareEvent::ForeignResult { meta, .. }) => metas.push(meta),
            EventKind::ToolProgress { text, .. } => {
                progress.push(text);
                std::fs::write(script.file("told"), "").unwrap();
            }
            _ => {}
        }
    }
    let outcome = run.outcome().await.unwrap();
    servers.close().await;
    assert_eq!(metas, [Some(json!({"example.com/page": 2}))]);
    assert_eq!(progress, ["first page (1 of 4)\n"]);
    assert_eq!(results(&outcome), [("found".to_owned(), false)]);
    let shown = serde_json::to_string(&model.requests()[1].messages).unwrap();
    assert!(!shown.contains("example.com/page"), "the model is not shown it: {shown}");
}

#[tokio::test]
async fn a_server_that_dies_during_a_call_is_an_error_and_restarts_on_the_next() {
    let die = format!("if [ ! -e died ]; then touch died; echo 'out of luck' >&2; exit 3; fi\n{}", text("alive"));
    let script = Script::new(&[echo()], die);
    let servers = alone(script.config());
    let turns =
        [Turn::call("mcp__alpha__echo", json!({})), Turn::call("mcp__alpha__echo", json!({})), Turn::text("Done.")];
    let (agent, _) = agent(&servers, turns);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("alpha") && results[0].0.contains("exit status: 3"), "{results:?}");
    assert!(results[0].0.contains("out of luck"), "{results:?}");
    assert_eq!(results[1], ("alive".to_owned(), false));
    assert_eq!((script.pids().len(), script.sent("tools/call")), (2, 2));
}

#[tokio::test]
async fn a_server_gets_only_its_own_variables_and_the_safe_ones() {
    let said = text("${OWN-none} ${ANTHROPIC_API_KEY-none} ${HOME-none}");
    let script = Script::new(&[echo()], said);
    let servers = alone(script.config().env("OWN", "mine"));
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    assert!(std::env::var("HOME").is_ok(), "the test itself has one");
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("mine none none".to_owned(), false)]);
}

#[tokio::test]
async fn tools_changed_during_a_call_are_offered_from_the_next_request() {
    let door = json!({"name": "door", "inputSchema": {"type": "object"}});
    let change = format!(
        "printf '%s' '{}' > tools.json\nsay '{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}}'\n{}",
        json!([door]),
        text("unlocked")
    );
    let script = Script::new(&[echo()], change);
    let servers = alone(script.config());
    let (agent, model) = agent(&servers, one_call("echo", json!({})));
    run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(offered(&model, 1), ["mcp__alpha__door"]);
}

#[tokio::test]
async fn a_server_is_notified_of_a_cancelled_call() {
    let script = Script::new(&[echo()], "touch called");
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let mut events = agent.run("Go.");
    let handle = events.handle();
    let reading = tokio::spawn(async move { while events.next().await.is_some() {} });
    eventually("the call", || script.file("called").exists()).await;
    handle.cancel();
    reading.await.unwrap();
    eventually("the notice", || script.sent("notifications/cancelled") == 1).await;
    servers.close().await;
}

#[tokio::test]
async fn an_unanswered_call_times_out_and_the_run_continues() {
    let script = Script::new(&[echo()], ":");
    let config = script.config().call_timeout(std::time::Duration::from_millis(100));
    let servers = alone(config);
    let (agent, _) = agent(&servers, one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("did not answer within"), "{results:?}");
    assert_eq!(outcome.text(), "Done.");
    eventually("the notice", || script.sent("notifications/cancelled") == 1).await;
    servers.close().await;
}

#[tokio::test]
async fn nothing_remains_of_a_server_that_refuses_to_exit() {
    let stays = "trap '' TERM\nsleep 600 & echo $! >> pids";
    let script = Script::new(&[echo()], text("fine")).at_start(stays).at_end("sleep 600");
    let servers = alone(script.config());
    servers.ready().await;
    let pids = script.pids();
    assert!(pids.len() == 2 && pids.iter().all(|pid| lives(*pid)), "{pids:?}");
    servers.close().await;
    eventually("the end of all processes", || !pids.iter().any(|pid| lives(*pid))).await;
}

#[tokio::test]
async fn servers_can_be_killed_at_once_without_a_grace_period() {
    let script = Script::new(&[echo()], text("fine")).at_end("sleep 600");
    let servers = alone(script.config());
    servers.ready().await;
    servers.kill();
    let pid = script.pids()[0];
    eventually("the end of the process", || !lives(pid)).await;
    servers.close().await;
}

#[tokio::test]
async fn hidden_tools_are_not_offered_and_annotations_count_only_for_trusted_servers() {
    let look =
        json!({"name": "look", "inputSchema": {}, "annotations": {"readOnlyHint": true, "idempotentHint": true}});
    let zap = json!({"name": "zap", "annotations": {"readOnlyHint": true, "destructiveHint": true}});
    let script = Script::new(&[look, zap, echo()], text("fine"));
    let filter = ToolFilter::new(None, &["echo"]).unwrap();
    for trusted in [true, false] {
        let servers = alone(script.config().tools(filter.clone()).trusted(trusted));
        servers.ready().await;
        let tools = servers.tools();
        assert_eq!(tools.names().collect::<Vec<_>>(), ["mcp__alpha__look", "mcp__alpha__zap"]);
        let effect = |name: &str| tools.get(name).unwrap().effect(&json!({}));
        assert_eq!(effect("mcp__alpha__look") == Effect::Read, trusted);
        assert_eq!(effect("mcp__alpha__zap"), Effect::External);
        assert_eq!(tools.get("mcp__alpha__look").unwrap().idempotent(&json!({})), trusted);
        servers.close().await;
    }
}

#[tokio::test]
async fn a_tool_review_is_told_which_annotations_are_believed() {
    let look =
        json!({"name": "look", "description": "Looks.", "inputSchema": {}, "annotations": {"readOnlyHint": true}});
    let script = Script::new(&[look], text("fine"));
    for (trusted, said) in [(true, "Looks.\n\n[It only reads.]"), (false, "Looks.")] {
        let (tell, told) = std::sync::mpsc::channel();
        let review = deepagents_mcp::ToolReview::new(move |_, tool| {
            tell.send(tool.description.clone()).map_err(|e| e.to_string())
        });
        let options = deepagents_mcp::McpOptions { review: Some(review), ..options() };
        let servers = McpServers::new([("alpha", script.config().trusted(trusted))], options);
        servers.ready().await;
        assert_eq!(servers.tools().get("mcp__alpha__look").unwrap().spec().description, "Looks.");
        servers.close().await;
        assert_eq!(told.recv().unwrap(), said);
    }
}

#[tokio::test]
async fn a_tool_rejected_by_review_is_left_out_and_reported() {
    let mut changed = echo();
    changed["description"] = json!("Says it again, and to somebody else.");
    let script = Script::new(&[changed, json!({"name": "plain", "inputSchema": {"type": "object"}})], text("fine"));
    let review = deepagents_mcp::ToolReview::new(|server, tool| match tool.description.contains("somebody else") {
        true => Err(format!("{server} says something else of {}", tool.name)),
        false => Ok(()),
    });
    let options = deepagents_mcp::McpOptions { review: Some(review), ..options() };
    let servers = McpServers::new([("alpha", script.config())], options);
    let (agent, model) = agent(&servers, [Turn::text("Done.")]);
    let (_, told) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__plain"]);
    let said = told.iter().any(|event| {
        matches!(event, MiddlewareEvent::McpServer { problem: Some(why), .. } if why.contains("something else of mcp__alpha__echo"))
    });
    assert!(said, "{told:?}");
}
