//! Choosing a model, and what works without one.

use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;

use crate::world::{World, say};

#[tokio::test]
async fn a_model_that_cannot_be_used_leaves_the_one_in_use() {
    let world = World::new([Turn::text("One."), Turn::text("Two.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "first").await;
    assert!(screens.wait_for("One.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/model nosuch:x").await;
    assert!(screens.wait_for("still using scripted").await, "{}", screens.text());
    assert!(screens.text().contains("! nosuch does not name a provider"), "{}", screens.text());
    assert!(screens.live().join("\n").contains("ask · scripted"), "{:?}", screens.live());
    say(&mut screens, "second").await;
    assert!(screens.wait_for("Two.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/model other").await;
    say(&mut screens, "/model nosuch:y").await;
    assert!(screens.wait_for("still using other").await, "{}", screens.text());
}

#[tokio::test]
async fn an_agent_that_cannot_be_built_again_stays_as_it_was() {
    let world = World::new([Turn::text("One."), Turn::text("Two.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "first").await;
    assert!(screens.wait_for("One.").await && screens.wait_idle().await, "{}", screens.text());
    let elsewhere = world.dir.path().with_extension("moved");
    std::fs::rename(world.dir.path(), &elsewhere).unwrap();
    say(&mut screens, "/reload").await;
    assert!(screens.wait_for("; the agent stays as it was").await, "{}", screens.text());
    std::fs::rename(&elsewhere, world.dir.path()).unwrap();
    assert!(screens.live().join("\n").contains("ask · scripted"), "{:?}", screens.live());
    say(&mut screens, "second").await;
    assert!(screens.wait_for("Two.").await, "{}", screens.text());
}

#[tokio::test]
async fn without_a_model_commands_answer_and_what_needs_one_says_so() {
    let mut world = World::new([]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    screens.press("esc").await.unwrap();
    for (command, told) in [
        ("/sandbox", "unconfined"),
        ("/tools", "read_file"),
        ("/cost", "Cost"),
        ("/agents", "general-purpose"),
        ("/memory", "Memory"),
        ("/skills", "Skills"),
        ("/context", "Context"),
        ("/compact", "no key was found; /auth stores one"),
        ("/resume", "no key was found; /auth stores one"),
        ("/model nosuch:x", "nosuch does not name a provider"),
        ("/threads", "this directory has no earlier threads"),
    ] {
        let before = screens.text().matches(told).count();
        say(&mut screens, command).await;
        assert!(screens.wait_for(told).await, "{command}: {}", screens.text());
        assert!(screens.wait_idle().await, "{command}: {:?}", screens.live());
        assert!(screens.text().matches(told).count() > before, "{command}: {}", screens.text());
    }
    // A message still asks for a provider.
    screens.press("esc").await.unwrap();
    say(&mut screens, "hello there").await;
    assert!(screens.live().join("\n").contains("Which provider"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_model_chosen_after_one_that_cannot_be_used_answers() {
    let mut world = World::new([Turn::text("Hello.")]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    screens.press("esc").await.unwrap();
    say(&mut screens, "/model nosuch:x").await;
    assert!(screens.wait_for("nosuch does not name a provider").await, "{}", screens.text());
    assert!(screens.live().join("\n").contains("no model"), "{:?}", screens.live());
    say(&mut screens, "/model other").await;
    say(&mut screens, "hi").await;
    assert!(screens.wait_for("Hello.").await && screens.wait_idle().await, "{}", screens.text());
}
