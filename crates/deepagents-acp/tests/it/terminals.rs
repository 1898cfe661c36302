//! Commands in the editor's terminal and in other shells.

use std::sync::{Arc, Mutex};

use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, allows, chooses};

fn run(command: &str) -> Turn {
    Turn::call("execute", json!({"command": command}))
}

/// An editor whose terminals output their command. If `waits` is set, commands never exit.
fn terminal(waits: bool) -> impl Fn(&str, &Value) -> Option<Result<Value, Value>> + 'static {
    let state = Arc::new(Mutex::new((String::new(), false)));
    move |method, params| {
        let mut state = state.lock().unwrap();
        match method {
            "terminal/create" => {
                state.0 = params["args"][1].as_str().unwrap().to_owned();
                Some(Ok(json!({"terminalId": "t1"})))
            }
            "terminal/wait_for_exit" if waits && !state.1 => None,
            "terminal/wait_for_exit" => Some(Ok(json!({"exitCode": 3}))),
            "terminal/output" => Some(Ok(json!({"output": format!("ran {}", state.0), "truncated": false}))),
            "terminal/kill" => {
                state.1 = true;
                Some(Ok(json!({})))
            }
            "terminal/release" => Some(Ok(json!({}))),
            _ => chooses("allow_once")(method, params),
        }
    }
}

#[tokio::test]
async fn an_allowed_command_runs_in_the_editors_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("make all"), Turn::text("Done.")]);
    let mut editor = Editor::connect(Host::new(model.clone()), json!({"terminal": true}), terminal(false)).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Make.").await, "end_turn");
    let result = model.requests()[1].messages.last().unwrap().text();
    assert!(result.contains("ran make all") && result.contains("exit code 3"), "{result}");
    let shown: Vec<Value> =
        editor.calls().iter().flat_map(|call| call["content"].as_array().cloned()).flatten().collect();
    assert!(shown.iter().any(|content| content["type"] == "terminal" && content["terminalId"] == "t1"));
    assert_eq!(
        editor.asked("terminal/create")[0]["cwd"],
        json!(dir.path()).as_str().map_or(Value::Null, |cwd| json!(format!("{cwd}/")))
    );
    editor.until(|editor| !editor.asked("terminal/release").is_empty()).await;
}

#[tokio::test]
async fn a_cancelled_command_is_killed_and_its_terminal_released() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("sleep 1000"), Turn::text("Here.")]);
    let mut editor = Editor::connect(Host::new(model), json!({"terminal": true}), terminal(true)).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Sleep.");
    editor.until(|editor| !editor.asked("terminal/wait_for_exit").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    editor.until(|editor| !editor.asked("terminal/release").is_empty()).await;
}

#[tokio::test]
async fn a_terminal_created_after_its_command_was_cancelled_is_killed_and_released() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("sleep 1000"), Turn::text("Here.")]);
    let late = |method: &str, params: &Value| match method {
        "terminal/create" => None,
        _ => terminal(true)(method, params),
    };
    let mut editor = Editor::connect(Host::new(model), json!({"terminal": true}), late).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Sleep.");
    editor.until(|editor| !editor.asked("terminal/create").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    editor.answer_late("terminal/create", json!({"terminalId": "t9"}));
    editor.until(|editor| !editor.asked("terminal/release").is_empty()).await;
    for method in ["terminal/kill", "terminal/release"] {
        assert_eq!(editor.asked(method)[0]["terminalId"], "t9", "{method}");
    }
    assert_eq!(editor.say(&session, "Are you there?").await, "end_turn");
}

#[tokio::test]
async fn an_unresponsive_editor_terminal_cannot_hold_a_command_past_its_timeout() {
    let dir = tempfile::tempdir().unwrap();
    let call = Turn::call("execute", json!({"command": "sleep 1000", "timeout": 1}));
    let model = ScriptedModel::new([call, Turn::text("Done.")]);
    let silent = |method: &str, params: &Value| match method {
        "terminal/kill" | "terminal/wait_for_exit" | "terminal/output" => None,
        _ => terminal(true)(method, params),
    };
    let mut editor = Editor::connect(Host::new(model.clone()), json!({"terminal": true}), silent).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Sleep.").await, "end_turn");
    let result = model.requests()[1].messages.last().unwrap().text();
    assert!(result.contains("it ran longer than 1 s"), "{result}");
    editor.until(|editor| !editor.asked("terminal/release").is_empty()).await;
}

#[tokio::test]
async fn a_command_ended_by_a_signal_is_reported_as_killed_by_it() {
    let dir = tempfile::tempdir().unwrap();
    for (name, said) in [("SIGTERM", "SIGTERM"), ("SIGUSR1", "ended by signal 10"), ("SIGALRM", "SIGALRM")] {
        let model = ScriptedModel::new([run("kill"), Turn::text("Done.")]);
        let killed = move |method: &str, params: &Value| match method {
            "terminal/wait_for_exit" => Some(Ok(json!({"signal": name}))),
            _ => terminal(false)(method, params),
        };
        let mut editor = Editor::connect(Host::new(model.clone()), json!({"terminal": true}), killed).await;
        let session = editor.session(dir.path()).await;
        editor.say(&session, "Run.").await;
        let result = model.requests()[1].messages.last().unwrap().text();
        assert!(result.contains(said), "{name}: {result}");
    }
}

#[tokio::test]
async fn without_terminals_commands_run_in_the_hosts_shell() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("echo $((40+2))"), Turn::text("Done.")]);
    let host = Host { shell: Some(false), ..Host::new(model.clone()) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Count.").await;
    assert!(model.requests()[1].messages.last().unwrap().text().contains("42"));
    assert!(editor.calls().iter().any(|call| call["content"].to_string().contains("42")));
}

#[tokio::test]
async fn auto_mode_runs_commands_unasked_only_in_the_sandbox() {
    let dir = tempfile::tempdir().unwrap();
    for (sandboxed, asked) in [(true, 0), (false, 1)] {
        let model = ScriptedModel::new([run("echo $((40+2))"), Turn::text("Done.")]);
        let host = Host { shell: Some(sandboxed), ..Host::new(model.clone()) };
        let mut editor = Editor::connect(host, json!({"terminal": true}), allows).await;
        let session = editor.session(dir.path()).await;
        editor.call("session/set_mode", json!({"sessionId": session, "modeId": "auto"})).await.unwrap();
        editor.say(&session, "Count.").await;
        assert_eq!(editor.asked("session/request_permission").len(), asked);
        assert!(editor.asked("terminal/create").is_empty());
        assert!(model.requests()[1].messages.last().unwrap().text().contains("42"));
    }
}

#[tokio::test]
async fn a_command_without_a_reported_exit_status_has_no_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("make"), Turn::text("Done.")]);
    let plain = terminal(false);
    let silent = move |method: &str, params: &Value| match method {
        "terminal/wait_for_exit" => Some(Ok(json!({}))),
        _ => plain(method, params),
    };
    let mut editor = Editor::connect(Host::new(model.clone()), json!({"terminal": true}), silent).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Make.").await, "end_turn");
    let result = model.requests()[1].messages.last().unwrap().text();
    assert!(result.contains("ran make") && result.contains("neither an exit code nor a signal"), "{result}");
}

#[tokio::test]
async fn a_command_that_failed_by_its_exit_code_is_shown_as_failed_also_when_its_conversation_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let turns = [run("echo made; exit 0"), run("echo broken; exit 3"), Turn::text("Done.")];
    let host = Host { shell: Some(false), ..Host::new(ScriptedModel::new(turns)) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Make.").await;
    let calls = editor.calls();
    let ended = calls.iter().filter(|call| ["completed", "failed"].iter().any(|end| call["status"] == *end));
    let ended: Vec<_> = ended.map(|call| (call["status"].clone(), call["content"].to_string())).collect();
    assert_eq!((&ended[0].0, &ended[1].0), (&json!("completed"), &json!("failed")), "{calls:?}");
    assert!(ended[1].1.matches("broken").count() == 1 && ended[1].1.contains("exit code 3"), "{ended:?}");
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    editor.call("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []})).await.unwrap();
    let told: Vec<_> = editor.updates("tool_call").iter().map(|call| call["status"].clone()).collect();
    assert_eq!(told, ["completed", "failed"]);
}

#[tokio::test]
async fn commands_that_share_a_shell_run_in_that_of_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([run("word=shared"), run("echo $word"), Turn::text("Done.")]);
    let host = Host { shell: Some(true), shell_session: true, ..Host::new(model.clone()) };
    let mut editor = Editor::connect(host, json!({"terminal": true}), terminal(false)).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Run.").await, "end_turn");
    let result = model.requests()[2].messages.last().unwrap().text();
    assert!(result.starts_with("shared"), "{result}");
    assert!(editor.asked("terminal/create").is_empty());
    assert_eq!(editor.asked("session/request_permission").len(), 2);
}

#[tokio::test]
async fn after_a_cancelled_command_files_are_read_through_the_editor_again() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "on disk\n").unwrap();
    let read = Turn::call("read_file", json!({"file_path": "/notes.txt"}));
    let model = ScriptedModel::new([run("sleep 1000"), read, Turn::text("Here.")]);
    let terminal = terminal(true);
    let answer = move |method: &str, params: &Value| match method {
        "fs/read_text_file" => Some(Ok(json!({"content": "in the editor\n"}))),
        _ => terminal(method, params),
    };
    let offers = json!({"terminal": true, "fs": {"readTextFile": true}});
    let mut editor = Editor::connect(Host::new(model.clone()), offers, answer).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Sleep.");
    editor.until(|editor| !editor.asked("terminal/wait_for_exit").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    editor.until(|editor| !editor.asked("terminal/release").is_empty()).await;
    assert_eq!(editor.say(&session, "Read.").await, "end_turn");
    assert!(model.requests()[2].messages.last().unwrap().text().contains("in the editor"));
}
