//! Modes, options and commands.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::editor::{Editor, Host, allows};

fn current(options: &Value, id: &str) -> Value {
    let options = options.as_array().unwrap();
    options.iter().find(|option| option["id"] == id).map_or(Value::Null, |option| option["currentValue"].clone())
}

#[tokio::test]
async fn choosing_a_model_or_an_effort_rebuilds_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(ScriptedModel::new([]));
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "type": "select", "value": value});
    let options = editor.call("session/set_config_option", set("effort", "high")).await.unwrap();
    assert_eq!(current(&options["configOptions"], "effort"), "high");
    let options = editor.call("session/set_config_option", set("model", "test:two")).await.unwrap();
    assert_eq!(current(&options["configOptions"], "model"), "test:two");
    assert_eq!(current(&options["configOptions"], "effort"), Value::Null, "this model has none");
    let built = host.built.lock().unwrap().clone();
    let name = |model: &str, effort: Option<&str>| (model.to_owned(), effort.map(str::to_owned));
    assert_eq!(built, [name("test:one", None), name("test:one", Some("high")), name("test:two", None)]);
    for (id, value) in [("model", "test:three"), ("effort", "high"), ("mode", "yolo"), ("colour", "red")] {
        let refused = editor.call("session/set_config_option", set(id, value)).await.unwrap_err();
        assert_eq!(refused["code"], -32602, "{id}");
    }
}

#[tokio::test]
async fn settings_sent_at_once_apply_in_their_order() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let host = Host { gate: Some((Some("low"), gate.clone())), ..Host::new(ScriptedModel::new([])) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "type": "select", "value": value});
    let low = editor.request("session/set_config_option", set("effort", "low"));
    let high = editor.request("session/set_config_option", set("effort", "high"));
    editor.call("session/list", json!({})).await.unwrap();
    gate.add_permits(1);
    assert_eq!(current(&low.await.unwrap().unwrap()["configOptions"], "effort"), "low");
    assert_eq!(current(&high.await.unwrap().unwrap()["configOptions"], "effort"), "high");
    let options = editor.call("session/set_config_option", set("mode", "auto")).await.unwrap();
    assert_eq!(current(&options["configOptions"], "effort"), "high");
}

#[tokio::test]
async fn a_prompt_sent_right_after_a_mode_is_in_that_mode() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Planned.")).build();
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    for (method, set) in [
        ("session/set_mode", json!({"modeId": "plan"})),
        ("session/set_config_option", json!({"configId": "mode", "type": "select", "value": "plan"})),
    ] {
        let session = editor.session(dir.path()).await;
        let mut set = set;
        set["sessionId"] = json!(session);
        let set = editor.request(method, set);
        assert_eq!(editor.say(&session, "Write a file.").await, "end_turn");
        set.await.unwrap().unwrap();
        let last = model.requests().pop().unwrap();
        assert!(last.messages.iter().any(|message| message.text().contains("plan mode is on")), "{method}");
    }
}

#[tokio::test]
async fn a_mode_sent_while_its_session_is_loaded_applies_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Planned.")).build();
    let host = Host::new(model.clone());
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    let gate = Arc::new(Semaphore::new(0));
    for (method, set) in [
        ("session/set_mode", json!({"sessionId": session, "modeId": "plan"})),
        (
            "session/set_config_option",
            json!({"sessionId": session, "configId": "mode", "type": "select", "value": "plan"}),
        ),
    ] {
        let host = Host { gate: Some((None, gate.clone())), ..host.clone() };
        let mut editor = Editor::connect(host, json!({}), allows).await;
        let loaded = editor.request("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []}));
        let set = editor.request(method, set);
        // The agent has received both before it builds.
        editor.call("session/list", json!({})).await.unwrap();
        gate.add_permits(1);
        loaded.await.unwrap().unwrap();
        set.await.unwrap().unwrap();
        editor.say(&session, "Write a file.").await;
        let last = model.requests().pop().unwrap();
        assert!(last.messages.iter().any(|message| message.text().contains("plan mode is on")), "{method}");
    }
    let unknown = json!({"sessionId": "nobody", "modeId": "plan"});
    assert_eq!(editor.call("session/set_mode", unknown).await.unwrap_err()["code"], -32002);
}

#[tokio::test]
async fn a_mode_sent_while_an_open_session_is_loaded_again_applies_to_the_loaded_one() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let model = ScriptedModel::rules().always(Turn::text("Planned.")).build();
    let host = Host { gate: Some((None, gate.clone())), ..Host::new(model.clone()) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    gate.add_permits(1);
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hi.").await;
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    for method in ["session/load", "session/resume"] {
        let loaded = editor.request(method, load.clone());
        let set = editor.request("session/set_mode", json!({"sessionId": session, "modeId": "plan"}));
        editor.call("session/list", json!({})).await.unwrap();
        gate.add_permits(1);
        assert_eq!(loaded.await.unwrap().unwrap()["modes"]["currentModeId"], "ask");
        set.await.unwrap().unwrap();
        editor.say(&session, "Write a file.").await;
        let last = model.requests().pop().unwrap();
        assert!(last.messages.last().unwrap().text().contains("plan mode is on"), "{method}");
        editor.call("session/set_mode", json!({"sessionId": session, "modeId": "ask"})).await.unwrap();
        editor.say(&session, "Hi.").await;
    }
}

#[tokio::test]
async fn a_session_that_is_closed_while_its_agent_is_rebuilt_closes_after_that() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let host = Host { gate: Some((Some("low"), gate.clone())), ..Host::new(ScriptedModel::new([])) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let low = json!({"sessionId": session, "configId": "effort", "type": "select", "value": "low"});
    let low = editor.request("session/set_config_option", low);
    let closed = editor.request("session/close", json!({"sessionId": session}));
    editor.call("session/list", json!({})).await.unwrap();
    assert_eq!(host.closed.available_permits(), 0);
    gate.add_permits(1);
    assert_eq!(current(&low.await.unwrap().unwrap()["configOptions"], "effort"), "low");
    closed.await.unwrap().unwrap();
    assert_eq!(host.closed.available_permits(), 1);
}

#[tokio::test]
async fn a_mode_applies_while_the_agent_of_its_session_is_rebuilt() {
    let (dir, gate) = (tempfile::tempdir().unwrap(), Arc::new(Semaphore::new(0)));
    let host = Host { gate: Some((Some("low"), gate.clone())), ..Host::new(ScriptedModel::new([])) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let set = |id: &str, value: &str| json!({"sessionId": session, "configId": id, "type": "select", "value": value});
    let low = editor.request("session/set_config_option", set("effort", "low"));
    let options = editor.call("session/set_config_option", set("mode", "auto")).await.unwrap();
    assert_eq!(current(&options["configOptions"], "mode"), "auto");
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "plan"})).await.unwrap();
    gate.add_permits(1);
    assert_eq!(current(&low.await.unwrap().unwrap()["configOptions"], "mode"), "plan");
}

#[tokio::test]
async fn plan_mode_changes_nothing_and_asks_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let write = || Turn::call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
    let model = ScriptedModel::new([write(), Turn::text("I would write a.txt."), write(), Turn::text("Done.")]);
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "/plan Write a file.").await, "end_turn");
    assert!(!dir.path().join("a.txt").exists());
    assert!(editor.asked("session/request_permission").is_empty());
    assert_eq!(editor.updates("current_mode_update")[0]["currentModeId"], "plan");
    let told = &model.requests()[0].messages;
    assert!(told.iter().any(|message| message.text().contains("plan mode is on")));
    assert!(told.iter().any(|message| message.text() == "Write a file."));
    editor.call("session/set_mode", json!({"sessionId": session, "modeId": "auto"})).await.unwrap();
    editor.say(&session, "Do it.").await;
    assert!(dir.path().join("a.txt").exists());
    assert!(editor.asked("session/request_permission").is_empty());
    let unknown = editor.call("session/set_mode", json!({"sessionId": session, "modeId": "yolo"})).await;
    assert_eq!(unknown.unwrap_err()["code"], -32602);
}

#[tokio::test]
async fn plan_mode_applies_to_sub_agents() {
    let dir = tempfile::tempdir().unwrap();
    let below = |request: &deepagents::ModelRequest| {
        request.messages.get(0).is_some_and(|message| message.text().contains("Sub."))
    };
    let task = Turn::call("task", json!({"description": "Sub.", "subagent_type": "general-purpose"}));
    let write = Turn::call("write_file", json!({"file_path": "/a.txt", "content": "x"}));
    let model = ScriptedModel::rules()
        .when(below, [write, Turn::text("I could not.")])
        .otherwise([task, Turn::text("Planned.")])
        .build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "/plan Write a file.").await, "end_turn");
    assert!(!dir.path().join("a.txt").exists());
    assert!(editor.asked("session/request_permission").is_empty());
}

#[tokio::test]
async fn a_goal_is_worked_on_until_it_is_met() {
    let missing = r#"{"result": "needs_revision", "explanation": "No rhyme.",
        "criteria": [{"name": "rhymes", "passed": false, "gap": "no rhyme"}]}"#;
    let met =
        r#"{"result": "satisfied", "explanation": "It rhymes.", "criteria": [{"name": "rhymes", "passed": true}]}"#;
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new(["Roses.", missing, "Roses, noses.", met, "You are welcome."].map(Turn::text));
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "/goal write a rhyme").await, "end_turn");
    assert_eq!(model.requests()[0].messages.last().unwrap().text(), "write a rhyme");
    let shown = editor.text("agent_message_chunk");
    assert!(shown.contains("the goal is not met yet (rhymes): No rhyme.") && shown.contains("is met: It rhymes."));
    assert_eq!(editor.say(&session, "thank you").await, "end_turn");
    assert_eq!(model.requests().len(), 5, "the last answer is not judged");
}

#[tokio::test]
async fn slash_commands_are_listed_and_carried_out() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Hello.")).build();
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.until(|editor| !editor.updates("available_commands_update").is_empty()).await;
    let commands = editor.updates("available_commands_update").pop().unwrap();
    let commands = commands["availableCommands"].as_array().unwrap();
    let names: Vec<&str> = commands.iter().map(|command| command["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ask", "auto", "plan", "goal", "context", "greet"]);
    editor.say(&session, "/greet Ada").await;
    assert_eq!(model.requests()[0].messages.last().unwrap().text(), "Say hello to Ada.");
    assert_eq!(editor.say(&session, "/context").await, "end_turn");
    assert!(editor.text("agent_message_chunk").contains("read_file"));
    editor.say(&session, "/usr/bin is a path").await;
    assert_eq!(model.requests().len(), 2, "a command of ours asks no model");
    assert_eq!(model.requests()[1].messages.last().unwrap().text(), "/usr/bin is a path");
}
