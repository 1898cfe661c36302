//! The order of hooks.

use std::sync::Arc;

use deepagents_core::error::{Error, Result};
use deepagents_core::message::Message;
use deepagents_core::middleware::{
    HookOutput, JumpTo, Middleware, ModelNext, ModelResponse, ToolNext, ToolRequest, ToolResponse, after_agent,
    after_model, before_agent, before_model, modify_request, wrap_model_call, wrap_tool_call,
};
use deepagents_core::model::{ModelRequest, SystemBlock};
use deepagents_core::run::{Context, FinishReason};
use deepagents_core::tool::DynTool;
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, echo, lines, tool};

/// Records every hook call.
struct Noting(&'static str, Notes);

impl Noting {
    fn note(&self, hook: &str) -> Result<HookOutput> {
        self.1.add(format!("{hook} {}", self.0));
        Ok(HookOutput::next())
    }
}

impl Middleware for Noting {
    fn name(&self) -> &str {
        self.0
    }
    async fn before_agent(&self, _cx: &Context) -> Result<HookOutput> {
        self.note("before_agent")
    }
    async fn before_model(&self, _cx: &Context) -> Result<HookOutput> {
        self.note("before_model")
    }
    async fn modify_request(&self, mut request: ModelRequest, _cx: &Context) -> Result<ModelRequest> {
        self.note("modify_request")?;
        request.system.push(SystemBlock::new(self.0));
        Ok(request)
    }
    async fn wrap_model_call(&self, request: ModelRequest, next: ModelNext) -> Result<ModelResponse> {
        self.1.add(format!("wrap_model {} sees {}", self.0, request.system_text().replace("\n\n", "")));
        let response = next.run(request).await;
        self.note("/wrap_model")?;
        response
    }
    async fn after_model(&self, _cx: &Context) -> Result<HookOutput> {
        self.note("after_model")
    }
    async fn wrap_tool_call(&self, request: ToolRequest, next: ToolNext) -> Result<ToolResponse> {
        self.note("wrap_tool")?;
        let response = next.run(request).await;
        self.note("/wrap_tool")?;
        response
    }
    async fn after_agent(&self, _cx: &Context) -> Result<HookOutput> {
        self.note("after_agent")
    }
}

#[tokio::test]
async fn before_hooks_run_in_order_and_after_hooks_reversed_and_wraps_nest() {
    let notes = Notes::default();
    let inner = notes.clone();
    let work = tool("work", move |_, _| {
        let notes = inner.clone();
        async move {
            notes.add("the tool");
            Ok("ok")
        }
    });
    let agent = agent(ScriptedModel::new([Turn::call("work", json!({})), Turn::text("done")]))
        .middleware(Noting("A", notes.clone()))
        .middleware(Noting("B", notes.clone()))
        .middleware(Noting("C", notes.clone()))
        .tool(work)
        .build()
        .unwrap();
    agent.invoke("go").await.unwrap();
    insta::assert_snapshot!("order_of_hooks", notes.list().join("\n"));
}

#[tokio::test]
async fn a_hook_sees_what_the_hooks_before_it_changed() {
    let seen = Notes::default();
    let notes = seen.clone();
    let agent = agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(before_model(|_| async { Ok(HookOutput::message("reminder")) }).named("reminds"))
        .middleware(before_model(move |cx: Context| {
            notes.add(cx.messages().last().unwrap().text());
            async { Ok(HookOutput::next()) }
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(seen.list(), ["reminder"]);
    assert_eq!(lines(outcome.messages()), ["user: hi", "user: reminder", "assistant: done"]);
}

#[tokio::test]
async fn a_changed_request_reaches_the_model_but_is_not_stored() {
    let model = ScriptedModel::new([Turn::text("done")]);
    let agent = agent(model.clone())
        .middleware(modify_request(|mut request, _cx| async move {
            request.messages = Message::user("something else").text().as_str().into();
            Ok(request)
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(lines(&model.requests()[0].messages), ["user: something else"]);
    assert_eq!(lines(outcome.messages()), ["user: hi", "assistant: done"]);
}

#[tokio::test]
async fn closures_can_be_middlewares_for_every_hook() {
    let notes = Notes::default();
    let step = |word: &'static str| {
        let notes = notes.clone();
        move |_cx: Context| {
            notes.add(word);
            async { Ok(HookOutput::next()) }
        }
    };
    let (request_notes, model_notes, tool_notes) = (notes.clone(), notes.clone(), notes.clone());
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("done")]))
        .middleware(before_agent(step("before_agent")))
        .middleware(before_model(step("before_model")))
        .middleware(modify_request(move |request, _cx| {
            request_notes.add("modify_request");
            async { Ok(request) }
        }))
        .middleware(wrap_model_call(move |request, next| {
            model_notes.add("wrap_model_call");
            async move { next.run(request).await }
        }))
        .middleware(after_model(step("after_model")))
        .middleware(wrap_tool_call(move |request, next| {
            tool_notes.add("wrap_tool_call");
            async move { next.run(request).await }
        }))
        .middleware(after_agent(step("after_agent")))
        .tool(echo())
        .build()
        .unwrap();
    agent.invoke("go").await.unwrap();
    let turn = ["before_model", "modify_request", "wrap_model_call", "after_model"];
    let expected = [&["before_agent"], &turn[..], &["wrap_tool_call"], &turn[..], &["after_agent"]].concat();
    assert_eq!(notes.list(), expected);
}

#[tokio::test]
async fn a_failing_hook_ends_the_run_with_its_name_and_phase() {
    let agent = agent(ScriptedModel::new([Turn::text("never")]))
        .middleware(before_model(|_| async { Err(Error::Input("no budget".to_owned())) }).named("Budget"))
        .build()
        .unwrap();
    let error = agent.invoke("hi").await.unwrap_err();
    assert_eq!(error.to_string(), "before_model of middleware `Budget` failed: no budget");
    assert_eq!(lines(error.state.messages()), ["user: hi"]);
}

#[tokio::test]
async fn a_panicking_hook_fails_the_run_and_keeps_what_was_done() {
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({}))]))
        .middleware(
            after_model(|cx: Context| async move {
                assert!(cx.messages().len() < 2, "the hook is broken");
                Ok(HookOutput::next())
            })
            .named("Broken"),
        )
        .tool(echo())
        .build()
        .unwrap();
    let error = agent.run("go").outcome().await.unwrap_err();
    assert!(error.to_string().contains("Broken") && error.to_string().contains("the hook is broken"), "{error}");
    assert_sound(error.state.messages());
    assert_eq!(error.state.messages().len(), 3, "the call is answered");
}

#[tokio::test]
async fn only_after_agent_hooks_know_why_the_run_ends() {
    let notes = Notes::default();
    let (early, late) = (notes.clone(), notes.clone());
    let agent = agent(ScriptedModel::new([Turn::text("done")]))
        .middleware(before_model(move |cx: Context| {
            early.add(format!("{:?}", cx.stop()));
            async { Ok(HookOutput::next()) }
        }))
        .middleware(after_agent(move |cx: Context| {
            late.add(format!("{:?}", cx.stop()));
            async { Ok(HookOutput::next()) }
        }))
        .build()
        .unwrap();
    agent.invoke("hi").await.unwrap();
    assert_eq!(notes.list(), ["None".to_owned(), format!("{:?}", Some(FinishReason::Done))]);
}

#[tokio::test]
async fn a_jump_skips_the_remaining_hooks_of_its_phase() {
    let notes = Notes::default();
    let agent = agent(ScriptedModel::new([Turn::text("never")]))
        .middleware(before_model(|_| async { Ok(HookOutput::go(JumpTo::End)) }))
        .middleware(Noting("late", notes.clone()))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Ended);
    assert_eq!(notes.list(), ["before_agent late", "after_agent late"]);
}

#[test]
fn two_middlewares_with_the_same_name_are_a_build_error() {
    let built = agent(ScriptedModel::new([]))
        .middleware(Noting("A", Notes::default()))
        .middleware(Noting("A", Notes::default()))
        .build();
    assert!(built.unwrap_err().to_string().contains("`A`"));
}

#[test]
fn middleware_sections_follow_the_callers_system_prompt_in_list_order() {
    struct Says(&'static str);
    impl Middleware for Says {
        fn name(&self) -> &str {
            self.0
        }
        fn system_prompt(&self) -> Option<&str> {
            Some(self.0)
        }
        fn tools(&self) -> Vec<Arc<dyn DynTool>> {
            vec![Arc::new(tool(self.0, |_, _| async { Ok("ok") }))]
        }
    }
    let built = agent(ScriptedModel::new([]))
        .middleware(Says("z"))
        .middleware(Says("a"))
        .system_prompt("Be brief.")
        .tool(echo())
        .build()
        .unwrap();
    assert_eq!(built.system().iter().map(|b| &*b.text).collect::<Vec<_>>(), ["Be brief.", "z", "a"]);
    assert_eq!(built.tools().iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "echo", "z"]);
}
