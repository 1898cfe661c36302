//! Snapshots of the screens as text.

use deepagents::Usage;
use deepagents::core::model::Price;
use deepagents::models::scripted::Turn;
use deepagents_tui::{Headless, Mode};
use serde_json::{Value, json};

use crate::world::{World, say};

const MARKDOWN: &str = "# Report\n\nSome **bold** text with `code` and a [link](https://example.org/x), then a rather long \
                        sentence that has to be wrapped.\n\n- an item that is long enough to wrap around the end of a line of \
                        eighty columns\n  - nested *one*\n\n1. one\n2. two\n\n> quoted words\n\n```rust\nfn main() {}\n```\n\n\
                        | name | what it is |\n|---|---|\n| 漢字 | the first |\n| beta | b |\n";

/// The screen without its header, whose directory varies.
fn picture(screens: &Headless) -> String {
    screens.text().lines().skip(3).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn markdown_is_laid_out() {
    let world = World::new([Turn::text(MARKDOWN)]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "report").await;
    assert!(screens.wait_idle().await);
    insta::assert_snapshot!(picture(&screens));
}

#[tokio::test]
async fn markdown_is_laid_out_on_a_narrow_screen() {
    let world = World::new([Turn::text(MARKDOWN)]);
    let mut screens = world.screens(Mode::Ask);
    screens.resize(32, 60).await;
    say(&mut screens, "report").await;
    assert!(screens.wait_idle().await);
    let text = screens.text();
    let (_, answer) = text.split_once("› report").unwrap();
    assert!(answer.lines().all(|line| line.chars().count() <= 32), "{answer}");
    insta::assert_snapshot!(answer);
}

#[tokio::test]
async fn calls_and_results_are_folded_with_counts() {
    let world = World::new([
        Turn::call("execute", json!({"command": "for n in $(seq 1 41); do echo line $n; done; exit 3"})),
        Turn::call("read_file", json!({"file_path": "/notes.txt"})),
        Turn::call("edit_file", json!({"file_path": "/notes.txt", "old_string": "beta", "new_string": "beta two"})),
        Turn::call("read_file", json!({"file_path": "/missing.txt"})),
        Turn::text("All tried."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "try").await;
    assert!(screens.wait_for("All tried.").await && screens.wait_idle().await);
    let text = screens.text();
    assert!(text.contains("… 36 more lines (Ctrl+O)") && text.contains("[exit code 3]"), "{text}");
    assert!(text.contains("- beta") && text.contains("+ beta two"), "{text}");
    screens.press("ctrl-o pgup").await.unwrap();
    assert!(screens.live().join("\n").contains("line 20"), "{:?}", screens.live());
    screens.press("ctrl-o").await.unwrap();
    assert!(screens.live().join("\n").contains("auto ·"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_question_shows_its_effect_and_its_keys_on_every_screen_size() {
    let calls: Vec<(&str, Value)> = vec![
        ("execute", json!({"command": "echo \u{202e}ok && rm -rf x\u{1b}[2J"})),
        ("write_file", json!({"file_path": "/notes.txt", "content": "alpha\nBETA\ngamma\n"})),
    ];
    let world = World::new([Turn::calls(calls), Turn::text("Decided.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_for("Run this command?").await);
    assert!(screens.wait_for("(1 of 2)").await);
    let without_footer = |screens: &Headless| {
        let live = screens.live();
        let from = live.iter().position(|line| line.starts_with("? ")).unwrap();
        live[from..live.len() - 1].join("\n")
    };
    insta::assert_snapshot!("a_command", without_footer(&screens));
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("(2 of 2)").await, "{}", screens.text());
    insta::assert_snapshot!("an_overwritten_file", without_footer(&screens));
    screens.resize(24, 12).await;
    assert!(screens.live().join("\n").contains("y yes"), "{:?}", screens.live());
    assert!(screens.live().len() <= 12);
}

#[tokio::test]
async fn sub_agents_show_their_activity_and_can_be_expanded() {
    let world = World::new([
        Turn::call("task", json!({"description": "count the lines", "subagent_type": "general-purpose"})),
        Turn::call("read_file", json!({"file_path": "/notes.txt"})),
        Turn::text("CHILD-ANSWER: three").usage(Usage { input: 1_000, output: 200, ..Usage::default() }),
        Turn::text("The child is done."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "delegate").await;
    assert!(screens.wait_for("The child is done.").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("general-purpose count the lines") && text.contains("1 call"), "{text}");
    assert!(text.contains("tokens · $3.0000"), "{text}");
    screens.press("ctrl-o").await.unwrap();
    let open = screens.live().join("\n");
    assert!(open.contains("read_file /notes.txt") && open.contains("CHILD-ANSWER"), "{open}");
}

#[tokio::test]
async fn tokens_and_cost_are_shown_while_work_is_in_progress() {
    let waits = "while ! test -e go; do sleep 0.01; done";
    let spends = Usage { input: 1_000, output: 200, ..Usage::default() };
    let mut world = World::new([Turn::call("execute", json!({"command": waits})).usage(spends), Turn::text("Done.")]);
    world.price = Some(Price::new(1_000.0, 10_000.0));
    let mut screens = world.screens(Mode::Auto);
    say(&mut screens, "spend").await;
    assert!(screens.wait_until_live("200 tokens · $3.0000  Esc stops").await, "{:?}", screens.live());
    screens.resize(40, 24).await;
    assert!(!screens.live().join("\n").contains("200 tokens"), "{:?}", screens.live());
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    assert!(screens.wait_for("Done.").await && screens.wait_idle().await, "{}", screens.text());
}

#[tokio::test]
async fn an_image_in_a_result_is_described_now_and_after_reopening() {
    let world = World::new([Turn::call("read_file", json!({"file_path": "/dot.png"})), Turn::text("A dot.")]);
    std::fs::write(world.dir.path().join("dot.png"), b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR").unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "look").await;
    assert!(screens.wait_for("A dot.").await && screens.wait_idle().await, "{}", screens.text());
    let described = "● read_file /dot.png\n· image dot.png (image/png, 1 kB)\n\nA dot.";
    assert!(screens.text().contains(described), "{}", screens.text());
    drop(screens);
    let mut screens = world.begin(Mode::Ask, deepagents_tui::Begin::Continue);
    assert!(screens.wait_for(described).await, "{}", screens.text());
}

#[tokio::test]
async fn words_are_not_split_and_long_messages_are_folded() {
    let words: Vec<String> = (100..160).map(|number| format!("word{number}")).collect();
    let world = World::new([
        Turn::call("task", json!({"description": "talk", "subagent_type": "general-purpose"})),
        Turn::text(words.join(" ")),
        Turn::text("Told."),
    ]);
    let mut screens = world.screens(Mode::Auto);
    screens.event(crossterm::event::Event::Paste(vec!["a line"; 30].join("\n"))).await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Told.").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("… 18 more lines (Ctrl+O)"), "{text}");
    for word in &words {
        assert!(text.split_whitespace().any(|shown| shown == word), "{word} is broken: {text}");
    }
}

#[tokio::test]
async fn list_items_hang_from_their_numbers_and_columns_follow_table_alignment() {
    let text = "9. a number that is long enough to wrap around\n10. ten\n\n| n | what |\n|--:|:-:|\n| 7 | abcde |\n| 100 | b |\n";
    let world = World::new([Turn::text(text)]);
    let mut screens = world.screens(Mode::Ask);
    screens.resize(32, 60).await;
    say(&mut screens, "list").await;
    assert!(screens.wait_idle().await);
    let shown = "9. a number that is long enough\n   to wrap around\n10. ten\n\n  n │ what\n────┼──────\n  7 │ abcde\n100 │   b";
    let text = screens.text();
    let text: Vec<&str> = text.lines().map(str::trim_end).collect();
    assert!(text.join("\n").contains(shown), "{text:?}");
}

#[tokio::test]
async fn a_table_too_wide_for_the_screen_is_shown_row_by_row() {
    let row = |word: &str| format!("|{}\n", (0..30).map(|at| format!(" {word}{at} |")).collect::<String>());
    let rule = format!("|{}\n", "---|".repeat(30));
    let world = World::new([Turn::text(format!("{}{rule}{}", row("head"), row("cell")))]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "a wide table").await;
    assert!(screens.wait_for("head29: cell29").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.text().contains("head0: cell0; head1: cell1"), "{}", screens.text());
    assert!(!screens.text().contains('│'), "{}", screens.text());
}
