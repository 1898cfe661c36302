//! What the model is shown: system messages with blocks, provider tools, token limits, long messages and arguments.

use std::sync::Arc;

use deepagents::channels::{Files, Todos};
use deepagents::core::message::{AssistantMessage, Media, MediaKind, MediaSource};
use deepagents::core::model::{CacheTtl, ModelProfile, ProviderTool, SystemBlock};
use deepagents::core::tool::DynTool;
use deepagents::fs::VPath;
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::middleware::summarization::{Size, SummarizationOptions, Trigger, TruncateArgs};
use deepagents::middleware::todo::planner_fn;
use deepagents::middleware::{PromptCaching, UnsupportedModel};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{Mode, SubAgentSpec};
use deepagents::{
    Block, Decision, DeepAgent, DeepAgentBuilder, EventKind, InterruptOn, InterruptPolicy, Message, MiddlewareEvent,
    ModelRequest, Outcome, RunInput, Tool, ToolContext, ToolError, ToolOutput, tool_fn,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use super::{begins, echo, journal, task};
use crate::{play, results};

fn picture() -> Media {
    Media {
        kind: MediaKind::Image,
        mime: "image/png".into(),
        source: MediaSource::Base64("iVBORw0".into()),
        name: None,
    }
}

fn pictures(message: &Message) -> usize {
    message.content().iter().filter(|block| matches!(block, Block::Media(_))).count()
}

/// The number of cache marks in a request.
fn marks(request: &ModelRequest) -> usize {
    let system = request.system.iter().filter(|block| block.cache.is_some()).count();
    system + usize::from(request.cache.tools.is_some()) + request.cache.messages.len()
}

fn drawing(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    let block = SystemBlock::new("You draw floor plans.").cached(CacheTtl::OneHour);
    builder.system_prompt("You are exact.").system_block(block).system_block(picture())
}

#[tokio::test]
async fn a_system_message_consists_of_text_image_and_cache_mark_blocks() {
    let (_, model) = play([Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")], drawing).await;
    for request in model.requests() {
        let texts: Vec<&str> = request.system.iter().map(|block| &*block.text).collect();
        assert_eq!(texts[..2], ["You are exact.", "You draw floor plans."]);
        assert_eq!(request.system[1].cache, Some(CacheTtl::OneHour));
        let first = request.messages.get(0).unwrap();
        assert_eq!((pictures(first), first.content()[0].as_text()), (1, Some("[These belong to the system prompt.]")));
        assert_eq!(request.messages.get(1).unwrap().text(), "Go.");
        assert!(marks(&request) <= 4, "{:?}", request.cache);
        // The cache marks of messages moved with them.
        assert_eq!(request.cache.messages.last().unwrap().0, request.messages.len() - 1);
    }
}

#[tokio::test]
async fn a_model_that_supports_images_in_the_system_message_gets_them_there() {
    let mut profile = ModelProfile::default();
    profile.system_media = true;
    let model = ScriptedModel::new([Turn::text("Done.")]).with_profile(profile);
    drawing(DeepAgent::builder().model(model.clone())).build().unwrap().invoke("Go.").await.unwrap();
    let request = &model.requests()[0];
    assert_eq!((request.messages.len(), request.system.iter().filter(|b| b.media.is_some()).count()), (1, 1));
}

#[tokio::test]
async fn unsupported_system_message_images_are_replaced_by_a_note() {
    let mut profile = ModelProfile::default();
    profile.images = Some(false);
    let model = ScriptedModel::new([Turn::text("Done.")]).with_profile(profile);
    drawing(DeepAgent::builder().model(model.clone())).build().unwrap().invoke("Go.").await.unwrap();
    let request = &model.requests()[0];
    assert_eq!(request.messages.len(), 1);
    assert!(request.system_text().contains("does not support image content (image/png)"), "{}", request.system_text());
}

#[tokio::test]
async fn a_fork_and_a_resumed_run_start_with_the_same_system_blocks() {
    let model = ScriptedModel::rules()
        .when(|r: &ModelRequest| r.messages.last().unwrap().text().ends_with("Look."), [Turn::call("send", json!({}))])
        .when(|r: &ModelRequest| r.messages.iter().any(|m| m.text().ends_with("Look.")), [Turn::text("Looked.")])
        .otherwise([Turn::calls([task("twin", "Look.")]), Turn::text("Done.")])
        .build();
    let journal = journal();
    let build = || {
        let gate = InterruptPolicy::new().before("send", InterruptOn::any());
        let builder = drawing(DeepAgent::builder().model(model.clone())).journal(journal.clone()).tool(echo("send"));
        let twin = SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork);
        builder.interrupt_on(gate).sub_agent(twin).build().unwrap()
    };
    let waiting = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    let id = waiting.action_requests().remove(0).id;
    let done = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
    assert_eq!(done.text(), "Done.");
    let requests = model.requests();
    assert_eq!(requests.len(), 4);
    for request in &requests {
        assert_eq!(request.system, requests[0].system);
        assert_eq!(pictures(request.messages.get(0).unwrap()), 1);
    }
}

#[tokio::test]
async fn provider_tools_are_offered_beside_ours_in_sub_agents_too() {
    let search = ProviderTool::new("anthropic", json!({"type": "web_search_20250305", "name": "web_search"}));
    let model = ScriptedModel::rules()
        .when(begins("Work."), [Turn::text("Worked.")])
        .otherwise([Turn::calls([task("general-purpose", "Work.")]), Turn::text("Done.")])
        .build();
    let builder = DeepAgent::builder().model(model.clone()).provider_tool(search.clone());
    builder.build().unwrap().invoke("Main.").await.unwrap();
    for request in model.requests() {
        assert_eq!(request.provider_tools, [Arc::new(search.clone())]);
        assert!(!request.tools.is_empty());
    }
}

/// The middleware events of a run, and its result.
async fn reported(agent: DeepAgent, input: impl Into<RunInput>) -> (Vec<MiddlewareEvent>, Result<Outcome, String>) {
    let mut run = agent.run(input);
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(event) = event.kind {
            events.push(event);
        }
    }
    (events, run.outcome().await.map_err(|error| error.to_string()))
}

#[tokio::test]
async fn unsupported_model_behavior_decides_about_models_without_cache_marks() {
    let mut marks = ModelProfile::default();
    marks.cache_marks = true;
    for (behavior, profile, warned, failed) in [
        (UnsupportedModel::Ignore, ModelProfile::default(), false, false),
        (UnsupportedModel::Warn, ModelProfile::default(), true, false),
        (UnsupportedModel::Fail, ModelProfile::default(), false, true),
        (UnsupportedModel::Warn, marks.clone(), false, false),
        (UnsupportedModel::Fail, marks.clone(), false, false),
    ] {
        let turns = [Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
        let model = ScriptedModel::new(turns).with_profile(profile);
        let caching = PromptCaching::default().unsupported_model_behavior(behavior);
        let agent = DeepAgent::builder().model(model.clone()).caching(caching).build().unwrap();
        let (events, outcome) = reported(agent, "Go.").await;
        let warnings = events.iter().filter(|e| matches!(e, MiddlewareEvent::CachingUnsupported { .. })).count();
        assert_eq!((warnings, outcome.is_err()), (usize::from(warned), failed), "{behavior:?}");
        if failed {
            let error = outcome.unwrap_err();
            assert!(error.contains("is not known to honour cache marks"), "{error}");
            assert!(model.requests().is_empty());
        }
    }
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Say {
    text: String,
    times: usize,
}

/// Repeats a text, under a name.
fn says(name: &str) -> impl DynTool + use<> {
    tool_fn(name, "Says it.", |say: Say, _cx: ToolContext| async move { Ok(say.text.repeat(say.times)) })
}

/// A tool that declares its results bounded.
struct Brief;

impl Tool for Brief {
    type Args = Say;

    fn name(&self) -> &str {
        "brief"
    }

    fn description(&self) -> &str {
        "Says it."
    }

    fn bounds_results(&self) -> bool {
        true
    }

    async fn call(&self, say: Say, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        Ok(say.text.repeat(say.times).into())
    }
}

fn say(tool: &'static str, text: &str, times: usize) -> (&'static str, Value) {
    (tool, json!({"text": text, "times": times}))
}

fn ten_tokens(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    let options =
        FilesystemOptions { result_tokens: Some(10), message_tokens: Some(10), ..FilesystemOptions::default() };
    builder.files(options)
}

#[tokio::test]
async fn a_limit_named_tokens_counts_tokens_in_every_script() {
    let texts =
        [("x", 40, true), ("x", 41, false), ("你", 10, true), ("你", 11, false), ("ж", 20, true), ("ж", 21, false)];
    for (text, times, stays) in texts {
        let script = [Turn::calls([say("say", text, times)]), Turn::text("Done.")];
        let (outcome, _) = play(script, |b| ten_tokens(b).tool(says("say"))).await;
        assert_eq!(results(&outcome)[0].0 == text.repeat(times), stays, "{text} {times}");
        // A message of that length is shown in full, or in part, by the same limit.
        let model = ScriptedModel::new([Turn::text("Done.")]);
        let agent = ten_tokens(DeepAgent::builder().model(model.clone())).build().unwrap();
        agent.invoke(text.repeat(times)).await.unwrap();
        assert_eq!(model.requests()[0].messages.last().unwrap().text() == text.repeat(times), stays, "{text} {times}");
    }
}

#[tokio::test]
async fn every_tools_results_are_evicted_by_size_except_self_bounded_ones() {
    let calls = || [say("grep", "x", 100), say("brief", "x", 100), say("say", "x", 100)];
    let model = ScriptedModel::rules()
        .when(begins("Work."), [Turn::calls(calls()), Turn::text("Worked.")])
        .otherwise([Turn::calls(calls()), Turn::calls([task("general-purpose", "Work.")]), Turn::text("Done.")])
        .build();
    let builder = ten_tokens(DeepAgent::builder().model(model.clone()));
    // A user's tool with the name of a bounded built-in tool is not bounded.
    let builder = builder.tool(says("grep")).tool(says("say")).tool(Brief);
    let outcome = builder.build().unwrap().invoke("Main.").await.unwrap();
    let evicted = |texts: Vec<String>| texts.iter().map(|text| text.contains("too large to show")).collect::<Vec<_>>();
    let main = results(&outcome).into_iter().map(|(text, _)| text).take(3).collect();
    assert_eq!(evicted(main), [true, false, true]);
    let below = model.requests().into_iter().rfind(|r| begins("Work.")(r)).unwrap();
    let below = below.messages.iter().filter(|m| m.as_tool().is_some()).map(|m| m.text()).collect();
    assert_eq!(evicted(below), [true, false, true]);
}

#[tokio::test]
async fn listings_without_their_own_bound_are_evicted_by_size_too() {
    let write = |n: usize| ("write_file", json!({"file_path": format!("/a-name-of-some-length-{n}"), "content": "x"}));
    let script = || [Turn::calls((0..8).map(write)), Turn::call("ls", json!({"path": "/"})), Turn::text("Done.")];
    for (listing_tokens, evicted) in [(Some(1_000), false), (None, true)] {
        let options = FilesystemOptions { result_tokens: Some(20), listing_tokens, ..FilesystemOptions::default() };
        let (outcome, _) = play(script(), |b| b.files(options)).await;
        let listing = &results(&outcome)[8].0;
        assert_eq!(listing.contains("too large to show"), evicted, "{listing}");
    }
}

fn stored(outcome: &Outcome) -> usize {
    let folder = VPath::parse("/conversation_history/messages").unwrap();
    outcome.state.get::<Files>().map_or(0, |files| files.iter().filter(|(path, _)| path.starts_with(&folder)).count())
}

fn shown(request: &ModelRequest) -> Vec<bool> {
    let people = request.messages.iter().filter(|m| m.as_user().is_some());
    people.map(|message| message.text().starts_with("This message is long")).collect()
}

#[tokio::test]
async fn a_long_message_is_stored_and_truncated_with_a_planner_too() {
    let model = ScriptedModel::new([Turn::text("Done."), Turn::text("Really done.")]);
    let planner = planner_fn(|_task, _cx| async { Ok(vec!["Read it".to_owned()]) });
    let agent = ten_tokens(DeepAgent::builder().model(model.clone())).planner(planner).build().unwrap();
    let outcome = agent.invoke("word ".repeat(100)).await.unwrap();
    assert_eq!((stored(&outcome), outcome.state.get::<Todos>().unwrap().len()), (1, 1));
    assert_eq!(shown(&model.requests()[0]), [true, false], "the task, then what is said of the plan");
}

#[tokio::test]
async fn long_messages_are_stored_wherever_they_appear_in_the_input() {
    let long = |n: usize| Message::user(format!("{n} {}", "word ".repeat(100)));
    let given = [long(1), Message::assistant("Read."), long(2), Message::user("short"), long(3), Message::user("Go.")];
    let model = ScriptedModel::new([Turn::text("Done.")]);
    let agent = ten_tokens(DeepAgent::builder().model(model.clone())).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(given)).await.unwrap();
    assert_eq!(stored(&outcome), 3);
    assert_eq!(shown(&model.requests()[0]), [true, true, false, true, false]);
    assert!(outcome.messages().get(0).unwrap().text().starts_with("1 word"), "the thread keeps it whole");
}

#[tokio::test]
async fn a_long_message_is_truncated_in_sub_agents_and_after_a_resume() {
    let long = "word ".repeat(100);
    let model = ScriptedModel::rules()
        .when(begins("This message is long"), [Turn::call("send", json!({})), Turn::text("Sent.")])
        .otherwise([
            Turn::call("task", json!({"description": long, "subagent_type": "general-purpose"})),
            Turn::text("Done."),
        ])
        .build();
    let journal = journal();
    let build = || {
        let gate = InterruptPolicy::new().before("send", InterruptOn::any());
        let builder = ten_tokens(DeepAgent::builder().model(model.clone())).journal(journal.clone());
        builder.interrupt_on(gate).tool(echo("send")).build().unwrap()
    };
    let waiting = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    let id = waiting.action_requests().remove(0).id;
    let done = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
    assert_eq!((done.text(), stored(&done)), ("Done.".to_owned(), 1));
    let below = model.requests().into_iter().filter(|r| begins("This message is long")(r)).count();
    assert_eq!(below, 2, "before and after the resume");
}

#[tokio::test]
async fn a_limit_of_zero_tokens_means_no_limit_for_messages_too() {
    let options = FilesystemOptions { message_tokens: Some(0), ..FilesystemOptions::default() };
    let (outcome, model) = play([Turn::text("Done.")], |b| b.files(options)).await;
    assert_eq!((stored(&outcome), shown(&model.requests()[0])), (0, vec![false]));
}

#[tokio::test]
async fn long_arguments_are_cut_at_any_depth_including_lists_of_edits() {
    let long = "w".repeat(2_001);
    let edits = json!([
        {"old_string": long, "new_string": "short"},
        {"old_string": "e".repeat(2_000), "new_string": long},
    ]);
    let answer = AssistantMessage::new(vec![Block::call("c", "edit_file", json!({"file_path": "/a", "edits": edits}))]);
    let result = Message::tool(answer.tool_calls().next().unwrap(), "done");
    let given = [
        Message::user("Edit."),
        Message::Assistant(answer),
        result,
        Message::assistant("Edited."),
        Message::user("Go on."),
    ];
    let args =
        TruncateArgs { trigger: Some(Trigger::messages(4)), keep: Some(Size::Messages(1)), ..TruncateArgs::default() };
    let options = SummarizationOptions::default().trigger(Trigger::never()).truncate_args(args);
    let (outcome, model) = {
        let model = ScriptedModel::new([Turn::text("Done.")]);
        let agent = DeepAgent::builder().model(model.clone()).summarization(options).build().unwrap();
        (agent.invoke(RunInput::messages(given)).await.unwrap(), model)
    };
    let lengths = |messages: &deepagents::core::message::Messages| {
        let edits = messages.get(1).unwrap().as_assistant().unwrap().tool_calls().next().unwrap().args["edits"].clone();
        let length = |edit: &Value| ["old_string", "new_string"].map(|side| edit[side].as_str().unwrap().len());
        edits.as_array().unwrap().iter().map(length).collect::<Vec<_>>()
    };
    assert_eq!(lengths(&model.requests()[0].messages), [[43, 5], [2_000, 43]]);
    assert_eq!(lengths(outcome.messages()), [[2_001, 5], [2_000, 2_001]]);
}

#[tokio::test]
async fn an_unknown_context_window_is_reported() {
    let mut known = ModelProfile::default();
    known.context_window = Some(32_000);
    let own = SummarizationOptions::default().trigger(Trigger::tokens(10_000));
    let window = SummarizationOptions::default().context_window(32_000);
    for (profile, options, told) in [
        (ModelProfile::default(), SummarizationOptions::default(), true),
        (known, SummarizationOptions::default(), false),
        (ModelProfile::default(), own, false),
        (ModelProfile::default(), window, false),
    ] {
        let model = ScriptedModel::new([Turn::text("Done.")]).with_profile(profile);
        let agent = DeepAgent::builder().model(model).summarization(options).build().unwrap();
        let (events, _) = reported(agent, "Go.").await;
        let unknown: Vec<_> =
            events.iter().filter(|e| matches!(e, MiddlewareEvent::ContextWindowUnknown { .. })).collect();
        assert_eq!(unknown.len(), usize::from(told), "{events:?}");
    }
}
