//! Leaving a thread for another one, and what is typed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use deepagents::models::scripted::Turn;
use deepagents_tui::{Begin, Mode};
use tokio::sync::Notify;

use crate::world::{World, say};

#[tokio::test]
async fn a_message_typed_while_a_thread_opens_is_sent_on_it() {
    let mut world = World::new([Turn::text("PELICAN it is."), Turn::text("As before.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "the word is PELICAN").await;
    assert!(screens.wait_for("PELICAN it is.").await && screens.wait_idle().await);
    let thread = screens.thread().unwrap();
    drop(screens);
    let gate = Arc::new(Notify::new());
    world.gate = Some(gate.clone());
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    say(&mut screens, "which word?").await;
    assert!(screens.live().join("\n").contains("waiting: which word?"), "{:?}", screens.live());
    gate.notify_one();
    assert!(screens.wait_for("As before.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.thread() == Some(thread) && world.told().contains("PELICAN"), "{}", world.told());
    let text = screens.text();
    let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words} in {text}"));
    assert!(at("PELICAN it is.") < at("› which word?"), "{text}");
}

#[tokio::test]
async fn a_message_typed_while_a_thread_fails_to_open_returns_to_the_input() {
    let mut world = World::new([]);
    let gate = Arc::new(Notify::new());
    world.gate = Some(gate.clone());
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    say(&mut screens, "go on").await;
    gate.notify_one();
    assert!(screens.wait_for("this directory has no threads yet").await, "{}", screens.text());
    assert!(screens.live().join("\n").contains("› go on"), "{:?}", screens.live());
    assert!(screens.wait_idle().await && world.model.requests().is_empty());
}

#[tokio::test]
async fn a_message_typed_while_a_thread_with_a_question_opens_returns_to_the_input() {
    let run = Turn::call("execute", serde_json::json!({"command": "touch a.txt"}));
    let mut world = World::new([run, Turn::text("Never.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    let thread = screens.thread().unwrap();
    drop(screens);
    let gate = Arc::new(Notify::new());
    world.gate = Some(gate.clone());
    let mut screens = world.begin(Mode::Ask, Begin::Resume(thread));
    say(&mut screens, "wait a moment").await;
    gate.notify_one();
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    assert!(screens.live().join("\n").contains("› wait a moment"), "{:?}", screens.live());
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn a_new_thread_starts_once_compaction_has_been_stopped() {
    let long = "lorem ipsum dolor sit amet ".repeat(100);
    let turns = (0..5).map(|n| Turn::text(format!("{long} END{n}")));
    let world = World::new(turns.chain([Turn::text("SUMMARY").delay(Duration::from_secs(600)), Turn::text("Fresh.")]));
    let mut screens = world.screens(Mode::Ask);
    for n in 0..5 {
        say(&mut screens, &format!("say {n}")).await;
        assert!(screens.wait_for(&format!("END{n}")).await && screens.wait_idle().await);
    }
    say(&mut screens, "/compact").await;
    say(&mut screens, "/clear").await;
    assert!(screens.wait_idle().await && screens.thread().is_none(), "{}", screens.text());
    assert!(screens.live().join("\n").contains("ask for something"), "{:?}", screens.live());
}

#[tokio::test]
async fn another_thread_opens_once_the_run_of_the_present_one_has_been_stopped() {
    let never = Turn::call("execute", serde_json::json!({"command": "while [ ! -e never ]; do sleep 0.01; done"}));
    let world = World::new([Turn::text("PELICAN it is."), never, Turn::text("As before.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "the word is PELICAN").await;
    assert!(screens.wait_for("PELICAN it is.").await && screens.wait_idle().await);
    let first = screens.thread().unwrap();
    say(&mut screens, "/clear").await;
    say(&mut screens, "wait").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    let second = screens.thread().unwrap();
    say(&mut screens, &format!("/resume {first}")).await;
    assert!(screens.wait_idle().await && screens.thread().as_ref() == Some(&first), "{}", screens.text());
    say(&mut screens, "which word?").await;
    assert!(screens.wait_for("As before.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(world.told().contains("PELICAN") && first != second, "{}", world.told());
}

#[tokio::test]
async fn a_new_thread_does_not_get_the_output_of_commands_run_before_it() {
    let world = World::new([Turn::text("Nothing, no.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "!echo secret-$((40+2))").await;
    assert!(screens.wait_for("secret-42").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/clear").await;
    say(&mut screens, "what did I run?").await;
    assert!(screens.wait_for("Nothing, no.").await, "{}", screens.text());
    assert!(!world.told().contains("secret-42"), "{}", world.told());
}

#[tokio::test]
async fn the_list_of_threads_says_why_a_run_stopped() {
    let world = World::new([Turn::text("Never.").delay(Duration::from_secs(600)), Turn::text("Answer.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "first").await;
    world.until_requested().await;
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("interrupted; say what to do instead").await && screens.wait_idle().await);
    say(&mut screens, "/new").await;
    say(&mut screens, "second").await;
    assert!(screens.wait_for("Answer.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/threads").await;
    assert!(screens.wait_until_live("stopped: the run was cancelled").await, "{:?}", screens.live());
    assert_eq!(screens.live().join("\n").matches("stopped:").count(), 1, "{:?}", screens.live());
}
