//! The context rules of the main agent also apply to subagents, in one run and after resuming.

use deepagents::core::model::{ModelProfile, ProviderTool};
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger, TruncateArgs};
use deepagents::middleware::{PromptCaching, UnsupportedModel};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Decision, DeepAgent, EventKind, InterruptOn, InterruptPolicy, MiddlewareEvent, ModelRequest, RunInput, ToolContext,
    tool_fn,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{begins, echo, journal, task};
use crate::results;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Nothing {}

/// What a request shows of a long result, of long edits, and of provider tools.
fn shown(request: &ModelRequest) -> (bool, Vec<usize>, usize) {
    let evicted = request.messages.iter().any(|message| message.text().starts_with("The result of long is too large"));
    let calls = request.messages.iter().filter_map(|message| message.as_assistant());
    let calls: Vec<&Value> = calls.flat_map(|answer| answer.tool_calls().map(|call| &call.args)).collect();
    let edits = calls.iter().filter_map(|args| args["edits"].as_array()).flatten();
    (evicted, edits.map(|edit| edit["new_string"].as_str().unwrap().len()).collect(), request.provider_tools.len())
}

#[tokio::test]
async fn results_edits_and_provider_tools_look_alike_in_children_and_after_a_resume() {
    let long = "w".repeat(2_001);
    let edits = json!([{"old_string": "a", "new_string": long}, {"old_string": "b", "new_string": "short"}]);
    let work = || {
        let edit = ("edit_file", json!({"file_path": "/a", "edits": edits}));
        [Turn::calls([("long", json!({})), edit]), Turn::call("send", json!({}))]
    };
    let model = ScriptedModel::rules()
        .when(begins("Work."), work().into_iter().chain([Turn::text("Worked.")]))
        .otherwise(work().into_iter().chain([Turn::calls([task("general-purpose", "Work.")]), Turn::text("Done.")]))
        .build();
    let journal = journal();
    let build = || {
        let files = FilesystemOptions { result_tokens: Some(50), ..FilesystemOptions::default() };
        let cut = TruncateArgs {
            trigger: Some(Trigger::messages(3)),
            keep: Some(Size::Messages(1)),
            ..TruncateArgs::default()
        };
        DeepAgent::builder()
            .model(model.clone())
            .journal(journal.clone())
            .files(files)
            .summarization(SummarizationOptions::default().trigger(Trigger::never()).truncate_args(cut))
            .provider_tool(ProviderTool::new("anthropic", json!({"type": "web_search_20250305", "name": "web_search"})))
            .tool(tool_fn("long", "Says much.", |_: Nothing, _: ToolContext| async { Ok("word ".repeat(500)) }))
            .tool(echo("send"))
            .interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()))
            .build()
            .unwrap()
    };
    let mut outcome = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    // First the main agent is interrupted, then its subagent; another process resumes each time.
    for _ in 0..2 {
        let id = outcome.action_requests().remove(0).id;
        outcome = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
    }
    assert_eq!((outcome.text(), model.remaining()), ("Done.".to_owned(), 0));
    let requests = model.requests();
    let (below, main): (Vec<&ModelRequest>, Vec<_>) = requests.iter().partition(|request| begins("Work.")(request));
    for requests in [main, below] {
        assert_eq!(shown(requests[0]), (false, vec![], 1), "nothing has been said yet");
        for request in &requests[1..] {
            assert_eq!(shown(request), (true, vec![43, 5], 1), "before and after the resume");
        }
        assert!(requests.len() > 2);
    }
}

#[tokio::test]
async fn unsupported_model_behavior_applies_to_sub_agents_with_their_own_model() {
    let mut marks = ModelProfile::default();
    marks.cache_marks = true;
    for (behavior, refused) in [(UnsupportedModel::Ignore, false), (UnsupportedModel::Fail, true)] {
        let small = ScriptedModel::rules().always(Turn::text("Worked.")).build();
        let turns = [Turn::calls([task("small", "Work.")]), Turn::text("Done.")];
        let builder = DeepAgent::builder().model(ScriptedModel::new(turns).with_profile(marks.clone()));
        let builder = builder.caching(PromptCaching::default().unsupported_model_behavior(behavior));
        let agent = builder.sub_agent(SubAgentSpec::new("small", "Is small.").model(small.clone())).build().unwrap();
        let (text, is_error) = results(&agent.invoke("Main.").await.unwrap()).remove(0);
        assert_eq!(is_error, refused, "{behavior:?}: {text}");
        assert_eq!(text.contains("is not known to honour cache marks"), refused, "{text}");
        assert_eq!(small.requests().is_empty(), refused);
    }
}

#[tokio::test]
async fn an_unknown_window_of_a_sub_agents_model_is_reported_too() {
    let mut known = ModelProfile::default();
    known.context_window = Some(32_000);
    for (window, told) in [(None, 1), (Some(16_000), 0)] {
        let mut profile = ModelProfile::default();
        profile.context_window = window;
        let small = ScriptedModel::rules().always(Turn::text("Worked.")).build().with_profile(profile);
        let turns = [Turn::calls([task("small", "Work.")]), Turn::text("Done.")];
        let builder = DeepAgent::builder().model(ScriptedModel::new(turns).with_profile(known.clone()));
        let agent = builder.sub_agent(SubAgentSpec::new("small", "Is small.").model(small)).build().unwrap();
        let events: Vec<_> = agent.run("Main.").map(|event| event.kind).collect().await;
        let unknown =
            |kind: &&EventKind| matches!(kind, EventKind::Middleware(MiddlewareEvent::ContextWindowUnknown { .. }));
        assert_eq!(events.iter().filter(unknown).count(), told, "{window:?}: {events:?}");
    }
}
