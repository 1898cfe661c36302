//! Prompt turns and their display.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::message::{Media, MediaKind, MediaSource, Origin};
use deepagents::core::model::{ErrorInfo, ModelError};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    AssistantMessage, Block, MiddlewareEvent, ModelOutput, ToolContext, ToolError, ToolOutput, Usage, model_fn, tool_fn,
};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, allows};

fn short(update: &Value) -> String {
    let field = |name: &str| update[name].as_str().unwrap_or("-").to_owned();
    format!("{} {} {}", update["sessionUpdate"].as_str().unwrap(), field("title"), field("status"))
}

#[tokio::test]
async fn thoughts_text_and_calls_arrive_in_order() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("notes.txt"), "alpha\nbeta\n").unwrap();
    let used = Usage { input: 1_000, output: 200, ..Usage::default() };
    let model = ScriptedModel::new([
        Turn::call("read_file", json!({"file_path": "/notes.txt"})).and_text("I look.").thinking("Hm."),
        Turn::call("read_file", json!({"file_path": "/missing.txt"})),
        Turn::text("Two lines.").usage(used),
    ]);
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "What is in the notes?").await, "end_turn");
    assert_eq!(editor.text("agent_thought_chunk"), "Hm.");
    assert_eq!(editor.text("agent_message_chunk"), "I look.Two lines.");
    let calls = editor.calls();
    let shown: Vec<String> = calls.iter().map(short).collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
    tool_call Read notes.txt in_progress
    tool_call_update - completed
    tool_call Read missing.txt in_progress
    tool_call_update - failed
    ");
    assert_eq!(calls[0]["kind"], "read");
    assert_eq!(calls[0]["locations"][0]["path"], json!(dir.path().join("notes.txt")));
    assert!(calls[1]["content"].to_string().contains("beta"));
    let usage = editor.updates("usage_update").pop().unwrap();
    assert_eq!((&usage["used"], &usage["size"]), (&json!(1_200), &json!(100_000)));
    // 1,000 tokens at 1 USD per million, and 200 at 10 USD.
    assert_eq!(usage["cost"], json!({"amount": 0.003, "currency": "USD"}));
    assert_eq!(calls[0]["name"], "read_file");
    assert_eq!(editor.updates("session_info_update")[0]["title"], "What is in the notes?");
    let order: Vec<Value> = editor.updates("*").iter().map(|update| update["sessionUpdate"].clone()).collect();
    let at = |kind: &str| order.iter().position(|other| other == kind).unwrap();
    assert!(at("agent_thought_chunk") < at("agent_message_chunk") && at("agent_message_chunk") < at("tool_call"));
    editor.disconnect().await;
}

#[tokio::test]
async fn calls_with_the_same_provider_id_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let look = || Turn::calls([("same", "ls", json!({"path": "/"}))]);
    let model = ScriptedModel::new([look(), look(), Turn::text("One."), look(), Turn::text("Two.")]);
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Look twice.").await;
    editor.say(&session, "And again.").await;
    let mut ids: Vec<String> = editor.updates("tool_call").iter().map(|call| call["toolCallId"].to_string()).collect();
    assert_eq!(ids.len(), 3);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 3);
}

#[tokio::test]
async fn a_sub_agents_work_is_shown_in_its_task_call() {
    let dir = tempfile::tempdir().unwrap();
    let task = Turn::call("task", json!({"description": "Sub.", "subagent_type": "general-purpose"}));
    let below = |request: &deepagents::ModelRequest| {
        request.messages.get(0).is_some_and(|message| message.text().contains("Sub."))
    };
    let model = ScriptedModel::rules()
        .when(below, [Turn::call("ls", json!({"path": "/"})).and_text("I am below."), Turn::text("Nothing there.")])
        .otherwise([task, Turn::text("Done.")])
        .build();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Main.").await, "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Done.");
    let calls = editor.updates("tool_call");
    let titles: Vec<&Value> = calls.iter().map(|call| &call["title"]).collect();
    assert_eq!(titles, ["general-purpose: Sub.", "List ."]);
    let above = calls[0]["toolCallId"].clone();
    assert_eq!(calls[1]["_meta"]["deepagents"]["parentToolCallId"], above);
    let of_task = editor.updates("tool_call_update").into_iter().filter(|update| update["toolCallId"] == above);
    let said: Vec<String> = of_task.map(|update| update["content"].to_string()).collect();
    assert!(said.iter().any(|content| content.contains("I am below.")), "{said:?}");
}

#[tokio::test]
async fn the_cost_is_that_of_each_agents_model_and_never_goes_down() {
    let dir = tempfile::tempdir().unwrap();
    let used = Usage { input: 1_000, ..Usage::default() };
    let dear = model_fn("acme:dear", move |_| async move {
        let mut message = AssistantMessage::new(vec![Block::text("Done.")]);
        message.origin = Some(Origin { api: "acme".into(), provider: "acme".into(), model: "dear".into() });
        Ok(ModelOutput { usage: used, ..ModelOutput::new(message) })
    });
    let task = Turn::call("task", json!({"description": "Sub.", "subagent_type": "helper"}));
    let model = ScriptedModel::new([task.usage(used), Turn::text("So.").usage(used), Turn::text("Hi.").usage(used)]);
    let helper = SubAgentSpec::new("helper", "Helps.").model(dear);
    let mut editor = Editor::connect(Host { sub_agent: Some(helper), ..Host::new(model) }, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let mut costs = Vec::new();
    for prompt in ["Delegate.", "And now?"] {
        assert_eq!(editor.say(&session, prompt).await, "end_turn");
        costs = editor.updates("usage_update").iter().map(|update| update["cost"]["amount"].clone()).collect();
    }
    // 1,000 tokens at 1 USD per million for the agent itself, and at 100 USD for the sub-agent.
    let costs: Vec<f64> = costs.iter().filter_map(Value::as_f64).map(|usd| (usd * 1e6).round()).collect();
    assert_eq!(costs, [1_000.0, 102_000.0, 103_000.0]);
}

#[tokio::test]
async fn text_from_before_a_cancel_stays_in_the_conversation_and_is_replayed_as_said() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([Turn::text("Once upon a time"), Turn::text("there was a crab.")]);
    let host = Host { halts_at: Some("story"), ..Host::new(model.clone()) };
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let first = editor.prompt(&session, "A story, please.");
    editor.until(|editor| editor.text("agent_message_chunk") == "Once upon a time").await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(first.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert_eq!(editor.say(&session, "Go on.").await, "end_turn");
    let shown = model.requests()[1].messages.iter().map(|message| message.text()).collect::<Vec<_>>();
    assert!(shown.iter().any(|text| text.starts_with("Once upon a time\n\n[The user")), "{shown:?}");
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let load = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    editor.call("session/load", load).await.unwrap();
    assert_eq!(editor.text("agent_message_chunk"), "Once upon a timethere was a crab.");
}

/// A model that does not answer `Go.` and answers anything else, whether or not it was asked before a cancel.
fn never_at_go() -> ScriptedModel {
    let is_go =
        |request: &deepagents::ModelRequest| request.messages.last().is_some_and(|message| message.text() == "Go.");
    let never = Turn::text("too late").delay(Duration::from_secs(3600));
    ScriptedModel::rules().when(is_go, [never]).otherwise([Turn::text("Here.")]).build()
}

#[tokio::test]
async fn a_cancelled_turn_reports_cancelled_and_the_next_one_works() {
    let dir = tempfile::tempdir().unwrap();
    let model = never_at_go();
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let first = editor.prompt(&session, "Go.");
    let waiting = editor.prompt(&session, "And this.");
    editor.until(|editor| !editor.updates("session_info_update").is_empty()).await;
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(first.await.unwrap().unwrap()["stopReason"], "cancelled");
    assert_eq!(waiting.await.unwrap().unwrap()["stopReason"], "cancelled");
    editor.notify("session/cancel", json!({"sessionId": session}));
    assert_eq!(editor.say(&session, "Are you there?").await, "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Here.");
}

#[tokio::test]
async fn a_withdrawn_prompt_is_reported_as_withdrawn() {
    let dir = tempfile::tempdir().unwrap();
    let model = never_at_go();
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let prompt = editor.prompt(&session, "Go.");
    editor.until(|editor| !editor.updates("session_info_update").is_empty()).await;
    editor.notify("$/cancel_request", json!({"requestId": 3}));
    assert_eq!(prompt.await.unwrap().unwrap_err()["code"], -32800);
    assert_eq!(editor.say(&session, "Are you there?").await, "end_turn");
}

#[tokio::test]
async fn a_failed_run_is_an_error_and_the_session_continues() {
    let dir = tempfile::tempdir().unwrap();
    let failure = ModelError::Invalid(ErrorInfo::from("no such model".to_owned()));
    let model = ScriptedModel::new([Turn::error(failure), Turn::text("Here.")]);
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let failed = editor.prompt(&session, "Go.").await.unwrap().unwrap_err();
    assert_eq!(failed["code"], -32603);
    assert_eq!(editor.say(&session, "Again.").await, "end_turn");
}

#[tokio::test]
async fn supported_prompt_content_reaches_the_model_and_the_rest_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([Turn::text("ok")]);
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let dot = "iVBORw0KGgo=";
    let file = format!("file://{}", dir.path().join("a.rs").display());
    let prompt = json!([
        {"type": "text", "text": "Look at"},
        {"type": "resource_link", "uri": file, "name": "a.rs"},
        {"type": "resource", "resource": {"uri": file, "text": "fn main() {}"}},
        {"type": "image", "mimeType": "Image/PNG", "data": "iVBO\r\nRw0KGgo=\n"},
    ]);
    editor.call("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap();
    let request = &model.requests()[0];
    let message = request.messages.last().unwrap();
    assert_eq!(message.text(), "Look at\n[a.rs](/a.rs)\n/a.rs:\n```\nfn main() {}\n```");
    let media = message.content().iter().find_map(|block| match block {
        Block::Media(media) => Some(media),
        _ => None,
    });
    let media = media.expect("the picture");
    assert_eq!((media.mime.as_str(), &media.source), ("image/png", &MediaSource::Base64(dot.to_owned())));
    for wrong in [
        json!([{"type": "audio", "mimeType": "audio/wav", "data": dot}]),
        json!([{"type": "image", "mimeType": "image/png", "data": "no base64!"}]),
        json!([{"type": "image", "mimeType": "image/png", "data": "\n"}]),
        json!([{"type": "image", "mimeType": "image/tiff", "data": "SUkqAAgAAAA="}]),
        json!([{"type": "image", "mimeType": "image/png", "data": "aGVsbG8="}]),
        json!([{"type": "image", "mimeType": "image/png", "data": "JVBERi0xLjcK"}]),
        json!([{"type": "resource", "resource": {"uri": file, "mimeType": "image/png", "blob": "aGVsbG8="}}]),
        json!([{"type": "resource", "resource": {"uri": file, "mimeType": "application/pdf", "blob": "aGVsbG8="}}]),
        json!([{"type": "text", "text": "  "}]),
        json!([]),
    ] {
        let refused = editor.call("session/prompt", json!({"sessionId": session, "prompt": wrong})).await;
        assert_eq!(refused.unwrap_err()["code"], -32602);
    }
}

#[tokio::test]
async fn media_are_sent_by_their_actual_type_and_text_as_text() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("ok")).build();
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let file = format!("file://localhost{}", dir.path().join("a").display());
    let blob = |mime: Value, data: &str| json!({"type": "resource", "resource": {"uri": file, "mimeType": mime, "blob": data}});
    let image = |mime: &str, data: &str| json!({"type": "image", "mimeType": mime, "data": data});
    for (block, sent) in [
        (image("image/jpg", "/9j/4AAQ"), "Image image/jpeg"),
        (image("image/png", "R0lGODlh"), "Image image/gif"),
        (blob(json!("application/pdf"), "JVBERi0xLjcK"), "File application/pdf"),
        (blob(Value::Null, "iVBORw0KGgo="), "Image image/png"),
        (blob(json!("text/plain; charset=utf-8"), "R0lGODlhIGlzIG9sZA=="), "/a:\n```\nGIF89a is old\n```"),
        (blob(json!("application/vnd.api+json"), "e30="), "/a:\n```\n{}\n```"),
        (blob(json!("text/plain"), "/w=="), "[/a: text/plain, which cannot be shown]"),
        (blob(json!("application/zip"), "UEsDBA=="), "[/a: application/zip, which cannot be shown]"),
    ] {
        editor.call("session/prompt", json!({"sessionId": session, "prompt": [block]})).await.unwrap();
        let requests = model.requests();
        let said = match &requests.last().unwrap().messages.last().unwrap().content()[0] {
            Block::Media(media) => format!("{:?} {}", media.kind, media.mime),
            other => other.as_text().unwrap().to_owned(),
        };
        assert_eq!(said, sent);
    }
    let large = format!("iVBORw0KGgoA{}", "AAAA".repeat((5 << 20) / 3));
    let prompt = json!([image("image/png", &large)]);
    let refused = editor.call("session/prompt", json!({"sessionId": session, "prompt": prompt})).await.unwrap_err();
    assert!(refused["code"] == -32602 && refused["data"].to_string().contains("5 MiB"), "{refused}");
}

#[tokio::test]
async fn each_todo_change_sends_the_whole_plan() {
    let dir = tempfile::tempdir().unwrap();
    let list = |first: &str, second: &str| {
        let todos = json!([{"content": "Look", "status": first}, {"content": "Write", "status": second}]);
        Turn::call("write_todos", json!({"todos": todos}))
    };
    let turns = [list("in_progress", "pending"), list("completed", "in_progress"), list("completed", "completed")];
    let model = ScriptedModel::new(turns.into_iter().chain([Turn::text("Done.")]));
    let mut editor = Editor::connect(Host::new(model), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Plan.").await;
    let plans = editor.updates("plan");
    let statuses = |plan: &Value| {
        let entries = plan["entries"].as_array().unwrap();
        entries.iter().map(|entry| format!("{}:{}", entry["content"], entry["status"])).collect::<Vec<_>>().join(" ")
    };
    let shown: Vec<String> = plans.iter().map(statuses).collect();
    insta::assert_snapshot!(shown.join("\n").replace('"', ""), @r"
    Look:in_progress Write:pending
    Look:completed Write:in_progress
    Look:completed Write:completed
    ");
}

#[tokio::test]
async fn runs_end_when_the_editor_disconnects_and_their_threads_stay_intact() {
    let dir = tempfile::tempdir().unwrap();
    let model = never_at_go();
    let host = Host::new(model);
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let _unanswered = editor.prompt(&session, "Go.");
    editor.until(|editor| !editor.updates("session_info_update").is_empty()).await;
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let resumed = json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []});
    editor.call("session/resume", resumed).await.unwrap();
    assert_eq!(editor.say(&session, "Again.").await, "end_turn");
}

#[tokio::test]
async fn concurrent_prompts_are_answered_one_after_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::new([Turn::text("One."), Turn::text("Two.")]);
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    let (first, second) = (editor.prompt(&session, "First."), editor.prompt(&session, "Second."));
    for prompt in [first, second] {
        assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "end_turn");
    }
    assert_eq!(editor.text("agent_message_chunk"), "One.Two.");
    let told: Vec<String> = model.requests()[1].messages.iter().map(|message| message.text()).collect();
    assert_eq!(told, ["First.", "One.", "Second."]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_prompts_run_in_order_of_arrival() {
    let dir = tempfile::tempdir().unwrap();
    let model = ScriptedModel::rules().always(Turn::text("Yes.")).build();
    let mut editor = Editor::connect(Host::new(model.clone()), json!({}), allows).await;
    for _ in 0..20 {
        let session = editor.session(dir.path()).await;
        let said = ["One.", "Two.", "Three.", "Four."];
        let prompts = said.map(|text| editor.prompt(&session, text));
        for prompt in prompts {
            assert_eq!(prompt.await.unwrap().unwrap()["stopReason"], "end_turn");
        }
        let last = model.requests().pop().unwrap();
        let said: Vec<String> = last.messages.iter().map(|message| message.text()).collect();
        assert_eq!(said, ["One.", "Yes.", "Two.", "Yes.", "Three.", "Yes.", "Four."]);
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// Reports a hook's message to the person.
fn minding() -> Host {
    let tool = tool_fn("mind", "Minds.", |_: Nothing, cx: ToolContext| async move {
        cx.report(MiddlewareEvent::Hook {
            event: "PostToolUse".to_owned(),
            source: None,
            command: None,
            message: "mind the gap".to_owned(),
            error: None,
            ended: false,
        });
        Ok::<_, ToolError>("Minded.".to_owned())
    });
    let model = ScriptedModel::new([Turn::call("mind", json!({})), Turn::text("Done.")]);
    Host { tool: Some(Arc::new(tool)), ..Host::new(model) }
}

#[tokio::test]
async fn messages_outside_the_conversation_are_notices_if_the_editor_supports_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut editor = Editor::connect(minding(), json!({"session": {"notices": {}}}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Go.").await, "end_turn");
    assert_eq!(editor.text("agent_message_chunk"), "Done.");
    let notice = &editor.updates("notice")[0];
    assert_eq!((&notice["severity"], &notice["title"]), (&json!("info"), &json!("mind the gap")));

    let mut plain = Editor::connect(minding(), json!({}), allows).await;
    let session = plain.session(dir.path()).await;
    assert_eq!(plain.say(&session, "Go.").await, "end_turn");
    assert!(plain.updates("notice").is_empty() && plain.text("agent_message_chunk").contains("mind the gap"));
}

/// A host whose agent reports a server as starting or as unavailable.
fn without_server(starting: bool) -> Host {
    let tool = tool_fn("look", "Looks.", move |_: Nothing, cx: ToolContext| async move {
        let problem = Some("the MCP server shelf is not there".to_owned());
        cx.report(MiddlewareEvent::McpServer { server: "shelf".to_owned(), tools: 0, problem, starting });
        Ok::<_, ToolError>("Looked.".to_owned())
    });
    let model = ScriptedModel::new([Turn::call("look", json!({})), Turn::text("Done.")]);
    Host { tool: Some(Arc::new(tool)), ..Host::new(model) }
}

#[tokio::test]
async fn a_pending_server_is_at_most_a_notice_and_a_failed_one_is_always_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (starting, severity, text) in [(true, "info", false), (false, "warning", true)] {
        let notices = json!({"session": {"notices": {}}});
        let mut editor = Editor::connect(without_server(starting), notices, allows).await;
        let session = editor.session(dir.path()).await;
        assert_eq!(editor.say(&session, "Go.").await, "end_turn");
        assert_eq!(editor.text("agent_message_chunk"), "Done.");
        assert_eq!(editor.updates("notice")[0]["severity"], severity);

        let mut plain = Editor::connect(without_server(starting), json!({}), allows).await;
        let session = plain.session(dir.path()).await;
        assert_eq!(plain.say(&session, "Go.").await, "end_turn");
        assert_eq!(plain.text("agent_message_chunk").contains("shelf"), text);
    }
}

#[tokio::test]
async fn an_image_in_a_result_is_shown_in_its_call_live_and_on_replay() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("dot.png"), b"\x89PNG\r\n\x1a\n").unwrap();
    let model = ScriptedModel::new([Turn::call("read_file", json!({"file_path": "/dot.png"})), Turn::text("A dot.")]);
    let host = Host::new(model);
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Look.").await, "end_turn");
    let image =
        json!({"type": "content", "content": {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}});
    let shows = |calls: &[Value]| calls.last().unwrap()["content"].as_array().unwrap().contains(&image);
    assert!(shows(&editor.calls()), "{:?}", editor.calls());
    editor.disconnect().await;
    let mut editor = Editor::connect(host, json!({}), allows).await;
    editor.call("session/load", json!({"sessionId": session, "cwd": dir.path(), "mcpServers": []})).await.unwrap();
    assert!(shows(&editor.calls()), "{:?}", editor.calls());
}

#[tokio::test]
async fn an_image_from_a_failed_call_is_shown_too() {
    let dir = tempfile::tempdir().unwrap();
    let tool = tool_fn("draw", "Draws.", |_: Nothing, _: ToolContext| async move {
        let source = MediaSource::Base64("iVBORw0KGgo=".to_owned());
        let dot = Media { kind: MediaKind::Image, mime: "image/png".to_owned(), source, name: None };
        Ok::<_, ToolError>(ToolOutput::blocks(vec![Block::Media(dot)]).as_error())
    });
    let model = ScriptedModel::new([Turn::call("draw", json!({})), Turn::text("It failed.")]);
    let host = Host { tool: Some(Arc::new(tool)), ..Host::new(model) };
    let mut editor = Editor::connect(host, json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Draw.").await, "end_turn");
    let calls = editor.calls();
    let image = |call: &Value| call["content"].to_string().contains("iVBORw0KGgo=");
    assert!(calls.iter().any(image) && calls.iter().any(|call| call["status"] == "failed"), "{calls:?}");
}
