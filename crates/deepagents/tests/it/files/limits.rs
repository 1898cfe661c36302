//! Tools and texts depend on what the agent has and what its files allow.

use std::sync::Arc;

use deepagents::core::event::{EventKind, MiddlewareEvent};
use deepagents::core::message::{Media, MediaKind, MediaSource};
use deepagents::core::tool::ToolOutput;
use deepagents::fs::shell::{Confinement, LocalShell, WithShell};
use deepagents::fs::{Backend, CompositeBackend, LocalBackend, ReadOnly, StateBackend, VPath};
use deepagents::middleware::filesystem::{EditTool, FilesystemOptions};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{Block, DeepAgent, Message, ModelRequest, RunInput, tool_fn};
use futures_util::StreamExt;
use serde_json::json;

use super::text_of;
use crate::{play, results};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Size {
    chars: usize,
}

fn say() -> impl deepagents::Tool {
    tool_fn("say", "Says a lot.", |size: Size, _cx| async move { Ok("word\n".repeat(size.chars / 5)) })
}

fn only(tools: &[&str]) -> FilesystemOptions {
    let tools = Some(tools.iter().map(|tool| (*tool).to_owned()).collect());
    FilesystemOptions { tools, ..FilesystemOptions::default() }
}

fn description<'a>(request: &'a ModelRequest, tool: &str) -> Option<&'a str> {
    request.tools.iter().find(|spec| spec.name == tool).map(|spec| spec.description.as_str())
}

#[tokio::test]
async fn a_stored_result_names_only_the_reading_tools_that_the_agent_has() {
    for (tools, advice) in [
        (
            &["ls", "read_file", "grep"][..],
            "read it in parts with read_file and its offset and limit, or search it with grep.",
        ),
        (&["read_file"][..], "read it in parts with read_file and its offset and limit."),
        (&["grep"][..], "; search it with grep."),
    ] {
        let script = [Turn::calls([("c", "say", json!({"chars": 100_000}))]), Turn::text("Heard.")];
        let (outcome, _) = play(script, |b| b.tool(say()).files(only(tools))).await;
        let text = &results(&outcome)[0].0;
        assert!(text.contains("It is in /large_tool_results/c;") && text.contains(advice), "{text}");
        assert_eq!(text_of(&outcome, "/large_tool_results/c").unwrap().len(), 100_000);
    }
}

#[tokio::test]
async fn an_agent_that_cannot_read_files_gets_both_ends_of_a_large_result() {
    let script = [Turn::calls([("c", "say", json!({"chars": 200_000}))]), Turn::text("Heard.")];
    let model = ScriptedModel::new(script);
    let agent = DeepAgent::builder().model(model).tool(say()).files(only(&["ls"])).build().unwrap();
    let mut run = agent.run("Go.");
    let mut lost = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::LargeResultLost { error, .. }) = event.kind {
            lost.push(error);
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(lost, ["the agent has no tool to read a file"]);
    let text = &results(&outcome)[0].0;
    assert!(text.contains("What is not shown here is lost; ask for less") && !text.contains("read_file"), "{text}");
    assert!(text.len() > 79_000 && text.len() < 81_000, "{}", text.len());
    assert_eq!(text_of(&outcome, "/large_tool_results/c"), None);
}

#[tokio::test]
async fn file_tools_that_reach_only_other_directories_count_as_none() {
    let allowed_prefixes = vec![VPath::parse("/docs").unwrap()];
    let options = FilesystemOptions { allowed_prefixes, ..FilesystemOptions::default() };
    let script = [Turn::calls([("c", "say", json!({"chars": 100_000}))]), Turn::text("Heard.")];
    let (outcome, _) = play(script, |b| b.tool(say()).files(options)).await;
    assert!(results(&outcome)[0].0.contains("What is not shown here is lost"), "{}", results(&outcome)[0].0);
    assert_eq!(text_of(&outcome, "/large_tool_results/c"), None);
}

#[tokio::test]
async fn a_sub_agent_without_file_tools_is_not_told_to_use_them() {
    let spec: SubAgentSpec =
        serde_json::from_value(json!({"name": "fetcher", "description": "Fetches.", "tools": ["say"]})).unwrap();
    let task = json!({"subagent_type": "fetcher", "description": "Fetch it."});
    let is_below = |request: &ModelRequest| request.messages.get(0).is_some_and(|m| m.text().contains("Fetch it."));
    let model = ScriptedModel::rules()
        .when(is_below, [Turn::call("say", json!({"chars": 200_000})), Turn::text("Fetched.")])
        .otherwise([Turn::call("task", task), Turn::text("Done.")])
        .build();
    let agent = DeepAgent::builder().model(model.clone()).tool(say()).sub_agent(spec).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let requests = model.requests();
    let mut shown = requests.iter().filter(|request| is_below(request)).filter_map(|request| request.messages.last());
    let shown = shown.next_back().unwrap().text();
    assert!(shown.len() > 79_000 && !shown.contains("read_file") && !shown.contains("grep"), "{}", shown.len());
}

#[tokio::test]
async fn a_long_message_is_sent_whole_to_an_agent_that_cannot_read_files() {
    let long = "x".repeat(200_001);
    let (_, model) = {
        let model = ScriptedModel::new([Turn::text("Read.")]);
        let agent = DeepAgent::builder().model(model.clone()).files(only(&["ls"])).build().unwrap();
        (agent.invoke(RunInput::messages([Message::user(long.clone())])).await.unwrap(), model)
    };
    assert_eq!(model.requests()[0].messages.last().unwrap().text(), long);
}

#[tokio::test]
async fn tools_for_changes_are_not_offered_on_files_that_cannot_change() {
    let (_, model) = play([Turn::text("Done.")], |b| b.backend(ReadOnly::new(StateBackend::new()))).await;
    let (_, per_run) = play([Turn::text("Done.")], |b| {
        b.backend_per_run(|_cx| Arc::new(ReadOnly::new(StateBackend::new())) as Arc<dyn Backend>)
    })
    .await;
    for model in [model, per_run] {
        let request = &model.requests()[0];
        for tool in ["write_file", "edit_file", "delete"] {
            assert_eq!(description(request, tool), None, "{tool}");
        }
        assert!(description(request, "read_file").is_some());
    }
}

#[tokio::test]
async fn write_file_names_the_tool_for_editing_that_is_offered() {
    let editing = |edit_tool| FilesystemOptions { edit_tool: Some(edit_tool), ..FilesystemOptions::default() };
    for (options, end) in [
        (FilesystemOptions::default(), "To change a part of a file use edit_file."),
        (editing(EditTool::ApplyPatch), "To change a part of a file use apply_patch."),
        (only(&["read_file", "write_file"]), "what was there is replaced."),
    ] {
        let (_, model) = play([Turn::text("Done.")], |b| b.files(options)).await;
        let requests = model.requests();
        let text = description(&requests[0], "write_file").unwrap();
        assert!(text.ends_with(end), "{text}");
    }
}

#[tokio::test]
async fn execute_says_which_paths_commands_do_not_see() {
    let folder = tempfile::tempdir().unwrap();
    let shell = || LocalShell::open(folder.path(), Confinement::Unconfined).unwrap();
    let disk = WithShell::new(LocalBackend::open(folder.path()).unwrap(), shell());
    let memories = VPath::parse("/memories").unwrap();
    let routed = CompositeBackend::new(disk.clone()).route(memories, StateBackend::new());
    let state = WithShell::new(StateBackend::new(), shell());
    let backends: [(Arc<dyn Backend>, &str); 3] = [
        (Arc::new(disk), "The path /a/b of the file tools is a/b for commands."),
        (Arc::new(routed), "The path /a/b of the file tools is a/b for commands. Commands do not see /memories."),
        (Arc::new(state), "Commands do not see the files of the file tools."),
    ];
    for (backend, end) in backends {
        let (_, model) = play([Turn::text("Done.")], |b| b.backend(backend.clone())).await;
        let (_, per_run) = play([Turn::text("Done.")], |b| b.backend_per_run(move |_cx| backend.clone())).await;
        let texts = [model, per_run].map(|model| description(&model.requests()[0], "execute").unwrap().to_owned());
        assert!(texts[0].ends_with(end), "{}", texts[0]);
        assert_eq!(texts[0], texts[1]);
    }
}

#[tokio::test]
async fn the_default_limit_of_grep_can_be_set_and_removed() {
    let lines = "hit\n".repeat(1_500);
    for (limit, shown) in
        [(FilesystemOptions::default().grep_matches, "1000+"), (std::num::NonZeroUsize::new(7), "7+"), (None, "1500")]
    {
        let options = FilesystemOptions { grep_matches: limit, ..FilesystemOptions::default() };
        let script = [
            Turn::call("write_file", json!({"file_path": "/a", "content": lines})),
            Turn::call("grep", json!({"pattern": "hit", "output_mode": "count"})),
            Turn::text("Done."),
        ];
        let (outcome, _) = play(script, |b| b.files(options)).await;
        let text = results(&outcome)[1].0.clone();
        assert_eq!(text.lines().next(), Some(&*format!("/a: {shown}")), "{text}");
    }
}

#[test]
fn a_time_limit_of_zero_seconds_is_refused() {
    let options = FilesystemOptions { max_execute_seconds: 0, ..FilesystemOptions::default() };
    let built = DeepAgent::builder().model(ScriptedModel::new([])).files(options).build();
    assert!(built.unwrap_err().to_string().contains("max_execute_seconds must be more than 0"));
}

#[tokio::test]
async fn what_the_harness_stores_can_be_kept_in_another_directory() {
    let artifacts_root = VPath::parse("/kept/here").unwrap();
    let options = FilesystemOptions { artifacts_root, ..FilesystemOptions::default() };
    let script = [
        Turn::calls([("c", "say", json!({"chars": 100_000}))]),
        Turn::calls([
            ("write_file", json!({"file_path": "/kept/here/large_tool_results/c", "content": "forged"})),
            ("delete", json!({"file_path": "/kept"})),
            ("write_file", json!({"file_path": "/large_tool_results/c", "content": "fine"})),
        ]),
        Turn::text("Heard."),
    ];
    let model = ScriptedModel::new(script);
    let agent = DeepAgent::builder().model(model.clone()).tool(say()).files(options).build().unwrap();
    let outcome = agent.invoke("x".repeat(200_001)).await.unwrap();
    assert!(results(&outcome)[0].0.contains("It is in /kept/here/large_tool_results/c;"), "{:?}", results(&outcome)[0]);
    assert_eq!(text_of(&outcome, "/kept/here/large_tool_results/c").unwrap().len(), 100_000);
    let errors: Vec<bool> = results(&outcome)[1..].iter().map(|result| result.1).collect();
    assert_eq!(errors, [true, true, false], "{:?}", &results(&outcome)[1..]);
    let shown = model.requests()[0].messages.last().unwrap().text();
    assert!(shown.contains("was put into /kept/here/conversation_history/messages/"), "{shown}");
}

#[tokio::test]
async fn directories_of_the_harness_on_disk_are_ignored_by_git() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("conversation_history")).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let agent = DeepAgent::builder()
        .model(ScriptedModel::new([
            Turn::calls([("c1", "say", json!({"chars": 100_000})), ("c2", "say", json!({"chars": 100_000}))]),
            Turn::text("Heard."),
        ]))
        .backend(backend)
        .tool(say())
        .build()
        .unwrap();
    agent.invoke("x".repeat(200_001)).await.unwrap();
    let ignored = |name: &str| std::fs::read_to_string(folder.path().join(name).join(".gitignore")).ok();
    assert_eq!(ignored("large_tool_results").as_deref(), Some("*\n"));
    assert_eq!(ignored("conversation_history"), None, "an existing directory is left as it is");
}

#[tokio::test]
async fn media_of_a_result_beyond_their_limit_are_stored_and_named() {
    let picture = |n: u8| {
        let source = MediaSource::Base64(format!("iVBORw0KGg{}A", char::from(b'A' + n)));
        Block::Media(Media { kind: MediaKind::Image, mime: "image/png".to_owned(), source, name: None })
    };
    let draw = move || {
        tool_fn("draw", "Draws.", move |_: Nothing, _cx| async move {
            Ok(ToolOutput::blocks((0..23).map(picture).collect()))
        })
    };
    for (options, end) in
        [(FilesystemOptions::default(), "; it is in /large_tool_results/c-3.png]"), (only(&["ls"]), "; ask for less]")]
    {
        let script = [Turn::calls([("c", "draw", json!({}))]), Turn::text("Seen.")];
        let (outcome, _) = play(script, |b| b.tool(draw()).files(options)).await;
        let message = outcome.messages().iter().find(|m| m.as_tool().is_some()).unwrap();
        let media = message.content().iter().filter(|block| matches!(block, Block::Media(_))).count();
        assert_eq!((media, message.content().len()), (20, 23));
        let last = message.content()[22].as_text().unwrap();
        assert!(last.starts_with("[image (image/png) was not attached: the result has too many"), "{last}");
        assert!(last.ends_with(end), "{last}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}
