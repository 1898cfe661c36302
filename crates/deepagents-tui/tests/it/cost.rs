//! The cost of a thread.

use deepagents::Usage;
use deepagents::core::model::{Price, PriceTier};
use deepagents::models::scripted::Turn;
use deepagents_tui::{Begin, Mode};
use serde_json::json;

use crate::world::{World, say};

#[tokio::test]
async fn a_threads_cost_includes_all_usage_even_undone_and_by_sub_agents() {
    let using = |input| Usage { input, output: 1, ..Usage::default() };
    let task = json!({"subagent_type": "general-purpose", "description": "count"});
    let long = "lorem ipsum dolor sit amet ".repeat(100);
    let mut world = World::new([
        Turn::call("task", task).usage(using(1_000)),
        Turn::text("Counted.").usage(using(20_000)),
        Turn::text("Delegated.").usage(using(300_000)),
        Turn::text(format!("{long} END")).usage(using(4_000_000)),
        Turn::text("Once more.").usage(using(5_000_000)),
        Turn::text("SUMMARY").usage(using(60_000_000)),
    ]);
    world.price = Some(Price::new(1.0, 0.0));
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "delegate").await;
    assert!(screens.wait_for("Delegated.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("undone").await && screens.wait_idle().await, "{}", screens.text());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "say it").await;
    assert!(screens.wait_for("END").await && screens.wait_idle().await, "{}", screens.text());
    drop(screens);
    let mut screens = world.begin(Mode::Auto, Begin::Continue);
    assert!(screens.wait_for("END").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/cost").await;
    assert!(screens.wait_for("4,321,000").await && screens.text().contains("$4.3210"), "{}", screens.text());
    say(&mut screens, "and again").await;
    assert!(screens.wait_for("Once more.").await && screens.wait_idle().await, "{}", screens.text());
    say(&mut screens, "/compact").await;
    assert!(screens.wait_for("replaced with a summary").await, "{}", screens.text());
    say(&mut screens, "/cost").await;
    assert!(screens.wait_for("69,321,000").await && screens.text().contains("$69.3210"), "{}", screens.text());
}

#[tokio::test]
async fn the_prices_of_long_prompts_are_those_of_long_prompts_alone_however_many_there_were() {
    let using = |input| Usage { input, ..Usage::default() };
    let mut world = World::new([
        Turn::text("First.").usage(using(150_000)),
        Turn::text("Second.").usage(using(150_000)),
        Turn::text("Third.").usage(using(300_000)),
    ]);
    let mut price = Price::new(1.0, 0.0);
    price.above = Some(PriceTier { tokens: 200_000, input: 10.0, ..PriceTier::default() });
    world.price = Some(price);
    let mut screens = world.screens(Mode::Ask);
    for (answer, cost) in [("First.", "$0.1500"), ("Second.", "$0.3000"), ("Third.", "$3.3000")] {
        say(&mut screens, "go").await;
        assert!(screens.wait_for(answer).await && screens.wait_idle().await, "{}", screens.text());
        say(&mut screens, "/cost").await;
        assert!(screens.wait_for(cost).await, "{cost}: {}", screens.text());
    }
}

#[tokio::test]
async fn the_line_of_a_command_is_told_what_the_thread_has_cost_by_its_log() {
    let using = |input| Usage { input, output: 1, ..Usage::default() };
    let mut world = World::new([
        Turn::text("Undone later.").usage(using(1_000_000)),
        Turn::text("Kept.").usage(using(2_000_000)),
        Turn::text("Said at last.").usage(using(4_000_000)),
    ]);
    world.price = Some(Price::new(1.0, 0.0));
    world.preferences.status_line =
        Some(r#"sed 's/.*"input_tokens":\([0-9]*\).*"cost":\([0-9.a-z]*\).*/in=\1 cost=\2./'"#.to_owned());
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "one").await;
    assert!(screens.wait_until_live("in=1000000 cost=1.0.").await, "{:?}", screens.live());
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("undone").await && screens.wait_idle().await, "{}", screens.text());
    screens.press("ctrl-u").await.unwrap();
    say(&mut screens, "two").await;
    assert!(screens.wait_until_live("in=3000000 cost=3.0.").await, "{:?}", screens.live());
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Continue);
    assert!(screens.wait_until_live("in=3000000 cost=3.0.").await, "{:?}", screens.live());
    say(&mut screens, "three").await;
    assert!(screens.wait_until_live("in=7000000 cost=7.0.").await, "{:?}", screens.live());
    say(&mut screens, "/new").await;
    assert!(screens.wait_until_live("in=0 cost=0.0.").await, "{:?}", screens.live());
}
