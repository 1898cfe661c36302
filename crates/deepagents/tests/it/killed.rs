//! Middleware with counters or state, in processes that end at any append.

use std::sync::Arc;

use deepagents::core::journal::{Journal, RunStatus};
use deepagents::middleware::limits::{ModelCallLimit, ToolCallLimit, ToolCallLimitExit};
use deepagents::middleware::loop_detection::{LoopPolicy, LoopThreshold};
use deepagents::middleware::rubric::{Rubric, RubricState, RubricText};
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{DeepAgent, DeepAgentBuilder, MemoryJournal, ModelRequest, Outcome, RunInput, Update, json_tool};
use serde_json::{Value, json};

use crate::durable_background::Process;

/// Runs an agent in a process that ends after `n` appends and in a second one that continues, for every `n`. Compares
/// the result with that of a run in one process. The model's responses depend only on its input.
pub(crate) async fn killed_everywhere(
    build: impl Fn() -> DeepAgentBuilder,
    input: impl Fn() -> RunInput,
    shape: impl Fn(&Outcome) -> String,
) {
    let whole = build().journal(MemoryJournal::new()).build().unwrap().invoke(input().thread("t")).await.unwrap();
    for appends in 0.. {
        let journal = Arc::new(MemoryJournal::new());
        let process = Process::ending_after(&journal, appends);
        let first = build().journal(process.clone()).build().unwrap().invoke(input().thread("t")).await;
        // Lets aborted tasks end before the next process starts.
        tokio::task::yield_now().await;
        let outcome = match first {
            Ok(outcome) if !process.has_ended() => {
                assert!(appends > 3, "the process ended before it began");
                assert_eq!(shape(&outcome), shape(&whole));
                return;
            }
            _ => {
                let again = match journal.threads().get("t").await.unwrap().map(|info| info.status) {
                    None | Some(RunStatus::Empty) => input().thread("t"),
                    Some(RunStatus::Open) => RunInput::resume("t").take_over(),
                    // The last append ends the run.
                    Some(_) => return assert!(appends > 3),
                };
                build().journal(journal.clone()).build().unwrap().invoke(again).await.unwrap()
            }
        };
        check_history(outcome.messages()).unwrap();
        assert_eq!(shape(&outcome), shape(&whole), "after {appends} appends");
    }
}

pub(crate) fn shape(outcome: &Outcome) -> String {
    let line = |message: &Arc<deepagents::Message>| {
        let calls: Vec<&str> =
            message.as_assistant().into_iter().flat_map(|a| a.tool_calls()).map(|c| &*c.name).collect();
        format!("{}{}", message.text(), calls.join(" "))
    };
    let lines: Vec<String> = outcome.messages().iter().map(line).collect();
    format!("{:?}\n{}", outcome.stop, lines.join("\n"))
}

fn look() -> impl deepagents::core::tool::DynTool {
    let tool = json_tool("look", "Looks.", json!({"type": "object"}), |_: Value, _cx| async { Ok("Nothing new.") });
    // Makes a call in doubt repeatable.
    tool.effect(deepagents::Effect::Read)
}

fn answers(request: &ModelRequest) -> usize {
    request.messages.iter().filter(|message| message.as_assistant().is_some()).count()
}

fn calling() -> ScriptedModel {
    ScriptedModel::rules().always(Turn::with(|r| Turn::call("look", json!({"at": answers(r)})))).build()
}

#[tokio::test]
async fn limits_count_calls_made_before_a_crash() {
    let build = || {
        let tools = ToolCallLimit::for_tool("look", None, Some(2)).unwrap().exit(ToolCallLimitExit::Continue);
        DeepAgent::builder()
            .model(calling())
            .tool(look())
            .middleware(ModelCallLimit::new(None, Some(4)).unwrap())
            .middleware(tools)
    };
    killed_everywhere(build, || RunInput::new("Go."), shape).await;
}

#[tokio::test]
async fn a_loop_started_in_another_process_is_detected() {
    let build = || {
        let same = ScriptedModel::rules().always(Turn::with(|_| Turn::call("look", json!({"at": 1})))).build();
        let policy = LoopPolicy { same_calls: Some(LoopThreshold::new(2, 4).unwrap()), ..LoopPolicy::default() };
        DeepAgent::builder().model(same).tool(look()).loop_detection(policy)
    };
    killed_everywhere(build, || RunInput::new("Go."), shape).await;
}

#[tokio::test]
async fn discovered_tools_are_offered_in_the_next_process() {
    let build = || {
        let model = ScriptedModel::rules()
            .always(Turn::with(|request| {
                let offered = request.tools.iter().any(|tool| tool.name == "mcp__x__look_up");
                match answers(request) {
                    0 => Turn::call("tool_search", json!({"query": "look something up"})),
                    1 if offered => Turn::call("mcp__x__look_up", json!({})),
                    _ if offered => Turn::text("It was on offer."),
                    _ => Turn::text("It was not on offer."),
                }
            }))
            .build();
        let tool =
            json_tool("mcp__x__look_up", "Looks something up.", json!({"type": "object"}), |_: Value, _cx| async {
                Ok("Found.")
            });
        let tool = tool.effect(deepagents::Effect::Read);
        DeepAgent::builder().model(model).tool(tool).middleware(ToolSearch::default().above_tokens(0))
    };
    killed_everywhere(
        build,
        || RunInput::new("Go."),
        |outcome| {
            assert_eq!(outcome.text(), "It was on offer.");
            shape(outcome)
        },
    )
    .await;
}

#[tokio::test]
async fn the_number_of_rubric_judgements_is_the_same_across_a_crash() {
    let build = || {
        let judge = Turn::with(|request| {
            let passed = request.messages.iter().any(|message| message.text().contains("answer 2"));
            let criterion = if passed {
                json!({"name": "c", "passed": true})
            } else {
                json!({"name": "c", "passed": false, "gap": "g"})
            };
            let result = if passed { "satisfied" } else { "needs_revision" };
            Turn::text(json!({"result": result, "explanation": "So.", "criteria": [criterion]}).to_string())
        });
        let judge = ScriptedModel::rules().always(judge).build();
        let model = ScriptedModel::rules().always(Turn::with(|r| Turn::text(format!("answer {}", answers(r))))).build();
        DeepAgent::builder().model(model).middleware(Rubric::default().model(judge))
    };
    let input = || RunInput::new("Write.").update(Update::new::<RubricText>(Some("It is good.".to_owned())));
    killed_everywhere(build, input, |outcome| {
        let progress = outcome.state.get::<RubricState>().unwrap();
        format!("{:?} {} {}", progress.status, progress.iterations, shape(outcome))
    })
    .await;
}
