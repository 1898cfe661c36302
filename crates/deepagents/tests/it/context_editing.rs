//! Clearing of old tool results, and tool selection by a model.

use std::sync::Arc;

use deepagents::core::middleware::wrap_model_call;
use deepagents::core::model::ModelError;
use deepagents::core::tool::DynTool;
use deepagents::middleware::context_editing::{ContextEditing, ContextEdits};
use deepagents::middleware::tool_selector::{SelectionFailure, ToolSelector};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    DeepAgent, DeepAgentBuilder, EventKind, MemoryJournal, MiddlewareEvent, ModelRequest, Outcome, RunInput, Usage,
    json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

const LINE: &str = "[cleared to save room; make the call again if you need its result]";

/// A tool result of about a thousand tokens.
fn looks() -> impl DynTool {
    json_tool("look", "Looks.", json!({"type": "object"}), |args: Value, _cx| async move {
        Ok(format!("{args} {}", "word".repeat(1_000)))
    })
}

fn look(at: usize) -> Turn {
    Turn::call("look", json!({ "at": at }))
}

fn edits() -> ContextEdits {
    ContextEdits { trigger: 5_500, target: 3_500, clear_at_least: 1_000, ..ContextEdits::default() }
}

fn built(
    turns: impl IntoIterator<Item = Turn>,
    edits: ContextEdits,
    configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder,
) -> (DeepAgent, ScriptedModel) {
    let model = ScriptedModel::new(turns);
    let builder =
        DeepAgent::builder().model(model.clone()).tool(looks()).middleware(ContextEditing::new(edits).unwrap());
    (configure(builder).build().unwrap(), model)
}

async fn watch(agent: &DeepAgent, input: impl Into<RunInput>) -> (Outcome, Vec<(usize, u64, u64)>) {
    let mut run = agent.run(input);
    let mut cleared = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(MiddlewareEvent::ResultsCleared { results, tokens_before, tokens_after }) =
            event.kind
        {
            cleared.push((results, tokens_before, tokens_after));
        }
    }
    (run.outcome().await.unwrap(), cleared)
}

/// Which results of a request are cleared.
fn cleared(request: &ModelRequest) -> Vec<bool> {
    request.messages.iter().filter(|m| m.as_tool().is_some()).map(|m| m.text() == LINE).collect()
}

#[test]
fn a_target_above_the_trigger_is_rejected() {
    let wrong = ContextEdits { trigger: 10, target: 10, ..ContextEdits::default() };
    let error = ContextEditing::new(wrong).unwrap_err().to_string();
    assert!(error.contains("give a lower target than the trigger"), "{error}");
}

#[tokio::test]
async fn old_results_are_cleared_in_large_steps_and_the_newest_are_kept() {
    let (agent, model) = built((0..12).map(look).chain([Turn::text("Done.")]), edits(), |b| b);
    let (outcome, told) = watch(&agent, "Go.").await;
    let counts: Vec<usize> = model.requests().iter().map(|r| cleared(r).iter().filter(|c| **c).count()).collect();
    // Each step clears several results, and requests in between do not change.
    assert_eq!(counts[..6], [0; 6]);
    let steps: Vec<usize> = counts.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).collect();
    assert!(steps.len() >= 2 && steps.iter().all(|step| *step >= 2), "{counts:?}");
    assert_eq!(told.len(), steps.len());
    assert!(told.iter().all(|(_, before, after)| *before > 5_500 && *after <= 3_800), "{told:?}");
    let last = cleared(&model.requests()[12]);
    assert!(last[0] && last[9..].iter().all(|c| !c), "{last:?}");
    // The thread keeps the full results.
    assert!(outcome.messages().iter().all(|m| m.text() != LINE));
    for pair in model.requests().windows(2) {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        if cleared(&pair[0]).iter().filter(|c| **c).count() == cleared(&pair[1]).iter().filter(|c| **c).count() {
            assert!(before.iter().zip(after.iter()).all(|(a, b)| a == b));
        }
    }
}

#[tokio::test]
async fn nothing_is_cleared_below_the_trigger_or_when_too_little_would_be_freed() {
    let (agent, model) = built((0..4).map(look).chain([Turn::text("Done.")]), edits(), |b| b);
    assert_eq!(watch(&agent, "Go.").await.1, []);
    assert!(cleared(&model.requests()[4]).iter().all(|c| !c));
    let all_kept = ContextEdits { keep: 20, ..edits() };
    let (agent, _) = built((0..8).map(look).chain([Turn::text("Done.")]), all_kept, |b| b);
    assert_eq!(watch(&agent, "Go.").await.1, []);
    let much = ContextEdits { clear_at_least: 4_000, ..edits() };
    let (agent, _) = built((0..6).map(look).chain([Turn::text("Done.")]), much, |b| b);
    assert_eq!(watch(&agent, "Go.").await.1, []);
    let nothing_kept = ContextEdits { keep: 0, target: 0, ..edits() };
    let (agent, model) = built((0..6).map(look).chain([Turn::text("Done.")]), nothing_kept, |b| b);
    watch(&agent, "Go.").await;
    assert!(cleared(&model.requests()[6]).iter().all(|c| *c));
}

#[tokio::test]
async fn tools_can_be_excluded_from_clearing_and_arguments_included() {
    let only_ls = ContextEdits { exclude: ["look".to_owned()].into(), ..edits() };
    let (agent, _) = built((0..8).map(look).chain([Turn::text("Done.")]), only_ls, |b| b);
    assert_eq!(watch(&agent, "Go.").await.1, []);

    let inputs = ContextEdits { clear_inputs: true, ..edits() };
    let (agent, model) = built((0..8).map(look).chain([Turn::text("Done.")]), inputs, |b| b);
    watch(&agent, "Go.").await;
    let request = &model.requests()[8];
    let args: Vec<Value> =
        request.messages.iter().filter_map(|m| Some(m.as_assistant()?.tool_calls().next()?.args.clone())).collect();
    for (args, cleared) in args.iter().zip(cleared(request)) {
        assert_eq!(*args == json!({}), cleared);
    }
    assert_eq!(args[0], json!({}));
}

#[tokio::test]
async fn provider_counts_decide_and_a_resumed_thread_sends_the_same() {
    let journal = Arc::new(MemoryJournal::new());
    let counted = |turn: Turn, tokens| turn.usage(Usage { input: tokens, output: 10, ..Usage::default() });
    let model = ScriptedModel::new([
        counted(look(0), 100),
        counted(look(1), 200),
        counted(look(2), 300),
        counted(look(3), 60_000),
        counted(Turn::text("Done."), 3_000),
        counted(Turn::text("Again."), 3_000),
    ]);
    let agent = || {
        let edits =
            ContextEdits { trigger: 50_000, target: 40_000, clear_at_least: 500, keep: 1, ..ContextEdits::default() };
        let builder =
            DeepAgent::builder().model(model.clone()).tool(looks()).middleware(ContextEditing::new(edits).unwrap());
        builder.journal(journal.clone()).build().unwrap()
    };
    let (_, told) = watch(&agent(), RunInput::new("Go.").thread("t")).await;
    assert_eq!(told.len(), 1);
    let (_, told) = watch(&agent(), RunInput::new("Once more.").thread("t")).await;
    assert_eq!(told, []);
    let requests = model.requests();
    assert_eq!(cleared(&requests[4]), [true, true, true, false]);
    assert_eq!(cleared(&requests[5]), [true, true, true, false]);
}

#[tokio::test]
async fn a_cleared_results_placeholder_names_the_file_that_holds_it() {
    let large = json_tool("dump", "Dumps.", json!({"type": "object"}), |_: Value, _cx| async {
        Ok("many words ".repeat(20_000))
    });
    let turns = [Turn::call("dump", json!({}))].into_iter().chain((0..8).map(look)).chain([Turn::text("Done.")]);
    let (agent, model) = built(turns, edits(), |b| b.tool(large));
    watch(&agent, "Go.").await;
    let first = model.requests()[9].messages.iter().find(|m| m.as_tool().is_some()).unwrap().text();
    assert!(first.starts_with("[cleared to save room; the whole result is in /large_tool_results/"), "{first}");
}

#[tokio::test]
async fn a_result_that_only_mentions_such_a_file_is_not_taken_as_stored_there() {
    let said = "The result of look is too large to show. It is in /large_tool_results/other; read it in parts.";
    let speaks = json_tool("speak", "Speaks.", json!({"type": "object"}), move |_: Value, _cx| async move {
        Ok(format!("{said} {}", "word".repeat(1_000)))
    });
    let turns = [Turn::call("speak", json!({}))].into_iter().chain((0..8).map(look)).chain([Turn::text("Done.")]);
    let (agent, model) = built(turns, edits(), |b| b.tool(speaks));
    watch(&agent, "Go.").await;
    let first = model.requests()[9].messages.iter().find(|m| m.as_tool().is_some()).unwrap().text();
    assert_eq!(first, LINE);
}

#[tokio::test]
async fn summarised_results_are_neither_cleared_nor_counted() {
    let counted = |turn: Turn, tokens| turn.usage(Usage { input: tokens, output: 10, ..Usage::default() });
    let first = (0..8).map(|at| counted(look(at), 1_000)).chain([counted(Turn::text("Done."), 60_000)]);
    let summary = [Turn::text("A SUMMARY")];
    let second = [look(10), look(11), look(12)].map(|turn| counted(turn, 1_000)).into_iter();
    let second = second.chain([counted(look(13), 60_000), counted(Turn::text("Fine."), 1_000)]);
    let model = ScriptedModel::new(first.chain(summary).chain(second));
    let edits =
        ContextEdits { trigger: 50_000, target: 48_000, clear_at_least: 500, keep: 1, ..ContextEdits::default() };
    let builder =
        DeepAgent::builder().model(model.clone()).tool(looks()).middleware(ContextEditing::new(edits).unwrap());
    let agent = builder.journal(MemoryJournal::new()).build().unwrap();
    watch(&agent, RunInput::new("Go.").thread("t")).await;
    assert!(agent.compact("t").await.unwrap().is_some());
    let (_, told) = watch(&agent, RunInput::new("Once more.").thread("t")).await;
    let requests = model.requests();
    // Counts from before the summary do not apply to the current requests.
    let second = &requests[10..];
    assert!(second[..4].iter().all(|request| cleared(request).iter().all(|cleared| !cleared)));
    // Of the results that are sent, four are cleared, including the last exchange before the summary; of the others,
    // none.
    assert_eq!(told.iter().map(|(results, ..)| *results).collect::<Vec<_>>(), [4]);
    assert_eq!(cleared(&second[4]), [true, true, true, true, false]);
}

fn three_tools(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    ["alpha", "beta", "gamma"].into_iter().fold(builder.without("TodoList"), |builder, name| {
        let tool =
            json_tool(name, format!("Does {name}."), json!({"type": "object"}), |_: Value, _cx| async { Ok("Done.") });
        builder.tool(tool)
    })
}

/// Which of the three tools each request offers.
async fn selected(
    selector: ToolSelector,
    choices: Vec<Turn>,
    turns: Vec<Turn>,
    said: &[&str],
) -> (Vec<Vec<String>>, ScriptedModel, bool) {
    let (judge, model) = (ScriptedModel::new(choices), ScriptedModel::new(turns));
    let builder = DeepAgent::builder()
        .model(model.clone())
        .middleware(selector.model(judge.clone()))
        .journal(MemoryJournal::new());
    let agent = three_tools(builder).build().unwrap();
    let mut failed = false;
    for said in said {
        failed |= agent.invoke(RunInput::new(*said).thread("t")).await.is_err();
    }
    let offered = |r: &ModelRequest| {
        let ours = r.tools.iter().filter(|tool| ["alpha", "beta", "gamma"].contains(&tool.name.as_str()));
        ours.map(|tool| tool.name.clone()).collect()
    };
    (model.requests().iter().map(offered).collect(), judge, failed)
}

fn choice(names: &[&str]) -> Turn {
    Turn::text(json!({ "tools": names }).to_string())
}

#[tokio::test]
async fn tools_are_selected_once_per_user_message() {
    let turns = vec![Turn::call("beta", json!({})), Turn::text("Done."), Turn::text("Fine.")];
    let choices = vec![choice(&["gamma", "beta", "beta"]), choice(&[])];
    let (offered, judge, _) = selected(ToolSelector::default(), choices, turns, &["Do beta.", "Thanks."]).await;
    assert_eq!(offered, [vec!["beta", "gamma"], vec!["beta", "gamma"], vec![]]);
    assert_eq!(judge.requests().len(), 2);
    let asked = &judge.requests()[0];
    assert_eq!(asked.messages.get(0).unwrap().text(), "Do beta.");
    assert!(asked.system_text().contains("- alpha: Does alpha.") && asked.output_schema.is_some());
}

#[tokio::test]
async fn the_selection_is_bounded_and_some_tools_are_always_offered() {
    let selector = ToolSelector::default().most(1).always(["alpha", "no_such_tool"]);
    let (offered, judge, _) =
        selected(selector, vec![choice(&["gamma", "beta"])], vec![Turn::text("Done.")], &["Go."]).await;
    assert_eq!(offered, [vec!["alpha", "gamma"]]);
    let system = judge.requests()[0].system_text();
    assert!(system.contains("At most 1") && !system.contains("- alpha"), "{system}");
}

#[tokio::test]
async fn an_unusable_selection_is_retried_and_then_falls_back_as_configured() {
    let wrong = || vec![choice(&["delta"]), Turn::text("beta, I think")];
    let done = || vec![Turn::text("Done.")];
    let (offered, judge, _) = selected(ToolSelector::default(), wrong(), done(), &["Go."]).await;
    assert_eq!(offered, [vec!["alpha", "beta", "gamma"]]);
    assert!(judge.requests()[1].system_text().contains("there is no tool `delta`"));
    let some = ToolSelector::default().on_failure(SelectionFailure::Only(["beta".to_owned()].into()));
    assert_eq!(selected(some, wrong(), done(), &["Go."]).await.0, [vec!["beta"]]);
    let fails = ToolSelector::default().on_failure(SelectionFailure::Error);
    let (offered, _, failed) = selected(fails, wrong(), done(), &["Go."]).await;
    assert!(failed && offered.is_empty());
    let right = vec![choice(&["delta"]), choice(&["beta"])];
    assert_eq!(selected(ToolSelector::default(), right, done(), &["Go."]).await.0, [vec!["beta"]]);
    let once = ToolSelector::default().retries(0);
    assert_eq!(selected(once, vec![choice(&["delta"])], done(), &["Go."]).await.1.requests().len(), 1);
}

#[tokio::test]
async fn a_tool_selection_is_reused_when_the_model_call_after_it_is_retried() {
    let again = wrap_model_call(|request, next| async move {
        match next.run(request.clone()).await {
            Err(_) => next.run(request).await,
            answer => answer,
        }
    });
    let judge = ScriptedModel::new([choice(&["beta"])]);
    let model = ScriptedModel::new([Turn::error(ModelError::invalid("not now")), Turn::text("Done.")]);
    let selector = ToolSelector::default().model(judge.clone());
    let builder = DeepAgent::builder().model(model.clone()).middleware(again.named("Again")).middleware(selector);
    three_tools(builder).build().unwrap().invoke("Go.").await.unwrap();
    assert_eq!(judge.requests().len(), 1);
    let offered = |request: &ModelRequest| request.tools.iter().any(|tool| tool.name == "alpha");
    assert!(model.requests().len() == 2 && !model.requests().iter().any(offered));
}
