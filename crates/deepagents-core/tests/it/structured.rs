//! Structured output.

use std::sync::Arc;

use deepagents_core::error::Error;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::{Block, Message};
use deepagents_core::middleware::{HookOutput, JumpTo, ModelNext, after_agent, wrap_model_call};
use deepagents_core::model::{ModelProfile, StopReason, ToolChoice};
use deepagents_core::run::{FinishReason, Outcome, RunError, RunInput};
use deepagents_core::structured::{OutputStrategy, ResponseFormat};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};

use crate::support::{agent, assert_sound, echo, lines};

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Person {
    name: String,
    age: u32,
}

fn ada() -> Value {
    json!({"name": "Ada", "age": 36})
}

fn native(turns: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    let mut profile = ModelProfile::default();
    profile.structured_output = Some(true);
    ScriptedModel::new(turns).with_profile(profile)
}

async fn ask(model: ScriptedModel, format: ResponseFormat) -> Result<Outcome, Box<RunError>> {
    let ended = agent(model).response_format(format).tool(echo()).build().unwrap().invoke("who?").await;
    match &ended {
        Ok(outcome) => assert_sound(outcome.messages()),
        Err(error) => assert_sound(error.state.messages()),
    }
    ended
}

fn person() -> ResponseFormat {
    ResponseFormat::for_type::<Person>()
}

#[tokio::test]
async fn a_model_with_native_schemas_is_given_one_and_its_text_is_parsed() {
    let model = native([Turn::text(ada().to_string())]);
    let outcome = ask(model.clone(), person()).await.unwrap();
    assert_eq!(outcome.structured::<Person>().unwrap(), Person { name: "Ada".into(), age: 36 });
    let request = &model.requests()[0];
    assert_eq!(request.output_schema.as_ref().unwrap().name, "Person");
    assert_eq!((request.tools.len(), &request.tool_choice), (1, &ToolChoice::Auto));
}

#[tokio::test]
async fn code_fences_around_the_answer_are_ignored() {
    let outcome = ask(native([Turn::text(format!("```json\n{}\n```", ada()))]), person()).await.unwrap();
    assert_eq!(outcome.structured_json(), Some(&ada()));
}

#[tokio::test]
async fn an_invalid_text_answer_is_returned_with_its_problems() {
    let model =
        native([Turn::text("Ada, 36"), Turn::text(json!({"name": "Ada"}).to_string()), Turn::text(ada().to_string())]);
    let outcome = ask(model, person()).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Done, Some(&ada())));
    let lines = lines(outcome.messages());
    assert!(lines[2].contains("not JSON"), "{}", lines[2]);
    assert!(lines[4].contains("age"), "{}", lines[4]);
}

#[tokio::test]
async fn too_many_invalid_answers_fail_the_run_with_the_last_problem() {
    let model = native([Turn::text("1"), Turn::text("2"), Turn::text("three")]);
    let error = ask(model, person()).await.unwrap_err();
    let Error::Structured { name, tries, reason } = &*error.error else { panic!("{error:?}") };
    assert_eq!((name.as_str(), *tries), ("Person", 3));
    assert!(reason.contains("not JSON"), "{reason}");
    assert_eq!(error.kind(), "structured_output");
    assert_eq!(lines(error.state.messages()).last().unwrap(), "assistant: three");
    let once = ask(native([Turn::text("1")]), person().retries(0)).await.unwrap_err();
    assert!(matches!(&*once.error, Error::Structured { tries: 1, .. }));
}

#[tokio::test]
async fn an_answer_with_an_unknown_stop_reason_counts_as_an_attempt() {
    let odd = || Turn::text("no").stop(StopReason::Other("weird".to_owned()));
    let error = ask(native([odd(), odd(), odd()]), person()).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Structured { tries: 3, .. }), "{error:?}");
}

#[tokio::test]
async fn an_empty_answer_is_returned_like_any_other_invalid_one() {
    for model in [
        native([Turn::blocks([]), Turn::text(ada().to_string())]),
        ScriptedModel::new([Turn::blocks([]), Turn::call("Person", ada())]),
    ] {
        let outcome = ask(model, person()).await.unwrap();
        assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Done, Some(&ada())));
    }
}

#[tokio::test]
async fn an_answer_cut_off_by_its_token_limit_is_reported_and_not_retried() {
    let model = native([Turn::text("{\"name\": \"Ad").stop(StopReason::MaxTokens)]);
    let outcome = ask(model, person()).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::TokenLimit, None));
}

#[tokio::test]
async fn a_model_without_native_schemas_is_given_a_tool_and_must_call_one() {
    let model = ScriptedModel::new([Turn::call("Person", ada())]);
    let outcome = ask(model.clone(), person()).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::Done, 1));
    assert_eq!(outcome.structured::<Person>().unwrap().name, "Ada");
    let request = &model.requests()[0];
    assert_eq!(request.tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["Person", "echo"]);
    assert_eq!(request.tool_choice, ToolChoice::Any);
    assert!(request.output_schema.is_none());
}

#[tokio::test]
async fn the_output_strategy_can_be_chosen() {
    let model = native([Turn::call("Person", ada())]);
    assert!(ask(model, person().strategy(OutputStrategy::Tool)).await.unwrap().structured_json().is_some());
    let model = ScriptedModel::new([Turn::text(ada().to_string())]);
    assert!(ask(model, person().strategy(OutputStrategy::Provider)).await.unwrap().structured_json().is_some());
}

#[tokio::test]
async fn another_model_without_native_schemas_is_given_a_tool_in_their_place() {
    let other = ScriptedModel::new([Turn::call("Person", json!({"name": 1})), Turn::call("Person", ada())]);
    let called = other.clone();
    let swapped = wrap_model_call(move |request, next: ModelNext| {
        let other = Arc::new(called.clone());
        async move { next.with_model(other).run(request).await }
    });
    let agent = agent(native([])).response_format(person()).tool(echo()).middleware(swapped).build().unwrap();
    let outcome = agent.invoke("who?").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Done, Some(&ada())));
    for request in other.requests() {
        assert_eq!(request.tools.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["Person", "echo"]);
        assert_eq!((request.tool_choice, request.output_schema), (ToolChoice::Any, None));
    }
}

#[tokio::test]
async fn an_answer_divided_into_blocks_is_parsed_as_one_text() {
    let whole = ada().to_string();
    let (start, end) = whole.split_at(whole.find("da").unwrap());
    let outcome = ask(native([Turn::blocks([Block::text(start), Block::text(end)])]), person()).await.unwrap();
    assert_eq!((outcome.structured_json(), outcome.text()), (Some(&ada()), whole));
}

#[tokio::test]
async fn an_invalid_output_call_gets_an_error_result_and_may_be_repeated() {
    let model = ScriptedModel::new([Turn::call("Person", json!({"name": 1})), Turn::call("Person", ada())]);
    let outcome = ask(model, person()).await.unwrap();
    let lines = lines(outcome.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("age") && lines[2].contains("/name"), "{}", lines[2]);
    assert_eq!(outcome.structured_json(), Some(&ada()));
}

#[tokio::test]
async fn output_calls_that_are_never_valid_fail_the_run() {
    let bad = || Turn::call("Person", json!({}));
    let error = ask(ScriptedModel::new([bad(), bad(), bad()]), person()).await.unwrap_err();
    assert!(matches!(&*error.error, Error::Structured { tries: 3, .. }), "{error:?}");
}

#[tokio::test]
async fn plain_text_instead_of_the_output_call_is_answered_with_the_tools_name() {
    let model = ScriptedModel::new([Turn::text("It is Ada."), Turn::call("Person", ada())]);
    let outcome = ask(model, person()).await.unwrap();
    assert!(lines(outcome.messages())[2].contains("`Person`"));
    assert_eq!(outcome.structured_json(), Some(&ada()));
}

#[tokio::test]
async fn a_valid_output_call_beside_another_call_ends_the_run_after_both() {
    let turn = Turn::calls([("Person", ada()), ("echo", json!({"x": 1}))]);
    let outcome = ask(ScriptedModel::new([turn]), person()).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Done, Some(&ada())));
    assert_eq!(lines(outcome.messages())[3..], ["result: {\"x\":1}"]);
}

#[tokio::test]
async fn an_invalid_output_call_beside_another_call_does_not_end_the_run() {
    let turn = Turn::calls([("echo", json!({"x": 1})), ("Person", json!({}))]);
    let outcome = ask(ScriptedModel::new([turn, Turn::call("Person", ada())]), person()).await.unwrap();
    let lines = lines(outcome.messages());
    assert_eq!(lines[2], "result: {\"x\":1}");
    assert!(lines[3].starts_with("error: "), "{}", lines[3]);
    assert_eq!(outcome.structured_json(), Some(&ada()));
}

#[tokio::test]
async fn two_output_calls_in_one_turn_are_one_invalid_answer() {
    let turn = Turn::calls([("Person", ada()), ("Person", json!({"name": "Bob", "age": 1}))]);
    let outcome = ask(ScriptedModel::new([turn, Turn::call("Person", ada())]), person().retries(1)).await.unwrap();
    let lines = lines(outcome.messages());
    assert!(lines[2].contains("once, not 2 times") && lines[3].contains("once, not 2 times"), "{lines:?}");
    assert_eq!(outcome.structured_json(), Some(&ada()));
}

#[tokio::test]
async fn structured_output_of_an_earlier_run_is_not_taken_for_this_runs() {
    let cut = Turn::text("I am afraid").stop(StopReason::Refusal);
    let agent = agent(native([Turn::text(ada().to_string()), cut]))
        .response_format(person())
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let first = agent.invoke(RunInput::new("who?").thread("t")).await.unwrap();
    assert!(first.structured_json().is_some());
    let second = agent.invoke(RunInput::new("and who else?").thread("t")).await.unwrap();
    assert_eq!((second.stop.clone(), second.structured_json()), (FinishReason::Refused, None));
    assert_eq!(second.structured::<Person>().unwrap_err().kind(), "input");
}

#[tokio::test]
async fn structured_output_rejected_by_a_hook_is_not_kept_for_the_next_answer() {
    let agent = agent(native([Turn::text(ada().to_string()), Turn::text("no").stop(StopReason::Refusal)]))
        .response_format(person())
        .middleware(after_agent(|cx: deepagents_core::run::Context| async move {
            let first = cx.messages().len() == 2;
            Ok(if first {
                HookOutput::message(Message::user("are you sure?")).and_go(JumpTo::Model)
            } else {
                HookOutput::next()
            })
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("who?").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Refused, None));
}

#[test]
fn an_output_named_like_a_tool_is_a_build_error_and_odd_names_are_sanitised() {
    let format = ResponseFormat::json("echo", json!({"type": "object"}));
    assert!(agent(ScriptedModel::new([])).tool(echo()).response_format(format).build().is_err());
    assert_eq!(ResponseFormat::json("Vec<é>", json!({"type": "object"})).name(), "Vec___");
    assert_eq!(ResponseFormat::json("", json!({"type": "object"})).name(), "response");
}

#[tokio::test]
async fn bare_json_text_is_accepted_even_when_there_is_an_output_tool() {
    let model = ScriptedModel::new([Turn::text("Ada, 36"), Turn::text(ada().to_string())]);
    let outcome = ask(model.clone(), person()).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.structured_json()), (FinishReason::Done, Some(&ada())));
    assert!(model.requests()[1].messages.last().unwrap().text().contains("calling the tool `Person`"));
}

#[test]
fn an_invalid_schema_is_rejected_when_the_agent_is_built() {
    let format = ResponseFormat::json("x", json!({"type": "nonsense"}));
    let error = agent(ScriptedModel::new([])).response_format(format).build().unwrap_err().to_string();
    assert!(error.starts_with("the schema of response format `x` is not valid: "), "{error}");
}

#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
enum Choice {
    Yes,
    No,
}

/// A list within lists.
#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
enum Tree {
    Leaf(String),
    Branch(Vec<Tree>),
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind")]
enum Pet {
    Cat { name: String },
    Dog { age: u32 },
}

#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Unit;

/// Requests structured output with both strategies; the first response is invalid and the second valid.
async fn shaped<T>(wrong: Value, right: Value) -> (T, Value)
where
    T: serde::de::DeserializeOwned + schemars::JsonSchema + std::fmt::Debug + PartialEq + 'static,
{
    let format = ResponseFormat::for_type::<T>();
    let by_text = native([Turn::text(wrong.to_string()), Turn::text(right.to_string())]);
    let by_call = ScriptedModel::new([Turn::call(format.name(), wrong), Turn::call(format.name(), right)]);
    let mut answers = Vec::new();
    for model in [by_text, by_call.clone()] {
        let outcome = ask(model, format.clone()).await.unwrap();
        assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::Done, 2));
        answers.push((outcome.structured::<T>().unwrap(), outcome.structured_json().unwrap().clone()));
    }
    let offered = by_call.requests()[0].tools.iter().find(|tool| tool.name == format.name()).unwrap().schema.clone();
    assert_eq!((&offered["type"], &offered["required"]), (&json!("object"), &json!(["value"])));
    let other = answers.pop().unwrap();
    assert_eq!(answers[0], other);
    other
}

#[tokio::test]
async fn a_non_object_output_is_wrapped_in_an_object_and_returned_unwrapped() {
    let value = |value: Value| json!({"value": value});
    let (choice, json) = shaped::<Choice>(json!("Yes"), value(json!("No"))).await;
    assert_eq!((choice, json), (Choice::No, json!("No")));
    let (people, json) = shaped::<Vec<Person>>(json!({}), value(json!([ada()]))).await;
    assert_eq!((people[0].name.as_str(), json), ("Ada", json!([ada()])));
    assert_eq!(shaped::<String>(value(json!(1)), value(json!("words"))).await.0, "words");
    let dog = json!({"kind": "Dog", "age": 3});
    assert_eq!(shaped::<Pet>(value(json!({"kind": "Cat"})), value(dog.clone())).await, (Pet::Dog { age: 3 }, dog));
    let nested = json!(["a", ["b"]]);
    let tree = Tree::Branch(vec![Tree::Leaf("a".into()), Tree::Branch(vec![Tree::Leaf("b".into())])]);
    assert_eq!(shaped::<Tree>(value(json!(["a", [1]])), value(nested)).await.0, tree);
}

#[tokio::test]
async fn a_null_output_is_accepted_and_not_asked_for_again() {
    let null = json!({"value": null});
    assert_eq!(shaped::<Option<Person>>(json!({"value": {"name": 1}}), null.clone()).await.0, None);
    let someone = shaped::<Option<Person>>(json!({}), json!({"value": ada()})).await.0;
    assert_eq!(someone.unwrap().name, "Ada");
    assert_eq!(shaped::<Unit>(json!({}), null).await.0, Unit);
}
