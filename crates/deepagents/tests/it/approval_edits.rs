//! Edited calls.

use std::sync::Arc;

use deepagents::core::interrupt::DecisionError;
use deepagents::core::middleware::offered_tools;
use deepagents::core::tool::{DynTool, ToolSet};
use deepagents::models::scripted::Turn;
use deepagents::profile::ProfileConfig;
use deepagents::{
    DecisionAuthor, DecisionRecord, FinishReason, InterruptOn, InterruptPolicy, RunInput, json_tool, tool_fn,
};
use serde_json::{Value, json};

use crate::approval::{Office, edit, refused, send};
use crate::results;

#[tokio::test]
async fn an_edit_with_invalid_arguments_is_rejected_and_leaves_the_question_open() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let before = office.records().await.len();
    let wrong = [
        (edit("send", json!({"n": "one"})), "/n"),
        (edit("send", json!({})), "\"n\" is a required property"),
        (edit("send", json!({"n": 2, "cc": "b"})), "it does not name `cc`"),
        (edit("other", json!({"m": 2})), "\"n\" is a required property"),
    ];
    for (decision, words) in wrong {
        let error = refused(office.answer(&[("0.0", decision)]).await);
        assert!(
            matches!(&error, DecisionError::Arguments { id, reason } if id == "0.0" && reason.contains(words)),
            "{error}"
        );
    }
    assert_eq!((office.records().await.len(), office.made().len()), (before, 0), "nothing was stored or made");
    let done = office.answer(&[("0.0", edit("send", json!({"n": 2})))]).await.unwrap();
    assert_eq!((done.text().as_str(), office.made()), ("Done.", vec!["send 2".to_owned()]));
}

#[tokio::test]
async fn an_edit_may_keep_the_models_unknown_arguments() {
    let office = Office::new([Turn::call("send", json!({"n": 1, "cc": "b"})), Turn::text("Done.")]);
    office.go().await;
    office.answer(&[("0.0", edit("send", json!({"n": 2, "cc": "b"})))]).await.unwrap();
    assert_eq!(office.made(), ["send 2"]);
}

#[tokio::test]
async fn an_invalid_edit_by_a_rule_is_reported_to_the_model() {
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
async fn a_sub_agents_model_is_told_how_its_call_was_edited() {
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
async fn the_model_is_told_which_edit_of_a_server_tool_call_was_or_was_not_made() {
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
async fn a_call_matching_no_schema_alternative_is_rejected_without_asking() {
    let schema = json!({"type": "object", "oneOf": [
        {"properties": {"city": {"type": "string"}}, "required": ["city"]},
        {"properties": {"code": {"type": "string"}}, "required": ["code"]},
    ]});
    let described: ProfileConfig =
        serde_json::from_value(json!({"tool_description_overrides": {"place": "Places things."}})).unwrap();
    for profile in [ProfileConfig::default(), described] {
        let office = Office::new([Turn::calls([("place", json!({}))]), Turn::text("Done.")]);
        let place = json_tool("place", "A tool.", schema.clone(), |_, _cx| async { Ok("placed") });
        let policy = InterruptPolicy::new().before("place", InterruptOn::any());
        let done = office.builder().tool(place).interrupt_on(policy).profile(profile).build().unwrap();
        let done = done.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
        assert_eq!(done.stop, FinishReason::Done);
        assert!(results(&done)[0].0.contains("place does not take these arguments"), "{:?}", results(&done));
    }
}

/// Returns the text of the question about a call of a tool with this schema.
async fn question(schema: Value, args: Value) -> String {
    let office = Office::new([Turn::calls([("place", args)]), Turn::text("Done.")]);
    let place = json_tool("place", "A tool.", schema, |_, _cx| async { Ok("placed") });
    let policy = InterruptPolicy::new().before("place", InterruptOn::any());
    let agent = office.builder().tool(place).interrupt_on(policy).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    waiting.action_requests()[0].text.clone()
}

#[tokio::test]
async fn an_argument_is_named_wherever_in_its_schema_that_is_done() {
    let point = json!({"type": "object", "properties": {"x": {"type": "integer"}}});
    let args = json!({"a": {"x": 1, "y": 2}, "b": 1});
    let named = [
        // Two parts describe one argument.
        json!({"type": "object", "properties": {"a": point, "b": {}},
            "allOf": [{"properties": {"a": {"properties": {"y": {}}}}}]}),
        // A part that is the target of a reference and also an argument.
        json!({"type": "object", "properties": {"p": point, "b": {},
            "a": {"allOf": [{"$ref": "#/properties/p"}, {"properties": {"y": {}}}]}}}),
        json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/p"}}, "dependentSchemas": {"a": {"properties": {"b": {}}}},
            "$defs": {"p": {"properties": {"x": {}}, "if": {"required": ["x"]}, "then": {"properties": {"y": {}}}}}}),
        json!({"type": "object", "properties": {"b": {}}, "patternProperties": {"^a$": {}}}),
        json!({"type": "object", "properties": {"b": {}}, "oneOf": [{"properties": {"a": {}}, "required": ["a"]}]}),
        json!({"type": "object", "properties": {"b": {}}, "anyOf": [{"type": "object", "additionalProperties": true}]}),
        json!({"type": "object", "properties": {"b": {}}, "unevaluatedProperties": {"type": "object"}}),
    ];
    for schema in named {
        let text = question(schema.clone(), args.clone()).await;
        assert!(!text.contains("may ignore some"), "{schema}: {text}");
    }
    let unnamed = [
        (json!({"type": "object", "properties": {"a": point}}), "`a/y`, `b`"),
        (json!({"type": "object", "properties": {"b": {}}, "allOf": [{"properties": {"a": point}}]}), "`a/y`"),
        (json!({"type": "object", "properties": {"b": {}}, "oneOf": [{"properties": {"c": {}}}]}), "`a`"),
        (json!({"type": "object", "properties": {"a": {"$ref": "#"}, "x": {}, "y": {}}}), "`b`"),
    ];
    for (schema, fields) in unnamed {
        let text = question(schema.clone(), args.clone()).await;
        assert!(text.ends_with(&format!("may ignore some: {fields}")), "{schema}: {text}");
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Order {
    /// The number of items to order.
    n: u32,
    #[serde(flatten)]
    to: Target,
    #[serde(flatten)]
    more: Option<Extra>,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum Target {
    Named { name: String },
    Any(std::collections::BTreeMap<String, Value>),
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Extra {
    note: String,
}

#[tokio::test]
async fn what_a_type_takes_that_is_put_together_of_others_is_named_by_its_tool() {
    let order = tool_fn("order", "Orders.", |order: Order, _cx| async move {
        let to = match order.to {
            Target::Named { name } => name,
            Target::Any(fields) => format!("{fields:?}"),
        };
        Ok(format!("{} to {to} {}", order.n, order.more.map(|more| more.note).unwrap_or_default()))
    });
    let office =
        Office::new([Turn::call("order", json!({"n": 1, "street": "Long", "note": "soon"})), Turn::text("Done.")]);
    let policy = InterruptPolicy::new().before("order", InterruptOn::any());
    let agent = office.builder().tool(order).interrupt_on(policy).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let text = &waiting.action_requests()[0].text;
    assert!(!text.contains("may ignore some"), "{text}");
}
