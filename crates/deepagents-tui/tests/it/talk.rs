//! Sending messages and reading responses.

use std::time::Duration;

use deepagents::channels::TodoStatus;
use deepagents::core::model::ModelEvent;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Block, ModelError, ModelRequest};
use deepagents_tui::{Begin, Mode};
use serde_json::json;

use crate::world::{World, say};

#[tokio::test]
async fn a_message_reaches_the_model_and_its_answer_reaches_the_screen() {
    let world = World::new([Turn::text("The sea is **calm** today.")]);
    let mut screens = world.screens(Mode::Ask);
    assert!(screens.text().contains("/help") && screens.text().contains("scripted"), "{}", screens.text());
    assert_eq!(world.model.requests().len(), 0);
    say(&mut screens, "How is the sea?").await;
    assert!(screens.wait_idle().await);
    let text = screens.text();
    assert!(text.contains("› How is the sea?") && text.contains("The sea is calm today."), "{text}");
    assert!(world.told().contains("How is the sea?"));
}

#[tokio::test]
async fn control_characters_from_a_model_never_reach_the_screen() {
    let evil = "Before \u{1b}]0;OWNED\u{7}\u{1b}[2J\u{9b}31m after.\n\n```\ncode \u{1b}[31m end\rhidden\n```";
    let world = World::new([Turn::text(evil)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "be evil").await;
    assert!(screens.wait_idle().await);
    let text = screens.text();
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
    assert!(text.contains("Before") && text.contains("after.") && text.contains("hidden"), "{text}");
}

#[tokio::test]
async fn a_long_answer_is_printed_in_full_and_once() {
    let words: Vec<String> = (0..10_000).map(|n| format!("w{n}")).collect();
    let long = format!("# Head\n\n{}\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\nEnd.", words.join(" "));
    let world = World::new([Turn::text(long)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "long").await;
    assert!(screens.wait_idle().await);
    let text = screens.text();
    let is_word = |word: &&str| word.strip_prefix('w').is_some_and(|number| number.parse::<u32>().is_ok());
    assert_eq!(text.split_whitespace().filter(is_word).collect::<Vec<_>>(), words);
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| line.starts_with('w')).collect();
    for (line, next) in lines.iter().zip(lines.iter().skip(1)) {
        let first = next.split(' ').next().unwrap();
        assert!(line.len() + 1 + first.len() >= 80, "the line ends early: {line} {next}");
    }
    assert_eq!(text.matches("Head").count(), 1);
    assert!(text.contains("1 │ 2") && text.contains("End."), "{text}");
}

#[tokio::test]
async fn esc_stops_the_answer_and_keeps_what_has_arrived() {
    let turn = Turn::text("Half of it.").delay(Duration::from_secs(600));
    let world = World::new([turn, Turn::text("Still here.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go slowly").await;
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("interrupted").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
}

#[tokio::test]
async fn a_failure_is_reported_and_the_screens_stay_open() {
    let world = World::new([Turn::error(ModelError::Auth("the key was refused (401)".into())), Turn::text("Now.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("401").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    screens.press("up enter").await.unwrap();
    assert!(screens.wait_for("Now.").await, "{}", screens.text());
}

#[tokio::test]
async fn what_arrived_of_an_answer_that_broke_off_stays_and_is_marked() {
    let half = ModelEvent::Text { block: 0, delta: "Half an answer".to_owned() };
    let broken = Turn::raw([Ok(half), Err(ModelError::Auth("the key expired (401)".into()))]);
    let world = World::new([broken, Turn::text("All of it.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("401").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("Half an answer\n… the answer broke off here"), "{text}");
    screens.press("up enter").await.unwrap();
    assert!(screens.wait_for("All of it.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(!world.told().contains("Half an answer"), "{}", world.told());
}

#[tokio::test]
async fn a_reopened_thread_shows_the_whole_conversation() {
    let call = Turn::call("read_file", json!({"file_path": "/notes.txt"}));
    let world = World::new([call, Turn::text("Three words."), Turn::text("Still three.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "how many words").await;
    assert!(screens.wait_for("Three words.").await);
    assert!(screens.wait_idle().await);
    drop(screens);
    let mut screens = world.begin(Mode::Auto, Begin::Continue);
    assert!(screens.wait_for("Three words.").await, "{}", screens.text());
    assert!(screens.text().contains("read_file /notes.txt"), "{}", screens.text());
    say(&mut screens, "and now").await;
    assert!(screens.wait_for("Still three.").await);
    assert!(world.told().contains("how many words"));
}

#[tokio::test]
async fn a_thread_opened_below_earlier_program_output_is_shown_in_full() {
    let world = World::new([Turn::text("Three words."), Turn::text("Four words.")]);
    let mut screens = world.screens(Mode::Auto);
    for (words, answer) in [("how many words", "Three words."), ("and there", "Four words.")] {
        say(&mut screens, words).await;
        assert!(screens.wait_for(answer).await && screens.wait_idle().await);
    }
    let thread = screens.thread().unwrap();
    drop(screens);
    for notes in 0..4 {
        let mut screens = world.screens(Mode::Auto);
        for _ in 0..notes {
            say(&mut screens, "/todos").await;
        }
        say(&mut screens, &format!("/resume {thread}")).await;
        assert!(screens.wait_for("Four words.").await && screens.wait_idle().await, "{notes}: {}", screens.text());
        for words in ["how many words", "Three words.", "and there", "Four words."] {
            assert_eq!(screens.text().matches(words).count(), 1, "{notes} {words}: {}", screens.text());
        }
    }
}

#[tokio::test]
async fn a_command_with_many_lines_or_characters_can_be_read_in_full() {
    let many = "echo first\necho second\n\necho third";
    let long = format!("echo {} end-of-it", "many words ".repeat(40));
    for (command, end) in [(many, "echo third"), (&*long, "end-of-it")] {
        let world = World::new([Turn::call("execute", json!({"command": command})), Turn::text("Done.")]);
        let mut screens = world.screens(Mode::Auto);
        say(&mut screens, "go").await;
        assert!(screens.wait_for("Done.").await && screens.wait_idle().await, "{}", screens.text());
        assert!(screens.text().contains("(Ctrl+O)"), "{}", screens.text());
        screens.press("ctrl-o").await.unwrap();
        assert!(screens.live().join("\n").contains(end), "{:?}", screens.live());
    }
}

#[tokio::test]
async fn calls_are_shown_in_answer_order_whatever_order_they_end_in() {
    let waits = ("execute", json!({"command": "while [ ! -e go ]; do sleep 0.02; done; echo waited"}));
    let touch = |file: &str| ("execute", json!({"command": format!("touch {file}")}));
    let world = World::new([Turn::calls([waits, touch("no.txt"), touch("yes.txt")]), Turn::text("Done.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "work").await;
    for (at, key) in [("(1 of 3)", "y"), ("(2 of 3)", "n"), ("(3 of 3)", "y")] {
        assert!(screens.wait_until_live(at).await, "{at}: {:?}", screens.live());
        screens.press(key).await.unwrap();
    }
    assert!(screens.wait_until_live("● execute touch yes.txt").await, "{:?}", screens.live());
    let live = screens.live().join("\n");
    assert!(live.contains("✗ execute touch no.txt") && live.contains("◌ execute while"), "{live}");
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Done.").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    let at = |words: &str| text.rfind(words).unwrap_or_else(|| panic!("no {words} in {text}"));
    assert!(at("● execute while") < at("✗ execute touch no.txt"), "{text}");
    assert!(at("✗ execute touch no.txt") < at("● execute touch yes.txt"), "{text}");
}

#[tokio::test]
async fn a_long_plan_says_how_much_of_it_is_hidden() {
    let todo = |n: usize| {
        let status = if n < 4 { TodoStatus::Completed } else { TodoStatus::Pending };
        json!({"content": format!("step {n}"), "status": status})
    };
    let plan = json!({"todos": (0..20).map(todo).collect::<Vec<_>>()});
    let waits = Turn::call("execute", json!({"command": "while [ ! -e go ]; do sleep 0.02; done"}));
    let world = World::new([Turn::call("write_todos", plan), waits, Turn::text("Done.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "plan").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    let live = screens.live().join("\n");
    assert!(live.contains("step 4") && live.contains("step 10") && !live.contains("step 11"), "{live}");
    assert!(live.contains("… 13 more: 4 done, 9 open (/todos)"), "{live}");
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Done.").await, "{}", screens.text());
}

#[tokio::test]
async fn a_message_sent_while_tools_run_reaches_the_next_request() {
    let call = Turn::call("execute", json!({"command": "while [ ! -e go ]; do sleep 0.01; done"}));
    let world = World::new([call, Turn::text("Steered.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_for("◌ execute").await, "{}", screens.text());
    say(&mut screens, "change of plan").await;
    assert!(screens.text().contains("waiting: change of plan"), "{}", screens.text());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Steered.").await);
    assert!(screens.wait_idle().await);
    assert_eq!(world.model.requests().len(), 2);
    assert!(world.told().contains("change of plan"));
    assert!(!screens.text().contains("waiting:"), "{}", screens.text());
}

#[tokio::test]
async fn waiting_messages_can_be_taken_back_for_editing() {
    let gate = "while [ ! -e go ]; do sleep 0.01; done";
    let call = Turn::call("execute", json!({"command": gate}));
    let world = World::new([call, Turn::text("Steered."), Turn::text("Never.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_for("◌ execute").await, "{}", screens.text());
    say(&mut screens, "at once").await;
    screens.type_text("and afterwards").await;
    screens.press("tab").await.unwrap();
    assert!(screens.text().contains("waiting: at once") && screens.text().contains("waiting: and afterwards"));
    screens.press("up").await.unwrap();
    assert!(screens.wait_for("› at once").await, "{}", screens.text());
    assert!(!screens.text().contains("waiting:"), "{}", screens.text());
    screens.press("ctrl-c").await.unwrap();
    say(&mut screens, "neither").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Steered.").await && screens.wait_idle().await, "{}", screens.text());
    let told = world.told();
    assert!(told.contains("neither") && !told.contains("at once") && !told.contains("afterwards"), "{told}");
    assert_eq!(world.model.requests().len(), 2);
}

#[tokio::test]
async fn enter_carries_out_a_plan_in_ask_mode_but_not_right_after_typing() {
    let touch = || Turn::call("execute", json!({"command": "touch made.txt"}));
    let turns = [touch(), Turn::text("First this, then that."), Turn::text("Better so."), touch(), Turn::text("Made.")];
    let world = World::new(turns);
    let mut screens = world.screens(Mode::Plan);
    screens.press("enter").await.unwrap();
    assert_eq!(world.model.requests().len(), 0, "there is no plan yet");
    say(&mut screens, "make it").await;
    assert!(screens.wait_for("First this, then that.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(!world.has("made.txt") && screens.text().contains("Enter carries out the plan, asking you"));
    say(&mut screens, "do that first").await;
    assert!(screens.wait_for("Better so.").await && screens.wait_idle().await, "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert_eq!(world.model.requests().len(), 3, "a key right behind the message is none about the plan");
    screens.pass(Duration::from_secs(1));
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("touch made.txt").await && screens.wait_for("y yes").await, "{}", screens.text());
    assert!(!world.has("made.txt") && world.told().contains("Carry out the plan."));
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("Made.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(world.has("made.txt") && !screens.text().contains("carries out the plan"), "{}", screens.text());
}

#[tokio::test]
async fn an_unexecuted_plan_is_offered_again_when_its_thread_is_opened() {
    let world = World::new([
        Turn::call("execute", json!({"command": "touch made.txt"})),
        Turn::text("First this, then that."),
        Turn::text("Made."),
    ]);
    let mut screens = world.screens(Mode::Plan);
    say(&mut screens, "make it").await;
    assert!(screens.wait_for("First this, then that.").await && screens.wait_idle().await, "{}", screens.text());
    let thread = screens.thread().unwrap();
    for begin in [Begin::Continue, Begin::Resume(thread)] {
        let mut screens = world.begin(Mode::Plan, begin);
        assert!(screens.wait_until_live("Enter carries out the plan, asking you").await, "{:?}", screens.live());
    }
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_until_live("Enter carries out the plan, asking you").await, "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Made.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(world.told().contains("Carry out the plan."), "{}", world.told());
    let mut screens = world.begin(Mode::Plan, Begin::Continue);
    assert!(screens.wait_for("Made.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(!screens.text().contains("carries out the plan"), "{}", screens.text());
}

#[tokio::test]
async fn enter_does_not_carry_out_an_answer_that_is_no_plan() {
    let steps = "This is what I would do:\n\n1. Look.\n2. Leap.";
    let world = World::new([Turn::text("Hello to you."), Turn::text(steps), Turn::text("Done so.")]);
    let mut screens = world.screens(Mode::Plan);
    say(&mut screens, "hello").await;
    assert!(screens.wait_for("Hello to you.").await && screens.wait_idle().await, "{}", screens.text());
    screens.pass(Duration::from_secs(1));
    assert!(!screens.text().contains("carries out the plan"), "{}", screens.text());
    screens.press("enter").await.unwrap();
    assert!(world.model.requests().len() == 1 && screens.live().join("\n").contains("plan ·"), "{:?}", screens.live());
    say(&mut screens, "plan it").await;
    assert!(screens.wait_for("2. Leap.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.text().contains("Enter carries out the plan, asking you"), "{}", screens.text());
    screens.pass(Duration::from_secs(1));
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Done so.").await, "{}", screens.text());
}

#[tokio::test]
async fn resizing_shows_the_same_text_again() {
    let world = World::new([Turn::text("A sentence that wraps more than once on a narrow screen.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hi").await;
    assert!(screens.wait_idle().await);
    for (columns, rows) in [(20, 5), (2, 1), (1, 1), (200, 60), (20, 5)] {
        screens.resize(columns, rows).await;
        assert!(screens.live().len() <= usize::from(rows), "{columns}x{rows}: {:?}", screens.live());
    }
    assert!(screens.text().contains("narrow screen."), "{}", screens.text());
}

#[tokio::test]
async fn an_image_named_in_a_message_is_sent_and_described() {
    let world = World::new([Turn::text("A dot."), Turn::text("Words.")]);
    let png = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0];
    std::fs::write(world.dir.path().join("my dot.png"), png).unwrap();
    std::fs::write(world.dir.path().join("fake.png"), "no image").unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "what is in 'my dot.png' and fake.png and gone.png?").await;
    assert!(screens.wait_for("A dot.").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("with the image my dot.png (image/png, 1 kB)"), "{text}");
    assert!(text.contains("fake.png is not sent: it is not a PNG"), "{text}");
    let requests = world.model.requests();
    let media = |message: &deepagents::Message| {
        message.content().iter().filter(|block| matches!(block, deepagents::core::message::Block::Media(_))).count()
    };
    assert_eq!(requests.last().unwrap().messages.iter().map(|message| media(message)).sum::<usize>(), 1);
    drop(screens);
    let mut screens = world.begin(Mode::Ask, deepagents_tui::Begin::Continue);
    assert!(screens.wait_for("with the image my dot.png (image/png, 1 kB)").await, "{}", screens.text());
}

#[tokio::test]
async fn an_image_named_in_a_message_to_a_working_agent_is_sent_and_described_too() {
    let is_image = |block: &Block| matches!(block, Block::Media(_));
    let mut world = World::new([]);
    // The agent works until it gets the image.
    world.model = ScriptedModel::rules()
        .always(Turn::with(move |request| {
            if request.messages.iter().any(|message| message.content().iter().any(is_image)) {
                return Turn::text("A dot.");
            }
            let wait = format!("while [ ! -e go ]; do sleep 0.01; done; sleep 0.1; echo {}", request.messages.len());
            Turn::call("execute", json!({"command": wait}))
        }))
        .build();
    let png = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0];
    std::fs::write(world.dir.path().join("dot.png"), png).unwrap();
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "work").await;
    assert!(screens.wait_for("◌ execute").await, "{}", screens.text());
    say(&mut screens, "then look at dot.png").await;
    say(&mut screens, "and be quick").await;
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("A dot.").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is not in {text}"));
    assert!(at("› then look at dot.png") < at("with the image dot.png (image/png, 1 kB)"), "{text}");
    let last = world.model.requests().pop().unwrap().messages;
    let said = |words: &str| last.iter().position(|message| message.text() == words).unwrap();
    assert!(said("then look at dot.png") < said("and be quick"));
}

#[tokio::test]
async fn a_conversations_sub_agents_expand_into_what_they_said_and_did() {
    let task = json!({"description": "count the notes", "subagent_type": "general-purpose"});
    let world = World::new([
        Turn::call("task", task),
        Turn::call("read_file", json!({"file_path": "/notes.txt"})),
        Turn::text("Three lines, says the scout."),
        Turn::text("It is three."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "/tree").await;
    assert!(screens.wait_for("there were no sub-agents").await, "{}", screens.text());
    say(&mut screens, "how many").await;
    assert!(screens.wait_for("It is three.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/tree").await;
    assert!(screens.wait_until_live("general-purpose: count the notes  done").await, "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("Three lines, says the scout.").await, "{:?}", screens.live());
    let read = screens.live().join("\n");
    assert!(read.contains("alpha") && !read.contains("It is three."), "{read}");
    screens.press("esc").await.unwrap();
    assert!(screens.live().join("\n").contains("auto ·"), "{:?}", screens.live());
}

#[tokio::test]
async fn background_sub_agents_are_in_the_tree_and_expand_too() {
    let task = json!({"description": "count the notes", "subagent_type": "general-purpose"});
    let first = |words: &'static str| {
        move |request: &ModelRequest| request.messages.get(0).is_some_and(|first| first.text().contains(words))
    };
    let mut world = World::new([]);
    world.background = true;
    world.model = ScriptedModel::rules()
        .when(first("count the notes"), [Turn::text("Three lines, says the scout.")])
        .when(
            move |request| request.messages.len() == 1 && first("meanwhile")(request),
            [Turn::call("start_async_task", task)],
        )
        .always(Turn::text("It is under way."))
        .build();
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "look at it meanwhile").await;
    assert!(screens.wait_for("It is under way.").await && screens.wait_idle().await, "{}", screens.text());
    loop {
        say(&mut screens, "/tree").await;
        assert!(screens.wait_until_live("general-purpose: count the notes").await, "{:?}", screens.live());
        if screens.live().join("\n").contains("in the background · done") {
            break;
        }
        screens.press("esc").await.unwrap();
    }
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("Three lines, says the scout.").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("It is under way."), "{:?}", screens.live());
}

#[tokio::test]
async fn redrawing_after_a_resize_fits_the_screen() {
    let long: Vec<String> = (0..60).map(|n| format!("paragraph {n}")).collect();
    let world = World::new([Turn::text(long.join("\n\n"))]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "hi").await;
    assert!(screens.wait_idle().await && screens.text().contains("paragraph 59"), "{}", screens.text());
    for (columns, rows) in [(80_u16, 20_u16), (70, 20), (70, 24)] {
        let printed = |screens: &deepagents_tui::Headless| screens.text().lines().count() - screens.live().len();
        let before = printed(&screens);
        screens.resize(columns, rows).await;
        let new = printed(&screens) - before;
        assert_eq!(new + screens.live().len(), usize::from(rows), "{columns}x{rows}");
        assert!(screens.text().ends_with(&screens.live().join("\n")));
    }
}

#[tokio::test]
async fn unsent_messages_are_back_in_the_input_after_a_kill() {
    let wait = Turn::call("execute", json!({"command": "while [ ! -e go ]; do sleep 0.02; done"}));
    let world = World::new([wait, Turn::text("Done.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "wait for go").await;
    assert!(screens.wait_until_live("execute while").await, "{:?}", screens.live());
    say(&mut screens, "be quick").await;
    screens.type_text("and then rest").await;
    screens.press("tab").await.unwrap();
    let thread = screens.thread().unwrap();
    world.until_noted(&thread, "and then rest").await;
    // Another program finds the thread as a killed one would leave it.
    let mut next = world.begin(Mode::Auto, Begin::Continue);
    assert!(next.wait_for("are back in the input").await, "{}", next.text());
    let live = next.live().join("\n");
    assert!(live.contains("› be quick") && live.contains("and then rest"), "{live}");
    // A command typed now does not become part of them, nor are they lost.
    next.type_text("/tod").await;
    assert!(!next.live().join("\n").contains("be quick"), "{:?}", next.live());
    next.press("backspace backspace backspace backspace").await.unwrap();
    assert!(next.live().join("\n").contains("› be quick"), "{:?}", next.live());
    say(&mut next, "/todos").await;
    assert!(next.text().contains("nothing is planned"), "{}", next.text());
    let live = next.live().join("\n");
    assert!(live.contains("› be quick") && live.contains("and then rest"), "{live}");
    std::fs::write(world.dir.path().join("go"), "").unwrap();
}

#[tokio::test]
async fn a_sub_agents_work_before_and_after_a_restart_is_shown_together() {
    let world = World::new([
        Turn::call("task", json!({"description": "Copy the notes.", "subagent_type": "general-purpose"})),
        Turn::call("read_file", json!({"file_path": "/notes.txt"})),
        Turn::call("write_file", json!({"file_path": "/copy.txt", "content": "alpha"})),
        Turn::text("Copied."),
        Turn::text("All done."),
    ]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "copy it").await;
    assert!(screens.wait_for("Write the new file /copy.txt?").await, "{}", screens.text());
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_for("Write the new file /copy.txt?").await, "{}", screens.text());
    assert!(!screens.text().contains("● general-purpose"), "it is not done: {}", screens.text());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("All done.").await && screens.wait_idle().await, "{}", screens.text());
    for _ in 0..2 {
        screens.press("ctrl-o").await.unwrap();
        let shown = screens.live().join("\n");
        assert!(shown.contains("read_file") && shown.contains("write_file"), "{shown}");
        assert_eq!(shown.matches("Copy the notes.").count(), 1, "{shown}");
        // The same after the run has ended and the thread is reopened.
        screens = world.begin(Mode::Ask, Begin::Continue);
        assert!(screens.wait_for("All done.").await, "{}", screens.text());
    }
}
