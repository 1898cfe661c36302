//! The last request that the limits of a run allow, which asks for an answer.

use deepagents_core::agent::Agent;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::Usage;
use deepagents_core::middleware::{EndReason, HookOutput, JumpTo, after_agent, after_model, before_model};
use deepagents_core::model::{ModelError, ModelProfile, ModelRequest, Price, ToolChoice};
use deepagents_core::run::{Budget, BudgetKind, FinishReason, LimitExit, Outcome, RunInput, SharedBudget};
use deepagents_core::state::State;
use deepagents_core::structured::ResponseFormat;
use deepagents_core::tool::DynTool;
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{agent, assert_sound, echo, tool};

fn answering() -> Budget {
    Budget::default().at_limit(LimitExit::Answer)
}

fn is_last(request: &ModelRequest) -> bool {
    request.tool_choice == ToolChoice::None
}

/// Makes calls until it cannot, then answers.
fn persistent(usage: Usage) -> ScriptedModel {
    let turn = move |request: &ModelRequest| match is_last(request) {
        true => Turn::text("What I have.").usage(usage),
        false => Turn::call("echo", json!({})).usage(usage),
    };
    ScriptedModel::rules().always(Turn::with(turn)).build()
}

fn tokens(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

fn with_echo(model: &ScriptedModel) -> Agent {
    agent(model.clone()).tool(echo()).build().unwrap()
}

/// Checks that the run ended with an answer, which only the last request could not make calls for.
fn assert_answered(outcome: &Outcome, model: &ScriptedModel, stop: &FinishReason) {
    assert_eq!((&outcome.stop, outcome.text().as_str()), (stop, "What I have."));
    assert_sound(outcome.messages());
    let requests = model.requests();
    let (last, before) = requests.split_last().unwrap();
    assert!(is_last(last) && !before.iter().any(is_last));
    assert_eq!(last.tools, before[0].tools, "the tools stay, for the provider's cache");
    let note = last.messages.last().unwrap().text();
    assert!(note.contains(stop.reason()) && note.contains("your last"), "{note}");
}

#[tokio::test]
async fn the_last_model_call_of_a_run_is_an_answer_and_its_reason_stays_the_limit() {
    for input in [
        RunInput::new("go").max_model_calls(3).budget(answering()),
        RunInput::new("go").budget(answering().model_calls(3)),
        RunInput::new("go").max_calls_per_agent(3).budget(answering()),
    ] {
        let model = persistent(Usage::default());
        let outcome = with_echo(&model).invoke(input).await.unwrap();
        assert_answered(&outcome, &model, &FinishReason::StepLimit);
        assert_eq!(outcome.model_calls, 3);
    }
    let model = persistent(Usage::default());
    let outcome = with_echo(&model).invoke(RunInput::new("go").max_model_calls(3)).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::StepLimit, String::new()), "it is an option");
}

#[tokio::test]
async fn an_agents_own_budget_can_ask_for_it_and_a_run_that_ends_before_its_limit_sees_no_note() {
    let model = persistent(Usage::default());
    let agent = agent(model.clone()).tool(echo()).budget(answering().model_calls(2)).build().unwrap();
    assert_answered(&agent.invoke("go").await.unwrap(), &model, &FinishReason::StepLimit);
    let model = ScriptedModel::new([Turn::call("echo", json!({})), Turn::text("Done.")]);
    let outcome = with_echo(&model).invoke(RunInput::new("go").budget(answering().model_calls(3))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.messages().len()), (FinishReason::Done, 4));
}

#[tokio::test]
async fn tokens_and_cost_that_allow_no_two_requests_more_allow_an_answer() {
    let price = |model: ScriptedModel| {
        let mut profile = ModelProfile::default();
        profile.price = Some(Price::new(1.0, 1.0));
        model.with_profile(profile)
    };
    for (budget, kind) in [
        (answering().tokens(500), BudgetKind::Tokens),
        (answering().input_tokens(450), BudgetKind::InputTokens),
        (answering().output_tokens(50), BudgetKind::OutputTokens),
        (answering().cost(499e-6), BudgetKind::Cost),
    ] {
        let model = price(persistent(tokens(90, 10)));
        let outcome = with_echo(&model).invoke(RunInput::new("go").budget(budget)).await.unwrap();
        assert_answered(&outcome, &model, &FinishReason::Budget(kind));
        assert_eq!(outcome.model_calls, 4, "300 of 500 were spent");
        assert!(outcome.spent.usage.total() <= 500);
    }
}

#[tokio::test]
async fn what_is_spent_already_ends_the_run_without_another_request() {
    let model = persistent(tokens(900, 100));
    let outcome = with_echo(&model).invoke(RunInput::new("go").budget(answering().tokens(500))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Budget(BudgetKind::Tokens), String::new()));
    assert_eq!(model.requests().len(), 1);
}

#[tokio::test]
async fn calls_beyond_the_limit_of_tool_calls_are_refused_and_then_an_answer_is_asked_for() {
    let model = persistent(Usage::default());
    let outcome = with_echo(&model).invoke(RunInput::new("go").budget(answering().tool_calls(2))).await.unwrap();
    assert_answered(&outcome, &model, &FinishReason::Budget(BudgetKind::ToolCalls));
    assert_eq!((outcome.spent.tool_calls, outcome.model_calls), (2, 4));
}

#[tokio::test]
async fn calls_in_the_last_answer_are_refused_and_the_run_ends() {
    let model = ScriptedModel::rules().always(Turn::call("echo", json!({}))).build();
    let outcome = with_echo(&model).invoke(RunInput::new("go").budget(answering().model_calls(2))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::StepLimit);
    assert_sound(outcome.messages());
    let refused = outcome.messages().last().unwrap().as_tool().unwrap().clone();
    assert!(refused.is_error && outcome.spent.tool_calls == 1, "{refused:?}");
}

#[tokio::test]
async fn hooks_and_messages_cannot_prolong_a_run_after_its_last_answer() {
    for go in [JumpTo::Model, JumpTo::LastAnswer(EndReason::StepLimit)] {
        let model = persistent(Usage::default());
        let again = move |_cx| async move { Ok(HookOutput::go(go)) };
        let agent = agent(model.clone()).tool(echo()).middleware(after_agent(again)).build().unwrap();
        let outcome = agent.invoke(RunInput::new("go").budget(answering().model_calls(2))).await.unwrap();
        assert_answered(&outcome, &model, &FinishReason::StepLimit);
        assert_eq!(model.requests().len(), 2);
    }
}

#[tokio::test]
async fn a_hook_can_ask_for_the_last_answer_before_a_request_and_after_an_answer() {
    for after in [false, true] {
        let model = persistent(Usage::default());
        let builder = agent(model.clone()).tool(echo());
        let go = |cx: deepagents_core::run::Context| async move {
            let many = cx.messages().len() >= 4;
            Ok(if many { HookOutput::go(JumpTo::LastAnswer(EndReason::NoProgress)) } else { HookOutput::next() })
        };
        let agent = if after { builder.middleware(after_model(go)) } else { builder.middleware(before_model(go)) };
        let outcome = agent.build().unwrap().invoke("go").await.unwrap();
        assert_answered(&outcome, &model, &FinishReason::NoProgress);
    }
}

/// A tool that delegates to another agent.
fn task(child: Agent) -> impl DynTool {
    tool("task", move |_, cx| {
        let child = child.clone();
        async move {
            let state = State::new(child.schema().clone());
            let outcome = cx.run_child(&child, "task", state, RunInput::new("do it")).await?.result?;
            assert_sound(outcome.messages());
            Ok(format!("{:?} {}", outcome.stop, outcome.text()))
        }
    })
}

#[tokio::test]
async fn sub_agents_answer_at_the_shared_limit_and_leave_a_call_for_each_agent_above() {
    for children in [1, 3] {
        let below = persistent(Usage::default());
        let child = agent(below.clone()).name("child").tool(echo()).build().unwrap();
        let turn = move |request: &ModelRequest| match is_last(request) {
            true => Turn::text("What they found."),
            false => Turn::calls((0..children).map(|_| ("task", json!({})))),
        };
        let above = ScriptedModel::rules().always(Turn::with(turn)).build();
        let main = agent(above.clone()).tool(task(child)).build().unwrap();
        let shared = SharedBudget::new(answering().model_calls(8));
        for input in [RunInput::new("go").budget(answering().model_calls(8)), RunInput::new("go").within(&shared)] {
            let outcome = main.invoke(input).await.unwrap();
            assert_eq!((outcome.stop.clone(), outcome.spent.model_calls), (FinishReason::StepLimit, 8));
            assert_eq!(outcome.text(), "What they found.");
            let results: Vec<String> =
                outcome.messages().iter().filter(|m| m.as_tool().is_some()).map(|m| m.text()).collect();
            // Of several, another one may have taken the call that one would have answered with.
            assert!(children > 1 || results == ["StepLimit What I have."], "{results:?}");
        }
    }
}

#[tokio::test]
async fn a_sub_agent_that_does_not_answer_itself_leaves_a_call_for_the_agent_above() {
    let below = persistent(Usage::default());
    let own = Budget::default().at_limit(LimitExit::End);
    let child = agent(below.clone()).name("child").tool(echo()).budget(own).build().unwrap();
    let turn = |request: &ModelRequest| match is_last(request) {
        true => Turn::text("What it found."),
        false => Turn::call("task", json!({})),
    };
    let main = agent(ScriptedModel::rules().always(Turn::with(turn)).build()).tool(task(child)).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").budget(answering().model_calls(5))).await.unwrap();
    assert_eq!((outcome.text().as_str(), below.requests().len()), ("What it found.", 3));
    assert!(!below.requests().iter().any(is_last));
}

#[tokio::test]
async fn a_sub_agent_answers_at_its_own_limit_alone() {
    let below = persistent(Usage::default());
    let child = agent(below.clone()).name("child").tool(echo()).budget(answering().model_calls(2)).build().unwrap();
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("Done.")]);
    let main = agent(model.clone()).tool(task(child)).build().unwrap();
    let outcome = main.invoke("go").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "Done.".to_owned()));
    assert_eq!(outcome.messages().get(2).unwrap().text(), "StepLimit What I have.");
    assert!(!model.requests().iter().any(is_last));
}

#[tokio::test]
async fn a_structured_answer_is_the_one_call_that_the_last_request_allows() {
    let format = || {
        ResponseFormat::json(
            "report",
            json!({"type": "object", "required": ["sum"], "properties": {"sum": {"type": "integer"}}}),
        )
    };
    let model = ScriptedModel::rules()
        .when(
            |request: &ModelRequest| request.tool_choice == ToolChoice::Tool("report".to_owned()),
            [Turn::calls([("echo", json!({})), ("report", json!({"sum": 3}))])],
        )
        .always(Turn::call("echo", json!({})))
        .build();
    let agent = agent(model.clone()).tool(echo()).response_format(format()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").budget(answering().model_calls(3))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.spent.tool_calls), (FinishReason::StepLimit, 2));
    assert_eq!(outcome.structured_json(), Some(&json!({"sum": 3})));
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn a_run_whose_last_request_failed_is_resumed_with_it_and_keeps_one_note() {
    let model = ScriptedModel::rules()
        .when(is_last, [Turn::error(ModelError::Auth("no".into())), Turn::text("What I have.")])
        .always(Turn::call("echo", json!({})))
        .build();
    let agent = agent(model.clone()).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let failed = agent.invoke(RunInput::new("go").thread("t").budget(answering().model_calls(2))).await.unwrap_err();
    assert_eq!((failed.thread.as_deref(), failed.model_calls, failed.spent.tool_calls), (Some("t"), 2, 1));
    let outcome = agent.invoke(RunInput::resume("t").budget(Budget::default().model_calls(9))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::StepLimit, "What I have.".to_owned()));
    let notes = outcome.messages().iter().filter(|message| message.text().contains("your last")).count();
    let requests = model.requests();
    assert_eq!((notes, requests.iter().map(is_last).collect::<Vec<_>>()), (1, vec![false, true, true]));
}

#[tokio::test]
async fn a_run_that_answered_at_its_limit_goes_on_with_the_task_when_it_is_resumed() {
    let model = persistent(Usage::default());
    let agent = agent(model.clone()).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let input = RunInput::new("go").thread("t").budget(answering().model_calls(2));
    assert_eq!(agent.invoke(input).await.unwrap().stop, FinishReason::StepLimit);
    let outcome = agent.invoke(RunInput::resume("t").budget(Budget::default().model_calls(3))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::StepLimit, "What I have.".to_owned()));
    let requests = model.requests();
    assert_eq!(requests.iter().map(is_last).collect::<Vec<_>>(), [false, true, false, false, true]);
    assert!(requests[2].messages.last().unwrap().text().contains("go on with the task"));
}
