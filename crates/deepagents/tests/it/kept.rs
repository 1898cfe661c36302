//! What the harness stores for the agent, under rules that deny most writes.

use std::path::Path;
use std::sync::Arc;

use deepagents::fs::LocalBackend;
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal, Message, Outcome, RunInput, tool_fn};
use serde_json::{Value, json};

use crate::results;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn say() -> impl deepagents::Tool {
    tool_fn("say", "Says a lot.", |_: Nothing, _cx| async { Ok("x".repeat(1_000)) })
}

/// A conversation with compaction, an oversized result and message, and a written file. Writes below `denied` are
/// refused.
async fn run(dir: &Path, denied: &[&str]) -> (Outcome, ScriptedModel) {
    let script = [
        Turn::calls([("c1", "say", json!({}))]),
        Turn::call("write_file", json!({"file_path": "/new.txt", "content": "x"})),
        Turn::text("Done."),
    ];
    let model = ScriptedModel::rules()
        .when(|request| request.tools.is_empty(), (0..4).map(|_| Turn::text("A SUMMARY")))
        .otherwise(script)
        .build();
    let rule = Rule::new(AccessMode::Deny, denied.iter().copied()).only([Operation::Write]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .backend(LocalBackend::open(dir).unwrap())
        .permissions(Permissions::new([rule]).unwrap())
        .files(FilesystemOptions {
            result_tokens: Some(100),
            message_tokens: Some(1_000),
            ..FilesystemOptions::default()
        })
        .summarization(SummarizationOptions::default().trigger(Trigger::messages(5)).keep(Size::Messages(2)))
        .tool(say())
        .build()
        .unwrap();
    let words = ["question 0", "answer 1", "question 2", "answer 3"];
    let turn = |(at, text): (usize, &str)| if at % 2 == 0 { Message::user(text) } else { Message::assistant(text) };
    let mut asked = Message::user("long ".repeat(2_000));
    asked.set_id("m1".into());
    let history = words.into_iter().enumerate().map(turn).chain([asked]);
    let outcome = agent.invoke(RunInput::messages(history)).await.unwrap();
    (outcome, model)
}

/// The last request to the model.
fn shown(model: &ScriptedModel) -> String {
    let requests = model.requests();
    let last = requests.iter().rfind(|request| !request.tools.is_empty()).unwrap();
    serde_json::to_value(&last.messages).map(|value: Value| value.to_string()).unwrap()
}

/// The stored messages, in no particular order.
fn long_messages(dir: &Path) -> Vec<String> {
    let stored = std::fs::read_dir(dir.join("conversation_history/messages")).unwrap();
    stored.map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap()).collect()
}

#[tokio::test]
async fn long_messages_of_two_threads_with_one_id_are_both_kept() {
    let dir = tempfile::tempdir().unwrap();
    let agent = DeepAgent::builder()
        .model(ScriptedModel::rules().always(Turn::text("Done.")).build())
        .backend(LocalBackend::open(dir.path()).unwrap())
        .files(FilesystemOptions { message_tokens: Some(1_000), ..FilesystemOptions::default() })
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    for thread in ["mine", "yours"] {
        let mut asked = Message::user(format!("{thread} ").repeat(2_000));
        asked.set_id("m1".into());
        agent.invoke(RunInput::messages([asked]).thread(thread)).await.unwrap();
    }
    let mut kept = long_messages(dir.path());
    kept.sort();
    assert_eq!(kept, ["mine ".repeat(2_000), "yours ".repeat(2_000)]);
}

#[tokio::test]
async fn an_agent_without_write_access_still_compacts_and_stores_large_results() {
    let dir = tempfile::tempdir().unwrap();
    let (outcome, model) = run(dir.path(), &["/**"]).await;
    let results = results(&outcome);
    assert!(results[0].0.contains("It is in /large_tool_results/c1;"), "{results:?}");
    assert_eq!(results[1], ("Error: permission denied for write on /new.txt".to_owned(), true));
    assert_eq!(std::fs::read(dir.path().join("large_tool_results/c1")).unwrap().len(), 1_000);
    assert!(shown(&model).contains("A SUMMARY") && !shown(&model).contains("question 0"), "{}", shown(&model));
    let kept = dir.path().join("conversation_history");
    assert_eq!(long_messages(dir.path()), ["long ".repeat(2_000)]);
    let mut files = std::fs::read_dir(kept).unwrap().map(|entry| entry.unwrap().path());
    let history = files.find(|path| path.extension().is_some_and(|extension| extension == "md"));
    assert!(std::fs::read_to_string(history.unwrap()).unwrap().contains("question 0"));
}

#[tokio::test]
async fn a_rule_naming_the_storage_directories_also_binds_the_harness() {
    for (rule, results_kept, history_kept) in [
        ("/large_tool_results/**", false, true),
        ("/conversation_history", true, false),
        ("/{src,conversation_history}/**", true, false),
        ("/large_*/**", true, true),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (outcome, model) = run(dir.path(), &[rule]).await;
        assert_eq!(dir.path().join("large_tool_results").exists(), results_kept, "{rule}");
        assert_eq!(results(&outcome)[0].0.contains("could not be stored"), !results_kept, "{rule}");
        assert_eq!(dir.path().join("conversation_history").exists(), history_kept, "{rule}");
        assert_eq!(shown(&model).contains("A SUMMARY"), history_kept, "{rule}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn stored_data_does_not_follow_links_past_the_rules() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("src")).unwrap();
    for name in ["large_tool_results", "conversation_history"] {
        std::os::unix::fs::symlink("src", dir.path().join(name)).unwrap();
    }
    let (outcome, model) = run(dir.path(), &["/**"]).await;
    assert!(results(&outcome)[0].0.contains("could not be stored"), "{:?}", results(&outcome));
    assert!(shown(&model).contains("question 0"));
    assert_eq!(std::fs::read_dir(dir.path().join("src")).unwrap().count(), 0);
}

/// Two threads, each with a directory of its own, and a sub-agent in the first.
#[tokio::test]
async fn each_thread_can_keep_its_large_results_in_files_of_its_own() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = kept.path().to_owned();
    let task = json!({"description": "Say", "subagent_type": "general-purpose"});
    let search = ("grep", json!({"pattern": "xxx", "output_mode": "files_with_matches"}));
    let model = ScriptedModel::new([
        Turn::calls([("c1", "say", json!({}))]),
        Turn::call("task", task),
        Turn::calls([("s1", "say", json!({}))]),
        Turn::text("Said."),
        Turn::call(search.0, search.1.clone()),
        Turn::text("Done."),
        Turn::call(search.0, search.1),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder()
        .model(model)
        .backend(LocalBackend::open(dir.path()).unwrap())
        .artifact_files(move |asked| {
            let own = place.join(asked.cx.root_thread()?).join(asked.directory);
            if asked.writes {
                std::fs::create_dir_all(&own).unwrap();
            }
            Some(Arc::new(LocalBackend::open(own).ok()?))
        })
        .files(FilesystemOptions { result_tokens: Some(100), ..FilesystemOptions::default() })
        .tool(say())
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let first = results(&agent.invoke(RunInput::new("Say").thread("first")).await.unwrap());
    assert!(first[0].0.contains("It is in /large_tool_results/c1;"), "{first:?}");
    assert_eq!(first[2].0, "/large_tool_results/c1\n/large_tool_results/s1");
    assert_eq!(std::fs::read(kept.path().join("first/large_tool_results/s1")).unwrap().len(), 1_000);
    let second = results(&agent.invoke(RunInput::new("Look").thread("second")).await.unwrap());
    assert!(!second[0].0.contains("large_tool_results"), "{second:?}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "nothing is put among the files of the agent");
}

#[tokio::test]
async fn rules_bind_files_that_are_kept_elsewhere() {
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let place = kept.path().to_owned();
    for (denied, is_kept) in [("/**", true), ("/large_tool_results/**", false)] {
        let (model, place) =
            (ScriptedModel::new([Turn::calls([("c1", "say", json!({}))]), Turn::text("Done.")]), place.clone());
        let rule = Rule::new(AccessMode::Deny, [denied]).only([Operation::Write]);
        let agent = DeepAgent::builder()
            .model(model)
            .backend(LocalBackend::open(dir.path()).unwrap())
            .artifact_files(move |_| Some(Arc::new(LocalBackend::open(&place).unwrap())))
            .permissions(Permissions::new([rule]).unwrap())
            .files(FilesystemOptions { result_tokens: Some(100), ..FilesystemOptions::default() })
            .tool(say())
            .build()
            .unwrap();
        let outcome = agent.invoke(RunInput::new("Say")).await.unwrap();
        assert_eq!(results(&outcome)[0].0.contains("It is in /large_tool_results/c1"), is_kept, "{denied}");
    }
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 1);
}
