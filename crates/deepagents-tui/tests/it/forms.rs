//! Questions answered with text: texts, choices and fields.

use std::sync::Arc;

use deepagents::core::tool::{DynTool, ToolContext, ToolError};
use deepagents::models::scripted::Turn;
use deepagents::{AnswerForm, Decision, FieldKind, FieldOption, FormField, json_tool};
use deepagents_tui::Mode;
use serde_json::{Value, json};

use crate::world::{World, say};

/// A tool that raises an interrupt with a question.
fn asking_tool(question: &'static str, form: Option<AnswerForm>) -> Arc<dyn DynTool> {
    Arc::new(json_tool(
        "survey",
        "Asks the person.",
        json!({"type": "object", "properties": {}}),
        move |_args: Value, cx: ToolContext| {
            let form = form.clone();
            async move {
                Ok::<_, ToolError>(match cx.interrupt_for_answer(question, form)? {
                    Decision::Respond { message } => format!("the person said {message}"),
                    _ => "the person said nothing".to_owned(),
                })
            }
        },
    ))
}

fn field(name: &str, required: bool, kind: FieldKind) -> FormField {
    FormField { name: name.to_owned(), title: None, description: None, required, kind }
}

fn options(values: &[(&str, Option<&str>)]) -> Vec<FieldOption> {
    let option = |(value, title): &(&str, Option<&str>)| FieldOption {
        value: (*value).to_owned(),
        title: title.map(str::to_owned),
    };
    values.iter().map(option).collect()
}

#[tokio::test]
async fn a_tools_question_is_answered_through_a_form_with_its_fields() {
    let fields = vec![
        FormField { title: Some("Your name".to_owned()), ..field("name", true, FieldKind::Text { default: None }) },
        field(
            "size",
            true,
            FieldKind::Choice { options: options(&[("s", Some("small")), ("l", Some("large"))]), default: None },
        ),
        field(
            "extras",
            true,
            FieldKind::Several { options: options(&[("salt", None), ("oil", None), ("egg", None)]), default: vec![] },
        ),
        field("count", true, FieldKind::Number { integer: true, default: None }),
        field("fast", true, FieldKind::Boolean { default: Some(true) }),
        field("remark", false, FieldKind::Text { default: None }),
    ];
    let mut world = World::new([Turn::call("survey", json!({})), Turn::text("Noted.")]);
    world.tool = Some(asking_tool("How shall it be?", Some(AnswerForm::Fields { fields })));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "ask me").await;
    assert!(screens.wait_for("How shall it be?").await, "{}", screens.text());
    assert!(screens.wait_until_live("r answer").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("y yes"), "{:?}", screens.live());
    screens.press("r").await.unwrap();
    assert!(screens.live().join("\n").contains("Your name (1 of 6)"), "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.live().join("\n").contains("this is required"), "{:?}", screens.live());
    screens.type_text("Ada").await;
    screens.press("enter").await.unwrap();
    assert!(screens.live().join("\n").contains("large"), "{:?}", screens.live());
    screens.press("down enter space down down space enter").await.unwrap();
    screens.type_text("many").await;
    screens.press("enter").await.unwrap();
    assert!(screens.live().join("\n").contains("`many` is not a number"), "{:?}", screens.live());
    screens.press("ctrl-u 3 enter down enter enter").await.unwrap();
    assert!(screens.wait_for("Noted.").await, "{}", screens.text());
    let said = r#"{"name":"Ada","size":"l","extras":["salt","egg"],"count":3,"fast":false}"#;
    assert!(world.told().contains(said), "{}", world.told());
}

#[tokio::test]
async fn a_question_without_a_form_is_answered_with_text() {
    let mut world = World::new([Turn::call("survey", json!({})), Turn::text("Noted.")]);
    world.tool = Some(asking_tool("What is your name?", None));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "ask me").await;
    assert!(screens.wait_until_live("type your answer").await, "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    screens.type_text("Ada Lovelace").await;
    let (column, row) = screens.cursor().unwrap();
    assert_eq!(screens.live()[usize::from(row)], "› Ada Lovelace");
    assert_eq!(usize::from(column), "› Ada Lovelace".chars().count(), "the cursor is behind the text");
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Noted.").await, "{}", screens.text());
    assert!(world.told().contains("the person said Ada Lovelace"), "{}", world.told());
}

fn asks(choices: &[&str], several: bool) -> Turn {
    Turn::call("ask_user", json!({"question": "Which colour?", "choices": choices, "several": several}))
}

#[tokio::test]
async fn a_choice_can_be_picked_by_its_number() {
    let world = World::new([asks(&["red", "dark, blue"], false), Turn::text("Painted.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("2. dark, blue").await, "{:?}", screens.live());
    let live = screens.live().join("\n");
    assert!(live.contains("The agent asks you") && live.contains("Which colour?"), "{live}");
    assert!(!live.contains("choices:"), "{live}");
    assert!(live.contains("❯ 1. red"), "one of them is marked at once: {live}");
    screens.press("2").await.unwrap();
    assert!(screens.live().join("\n").contains("❯ 2. dark, blue"), "{:?}", screens.live());
    assert!(world.model.requests().len() == 1, "nothing is sent before Enter");
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Painted.").await, "{}", screens.text());
    assert!(world.told().contains("The user chose: dark, blue"), "{}", world.told());
}

#[tokio::test]
async fn several_choices_can_be_picked() {
    let world = World::new([asks(&["red", "blue", "green"], true), Turn::text("Painted.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("❯ ☐ 1. red").await, "{:?}", screens.live());
    screens.press("enter").await.unwrap();
    assert!(screens.live().join("\n").contains("nothing is chosen"), "{:?}", screens.live());
    screens.press("space down down space enter").await.unwrap();
    assert!(screens.wait_for("Painted.").await, "{}", screens.text());
    assert!(world.told().contains("The user chose: red, green"), "{}", world.told());
}

#[tokio::test]
async fn a_question_with_choices_can_be_answered_in_own_words_or_declined() {
    let world = World::new([asks(&["red", "blue"], false), asks(&["red", "blue"], false), Turn::text("As you like.")]);
    let mut screens = world.screens(Mode::Plan);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("❯ 1. red").await, "{:?}", screens.live());
    screens.press("down down enter").await.unwrap();
    screens.type_text("a warm grey").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("❯ 1. red").await, "{:?}", screens.live());
    assert!(world.told().contains("The user answered: a warm grey"), "{}", world.told());
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("As you like.").await, "{}", screens.text());
    assert!(world.told().contains("The user declined to answer."), "{}", world.told());
}

#[tokio::test]
async fn text_typed_or_pasted_on_the_own_answer_row_starts_the_answer() {
    for several in [false, true] {
        let world =
            World::new([asks(&["red", "blue"], several), asks(&["red", "blue"], several), Turn::text("As you like.")]);
        let mut screens = world.screens(Mode::Plan);
        say(&mut screens, "paint it").await;
        assert!(screens.wait_until_live("1. red").await, "{:?}", screens.live());
        screens.press("down down").await.unwrap();
        assert!(screens.live().join("\n").contains("type your answer"), "{:?}", screens.live());
        screens.type_text("no idea, 2 greens").await;
        screens.press("enter").await.unwrap();
        assert!(screens.wait_until_live("❯").await && screens.wait_until_live("1. red").await, "{:?}", screens.live());
        assert!(world.told().contains("The user answered: no idea, 2 greens"), "{}", world.told());
        screens.press("down down").await.unwrap();
        screens.event(crossterm::event::Event::Paste("from elsewhere".to_owned())).await;
        screens.press("enter").await.unwrap();
        assert!(screens.wait_for("As you like.").await, "{}", screens.text());
        assert!(world.told().contains("The user answered: from elsewhere"), "{}", world.told());
    }
}

#[tokio::test]
async fn an_agents_question_is_asked_again_with_its_choices_after_a_restart() {
    let world = World::new([asks(&["red", "blue"], false), Turn::text("Painted.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("2. blue").await, "{:?}", screens.live());
    drop(screens);
    let mut screens = world.begin(Mode::Ask, deepagents_tui::Begin::Continue);
    assert!(screens.wait_until_live("2. blue").await, "{:?}", screens.live());
    screens.press("1 enter").await.unwrap();
    assert!(screens.wait_for("Painted.").await, "{}", screens.text());
    assert!(world.told().contains("The user chose: red"), "{}", world.told());
}

#[tokio::test]
async fn a_question_takes_typed_text_or_a_choice_at_once() {
    let asks = |args: Value| Turn::call("ask_user", args);
    let world = World::new([
        asks(json!({"question": "Which colour?"})),
        asks(json!({"question": "Which one?", "choices": ["left", "right"]})),
        Turn::text("Thanks."),
    ]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "ask").await;
    assert!(screens.wait_until_live("Which colour?").await, "{:?}", screens.live());
    screens.type_text("no, a blue one").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_until_live("Which one?").await, "{:?}", screens.live());
    screens.press("down enter").await.unwrap();
    assert!(screens.wait_for("Thanks.").await, "{}", screens.text());
    let told = world.told();
    assert!(told.contains("The user answered: no, a blue one") && told.contains("The user chose: right"), "{told}");
}

#[tokio::test]
async fn a_message_can_be_typed_or_the_turn_stopped_at_a_question_with_choices() {
    let world = World::new([asks(&["red", "blue"], true), Turn::text("Never.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("❯ ☐ 1. red").await, "{:?}", screens.live());
    screens.type_text("wait, 2 of them are new").await;
    let live = screens.live().join("\n");
    assert!(live.contains("› wait, 2 of them are new") && live.contains("❯ ☐ 1. red"), "{live}");
    screens.press("ctrl-c esc").await.unwrap();
    assert!(screens.wait_for("interrupted").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!(world.model.requests().len(), 1);
}

#[tokio::test]
async fn whitespace_in_the_input_does_not_block_choosing_an_answer() {
    let world = World::new([asks(&["red", "blue"], false), Turn::text("Painted.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "paint it").await;
    assert!(screens.wait_until_live("❯ 1. red").await, "{:?}", screens.live());
    screens.press("space space down").await.unwrap();
    assert!(screens.live().join("\n").contains("❯ 2. blue"), "{:?}", screens.live());
    screens.event(crossterm::event::Event::Paste("  ".to_owned())).await;
    screens.press("up enter").await.unwrap();
    assert!(screens.wait_for("Painted.").await, "{}", screens.text());
    assert!(world.told().contains("The user chose: red"), "{}", world.told());
}
