//! The shared budget of a run and its child agents.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::event::{Event, EventKind};
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::message::Usage;
use deepagents_core::middleware::{HookOutput, JumpTo, after_agent, before_model, wrap_model_call};
use deepagents_core::model::{ChatModel, ModelError, ModelProfile, ModelRequest, Price};
use deepagents_core::run::{Budget, BudgetKind, FinishReason, RunInput, SharedBudget};
use deepagents_core::state::State;
use deepagents_core::tool::DynTool;
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_models::{Fallback, Hedged};
use serde_json::json;

use crate::support::{agent, assert_sound, echo, lines, tool, watch};

fn tokens(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// A tool that delegates to another agent, optionally with its own budget.
fn task(child: Agent, own: Budget) -> impl DynTool {
    tool("task", move |_, cx| {
        let (child, input) = (child.clone(), RunInput::new("do it").budget(own.clone()));
        async move {
            let state = State::new(child.schema().clone());
            let outcome = cx.run_child(&child, "task", state, input).await?.result?;
            assert_sound(outcome.messages());
            Ok(format!("{:?}", outcome.stop))
        }
    })
}

/// Makes calls forever.
fn busy(usage: Usage) -> ScriptedModel {
    ScriptedModel::rules().always(Turn::call("echo", json!({})).usage(usage)).build()
}

#[tokio::test]
async fn several_runs_share_a_budget_besides_their_own() {
    let model = ScriptedModel::rules()
        .when(|request: &ModelRequest| request.messages.last().unwrap().as_user().is_none(), [Turn::text("done")])
        .always(Turn::call("echo", json!({})).usage(tokens(10, 0)))
        .build();
    let agent = agent(model.clone()).tool(echo()).build().unwrap();
    let shared = SharedBudget::new(Budget::default().model_calls(3));
    let run = || agent.invoke(RunInput::new("go").max_model_calls(2).within(&shared));
    assert_eq!(run().await.unwrap().stop, FinishReason::Done);
    let second = run().await.unwrap();
    assert_eq!((second.stop, second.spent.model_calls), (FinishReason::StepLimit, 1));
    assert_eq!(run().await.unwrap().stop, FinishReason::StepLimit);
    assert_eq!((shared.spent().model_calls, shared.spent().usage.input), (3, 20));
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn an_answer_is_charged_at_the_price_of_the_model_that_gave_it() {
    let priced = |model: ScriptedModel, price: Option<f64>| {
        let mut profile = ModelProfile::default();
        profile.price = price.map(|price| Price::new(price, price));
        Arc::new(model.with_profile(profile))
    };
    let down = || ScriptedModel::rules().always(Turn::error(ModelError::Overloaded("busy".into()))).build();
    let late = ScriptedModel::rules().always(Turn::text("late").delay(Duration::from_secs(3_600))).build();
    let budget = || RunInput::new("go").budget(Budget::default().cost(5.0));
    let other = busy(tokens(1_000_000, 0));
    let chain = |price| Fallback::new(priced(down(), Some(0.1))).then(priced(other.clone(), price));
    for model in [
        Arc::new(chain(Some(10.0))) as Arc<dyn ChatModel>,
        Arc::new(Hedged::new(priced(late, Some(0.1)), Duration::ZERO).with(Arc::new(chain(Some(10.0))))),
    ] {
        let outcome = agent(model).tool(echo()).build().unwrap().invoke(budget()).await.unwrap();
        assert_eq!((outcome.stop, outcome.spent.cost), (FinishReason::Budget(BudgetKind::Cost), 10.0));
    }
    let unpriced = agent(chain(None)).tool(echo()).build().unwrap().invoke(budget()).await.unwrap_err();
    assert!(unpriced.to_string().contains("price"), "{unpriced}");
}

/// An agent that starts this many child agents in parallel, then works forever itself.
fn above(child: Agent, children: usize, usage: Usage) -> Agent {
    let first = Turn::calls((0..children).map(|_| ("task", json!({})))).usage(usage);
    let model = ScriptedModel::rules()
        .when(|request: &ModelRequest| request.messages.len() == 1, [first])
        .always(Turn::call("echo", json!({})).usage(usage))
        .build();
    agent(model).tool(task(child, Budget::default())).tool(echo()).build().unwrap()
}

fn below(model: &ScriptedModel) -> Agent {
    agent(model.clone()).name("child").tool(echo()).build().unwrap()
}

/// How the child agents ended.
fn stops(events: &[Event]) -> Vec<FinishReason> {
    let of_children = events.iter().filter(|event| !event.path.is_empty());
    of_children
        .filter_map(|event| match &event.kind {
            EventKind::AgentFinished { stop, .. } => Some(stop.clone()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn concurrent_children_share_the_runs_token_budget_and_all_report_its_end() {
    let limits = [
        (Budget::default().tokens(2_000), BudgetKind::Tokens),
        (Budget::default().input_tokens(1_500), BudgetKind::InputTokens),
        (Budget::default().output_tokens(500), BudgetKind::OutputTokens),
    ];
    for (budget, kind) in limits {
        let child = busy(tokens(90, 30));
        let run = above(below(&child), 4, tokens(90, 30)).run(RunInput::new("go").budget(budget));
        let (events, outcome) = watch(run).await;
        let outcome = outcome.unwrap();
        assert_eq!(outcome.stop, FinishReason::Budget(kind));
        assert_eq!(stops(&events), vec![FinishReason::Budget(kind); 4]);
        assert_sound(outcome.messages());
        assert_eq!(lines(outcome.messages())[2], format!("result: {:?}", FinishReason::Budget(kind)));
        // Only calls in flight when the budget ran out may exceed it: at most one per child.
        let spent = match kind {
            BudgetKind::Tokens => outcome.usage.total() - 2_000,
            BudgetKind::InputTokens => outcome.usage.input - 1_500,
            _ => outcome.usage.output - 500,
        };
        assert!(spent <= 4 * 120, "{spent} more than the budget");
        assert_eq!(outcome.spent.usage, outcome.usage);
        let by_agent = &outcome.usage_by_agent;
        assert_eq!(by_agent["child"].total() + by_agent["agent"].total(), outcome.usage.total());
        assert_eq!(outcome.spent.model_calls as usize, child.requests().len() + 1);
    }
}

#[tokio::test]
async fn the_model_call_limit_holds_however_many_agents_make_the_calls() {
    let child = busy(tokens(1, 1));
    let input = RunInput::new("go").max_model_calls(20);
    let (events, outcome) = watch(above(below(&child), 8, tokens(1, 1)).run(input)).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.stop, outcome.spent.model_calls), (FinishReason::StepLimit, 20));
    assert_eq!(child.requests().len(), 19);
    assert_eq!(stops(&events), vec![FinishReason::StepLimit; 8]);
}

#[tokio::test]
async fn the_tool_call_limit_holds_and_calls_beyond_it_are_answered() {
    let made = Arc::new(AtomicUsize::new(0));
    let count = made.clone();
    let echo = tool("echo", move |_, _| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok("ok") }
    });
    let many = ScriptedModel::rules().always(Turn::calls((0..5).map(|_| ("echo", json!({}))))).build();
    let child = agent(many).name("child").tool(echo).build().unwrap();
    let model = ScriptedModel::new([Turn::calls((0..2).map(|_| ("task", json!({})))), Turn::text("That is all.")]);
    let main = agent(model).tool(task(child, Budget::default())).build().unwrap();
    let (events, outcome) = watch(main.run(RunInput::new("go").budget(Budget::default().tool_calls(14)))).await;
    let outcome = outcome.unwrap();
    // Two of the calls delegate to the children.
    assert_eq!((made.load(Ordering::Relaxed), outcome.spent.tool_calls), (12, 14));
    assert_eq!(stops(&events), vec![FinishReason::Budget(BudgetKind::ToolCalls); 2]);
    let refused = "The call of echo was not made: the limit of tool calls was reached.";
    let told = events
        .iter()
        .filter(|e| matches!(&e.kind, EventKind::ToolFinished { text, error: true, .. } if text == refused));
    assert!(told.count() >= 2);
    // The parent agent needs no more calls, so it can still answer.
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "That is all.".to_owned()));
    assert_sound(outcome.messages());

    let main = agent(busy(tokens(1, 1))).tool(crate::support::echo()).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").budget(Budget::default().tool_calls(3))).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.model_calls), (FinishReason::Budget(BudgetKind::ToolCalls), 4));
    assert_eq!(lines(outcome.messages()).last().unwrap(), &format!("error: {refused}"));
    assert_sound(outcome.messages());
}

#[tokio::test]
async fn writes_queued_behind_a_refused_one_are_answered_too() {
    let write = deepagents_core::tool::Effect::write("/a");
    let write = deepagents_core::tool::tool_fn("write", "Writes.", |_: Nothing, _| async { Ok("ok") }).effect(write);
    let model = ScriptedModel::new([Turn::calls((0..4).map(|_| ("write", json!({}))))]);
    let main = agent(model).tool(write).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").budget(Budget::default().tool_calls(1))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::ToolCalls));
    assert_eq!(lines(outcome.messages())[2], "result: ok");
    assert_sound(outcome.messages());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

fn priced(model: ScriptedModel, price: Price) -> ScriptedModel {
    let mut profile = ModelProfile::default();
    profile.price = Some(price);
    model.with_profile(profile)
}

#[tokio::test]
async fn the_cost_of_all_agents_counts_at_each_models_own_price() {
    let child = priced(busy(tokens(1_000, 100)), Price::new(10.0, 100.0));
    let first = Turn::call("task", json!({})).usage(tokens(1_000, 0));
    let model = priced(ScriptedModel::new([first]), Price::new(1_000.0, 0.0));
    let main = agent(model).tool(task(below(&child), Budget::default())).build().unwrap();
    // A call of the main agent costs 1, and one of the child 0.02.
    let outcome = main.invoke(RunInput::new("go").budget(Budget::default().cost(1.1))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::Cost));
    assert_eq!(child.requests().len(), 5);
    assert!((outcome.spent.cost - 1.1).abs() < 1e-9, "{}", outcome.spent.cost);
}

#[tokio::test]
async fn an_unpriced_model_is_an_error_when_cost_is_limited() {
    let main = agent(busy(tokens(1, 1))).tool(echo()).build().unwrap();
    let error = main.invoke(RunInput::new("go").budget(Budget::default().cost(1.0))).await.unwrap_err();
    assert!(error.to_string().contains("the price of scripted"), "{error}");
    for cost in [f64::NAN, f64::INFINITY, -1.0] {
        let budget = Budget::default().cost(cost);
        assert!(main.invoke(RunInput::new("go").budget(budget.clone())).await.is_err());
        let built = Agent::builder(busy(tokens(1, 1))).budget(budget).build();
        assert!(built.unwrap_err().to_string().contains("cost"));
    }
}

#[tokio::test]
async fn run_limits_and_agent_limits_complement_each_other() {
    let main = agent(busy(tokens(10, 0))).tool(echo()).budget(Budget::default().tokens(30).tool_calls(100)).build();
    let main = main.unwrap();
    let run = async |budget| main.invoke(RunInput::new("go").budget(budget)).await.unwrap();
    assert_eq!(run(Budget::default()).await.model_calls, 3);
    assert_eq!(run(Budget::default().tokens(60)).await.model_calls, 6);
    assert_eq!(run(Budget::default().tool_calls(1)).await.stop, FinishReason::Budget(BudgetKind::ToolCalls));
    assert_eq!(run(Budget::default().model_calls(2)).await.stop, FinishReason::StepLimit);
    assert_eq!(run(Budget::default().tokens(0)).await.model_calls, 0);
}

#[tokio::test]
async fn a_childs_own_budget_ends_only_the_child() {
    let child = busy(tokens(10, 0));
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("all done")]);
    let own = Budget::default().tokens(25);
    let main = agent(model).tool(task(below(&child), own)).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").budget(Budget::default().tokens(1_000))).await.unwrap();
    assert_eq!((child.requests().len(), outcome.text()), (3, "all done".to_owned()));
    assert_eq!(lines(outcome.messages())[2], "result: Budget(Tokens)");
}

#[tokio::test(start_paused = true)]
async fn the_runs_deadline_ends_its_children_which_report_it_and_keep_their_work() {
    let late = Turn::text("late").delay(Duration::from_secs(3600));
    let model = ScriptedModel::rules()
        .when(|request: &ModelRequest| request.messages.len() == 1, vec![Turn::call("echo", json!({})); 3])
        .always(late)
        .build();
    let child = below(&model);
    let model = ScriptedModel::new([Turn::calls((0..3).map(|_| ("task", json!({}))))]);
    let main = agent(model).tool(task(child, Budget::default())).build().unwrap();
    let (events, outcome) = watch(main.run(RunInput::new("go").timeout(Duration::from_secs(60)))).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.stop, FinishReason::Deadline);
    assert_eq!(stops(&events), vec![FinishReason::Deadline; 3]);
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2..], ["result: Deadline"; 3], "they ended by themselves");
}

#[tokio::test]
async fn side_requests_and_discarded_answers_count() {
    let model = ScriptedModel::rules().always(Turn::text("hm").usage(tokens(10, 0))).build();
    let ask = before_model(|cx| async move {
        let model = cx.extension::<ScriptedModel>().unwrap().clone();
        let model: Arc<dyn deepagents_core::model::ChatModel> = Arc::new(model);
        cx.invoke_model(&model, ModelRequest::new("what now?")).await?;
        Ok(HookOutput::next())
    });
    let twice = wrap_model_call(|request: ModelRequest, next| async move {
        next.run(request.clone()).await?;
        next.run(request).await
    });
    let main = agent(model.clone()).middleware(ask).middleware(twice).build().unwrap();
    let run = async |budget| main.invoke(RunInput::new("go").budget(budget).with(model.clone())).await.unwrap();
    let outcome = run(Budget::default()).await;
    assert_eq!((outcome.stop, outcome.spent.model_calls, outcome.usage.input), (FinishReason::Done, 3, 30));
    // Used up before the first model call, between two calls, and exactly sufficient.
    for (calls, stop) in [
        (0, FinishReason::StepLimit),
        (1, FinishReason::StepLimit),
        (2, FinishReason::StepLimit),
        (3, FinishReason::Done),
    ] {
        let outcome = run(Budget::default().model_calls(calls)).await;
        assert_eq!((outcome.stop.clone(), outcome.spent.model_calls), (stop, calls));
        assert_sound(outcome.messages());
    }
}

#[tokio::test]
async fn after_agent_hooks_run_and_cannot_prolong_a_run_with_a_spent_budget() {
    let seen = crate::support::Notes::default();
    let notes = seen.clone();
    let on = after_agent(move |cx| {
        notes.add(format!("{:?} after {}", cx.stop().unwrap(), cx.spent().model_calls));
        std::future::ready(Ok(HookOutput::go(JumpTo::Model)))
    });
    let main = agent(busy(tokens(10, 0))).tool(echo()).middleware(on).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").budget(Budget::default().tokens(15))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::Tokens));
    assert_eq!(seen.list(), ["Budget(Tokens) after 2"]);
}

#[tokio::test]
async fn a_resumed_run_gets_what_remained_of_its_budget() {
    let asks =
        tool("asks", |_, cx| async move { Ok(format!("{:?}", cx.interrupt("Sure?", [DecisionKind::Approve])?)) });
    let journal = Arc::new(MemoryJournal::new());
    let turns = [
        Turn::call("echo", json!({})).usage(tokens(40, 0)),
        Turn::call("asks", json!({})).usage(tokens(40, 0)),
        Turn::error(ModelError::transport("gone")),
        Turn::call("echo", json!({})).usage(tokens(40, 0)),
        Turn::text("never"),
    ];
    let main = agent(ScriptedModel::new(turns)).tool(asks).tool(echo()).journal(journal).build().unwrap();
    let budget = Budget::default().tokens(110).tool_calls(3);
    let outcome = main.invoke(RunInput::new("go").thread("t").budget(budget)).await.unwrap();
    assert_eq!(
        (outcome.stop.clone(), outcome.spent.tool_calls),
        (FinishReason::Interrupted, 1),
        "what waits is not made yet"
    );
    let question = outcome.action_requests()[0].id.clone();
    let failed = main.invoke(RunInput::resume("t").decide(question, Decision::Approve)).await.unwrap_err();
    assert_eq!(failed.kind(), "transport");
    let outcome = main.resume("t").outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::Tokens));
    assert_eq!((outcome.spent.usage.input, outcome.usage.input), (120, 40), "what this part has used is told apart");
    assert_eq!((outcome.spent.model_calls, outcome.spent.tool_calls), (4, 3));
    assert_sound(outcome.messages());
    // A new run of the thread has its own budget.
    let outcome = main.invoke(RunInput::new("again").thread("t")).await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text()), (FinishReason::Done, "never".to_owned()));
}

#[tokio::test]
async fn a_child_that_waited_gets_what_remained_of_its_budget() {
    let asks =
        tool("asks", |_, cx| async move { Ok(format!("{:?}", cx.interrupt("Sure?", [DecisionKind::Approve])?)) });
    let turns =
        [Turn::call("asks", json!({})).usage(tokens(40, 0)), Turn::call("asks", json!({})).usage(tokens(40, 0))];
    let child = agent(ScriptedModel::new(turns)).name("child").tool(asks).build().unwrap();
    let model = ScriptedModel::new([Turn::call("task", json!({})), Turn::text("all done")]);
    let main = agent(model).journal(MemoryJournal::new()).tool(task(child, Budget::default().tokens(80)));
    let main = main.build().unwrap();
    let mut outcome = main.invoke(RunInput::new("go").thread("t")).await.unwrap();
    while let Some(question) = outcome.action_requests().first() {
        let answer = RunInput::resume("t").decide(question.id.clone(), Decision::Approve);
        outcome = main.invoke(answer).await.unwrap();
    }
    assert_eq!(lines(outcome.messages())[2..], ["result: Budget(Tokens)", "assistant: all done"]);
}

#[test]
fn the_stop_reason_of_a_spent_budget_is_one_word_and_survives_json() {
    let words = |stop: &FinishReason| serde_json::to_value(stop).unwrap();
    assert_eq!(words(&FinishReason::Budget(BudgetKind::Tokens)), json!("token_budget"));
    assert_eq!(words(&FinishReason::Budget(BudgetKind::ToolCalls)), json!("tool_call_budget"));
    for stop in [
        FinishReason::Done,
        FinishReason::StepLimit,
        FinishReason::Budget(BudgetKind::Cost),
        FinishReason::Budget(BudgetKind::InputTokens),
    ] {
        assert_eq!(serde_json::from_value::<FinishReason>(words(&stop)).unwrap(), stop);
    }
    assert!(serde_json::from_value::<FinishReason>(json!("bored")).is_err());
}

#[tokio::test]
async fn a_resumed_run_keeps_its_own_limits_when_its_agent_has_others() {
    let asks =
        tool("asks", |_, cx| async move { Ok(format!("{:?}", cx.interrupt("Sure?", [DecisionKind::Approve])?)) });
    let model = ScriptedModel::rules()
        .when(
            |request: &ModelRequest| request.messages.len() == 1,
            vec![Turn::call("asks", json!({})).usage(tokens(40, 0)); 2],
        )
        .always(Turn::call("echo", json!({})).usage(tokens(40, 0)))
        .build();
    let own = Budget::default().tokens(1_000).tool_calls(3);
    let main = agent(model).tool(asks).tool(echo()).budget(own).journal(MemoryJournal::new()).build().unwrap();
    let waiting = async |thread: &str| {
        let input = RunInput::new("go").thread(thread).budget(Budget::default().tokens(100));
        let outcome = main.invoke(input).await.unwrap();
        RunInput::resume(thread).decide(&outcome.action_requests()[0].id, Decision::Approve)
    };
    let outcome = main.invoke(waiting("kept").await).await.unwrap();
    assert_eq!((outcome.stop, outcome.spent.usage.input), (FinishReason::Budget(BudgetKind::Tokens), 120));
    let raised = waiting("raised").await.budget(Budget::default().tokens(500));
    let outcome = main.invoke(raised).await.unwrap();
    assert_eq!((outcome.stop, outcome.spent.tool_calls), (FinishReason::Budget(BudgetKind::ToolCalls), 3));
}

#[tokio::test]
async fn the_model_call_limit_restarts_when_a_run_is_resumed() {
    let main = agent(busy(tokens(10, 0))).tool(echo()).journal(MemoryJournal::new()).max_model_calls(4);
    let main = main.build().unwrap();
    let calls = async |input: RunInput| {
        let outcome = main.invoke(input).await.unwrap();
        assert_eq!(outcome.stop, FinishReason::StepLimit);
        assert_sound(outcome.messages());
        (outcome.model_calls, outcome.spent.model_calls)
    };
    assert_eq!(calls(RunInput::new("go").thread("t").max_model_calls(2)).await, (2, 2));
    assert_eq!(calls(RunInput::resume("t")).await, (4, 6), "up to the agent's own limit");
    assert_eq!(calls(RunInput::resume("t").max_model_calls(3)).await, (3, 9), "up to the one that is given");
}

#[tokio::test]
async fn a_limit_per_agent_counts_the_calls_of_each_agent_by_itself() {
    let child = busy(Usage::default());
    let parent = above(below(&child), 2, Usage::default());
    let (events, outcome) = watch(parent.run(RunInput::new("go").max_calls_per_agent(3))).await;
    let outcome = outcome.unwrap();
    assert_eq!((outcome.stop, outcome.model_calls), (FinishReason::StepLimit, 3));
    assert_eq!(stops(&events), [FinishReason::StepLimit, FinishReason::StepLimit]);
    assert_eq!(child.requests().len(), 6);
}

#[tokio::test]
async fn a_limit_per_agent_counts_anew_when_the_run_is_resumed() {
    let asks = tool("asks", |_, cx| async move {
        cx.interrupt("Go on?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let model = ScriptedModel::new([
        Turn::call("echo", json!({})),
        Turn::call("asks", json!({})),
        Turn::call("echo", json!({})),
        Turn::text("done"),
    ]);
    let agent = agent(model).tool(asks).tool(echo()).journal(MemoryJournal::new()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("go").thread("t").max_calls_per_agent(2)).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let resumed = RunInput::resume("t").decide("1.0?0", Decision::Approve).max_calls_per_agent(2);
    assert_eq!(agent.invoke(resumed).await.unwrap().text(), "done");
}

#[tokio::test]
async fn a_resumed_sub_agent_keeps_its_own_lower_limit() {
    let asks = tool("asks", |_, cx| async move {
        cx.interrupt("Go on?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let model = ScriptedModel::rules()
        .when(|request: &ModelRequest| request.messages.len() == 1, vec![Turn::call("asks", json!({})); 2])
        .always(Turn::call("echo", json!({})))
        .build();
    let child = agent(model.clone()).name("child").tool(asks).tool(echo()).max_model_calls(3).build().unwrap();
    let turns = [Turn::call("task", json!({})), Turn::text("all done")];
    let main = agent(ScriptedModel::new(turns)).journal(MemoryJournal::new()).tool(task(child, Budget::default()));
    let main = main.build().unwrap();
    let outcome = main.invoke(RunInput::new("go").thread("t").max_calls_per_agent(10)).await.unwrap();
    let asked = outcome.action_requests()[0].id.clone();
    let resumed = RunInput::resume("t").decide(asked, Decision::Approve).max_calls_per_agent(10);
    let outcome = main.invoke(resumed).await.unwrap();
    assert_eq!(lines(outcome.messages())[2..], ["result: StepLimit", "assistant: all done"]);
    assert_eq!(model.requests().len(), 3);
}

#[tokio::test]
async fn a_limit_per_agent_applies_to_the_sub_agents_that_a_resumed_run_starts() {
    let asks = tool("asks", |_, cx| async move {
        cx.interrupt("Go on?", [DecisionKind::Approve])?;
        Ok("asked")
    });
    let child = busy(Usage::default());
    let turns = [Turn::call("asks", json!({})), Turn::call("task", json!({})), Turn::text("all done")];
    let main = agent(ScriptedModel::new(turns)).journal(MemoryJournal::new()).tool(asks);
    let main = main.tool(task(below(&child), Budget::default())).build().unwrap();
    let outcome = main.invoke(RunInput::new("go").thread("t").max_calls_per_agent(4)).await.unwrap();
    let resumed = RunInput::resume("t").decide(outcome.action_requests()[0].id.clone(), Decision::Approve);
    assert_eq!(main.invoke(resumed).await.unwrap().text(), "all done");
    assert_eq!(child.requests().len(), 4);
}
