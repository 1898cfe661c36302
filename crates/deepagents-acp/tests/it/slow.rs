//! Editors that read slowly.

use std::sync::Arc;

use deepagents::core::journal::{Journal, RunStatus};
use deepagents::core::message::{Media, MediaKind, MediaSource};
use deepagents::core::middleware::before_model;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{AssistantMessage, Block, HookOutput, JumpTo, Message, ToolContext, ToolError, ToolOutput, tool_fn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::editor::{Editor, Host, TIMEOUT, allows};

/// A text of more pieces than fit in between the agent and an editor that does not read.
fn words() -> String {
    pieces(20_000)
}

/// A text of this many pieces. More than 1,024 are not kept for an editor that is behind.
fn pieces(count: u32) -> String {
    (0..count).map(|number| format!("{number:>8}")).collect()
}

/// Waits until the run of a session has ended.
async fn until_ended(host: &Host, session: &str) {
    let has_ended = async {
        let status = async || host.journal.threads().get(session).await.unwrap().map(|thread| thread.status);
        while status().await != Some(RunStatus::Ended) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, has_ended).await.expect("the run ends");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

#[tokio::test]
async fn an_editor_that_does_not_read_holds_no_run_up_and_then_gets_the_rest_in_one_piece() {
    let dir = tempfile::tempdir().unwrap();
    let words = words();
    let host = Host::new(ScriptedModel::new([Turn::text(&words).thinking("Hm.")]));
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.read(false);
    let answer = editor.prompt(&session, "Count.");
    until_ended(&host, &session).await;
    editor.read(true);
    assert_eq!(answer.await.unwrap().unwrap()["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk") == words, "no text is lost or repeated");
    let chunks = editor.updates("agent_message_chunk").len();
    assert!(chunks < 15_000, "{chunks} pieces were kept for an editor that did not read");
}

#[tokio::test]
async fn the_answer_with_which_a_hook_ends_a_run_also_reaches_an_editor_that_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let work = tool_fn("work", "Works.", |_: Nothing, cx: ToolContext| async move {
        for _ in 0..5_000 {
            cx.progress("Still at it.\n");
        }
        Ok::<_, ToolError>("Done.".to_owned())
    });
    let enough = before_model(|cx| async move {
        let is_worked = cx.state().messages().last().is_some_and(|last| last.as_tool().is_some());
        let answer = Message::Assistant(AssistantMessage::new(vec![Block::text("Enough.")]));
        Ok(if is_worked { HookOutput::message(answer).and_go(JumpTo::End) } else { HookOutput::next() })
    });
    let words = words();
    let model = ScriptedModel::new([Turn::call("work", json!({})).and_text(&words)]);
    let (tool, middleware) = (Some(Arc::new(work) as _), Some(Arc::new(enough) as _));
    let host = Host { tool, middleware, ..Host::new(model) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.read(false);
    let answer = editor.prompt(&session, "Work.");
    until_ended(&host, &session).await;
    editor.read(true);
    assert_eq!(answer.await.unwrap().unwrap()["stopReason"], "end_turn");
    assert!(editor.text("agent_message_chunk") == format!("{words}Enough."), "no text is lost or repeated");
}

/// A tool that answers with an image of these bytes, in base64.
fn draw() -> impl deepagents::core::tool::DynTool {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Drawing {
        data: String,
    }
    tool_fn("draw", "Draws.", |drawing: Drawing, _: ToolContext| async move {
        let source = MediaSource::Base64(drawing.data);
        let drawn = Media { kind: MediaKind::Image, mime: "image/png".to_owned(), source, name: None };
        Ok::<_, ToolError>(ToolOutput::blocks(vec![Block::Media(drawn)]))
    })
}

/// The images that are shown in the calls of an editor: what each was to draw, and what it shows.
fn images(editor: &Editor) -> Vec<(String, Vec<String>)> {
    let calls = editor.calls();
    let drawn = calls.iter().filter(|call| call["sessionUpdate"] == "tool_call").filter_map(|call| {
        let shows = calls.iter().filter(|update| update["toolCallId"] == call["toolCallId"]);
        let images = shows.flat_map(|update| update["content"].as_array().into_iter().flatten());
        let images = images.filter_map(|shown| Some(shown["content"]["data"].as_str()?.to_owned())).collect();
        Some((call["rawInput"]["data"].as_str()?.to_owned(), images))
    });
    drawn.collect()
}

#[tokio::test]
async fn each_image_of_several_turns_is_shown_in_its_call_to_an_editor_that_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let drawn = ["AAAA", "BBBB", "CCCC"];
    let texts = [words(), pieces(3_000), pieces(3_000)];
    let draws = drawn.iter().zip(texts).map(|(data, text)| Turn::call("draw", json!({"data": data})).and_text(text));
    let model = ScriptedModel::new(draws.chain([Turn::text("Drawn.")]));
    let host = Host { tool: Some(Arc::new(draw())), ..Host::new(model) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.read(false);
    let answer = editor.prompt(&session, "Draw.");
    until_ended(&host, &session).await;
    editor.read(true);
    assert_eq!(answer.await.unwrap().unwrap()["stopReason"], "end_turn");
    let expected = drawn.map(|data| (data.to_owned(), vec![data.to_owned()]));
    assert_eq!(images(&editor), expected);
}

#[tokio::test]
async fn the_image_of_the_last_call_is_shown_when_a_hook_ends_the_run_after_it() {
    let dir = tempfile::tempdir().unwrap();
    let enough = before_model(|cx| async move {
        let is_drawn = cx.state().messages().last().is_some_and(|last| last.as_tool().is_some());
        Ok(if is_drawn { HookOutput::go(JumpTo::End) } else { HookOutput::next() })
    });
    let model = ScriptedModel::new([Turn::call("draw", json!({"data": "AAAA"}))]);
    let (tool, middleware) = (Some(Arc::new(draw()) as _), Some(Arc::new(enough) as _));
    let mut editor = Editor::connect(Host { tool, middleware, ..Host::new(model) }, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Draw.").await;
    assert_eq!(images(&editor), [("AAAA".to_owned(), vec!["AAAA".to_owned()])]);
}

#[tokio::test]
async fn the_image_of_a_call_is_shown_although_another_call_of_its_turn_asks() {
    let dir = tempfile::tempdir().unwrap();
    let both = [("draw", json!({"data": "AAAA"})), ("ask_user", json!({"question": "Which colour?"}))];
    let model = ScriptedModel::new([Turn::calls(both), Turn::text("Done.")]);
    let host = Host { tool: Some(Arc::new(draw())), ..Host::new(model) };
    let answers = |_: &str, _: &Value| Some(Ok(json!({"action": "accept", "content": {"answer": "red"}})));
    let mut editor = Editor::connect(host.clone(), json!({"elicitation": {"form": {}}}), answers).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Draw.").await, "end_turn");
    assert_eq!(host.model.requests()[1].messages.last().unwrap().text(), "The user answered: red");
    assert_eq!(images(&editor), [("AAAA".to_owned(), vec!["AAAA".to_owned()])]);
}

#[tokio::test]
async fn a_cancel_shows_an_editor_that_does_not_read_what_happened_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let at_work = Arc::new(Semaphore::new(0));
    let tell = at_work.clone();
    let work = tool_fn("work", "Works.", move |_: Nothing, _: ToolContext| {
        tell.add_permits(1);
        async move { std::future::pending::<Result<String, ToolError>>().await }
    });
    let words = words();
    let model = ScriptedModel::new([Turn::call("work", json!({})).and_text(&words)]);
    let host = Host { tool: Some(Arc::new(work)), ..Host::new(model) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.read(false);
    let answer = editor.prompt(&session, "Work.");
    tokio::time::timeout(TIMEOUT, at_work.acquire()).await.expect("the call begins").unwrap().forget();
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.read(true);
    assert_eq!(answer.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert!(editor.text("agent_message_chunk") == words, "no text is lost or repeated");
    let statuses: Vec<Value> = editor.calls().iter().map(|call| call["status"].clone()).collect();
    assert_eq!(statuses, ["in_progress", "failed"]);
}

#[tokio::test]
async fn an_answer_that_is_cancelled_in_the_middle_is_shown_in_full_to_an_editor_that_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let words = words();
    let host = Host { halts_at: Some("Count"), ..Host::new(ScriptedModel::new([Turn::text(&words)])) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.read(false);
    let answer = editor.prompt(&session, "Count.");
    tokio::time::timeout(TIMEOUT, host.halted.acquire()).await.expect("the model halts").unwrap().forget();
    editor.notify("session/cancel", json!({"sessionId": session}));
    editor.read(true);
    assert_eq!(answer.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert!(editor.text("agent_message_chunk") == words, "no text is lost or repeated");
}
