//! Sessions as threads: new, loaded, resumed, listed, closed, deleted.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::journal::{Claim, Journal, Record, RecordUpdate};
use deepagents::core::model::StopReason;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{ToolContext, ToolError, tool_fn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::editor::{Editor, Host, TIMEOUT, allows};

#[tokio::test]
async fn a_loaded_session_is_replayed_and_can_continue() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "alpha\n").unwrap();
    let model = ScriptedModel::new([
        Turn::call("read_file", json!({"file_path": "/notes.txt"})).and_text("I look.").thinking("Hm."),
        Turn::call("read_file", json!({"file_path": "/missing"})),
        Turn::text("One line."),
        Turn::text("One, as I said."),
    ]);
    let host = Host::new(model.clone());
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "What is in the notes?").await;
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    let loaded = editor.call("session/load", load).await.unwrap();
    assert_eq!(loaded["modes"]["currentModeId"], "ask");
    let told = |update: &Value| {
        let text = update["content"]["text"].as_str().or(update["title"].as_str()).unwrap_or_default();
        format!(
            "{} {text} {}",
            update["sessionUpdate"].as_str().unwrap(),
            update["status"].as_str().unwrap_or_default()
        )
    };
    let shown: Vec<String> = editor.updates("*").iter().map(told).collect();
    let shown =
        shown.iter().filter(|line| !line.starts_with("available")).map(|line| line.trim_end()).collect::<Vec<_>>();
    insta::assert_snapshot!(shown.join("\n"), @r"
    user_message_chunk What is in the notes?
    agent_thought_chunk Hm.
    agent_message_chunk I look.
    tool_call Read notes.txt completed
    tool_call Read missing failed
    agent_message_chunk One line.
    ");
    editor.say(&session, "How many?").await;
    assert_eq!(model.requests().last().unwrap().messages.get(0).unwrap().text(), "What is in the notes?");
}

#[tokio::test]
async fn a_written_file_is_a_diff_when_its_session_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let write = Turn::call("write_file", json!({"file_path": "/new.txt", "content": "fresh"}));
    let host = Host::new(ScriptedModel::new([write, Turn::text("Written.")]));
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Write.").await;
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    editor.call("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []})).await.unwrap();
    let content = &editor.updates("tool_call")[0]["content"];
    let path = dir.path().join("new.txt");
    assert_eq!((content[0]["type"].as_str(), &content[0]["newText"]), (Some("diff"), &json!("fresh")), "{content}");
    assert_eq!((content[0]["path"].as_str(), content.as_array().unwrap().len()), (path.to_str(), 1));
}

#[tokio::test]
async fn sessions_are_listed_by_directory_with_title_and_time() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let first = editor.session(one.path()).await;
    let second = editor.session(two.path()).await;
    let unused = editor.session(two.path()).await;
    editor.say(&first, "Remember the elephant\nand more").await;
    editor.say(&second, "Elsewhere").await;
    let ids = |listed: &Value| -> Vec<String> {
        listed["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let all = editor.call("session/list", json!({})).await.unwrap();
    assert!(ids(&all).contains(&first) && ids(&all).contains(&second) && !ids(&all).contains(&unused));
    let here = editor.call("session/list", json!({"cwd": one.path()})).await.unwrap();
    assert_eq!(ids(&here), std::slice::from_ref(&first));
    let session = &here["sessions"][0];
    assert_eq!((&session["cwd"], &session["title"]), (&json!(one.path()), &json!("Remember the elephant…")));
    assert!(session["updatedAt"].is_string());
    for wrong in [json!({"cursor": "elsewhere"}), json!({"cursor": "100"}), json!({"cwd": "relative"})] {
        assert_eq!(editor.call("session/list", wrong).await.unwrap_err()["code"], -32602);
    }
    editor.call("session/load", json!({"sessionId": first, "cwd": two.path(), "mcpServers": []})).await.unwrap();
    editor.say(&first, "Moved").await;
    let here = editor.call("session/list", json!({"cwd": one.path()})).await.unwrap();
    let there = editor.call("session/list", json!({"cwd": two.path()})).await.unwrap();
    assert!(ids(&here).is_empty() && ids(&there).contains(&first), "{here} {there}");
}

#[tokio::test]
async fn sessions_deleted_or_changed_between_pages_hide_no_others() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(ScriptedModel::new([]));
    let threads = host.journal.threads();
    let note = |at: usize| {
        let metadata = json!({"root": dir.path(), "cwd": dir.path(), "title": "t"}).as_object().unwrap().clone();
        async move { threads.set_metadata(&format!("t{at:03}"), metadata).await.unwrap() }
    };
    for at in 0..120 {
        note(at).await;
    }
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let ids = |listed: &Value| -> std::collections::BTreeSet<String> {
        listed["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let first = editor.call("session/list", json!({})).await.unwrap();
    for gone in ids(&first).iter().take(3) {
        threads.delete(gone).await.unwrap();
    }
    let seen = ids(&first).pop_last().unwrap();
    note(seen.trim_start_matches('t').parse().unwrap()).await;
    let second = editor.call("session/list", json!({"cursor": first["nextCursor"]})).await.unwrap();
    assert_eq!((ids(&first).len(), ids(&second).len()), (100, 20), "{second}");
    assert!(ids(&first).is_disjoint(&ids(&second)) && second["nextCursor"].is_null());
}

#[tokio::test]
async fn a_session_closed_and_reloaded_at_once_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    let closed = editor.request("session/close", json!({"sessionId": session}));
    let loaded = [editor.request("session/load", load.clone()), editor.request("session/resume", load.clone())];
    assert!(closed.await.unwrap().is_ok());
    for loaded in loaded {
        assert!(loaded.await.unwrap().is_ok());
    }
    assert_eq!(editor.say(&session, "Hi again.").await, "end_turn");
    let closed = [(); 2].map(|()| editor.request("session/close", json!({"sessionId": session})));
    let closed = futures_util::future::join_all(closed).await;
    assert_eq!(closed.iter().filter(|answer| answer.as_ref().unwrap().is_ok()).count(), 1);
}

#[tokio::test]
async fn a_failed_load_leaves_the_open_session_usable() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    let twice = json!([{"name": "a", "command": "/bin/true", "args": [], "env": []}, {"name": "a", "command": "/bin/false", "args": [], "env": []}]);
    for (cwd, servers) in
        [(json!("relative"), json!([])), (json!(dir.path().join("missing")), json!([])), (json!(dir.path()), twice)]
    {
        let load = json!({"sessionId": session, "cwd": cwd, "mcpServers": servers});
        assert_eq!(editor.call("session/load", load).await.unwrap_err()["code"], -32602);
    }
    assert_eq!(editor.say(&session, "Still there?").await, "end_turn");
}

#[tokio::test]
async fn a_session_whose_conversation_cannot_be_replayed_stays_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let host = Host::new(model);
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    let fence = host.journal.claim(&session, Claim::new("another", Duration::from_secs(60))).await.unwrap();
    let damaged = RecordUpdate::Stored(vec![("messages".to_owned(), json!("not a list"))]);
    let end = host.journal.threads().get(&session).await.unwrap().unwrap().end;
    host.journal.append(&session, fence, end, vec![Record::Update { update: damaged }]).await.unwrap();
    host.journal.release(&session, fence).await.unwrap();
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    assert_eq!(editor.call("session/load", load.clone()).await.unwrap_err()["code"], -32603);
    host.wait_closed().await;
    // A setting reports the mode of the session that is still open.
    let effort = json!({"sessionId": session, "configId": "effort", "type": "select", "value": "low"});
    let options = editor.call("session/set_config_option", effort).await.unwrap();
    assert_eq!(options["configOptions"][0]["currentValue"], "plan");
    // A session that was not open before is not open after.
    editor.call("session/close", json!({"sessionId": session})).await.unwrap();
    assert_eq!(editor.call("session/load", load).await.unwrap_err()["code"], -32603);
    assert_eq!(editor.call("session/close", json!({"sessionId": session})).await.unwrap_err()["code"], -32002);
}

#[tokio::test]
async fn a_loaded_session_keeps_its_last_model_and_effort() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let host = Host::new(model);
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let chosen = |options: &Value| -> Vec<Value> {
        options["configOptions"]
            .as_array()
            .unwrap()
            .iter()
            .skip(1)
            .map(|option| option["currentValue"].clone())
            .collect()
    };
    for (id, value, expected) in [("effort", "high", vec!["test:one", "high"]), ("model", "test:two", vec!["test:two"])]
    {
        let session = editor.session(dir.path()).await;
        let set = json!({"sessionId": session, "configId": id, "type": "select", "value": value});
        editor.call("session/set_config_option", set).await.unwrap();
        editor.say(&session, "Hi.").await;
        for method in ["session/load", "session/resume"] {
            let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
            let options = editor.call(method, load).await.unwrap();
            assert_eq!(chosen(&options), expected, "{method}");
        }
    }
    // A model that no longer exists is not used again.
    let noted = json!({"model": "test:gone", "effort": "high", "cwd": dir.path()}).as_object().unwrap().clone();
    host.journal.threads().set_metadata("other", noted).await.unwrap();
    let load = json!({"sessionId": "other", "cwd": dir.path(), "mcpServers": []});
    assert_eq!(chosen(&editor.call("session/resume", load).await.unwrap()), ["test:one", "default"]);
}

#[tokio::test]
async fn a_loaded_session_starts_in_plan_mode_if_it_was_left_there_else_in_ask() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    for (left, begins) in [("plan", "plan"), ("auto", "ask")] {
        let session = editor.session(dir.path()).await;
        editor.call("session/set_mode", json!({"sessionId": session, "modeId": left})).await.unwrap();
        editor.say(&session, "Hi.").await;
        let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
        let loaded = editor.call("session/load", load).await.unwrap();
        assert_eq!(loaded["modes"]["currentModeId"], begins, "{left}");
    }
}

#[tokio::test]
async fn locations_are_canonical_when_the_session_directory_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("below")).unwrap();
    std::fs::write(root.join("notes.txt"), "alpha\n").unwrap();
    let model = ScriptedModel::new([Turn::call("read_file", json!({"file_path": "/notes.txt"})), Turn::text("One.")]);
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(&root.join("below/..")).await;
    editor.say(&session, "Read.").await;
    assert_eq!(editor.calls()[0]["locations"][0]["path"], json!(root.join("notes.txt")));
}

#[tokio::test]
async fn long_session_lists_are_paged() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(ScriptedModel::new([]));
    for at in 0..230 {
        let metadata = json!({"root": dir.path(), "cwd": dir.path(), "title": "t"}).as_object().unwrap().clone();
        host.journal.threads().set_metadata(&format!("t{at}"), metadata).await.unwrap();
    }
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let (mut cursor, mut found) = (Value::Null, std::collections::BTreeSet::new());
    loop {
        let listed = editor.call("session/list", json!({"cursor": cursor})).await.unwrap();
        for session in listed["sessions"].as_array().unwrap() {
            assert!(found.insert(session["sessionId"].to_string()), "listed twice");
        }
        cursor = listed["nextCursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(found.len(), 230);
}

#[tokio::test]
async fn a_closed_session_can_be_resumed_and_a_deleted_one_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    editor.call("session/close", json!({"sessionId": session})).await.unwrap();
    let closed = editor.prompt(&session, "Hi?").await.unwrap().unwrap_err();
    assert_eq!(closed["code"], -32002);
    let resume = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    editor.call("session/resume", resume.clone()).await.unwrap();
    assert_eq!(editor.say(&session, "Hi again.").await, "end_turn");
    editor.call("session/delete", json!({"sessionId": session})).await.unwrap();
    assert_eq!(editor.call("session/resume", resume).await.unwrap_err()["code"], -32002);
}

#[tokio::test]
async fn a_session_that_cannot_be_opened_is_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = Editor::connect(Host::new(ScriptedModel::new([])), json!({}), allows).await;
    let missing = dir.path().join("missing");
    let server = |name: &str| json!({"name": name, "command": "/bin/x", "args": [], "env": []});
    let http = json!([{"type": "http", "name": "x", "url": "http://localhost", "headers": []}]);
    for (params, why) in [
        (json!({"cwd": "relative", "mcpServers": []}), "not absolute"),
        (json!({"cwd": missing, "mcpServers": []}), "missing"),
        (json!({"cwd": dir.path(), "mcpServers": http}), "not supported"),
        (json!({"cwd": dir.path(), "mcpServers": [server("")]}), "needs a name"),
        (json!({"cwd": dir.path(), "mcpServers": [server("x"), server("x")]}), "two MCP servers"),
        (json!({"mcpServers": []}), "cwd"),
    ] {
        let refused = editor.call("session/new", params).await.unwrap_err();
        assert_eq!(refused["code"], -32602);
        assert!(refused["data"].to_string().contains(why), "{refused}");
    }
    let unknown = json!({"sessionId": "nobody", "cwd": dir.path(), "mcpServers": []});
    assert_eq!(editor.call("session/load", unknown).await.unwrap_err()["code"], -32002);
    assert_eq!(editor.call("session/fly", json!({})).await.unwrap_err()["code"], -32601);
    let login = editor.call("authenticate", json!({"methodId": "browser"})).await.unwrap_err();
    assert!(login["code"] == -32602 && login["data"].to_string().contains("browser"), "{login}");
}

#[tokio::test]
async fn a_refused_prompt_and_its_turn_are_dropped_from_the_conversation() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([
        Turn::text("Fine."),
        Turn::call("ls", json!({"path": "/"})).and_text("I look."),
        Turn::text("I cannot.").stop(StopReason::Refusal),
        Turn::text("Still here."),
    ]);
    let host = Host::new(model.clone());
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Something good.").await, "end_turn");
    assert_eq!(editor.say(&session, "Something bad.").await, "refusal");
    assert_eq!(editor.say(&session, "Something else.").await, "end_turn");
    let asked: Vec<String> = model.requests()[3].messages.iter().map(|message| message.text()).collect();
    assert_eq!(asked, ["Something good.", "Fine.", "Something else."]);
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    editor.call("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []})).await.unwrap();
    assert_eq!(editor.text("user_message_chunk"), "Something good.Something else.");
    assert!(editor.calls().is_empty());
}

#[tokio::test]
async fn an_open_session_without_prompts_can_be_loaded_and_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = Editor::connect(Host::new(ScriptedModel::new([Turn::text("Here.")])), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    for method in ["session/load", "session/resume"] {
        editor.call(method, json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []})).await.unwrap();
    }
    assert_eq!(editor.say(&session, "Who is there?").await, "end_turn");
    let nobodys = json!({"sessionId": "nobody", "cwd": dir.path(), "mcpServers": []});
    assert_eq!(editor.call("session/load", nobodys).await.unwrap_err()["code"], -32002);
}

#[tokio::test]
async fn a_session_whose_request_is_cancelled_while_it_opens_is_closed() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let host = Host { gate: Some((None, gate.clone())), ..Host::new(ScriptedModel::new([])) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let made = editor.request("session/new", json!({"cwd": dir.path(), "mcpServers": []}));
    editor.notify("$/cancel_request", json!({"requestId": 2}));
    assert_eq!(made.await.unwrap().unwrap_err()["code"], -32800);
    gate.add_permits(1);
    host.wait_closed().await;
    editor.disconnect().await;
    assert_eq!(host.closed.available_permits(), 0, "it is closed once");
}

#[tokio::test]
async fn a_session_that_is_still_opening_when_the_editor_disconnects_is_closed() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let host = Host { gate: Some((None, gate.clone())), ..Host::new(ScriptedModel::new([])) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let _unanswered = editor.request("session/new", json!({"cwd": dir.path(), "mcpServers": []}));
    editor.call("session/list", json!({})).await.unwrap();
    editor.disconnect().await;
    gate.add_permits(1);
    host.wait_closed().await;
}

#[tokio::test]
async fn a_session_that_an_earlier_request_opened_stays_when_a_later_one_is_cancelled() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(1)));
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let host = Host { gate: Some((None, gate.clone())), ..Host::new(model) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    editor.call("session/close", json!({"sessionId": session})).await.unwrap();
    host.wait_closed().await;
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    let (first, (second, id)) =
        (editor.request("session/load", load.clone()), editor.cancellable("session/resume", load.clone()));
    editor.notify("$/cancel_request", json!({"requestId": id}));
    assert_eq!(second.await.unwrap().unwrap_err()["code"], -32800);
    gate.add_permits(2);
    first.await.unwrap().unwrap();
    host.wait_closed().await;
    assert_eq!(editor.say(&session, "Still there?").await, "end_turn");
    // If neither is wanted, nothing stays open.
    editor.call("session/close", json!({"sessionId": session})).await.unwrap();
    let both = [(); 2].map(|()| editor.cancellable("session/load", load.clone()));
    for (answer, id) in both {
        editor.notify("$/cancel_request", json!({"requestId": id}));
        assert_eq!(answer.await.unwrap().unwrap_err()["code"], -32800);
    }
    gate.add_permits(2);
    let closed = editor.call("session/close", json!({"sessionId": session})).await;
    assert_eq!(closed.unwrap_err()["code"], -32002, "both were withdrawn");
}

#[tokio::test]
async fn a_prompt_behind_a_load_of_its_open_session_is_answered_after_it() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(1)));
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let host = Host { gate: Some((None, gate.clone())), ..Host::new(model.clone()) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    for method in ["session/load", "session/resume"] {
        let loaded = editor.request(method, json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []}));
        let cancelled = editor.prompt(&session, "Never mind.");
        editor.notify("session/cancel", json!({"sessionId": session}));
        let prompted = editor.prompt(&session, "Still there?");
        assert_eq!(cancelled.await.unwrap().unwrap()["stopReason"], "cancelled", "before {method} is answered");
        gate.add_permits(1);
        loaded.await.unwrap().unwrap();
        assert_eq!(prompted.await.unwrap().unwrap()["stopReason"], "end_turn", "{method}");
        let last = model.requests().pop().unwrap().messages.last().unwrap().text();
        assert_eq!(last, "Still there?", "{method}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_being_reloaded_is_closed_once_when_the_editor_disconnects() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}

    let dir = tempfile::tempdir().unwrap();
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let (at_work, wait) = (Arc::new(Semaphore::new(0)), std::sync::Mutex::new(wait));
    let tell = at_work.clone();
    // A tool that does not notice that it is cancelled.
    let work = tool_fn("work", "Works.", move |_: Nothing, _: ToolContext| {
        tell.add_permits(1);
        let _ = tokio::task::block_in_place(|| wait.lock().unwrap().recv());
        async { Ok::<_, ToolError>("Done.".to_owned()) }
    });
    let model = ScriptedModel::new([Turn::call("work", json!({}))]);
    let host = Host { tool: Some(Arc::new(work)), ..Host::new(model) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let prompted = editor.prompt(&session, "Work.");
    tokio::time::timeout(TIMEOUT, at_work.acquire()).await.expect("the call begins").unwrap().forget();
    let loaded = editor.request("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []}));
    // The load waits for the end of the run.
    assert_eq!(prompted.await.unwrap().unwrap()["stopReason"], "cancelled");
    let disconnected = tokio::spawn(editor.disconnect());
    loaded.await.expect_err("the connection is gone");
    drop(release);
    disconnected.await.unwrap();
    host.wait_closed().await;
    host.wait_closed().await;
    let closed = host.instances.lock().unwrap().clone();
    assert!(closed.len() == 2 && closed[0] != closed[1], "{closed:?}");
}
