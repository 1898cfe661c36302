//! Approvals.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents_tui::{Begin, Headless, Mode};
use serde_json::{Value, json};

use crate::world::{TIMEOUT, World, say};

fn command(text: &str) -> Turn {
    Turn::call("execute", json!({"command": text}))
}

fn commands(texts: &[&str]) -> Turn {
    Turn::calls(texts.iter().map(|text| ("execute", json!({"command": text}))).collect::<Vec<(&str, Value)>>())
}

#[tokio::test]
async fn a_command_is_shown_in_full_and_runs_only_after_a_yes() {
    let world = World::new([command("touch yes.txt && echo said"), Turn::text("It is done.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    assert!(screens.wait_for("touch yes.txt && echo said").await, "{}", screens.text());
    assert!(screens.wait_for("y yes").await && !world.has("yes.txt"));
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("It is done.").await, "{}", screens.text());
    assert!(world.has("yes.txt") && world.told().contains("said"));
}

#[tokio::test]
async fn a_rejection_reason_is_passed_to_the_model() {
    let world = World::new([command("rm -r src"), Turn::text("I keep it.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "tidy up").await;
    assert!(screens.wait_for("rm -r src").await);
    screens.press("f").await.unwrap();
    screens.type_text("keep the sources").await;
    assert!(screens.text().contains("keep the sources"), "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("I keep it.").await);
    assert!(world.has("src") && world.told().contains("keep the sources"));
}

#[tokio::test]
async fn an_edited_command_runs_instead_of_the_models() {
    let world = World::new([command("touch draft.txt"), Turn::text("Touched.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "touch it").await;
    assert!(screens.wait_for("touch draft.txt").await);
    screens.press("e").await.unwrap();
    screens.type_text(" final.txt").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Touched.").await, "{}", screens.text());
    assert!(world.has("final.txt"));
}

#[tokio::test]
async fn always_covers_only_simple_calls_of_the_program() {
    let world = World::new([
        command("touch a.txt"),
        command("touch b.txt"),
        command("touch c.txt; rm notes.txt"),
        Turn::text("End."),
    ]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_for("touch a.txt").await);
    assert!(screens.text().contains("simple `touch …` commands"), "{}", screens.text());
    screens.press("a").await.unwrap();
    assert!(screens.wait_for("touch c.txt; rm notes.txt").await, "{}", screens.text());
    assert!(world.has("b.txt") && !world.has("c.txt"));
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("End.").await);
    assert!(world.has("notes.txt"));
}

#[tokio::test]
async fn several_calls_can_be_decided_together_once_all_are_shown() {
    for (key, done) in [("y", true), ("n", false)] {
        let turns = [commands(&["touch a", "touch b && touch c", "touch d"]), Turn::text("All decided.")];
        let world = World::new(turns);
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, "three").await;
        assert!(screens.wait_for("(1 of 3)").await, "{}", screens.text());
        screens.press("n").await.unwrap();
        assert!(screens.wait_for("(2 of 3)").await && screens.text().contains("t all together"), "{}", screens.text());
        screens.press("t").await.unwrap();
        let shown = screens.live().join("\n");
        assert!(shown.contains("touch b && touch c") && shown.contains("touch d"), "{shown}");
        assert!(!shown.contains("touch a") && shown.contains("All 2 of them?"), "{shown}");
        screens.press("esc t").await.unwrap();
        screens.press(key).await.unwrap();
        assert!(screens.wait_for("All decided.").await, "{}", screens.text());
        assert!(!world.has("a"));
        assert!(["b", "c", "d"].iter().all(|file| world.has(file) == done), "{key}");
    }
}

#[tokio::test]
async fn several_calls_can_be_decided_one_by_one() {
    let world = World::new([commands(&["touch a", "touch b", "touch c"]), Turn::text("All decided.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "three").await;
    assert!(screens.wait_for("(1 of 3)").await, "{}", screens.text());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("(2 of 3)").await, "{}", screens.text());
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("(3 of 3)").await);
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("All decided.").await, "{}", screens.text());
    assert_eq!([world.has("a"), world.has("b"), world.has("c")], [true, false, true]);
}

#[tokio::test]
async fn an_edit_question_shows_the_surrounding_lines() {
    let read = Turn::call("read_file", json!({"file_path": "/notes.txt"}));
    let edit = Turn::call("edit_file", json!({"file_path": "/notes.txt", "old_string": "beta", "new_string": "delta"}));
    let world = World::new([read, edit, Turn::text("Edited.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "edit").await;
    assert!(screens.wait_for("Change /notes.txt?").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("2 - beta") && text.contains("2 + delta") && text.contains("3   gamma"), "{text}");
    assert!(world.read("notes.txt").contains("beta"));
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Edited.").await);
    assert!(world.read("notes.txt").contains("delta"));
}

#[tokio::test]
async fn a_long_new_file_can_be_read_before_deciding() {
    let text: String = (1..=120).map(|n| format!("line {n} of it\n")).collect();
    let world =
        World::new([Turn::call("write_file", json!({"file_path": "/long.txt", "content": text})), Turn::text("Ok.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write").await;
    assert!(screens.wait_for("more lines of 121").await, "{}", screens.text());
    assert!(screens.text().contains("y yes"), "{}", screens.text());
    screens.press("ctrl-o").await.unwrap();
    let mut seen = screens.live().join("\n");
    for _ in 0..8 {
        screens.press("pgdn").await.unwrap();
        seen += &screens.live().join("\n");
    }
    assert!((1..=120).all(|n| seen.contains(&format!("line {n} of it"))), "{seen}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Ok.").await, "{}", screens.text());
    assert!(world.has("long.txt"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_typed_before_a_question_appears_do_not_answer_it() {
    let mut world = World::new([]);
    world.model = ScriptedModel::new([world.once("go", command("touch typed.txt")), Turn::text("Fine.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    // The question appears while this is typed, so none of it counts as an answer.
    screens.type_text("yes yes y").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    let began = std::time::Instant::now();
    while !screens.text().contains("touch typed.txt") {
        assert!(began.elapsed() < TIMEOUT, "{}", screens.text());
        screens.type_text("y").await;
        tokio::task::yield_now().await;
    }
    screens.type_text("y").await;
    assert!(!world.has("typed.txt") && screens.text().contains("yes yes yy"), "{}", screens.text());
}

#[tokio::test]
async fn a_message_typed_at_a_question_decides_nothing() {
    for message in ["wait, please stop", "stop please", "why", "please wait"] {
        let world = World::new([command("touch typed.txt"), Turn::text("Fine.")]);
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, "run").await;
        assert!(screens.wait_for("y yes").await, "{}", screens.text());
        screens.type_text(message).await;
        let live = screens.live().join("\n");
        assert!(live.contains(&format!("› {message}")) && live.contains("y yes"), "{message}: {live}");
        assert!(!world.has("typed.txt") && world.remembered.lock().unwrap().is_empty());
        // With an empty input, single letters answer the question.
        screens.press("ctrl-c n").await.unwrap();
        assert!(screens.wait_for("Fine.").await, "{message}: {}", screens.text());
        assert!(!world.has("typed.txt") && world.model.requests().len() == 2);
    }
}

#[tokio::test]
async fn a_slash_command_can_be_run_while_a_question_is_open() {
    let world = World::new([command("touch typed.txt"), Turn::text("Fine.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    say(&mut screens, "/clear").await;
    assert!(screens.wait_idle().await && screens.thread().is_none(), "{}", screens.text());
    assert!(!world.has("typed.txt") && world.model.requests().len() == 1);
}

#[tokio::test]
async fn text_left_in_the_input_does_not_stop_single_keys_from_answering() {
    let world =
        World::new([command("while [ ! -e go ]; do sleep 0.01; done"), command("touch b.txt"), Turn::text("Fine.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    screens.press("y").await.unwrap();
    screens.type_text("and then").await;
    screens.pass(std::time::Duration::from_secs(1));
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_until_live("touch b.txt").await, "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Fine.").await, "{}", screens.text());
    assert!(world.has("b.txt") && screens.live().join("\n").contains("› and then"), "{:?}", screens.live());
}

#[tokio::test]
async fn an_open_question_is_asked_again_after_a_restart() {
    let world = World::new([command("touch later.txt"), Turn::text("Done now.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("touch later.txt").await);
    assert!(screens.wait_for("y yes").await);
    let thread = screens.thread().unwrap();
    // The run has ended with the interrupt before the program exits.
    world.until_asked(&thread).await;
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Resume(thread));
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("$ touch later.txt") && !text.contains("execute touch later.txt"), "{text}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Done now.").await, "{}", screens.text());
    assert!(world.has("later.txt"));
}

#[tokio::test]
async fn plan_mode_changes_nothing_and_auto_mode_asks_nothing() {
    let write = |name: &str| Turn::call("write_file", json!({"file_path": format!("/{name}"), "content": "x\n"}));
    let world = World::new([write("planned.txt"), Turn::text("I could not."), write("auto.txt"), Turn::text("Wrote.")]);
    let mut screens = world.screens(Mode::Plan);
    say(&mut screens, "write").await;
    assert!(screens.wait_for("I could not.").await, "{}", screens.text());
    assert!(screens.wait_idle().await && !world.has("planned.txt"));
    let first = &world.model.requests()[0];
    assert!(first.tools.iter().all(|tool| tool.name != "execute" && tool.name != "write_file"));
    screens.press("shift-tab shift-tab").await.unwrap();
    assert!(screens.text().contains("auto ·"), "{}", screens.text());
    say(&mut screens, "write").await;
    assert!(screens.wait_for("Wrote.").await);
    assert!(world.has("auto.txt"));
}

#[tokio::test]
async fn plan_mode_also_binds_sub_agents() {
    let delegate = Turn::call("task", json!({"description": "write it", "subagent_type": "general-purpose"}));
    let write = Turn::call("write_file", json!({"file_path": "/below.txt", "content": "x\n"}));
    let run = command("touch run.txt");
    let world = World::new([delegate, write, run, Turn::text("Nothing is allowed."), Turn::text("So be it.")]);
    let mut screens = world.screens(Mode::Plan);
    say(&mut screens, "delegate").await;
    assert!(screens.wait_for("So be it.").await, "{}", screens.text());
    assert!(!world.has("below.txt") && !world.has("run.txt"));
}

#[cfg(unix)]
#[tokio::test]
async fn a_question_shows_link_targets_the_asking_rule_and_hidden_characters() {
    let write = Turn::call("write_file", json!({"file_path": "/link.txt", "content": "a\u{2800}b\n"}));
    let world = World::new([write, Turn::text("Ok.")]);
    std::os::unix::fs::symlink("src/main.py", world.dir.path().join("link.txt")).unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write").await;
    assert!(screens.wait_for("the path leads to /src/main.py").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("asked by the mode ask") && text.contains("a<U+2800>b"), "{text}");
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("Ok.").await);
    assert!(world.read("src/main.py").contains("hello"));
}

#[tokio::test]
async fn a_command_in_a_shared_shell_is_asked_about_every_time() {
    let mut world = World::new([command("touch a.txt"), Turn::text("Fine.")]);
    world.shares_shell = true;
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    let live = screens.live().join(" ");
    assert!(!live.contains("always"), "{live}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Fine.").await && world.has("a.txt"), "{}", screens.text());
}

#[tokio::test]
async fn always_in_this_directory_is_as_narrow_as_the_call_and_persists() {
    let run = |command: &str| Turn::call("execute", json!({"command": command}));
    let world = World::new([
        run("echo one >> log.txt"),
        run("touch  'a.txt'"),
        run("touch b.txt"),
        Turn::text("First done."),
        run("touch a.txt"),
        run("touch a.txt && touch c.txt"),
        Turn::text("Second done."),
    ]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_until_live("log.txt").await, "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_until_live("touch  'a.txt'").await, "{:?}", screens.live());
    let live = screens.live().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(live.contains("p in this directory always only `touch a.txt`"), "{live}");
    screens.press("p").await.unwrap();
    let live = screens.live().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(live.contains("execute `touch a.txt` and no other command") && live.contains("y keep the rule"), "{live}");
    assert!(world.remembered.lock().unwrap().is_empty() && !world.has("a.txt"));
    screens.press("n p y").await.unwrap();
    assert!(screens.wait_until_live("touch b.txt").await, "another argument is asked about: {:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("First done.").await, "{}", screens.text());
    drop(screens);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "again").await;
    assert!(screens.wait_until_live("touch a.txt && touch c.txt").await, "{:?}", screens.live());
    assert!(
        screens.text().contains("allowed by the rule of this directory: execute `touch a.txt`"),
        "{}",
        screens.text()
    );
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("Second done.").await, "{}", screens.text());
    assert!(!world.has("c.txt") && world.has("b.txt"));
}

#[tokio::test]
async fn a_sub_agents_question_names_its_task() {
    let task = |what: &str| ("task", json!({"subagent_type": "general-purpose", "description": what}));
    let touch = Turn::call("execute", json!({"command": "touch it.txt"}));
    let world = World::new([
        Turn::calls([task("paint the fence"), task("mow the lawn")]),
        touch.clone(),
        touch,
        Turn::text("Done."),
        Turn::text("Done."),
        Turn::text("All done."),
    ]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "delegate").await;
    assert!(screens.wait_until_live("(1 of 2)").await, "{:?}", screens.live());
    let asked = |screens: &deepagents_tui::Headless| {
        let live = screens.live().join(" ").split_whitespace().collect::<Vec<_>>().join(" ");
        let tasks = ["paint the fence", "mow the lawn"];
        let named = tasks.into_iter().find(|task| live.contains(&format!("asked by general-purpose for “{task}”")));
        named.unwrap_or_else(|| panic!("{live}"))
    };
    let first = asked(&screens);
    let thread = screens.thread().unwrap();
    let mut other = world.begin(Mode::Ask, Begin::Resume(thread));
    assert!(other.wait_until_live("(1 of 2)").await, "{:?}", other.live());
    asked(&other);
    drop(other);
    screens.press("y").await.unwrap();
    assert!(screens.wait_until_live("(2 of 2)").await, "{:?}", screens.live());
    assert_ne!(asked(&screens), first);
}

#[tokio::test]
async fn a_small_screen_shows_the_command_and_its_keys() {
    let long = "touch small.txt && echo and a good many more words than a small screen has room for";
    let write = json!({"file_path": "/small.md", "content": "one\ntwo\n"});
    let world = World::new([command(long), Turn::call("write_file", write), Turn::text("Fine.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    for (columns, rows) in [(80, 24), (40, 8), (20, 8), (20, 5)] {
        screens.resize(columns, rows).await;
        let live = screens.live().join("\n");
        assert!(live.contains("$ touch"), "{columns}x{rows}: {live}");
        assert!(live.contains('y') && live.contains("Esc"), "{columns}x{rows}: {live}");
        let is_whole = live.contains(" for\n");
        assert!(is_whole || (live.contains("line") && live.contains("Ctrl+O")), "{columns}x{rows}: {live}");
        assert_eq!(is_whole, columns > 20, "{columns}x{rows}: {live}");
    }
    // Typed text does not hide the keys either.
    screens.resize(40, 10).await;
    screens.event(crossterm::event::Event::Paste("a\nb\nc\nd\ne\nf".to_owned())).await;
    assert!(screens.live().join("\n").contains("Ctrl+O"), "{:?}", screens.live());
    screens.press("ctrl-c").await.unwrap();
    screens.resize(20, 5).await;
    screens.press("y").await.unwrap();
    assert!(screens.wait_until_live("? /s…l.md? … 2 lines").await, "{:?}", screens.live());
    assert!(world.has("small.txt"), "{:?}", screens.live());
    // The first keys show all of it.
    screens.press("y").await.unwrap();
    assert!(screens.live().join("\n").contains("? write_file"), "{:?}", screens.live());
    for _ in 0..50 {
        if !screens.live().join("\n").contains("? write_file") {
            break;
        }
        assert!(!world.has("small.md"));
        screens.press("y").await.unwrap();
    }
    assert!(screens.wait_idle().await && world.has("small.md"));
}

#[tokio::test]
async fn a_question_behind_another_view_is_announced_and_not_answered_there() {
    let gate = "echo shown-while-it-runs; while [ ! -e go ]; do sleep 0.01; done";
    for cover in ["ctrl-o", "/threads"] {
        let world = World::new([command(gate), command("touch behind.txt"), Turn::text("Fine.")]);
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, "run").await;
        assert!(screens.wait_for("y yes").await, "{}", screens.text());
        screens.press("y").await.unwrap();
        assert!(screens.wait_until_live("◌ execute").await, "{:?}", screens.live());
        if cover == "ctrl-o" {
            screens.press(cover).await.unwrap();
            assert!(screens.wait_until_live("shown-while-it-runs").await, "{:?}", screens.live());
        } else {
            say(&mut screens, cover).await;
            assert!(screens.wait_until_live("Threads of this directory").await, "{:?}", screens.live());
        }
        std::fs::write(world.dir.path().join("go"), "").unwrap();
        assert!(screens.wait_until_live("execute waits for your decision").await, "{:?}", screens.live());
        screens.press("y esc").await.unwrap();
        assert!(!world.has("behind.txt") && screens.live().join("\n").contains("y yes"), "{:?}", screens.live());
        screens.press("y").await.unwrap();
        assert!(screens.wait_for("Fine.").await, "{}", screens.text());
        assert!(world.has("behind.txt"));
    }
}

#[tokio::test]
async fn decisions_made_before_leaving_the_questions_go_with_the_next_message() {
    let write = |file: &str| ("write_file", json!({"file_path": file, "content": "text"}));
    let world = World::new([Turn::calls([write("/a.txt"), write("/b.txt"), write("/c.txt")]), Turn::text("I see.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write them").await;
    assert!(screens.wait_for("Write the new file /a.txt?").await, "{}", screens.text());
    screens.press("f").await.unwrap();
    screens.type_text("use REASON instead").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Write the new file /b.txt?").await, "{}", screens.text());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Write the new file /c.txt?").await, "{}", screens.text());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("your other decisions are sent with it").await, "{}", screens.text());
    say(&mut screens, "something else").await;
    assert!(screens.wait_for("I see.").await, "{}", screens.text());
    let told = world.told();
    assert!(told.contains("User rejected the call of write_file: use REASON instead."), "{told}");
    assert!(told.contains("User approved the call of write_file, and stopped"), "{told}");
    assert_eq!(told.matches("was never made: the conversation went on").count(), 1, "{told}");
    assert!(!world.has("b.txt"));
}

#[tokio::test]
async fn a_long_line_near_a_change_takes_one_row_and_can_be_read_in_full() {
    let edit = Turn::call("edit_file", json!({"file_path": "/long.txt", "old_string": "keep", "new_string": "kept"}));
    let last = Turn::call("write_file", json!({"file_path": "/notes.txt", "content": "alpha\nbeta\ngamma"}));
    let world = World::new([edit, last, Turn::text("Over.")]);
    std::fs::write(world.dir.path().join("long.txt"), format!("{}END\nkeep\n", "x".repeat(3000))).unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "edit").await;
    assert!(screens.wait_for("Change /long.txt?").await, "{}", screens.text());
    let live = screens.live().join("\n");
    assert!(live.contains("2 - keep") && live.contains("2 + kept") && !live.contains("END"), "{live}");
    screens.press("ctrl-o end").await.unwrap();
    assert!(screens.live().join("\n").contains("xEND"), "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Overwrite /notes.txt?").await, "{}", screens.text());
    let live = screens.live().join("\n");
    assert!(live.contains("3 - gamma") && live.contains("3 + gamma"), "{live}");
    assert_eq!(live.matches("no newline at the end").count(), 1, "{live}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Over.").await && screens.wait_idle().await, "{}", screens.text());
}

#[tokio::test]
async fn decisions_made_before_a_kill_are_not_asked_again() {
    let world = World::new([commands(&["touch a", "touch b", "touch c"]), Turn::text("All decided.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "three").await;
    assert!(screens.wait_for("(1 of 3)").await, "{}", screens.text());
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("(2 of 3)").await, "{}", screens.text());
    let thread = screens.thread().unwrap();
    world.until_noted(&thread, "waiting_decisions").await;
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_for("you already decided: no: execute touch a").await, "{}", screens.text());
    assert!(screens.wait_until_live("(2 of 3)").await, "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_until_live("(3 of 3)").await, "{:?}", screens.live());
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("All decided.").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!([world.has("a"), world.has("b"), world.has("c")], [false, true, false]);
    world.until_not_noted(&thread, "waiting_decisions").await;
}

#[tokio::test]
async fn what_is_written_at_a_question_is_in_sight_on_the_smallest_screens() {
    let calls = vec![
        ("write_file", json!({"file_path": "/long.txt", "content": "line\n".repeat(50)})),
        ("execute", json!({"command": format!("echo {}", "x".repeat(100))})),
    ];
    let world = World::new([Turn::calls(calls), Turn::text("Decided.")]);
    let mut screens = world.screens(Mode::Ask);
    screens.resize(20, 5).await;
    say(&mut screens, "go").await;
    assert!(screens.wait_until_live("Ctrl+O").await, "{:?}", screens.live());
    screens.press("f").await.unwrap();
    screens.type_text("since it is wrong, so very wrong in all ways X").await;
    let seen = |screens: &Headless| {
        let (_, y) = screens.cursor().unwrap();
        screens.live()[usize::from(y)].clone()
    };
    assert!(seen(&screens).contains('X'), "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("echo").await, "{:?}", screens.live());
    screens.press("e").await.unwrap();
    for _ in 0..50 {
        if !screens.live().join("\n").contains("? execute") {
            break;
        }
        screens.press("e").await.unwrap();
    }
    screens.type_text(" Q").await;
    assert!(seen(&screens).contains('Q'), "{:?}", screens.live());
}
