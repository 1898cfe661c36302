//! Messages that wait: for the run, for a decision, for other work.

use std::sync::Arc;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents_tui::{Begin, Mode};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::world::{World, say};

fn command(text: &str) -> Turn {
    Turn::call("execute", json!({"command": text}))
}

#[tokio::test]
async fn a_message_written_at_a_question_reaches_the_next_request() {
    let world = World::new([command("touch a.txt"), Turn::text("Both done."), Turn::text("Too late.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    say(&mut screens, "without haste").await;
    assert!(screens.live().join("\n").contains("waiting: without haste"), "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Both done.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!((world.model.requests().len(), world.has("a.txt")), (2, true), "{}", screens.text());
    assert!(world.told().contains("without haste") && !screens.text().contains("waiting:"), "{}", screens.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_a_run_took_before_its_question_is_delivered_once_also_if_the_question_is_left() {
    let mut world = World::new([]);
    world.model = ScriptedModel::new([world.once("go", command("touch a.txt")), Turn::text("So be it.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    world.until_requested().await;
    say(&mut screens, "PELICAN").await;
    assert!(screens.live().join("\n").contains("waiting: PELICAN"), "{:?}", screens.live());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    say(&mut screens, "w-later").await;
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("was left undecided").await && screens.wait_idle().await, "{}", screens.text());
    let live = screens.live().join("\n");
    assert!(live.contains("waiting: PELICAN") && live.contains("› w-later"), "{live}");
    screens.press("ctrl-c up").await.unwrap();
    assert!(screens.live().join("\n").contains("› w-later"), "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("So be it.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!(world.told().matches("PELICAN").count(), 1, "{}", world.told());
    assert!(world.model.requests().len() == 2 && !screens.text().contains("waiting:"), "{}", screens.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_sent_after_a_run_asked_and_before_that_is_shown_reaches_the_next_request() {
    let mut world = World::new([]);
    world.model = ScriptedModel::new([world.once("go", command("touch a.txt")), Turn::text("Both done.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    world.until_requested().await;
    screens.type_text("PELICAN").await;
    let thread = screens.thread().unwrap();
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    world.until_asked(&thread).await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Both done.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!((world.model.requests().len(), world.has("a.txt")), (2, true), "{}", screens.text());
    assert_eq!(world.told().matches("PELICAN").count(), 1, "{}", world.told());
    assert!(!screens.text().contains("waiting:"), "{}", screens.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_undo_returns_a_message_and_what_was_stored_after_it_in_their_order() {
    let mut world = World::new([]);
    world.model = ScriptedModel::new([world.once("go", command("touch a.txt"))]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    world.until_requested().await;
    say(&mut screens, "PELICAN").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("was left undecided").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("undone").await && screens.wait_idle().await, "{}", screens.text());
    let live = screens.live();
    let at = |words: &str| live.iter().position(|row| row.contains(words));
    assert!(at("› run it").is_some() && at("› run it") < at("PELICAN"), "{live:?}");
    assert!(!screens.live().join("\n").contains("waiting:"), "{live:?}");
}

#[tokio::test]
async fn ctrl_c_stops_the_opening_of_a_thread_and_returns_what_was_typed_or_ends_the_program() {
    let world = World::new([Turn::text("First.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "first").await;
    assert!(screens.wait_for("First.").await && screens.wait_idle().await, "{}", screens.text());
    let thread = screens.thread().unwrap();
    let mut world = world;
    for quits in [false, true] {
        let gate = Arc::new(Notify::new());
        world.gate = Some(gate.clone());
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, &format!("/resume {thread}")).await;
        say(&mut screens, "typed meanwhile").await;
        assert!(screens.live().join("\n").contains("waiting: typed meanwhile"), "{:?}", screens.live());
        screens.press("ctrl-c").await.unwrap();
        if quits {
            screens.press("ctrl-c ctrl-c").await.unwrap();
            assert!(screens.has_ended(), "{}", screens.text());
            continue;
        }
        gate.notify_one();
        assert!(screens.wait_for("First.").await && screens.wait_idle().await, "{}", screens.text());
        assert!(screens.live().join("\n").contains("› typed meanwhile"), "{:?}", screens.live());
        assert_eq!(world.model.requests().len(), 1, "it was not sent");
    }
}

#[tokio::test]
async fn output_of_the_users_command_stays_with_a_message_that_was_not_sent() {
    let gate = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let turns = [Turn::call("execute", gate), Turn::text("First done."), Turn::text("Second done.")];
    let mut world = World::new(turns);
    world.is_gone = false;
    let mut one = world.screens(Mode::Auto);
    say(&mut one, "work").await;
    assert!(one.wait_until_live("◌ execute").await, "{:?}", one.live());
    let mut two = world.begin(Mode::Auto, Begin::Continue);
    assert!(two.wait_for("another program is working on this thread").await, "{}", two.text());
    say(&mut two, "!echo shell-$((40+2))").await;
    assert!(two.wait_for("shell-42").await && two.wait_idle().await, "{}", two.text());
    say(&mut two, "from two").await;
    assert!(two.wait_for("not sent: from two").await && two.wait_idle().await, "{}", two.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(one.wait_for("First done.").await && one.wait_idle().await, "{}", one.text());
    two.press("enter").await.unwrap();
    assert!(two.wait_for("Second done.").await, "{}", two.text());
    assert!(world.told().contains("shell-42") && world.told().contains("from two"), "{}", world.told());
}

#[tokio::test]
async fn a_redacted_message_is_sent_once() {
    let gate = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let mut world = World::new([Turn::call("execute", gate), Turn::text("Noted."), Turn::text("Again?")]);
    world.redacts = true;
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
    say(&mut screens, "the key is sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Noted.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!(world.model.requests().len(), 2, "{}", screens.text());
    assert!(world.told().contains("the key is") && !world.told().contains("sk-proj"), "{}", world.told());
    assert!(!screens.text().contains("waiting:"), "{}", screens.text());
}

#[tokio::test]
async fn messages_for_the_next_turn_return_to_the_input_when_the_run_moves_to_the_background() {
    let gate: Value = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let world = World::new([Turn::call("execute", gate), Turn::text("Heard.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
    say(&mut screens, "for the run").await;
    screens.type_text("for later").await;
    screens.press("tab ctrl-b").await.unwrap();
    assert!(screens.wait_for("it continues in the background").await, "{}", screens.text());
    let live = screens.live().join("\n");
    assert!(live.contains("› for later") && !live.contains("for the run"), "{live}");
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("is done").await, "{}", screens.text());
    assert!(world.told().contains("for the run") && !world.told().contains("for later"), "{}", world.told());
}

#[tokio::test]
async fn output_of_the_users_command_is_sent_with_a_message_to_a_background_run_too() {
    let gate = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let world = World::new([Turn::call("execute", gate), Turn::text("Heard.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
    let thread = screens.thread().unwrap();
    screens.press("ctrl-b").await.unwrap();
    assert!(screens.wait_for("it continues in the background").await, "{}", screens.text());
    say(&mut screens, &format!("/resume {thread}")).await;
    assert!(screens.wait_for("is shown step by step").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "!echo shell-$((40+2))").await;
    assert!(screens.wait_for("shell-42").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "look at that").await;
    assert!(screens.wait_for("reads this before its next step").await, "{}", screens.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Heard.").await, "{}", screens.text());
    assert!(world.told().contains("shell-42") && world.told().contains("look at that"), "{}", world.told());
}

#[test]
fn a_message_whose_image_is_being_read_goes_with_its_run_to_the_background() {
    // One thread reads files, so that the test says when an image is read.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let gate = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
        let world = World::new([Turn::call("execute", gate), Turn::text("Seen."), Turn::text("Another.")]);
        std::fs::write(world.dir.path().join("dot.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
        let mut screens = world.screens(Mode::Auto);
        say(&mut screens, "work").await;
        assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
        let (release, held) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        say(&mut screens, "look at dot.png").await;
        assert!(screens.live().join("\n").contains("waiting: look at dot.png"), "{:?}", screens.live());
        screens.press("ctrl-b").await.unwrap();
        assert!(screens.wait_for("it continues in the background").await, "{}", screens.text());
        drop(release);
        std::fs::write(world.dir.path().join("go"), "").unwrap();
        assert!(screens.wait_for("is done").await, "{}", screens.text());
        assert!(world.told().contains("look at dot.png"), "{}", world.told());
        say(&mut screens, "something else").await;
        assert!(screens.wait_for("Another.").await && screens.wait_idle().await, "{}", screens.text());
        assert!(!world.told().contains("look at dot.png"), "{}", world.told());
    });
}

#[test]
fn two_messages_with_the_same_text_show_each_its_own_image() {
    // One thread reads files, in the order in which that is asked for.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let mut world = World::new([]);
        // The run goes on until it has both.
        world.model = ScriptedModel::rules()
            .always(Turn::with(|request| {
                let seen = request.messages.iter().filter(|message| message.text() == "look at dot.png").count();
                let steps = request.messages.len();
                if seen == 2 {
                    return Turn::text("Both seen.");
                }
                command(&format!("while [ ! -e go ]; do sleep 0.01; done; echo {steps}"))
            }))
            .build();
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
        let file = world.dir.path().join("dot.png");
        std::fs::write(&file, png).unwrap();
        let mut screens = world.screens(Mode::Auto);
        say(&mut screens, "work").await;
        assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
        say(&mut screens, "look at dot.png").await;
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        std::fs::write(&file, [png.as_slice(), &[0; 2_500]].concat()).unwrap();
        say(&mut screens, "look at dot.png").await;
        tokio::task::spawn_blocking(|| ()).await.unwrap();
        std::fs::write(world.dir.path().join("go"), "").unwrap();
        assert!(screens.wait_for("Both seen.").await && screens.wait_idle().await, "{}", screens.text());
        let text = screens.text();
        let shown: Vec<&str> = text.lines().filter(|line| line.contains("image dot.png")).collect();
        let expected = ["1 kB", "3 kB"].map(|size| format!("· with the image dot.png (image/png, {size})"));
        assert_eq!(shown, expected, "{text}");
    });
}
