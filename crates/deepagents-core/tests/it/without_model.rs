//! Features that need no model or run: threads, direct tool calls, and hooks and tools in tests.

use std::sync::Arc;

use deepagents_core::agent::{Agent, ThreadAccess};
use deepagents_core::env::{FixedClock, SequentialIds, Timestamp};
use deepagents_core::error::Error;
use deepagents_core::event::EventKind;
use deepagents_core::interrupt::{ActionReview, Decision, DecisionKind};
use deepagents_core::journal::{Journal, MemoryJournal, RetentionPolicy};
use deepagents_core::last_value;
use deepagents_core::message::{AssistantMessage, Block, Message, ToolCall};
use deepagents_core::middleware::{
    Middleware, ModelNext, ToolNext, ToolRequest, ToolResponse, wrap_model_call, wrap_tool_call,
};
use deepagents_core::model::{ChatModel, ModelError, ModelOutput, ModelRequest, NoModel, StopReason, model_fn};
use deepagents_core::run::{Budget, Context, ContextBuilder, RunInput};
use deepagents_core::state::{State, Update};
use deepagents_core::tool::{DynTool, ToolContext, ToolError, ToolOutput, ToolSet, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use crate::support::{agent, echo, lines, tool};

#[tokio::test]
async fn threads_can_be_read_and_changed_without_an_agent() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("one"), Turn::text("two"), Turn::text("three")]);
    let talker = Agent::builder(model).journal(journal.clone()).build().unwrap();
    talker.invoke(RunInput::new("a").thread("t")).await.unwrap();
    talker.invoke(RunInput::new("b").thread("t")).await.unwrap();

    let threads = ThreadAccess::new(journal.clone(), talker.schema().clone());
    assert_eq!(lines(threads.state("t").await.unwrap().messages()), lines(talker.state("t").await.unwrap().messages()));
    let history = threads.history("t", None, usize::MAX).await.unwrap();
    assert_eq!(history, talker.history("t", None, usize::MAX).await.unwrap());
    let early = history.iter().find(|c| c.parent.is_none()).unwrap().position;
    assert_eq!(threads.state_at("t", early).await.unwrap().messages().len(), 1);
    assert!(threads.sub_agents("t").await.unwrap().is_empty());
    threads.rewind("t", early).await.unwrap();
    threads.update_state("t", Update::message(Message::user("c"))).await.unwrap();
    assert_eq!(lines(talker.state("t").await.unwrap().messages()), ["user: a", "user: c"]);
    threads.prune("t", &RetentionPolicy::Latest).await.unwrap();
    let outcome = talker.invoke(RunInput::new("d").thread("t")).await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: a", "user: c", "user: d", "assistant: three"]);
}

#[tokio::test]
async fn an_agent_without_a_model_can_be_built_and_running_it_says_what_is_missing() {
    let idle = agent(NoModel).tool(echo()).build().unwrap();
    assert_eq!(idle.tools()[0].name, "echo");
    let failed = idle.invoke("go").await.unwrap_err();
    assert!(failed.to_string().contains("the agent was built without a model"), "{failed}");
}

/// Offers a tool that no agent has.
struct Offers;

impl Middleware for Offers {
    fn name(&self) -> &str {
        "Offers"
    }

    async fn offered_tools(&self, _cx: &Context) -> deepagents_core::error::Result<Option<ToolSet>> {
        let tool: Arc<dyn DynTool> = Arc::new(tool("offered", |_, _| async { Ok("was offered") }));
        Ok(Some(ToolSet::new([tool]).unwrap()))
    }
}

#[tokio::test]
async fn a_tool_called_by_hand_uses_the_runs_wraps_and_changes_no_state() {
    let journal = Arc::new(MemoryJournal::new());
    let count = tool("count", |args: Value, cx: ToolContext| async move {
        let said = format!("{} messages, {}", cx.messages().len(), args["n"]);
        Ok(ToolOutput::text(said)
            .with_update(Update::message(Message::user("counted")))
            .with_artifact(json!({"k": cx.key()})))
    });
    let louder = wrap_tool_call(|request, next| async move {
        let mut response = next.run(request).await?;
        response.content.push(deepagents_core::message::Block::text("!"));
        Ok(response)
    });
    let crashing = tool("crash", |_, _| async { if true { panic!("ouch") } else { Ok("no") } });
    let agent = Agent::builder(NoModel).journal(journal.clone()).tool(count).tool(crashing).middleware(louder);
    let agent = agent.middleware(Offers).build().unwrap();
    agent.update_state("t", Update::message(Message::user("hello"))).await.unwrap();
    let end = journal.threads().get("t").await.unwrap().unwrap().end;

    let output = agent.call_tool("count", json!({"n": 1}), Some("t")).await.unwrap();
    let texts: Vec<&str> = output.content.iter().filter_map(|block| block.as_text()).collect();
    assert_eq!(texts, ["1 messages, 1", "!"]);
    assert!(!output.is_error && !output.update.is_empty());
    assert_eq!(journal.threads().get("t").await.unwrap().unwrap().end, end, "the thread stays as it is");
    agent.update_state("t", output.update).await.unwrap();
    assert_eq!(agent.state("t").await.unwrap().messages().len(), 2);

    let output = agent.call_tool("count", json!({"n": 2}), None).await.unwrap();
    assert_eq!(output.content[0].as_text(), Some("0 messages, 2"));
    let other = agent.call_tool("count", json!({"n": 2}), None).await.unwrap();
    assert_ne!(output.artifact, other.artifact, "each call has a key of its own");

    let unknown = agent.call_tool("paint", json!({}), None).await.unwrap();
    assert!(unknown.is_error);
    let text = unknown.content[0].as_text().unwrap();
    assert_eq!(text, "Error: paint is not a tool you have. Your tools are: count, crash, offered.");
    assert_eq!(agent.call_tool("offered", json!({}), None).await.unwrap().content[0].as_text(), Some("was offered"));
    let crashed = agent.call_tool("crash", json!({}), None).await.unwrap();
    assert!(crashed.is_error && crashed.content[0].as_text().unwrap().contains("ouch"));
}

#[tokio::test]
async fn a_tool_called_by_hand_returns_its_question_to_the_caller() {
    let asks = tool("pay", |_, cx: ToolContext| async move {
        cx.interrupt("Pay?", [DecisionKind::Approve])?;
        Ok("paid")
    });
    let agent = Agent::builder(NoModel).tool(asks).build().unwrap();
    let Error::Interrupted(waiting) = agent.call_tool("pay", json!({}), None).await.unwrap_err() else { panic!() };
    assert_eq!(waiting.action_requests()[0].text, "Pay?");
}

#[tokio::test]
async fn a_tool_called_by_hand_continues_with_the_decisions_on_all_its_questions() {
    let asks = tool("pay", |args, cx: ToolContext| async move {
        for question in ["Pay?", "Really?"] {
            match cx.interrupt(format!("{question} {args}"), [DecisionKind::Approve, DecisionKind::Reject])? {
                Decision::Approve => {}
                _ => return Ok("kept".to_owned()),
            }
        }
        Ok(format!("paid under {}", cx.key()))
    });
    let agent = Agent::builder(NoModel).tool(asks).build().unwrap();
    let mut reviews: Vec<ActionReview> = Vec::new();
    let output = loop {
        match agent.call_reviewed_tool("pay", json!({"n": 3}), None, &reviews).await {
            Ok(output) => break output,
            Err(Error::Interrupted(waiting)) => {
                let requests = waiting.action_requests().iter().cloned();
                reviews.extend(requests.map(|request| ActionReview::new(request, Decision::Approve)));
            }
            Err(other) => panic!("{other}"),
        }
    };
    let asked: Vec<&str> = reviews.iter().map(|review| review.request.text.as_str()).collect();
    assert_eq!(asked, ["Pay? {\"n\":3}", "Really? {\"n\":3}"]);
    assert!(output.content[0].as_text().unwrap().starts_with("paid under "));
    let again = agent.call_reviewed_tool("pay", json!({"n": 3}), None, &reviews).await.unwrap();
    assert_eq!(again.content, output.content, "it is the same call, under the same key");
    let other = agent.call_reviewed_tool("pay", json!({"n": 3000}), None, &reviews).await;
    assert!(matches!(other, Err(Error::Interrupted(_))), "nobody has agreed to that");
}

#[tokio::test]
async fn the_error_of_a_tool_shows_what_the_model_is_told() {
    let failed: ToolError = std::io::Error::other("the cable is cut").into();
    for (error, text) in [(failed, "the cable is cut"), (ToolError::denied_by("rule", "Not allowed."), "Not allowed.")]
    {
        assert_eq!((error.text(), error.to_string().as_str()), (Some(text), text));
    }
    let fatal = ToolError::fatal("the disk is gone");
    assert_eq!((fatal.text(), fatal.to_string().as_str()), (None, "the disk is gone"));
    let cx = ToolContext::new(ContextBuilder::new().build(), "pay", json!({}));
    let asks = cx.interrupt("Pay?", [DecisionKind::Approve]).unwrap_err();
    assert_eq!((asks.text(), asks.to_string().as_str()), (None, "the call waits for a decision"));
}

#[tokio::test]
async fn a_test_context_has_the_channels_and_values_it_was_given() {
    last_value!(Lines("lines"): u32);
    last_value!(Words("words"): u32);
    let mut state = State::default();
    state.apply(&Update::message(Message::user("Hello"))).unwrap();
    let cx = ContextBuilder::new().state(state).channel::<Words>(1).channel::<Lines>(2).channel::<Words>(3).build();
    assert_eq!((cx.get::<Lines>(), cx.get::<Words>(), cx.messages().len()), (2, 3, 1));
    let mut state = cx.state().clone();
    state.apply(&Update::new::<Lines>(4)).unwrap();
    assert_eq!(state.get::<Lines>(), Some(&4));
}

#[tokio::test]
async fn a_model_from_a_closure_answers_with_texts_messages_and_errors() {
    let model = model_fn("test:closure", |request: ModelRequest| async move {
        match request.messages.last().map(|message| message.text()).as_deref() {
            Some("fail") => Err(ModelError::invalid("no")),
            Some("call") => Ok(AssistantMessage::new(vec![Block::call("c1", "look", json!({}))]).into()),
            _ => Ok(ModelOutput::from("Hello.")),
        }
    });
    let answer = model.invoke(ModelRequest::new("go")).await.unwrap();
    assert_eq!(
        (model.name(), answer.message.text().as_str(), answer.stop),
        ("test:closure", "Hello.", StopReason::End)
    );
    let call = model.invoke(ModelRequest::new("call")).await.unwrap();
    assert_eq!(call.stop, StopReason::ToolCalls);
    assert!(matches!(model.invoke(ModelRequest::new("fail")).await, Err(ModelError::Invalid(_))));
    let look = tool("look", |_, _| async { Ok("seen") });
    let agent = Agent::builder(model_fn("test:closure", |_| async { Ok("Done.") })).tool(look).build().unwrap();
    assert_eq!(agent.invoke("go").await.unwrap().text(), "Done.");
}

#[tokio::test]
async fn a_test_context_has_what_it_was_given() {
    struct User(&'static str);
    let mut state = State::default();
    state.apply(&Update::message(Message::user("Hello"))).unwrap();
    let (cx, mut events) = ContextBuilder::new()
        .agent_name("tester")
        .state(state)
        .thread("t1")
        .run_id("run_7")
        .path(["task:0.0"])
        .turn(3)
        .extension(User("ada"))
        .clock(FixedClock(Timestamp::UNIX_EPOCH))
        .ids(SequentialIds::default())
        .store(deepagents_core::store::MemoryStore::new(Arc::new(FixedClock(Timestamp::UNIX_EPOCH))))
        .budget(Budget::default().tokens(10))
        .build_with_events();
    assert_eq!(
        (cx.agent_name(), cx.run_id(), cx.thread(), cx.path()),
        ("tester", "run_7", Some("t1"), &["task:0.0".to_owned()][..])
    );
    assert_eq!((cx.messages().len(), cx.extension::<User>().unwrap().0), (1, "ada"));
    assert!(cx.store().is_some() && cx.clock().now() == Timestamp::UNIX_EPOCH && cx.ids().next("x") == "x_1");

    let tool_cx = ToolContext::new(cx, "pay", json!({"euros": 3}));
    tool_cx.progress("half");
    let event = events.next().now_or_never().flatten().unwrap();
    assert!(matches!(event.kind, EventKind::ToolProgress { text, .. } if text == "half"));
    assert_eq!((tool_cx.call_id().to_string().as_str(), tool_cx.tool_name()), ("task:0.0/3.0", "pay"));
    assert_eq!(tool_cx.key(), "run_7:task:0.0/3.0");
}

#[tokio::test]
async fn a_wrap_can_be_tested_around_just_a_model_or_a_tool() {
    let polite = wrap_model_call(|mut request, next: ModelNext| async move {
        request.messages = ModelRequest::new("Please.").messages;
        next.run(request).await
    });
    let model = ScriptedModel::new([Turn::text("Gladly.")]);
    let asked = model.clone();
    let next = ModelNext::new(Arc::new(model), ContextBuilder::new().build());
    let response = Middleware::wrap_model_call(&polite, ModelRequest::new("Now!"), next).await.unwrap();
    assert_eq!(response.output.message.text(), "Gladly.");
    assert_eq!(asked.requests()[0].messages.last().unwrap().text(), "Please.");

    let barred = wrap_tool_call(|request: ToolRequest, next: ToolNext| async move {
        match request.call.name.as_str() {
            "launch" => Ok(ToolResponse::error("not today")),
            _ => next.run(request).await,
        }
    });
    let said = json_tool("say", "Says.", json!({"type": "object"}), |_, _| async { Ok("said") });
    let said: Arc<dyn DynTool> = Arc::new(said);
    for (name, expected) in [("say", "said"), ("launch", "not today")] {
        let cx = ToolContext::new(ContextBuilder::new().build(), name, json!({}));
        let call = ToolCall { id: "c".to_owned(), name: name.to_owned(), args: json!({}), native: None };
        let request = ToolRequest::new(call, Some(said.clone()), cx);
        let response = Middleware::wrap_tool_call(&barred, request, ToolNext::new()).await.unwrap();
        assert_eq!(response.content[0].as_text(), Some(expected));
    }
}
