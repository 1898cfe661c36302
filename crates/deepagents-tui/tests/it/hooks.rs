//! The user's hooks, in the screens.

use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;
use serde_json::json;

use crate::world::{TIMEOUT, World, say};

/// Appends the input of the hook to a file, as one line.
const LOG: &str = r#"line=$(cat); printf '%s\n' "$line" >> told.jsonl"#;

fn writing() -> [Turn; 2] {
    [Turn::call("write_file", json!({"file_path": "/a.txt", "content": "x"})), Turn::text("Done.")]
}

/// The values of a field in the inputs of hooks.
async fn told(world: &World, lines: usize, field: &str) -> Vec<String> {
    let read = || std::fs::read_to_string(world.dir.path().join("told.jsonl")).unwrap_or_default();
    let began = std::time::Instant::now();
    while read().lines().filter(|line| !line.is_empty()).count() < lines {
        assert!(began.elapsed() < TIMEOUT, "{}", read());
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let text = read();
    let events = text.lines().filter(|line| !line.is_empty());
    let values = events.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    values.map(|event| event[field].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn a_hook_denies_a_call_before_the_user_is_asked() {
    let world = World::new(writing()).hooks(&[("PreToolUse", "echo not today >&2; exit 2")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write it").await;
    assert!(screens.wait_for("Done.").await, "{}", screens.text());
    assert!(!world.has("a.txt") && world.told().contains("not today"), "{}", world.told());
}

#[tokio::test]
async fn a_hook_decides_for_the_user() {
    let allow =
        r#"echo '{"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}}}'"#;
    let world = World::new(writing()).hooks(&[("PermissionRequest", allow), ("Notification", LOG)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write it").await;
    assert!(screens.wait_for("Done.").await, "{}", screens.text());
    assert_eq!(world.read("a.txt"), "x");
    assert!(screens.sent().is_empty() && !world.has("told.jsonl"), "nobody was asked: {:?}", screens.sent());
}

#[tokio::test]
async fn a_question_hooks_leave_to_the_user_is_asked_and_notified() {
    let world = World::new(writing()).hooks(&[("PermissionRequest", "true"), ("Notification", LOG)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write it").await;
    assert!(screens.wait_for("a.txt").await, "{}", screens.text());
    assert_eq!(told(&world, 1, "notification_type").await, ["permission_prompt"]);
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Done.").await, "{}", screens.text());
    assert_eq!(world.read("a.txt"), "x");
}

#[tokio::test]
async fn session_hooks_report_a_threads_start_clearing_and_restart() {
    let turns = [Turn::text("One."), Turn::text("Two."), Turn::text("Three.")];
    let world = World::new(turns).hooks(&[("SessionStart", LOG), ("SessionEnd", LOG)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "one").await;
    assert!(screens.wait_for("One.").await);
    say(&mut screens, "two").await;
    assert!(screens.wait_for("Two.").await);
    assert_eq!(told(&world, 1, "source").await, ["startup"], "a thread begins once");
    say(&mut screens, "/new").await;
    assert_eq!(told(&world, 2, "reason").await, ["", "clear"]);
    say(&mut screens, "three").await;
    assert!(screens.wait_for("Three.").await);
    assert_eq!(told(&world, 3, "source").await, ["startup", "", "clear"]);
}

#[tokio::test]
async fn a_hooks_message_to_the_user_is_shown() {
    let say_hello = r#"echo '{"systemMessage": "mind the gap"}'"#;
    let world = World::new([Turn::text("Done.")]).hooks(&[("UserPromptSubmit", say_hello), ("Stop", "exit 7")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("mind the gap").await, "{}", screens.text());
    assert!(screens.wait_for("is broken").await, "{}", screens.text());
}
