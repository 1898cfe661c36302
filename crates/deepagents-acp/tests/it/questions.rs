//! Approvals and remembered rules.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DecisionKind, ToolContext, ToolError, tool_fn};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, allows, chooses};

fn write(name: &str) -> Turn {
    Turn::call("write_file", json!({"file_path": format!("/{name}"), "content": "new\n"}))
}

/// The reported statuses. A call is pending until the first.
fn statuses(editor: &Editor) -> Vec<Value> {
    editor.calls().iter().map(|call| call["status"].clone()).filter(|status| !status.is_null()).collect()
}

#[tokio::test]
async fn a_permission_request_refers_to_the_announced_call_and_shows_its_diff() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("old.txt"), "before\n").unwrap();
    let model = ScriptedModel::new([
        Turn::call("read_file", json!({"file_path": "/old.txt"})),
        write("old.txt"),
        write("new.txt"),
        Turn::text("Done."),
    ]);
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Write.").await, "end_turn");
    let asked = editor.asked("session/request_permission");
    assert_eq!(asked.len(), 2, "once is once");
    let announced: Vec<Value> = editor.updates("tool_call").iter().map(|call| call["toolCallId"].clone()).collect();
    assert!(asked.iter().all(|asked| announced.contains(&asked["toolCall"]["toolCallId"])));
    let text = |at: usize| asked[at]["toolCall"]["content"][1]["content"]["text"].clone();
    assert_eq!((text(0), text(1)), (json!("Asked by the session's mode"), json!("Asked by the session's mode")));
    let diff = |at: usize| asked[at]["toolCall"]["content"][0].clone();
    assert_eq!((&diff(0)["oldText"], &diff(0)["newText"]), (&json!("before\n"), &json!("new\n")));
    assert_eq!(diff(1)["path"], json!(dir.path().join("new.txt")));
    assert!(diff(1)["oldText"].is_null());
    assert_eq!(std::fs::read_to_string(dir.path().join("new.txt")).unwrap(), "new\n");
    let ends: Vec<Value> = statuses(&editor);
    assert_eq!(ends.iter().filter(|status| *status == "completed").count(), 3);
}

#[tokio::test]
async fn a_rejected_call_is_not_made_and_the_model_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([write("a.txt"), Turn::text("As you like.")]);
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), chooses("reject_once")).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Write.").await, "end_turn");
    assert!(!dir.path().join("a.txt").exists());
    assert_eq!(statuses(&editor), ["failed"]);
    assert!(model.requests()[1].messages.last().unwrap().text().contains("rejected"));
}

#[tokio::test]
async fn always_covers_only_the_named_calls_and_only_this_session() {
    let dir = tempfile::tempdir().unwrap();
    let delete = |name: &str| Turn::call("delete", json!({"file_path": format!("/{name}")}));
    let turns = || [write("a.txt"), write("b.txt"), delete("a.txt"), delete("b.txt"), Turn::text("Done.")];
    let model = ScriptedModel::new(turns().into_iter().chain(turns()).chain(turns()));
    let mut editor = Editor::connect(Host::new(model), json!({}), chooses("allow_always")).await;
    let first = editor.session(dir.path()).await;
    editor.say(&first, "Write.").await;
    let names = |editor: &Editor| -> Vec<Value> {
        let asked = editor.asked("session/request_permission");
        asked.iter().map(|asked| asked["options"][1]["name"].clone()).collect()
    };
    assert_eq!(
        names(&editor),
        [
            "Always allow in this session: every change of a file by write_file or edit_file",
            "Always allow in this session: delete with exactly file_path \"/a.txt\", and any content",
            "Always allow in this session: delete with exactly file_path \"/b.txt\", and any content",
        ]
    );
    editor.say(&first, "Once more.").await;
    assert_eq!(names(&editor).len(), 3, "the same calls are not asked about again");
    let second = editor.session(dir.path()).await;
    editor.say(&second, "Write.").await;
    assert_eq!(names(&editor).len(), 6, "another session has rules of its own");
}

#[tokio::test]
async fn always_covers_no_file_that_steers_the_agent() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([write("a.txt"), write("b.txt"), write("AGENTS.md"), Turn::text("Done.")]);
    let answers = |method: &str, params: &Value| {
        let may_last = params["options"].as_array().unwrap().iter().any(|option| option["kind"] == "allow_always");
        chooses(if may_last { "allow_always" } else { "reject_once" })(method, params)
    };
    let mut editor = Editor::connect(Host::new(model), json!({}), answers).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Write.").await;
    assert!(dir.path().join("b.txt").exists() && !dir.path().join("AGENTS.md").exists());
    assert_eq!(editor.asked("session/request_permission").len(), 2, "about a.txt and AGENTS.md");
}

#[tokio::test]
async fn an_unknown_option_is_not_approval_and_a_failed_request_is_not_a_cancel() {
    let odd = Ok(json!({"outcome": {"outcome": "selected", "optionId": "yes-to-all"}}));
    let failed = Err(json!({"code": -32603, "message": "Internal error", "data": "no window"}));
    for (answer, why) in [(odd, "yes-to-all"), (failed, "no window")] {
        let dir = tempfile::tempdir().unwrap();
        let model = ScriptedModel::new([write("a.txt"), Turn::text("Here.")]);
        let answers = move |_: &str, _: &Value| Some(answer.clone());
        let mut editor = Editor::connect(Host::new(model), json!({}), answers).await;
        let session = editor.session(dir.path()).await;
        let refused = editor.prompt(&session, "Write.").await.unwrap().unwrap_err();
        assert!(refused["code"] == -32603 && refused["data"].to_string().contains(why), "{refused}");
        assert_eq!(statuses(&editor), ["failed"]);
        assert!(!dir.path().join("a.txt").exists());
        assert_eq!(editor.say(&session, "Go on.").await, "end_turn");
    }
}

#[tokio::test]
async fn cancelling_withdraws_an_open_question() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([write("a.txt"), Turn::text("Here.")]);
    let mut editor = Editor::connect(Host::new(model), json!({}), |_, _| None).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Write.");
    editor.until(|editor| !editor.asked("session/request_permission").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert_eq!(statuses(&editor), ["failed"]);
    assert_eq!(editor.say(&session, "Go on.").await, "end_turn");
    assert!(!dir.path().join("a.txt").exists());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

pub(crate) fn asking() -> Host {
    let tool = tool_fn("survey", "Asks a person.", |_: Nothing, cx: ToolContext| async move {
        match cx.interrupt("Which colour?", [DecisionKind::Respond, DecisionKind::Reject])? {
            deepagents::Decision::Respond { message } => Ok(format!("It is {message}.")),
            _ => Err(ToolError::model("Nobody knows.")),
        }
    });
    let model = ScriptedModel::new([Turn::call("survey", json!({})), Turn::text("Done.")]);
    Host { tool: Some(Arc::new(tool)), ..Host::new(model) }
}

#[tokio::test]
async fn a_question_can_be_rejected_when_the_editor_has_no_forms() {
    let dir = tempfile::tempdir().unwrap();
    let host = asking();
    let mut editor = Editor::connect(host.clone(), json!({}), chooses("reject_once")).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Ask.").await, "end_turn");
    assert_eq!(host.model.requests()[1].messages.last().unwrap().text(), "Nobody knows.");
}
