//! Edited calls.

use std::sync::Arc;

use deepagents::core::interrupt::DecisionError;
use deepagents::core::middleware::offered_tools;
use deepagents::core::tool::{DynTool, ToolSet};
use deepagents::models::scripted::Turn;
use deepagents::{DecisionAuthor, DecisionRecord, FinishReason, InterruptOn, InterruptPolicy, RunInput, json_tool};
use serde_json::json;

use crate::approval::{Office, edit, refused, send};
use crate::results;

#[tokio::test]
async fn an_edit_that_its_tool_does_not_take_is_refused_and_leaves_the_question_open() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let before = office.records().await.len();
    let wrong = [
        (edit("send", json!({"n": "one"})), "/n"),
        (edit("send", json!({})), "\"n\" is a required property"),
        (edit("send", json!({"n": 2, "cc": "b"})), "'cc' was unexpected"),
        (edit("other", json!({"m": 2})), "\"n\" is a required property"),
    ];
    for (decision, words) in wrong {
        let error = refused(office.answer(&[("0.0", decision)]).await);
        assert!(
            matches!(&error, DecisionError::Arguments { id, why } if id == "0.0" && why.contains(words)),
            "{error}"
        );
    }
    assert_eq!((office.records().await.len(), office.made().len()), (before, 0), "nothing was stored or made");
    let done = office.answer(&[("0.0", edit("send", json!({"n": 2})))]).await.unwrap();
    assert_eq!((done.text().as_str(), office.made()), ("Done.", vec!["send 2".to_owned()]));
}

#[tokio::test]
async fn an_edit_may_keep_an_argument_of_the_models_that_the_tool_does_not_name() {
    let office = Office::new([Turn::call("send", json!({"n": 1, "cc": "b"})), Turn::text("Done.")]);
    office.go().await;
    office.answer(&[("0.0", edit("send", json!({"n": 2, "cc": "b"})))]).await.unwrap();
    assert_eq!(office.made(), ["send 2"]);
}

#[tokio::test]
async fn what_a_rule_has_edited_wrongly_is_told_to_the_model_as_nobody_is_there_to_put_it_right() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let hook = DecisionAuthor::Rule { text: "a hook".to_owned() };
    let decided = DecisionRecord::new(edit("send", json!({"n": "one"})), hook);
    let done = office.agent().invoke(RunInput::resume("t").decide("0.0", decided)).await.unwrap();
    assert_eq!((done.text().as_str(), office.made().len()), ("Done.", 0));
    let told = &results(&done)[0].0;
    assert!(told.contains("send does not take these arguments") && told.contains("It was not made either"), "{told}");
    assert!(!told.contains("Made instead"), "{told}");
}

#[tokio::test]
async fn the_model_of_a_sub_agent_is_told_what_was_made_of_its_call() {
    let task = json!({"description": "Send it.", "subagent_type": "general-purpose"});
    let office =
        Office::new([Turn::call("task", task), Turn::calls([send(1)]), Turn::text("Sent."), Turn::text("Done.")]);
    let waiting = office.go().await;
    let id = waiting.action_requests()[0].id.clone();
    let done = office.answer(&[(&id, edit("send", json!({"n": 9})))]).await.unwrap();
    assert_eq!((done.text().as_str(), office.made()), ("Done.", vec!["send 9".to_owned()]));
    let told = office.told(2);
    assert!(told.contains(r#"Made instead: send with {\"n\":9}"#) && told.contains("send 9"), "{told}");
}

#[tokio::test]
async fn the_model_is_told_what_was_made_of_a_call_of_a_servers_tool_and_what_could_not_be() {
    for (args, words, is_error) in [
        (json!({"n": 9}), "Made instead: mcp__post__send with {\"n\":9}", false),
        (json!({"n": "nine"}), "It was not made either: mcp__post__send with {\"n\":\"nine\"}", true),
    ] {
        let office = Office::new([Turn::call("mcp__post__send", json!({"n": 1})), Turn::text("Done.")]);
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
        let tool =
            json_tool(
                "mcp__post__send",
                "Sends.",
                schema,
                |args, _cx| async move { Ok(format!("sent {}", args["n"])) },
            );
        let tools = ToolSet::new([Arc::new(tool) as Arc<dyn DynTool>]).unwrap();
        let offered = offered_tools(move |_cx| {
            let tools = tools.clone();
            async move { Ok(Some(tools)) }
        });
        let asks = InterruptPolicy::new().before("mcp__post__send", InterruptOn::any());
        let agent = office.builder().middleware(offered).interrupt_on(asks).build().unwrap();
        let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
        assert_eq!(waiting.stop, FinishReason::Interrupted);
        let decided = edit("mcp__post__send", args);
        let done = agent.invoke(RunInput::resume("t").decide("0.0", decided)).await.unwrap();
        let (told, failed) = &results(&done)[0];
        assert!(told.contains(words) && *failed == is_error, "{told}");
        assert_eq!(told.contains("sent 9"), !is_error, "{told}");
    }
}

#[tokio::test]
async fn nobody_is_asked_about_a_call_that_fits_what_the_model_is_shown_and_none_of_the_alternatives() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"properties": {"code": {"type": "string"}}, "required": ["code"]},
    ]});
    let office = Office::new([Turn::calls([("place", json!({}))]), Turn::text("Done.")]);
    let place = json_tool("place", "A tool.", schema, |_, _cx| async { Ok("placed") });
    let policy = InterruptPolicy::new().before("place", InterruptOn::any());
    let done = office.builder().tool(place).interrupt_on(policy).build().unwrap();
    let done = done.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(done.stop, FinishReason::Done);
    assert!(results(&done)[0].0.contains("place does not take these arguments"), "{:?}", results(&done));
}
