//! Questions before something is done.

use std::sync::Arc;

use deepagents::core::tool::DynTool;
use deepagents::models::scripted::Turn;
use deepagents::{Decision, DecisionKind, ToolContext, ToolError, json_tool};
use deepagents_tui::{Begin, Mode};
use serde_json::{Value, json};

use crate::world::{World, say};

fn command(text: &str) -> Turn {
    Turn::call("execute", json!({"command": text}))
}

fn commands(texts: &[&str]) -> Turn {
    Turn::calls(texts.iter().map(|text| ("execute", json!({"command": text}))).collect::<Vec<(&str, Value)>>())
}

#[tokio::test]
async fn a_command_is_shown_whole_and_runs_after_a_yes_alone() {
    let world = World::new([command("touch yes.txt && echo said"), Turn::text("It is done.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run it").await;
    assert!(screens.wait_for("touch yes.txt && echo said").await, "{}", screens.text());
    assert!(screens.wait_for("y yes").await && !world.has("yes.txt"));
    screens.press("y").await;
    assert!(screens.wait_for("It is done.").await, "{}", screens.text());
    assert!(world.has("yes.txt") && world.told().contains("said"));
}

#[tokio::test]
async fn a_no_with_a_reason_tells_the_model_why() {
    let world = World::new([command("rm -r src"), Turn::text("I keep it.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "tidy up").await;
    assert!(screens.wait_for("rm -r src").await);
    screens.press("f").await;
    screens.type_text("keep the sources").await;
    assert!(screens.text().contains("keep the sources"), "{}", screens.text());
    screens.press("enter").await;
    assert!(screens.wait_for("I keep it.").await);
    assert!(world.has("src") && world.told().contains("keep the sources"));
}

#[tokio::test]
async fn an_edited_command_runs_in_the_place_of_the_models() {
    let world = World::new([command("touch draft.txt"), Turn::text("Touched.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "touch it").await;
    assert!(screens.wait_for("touch draft.txt").await);
    screens.press("e").await;
    screens.type_text(" final.txt").await;
    screens.press("enter").await;
    assert!(screens.wait_for("Touched.").await, "{}", screens.text());
    assert!(world.has("final.txt"));
}

#[tokio::test]
async fn always_covers_simple_calls_of_the_program_and_nothing_more() {
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
    screens.press("a").await;
    assert!(screens.wait_for("touch c.txt; rm notes.txt").await, "{}", screens.text());
    assert!(world.has("b.txt") && !world.has("c.txt"));
    screens.press("n").await;
    assert!(screens.wait_for("End.").await);
    assert!(world.has("notes.txt"));
}

#[tokio::test]
async fn several_calls_are_decided_one_by_one() {
    let world = World::new([commands(&["touch a", "touch b", "touch c"]), Turn::text("All decided.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "three").await;
    assert!(screens.wait_for("(1 of 3)").await, "{}", screens.text());
    screens.press("y").await;
    assert!(screens.wait_for("(2 of 3)").await, "{}", screens.text());
    screens.press("n").await;
    assert!(screens.wait_for("(3 of 3)").await);
    screens.press("y").await;
    assert!(screens.wait_for("All decided.").await, "{}", screens.text());
    assert_eq!([world.has("a"), world.has("b"), world.has("c")], [true, false, true]);
}

#[tokio::test]
async fn an_edit_is_asked_about_with_the_lines_around_it() {
    let read = Turn::call("read_file", json!({"file_path": "/notes.txt"}));
    let edit = Turn::call("edit_file", json!({"file_path": "/notes.txt", "old_string": "beta", "new_string": "delta"}));
    let world = World::new([read, edit, Turn::text("Edited.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "edit").await;
    assert!(screens.wait_for("Change /notes.txt?").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("2 - beta") && text.contains("2 + delta") && text.contains("3   gamma"), "{text}");
    assert!(world.read("notes.txt").contains("beta"));
    screens.press("y").await;
    assert!(screens.wait_for("Edited.").await);
    assert!(world.read("notes.txt").contains("delta"));
}

#[tokio::test]
async fn a_long_new_file_can_be_read_before_it_is_decided_on() {
    let text: String = (1..=120).map(|n| format!("line {n} of it\n")).collect();
    let world =
        World::new([Turn::call("write_file", json!({"file_path": "/long.txt", "content": text})), Turn::text("Ok.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write").await;
    assert!(screens.wait_for("more lines of 121").await, "{}", screens.text());
    assert!(screens.text().contains("y yes"), "{}", screens.text());
    screens.press("ctrl-o").await;
    let mut seen = screens.live().join("\n");
    for _ in 0..8 {
        screens.press("pgdn").await;
        seen += &screens.live().join("\n");
    }
    assert!((1..=120).all(|n| seen.contains(&format!("line {n} of it"))), "{seen}");
    screens.press("y").await;
    assert!(screens.wait_for("Ok.").await, "{}", screens.text());
    assert!(world.has("long.txt"));
}

#[tokio::test]
async fn what_was_typed_before_a_question_came_up_does_not_answer_it() {
    let late = command("touch typed.txt").delay(std::time::Duration::from_millis(300));
    let world = World::new([late, Turn::text("Fine.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    // The question comes up while this is typed; none of it is an answer.
    screens.type_text("yes yes y").await;
    assert!(screens.wait_for("touch typed.txt").await, "{}", screens.text());
    screens.type_text("y").await;
    assert!(!world.has("typed.txt") && screens.text().contains("yes yes yy"), "{}", screens.text());
}

#[tokio::test]
async fn an_open_question_is_asked_again_after_a_restart() {
    let world = World::new([command("touch later.txt"), Turn::text("Done now.")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "run").await;
    assert!(screens.wait_for("touch later.txt").await);
    // The run ends with the question before the program is gone.
    assert!(screens.wait_for("y yes").await);
    let thread = screens.thread().unwrap();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    drop(screens);
    let mut screens = world.begin(Mode::Ask, Begin::Resume(thread));
    assert!(screens.wait_for("y yes").await, "{}", screens.text());
    screens.press("y").await;
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
    screens.press("shift-tab shift-tab").await;
    assert!(screens.text().contains("auto ·"), "{}", screens.text());
    say(&mut screens, "write").await;
    assert!(screens.wait_for("Wrote.").await);
    assert!(world.has("auto.txt"));
}

#[tokio::test]
async fn plan_mode_binds_sub_agents_too() {
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
async fn a_question_says_where_a_link_leads_which_rule_asks_and_hides_no_character() {
    let write = Turn::call("write_file", json!({"file_path": "/link.txt", "content": "a\u{2800}b\n"}));
    let world = World::new([write, Turn::text("Ok.")]);
    std::os::unix::fs::symlink("src/main.py", world.dir.path().join("link.txt")).unwrap();
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "write").await;
    assert!(screens.wait_for("the path leads to /src/main.py").await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("asked by the mode ask") && text.contains("a<U+2800>b"), "{text}");
    screens.press("n").await;
    assert!(screens.wait_for("Ok.").await);
    assert!(world.read("src/main.py").contains("hello"));
}

/// An agent of screens with a tool that asks by itself.
fn asking_tool(question: &'static str) -> Arc<dyn DynTool> {
    Arc::new(json_tool(
        "survey",
        "Asks the person.",
        json!({"type": "object", "properties": {}}),
        move |_args: Value, cx: ToolContext| async move {
            let decision = cx.interrupt(question, [DecisionKind::Respond, DecisionKind::Reject])?;
            Ok::<_, ToolError>(match decision {
                Decision::Respond { message } => format!("the person said {message}"),
                _ => "the person said nothing".to_owned(),
            })
        },
    ))
}

#[tokio::test]
async fn what_a_tool_asks_is_answered_with_a_form_of_its_fields() {
    let question = "Server acme asks: how shall it be?\nRespond with a JSON object of these fields, or reject: \
                    {\"name\":{\"type\":\"string\",\"title\":\"Name\"},\"size\":{\"enum\":[\"small\",\"large\"]},\
                    \"extras\":{\"type\":\"array\",\"items\":{\"enum\":[\"salt\",\"oil\",\"egg\"]}},\
                    \"count\":{\"type\":\"integer\"},\"fast\":{\"type\":\"boolean\"}}";
    let mut world = World::new([Turn::call("survey", json!({})), Turn::text("Noted.")]);
    world.tool = Some(asking_tool(question));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "ask me").await;
    assert!(screens.wait_for("how shall it be?").await, "{}", screens.text());
    assert!(screens.wait_until_live("r answer").await, "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("y yes"), "{:?}", screens.live());
    screens.press("r").await;
    assert!(screens.live().join("\n").contains("Name (1 of 5)"), "{:?}", screens.live());
    screens.type_text("Ada").await;
    screens.press("enter down enter space down down space enter").await;
    screens.type_text("many").await;
    screens.press("enter").await;
    assert!(screens.live().join("\n").contains("`many` is no number"), "{:?}", screens.live());
    screens.press("ctrl-u 3 enter down enter").await;
    assert!(screens.wait_for("Noted.").await, "{}", screens.text());
    let said = r#"{"name":"Ada","size":"large","extras":["salt","egg"],"count":3,"fast":false}"#;
    assert!(world.told().contains(said), "{}", world.told());
}

#[tokio::test]
async fn a_question_without_fields_is_answered_with_a_text() {
    let mut world = World::new([Turn::call("survey", json!({})), Turn::text("Noted.")]);
    world.tool = Some(asking_tool("What is your name?"));
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "ask me").await;
    assert!(screens.wait_until_live("r answer").await, "{:?}", screens.live());
    screens.press("enter").await;
    screens.type_text("Ada Lovelace").await;
    screens.press("enter").await;
    assert!(screens.wait_for("Noted.").await, "{}", screens.text());
    assert!(world.told().contains("the person said Ada Lovelace"), "{}", world.told());
}
