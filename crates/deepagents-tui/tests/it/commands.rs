//! Commands that begin with a slash, completion, and commands of the shell.

use deepagents::Usage;
use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;
use serde_json::json;

use crate::world::{World, say};

#[tokio::test]
async fn letters_narrow_the_menu_and_an_unknown_command_is_not_sent() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("/").await;
    assert!(screens.live().iter().filter(|line| line.contains("  /") || line.contains("❯ /")).count() >= 5);
    screens.type_text("mod").await;
    let live = screens.live().join("\n");
    assert!(live.contains("/model") && !live.contains("/compact"), "{live}");
    screens.type_text("le").await;
    screens.press("esc enter").await;
    assert!(screens.text().contains("no command /modle"), "{}", screens.text());
    assert!(screens.text().contains("did you mean /model?"), "{}", screens.text());
    assert!(world.model.requests().is_empty());
}

#[tokio::test]
async fn files_are_offered_and_taken_over() {
    let world = World::new([Turn::text("Read.")]);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("look at @mai").await;
    assert!(screens.wait_for("@src/main.py").await, "{}", screens.text());
    screens.press("tab").await;
    screens.type_text(" please").await;
    assert!(screens.text().contains("look at @src/main.py please"), "{}", screens.text());
    screens.press("enter").await;
    assert!(screens.wait_for("Read.").await);
    assert!(world.told().contains("@src/main.py"));
}

#[tokio::test]
async fn output_of_the_persons_command_goes_along_with_the_next_message() {
    let world = World::new([Turn::text("I saw it.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "!echo bang-$((40+2))").await;
    assert!(screens.wait_for("bang-42").await, "{}", screens.text());
    assert!(screens.wait_idle().await && world.model.requests().is_empty());
    say(&mut screens, "!!echo private-$((40+2))").await;
    assert!(screens.wait_for("private-42").await);
    assert!(screens.wait_idle().await);
    say(&mut screens, "what did that say").await;
    assert!(screens.wait_for("I saw it.").await);
    assert!(world.told().contains("bang-42") && !world.told().contains("private-42"));
}

#[tokio::test]
async fn a_long_paste_is_a_placeholder_and_is_sent_whole() {
    let world = World::new([Turn::text("Long, that.")]);
    let mut screens = world.screens(Mode::Ask);
    let text: String = (0..5_000).map(|n| format!("pasted line {n}\n")).collect();
    screens.event(crossterm_paste(&text)).await;
    assert!(screens.text().contains("5,001 lines") && !screens.text().contains("pasted line 7"), "{}", screens.text());
    screens.press("enter").await;
    assert!(screens.wait_for("Long, that.").await);
    assert!(world.told().contains("pasted line 2500\n"));
}

fn crossterm_paste(text: &str) -> crossterm::event::Event {
    crossterm::event::Event::Paste(text.to_owned())
}

#[tokio::test]
async fn rewinding_takes_back_files_and_talk_and_gives_the_message_back() {
    let write = |name: &str| Turn::call("write_file", json!({"file_path": format!("/{name}.txt"), "content": "x\n"}));
    let world = World::new([
        write("one"),
        Turn::text("Wrote one."),
        write("two"),
        Turn::text("Wrote two."),
        Turn::text("Third."),
        Turn::text("Fourth."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "make file one").await;
    assert!(screens.wait_for("Wrote one.").await && screens.wait_idle().await);
    say(&mut screens, "make file two").await;
    assert!(screens.wait_for("Wrote two.").await && screens.wait_idle().await);
    assert!(world.has("two.txt"));
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await, "{}", screens.text());
    screens.press("enter enter").await;
    assert!(screens.wait_for("went back").await, "{}", screens.text());
    assert!(world.has("one.txt") && !world.has("two.txt"));
    assert!(screens.live().join("\n").contains("make file two"), "{:?}", screens.live());
    screens.press("ctrl-u").await;
    say(&mut screens, "another way").await;
    assert!(screens.wait_for("Third.").await && screens.wait_idle().await);
    assert!(world.told().contains("make file one") && !world.told().contains("make file two"));
    // To the very beginning.
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await);
    screens.press("down down enter enter").await;
    assert!(screens.wait_for("went back; put back: /one.txt").await, "{}", screens.text());
    assert!(!world.has("one.txt"));
}

#[tokio::test]
async fn compacting_shortens_what_the_model_is_sent_and_not_what_is_read() {
    let long = "lorem ipsum dolor sit amet ".repeat(100);
    let turns = (0..5).map(|n| Turn::text(format!("{long} END{n}")));
    let world = World::new(turns.chain([Turn::text("SUMMARY: long texts."), Turn::text("Here I am.")]));
    let mut screens = world.screens(Mode::Ask);
    for n in 0..5 {
        say(&mut screens, &format!("say {n}")).await;
        assert!(screens.wait_for(&format!("END{n}")).await && screens.wait_idle().await);
    }
    let before = world.told().len();
    say(&mut screens, "/compact").await;
    assert!(screens.wait_for("became a summary").await, "{}", screens.text());
    say(&mut screens, "after all").await;
    assert!(screens.wait_for("Here I am.").await);
    assert!(world.told().len() < before * 6 / 10, "{} of {before}", world.told().len());
    assert!(world.told().contains("SUMMARY") && screens.text().contains("END0"));
}

#[tokio::test]
async fn what_it_costs_and_what_the_model_may_call_is_told() {
    let usage = Usage { input: 23_456, output: 789, ..Usage::default() };
    let world = World::new([Turn::text("Counted.").usage(usage)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "count").await;
    assert!(screens.wait_for("Counted.").await && screens.wait_idle().await);
    say(&mut screens, "/cost").await;
    assert!(screens.text().contains("23,456") && screens.text().contains("789"), "{}", screens.text());
    assert!(screens.text().contains("the price of scripted is not known"), "{}", screens.text());
    say(&mut screens, "/context").await;
    assert!(screens.text().contains("24,245 of 100,000 tokens"), "{}", screens.text());
    say(&mut screens, "/tools").await;
    assert!(screens.wait_for("execute").await && screens.text().contains("read_file"), "{}", screens.text());
    say(&mut screens, "/copy").await;
    assert_eq!(screens.sent().last().map(String::as_str), Some("Counted."));
    say(&mut screens, "/export talk.md").await;
    assert!(screens.wait_for("talk.md").await);
    assert!(screens.wait_for("the conversation is in talk.md").await);
    assert!(world.read("talk.md").contains("Counted."));
    say(&mut screens, "/export ../out.md").await;
    assert!(screens.wait_for("is not below the directory").await, "{}", screens.text());
}

#[tokio::test]
async fn clearing_begins_a_thread_that_knows_nothing_of_the_last_one() {
    let world = World::new([Turn::text("PELICAN it is."), Turn::text("I know of none.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "the word is PELICAN").await;
    assert!(screens.wait_for("PELICAN it is.").await && screens.wait_idle().await);
    say(&mut screens, "/clear").await;
    say(&mut screens, "which word?").await;
    assert!(screens.wait_for("I know of none.").await, "{}", screens.text());
    assert!(!world.told().contains("PELICAN"));
    say(&mut screens, "/threads").await;
    assert!(screens.wait_for("Threads of this directory").await);
    assert!(screens.live().join("\n").contains("the word is PELICAN"), "{:?}", screens.live());
}

#[tokio::test]
async fn earlier_messages_come_back_across_starts_and_can_be_searched() {
    let world = World::new([Turn::text("Yes."), Turn::text("Yes.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "remember 4711").await;
    assert!(screens.wait_for("Yes.").await && screens.wait_idle().await);
    say(&mut screens, "something else").await;
    assert!(screens.wait_idle().await);
    drop(screens);
    let mut screens = world.screens(Mode::Ask);
    screens.press("up up").await;
    assert!(screens.live().join("\n").contains("remember 4711"), "{:?}", screens.live());
    screens.press("ctrl-u ctrl-r").await;
    screens.type_text("471").await;
    screens.press("enter").await;
    assert!(screens.live().join("\n").contains("› remember 4711"), "{:?}", screens.live());
}
