//! What is kept of work that a person stops.

use std::time::Duration;

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::remembered::RememberedRule;
use deepagents_tui::{Begin, Mode};
use serde_json::json;

use crate::world::{World, say};

/// A command that prints a word and never ends.
fn endless(word: &str) -> Turn {
    let command = format!("for i in 1 2 3; do echo {word}-$i; done; while [ ! -e never ]; do sleep 0.02; done");
    Turn::call("execute", json!({"command": command}))
}

#[tokio::test]
async fn output_of_a_stopped_command_is_kept() {
    let world = World::new([endless("part"), Turn::text("Next.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "go").await;
    assert!(screens.wait_until_live("part-3").await, "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("interrupted; say what to do instead").await && screens.wait_idle().await);
    let text = screens.text();
    for line in ["part-1\n", "part-2\n", "part-3\n"] {
        assert_eq!(text.matches(line).count(), 1, "{text}");
    }
}

#[tokio::test]
async fn a_stopped_sub_agents_activity_can_be_read_in_full() {
    let delegate = Turn::call("task", json!({"description": "count", "subagent_type": "general-purpose"}));
    let world = World::new([delegate, endless("kid").and_text("I count.")]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "go").await;
    assert!(screens.wait_until_live("◌ execute for").await, "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("interrupted; say what to do instead").await && screens.wait_idle().await);
    screens.press("ctrl-o").await.unwrap();
    let whole = screens.live().join("\n");
    assert!(whole.contains("I count.") && whole.contains("✗ execute for i in 1 2 3"), "{whole}");
}

#[tokio::test]
async fn a_reopened_interrupted_answer_has_the_models_text_and_a_notice() {
    let world = World::new([Turn::text("Half of it.\n\n[The user interrupted this answer here.]")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go slowly").await;
    assert!(screens.wait_for("Half of it.").await && screens.wait_idle().await);
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_for("· interrupted").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.text().contains("Half of it.") && !screens.text().contains("[The user"), "{}", screens.text());
    say(&mut screens, "/copy").await;
    assert_eq!(screens.sent().last().map(String::as_str), Some("Half of it."));
}

#[tokio::test]
async fn esc_with_an_empty_input_stops_the_turn_in_vi_mode_too() {
    let mut world = World::new([Turn::text("Never.").delay(Duration::from_secs(600))]);
    world.preferences.vi = true;
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("interrupted; say what to do instead").await && screens.wait_idle().await);
}

#[tokio::test]
async fn waiting_messages_return_to_the_input_when_compaction_is_stopped() {
    let long = "lorem ipsum dolor sit amet ".repeat(100);
    let turns = (0..5).map(|n| Turn::text(format!("{long} END{n}")));
    let world = World::new(turns.chain([Turn::text("SUMMARY").delay(Duration::from_secs(600))]));
    let mut screens = world.screens(Mode::Ask);
    for n in 0..5 {
        say(&mut screens, &format!("say {n}")).await;
        assert!(screens.wait_for(&format!("END{n}")).await && screens.wait_idle().await);
    }
    say(&mut screens, "/compact").await;
    say(&mut screens, "sent meanwhile").await;
    assert!(screens.wait_until_live("waiting: sent meanwhile").await, "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.wait_for("the conversation was not compacted").await && screens.wait_idle().await);
    assert!(screens.live().join("\n").contains("› sent meanwhile"), "{:?}", screens.live());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn esc_just_before_a_question_appears_leaves_it_undecided_also_if_a_rule_covers_it() {
    for has_rule in [false, true] {
        let mut world = World::new([]);
        let write = || Turn::call("write_file", json!({"file_path": "/a.txt", "content": "a"}));
        world.model = ScriptedModel::new([world.once("go", write()), Turn::text("So be it.")]);
        if has_rule {
            let mut rule = RememberedRule::default();
            rule.tool = "write_file".to_owned();
            rule.with_others = true;
            world.remembered.lock().unwrap().push(rule);
        }
        let mut screens = world.screens(Mode::Ask);
        say(&mut screens, "write it").await;
        world.until_requested().await;
        let thread = screens.thread().unwrap();
        std::fs::write(world.dir.path().join("go"), "").unwrap();
        world.until_asked(&thread).await;
        screens.press("esc").await.unwrap();
        let told = "interrupted: write_file was left undecided and not run; say what to do instead";
        assert!(screens.wait_for(told).await && screens.wait_idle().await, "{}", screens.text());
        let text = screens.text();
        assert!(!text.contains("allowed by the rule") && !text.contains("your other decisions"), "{text}");
        say(&mut screens, "leave it").await;
        assert!(screens.wait_for("So be it.").await && screens.wait_idle().await, "{}", screens.text());
        assert!(!world.has("a.txt") && !world.told().contains("approved"), "{}", world.told());
    }
}
