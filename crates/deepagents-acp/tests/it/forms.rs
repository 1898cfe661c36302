//! Questions shown as forms in the editor.

use std::sync::{Arc, Mutex};

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{AnswerForm, Decision, FieldKind, FieldOption, FormField, ToolContext, ToolError, tool_fn};
use serde_json::{Value, json};

use crate::editor::{Editor, Host, allows};
use crate::questions::asking;

const FORMS: &str = r#"{"elicitation": {"form": {}}}"#;

/// Asks once, with this response of the editor. Returns the form shown and the result for the model.
async fn asked(host: Host, response: Value) -> (Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let shown: Arc<Mutex<Vec<Value>>> = Arc::default();
    let seen = shown.clone();
    let fill_in = move |method: &str, params: &Value| {
        assert_eq!(method, "elicitation/create");
        seen.lock().unwrap().push(params.clone());
        Some(Ok(response.clone()))
    };
    let mut editor = Editor::connect(host.clone(), serde_json::from_str(FORMS).unwrap(), fill_in).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Ask.").await, "end_turn");
    let told = host.model.requests()[1].messages.last().unwrap().text();
    let shown = shown.lock().unwrap();
    assert_eq!(shown.len(), 1, "asked once: {told}");
    (shown[0].clone(), told)
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// A host with a tool that asks for the fields of an order and returns the answer.
fn ordering() -> Host {
    let option =
        |value: &str, title: Option<&str>| FieldOption { value: value.into(), title: title.map(str::to_owned) };
    let field =
        |name: &str, required, kind| FormField { name: name.into(), title: None, description: None, required, kind };
    let size =
        FieldKind::Choice { options: vec![option("s", Some("small")), option("l", None)], default: Some("l".into()) };
    let with =
        FieldKind::Several { options: vec![option("ice", None), option("mint", None)], default: vec!["ice".into()] };
    let about = FormField {
        title: Some("Your name".into()),
        description: Some("for the cup".into()),
        ..field("who", true, FieldKind::Text { default: None })
    };
    let fields = vec![
        about,
        field("size", true, size),
        field("with", false, with),
        field("cups", false, FieldKind::Number { integer: true, default: Some(2.into()) }),
        field("litres", false, FieldKind::Number { integer: false, default: None }),
        field("again", false, FieldKind::Boolean { default: Some(false) }),
    ];
    let tool = tool_fn("order", "Asks what to bring.", move |_: Nothing, cx: ToolContext| {
        let form = AnswerForm::Fields { fields: fields.clone() };
        async move {
            match cx.interrupt_for_answer("What may it be?", Some(form))? {
                Decision::Respond { message } => Ok(message),
                _ => Err(ToolError::model("Nothing, thanks.")),
            }
        }
    });
    let model = ScriptedModel::new([Turn::call("order", json!({})), Turn::text("Done.")]);
    Host { tool: Some(Arc::new(tool)), ..Host::new(model) }
}

/// A host whose model asks the person to choose.
fn choosing(several: bool) -> Host {
    let args = json!({"question": "Which colour?", "choices": ["red", "dark, blue", "green"], "several": several});
    Host::new(ScriptedModel::new([Turn::call("ask_user", args), Turn::text("Done.")]))
}

#[tokio::test]
async fn a_tools_text_question_is_answered_through_a_form() {
    let (shown, told) = asked(asking(), json!({"action": "accept", "content": {"answer": "green"}})).await;
    assert_eq!((&shown["message"], &shown["mode"]), (&json!("Which colour?"), &json!("form")));
    assert!(shown["toolCallId"].is_string(), "{shown}");
    assert_eq!(told, "It is green.");
}

#[tokio::test]
async fn form_fields_keep_their_order_and_map_to_protocol_types() {
    let filled = json!({"who": "Ada", "size": "s", "with": ["mint"], "cups": 3, "litres": 0.5, "again": true, "x": 1});
    let (shown, told) = asked(ordering(), json!({"action": "accept", "content": filled})).await;
    let schema = &shown["requestedSchema"];
    let lines = schema["properties"].as_object().unwrap().iter().map(|(name, field)| format!("{name}: {field}"));
    insta::assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @r#"
    who: {"type":"string","title":"Your name","description":"for the cup"}
    size: {"type":"string","default":"l","oneOf":[{"const":"s","title":"small"},{"const":"l","title":"l"}]}
    with: {"type":"array","items":{"anyOf":[{"const":"ice","title":"ice"},{"const":"mint","title":"mint"}]},"default":["ice"]}
    cups: {"type":"integer","default":2}
    litres: {"type":"number"}
    again: {"type":"boolean","default":false}
    "#);
    assert_eq!(schema["required"], json!(["who", "size"]));
    assert_eq!(told, r#"{"who":"Ada","size":"s","with":["mint"],"cups":3,"litres":0.5,"again":true}"#);
}

#[tokio::test]
async fn a_declined_form_rejects_and_a_dismissed_form_leaves_the_question_open() {
    let (_, told) = asked(ordering(), json!({"action": "decline"})).await;
    assert_eq!(told, "Nothing, thanks.");
    let dir = tempfile::tempdir().unwrap();
    let host = ordering();
    let close = |_: &str, _: &Value| Some(Ok(json!({"action": "cancel"})));
    let mut editor = Editor::connect(host.clone(), serde_json::from_str(FORMS).unwrap(), close).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Ask.").await, "cancelled");
    assert_eq!(host.model.requests().len(), 1, "nobody has answered");
}

#[tokio::test]
async fn a_model_can_ask_the_user_only_in_an_editor_with_forms() {
    let (shown, told) = asked(choosing(false), json!({"action": "accept", "content": {"choice": "dark, blue"}})).await;
    assert_eq!(shown["requestedSchema"]["properties"]["choice"]["enum"], json!(["red", "dark, blue", "green"]));
    assert_eq!(told, "The user chose: dark, blue");
    let several = json!({"action": "accept", "content": {"choice": ["green", "red"]}});
    assert_eq!(asked(choosing(true), several).await.1, "The user chose: green, red");
    let other = json!({"action": "accept", "content": {"choice": "red", "other": "pink"}});
    assert_eq!(asked(choosing(false), other).await.1, "The user answered: pink");

    let dir = tempfile::tempdir().unwrap();
    let host = Host::new(ScriptedModel::new([Turn::text("Hello.")]));
    let mut editor = Editor::connect(host.clone(), json!({}), allows).await;
    let session = editor.session(dir.path()).await;
    editor.say(&session, "Hello.").await;
    assert!(!host.model.requests()[0].tools.iter().any(|tool| tool.name == "ask_user"));
}

/// A host with a tool that asks for confirmation and continues in either case.
fn agreeing() -> Host {
    let tool = tool_fn("agree", "Asks whether it may.", |_: Nothing, cx: ToolContext| async move {
        let form = AnswerForm::Fields { fields: Vec::new() };
        Ok::<_, ToolError>(match cx.interrupt_for_answer("May I?", Some(form))? {
            Decision::Respond { message } => message,
            _ => "without".to_owned(),
        })
    });
    let model = ScriptedModel::new([Turn::call("agree", json!({})), Turn::text("Done.")]);
    Host { tool: Some(Arc::new(tool)), ..Host::new(model) }
}

#[tokio::test]
async fn a_form_without_fields_can_be_accepted() {
    let (shown, told) = asked(agreeing(), json!({"action": "accept"})).await;
    let schema = &shown["requestedSchema"];
    assert!(schema["properties"].as_object().is_none_or(serde_json::Map::is_empty), "{schema}");
    assert_eq!(told, "{}");
}

#[tokio::test]
async fn a_call_with_a_declined_form_shows_its_final_status() {
    let dir = tempfile::tempdir().unwrap();
    let decline = |_: &str, _: &Value| Some(Ok(json!({"action": "decline"})));
    let mut editor = Editor::connect(agreeing(), serde_json::from_str(FORMS).unwrap(), decline).await;
    let session = editor.session(dir.path()).await;
    assert_eq!(editor.say(&session, "Ask.").await, "end_turn");
    let calls = editor.calls();
    let ends: Vec<&Value> = calls.iter().map(|call| &call["status"]).filter(|status| *status != "pending").collect();
    assert!(!ends.contains(&&json!("failed")) && ends.contains(&&json!("completed")), "{calls:?}");
    assert!(calls.last().unwrap().to_string().contains("without"), "{calls:?}");
}
