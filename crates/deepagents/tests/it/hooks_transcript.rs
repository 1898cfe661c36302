//! The conversation as a file, for hooks that ask for it.

use deepagents::core::journal::MemoryJournal;
use deepagents::fs::LocalBackend;
use deepagents::middleware::hooks::{HookRunner, Hooks};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, RunInput};
use serde_json::{Value, json};

use crate::hooks::Place;

/// A `Stop` hook that asks for the conversation and copies it, and a `PreToolUse` hook that does not.
fn hooks() -> Value {
    let copy =
        r#"cat > stop; f=$(sed -n 's/.*"transcript_path":"\([^"]*\)".*/\1/p' stop); test -z "$f" || cp -p "$f" copy"#;
    json!({
        "PreToolUse": [{"hooks": [{"type": "command", "command": "cat > pre"}]}],
        "Stop": [{"hooks": [{"type": "command", "command": copy, "transcript": true}]}],
        "SessionEnd": [{"hooks": [{"type": "command", "command": "cat > end", "transcript": true}]}],
    })
}

fn agent(place: &Place, runner: HookRunner) -> DeepAgent {
    let write = Turn::call("write_file", json!({"file_path": "/a.txt", "content": "new"}));
    let model = ScriptedModel::new([write, Turn::text("Done.")]);
    let files = LocalBackend::open(place.path("")).unwrap();
    DeepAgent::builder().model(model).backend(files).hooks(runner).journal(MemoryJournal::new()).build().unwrap()
}

fn input(place: &Place, name: &str) -> Value {
    serde_json::from_str(&place.read(name)).unwrap()
}

#[tokio::test]
async fn a_hook_that_asks_for_it_gets_the_conversation_as_a_file_until_the_session_ends() {
    let (place, kept) = (Place::new(), tempfile::tempdir().unwrap());
    let runner = place.runner(&hooks()).transcripts(kept.path().join("transcripts"));
    agent(&place, runner.clone()).invoke(RunInput::new("Write.").thread("t-1")).await.unwrap();
    assert_eq!(input(&place, "pre").get("transcript_path"), None, "nothing is written for this hook");
    let file = kept.path().join("transcripts").join("t-1.jsonl");
    assert_eq!(input(&place, "stop")["transcript_path"], json!(file));
    let lines: Vec<Value> = place.read("copy").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| line["sessionId"] == "t-1" && line["uuid"].is_string()));
    let messages: Vec<Value> = lines.iter().map(|line| line["message"].clone()).collect();
    assert_eq!(messages[0], json!({"role": "user", "content": [{"type": "text", "text": "Write."}]}));
    let call = &messages[1]["content"][0];
    assert_eq!((&call["name"], &call["input"]["file_path"]), (&json!("Write"), &json!(place.path("a.txt"))));
    assert_eq!(messages[2]["content"][0]["tool_use_id"], call["id"]);
    assert_eq!(messages[3], json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]}));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    }
    runner.session_end("t-1", "exit").await;
    assert_eq!(input(&place, "end")["transcript_path"], json!(file));
    assert!(!file.exists());
}

#[tokio::test]
async fn runs_without_a_thread_and_hooks_of_others_leave_no_transcript() {
    let (place, kept) = (Place::new(), tempfile::tempdir().unwrap());
    let runner = place.runner(&hooks()).transcripts(kept.path());
    agent(&place, runner).invoke("Write.").await.unwrap();
    assert_eq!(input(&place, "stop").get("transcript_path"), None);
    let others: Hooks = place.runner(&hooks()).hooks().clone().only_restricting();
    let runner = HookRunner::new(others).transcripts(kept.path());
    agent(&place, runner).invoke(RunInput::new("Write.").thread("t")).await.unwrap();
    assert_eq!(input(&place, "stop").get("transcript_path"), None);
    assert_eq!(std::fs::read_dir(kept.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_transcript_that_cannot_be_written_makes_the_hook_a_broken_one() {
    let (place, kept) = (Place::new(), tempfile::tempdir().unwrap());
    std::fs::write(kept.path().join("file"), "").unwrap();
    let mut closed = hooks();
    closed["PreToolUse"] = json!([{"hooks": [
        {"type": "command", "command": "cat > pre", "transcript": true, "failClosed": true}]}]);
    let runner = place.runner(&closed).transcripts(kept.path().join("file"));
    let outcome = agent(&place, runner).invoke(RunInput::new("Write.").thread("../t")).await.unwrap();
    let result = outcome.messages().get(2).unwrap().text();
    assert!(result.contains("its transcript could not be written"), "{result}");
    assert!(!place.path("a.txt").exists() && !place.path("pre").exists());
}
