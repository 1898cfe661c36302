//! Limits of model and tool calls.

use std::sync::Arc;

use deepagents::core::event::{LimitScope, ReachedLimit};
use deepagents::core::model::{ModelRequest, ToolChoice};
use deepagents::core::tool::DynTool;
use deepagents::middleware::limits::{
    ModelCallLimit, ModelCallLimitExceeded, ModelCallLimitExit, ToolCallLimit, ToolCallLimitExceeded, ToolCallLimitExit,
};
use deepagents::middleware::loop_detection::LoopPolicy;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Budget, BudgetKind, Decision, DeepAgent, DeepAgentBuilder, Error, EventKind, FinishReason, InterruptOn,
    InterruptPolicy, MemoryJournal, Message, MiddlewareEvent, RunInput, json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::results;

fn look(at: usize) -> Turn {
    Turn::call("look", json!({ "at": at }))
}

fn eyes() -> impl DynTool {
    json_tool("look", "Looks.", json!({"type": "object"}), |args: Value, _cx| async move { Ok(args.to_string()) })
}

/// An agent whose model calls tools as long as it can.
fn answering_at_the_end(limit: ModelCallLimit) -> (DeepAgent, ScriptedModel) {
    let turn = |request: &ModelRequest| match request.tool_choice {
        ToolChoice::None => Turn::text("Seen twice."),
        _ => look(request.messages.len()),
    };
    let model = ScriptedModel::rules().always(Turn::with(turn)).build();
    let journal = Arc::new(MemoryJournal::new());
    let limit = limit.exit(ModelCallLimitExit::Answer);
    let builder = DeepAgent::builder().model(model.clone()).tool(eyes()).middleware(limit).journal(journal);
    (builder.build().unwrap(), model)
}

#[tokio::test]
async fn a_run_can_answer_with_the_last_call_of_its_model_call_limit() {
    let (agent, model) = answering_at_the_end(ModelCallLimit::new(Some(5), Some(3)).unwrap());
    let mut run = agent.run(on("t"));
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::CallLimitReached { limits, .. }) = event.kind {
            told.extend(limits);
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::StepLimit, "Seen twice.".to_owned()));
    assert_eq!(told, [ReachedLimit::new(LimitScope::Run, 3, 3)]);
    assert_eq!(model.requests().len(), 3);
    check_history(outcome.messages()).unwrap();
    // The thread has two calls left, and then none.
    let second = agent.invoke(on("t")).await.unwrap();
    assert_eq!((second.model_calls, second.text()), (2, "Seen twice.".to_owned()));
    let third = agent.invoke(on("t")).await.unwrap();
    assert_eq!((third.stop.clone(), third.model_calls), (FinishReason::StepLimit, 0));
    assert!(third.text().starts_with("Stopped without an answer"), "{}", third.text());
}

#[tokio::test]
async fn a_sub_agent_from_json_answers_at_the_limit_of_its_own_budget() {
    let is_last = |request: &ModelRequest| request.tool_choice == ToolChoice::None;
    let is_above = |request: &ModelRequest| request.tools.iter().any(|tool| tool.name == "task");
    let task = json!({"description": "Look.", "subagent_type": "scout"});
    let model = ScriptedModel::rules()
        .when(is_last, [Turn::text("Seen once.")])
        .when(is_above, [Turn::call("task", task), Turn::text("Done.")])
        .always(look(0))
        .build();
    let scout: SubAgentSpec = serde_json::from_value(json!({
        "name": "scout", "description": "Looks.", "budget": {"model_calls": 2, "at_limit": "answer"},
    }))
    .unwrap();
    let agent = DeepAgent::builder().model(model).tool(eyes()).sub_agent(scout).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    let (result, is_error) = results(&outcome)[0].clone();
    assert!(result.starts_with("Seen once.") && result.contains("may not have finished"), "{result}");
    assert!(!is_error);
}

/// An agent whose model calls tools forever.
fn endless(configure: impl Fn(DeepAgentBuilder) -> DeepAgentBuilder) -> (DeepAgent, ScriptedModel) {
    let model = ScriptedModel::rules().always(Turn::with(|r| look(r.messages.len()))).build();
    let builder = DeepAgent::builder().model(model.clone()).tool(eyes());
    (configure(builder).build().unwrap(), model)
}

fn journalled(limit: ModelCallLimit) -> (DeepAgent, ScriptedModel) {
    let journal = Arc::new(MemoryJournal::new());
    endless(move |b| b.middleware(limit).journal(journal.clone()))
}

fn on(thread: &str) -> RunInput {
    RunInput::new("Go.").thread(thread)
}

#[test]
fn an_empty_or_unreachable_limit_is_rejected() {
    let none = "nothing is limited; give a limit for the thread, for the run, or both";
    assert_eq!(ModelCallLimit::new(None, None).unwrap_err().to_string(), none);
    assert_eq!(ToolCallLimit::new(None, None).unwrap_err().to_string(), none);
    let above = ToolCallLimit::for_tool("look", Some(2), Some(3)).unwrap_err().to_string();
    assert!(above.contains("a run cannot make 3 calls on a thread that is limited to 2"), "{above}");
    assert!(ModelCallLimit::new(Some(2), Some(3)).is_ok());
}

#[tokio::test]
async fn a_run_ends_with_a_message_when_its_model_call_limit_is_reached() {
    let (agent, model) = endless(|b| b.middleware(ModelCallLimit::new(None, Some(3)).unwrap()));
    let mut run = agent.run("Go.");
    let mut told = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::CallLimitReached { tool, limits }) = event.kind {
            told.push((tool, limits));
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!((outcome.stop.clone(), model.requests().len()), (FinishReason::StepLimit, 3));
    assert_eq!(told, [(None, vec![ReachedLimit::new(LimitScope::Run, 3, 3)])]);
    insta::assert_snapshot!(outcome.text(), @"Stopped without an answer: model calls are at their limit: run limit (3/3 calls). The task may be unfinished.");
    check_history(outcome.messages()).unwrap();
}

#[tokio::test]
async fn a_thread_at_its_limit_ends_every_run_at_once_until_reset() {
    let (agent, model) = journalled(ModelCallLimit::new(Some(4), Some(3)).unwrap());
    assert_eq!(agent.invoke(on("t")).await.unwrap().model_calls, 3);
    let second = agent.invoke(on("t")).await.unwrap();
    assert_eq!((second.stop.clone(), second.model_calls), (FinishReason::StepLimit, 1));
    assert!(second.text().contains("thread limit (4/4 calls)"), "{}", second.text());
    let third = agent.invoke(on("t")).await.unwrap();
    assert_eq!((third.stop.clone(), third.model_calls), (FinishReason::StepLimit, 0));
    assert_eq!(model.requests().len(), 4);
    // Another thread is not affected.
    assert_eq!(agent.invoke(on("u")).await.unwrap().model_calls, 3);
    agent.update_state("t", ModelCallLimit::reset()).await.unwrap();
    assert_eq!(agent.invoke(on("t")).await.unwrap().model_calls, 3);
}

#[tokio::test]
async fn a_reached_limit_can_be_an_error_with_its_numbers() {
    let limit = ModelCallLimit::new(None, Some(2)).unwrap().exit(ModelCallLimitExit::Error);
    let (agent, _) = endless(|b| b.middleware(limit));
    let failure = agent.invoke("Go.").await.unwrap_err();
    let Error::Hook { source, .. } = &*failure.error else { panic!("{failure}") };
    let Error::Other(source) = &**source else { panic!("{failure}") };
    let exceeded = source.downcast_ref::<ModelCallLimitExceeded>().unwrap();
    assert_eq!(exceeded.limits, [ReachedLimit::new(LimitScope::Run, 2, 2)]);
    assert!(failure.to_string().contains("run limit (2/2 calls)"), "{failure}");
}

#[tokio::test]
async fn a_run_waiting_for_a_person_keeps_its_count_in_another_process() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::rules().always(Turn::with(|r| look(r.messages.len()))).build();
    let built = || {
        let limit = ModelCallLimit::new(None, Some(3)).unwrap();
        let asks = InterruptPolicy::new().before("look", InterruptOn::any());
        DeepAgent::builder()
            .model(model.clone())
            .tool(eyes())
            .middleware(limit)
            .interrupt_on(asks)
            .journal(journal.clone())
            .build()
            .unwrap()
    };
    let mut outcome = built().invoke(on("t")).await.unwrap();
    let mut resumed = 0;
    while outcome.stop == FinishReason::Interrupted {
        let question = outcome.action_requests().remove(0);
        outcome = built().invoke(RunInput::resume("t").decide(question.id, Decision::Approve)).await.unwrap();
        resumed += 1;
    }
    assert_eq!((outcome.stop.clone(), resumed, model.requests().len()), (FinishReason::StepLimit, 3, 3));
}

#[tokio::test]
async fn a_run_that_a_limit_ended_goes_on_when_it_is_resumed() {
    let journal = Arc::new(MemoryJournal::new());
    let three = ModelCallLimit::new(None, Some(3)).unwrap();
    let one_look = ToolCallLimit::for_tool("look", None, Some(1)).unwrap().exit(ToolCallLimitExit::End);
    let (by_model, _) = endless(|b| b.middleware(three).journal(journal.clone()));
    let (by_tool, _) = endless(|b| b.middleware(one_look.clone()).journal(journal.clone()));
    for (thread, limited) in [("m", &by_model), ("t", &by_tool)] {
        let ended = limited.invoke(on(thread)).await.unwrap();
        assert!(ended.text().starts_with("Stopped without an answer"), "{}", ended.text());
        let model = ScriptedModel::new([look(9), Turn::text("Done.")]);
        let further = DeepAgent::builder().model(model.clone()).tool(eyes()).journal(journal.clone()).build().unwrap();
        let outcome = further.invoke(RunInput::resume(thread)).await.unwrap();
        assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "Done.".to_owned()));
        let last = model.requests()[0].messages.last().unwrap().clone();
        assert!(last.text().contains("the run is resumed"), "{}", last.text());
        check_history(outcome.messages()).unwrap();
    }
    let again = by_model.invoke(on("again")).await.unwrap();
    assert_eq!(again.stop, FinishReason::StepLimit);
    let same = by_model.invoke(RunInput::resume("again")).await.unwrap();
    assert_eq!((same.stop.clone(), same.model_calls), (FinishReason::StepLimit, 0), "the count of a run is kept");
}

#[tokio::test]
async fn a_reset_thread_leaves_a_waiting_run_its_own_count() {
    let journal = Arc::new(MemoryJournal::new());
    let asks = InterruptPolicy::new().before("look", InterruptOn::any());
    let limit = ModelCallLimit::new(Some(2), None).unwrap();
    let (agent, model) = endless(|b| b.middleware(limit).interrupt_on(asks.clone()).journal(journal.clone()));
    let approved = async |outcome: deepagents::Outcome| {
        let question = outcome.action_requests().remove(0);
        agent.invoke(RunInput::resume("t").decide(question.id, Decision::Approve)).await.unwrap()
    };
    let outcome = agent.invoke(on("t")).await.unwrap();
    let waiting = approved(outcome).await;
    assert_eq!((waiting.stop.clone(), model.requests().len()), (FinishReason::Interrupted, 2));
    agent.update_state("t", ModelCallLimit::reset()).await.unwrap();
    let outcome = approved(waiting).await;
    let outcome = approved(outcome).await;
    assert_eq!(outcome.stop, FinishReason::Interrupted, "{}", outcome.text());
    let outcome = approved(outcome).await;
    assert_eq!((outcome.stop.clone(), model.requests().len()), (FinishReason::StepLimit, 4));
}

#[tokio::test]
async fn failed_requests_and_those_of_sub_agents_count_too() {
    let task = json!({"description": "Search.", "subagent_type": "general-purpose"});
    let below = |r: &deepagents::ModelRequest| r.messages.get(0).is_some_and(|m| m.text().contains("Search"));
    let model = ScriptedModel::rules()
        .when(below, [look(1), look(2), Turn::text("Found.")])
        .always(Turn::with(move |_| Turn::call("task", task.clone())))
        .build();
    let limit = ModelCallLimit::new(None, Some(3)).unwrap();
    let agent = DeepAgent::builder().model(model.clone()).tool(eyes()).middleware(limit).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    // One own call and three of the child agent, which are counted when it has ended.
    assert_eq!((outcome.stop.clone(), model.requests().len()), (FinishReason::StepLimit, 4));
    assert!(outcome.text().contains("run limit (4/3 calls)"), "{}", outcome.text());
}

/// Three calls of `look` and one of `ls` in a turn, then the end.
fn batch() -> Vec<Turn> {
    let calls = [
        ("look", json!({"at": 1})),
        ("ls", json!({"path": "/"})),
        ("look", json!({"at": 2})),
        ("look", json!({"at": 3})),
    ];
    vec![Turn::calls(calls), Turn::text("Done.")]
}

fn agent_with(turns: Vec<Turn>, limit: ToolCallLimit) -> DeepAgent {
    let journal = MemoryJournal::new();
    let model = ScriptedModel::new(turns);
    DeepAgent::builder().model(model).tool(eyes()).middleware(limit).journal(journal).build().unwrap()
}

#[tokio::test]
async fn calls_over_a_limit_get_an_error_and_the_turns_other_calls_run() {
    let agent = agent_with(batch(), ToolCallLimit::for_tool("look", None, Some(1)).unwrap());
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "Done.".to_owned()));
    let refused = "Error: the limit of these calls is reached. Do not call look again.";
    let texts = results(&outcome);
    assert_eq!(texts.iter().filter(|(text, error)| *error && text == refused).count(), 2);
    assert!(texts.contains(&(json!({"at": 1}).to_string(), false)), "{texts:?}");
    check_history(outcome.messages()).unwrap();
}

#[tokio::test]
async fn a_limit_on_all_tools_counts_them_together_with_a_generic_refusal() {
    let agent = agent_with(batch(), ToolCallLimit::new(None, Some(2)).unwrap());
    let outcome = agent.invoke("Go.").await.unwrap();
    let refused: Vec<_> = results(&outcome).into_iter().filter(|(_, error)| *error).collect();
    assert_eq!(refused.len(), 2);
    assert_eq!(refused[0].0, "Error: the limit of these calls is reached. Do not call any tool again.");
}

#[tokio::test]
async fn a_run_ended_by_a_limit_answers_all_calls_and_names_the_limit() {
    let agent =
        agent_with(batch(), ToolCallLimit::for_tool("look", None, Some(1)).unwrap().exit(ToolCallLimitExit::End));
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::ToolCalls));
    check_history(outcome.messages()).unwrap();
    let texts: Vec<String> = results(&outcome).into_iter().map(|(text, error)| format!("{error} {text}")).collect();
    insta::assert_snapshot!(texts.join("\n"), @r"
    true Error: the limit of these calls is reached. Do not call look again.
    true Error: the limit of these calls is reached. Do not call look again.
    true The call of look was not made: another call of this turn is beyond its limit.
    true The call of ls was not made: another call of this turn is beyond its limit.
    ");
    insta::assert_snapshot!(outcome.text(), @"Stopped without an answer: calls of look are beyond their limit: run limit (3/1 calls). The task may be unfinished.");
}

#[tokio::test]
async fn calls_refused_at_the_end_of_a_run_do_not_use_up_the_thread_limit() {
    let turns = || batch().into_iter().chain(batch()).collect::<Vec<_>>();
    let limit = ToolCallLimit::for_tool("look", Some(2), None).unwrap().exit(ToolCallLimitExit::End);
    let agent = agent_with(vec![batch().remove(0), look(1), Turn::text("Done.")], limit.clone());
    assert_eq!(agent.invoke(on("t")).await.unwrap().stop, FinishReason::Budget(BudgetKind::ToolCalls));
    // None of the three calls was made, so one is still allowed.
    assert_eq!(agent.invoke(on("t")).await.unwrap().text(), "Done.");

    let going_on = agent_with(turns(), ToolCallLimit::for_tool("look", Some(2), None).unwrap());
    let first = going_on.invoke(on("t")).await.unwrap();
    assert_eq!(results(&first).iter().filter(|(_, error)| *error).count(), 1);
    let second = going_on.invoke(on("t")).await.unwrap();
    assert_eq!(results(&second).iter().filter(|(_, error)| *error).count(), 4);
    going_on.update_state("t", ToolCallLimit::for_tool("look", Some(2), None).unwrap().reset()).await.unwrap();
}

#[tokio::test]
async fn a_reached_tool_call_limit_can_be_an_error_with_the_requested_calls() {
    let limit = ToolCallLimit::for_tool("look", None, Some(2)).unwrap().exit(ToolCallLimitExit::Error);
    let failure = agent_with(batch(), limit).invoke("Go.").await.unwrap_err();
    let Error::Hook { source, .. } = &*failure.error else { panic!("{failure}") };
    let Error::Other(source) = &**source else { panic!("{failure}") };
    let exceeded = source.downcast_ref::<ToolCallLimitExceeded>().unwrap();
    assert_eq!(exceeded.tool.as_deref(), Some("look"));
    assert_eq!(exceeded.limits, [ReachedLimit::new(LimitScope::Run, 3, 2)]);
    check_history(failure.state.messages()).unwrap();
}

#[tokio::test]
async fn several_limits_work_side_by_side_each_with_its_own_count() {
    let model = ScriptedModel::new(batch());
    let agent = DeepAgent::builder()
        .model(model)
        .tool(eyes())
        .middleware(ToolCallLimit::for_tool("look", None, Some(2)).unwrap())
        .middleware(ToolCallLimit::for_tool("ls", None, Some(0)).unwrap())
        .build()
        .unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let refused: Vec<String> = results(&outcome).into_iter().filter(|(_, e)| *e).map(|(text, _)| text).collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().any(|text| text.ends_with("call ls again.")), "{refused:?}");
}

#[tokio::test]
async fn a_resumed_run_keeps_its_tool_call_count() {
    let journal = Arc::new(MemoryJournal::new());
    let limit = ToolCallLimit::for_tool("look", None, Some(5)).unwrap().exit(ToolCallLimitExit::End);
    let (agent, _) = endless(|b| {
        b.middleware(limit.clone())
            .journal(journal.clone())
            .loop_detection(LoopPolicy { errors: None, ..LoopPolicy::default() })
    });
    let first = agent.invoke(on("t").budget(Budget::default().model_calls(3))).await.unwrap();
    assert_eq!(first.stop, FinishReason::StepLimit);
    let further = RunInput::resume("t").budget(Budget::default().model_calls(30));
    let outcome = agent.invoke(further).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::ToolCalls));
    assert_eq!(results(&outcome).iter().filter(|(_, error)| !error).count(), 5);
    assert!(outcome.messages().iter().any(|m| matches!(&**m, Message::Assistant(_))));
}
