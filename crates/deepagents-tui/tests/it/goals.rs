//! Goals that results are judged by.

use deepagents::models::scripted::Turn;
use deepagents_tui::{Begin, Mode};

use crate::world::{World, say};

const MISSING: &str = r#"{"result": "needs_revision", "explanation": "It does not rhyme.",
    "criteria": [{"name": "rhymes", "passed": false, "gap": "no rhyme"}]}"#;
const MET: &str =
    r#"{"result": "satisfied", "explanation": "It rhymes.", "criteria": [{"name": "rhymes", "passed": true}]}"#;

#[tokio::test]
async fn a_goal_is_worked_on_until_it_is_met_and_then_ends() {
    let turns = ["Roses.", MISSING, "Roses, noses.", MET, "You are welcome."];
    let world = World::new(turns.map(Turn::text));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/goal write a rhyme").await;
    assert!(screens.wait_for("the goal is not met yet (rhymes): It does not rhyme.").await, "{}", screens.text());
    assert!(screens.wait_for("the goal is met: It rhymes.").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    // Also for a program that knows only the thread.
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_for("Roses, noses.").await, "{}", screens.text());
    say(&mut screens, "thank you").await;
    assert!(screens.wait_for("You are welcome.").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    assert_eq!(world.model.requests().len(), 5, "the last answer is not judged");
    say(&mut screens, "/goal").await;
    assert!(screens.wait_for("there is none").await, "{}", screens.text());
}

#[tokio::test]
async fn a_rubric_judges_every_result_until_it_is_cleared() {
    let turns = ["Roses, noses.", MET, "Trees, bees.", MET, "Stones."];
    let world = World::new(turns.map(Turn::text));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/rubric it rhymes").await;
    assert!(screens.wait_for("every result is judged by this").await, "{}", screens.text());
    assert!(world.model.requests().is_empty());
    for message in ["one line", "another line"] {
        say(&mut screens, message).await;
        assert!(screens.wait_idle().await);
    }
    assert_eq!(world.model.requests().len(), 4, "{}", screens.text());
    say(&mut screens, "/rubric").await;
    assert!(screens.wait_for("- rhymes: met").await, "{}", screens.text());
    assert!(screens.text().contains("it rhymes") && screens.text().contains("until /goal clear"));
    say(&mut screens, "/rubric clear").await;
    say(&mut screens, "and prose").await;
    assert!(screens.wait_for("Stones.").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    assert_eq!(world.model.requests().len(), 5);
}

#[tokio::test]
async fn a_goal_belongs_to_its_thread() {
    let world = World::new([Turn::text("Hello.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/rubric it rhymes").await;
    say(&mut screens, "/new").await;
    say(&mut screens, "hi").await;
    assert!(screens.wait_for("Hello.").await, "{}", screens.text());
    assert!(screens.wait_idle().await);
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn words_of_other_programs_switch_the_mode_and_do_a_task_in_it() {
    let world = World::new([Turn::text("Done.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/auto write a poem").await;
    assert!(screens.wait_for("Done.").await, "{}", screens.text());
    assert!(world.told().contains("write a poem") && !world.told().contains("/auto"));
    say(&mut screens, "/mode").await;
    assert!(screens.wait_for("auto;").await, "{}", screens.text());
    say(&mut screens, "/manual").await;
    say(&mut screens, "/mode").await;
    assert!(screens.wait_for("ask;").await, "{}", screens.text());
}
