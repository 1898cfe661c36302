//! Slash commands, completion, and shell commands.

use std::sync::Arc;

use deepagents::Usage;
use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;
use serde_json::json;
use tokio::sync::Notify;

use crate::world::{TIMEOUT, World, say};

#[tokio::test]
async fn typing_narrows_the_menu_and_an_unknown_command_is_not_sent() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("/").await;
    assert!(screens.live().iter().filter(|line| line.contains("  /") || line.contains("❯ /")).count() >= 5);
    assert!(screens.live().join("\n").contains(" more (↑ ↓)"), "{:?}", screens.live());
    screens.type_text("mod").await;
    let live = screens.live().join("\n");
    assert!(live.contains("/model") && !live.contains("/compact"), "{live}");
    screens.type_text("le").await;
    screens.press("esc enter").await.unwrap();
    assert!(screens.text().contains("no command /modle"), "{}", screens.text());
    assert!(screens.text().contains("did you mean /model?"), "{}", screens.text());
    assert!(world.model.requests().is_empty());
}

#[tokio::test]
async fn file_names_are_suggested_and_completed() {
    let world = World::new([Turn::text("Read.")]);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("look at @mai").await;
    assert!(screens.wait_for("@src/main.py").await, "{}", screens.text());
    screens.press("tab").await.unwrap();
    screens.type_text(" please").await;
    assert!(screens.text().contains("look at @src/main.py please"), "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Read.").await);
    assert!(world.told().contains("@src/main.py"));
}

#[tokio::test]
async fn output_of_the_users_command_is_sent_with_the_next_message() {
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
async fn a_long_paste_is_shown_as_a_placeholder_and_sent_in_full() {
    let world = World::new([Turn::text("Long, that.")]);
    let mut screens = world.screens(Mode::Ask);
    let text: String = (0..5_000).map(|n| format!("pasted line {n}\n")).collect();
    screens.event(crossterm_paste(&text)).await;
    assert!(screens.text().contains("5,001 lines") && !screens.text().contains("pasted line 7"), "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Long, that.").await);
    assert!(world.told().contains("pasted line 2500\n"));
}

fn crossterm_paste(text: &str) -> crossterm::event::Event {
    crossterm::event::Event::Paste(text.to_owned())
}

#[tokio::test]
async fn rewinding_undoes_files_and_messages_and_returns_the_message_to_the_input() {
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
    screens.press("enter enter").await.unwrap();
    assert!(screens.wait_for("went back").await, "{}", screens.text());
    assert!(world.has("one.txt") && !world.has("two.txt"));
    assert!(screens.live().join("\n").contains("make file two"), "{:?}", screens.live());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "another way").await;
    assert!(screens.wait_for("Third.").await && screens.wait_idle().await);
    assert!(world.told().contains("make file one") && !world.told().contains("make file two"));
    // Back to the very beginning.
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await);
    screens.press("down enter enter").await.unwrap();
    assert!(screens.wait_for("went back; removed: /one.txt").await, "{}", screens.text());
    assert!(!world.has("one.txt"));
}

#[tokio::test]
async fn compacting_shortens_what_is_sent_but_not_what_is_shown() {
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
    assert!(screens.wait_for("replaced with a summary").await, "{}", screens.text());
    say(&mut screens, "after all").await;
    assert!(screens.wait_for("Here I am.").await);
    assert!(world.told().len() < before * 6 / 10, "{} of {before}", world.told().len());
    assert!(world.told().contains("SUMMARY") && screens.text().contains("END0"));
}

#[tokio::test]
async fn an_undo_lists_the_commands_sub_agents_ran() {
    let task = json!({"subagent_type": "general-purpose", "description": "touch"});
    let world = World::new([
        Turn::call("execute", json!({"command": "true"})),
        Turn::call("task", task),
        Turn::call("execute", json!({"command": "touch by-child.txt"})),
        Turn::text("Touched."),
        Turn::text("Delegated."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "delegate").await;
    assert!(screens.wait_for("Delegated.").await && screens.wait_idle().await, "{}", screens.text());
    for _ in 0..2 {
        say(&mut screens, "/undo").await;
        assert!(screens.wait_until_live("› delegate").await && screens.wait_idle().await, "{}", screens.text());
        say(&mut screens, "/redo").await;
        assert!(screens.wait_for("redone").await && screens.wait_idle().await, "{}", screens.text());
    }
    assert_eq!(screens.text().matches("what 2 commands did stays").count(), 2, "{}", screens.text());
    assert!(world.has("by-child.txt"));
}

#[tokio::test]
async fn cost_context_and_tools_can_be_shown() {
    let usage = Usage { input: 23_456, output: 789, ..Usage::default() };
    let world = World::new([Turn::text("Counted.").usage(usage)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "count").await;
    assert!(screens.wait_for("Counted.").await && screens.wait_idle().await);
    say(&mut screens, "/cost").await;
    assert!(screens.wait_for("23,456").await && screens.text().contains("789"), "{}", screens.text());
    assert!(screens.text().contains("the price of scripted is not known"), "{}", screens.text());
    say(&mut screens, "/context").await;
    assert!(screens.wait_for("24,245 of 100,000 tokens").await, "{}", screens.text());
    assert!(screens.text().contains("instructions") && screens.text().contains("free"), "{}", screens.text());
    say(&mut screens, "/tools").await;
    assert!(screens.wait_for("execute").await && screens.text().contains("read_file"), "{}", screens.text());
    assert!(screens.text().contains("mcp__harbour__moor   Moors a ship."), "{}", screens.text());
    say(&mut screens, "/copy").await;
    assert_eq!(screens.sent().last().map(String::as_str), Some("Counted."));
    say(&mut screens, "/export talk.md").await;
    assert!(screens.wait_for("talk.md").await);
    assert!(screens.wait_for("the conversation was written to talk.md").await);
    assert!(world.read("talk.md").contains("Counted."));
    say(&mut screens, "/export ../out.md").await;
    assert!(screens.wait_for("is outside this directory").await, "{}", screens.text());
}

#[tokio::test]
async fn clearing_starts_a_thread_without_knowledge_of_the_last_one() {
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
async fn earlier_messages_survive_restarts_and_can_be_searched() {
    let world = World::new([Turn::text("Yes."), Turn::text("Yes.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "remember 4711").await;
    assert!(screens.wait_for("Yes.").await && screens.wait_idle().await);
    say(&mut screens, "something else").await;
    assert!(screens.wait_idle().await);
    drop(screens);
    let mut screens = world.screens(Mode::Ask);
    screens.press("up up").await.unwrap();
    assert!(screens.live().join("\n").contains("remember 4711"), "{:?}", screens.live());
    screens.press("ctrl-u ctrl-r").await.unwrap();
    screens.type_text("471").await;
    screens.press("enter").await.unwrap();
    assert!(screens.live().join("\n").contains("› remember 4711"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_huge_message_in_the_history_hides_no_earlier_ones() {
    let world = World::new([Turn::text("Yes."), Turn::text("Yes.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "remember 4711").await;
    assert!(screens.wait_for("Yes.").await && screens.wait_idle().await);
    screens.event(crossterm_paste(&"a long line of a log\n".repeat(20_000))).await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_idle().await);
    let mut screens = world.screens(Mode::Ask);
    screens.press("up").await.unwrap();
    assert!(screens.live().join("\n").contains("› [Pasted text #1: 20,001 lines"), "{:?}", screens.live());
    screens.press("up").await.unwrap();
    assert!(screens.live().join("\n").contains("› remember 4711"), "{:?}", screens.live());
}

/// Creates two files, one per message.
fn two_files() -> World {
    let write = |name: &str| Turn::call("write_file", json!({"file_path": format!("/{name}.txt"), "content": "x\n"}));
    World::new([write("one"), Turn::text("Wrote one."), write("two"), Turn::text("Wrote two."), Turn::text("Third.")])
}

async fn make_two(screens: &mut deepagents_tui::Headless) {
    for name in ["one", "two"] {
        say(screens, &format!("make file {name}")).await;
        assert!(screens.wait_for(&format!("Wrote {name}.")).await && screens.wait_idle().await);
    }
}

#[tokio::test]
async fn undo_takes_back_the_last_message_and_its_files_and_redo_restores_them() {
    let world = two_files();
    let mut screens = world.screens(Mode::Auto);
    make_two(&mut screens).await;
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("undone; /redo reverts that; removed: /two.txt").await, "{}", screens.text());
    assert!(world.has("one.txt") && !world.has("two.txt"));
    assert!(screens.live().join("\n").contains("make file two"), "{:?}", screens.live());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("removed: /one.txt").await, "{}", screens.text());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "/redo").await;
    assert!(screens.wait_for("redone; brought back: /one.txt").await, "{}", screens.text());
    say(&mut screens, "/redo").await;
    assert!(screens.wait_for("redone; brought back: /two.txt").await, "{}", screens.text());
    assert!(world.has("one.txt") && world.has("two.txt"));
    say(&mut screens, "/redo").await;
    assert!(screens.wait_for("there is nothing to redo").await, "{}", screens.text());
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_until_live("make file one").await, "{:?}", screens.live());
    assert!(screens.live().join("\n").contains("make file two"), "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_idle().await);
    say(&mut screens, "and now").await;
    assert!(screens.wait_for("Third.").await);
    assert!(world.told().contains("Wrote two."), "{}", world.told());
}

#[tokio::test]
async fn a_rewind_previews_the_lines_removed_and_restored() {
    let edit = json!({"file_path": "/notes.txt", "old_string": "two", "new_string": "second"});
    let gone = json!({"file_path": "/old.txt"});
    let read = Turn::call("read_file", json!({"file_path": "/notes.txt"}));
    let world = World::new([read, Turn::call("edit_file", edit), Turn::call("delete", gone), Turn::text("Done.")]);
    std::fs::write(world.dir.path().join("notes.txt"), "one\ntwo\nthree\n").unwrap();
    std::fs::write(world.dir.path().join("old.txt"), "an old line\n").unwrap();
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "change them").await;
    assert!(screens.wait_for("Done.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await, "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("/old.txt: brought back").await, "{:?}", screens.live());
    let shown = screens.live().join("\n");
    for line in ["/notes.txt: put back", "2 - second", "2 + two", "1 + an old line"] {
        assert!(shown.contains(line), "{line} in {shown}");
    }
}

#[tokio::test]
async fn files_alone_can_be_rewound_after_a_preview() {
    let world = two_files();
    let mut screens = world.screens(Mode::Auto);
    make_two(&mut screens).await;
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await, "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("/two.txt: removed").await, "{}", screens.text());
    screens.press("down down enter").await.unwrap();
    assert!(screens.wait_for("went back; removed: /two.txt").await, "{}", screens.text());
    assert!(world.has("one.txt") && !world.has("two.txt"));
    assert!(screens.wait_idle().await);
    say(&mut screens, "go on").await;
    assert!(screens.wait_for("Third.").await);
    assert!(world.told().contains("Wrote two."), "{}", world.told());
}

#[tokio::test]
async fn threads_can_be_previewed_renamed_copied_and_deleted() {
    let world = World::new([Turn::text("PELICAN it is."), Turn::text("Second answer."), Turn::text("In the copy.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "the word").await;
    assert!(screens.wait_for("PELICAN it is.").await && screens.wait_idle().await);
    say(&mut screens, "/clear").await;
    say(&mut screens, "another talk").await;
    assert!(screens.wait_for("Second answer.").await && screens.wait_idle().await);
    say(&mut screens, "/threads").await;
    assert!(screens.wait_for("Threads of this directory").await);
    screens.press("down").await.unwrap();
    assert!(screens.wait_until_live("PELICAN it is.").await, "{:?}", screens.live());
    screens.press("ctrl-r ctrl-u").await.unwrap();
    screens.type_text("bird ").await;
    screens.event(crossterm_paste("talk\n")).await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("❯ bird talk").await, "{:?}", screens.live());
    screens.press("ctrl-f").await.unwrap();
    assert!(screens.wait_for("this is a copy; messages here").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    say(&mut screens, "go on").await;
    assert!(screens.wait_for("In the copy.").await && screens.wait_idle().await);
    assert!(world.told().contains("PELICAN"), "{}", world.told());
    say(&mut screens, "/threads").await;
    assert!(screens.wait_for("Ctrl+D delete").await);
    assert_eq!(screens.live().iter().filter(|line| line.contains("bird talk")).count(), 2, "{:?}", screens.live());
    screens.type_text("another").await;
    screens.press("ctrl-d").await.unwrap();
    assert!(screens.live().join("\n").contains("delete “another talk” for good?"), "{:?}", screens.live());
    screens.press("n ctrl-d y").await.unwrap();
    assert!(screens.wait_until_live("no match").await, "{:?}", screens.live());
}

#[tokio::test]
async fn a_command_defined_in_a_file_takes_arguments_and_is_in_the_menu() {
    let world = World::new([Turn::text("Fixed.")]);
    let mut screens = world.screens(Mode::Ask);
    assert!(screens.wait_idle().await);
    screens.type_text("/fi").await;
    assert!(screens.wait_until_live("/fix").await && screens.text().contains("fix an issue"), "{:?}", screens.live());
    screens.press("tab").await.unwrap();
    screens.type_text("'42 and \"7\"' soon").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Fixed.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(world.told().contains("Fix issue 42 and \"7\" now."), "{}", world.told());
    say(&mut screens, "/blank").await;
    assert!(screens.wait_for("/blank has no text in its file").await, "{}", screens.text());
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn the_conversation_is_exported_in_three_formats_with_text_escaped() {
    let world = World::new([Turn::text("<script>alert(1)</script> & `code`")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "say it").await;
    assert!(screens.wait_for("alert(1)").await && screens.wait_idle().await);
    for (args, file) in [("html", "conversation.html"), ("out/talk.json", "out/talk.json"), ("", "conversation.md")] {
        say(&mut screens, &format!("/export {args}")).await;
        assert!(screens.wait_for(&format!("the conversation was written to {file}")).await, "{}", screens.text());
    }
    let html = world.read("conversation.html");
    assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp;") && !html.contains("<script>"), "{html}");
    let json: serde_json::Value = serde_json::from_str(&world.read("out/talk.json")).unwrap();
    assert_eq!(json["items"][0], json!({"type": "user", "text": "say it"}));
    assert!(world.read("conversation.md").contains("## You\n\nsay it"));
}

#[tokio::test]
async fn exported_arguments_are_code_whatever_backticks_they_contain() {
    let world = World::new([Turn::call("ls", json!({"path": "/`a` ``b``"})), Turn::text("Listed.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "list it").await;
    assert!(screens.wait_for("Listed.").await && screens.wait_idle().await);
    say(&mut screens, "/export").await;
    assert!(screens.wait_for("was written to conversation.md").await, "{}", screens.text());
    let exported = world.read("conversation.md");
    assert!(exported.contains(r#"**ls** ```{"path":"/`a` ``b``"}```"#), "{exported}");
}

#[tokio::test]
async fn information_pages_and_option_menus_are_shown() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    for (command, page) in [("/config", "the page Config"), ("/doctor", "the page Doctor"), ("/bug", "the page Bug")] {
        say(&mut screens, command).await;
        assert!(screens.wait_for(page).await, "{}", screens.text());
    }
    say(&mut screens, "/permissions").await;
    assert!(screens.wait_for("nothing was allowed").await, "{}", screens.text());
    say(&mut screens, "/effort high").await;
    assert!(screens.wait_for("this provider cannot be told").await, "{}", screens.text());
    say(&mut screens, "/effort").await;
    assert!(screens.live().join("\n").contains("How much the model thinks"), "{:?}", screens.live());
    screens.press("down enter").await.unwrap();
    assert!(screens.wait_for("effort: low").await, "{}", screens.text());
    say(&mut screens, "/theme").await;
    screens.type_text("light").await;
    screens.press("enter").await.unwrap();
    say(&mut screens, "/theme").await;
    assert!(screens.live().join("\n").contains("light  for light backgrounds · in use"), "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    say(&mut screens, "/plan").await;
    assert!(screens.live().join("\n").contains("plan ·"), "{:?}", screens.live());
}

#[tokio::test]
async fn the_mode_stays_visible_beside_notices_and_notices_expire() {
    let world = World::new([Turn::text("Copied from here.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("Copied from here.").await && screens.wait_idle().await);
    say(&mut screens, "/copy").await;
    assert!(screens.live().join("\n").contains("auto · "), "{:?}", screens.live());
    screens.press("ctrl-o").await.unwrap();
    assert!(screens.live().join("\n").contains("auto · "), "{:?}", screens.live());
    screens.press("ctrl-o ctrl-c").await.unwrap();
    assert!(screens.live().join("\n").contains("auto · press Ctrl+C again to quit"), "{:?}", screens.live());
    screens.pass(std::time::Duration::from_secs(3));
    let live = screens.live().join("\n");
    assert!(live.contains("auto · scripted") && !live.contains("again to quit"), "{live}");
}

#[tokio::test]
async fn a_model_chosen_while_the_agent_works_is_used_from_the_next_turn() {
    let gate = json!({"command": "while [ ! -e go ]; do sleep 0.01; done"});
    let world = World::new([Turn::call("execute", gate), Turn::text("First."), Turn::text("Second.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_for("◌ execute").await, "{}", screens.text());
    say(&mut screens, "/model other").await;
    assert!(screens.text().contains("model: other, after this turn"), "{}", screens.text());
    screens.type_text("and then").await;
    screens.press("tab").await.unwrap();
    assert!(world.named.lock().unwrap().is_empty());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Second.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!(*world.named.lock().unwrap(), ["other"]);
    let text = screens.text();
    let [first, model, then] = ["First.", "model: other\n", "› and then"].map(|words| text.find(words).unwrap());
    assert!(first < model && model < then && screens.live().join("\n").contains("auto · other"), "{text}");
}

#[tokio::test]
async fn a_model_chosen_before_the_first_agent_is_ready_is_used() {
    let mut world = World::new([Turn::text("Hello.")]);
    let gate = Arc::new(Notify::new());
    world.gate = Some(gate.clone());
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "/model other").await;
    assert!(screens.wait_until_live("auto · other").await, "{}", screens.text());
    gate.notify_one();
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("Hello.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.live().join("\n").contains("auto · other"), "{:?}", screens.live());
    assert_eq!(*world.named.lock().unwrap(), ["other"]);
}

#[cfg(unix)]
#[tokio::test]
async fn the_conversation_is_exported_only_to_a_new_file_in_the_directory() {
    let world = World::new([Turn::text("One.")]);
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(outside.path(), world.dir.path().join("link")).unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("One.").await && screens.wait_idle().await);
    for (file, told) in [
        ("link/x.md", "`link/x.md` is outside this directory"),
        ("link/deep/x.md", "`link/deep/x.md` is outside this directory"),
        ("~/home.md", "`~` does not mean the home directory"),
        ("notes.txt", "notes.txt already exists and was not changed"),
        ("a/talk.md", "the conversation was written to a/talk.md"),
    ] {
        say(&mut screens, &format!("/export {file}")).await;
        assert!(screens.wait_for(told).await, "{file}: {}", screens.text());
    }
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(world.read("notes.txt").contains("alpha") && !world.has("~"));
    // A file exported earlier is replaced, without following a link at its path.
    std::fs::remove_file(world.dir.path().join("a/talk.md")).unwrap();
    std::os::unix::fs::symlink(outside.path().join("y.md"), world.dir.path().join("a/talk.md")).unwrap();
    say(&mut screens, "/clear").await;
    say(&mut screens, "/export a/talk.md").await;
    assert!(screens.wait_for("the conversation was written to a/talk.md").await, "{}", screens.text());
    assert!(!outside.path().join("y.md").exists());
}

#[tokio::test]
async fn characters_at_read_boundaries_stay_intact() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    // Two bytes per character, starting at an odd offset.
    let text = format!("x{}", "é".repeat(20_000));
    std::fs::write(world.dir.path().join("long.txt"), &text).unwrap();
    say(&mut screens, "!cat long.txt").await;
    assert!(screens.wait_idle().await);
    screens.press("ctrl-o").await.unwrap();
    let mut seen = screens.live().join("\n");
    for _ in 0..40 {
        screens.press("pgup").await.unwrap();
        seen += &screens.live().join("\n");
    }
    assert!(seen.contains('é') && !seen.contains('\u{fffd}'), "{seen}");
    screens.press("esc").await.unwrap();
    say(&mut screens, "!printf 'half \\303'").await;
    assert!(screens.wait_for("half \u{fffd}").await, "{}", screens.text());
}

#[tokio::test]
async fn a_new_thread_starts_at_once_while_a_user_command_runs() {
    let world = World::new([Turn::text("PELICAN it is."), Turn::text("None.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "the word is PELICAN").await;
    assert!(screens.wait_for("PELICAN it is.").await && screens.wait_idle().await);
    say(&mut screens, "!sleep 600").await;
    say(&mut screens, "/clear").await;
    assert!(screens.wait_idle().await, "{}", screens.text());
    assert!(screens.thread().is_none());
    say(&mut screens, "which word?").await;
    assert!(screens.wait_for("None.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(!world.told().contains("PELICAN") && screens.thread().is_some());
}

#[tokio::test]
async fn a_message_waiting_for_a_command_is_sent_after_it_or_returned_if_stopped() {
    let world = World::new([Turn::text("Sent.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "!sleep 600").await;
    say(&mut screens, "not yet").await;
    assert!(screens.text().contains("waiting: not yet"), "{}", screens.text());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_until_live("› not yet").await, "{}", screens.text());
    assert!(!screens.live().join("\n").contains("waiting:") && world.model.requests().is_empty());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "!while [ ! -e go ]; do sleep 0.01; done").await;
    say(&mut screens, "now").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Sent.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(world.told().contains("now"), "{}", world.told());
}

#[tokio::test]
async fn a_command_ends_when_its_shell_does() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    // Ends with the directory.
    say(&mut screens, "!(while [ -e notes.txt ]; do sleep 0.01; done) & echo started").await;
    assert!(screens.wait_idle().await && screens.wait_for("started").await, "{}", screens.text());
    assert!(screens.text().contains("processes that it started are still running"), "{}", screens.text());
}

#[test]
fn processes_started_by_a_command_end_with_the_program() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let world = World::new([]);
    let pid = runtime.block_on(async {
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, "!sleep 600 & echo pid:$!:; wait").await;
        assert!(screens.wait_for(":\n").await, "{}", screens.text());
        let text = screens.text();
        let pid = text.rsplit("pid:").find_map(|rest| rest.split(':').next()?.parse::<u32>().ok());
        pid.unwrap_or_else(|| panic!("{text}"))
    });
    drop(runtime);
    // A zombie has ended too.
    let runs = || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    let began = std::time::Instant::now();
    while runs() && began.elapsed() < TIMEOUT {
        std::thread::yield_now();
    }
    assert!(!runs());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn user_commands_have_no_terminal() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "!cut -d' ' -f6 /proc/self/stat; cut -d' ' -f6 /proc/$$/stat; echo shell:$$:").await;
    assert!(screens.wait_idle().await && screens.wait_for("shell:").await, "{}", screens.text());
    let text = screens.text();
    // The shell leads its own session.
    let shell = text.rsplit("shell:").find_map(|rest| rest.split(':').next()?.parse::<u32>().ok()).unwrap();
    assert_eq!(text.lines().filter(|line| line.trim() == shell.to_string()).count(), 2, "{text}");
}

#[tokio::test]
async fn git_ignored_files_are_not_suggested() {
    let world = World::new([]);
    let dir = world.dir.path();
    std::fs::create_dir_all(dir.join("out")).unwrap();
    std::fs::write(dir.join("out/zzindex.html"), "").unwrap();
    std::fs::write(dir.join("zzindex.md"), "").unwrap();
    std::fs::write(dir.join("x!y.txt"), "").unwrap();
    std::fs::write(dir.join(".gitignore"), "out/\n").unwrap();
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("@zzind").await;
    assert!(screens.wait_until_live("@zzindex.md").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("zzindex.html"), "{:?}", screens.live());
    screens.press("ctrl-c").await.unwrap();
    // No character of a name has a special meaning.
    screens.type_text("@!y").await;
    assert!(screens.wait_until_live("@x!y.txt").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("main.py"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_file_name_with_spaces_is_completed_in_quotes() {
    let world = World::new([Turn::text("Read.")]);
    std::fs::create_dir(world.dir.path().join("my docs")).unwrap();
    std::fs::write(world.dir.path().join("my docs/read me.txt"), "").unwrap();
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("see @\"my docs/rea").await;
    assert!(screens.wait_until_live("@\"my docs/read me.txt\"").await, "{:?}", screens.live());
    screens.press("tab").await.unwrap();
    screens.type_text(" now").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Read.").await, "{}", screens.text());
    assert!(world.told().contains("see @\"my docs/read me.txt\" now"), "{}", world.told());
}

#[tokio::test]
async fn a_user_command_runs_beside_the_agent_and_is_stopped_separately() {
    let wait = Turn::call("execute", json!({"command": "while [ ! -e go ]; do sleep 0.02; done; echo seen"}));
    let world = World::new([wait, Turn::text("Waited."), Turn::text("Heard.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for go").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    say(&mut screens, "!echo bes''ide").await;
    assert!(screens.wait_for("beside").await, "{}", screens.text());
    say(&mut screens, "!while [ ! -e never ]; do sleep 0.02; done").await;
    assert!(screens.wait_until_live("$ while").await, "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("stopped").await, "{}", screens.text());
    assert!(!screens.text().contains("interrupted"), "{}", screens.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Waited.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "and now").await;
    assert!(screens.wait_for("Heard.").await, "{}", screens.text());
    let told = world.told();
    assert!(told.contains("The person ran `echo bes''ide`") && told.contains("it was stopped"), "{told}");
}

#[tokio::test]
async fn a_multi_line_command_runs_with_all_its_lines() {
    let world = World::new([Turn::text("Fixed."), Turn::text("Planned."), Turn::text("Read."), Turn::text("Seen.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/status").await;
    assert!(screens.wait_for("model      scripted").await, "{}", screens.text());
    for (typed, shown) in [
        ("/modle x\ny", "did you mean /model?"),
        ("/skill:haiku rain\nsnow", "there is no skill `haiku`"),
        ("/export a\nb.md", "the name of a file is one line"),
    ] {
        screens.event(crossterm_paste(typed)).await;
        screens.press("enter").await.unwrap();
        assert!(screens.wait_for(shown).await, "{typed}: {}", screens.text());
    }
    assert!(world.model.requests().is_empty());
    for (typed, answer, told) in [
        ("/fix 12\nmore of it", "Fixed.", "Fix issue 12 now."),
        ("/plan do\nthis", "Planned.", "do\nthis"),
        // An invalid name, a path, and text after a command without arguments are messages.
        ("/* one\n   two */", "Read.", "/* one\n   two */"),
        ("/clear\nthe table", "Seen.", "/clear\nthe table"),
    ] {
        screens.event(crossterm_paste(typed)).await;
        screens.press("enter").await.unwrap();
        assert!(screens.wait_for(answer).await && screens.wait_idle().await, "{typed}: {}", screens.text());
        let requests = world.model.requests();
        let last = requests.last().unwrap().messages.iter().next_back().unwrap().text();
        assert!(last.contains(told) && !last.starts_with("/plan"), "{typed}: {last}");
    }
}

#[tokio::test]
async fn a_rewind_of_many_files_can_be_read_in_full_with_kept_files_first() {
    let write = |at: usize| ("write_file", json!({"file_path": format!("/f{at:02}.txt"), "content": "x\nx\nx\n"}));
    let world = World::new([Turn::calls((0..30).map(write)), Turn::text("Wrote.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "many").await;
    assert!(screens.wait_for("Wrote.").await && screens.wait_idle().await, "{}", screens.text());
    std::fs::write(world.dir.path().join("f29.txt"), "mine\n").unwrap();
    say(&mut screens, "/rewind").await;
    assert!(screens.wait_for("Go back to before").await, "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("/f29.txt: kept, since someone else").await, "{:?}", screens.live());
    screens.resize(24, 8).await;
    assert!(screens.live().join("\n").contains("/f29.txt: k"), "{:?}", screens.live());
    screens.resize(80, 24).await;
    screens.press("ctrl-o end").await.unwrap();
    assert!(screens.live().join("\n").contains("/f28.txt: removed"), "{:?}", screens.live());
    screens.press("ctrl-o").await.unwrap();
    assert!(screens.live().join("\n").contains("Enter goes back"), "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("went back").await, "{}", screens.text());
    assert!(!world.has("f00.txt") && world.read("f29.txt") == "mine\n");
}
