//! Failing tools, and the history they leave.

use std::num::ParseIntError;
use std::sync::{Arc, Mutex};

use deepagents_core::error::{BoxError, Error};
use deepagents_core::middleware::{ToolResponse, wrap_tool_call};
use deepagents_core::tool::{DynTool, Effect, ToolContext, ToolError, ToolOutput, ToolSpec};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_core::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::support::{agent, assert_sound, echo, lines, tool};

async fn result_of(turn: Turn, tool: impl DynTool) -> String {
    let agent = agent(ScriptedModel::new([turn, Turn::text("done")])).tool(tool).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(outcome.text(), "done");
    lines(outcome.messages())[2].clone()
}

fn call() -> Turn {
    Turn::call("work", json!({}))
}

#[tokio::test]
async fn an_unknown_tool_error_lists_the_available_tools() {
    let line = result_of(Turn::call("nope", json!({})), echo()).await;
    assert_eq!(line, "error: Error: nope is not a tool you have. Your tools are: echo.");
    let long: &'static str = Box::leak("ü".repeat(1_000_000).into_boxed_str());
    let line = result_of(Turn::call(long, json!({})), echo()).await;
    assert_eq!(line, format!("error: Error: {}… is not a tool you have. Your tools are: echo.", "ü".repeat(128)));
}

#[tokio::test]
async fn an_unknown_tool_error_lists_only_the_first_of_very_many_tools() {
    let mut built = agent(ScriptedModel::new([Turn::call("nope", json!({})), Turn::text("done")]));
    for number in 0..5_000 {
        built = built.tool(tool(&format!("tool_{number:04}"), |_, _| async { Ok(String::new()) }));
    }
    let outcome = built.build().unwrap().invoke("go").await.unwrap();
    let line = lines(outcome.messages())[2].clone();
    assert!(line.ends_with("tool_0098, tool_0099 and 4900 more.") && line.len() < 2_000, "{line}");
}

#[tokio::test]
async fn boxed_errors_and_plain_messages_reach_the_model_too() {
    fn boxed() -> Result<String, BoxError> {
        let source = std::io::Error::other(CannotReach(std::io::Error::other("no route")));
        Err(Box::new(source))
    }
    #[derive(Debug, thiserror::Error)]
    #[error("cannot reach the shop")]
    struct CannotReach(#[source] std::io::Error);
    let work = tool("work", |_, _| async { Ok(boxed()?) });
    assert_eq!(result_of(call(), work).await, "error: cannot reach the shop: no route");
    let work = tool("work", |_, _| async { Err::<String, _>("the shop is closed".into()) });
    assert_eq!(result_of(call(), work).await, "error: the shop is closed");
}

#[tokio::test]
async fn a_tool_error_and_its_causes_reach_the_model_and_the_run_continues() {
    #[derive(Debug, thiserror::Error)]
    #[error("cannot save")]
    struct CannotSave(#[source] std::io::Error);
    let work = tool("work", |_, _| async {
        Err::<String, _>(CannotSave(std::io::Error::other("the disk is full")))?;
        Ok("saved")
    });
    assert_eq!(result_of(call(), work).await, "error: cannot save: the disk is full");
}

#[tokio::test]
async fn a_denied_call_is_an_error_result() {
    let work = tool("work", |_, _| async { Err::<String, _>(ToolError::denied("not without asking")) });
    assert_eq!(result_of(call(), work).await, "error: not without asking");
}

#[tokio::test]
async fn a_panicking_tool_gives_an_error_result_with_the_panic_message() {
    let work = tool("work", |args: Value, _| async move {
        assert!(args["fine"] == true, "no such row: {}", 7);
        Ok("unreachable")
    });
    let line = result_of(call(), work).await;
    assert!(line.starts_with("error: ") && line.contains("no such row: 7"), "{line}");
}

/// A tool that panics in `effect`.
struct Broken;
impl DynTool for Broken {
    fn spec(&self) -> ToolSpec {
        ToolSpec { name: "work".to_owned(), description: String::new(), schema: Arc::new(json!({"type": "object"})) }
    }
    fn effect(&self, _args: &Value) -> Effect {
        panic!("it depends")
    }
    fn call(self: Arc<Self>, _args: Value, _cx: ToolContext) -> BoxFuture<'static, Result<ToolOutput, ToolError>> {
        Box::pin(async { Ok(ToolOutput::text("done after all")) })
    }
}

#[tokio::test]
async fn a_tool_that_panics_while_declaring_its_effects_still_runs() {
    assert_eq!(result_of(call(), Broken).await, "result: done after all");
}

#[tokio::test]
async fn a_fatal_error_ends_the_run_after_its_siblings_and_leaves_a_valid_history() {
    let (failed, wait) = oneshot::channel::<()>();
    let (failed, wait) = (Mutex::new(Some(failed)), Arc::new(Mutex::new(Some(wait))));
    let bad = tool("bad", move |_, _| {
        // Dropped when the future ends: the sibling continues only after the failure.
        let failed = failed.lock().unwrap().take();
        async move {
            let _failed = failed;
            Err::<String, _>(ToolError::fatal("the database is gone"))
        }
    });
    let good = tool("good", move |_, _| {
        let wait = wait.lock().unwrap().take().unwrap();
        async move {
            let _ = wait.await;
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
            Ok("finished")
        }
    });
    let turn = Turn::calls([("bad", json!({})), ("good", json!({}))]);
    let agent = agent(ScriptedModel::new([turn])).tool(bad).tool(good).build().unwrap();
    let error = agent.invoke("go").await.unwrap_err();
    assert!(matches!(&*error.error, Error::Tool { name, .. } if name == "bad"), "{error:?}");
    assert_eq!(error.to_string(), "tool `bad` failed: the database is gone");
    assert_sound(error.state.messages());
    let lines = lines(error.state.messages());
    assert!(lines[2].starts_with("error: ") && lines[2].contains("the database is gone"), "{}", lines[2]);
    assert_eq!(lines[3..], ["result: finished"]);
}

#[tokio::test]
async fn of_two_fatal_errors_the_first_one_is_reported() {
    let bad = tool("bad", |args: Value, _| async move {
        if args["n"] == 2 {
            for _ in 0..20 {
                tokio::task::yield_now().await;
            }
        }
        Err::<String, _>(ToolError::fatal(format!("failure {}", args["n"])))
    });
    let turn = Turn::calls([("bad", json!({"n": 1})), ("bad", json!({"n": 2}))]);
    let agent = agent(ScriptedModel::new([turn])).tool(bad).build().unwrap();
    let error = agent.invoke("go").await.unwrap_err();
    assert_eq!(error.to_string(), "tool `bad` failed: failure 1");
    assert_sound(error.state.messages());
}

#[tokio::test]
async fn an_agent_whose_run_failed_can_be_run_again() {
    let bad = tool("bad", |_, _| async { Err::<String, _>(ToolError::fatal("gone")) });
    let model = ScriptedModel::new([Turn::call("bad", json!({})), Turn::text("hello again")]);
    let agent = agent(model).tool(bad).build().unwrap();
    agent.invoke("go").await.unwrap_err();
    assert_eq!(agent.invoke("hi").await.unwrap().text(), "hello again");
}

#[tokio::test]
async fn an_error_returned_by_a_wrap_reaches_the_model_and_the_run_continues() {
    let strict = wrap_tool_call(|_request, _next| async move {
        let number: u32 = "seven".parse().map_err(ToolError::from)?;
        Ok(ToolResponse::text(number.to_string()))
    });
    let model = ScriptedModel::new([call(), Turn::text("Understood.")]);
    let work = tool("work", |_, _| async { Ok("done") });
    let outcome = agent(model).tool(work).middleware(strict).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["error: invalid digit found in string", "assistant: Understood."]);
}

#[tokio::test]
async fn a_wrap_sees_the_type_of_a_tools_error() {
    let typed = wrap_tool_call(|request, next| async move {
        let response = next.run(request).await?;
        let is_number_error = response.source.as_ref().is_some_and(|error| error.is::<ParseIntError>());
        Ok(if is_number_error { ToolResponse::error("Give a number.") } else { response })
    });
    let work = tool("work", |_, _| async { Ok("seven".parse::<u32>()?.to_string()) });
    let model = ScriptedModel::new([call(), Turn::text("Understood.")]);
    let outcome = agent(model).tool(work).middleware(typed).build().unwrap().invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "error: Give a number.");
}
