//! Results are bounded, larger ones are stored, and no result ends a run.

use std::sync::Arc;

use deepagents::core::event::{EventKind, MiddlewareEvent};
use deepagents::core::tool::DynTool;
use deepagents::fs::{LocalBackend, StateBackend};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, Message, RunInput, tool_fn};
use futures_util::StreamExt;
use serde_json::json;

use super::text_of;
use crate::{play, results};

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Size {
    chars: usize,
}

fn say() -> impl deepagents::Tool {
    tool_fn("say", "Says a lot.", |size: Size, _cx| async move { Ok("x".repeat(size.chars)) })
}

#[tokio::test]
async fn a_result_at_the_limit_is_shown_and_one_character_more_goes_to_a_file() {
    let options = |tokens| FilesystemOptions { result_tokens: tokens, ..FilesystemOptions::default() };
    let script = |n: usize| [Turn::calls([("c", "say", json!({"chars": n}))]), Turn::text("Heard.")];
    for (tokens, chars, kept) in [
        (Some(20_000), 80_000, true),
        (Some(20_000), 80_001, false),
        (Some(10), 40, true),
        (Some(10), 41, false),
        (None, 500_000, true),
        (Some(0), 500_000, true),
    ] {
        let (outcome, _) = play(script(chars), |b| b.tool(say()).files(options(tokens))).await;
        let text = &results(&outcome)[0].0;
        assert_eq!(text.len() == chars, kept, "{tokens:?} {chars}");
        let stored = text_of(&outcome, "/large_tool_results/c");
        assert_eq!(stored.map(|text| text.len()), (!kept).then_some(chars), "{tokens:?} {chars}");
    }
}

#[tokio::test]
async fn a_large_result_that_cannot_be_stored_is_reported_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("large_tool_results"), "in the way").unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [Turn::call("say", json!({"chars": 100_000})), Turn::text("Heard.")];
    let (outcome, _) = play(script, |b| b.backend(backend).tool(say())).await;
    let text = &results(&outcome)[0].0;
    assert!(text.contains("could not be stored: /large_tool_results is a file"), "{text}");
    assert!(text.contains("is lost") && text.len() < 3_000, "{text}");
}

#[tokio::test]
async fn the_agent_cannot_change_its_stored_results_and_history() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("conversation_history")).unwrap();
    std::fs::write(folder.path().join("conversation_history/old.md"), "said before").unwrap();
    std::fs::create_dir(folder.path().join("large_tool_results")).unwrap();
    std::os::unix::fs::symlink("large_tool_results", folder.path().join("alias")).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let write = |path: &str| ("write_file", json!({"file_path": path, "content": "forged"}));
    let edit = |path: &str| {
        ("edit_file", json!({"file_path": path, "old_string": "x", "new_string": "y", "replace_all": true}))
    };
    let delete = |path: &str| ("delete", json!({"file_path": path}));
    let script = [
        Turn::calls([("c", "say", json!({"chars": 100_000}))]),
        Turn::call("read_file", json!({"file_path": "/large_tool_results/c"})),
        Turn::calls([
            write("/large_tool_results/c"),
            write("/large_tool_results/new"),
            write("/alias/c"),
            edit("/large_tool_results/c"),
            edit("/alias/c"),
            delete("/large_tool_results/c"),
            delete("/large_tool_results"),
            delete("/alias/c"),
            delete("/conversation_history/old.md"),
            write("/conversation_history/old.md"),
        ]),
        Turn::calls([write("/large_tool_results-not"), delete("/alias")]),
        Turn::text("I may not."),
    ];
    let options = FilesystemOptions { read_before_edit: false, ..FilesystemOptions::default() };
    let (outcome, _) = play(script, |b| b.backend(backend).tool(say()).files(options)).await;
    let results = results(&outcome);
    assert!(!results[1].1);
    for (text, error) in &results[2..12] {
        assert!(*error && text.contains("is kept for you and cannot be changed"), "{text}");
    }
    assert!(!results[12].1 && !results[13].1, "{results:?}");
    assert_eq!(std::fs::read(folder.path().join("large_tool_results/c")).unwrap().len(), 100_000);
    assert_eq!(std::fs::read(folder.path().join("conversation_history/old.md")).unwrap(), b"said before");
}

#[tokio::test]
async fn a_long_message_goes_to_a_file_and_is_shown_in_part() {
    let message =
        |chars: usize| format!("begin {} end", "word\n".repeat(chars / 5)).chars().take(chars).collect::<String>();
    for (chars, tokens, kept) in
        [(200_000, Some(50_000), true), (200_001, Some(50_000), false), (41, Some(10), false), (200_001, None, true)]
    {
        let model = ScriptedModel::new([Turn::text("Read.")]);
        let options = FilesystemOptions { message_tokens: tokens, ..FilesystemOptions::default() };
        let agent = DeepAgent::builder().model(model.clone()).files(options).build().unwrap();
        let outcome = agent.invoke(message(chars)).await.unwrap();
        assert_eq!(
            outcome.messages().iter().next().unwrap().text().chars().count(),
            chars,
            "the thread keeps all of it"
        );
        let requests = model.requests();
        let shown = requests[0].messages.last().unwrap().text();
        assert_eq!(shown.chars().count() == chars, kept, "{chars} {tokens:?}");
        if !kept {
            let path = shown.split_whitespace().find(|word| word.starts_with("/conversation_history/")).unwrap();
            let stored = text_of(&outcome, path.trim_end_matches(';')).unwrap();
            assert_eq!(stored, message(chars));
            assert!(shown.contains("begin"), "{shown}");
        }
    }
}

#[tokio::test]
async fn the_id_of_a_long_message_cannot_redirect_its_file() {
    let folder = tempfile::tempdir().unwrap();
    let history = folder.path().join("conversation_history");
    std::fs::create_dir(&history).unwrap();
    std::fs::write(history.join("t.md"), "said before").unwrap();
    for id in ["t", "../t", "/a/b", "x/../../t"] {
        let agent = DeepAgent::builder()
            .model(ScriptedModel::new([Turn::text("Read.")]))
            .backend(LocalBackend::open(folder.path()).unwrap())
            .build()
            .unwrap();
        let mut message = Message::user(format!("{id} {}", "x".repeat(200_001)));
        message.set_id(id.to_owned());
        agent.invoke(RunInput::messages([message])).await.unwrap();
    }
    let names = |place: &std::path::Path| std::fs::read_dir(place).unwrap().count();
    assert_eq!((names(folder.path()), names(&history), names(&history.join("messages"))), (1, 2, 4));
    assert_eq!(std::fs::read(history.join("t.md")).unwrap(), b"said before");
}

#[tokio::test]
async fn a_long_message_that_cannot_be_stored_is_sent_whole_with_an_event() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("conversation_history"), "in the way").unwrap();
    let model = ScriptedModel::new([Turn::text("Read.")]);
    let backend = LocalBackend::open(folder.path()).unwrap();
    let agent = DeepAgent::builder().model(model.clone()).backend(backend).build().unwrap();
    let mut run = agent.run("x".repeat(200_001));
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(event) = event.kind {
            told.push(event);
        }
    }
    told.retain(|event| !matches!(event, MiddlewareEvent::ContextWindowUnknown { .. }));
    let [MiddlewareEvent::LongMessageKept { reason, .. }] = &told[..] else { panic!("{told:?}") };
    assert!(reason.contains("/conversation_history is a file"), "{reason}");
    assert_eq!(model.requests()[0].messages.last().unwrap().text().len(), 200_001);
}

#[tokio::test]
async fn listings_and_matches_are_bounded_and_say_how_much_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..200 {
        std::fs::write(folder.path().join(format!("file-with-a-name-{n:03}")), "hit\n".repeat(3)).unwrap();
    }
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [
        Turn::calls([
            ("ls", json!({"path": "/"})),
            ("glob", json!({"pattern": "*"})),
            ("grep", json!({"pattern": "hit"})),
            ("grep", json!({"pattern": "hit", "output_mode": "content"})),
        ]),
        Turn::text("Done."),
    ];
    let options = FilesystemOptions { listing_tokens: Some(500), ..FilesystemOptions::default() };
    let (outcome, _) = play(script.clone(), |b| b.backend(backend.clone()).files(options)).await;
    for (text, error) in results(&outcome) {
        assert!(!error && text.len() < 2_200, "{text}");
        let left = text.lines().last().unwrap();
        assert!(left.ends_with(" more lines are not shown; ask for less]"), "{left}");
    }
    // A lower threshold for storing results does not cut them earlier.
    let options = FilesystemOptions { result_tokens: Some(500), ..FilesystemOptions::default() };
    let (outcome, _) = play(script, |b| b.backend(backend).files(options)).await;
    assert!(results(&outcome).iter().all(|(text, _)| text.len() > 2_200 && !text.contains("not shown")));
}

#[tokio::test]
async fn errors_are_bounded_and_say_why_however_long_the_arguments_are() {
    let huge = "y".repeat(1 << 20);
    let long = "/y".repeat(1_000) + &"z".repeat(10_000);
    let script = [
        Turn::call("write_file", json!({"file_path": "/a", "content": "short"})),
        Turn::calls([
            ("edit_file", json!({"file_path": "/a", "old_string": huge, "new_string": "x"})),
            ("read_file", json!({"file_path": format!("/{huge}")})),
            ("read_file", json!({"file_path": format!("../{huge}")})),
            ("glob", json!({"pattern": format!("../{huge}")})),
            ("grep", json!({"pattern": format!("({huge}"), "regex": true})),
            ("ls", json!({"path": format!("~{huge}")})),
            ("read_file", json!({"file_path": long})),
            ("edit_file", json!({"file_path": long, "old_string": "x", "new_string": "y"})),
            ("grep", json!({"pattern": format!("({}", "y".repeat(10_000)), "regex": true})),
        ]),
        Turn::text("Done."),
    ];
    let (outcome, _) = play(script, |b| b.backend(StateBackend::new())).await;
    let reasons = [
        "the text to replace is not in /a",
        "a path can have at most",
        "path traversal is not allowed",
        "the limit is 4096",
        "the limit is 16384",
        "home directories are not available",
        "does not exist",
        "does not exist",
        "unclosed group",
    ];
    for ((text, error), reason) in results(&outcome)[1..].iter().zip(reasons) {
        assert!(*error && text.starts_with("Error: ") && text.len() < 5_000, "{} bytes", text.len());
        assert!(text.contains(reason), "{text}");
    }
}

/// A directory full of traps.
fn traps() -> (tempfile::TempDir, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::os::unix::fs::symlink("loop", at("loop")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", at("passwd")).unwrap();
    std::os::unix::fs::symlink("nowhere/at/all", at("dangling")).unwrap();
    std::process::Command::new("mkfifo").arg(at("fifo")).status().unwrap();
    std::fs::write(at("huge"), "start\n").unwrap();
    std::fs::OpenOptions::new().write(true).open(at("huge")).unwrap().set_len(1 << 40).unwrap();
    for name in ["foo..bar", "[...slug]", "new\nline", "🦀", "~x"] {
        std::fs::write(at(name), name).unwrap();
    }
    let mut paths: Vec<String> = [
        "loop",
        "passwd",
        "dangling",
        "fifo",
        "huge",
        "foo..bar",
        "[...slug]",
        "new\nline",
        "🦀",
        "~x",
        "a\0b",
        "../x",
    ]
    .map(|name| format!("/{name}"))
    .to_vec();
    paths.push(format!("/{}", "n".repeat(300)));
    (folder, paths)
}

#[tokio::test]
async fn no_file_or_path_can_end_a_run() {
    let (folder, paths) = traps();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let mut turns = Vec::new();
    for path in &paths {
        turns.push(Turn::calls([
            ("ls", json!({"path": path})),
            ("read_file", json!({"file_path": path, "limit": 2})),
            ("edit_file", json!({"file_path": path, "old_string": "no such text", "new_string": "x"})),
            ("glob", json!({"pattern": "*", "path": path})),
        ]));
    }
    turns.push(Turn::call("ls", json!({"path": "/"})));
    turns.push(Turn::text("Still here."));
    let (outcome, _) = play(turns, |b| b.backend(backend)).await;
    assert_eq!(outcome.text(), "Still here.");
    let results = results(&outcome);
    assert_eq!(results.len(), paths.len() * 4 + 1);
    let host = folder.path().to_string_lossy().into_owned();
    for (text, _) in &results {
        assert!(!text.contains(&host) && !text.contains("root:x:0"), "{text}");
    }
    assert!(results.last().unwrap().0.contains("/loop\n"), "a trap hides nothing: {}", results.last().unwrap().0);
}

#[test]
fn file_tools_have_the_names_and_parameters_models_know() {
    use deepagents::Middleware;
    let files = deepagents::middleware::filesystem::Filesystem::default();
    let tools: Vec<Arc<dyn DynTool>> = files.tools();
    let parameters = |name: &str| {
        let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
        let schema = tool.spec().schema;
        let mut names: Vec<String> = schema["properties"].as_object().unwrap().keys().cloned().collect();
        names.sort();
        let mut required: Vec<String> =
            schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
        required.sort();
        (names.join(" "), required.join(" "))
    };
    for (tool, names, required) in [
        ("ls", "path", "path"),
        ("read_file", "column file_path limit offset", "file_path"),
        ("write_file", "content file_path", "content file_path"),
        ("edit_file", "edits file_path new_string old_string replace_all", "file_path new_string old_string"),
        ("delete", "file_path", "file_path"),
        ("glob", "path pattern respect_gitignore", "pattern"),
        ("grep", "context glob max_count output_mode path pattern regex respect_gitignore", "pattern"),
    ] {
        assert_eq!(parameters(tool), (names.to_owned(), required.to_owned()), "{tool}");
    }
}

#[tokio::test]
async fn an_event_says_where_a_large_result_was_stored_or_that_it_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    for (file, name, data) in [
        ("other", "large_result_stored", json!([{"call": "c", "path": "/large_tool_results/c", "chars": 100_000}])),
        (
            "large_tool_results",
            "large_result_lost",
            json!([{"call": "c", "chars": 100_000, "error": "/large_tool_results is a file, not a directory"}]),
        ),
    ] {
        let root = folder.path().join(name);
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join(file), "there").unwrap();
        let model = ScriptedModel::new([Turn::calls([("c", "say", json!({"chars": 100_000}))]), Turn::text("Heard.")]);
        let backend = LocalBackend::open(&root).unwrap();
        let agent = DeepAgent::builder().model(model).backend(backend).tool(say()).build().unwrap();
        assert_eq!(json!(crate::memory::told(&agent, "Say it.".into(), name).await), data);
    }
}

#[tokio::test]
async fn a_large_result_is_not_stored_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".deepagents/agents")).unwrap();
    std::os::unix::fs::symlink(".deepagents/agents", folder.path().join("large_tool_results")).unwrap();
    let backend = LocalBackend::open(folder.path()).unwrap();
    let script = [Turn::calls([("c", "say", json!({"chars": 200_000}))]), Turn::text("Heard.")];
    let (outcome, _) = play(script, |b| b.backend(backend).tool(say())).await;
    let (text, _) = results(&outcome).remove(0);
    assert!(text.contains("could not be stored") && text.contains("does not lead where it did"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path().join(".deepagents/agents")).unwrap().count(), 0);
}
