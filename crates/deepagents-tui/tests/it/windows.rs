//! Runs in the background, and two windows on one thread.

use deepagents::models::scripted::Turn;
use deepagents_tui::{Begin, Mode};
use serde_json::json;

use crate::world::{World, say};

/// A command that ends once a file exists.
fn until(file: &str) -> Turn {
    Turn::call("execute", json!({"command": format!("while [ ! -e {file} ]; do sleep 0.02; done; echo seen")}))
}

#[tokio::test]
async fn a_run_continues_in_the_background_and_its_end_is_announced() {
    let world = World::new([until("go"), Turn::text("Other answer."), Turn::text("Waited for it.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for go").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    screens.press("ctrl-b").await.unwrap();
    assert!(screens.wait_for("it continues in the background").await, "{}", screens.text());
    assert!(screens.live().join("\n").contains("1 in the background"), "{:?}", screens.live());
    assert!(screens.thread().is_none());
    say(&mut screens, "something else").await;
    assert!(screens.wait_for("Other answer.").await && screens.wait_idle().await, "{}", screens.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("is done").await, "{}", screens.text());
    assert!(screens.sent().iter().any(|text| text.contains("is done")), "{:?}", screens.sent());
    say(&mut screens, "/threads").await;
    assert!(screens.wait_until_live("Threads of this directory").await, "{:?}", screens.live());
    screens.type_text("wait").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Waited for it.").await, "{}", screens.text());
}

#[tokio::test]
async fn a_background_run_can_be_followed_and_sent_messages() {
    let world = World::new([until("go"), Turn::text("Heard you.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for go").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    let thread = screens.thread().unwrap();
    screens.press("ctrl-b").await.unwrap();
    assert!(screens.wait_for("it continues in the background").await);
    say(&mut screens, &format!("/resume {thread}")).await;
    assert!(screens.wait_for("is shown step by step").await, "{}", screens.text());
    say(&mut screens, "and be quick").await;
    assert!(screens.wait_for("reads this before its next step").await, "{}", screens.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Heard you.").await, "{}", screens.text());
    assert!(world.told().contains("and be quick"), "{}", world.told());
}

#[tokio::test]
async fn quitting_hands_background_work_to_another_process() {
    let world = World::new([until("never")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for ever").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    let thread = screens.thread().unwrap();
    screens.press("ctrl-b").await.unwrap();
    assert!(screens.wait_for("it continues in the background").await);
    say(&mut screens, "/quit").await;
    assert_eq!(*world.detached.lock().unwrap(), [thread]);
    std::fs::write(world.dir.path().join("never"), "").unwrap();
}

#[tokio::test]
async fn a_run_that_nobody_can_go_on_with_keeps_no_other_from_going_on() {
    let world = World::new([until("never"), until("never")]);
    *world.not_begun.lock().unwrap() = 1;
    let mut screens = world.screens(Mode::Auto);
    let mut threads = Vec::new();
    for (text, count) in [("one", "1 in the background"), ("two", "2 in the background")] {
        say(&mut screens, text).await;
        assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
        threads.extend(screens.thread());
        screens.press("ctrl-b").await.unwrap();
        assert!(screens.wait_until_live(count).await, "{}", screens.text());
        assert!(screens.wait_idle().await, "{}", screens.text());
    }
    say(&mut screens, "/quit").await;
    assert_eq!(*world.detached.lock().unwrap(), threads[1..]);
    assert!(screens.text().contains("no room for another process"), "{}", screens.text());
    std::fs::write(world.dir.path().join("never"), "").unwrap();
}

#[tokio::test]
async fn work_in_one_window_appears_in_another_and_both_can_continue() {
    let world = World::new([Turn::text("First."), Turn::text("Second."), Turn::text("Third.")]);
    let mut one = world.screens(Mode::Ask);
    say(&mut one, "say first").await;
    assert!(one.wait_for("First.").await && one.wait_idle().await);
    let mut two = world.begin(Mode::Ask, Begin::Continue);
    assert!(two.wait_for("First.").await, "{}", two.text());
    say(&mut one, "say second").await;
    assert!(one.wait_for("Second.").await && one.wait_idle().await);
    assert!(two.wait_for("another program is working on this thread").await, "{}", two.text());
    assert!(two.wait_for("Second.").await, "{}", two.text());
    assert!(two.wait_for("the other program has finished its turn").await, "{}", two.text());
    say(&mut two, "say third").await;
    assert!(two.wait_for("Third.").await, "{}", two.text());
    assert!(one.wait_for("Third.").await, "{}", one.text());
    assert_eq!(one.text().matches("Second.").count(), 1, "{}", one.text());
    assert_eq!(
        one.text().matches("another program").count(),
        1,
        "its own turns are no other program's: {}",
        one.text()
    );
}

#[tokio::test]
async fn turns_undone_in_one_window_disappear_from_the_other() {
    let world = World::new([Turn::text("First answer."), Turn::text("Second answer.")]);
    let mut one = world.screens(Mode::Ask);
    for (words, answer) in [("say first", "First answer."), ("say second", "Second answer.")] {
        say(&mut one, words).await;
        assert!(one.wait_for(answer).await && one.wait_idle().await);
    }
    let mut two = world.begin(Mode::Ask, Begin::Continue);
    assert!(two.wait_for("Second answer.").await, "{}", two.text());
    say(&mut one, "/undo").await;
    assert!(one.wait_for("undone").await, "{}", one.text());
    assert!(two.wait_for("another program rewound this thread").await, "{}", two.text());
    two.press("ctrl-o").await.unwrap();
    let live = two.live().join("\n");
    assert!(live.contains("First answer.") && !live.contains("Second answer."), "{live}");
    assert!(!one.text().contains("another program rewound"), "{}", one.text());
}

#[tokio::test]
async fn a_window_keeps_following_after_its_message_was_rejected() {
    let mut world = World::new([until("go"), Turn::text("First done."), Turn::text("Second done.")]);
    world.is_gone = false;
    let mut one = world.screens(Mode::Auto);
    say(&mut one, "wait for go").await;
    assert!(one.wait_until_live("execute while").await, "{:?}", one.live());
    let mut two = world.begin(Mode::Auto, Begin::Continue);
    assert!(two.wait_for("another program is working on this thread").await, "{}", two.text());
    say(&mut two, "from two").await;
    assert!(two.wait_for("not sent: from two").await && two.wait_idle().await, "{}", two.text());
    // A command replaces the message that was put back into the input.
    say(&mut two, "/status").await;
    assert!(two.wait_for("mode       auto").await, "{}", two.text());
    say(&mut two, "!true").await;
    assert!(two.wait_idle().await);
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(one.wait_for("First done.").await && one.wait_idle().await, "{}", one.text());
    assert!(two.wait_for("First done.").await, "{}", two.text());
    assert!(two.wait_for("the other program has finished its turn").await, "{}", two.text());
    say(&mut one, "again").await;
    assert!(one.wait_for("Second done.").await && two.wait_for("Second done.").await, "{}", two.text());
    assert_eq!(two.text().matches("you see what it does").count(), 1, "{}", two.text());
}

#[tokio::test]
async fn a_call_waiting_in_another_window_is_not_shown_as_done() {
    let write = Turn::call("write_file", json!({"file_path": "/z.txt", "content": "z"}));
    let world = World::new([Turn::text("First."), write, Turn::text("Written.")]);
    let mut one = world.screens(Mode::Ask);
    say(&mut one, "hello").await;
    assert!(one.wait_for("First.").await && one.wait_idle().await);
    let mut two = world.begin(Mode::Ask, Begin::Continue);
    assert!(two.wait_for("First.").await, "{}", two.text());
    say(&mut one, "write it").await;
    assert!(one.wait_for("Write the new file /z.txt?").await, "{}", one.text());
    assert!(two.wait_for("the other program is waiting for a decision").await, "{}", two.text());
    let text = two.text();
    assert!(!text.contains("has finished its turn") && !text.contains("✓ write_file"), "{text}");
    assert!(!text.contains("● write_file"), "{text}");
}

#[tokio::test]
async fn a_call_under_way_elsewhere_is_shown_with_what_comes_of_it() {
    let mut world = World::new([until("go"), Turn::text("Waited for it.")]);
    world.is_gone = false;
    let mut one = world.screens(Mode::Auto);
    say(&mut one, "wait for go").await;
    assert!(one.wait_until_live("execute while").await, "{:?}", one.live());
    let mut two = world.begin(Mode::Auto, Begin::Continue);
    assert!(two.wait_for("another program is working on this thread").await, "{}", two.text());
    assert!(!two.text().contains("execute while"), "it has not ended: {}", two.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(one.wait_for("Waited for it.").await && one.wait_idle().await, "{}", one.text());
    assert!(two.wait_for("Waited for it.").await, "{}", two.text());
    assert!(two.text().contains("● execute while") && two.text().contains("[exit code 0]"), "{}", two.text());
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_not_shown_as_done() {
    let world = World::new([until("never")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for ever").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    // The program is killed: no process works on the thread any more.
    let mut after = world.begin(Mode::Auto, Begin::Continue);
    assert!(after.wait_for("the last run was cut off during").await, "{}", after.text());
    assert!(after.text().contains("✗ execute while"), "{}", after.text());
    assert!(after.text().contains("it did not finish"), "{}", after.text());
    std::fs::write(world.dir.path().join("never"), "").unwrap();
}

#[tokio::test]
async fn a_window_that_answers_after_another_is_told_so() {
    for is_over in [false, true] {
        let mut world = World::new([until("go"), Turn::text("Seen.")]);
        world.is_gone = false;
        let mut one = world.screens(Mode::Ask);
        say(&mut one, "wait for go").await;
        assert!(one.wait_for("y yes").await, "{}", one.text());
        let mut two = world.begin(Mode::Ask, Begin::Continue);
        let mut third = world.begin(Mode::Ask, Begin::Continue);
        assert!(two.wait_for("y yes").await && third.wait_for("y yes").await, "{}", two.text());
        one.press("y").await.unwrap();
        assert!(one.wait_until_live("execute while").await, "{:?}", one.live());
        if is_over {
            std::fs::write(world.dir.path().join("go"), "").unwrap();
            assert!(one.wait_for("Seen.").await && one.wait_idle().await, "{}", one.text());
        }
        two.press("y").await.unwrap();
        assert!(two.wait_for("answered in the other window").await, "{}", two.text());
        std::fs::write(world.dir.path().join("go"), "").unwrap();
        for window in [&mut one, &mut two, &mut third] {
            assert!(window.wait_for("Seen.").await && window.wait_idle().await, "{}", window.text());
        }
        assert_eq!(two.text().matches("answered in the other window").count(), 1, "{}", two.text());
        assert_eq!(third.text().matches("answered in the other window").count(), 1, "{}", third.text());
        assert_eq!(two.text().matches("Seen.").count(), 1, "{}", two.text());
        assert!(!one.text().contains("answered in the other window"), "{}", one.text());
    }
}

#[tokio::test]
async fn another_windows_turns_appear_before_a_message_sent_right_after() {
    let world = World::new([Turn::text("First."), Turn::text("Second."), Turn::text("Third.")]);
    let mut one = world.screens(Mode::Ask);
    say(&mut one, "say first").await;
    assert!(one.wait_for("First.").await && one.wait_idle().await);
    let mut two = world.begin(Mode::Ask, Begin::Continue);
    assert!(two.wait_for("First.").await, "{}", two.text());
    two.type_text("say third").await;
    say(&mut one, "say second").await;
    assert!(one.wait_for("Second.").await && one.wait_idle().await);
    two.press("enter").await.unwrap();
    assert!(two.wait_for("Third.").await && two.wait_idle().await, "{}", two.text());
    two.press("ctrl-o").await.unwrap();
    let shown = two.live().join("\n");
    let at = |words: &str| shown.find(words).unwrap_or_else(|| panic!("no {words} in {shown}"));
    assert!(at("say second") < at("Second.") && at("Second.") < at("say third"), "{shown}");
}

#[tokio::test]
async fn a_thread_deleted_by_another_program_is_announced_and_removed_from_view() {
    let world = World::new([Turn::text("First answer."), Turn::text("Second answer.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "say first").await;
    assert!(screens.wait_for("First answer.").await && screens.wait_idle().await);
    let thread = screens.thread().unwrap();
    world.delete(&thread).await;
    say(&mut screens, "say second").await;
    assert!(screens.wait_for("Second answer.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(!world.told().contains("First answer."), "{}", world.told());
    assert_ne!(screens.thread().unwrap(), thread);
    screens.press("ctrl-o").await.unwrap();
    let shown = screens.live().join("\n");
    assert!(shown.contains("another program has deleted this thread") && shown.contains("say second"), "{shown}");
    assert!(!shown.contains("First answer."), "{shown}");
}
