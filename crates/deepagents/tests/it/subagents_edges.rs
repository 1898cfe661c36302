//! Edge cases of delegation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::channels::Files;
use deepagents::core::state::{ChannelError, ChannelSpec, Concurrent, Merge, Sharing};
use deepagents::core::tool::DynTool;
use deepagents::fs::VPath;
use deepagents::middleware::Filesystem;
use deepagents::middleware::subagents::DelegationLimits;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::subagents::{AgentSubAgent, Mode, SubAgentResult, SubAgentSpec, sub_agent_fn};
use deepagents::{
    Channel, Context, Decision, DeepAgent, DeepAgentBuilder, Error, EventKind, FinishReason, HookOutput, InterruptOn,
    InterruptPolicy, JumpTo, MemoryJournal, Middleware, ModelRequest, Outcome, ResponseFormat, Result, RunInput,
    ToolNext, ToolRequest, json_tool, wrap_tool_call,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::results;

fn task(agent: &str, description: &str) -> (&'static str, Value) {
    ("task", json!({"description": description, "subagent_type": agent}))
}

fn write(path: &str, content: &str) -> (&'static str, Value) {
    ("write_file", json!({"file_path": path, "content": content}))
}

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn last_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| {
        let last = request.messages.iter().rfind(|m| m.as_tool().is_none() && m.as_assistant().is_none());
        last.is_some_and(|m| m.text().contains(words))
    }
}

fn echo(name: &str) -> impl DynTool + use<> {
    json_tool(name, "A tool.", json!({"type": "object"}), |args: Value, _cx| async move { Ok(args.to_string()) })
}

fn content(outcome: &Outcome, path: &str) -> Option<String> {
    let file = outcome.state.get::<Files>()?.get(&VPath::parse(path).unwrap())?.clone();
    Some(String::from_utf8(file.content().bytes().to_vec()).unwrap())
}

async fn run(model: ScriptedModel, configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> Outcome {
    configure(DeepAgent::builder().model(model)).build().unwrap().invoke("Main job.").await.unwrap()
}

fn names(request: &ModelRequest) -> Vec<String> {
    request.tools.iter().map(|tool| tool.name.clone()).collect()
}

/// Two subagents that each write a file and then make a gated call.
fn gated() -> (ScriptedModel, impl Fn() -> DeepAgent) {
    let child = |path: &str, n: u32| {
        [Turn::calls([write(path, "before")]), Turn::call("send", json!({"n": n})), Turn::text(format!("Sent {n}."))]
    };
    let model = ScriptedModel::rules()
        .when(first_asked("First"), child("/first.txt", 1))
        .when(first_asked("Second"), child("/second.txt", 2))
        .otherwise([
            Turn::calls([task("general-purpose", "First."), task("general-purpose", "Second.")]),
            Turn::text("Done."),
        ])
        .build();
    let (journal, shared) = (Arc::new(MemoryJournal::new()), model.clone());
    let build = move || {
        let gate = InterruptPolicy::new().before("send", InterruptOn::any());
        let builder = DeepAgent::builder().model(shared.clone()).tool(echo("send")).journal(journal.clone());
        builder.interrupt_on(gate).build().unwrap()
    };
    (model, build)
}

#[tokio::test]
async fn parallel_waiting_sub_agents_are_answered_singly_and_keep_their_files() {
    let (model, build) = gated();
    let waiting = build().invoke(RunInput::new("Main job.").thread("t")).await.unwrap();
    let ids: Vec<String> = waiting.action_requests().into_iter().map(|q| q.id).collect();
    assert_eq!(ids, ["task:0.0/1.0", "task:0.1/1.0"]);
    assert!(waiting.action_requests()[0].text.starts_with("general-purpose wants to call send"));
    let asked = model.requests().len();
    let second = build().invoke(RunInput::resume("t").decide(&ids[1], Decision::Approve)).await.unwrap();
    assert_eq!(second.stop, FinishReason::Interrupted);
    assert_eq!(model.requests().len(), asked + 1, "the one that was answered went on, the other did not");
    assert_eq!(content(&second, "/second.txt").as_deref(), Some("before"));
    let no = Decision::Reject { message: None };
    let done = build().invoke(RunInput::resume("t").decide(&ids[0], no)).await.unwrap();
    assert_eq!(results(&done), [("Sent 1.".to_owned(), false), ("Sent 2.".to_owned(), false)]);
    assert_eq!(content(&done, "/first.txt").as_deref(), Some("before"));
    assert_eq!((done.text(), model.remaining()), ("Done.".to_owned(), 0));
}

#[tokio::test]
async fn files_of_waiting_sub_agents_are_kept_when_a_new_message_arrives() {
    let (_, build) = gated();
    build().invoke(RunInput::new("Main job.").thread("t")).await.unwrap();
    let next = build().invoke(RunInput::new("Never mind.").thread("t")).await.unwrap();
    check_history(next.messages()).unwrap();
    assert!(next.action_requests().is_empty());
    assert!(results(&next).iter().all(|(text, error)| *error && text.contains("conversation went on")));
    for path in ["/first.txt", "/second.txt"] {
        assert_eq!(content(&next, path).as_deref(), Some("before"));
    }
}

#[tokio::test]
async fn an_approved_fork_does_not_wait_for_its_parents_questions() {
    let model = ScriptedModel::rules()
        .when(last_asked("Look."), [Turn::call("send", json!({})), Turn::text("Looked.")])
        .otherwise([Turn::calls([task("twin", "Look.")]), Turn::text("Done.")])
        .build();
    let gate = InterruptPolicy::new().before("task", InterruptOn::any()).before("send", InterruptOn::any());
    let agent = DeepAgent::builder()
        .model(model)
        .tool(echo("send"))
        .sub_agent(SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork))
        .journal(MemoryJournal::new())
        .interrupt_on(gate)
        .build()
        .unwrap();
    let mut outcome = agent.invoke(RunInput::new("Main job.").thread("t")).await.unwrap();
    for (id, path) in [("0.0", 0), ("task:0.0/0.0", 1)] {
        let question = outcome.action_requests().remove(0);
        assert_eq!((question.id.as_str(), question.call.path.len()), (id, path));
        outcome = agent.invoke(RunInput::resume("t").decide(id, Decision::Approve)).await.unwrap();
    }
    assert_eq!((outcome.text(), results(&outcome)[0].0.as_str()), ("Done.".to_owned(), "Looked."));
}

#[tokio::test]
async fn a_sub_agent_can_require_fewer_or_more_approvals_than_its_parent() {
    let model = ScriptedModel::rules()
        .when(first_asked("Free"), [Turn::call("send", json!({})), Turn::text("Sent.")])
        .when(first_asked("Strict"), [Turn::call("other", json!({})), Turn::text("Sent.")])
        .otherwise([Turn::calls([task("free", "Free."), task("strict", "Strict.")]), Turn::text("Done.")])
        .build();
    let gate = |tool: &str| InterruptPolicy::new().before(tool, InterruptOn::any());
    let more = deepagents::middleware::HumanInTheLoop::new(gate("other"));
    let agent = DeepAgent::builder()
        .model(model)
        .tool(echo("send"))
        .tool(echo("other"))
        .sub_agent(SubAgentSpec::new("free", "Asks nobody.").interrupt_on(InterruptPolicy::new()))
        .sub_agent(SubAgentSpec::new("strict", "Asks more.").middleware(more))
        .journal(MemoryJournal::new())
        .interrupt_on(gate("send"))
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Main job.").thread("t")).await.unwrap();
    let asked: Vec<String> = waiting.action_requests().into_iter().map(|q| q.tool).collect();
    assert_eq!(asked, ["other"]);
}

#[tokio::test]
async fn an_empty_last_answer_falls_back_to_the_text_before_it() {
    let model = ScriptedModel::rules()
        .when(first_asked("Sub"), [Turn::call("ls", json!({"path": "/"})).and_text("Found it.\n "), Turn::text("")])
        .when(first_asked("Mute"), [Turn::text("")])
        .otherwise([
            Turn::calls([task("general-purpose", "Sub."), task("general-purpose", "Mute.")]),
            Turn::text("Done."),
        ])
        .build();
    let outcome = run(model, |b| b).await;
    assert_eq!(results(&outcome), [("Found it.".to_owned(), false), (String::new(), false)]);
}

#[tokio::test]
async fn a_structured_answer_is_returned_as_json() {
    let schema = json!({"type": "object", "properties": {"birds": {"type": "integer"}}, "required": ["birds"]});
    let format = ResponseFormat::json("Count", schema);
    let model = ScriptedModel::rules()
        .when(first_asked("Count"), [Turn::call("Count", json!({"birds": 3, "of": ["a\"", {"b": null}]}))])
        .otherwise([Turn::calls([task("counter", "Count.")]), Turn::text("Done.")])
        .build();
    let outcome = run(model, |b| b.sub_agent(SubAgentSpec::new("counter", "Counts.").response_format(format))).await;
    let expected = r#"{"birds": 3, "of": ["a\"", {"b": null}]}"#;
    assert_eq!(results(&outcome), [(expected.to_owned(), false)]);
}

#[tokio::test]
async fn tools_are_inherited_unless_named_and_middlewares_are_not() {
    struct Mine(Arc<AtomicUsize>);
    impl Middleware for Mine {
        fn name(&self) -> &str {
            "Mine"
        }
        async fn before_model(&self, _cx: &Context) -> Result<HookOutput> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(HookOutput::next())
        }
    }
    let seen: Arc<AtomicUsize> = Arc::default();
    let model = ScriptedModel::rules()
        .when(first_asked("Heir"), [Turn::text("a")])
        .when(first_asked("Poor"), [Turn::text("b")])
        .when(first_asked("Own"), [Turn::text("c")])
        .otherwise([
            Turn::calls([task("heir", "Heir."), task("poor", "Poor."), task("own", "Own.")]),
            Turn::text("Done."),
        ])
        .build();
    run(model.clone(), |b| {
        b.tool(echo("mine"))
            .middleware(Mine(seen.clone()))
            .sub_agent(SubAgentSpec::new("heir", "Inherits."))
            .sub_agent(SubAgentSpec::new("poor", "Has none.").tools([]))
            .sub_agent(SubAgentSpec::new("own", "Has its own.").tool(echo("theirs")))
    })
    .await;
    let of = |words: &'static str| names(model.requests().iter().find(|r| first_asked(words)(r)).unwrap());
    let has = |words, tool: &str| of(words).contains(&tool.to_owned());
    assert!(has("Heir", "mine") && !has("Heir", "theirs"));
    assert!(!has("Poor", "mine") && has("Poor", "read_file"), "file tools come with the stack");
    assert!(has("Own", "theirs") && !has("Own", "mine"));
    assert_eq!(seen.load(Ordering::SeqCst), 2, "for the main agent's two calls alone");
}

#[tokio::test]
async fn the_parents_depth_limit_applies_to_built_agents() {
    let inner = |model: &ScriptedModel, below: Option<DeepAgent>| {
        let builder = DeepAgent::builder().model(model.clone());
        match below {
            Some(agent) => builder.sub_agent(AgentSubAgent::new("below", "Below.", &agent)),
            None => builder,
        }
    };
    let leaf = ScriptedModel::rules().always(Turn::text("Leaf.")).build();
    let middle = ScriptedModel::new([Turn::calls([task("below", "Deeper.")]), Turn::text("Alone.")]);
    let top = ScriptedModel::new([Turn::calls([task("below", "Deep.")]), Turn::text("Done.")]);
    let below = inner(&middle, Some(inner(&leaf, None).build().unwrap())).build().unwrap();
    let limits = DelegationLimits { depth: 1, ..DelegationLimits::default() };
    let agent = inner(&top, Some(below)).delegation_limits(limits).build().unwrap();
    let outcome = agent.invoke("Main job.").await.unwrap();
    assert_eq!(results(&outcome)[0].0, "Alone.");
    let told = middle.requests()[1].messages.last().unwrap().text();
    assert!(told.contains("delegation may go 1 deep and no deeper"), "{told}");
    assert!(leaf.requests().is_empty());
}

#[tokio::test]
async fn cancelling_the_parent_cancels_sub_agents_and_leaves_a_complete_history() {
    let hour = std::time::Duration::from_secs(3600);
    let model = ScriptedModel::rules()
        .when(first_asked("Quick"), [Turn::text("Quick.")])
        .when(first_asked("Slow"), [Turn::calls([write("/slow.txt", "begun")]), Turn::text("Never.").delay(hour)])
        .otherwise([Turn::calls([task("general-purpose", "Quick."), task("general-purpose", "Slow.")])])
        .build();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let mut run = agent.run("Main job.");
    let mut ended = (false, false);
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::ToolFinished { name, .. } if name == "task" => ended.0 = true,
            EventKind::ToolFinished { name, .. } if name == "write_file" => ended.1 = true,
            _ => continue,
        }
        if ended == (true, true) {
            run.cancel();
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    check_history(outcome.messages()).unwrap();
    assert_eq!(results(&outcome)[0], ("Quick.".to_owned(), false));
}

#[tokio::test]
async fn a_sub_agent_that_panics_is_an_error_result() {
    let panics = sub_agent_fn("panics", "Panics.", |_, _| async { panic!("out of tea") });
    let works = sub_agent_fn("works", "Works.", |_, _| async { Ok(SubAgentResult::text("fine")) });
    let model = ScriptedModel::new([Turn::calls([task("panics", "x"), task("works", "x")]), Turn::text("Done.")]);
    let outcome = run(model, |b| b.sub_agent(panics).sub_agent(works)).await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("out of tea"), "{results:?}");
    assert_eq!(results[1], ("fine".to_owned(), false));
}

#[tokio::test]
async fn edits_of_different_files_by_twenty_sub_agents_all_apply() {
    let paths: Vec<String> = (0..20).map(|n| format!("/file{n:02}.txt")).collect();
    let mut rules = ScriptedModel::rules();
    for path in &paths {
        let name = path.clone();
        rules = rules.when(
            move |r: &ModelRequest| r.messages.get(0).is_some_and(|m| m.text() == name),
            [
                Turn::call("read_file", json!({"file_path": path})),
                Turn::call(
                    "edit_file",
                    json!({"file_path": path, "old_string": "old", "new_string": format!("new {path}")}),
                ),
                Turn::text("Edited."),
            ],
        );
    }
    let model = rules
        .otherwise([
            Turn::calls(paths.iter().map(|path| write(path, "old"))),
            Turn::calls(paths.iter().map(|path| task("general-purpose", path))),
            Turn::text("Done."),
        ])
        .build();
    let outcome = run(model, |b| b).await;
    for path in &paths {
        assert_eq!(content(&outcome, path), Some(format!("new {path}")), "{:?}", results(&outcome));
    }
}

struct Secret;
impl Channel for Secret {
    const NAME: &'static str = "secret";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::private();
    type Value = String;
    type Update = String;
    fn reduce(value: &mut String, update: String) -> Result<(), ChannelError> {
        value.push_str(&update);
        Ok(())
    }
}

/// Adds to the secret once per run, and counts how often its channels are requested.
#[derive(Clone, Default)]
struct Keeps(Arc<AtomicUsize>);
impl Middleware for Keeps {
    fn name(&self) -> &str {
        "Keeps"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        self.0.fetch_add(1, Ordering::SeqCst);
        vec![ChannelSpec::new::<Secret>()]
    }
    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        assert_eq!(cx.get::<Secret>(), "", "nobody sees the secret of another");
        Ok(HookOutput::set::<Secret>(cx.agent_name().to_owned()))
    }
}

#[tokio::test]
async fn private_channels_pass_neither_down_nor_up() {
    let model = ScriptedModel::rules()
        .when(first_asked("Sub"), [Turn::text("Kept.")])
        .otherwise([Turn::calls([task("spy", "Sub.")]), Turn::text("Done.")])
        .build();
    let spy = SubAgentSpec::new("spy", "Looks.").middleware(Keeps::default());
    let outcome = run(model, |b| b.name("main").middleware(Keeps::default()).sub_agent(spy)).await;
    assert_eq!(results(&outcome)[0].0, "Kept.");
    assert_eq!(outcome.state.get::<Secret>().unwrap(), "main");
}

#[test]
fn each_sub_agent_is_built_once() {
    let alone = Keeps::default();
    DeepAgent::builder().model(ScriptedModel::new([])).middleware(alone.clone()).build().unwrap();
    let once = alone.0.load(Ordering::SeqCst);
    let below = Keeps::default();
    let ten = (0..10).map(|n| SubAgentSpec::new(format!("s{n}"), "One.").middleware(below.clone()));
    ten.fold(DeepAgent::builder().model(ScriptedModel::new([])), DeepAgentBuilder::sub_agent).build().unwrap();
    assert_eq!(below.0.load(Ordering::SeqCst), 10 * once);
}

#[tokio::test]
async fn a_missing_task_argument_is_named_in_the_error() {
    let model = ScriptedModel::new([Turn::call("task", json!({"description": "x"})), Turn::text("Done.")]);
    let outcome = run(model, |b| b).await;
    assert!(results(&outcome)[0].1 && results(&outcome)[0].0.contains("subagent_type"), "{:?}", results(&outcome));
}

#[tokio::test]
async fn a_sub_agent_named_general_purpose_replaces_it_and_forks_cannot_have_skills() {
    let spec = SubAgentSpec::new("general-purpose", "Mine.");
    let model = ScriptedModel::new([Turn::text("Done.")]);
    run(model.clone(), |b| b.sub_agent(spec)).await;
    let described = model.requests()[0].tools.iter().find(|t| t.name == "task").unwrap().description.clone();
    assert!(described.matches("- general-purpose: ").count() == 1 && described.contains("- general-purpose: Mine."));
    let fork = SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork).skills(["/skills"]);
    let error = DeepAgent::builder().model(ScriptedModel::new([])).sub_agent(fork).build().unwrap_err();
    assert!(error.to_string().contains("`twin`") && error.to_string().contains("skills"), "{error}");
}

#[tokio::test]
async fn a_fork_has_a_complete_history_and_is_told_to_work_itself_if_it_delegates() {
    let model = ScriptedModel::rules()
        .when(last_asked("Look."), [Turn::calls([task("twin", "Deeper.")]), Turn::text("Did it myself.")])
        .otherwise([Turn::calls([task("twin", "Look."), task("general-purpose", "Never mind.")]), Turn::text("Done.")])
        .build();
    let outcome =
        run(model.clone(), |b| {
            let other = sub_agent_fn("general-purpose", "Echo.", |work, _| async move {
                Ok(SubAgentResult::text(work.description))
            });
            b.sub_agent(SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork)).sub_agent(other)
        })
        .await;
    assert_eq!(results(&outcome)[0], ("Did it myself.".to_owned(), false));
    let forked: Vec<ModelRequest> = model.requests().into_iter().filter(last_asked("Look.")).collect();
    assert_eq!(forked[0].messages.len(), 2, "the call that delegates is not part of it");
    check_history(&forked[0].messages).unwrap();
    let told = forked[1].messages.last().unwrap().text();
    assert!(told.contains("do this work yourself"), "{told}");
}

#[tokio::test]
async fn a_forks_prompt_goes_with_its_task_and_the_shared_prefix_is_unchanged() {
    let model = ScriptedModel::rules()
        .when(last_asked("Look."), [Turn::text("Looked.")])
        .otherwise([Turn::calls([task("twin", "Look.")]), Turn::text("Done.")])
        .build();
    let twin = SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork).system_prompt("You doubt everything.");
    run(model.clone(), |b| b.system_prompt("Above.").sub_agent(twin)).await;
    let requests = model.requests();
    assert_eq!((&requests[0].system, &requests[0].tools), (&requests[1].system, &requests[1].tools));
    let task = requests[0].tools.iter().find(|tool| tool.name == "task").unwrap();
    assert!(task.description.contains("- twin: Shares. It sees the conversation."), "{}", task.description);
    let asked = requests[1].messages.last().unwrap().text();
    assert!(asked.starts_with("You doubt everything.\n") && asked.ends_with("Look."), "{asked}");
}

/// An application's channel that subagents change, without merging.
struct Verdict;
impl Channel for Verdict {
    const NAME: &'static str = "verdict";
    const SHARING: Sharing<Self::Value, Self::Update> = Sharing::merged(String::clone, |_, given, left| Merge {
        update: (given != left).then(|| left.clone()),
        conflicts: Vec::new(),
    });
    const CONCURRENT: Concurrent = Concurrent::Refuse;
    type Value = String;
    type Update = String;
    fn reduce(value: &mut String, update: String) -> Result<(), ChannelError> {
        *value = update;
        Ok(())
    }
}

/// Declares the channel, and sets it as the task says.
#[derive(Clone)]
struct Judges;
impl Middleware for Judges {
    fn name(&self) -> &str {
        "Judges"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Verdict>()]
    }
    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let said = cx.messages().last().map(|m| m.text()).unwrap_or_default();
        Ok(if said.starts_with("Judge") { HookOutput::set::<Verdict>(said) } else { HookOutput::next() })
    }
}

#[tokio::test]
async fn of_two_sub_agents_setting_an_unmergeable_value_one_is_rejected() {
    for (second, errors) in [("Judge two.", 1), ("Look.", 0)] {
        let model = ScriptedModel::rules()
            .when(|r| r.messages.len() == 1 && !first_asked("Main")(r), [Turn::text("Ok."), Turn::text("Ok.")])
            .otherwise([Turn::calls([task("judge", "Judge one."), task("judge", second)]), Turn::text("Done.")])
            .build();
        let judge = SubAgentSpec::new("judge", "Judges.").middleware(Judges);
        let outcome = run(model, |b| b.middleware(Judges).sub_agent(judge)).await;
        let refused: Vec<_> = results(&outcome).into_iter().filter(|(_, error)| *error).collect();
        assert_eq!(refused.len(), errors, "{:?}", results(&outcome));
        assert!(refused.iter().all(|(text, _)| text.contains("already changed `verdict`")), "{refused:?}");
        assert!(outcome.state.get::<Verdict>().unwrap().starts_with("Judge"));
    }
}

#[tokio::test]
async fn a_sub_agent_that_ends_without_text_reports_nothing() {
    struct Ends;
    impl Middleware for Ends {
        fn name(&self) -> &str {
            "Ends"
        }
        async fn before_agent(&self, _cx: &Context) -> Result<HookOutput> {
            Ok(HookOutput::go(JumpTo::End))
        }
    }
    let model = ScriptedModel::new([Turn::calls([task("mute", "Speak.")]), Turn::text("Done.")]);
    let outcome = run(model, |b| b.sub_agent(SubAgentSpec::new("mute", "Ends.").middleware(Ends))).await;
    assert_eq!(results(&outcome), [(String::new(), false)]);
}

#[tokio::test]
async fn a_custom_filesystem_middleware_also_restricts_described_sub_agents() {
    struct NoFiles;
    impl Middleware for NoFiles {
        fn name(&self) -> &str {
            "Filesystem"
        }
    }
    let model = ScriptedModel::rules()
        .when(first_asked("Sub"), [Turn::text("a"), Turn::text("b")])
        .otherwise([Turn::calls([task("mine", "Sub."), task("general-purpose", "Sub.")]), Turn::text("Done.")])
        .build();
    run(model.clone(), |b| b.middleware(NoFiles).sub_agent(SubAgentSpec::new("mine", "Described."))).await;
    let below: Vec<ModelRequest> = model.requests().into_iter().filter(first_asked("Sub")).collect();
    assert_eq!(below.len(), 2);
    assert!(below.iter().all(|request| !names(request).iter().any(|name| name == "write_file")));
}

#[tokio::test]
async fn a_custom_summarization_replaces_the_standard_one_in_general_purpose_too() {
    struct Mine(Arc<AtomicUsize>);
    impl Middleware for Mine {
        fn name(&self) -> &str {
            "Summarization"
        }
        async fn before_model(&self, _cx: &Context) -> Result<HookOutput> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Ok(HookOutput::next())
        }
    }
    let seen: Arc<AtomicUsize> = Arc::default();
    let model = ScriptedModel::rules()
        .when(first_asked("Sub"), [Turn::text("Found.")])
        .otherwise([Turn::calls([task("general-purpose", "Sub.")]), Turn::text("Done.")])
        .build();
    let agent = DeepAgent::builder().model(model).middleware(Mine(seen.clone())).build().unwrap();
    let names: Vec<String> = agent.explain().middlewares.into_iter().map(|part| part.name).collect();
    assert_eq!(names[3..6], ["SubAgents", "Summarization", "PromptCaching"]);
    assert_eq!(names.iter().filter(|name| *name == "Summarization").count(), 1);
    agent.invoke("Main job.").await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 3, "two calls of the main agent's model, one of the sub-agent's");
}

#[tokio::test]
async fn a_sub_agents_own_approvals_apply_alongside_its_parents() {
    let model = ScriptedModel::rules()
        .when(first_asked("Strict"), [Turn::calls([("send", json!({})), ("other", json!({}))]), Turn::text("Sent.")])
        .otherwise([Turn::calls([task("strict", "Strict.")]), Turn::text("Done.")])
        .build();
    let gate = |tool: &str| InterruptPolicy::new().before(tool, InterruptOn::any());
    let more = deepagents::middleware::HumanInTheLoop::new(gate("other"));
    let agent = DeepAgent::builder()
        .model(model)
        .tool(echo("send"))
        .tool(echo("other"))
        .sub_agent(SubAgentSpec::new("strict", "Asks more.").middleware(more))
        .journal(MemoryJournal::new())
        .interrupt_on(gate("send"))
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Main job.").thread("t")).await.unwrap();
    let asked: Vec<String> = waiting.action_requests().into_iter().map(|q| q.tool).collect();
    assert_eq!(asked, ["send", "other"]);
}

#[tokio::test]
async fn a_tool_wrapper_can_turn_a_failed_sub_agent_into_a_failed_run() {
    let strict = wrap_tool_call(|request: ToolRequest, next: ToolNext| async move {
        let delegates = request.call.name == "task";
        let response = next.run(request).await?;
        if delegates && response.is_error { Err(Error::Input("the sub-agent failed".to_owned())) } else { Ok(response) }
    });
    let model = ScriptedModel::rules()
        .when(first_asked("Fails"), [Turn::error(deepagents::ModelError::invalid("no such model"))])
        .when(first_asked("Works"), [Turn::text("Worked.")])
        .otherwise([Turn::calls([task("general-purpose", "Fails."), task("general-purpose", "Works.")])])
        .build();
    let agent = DeepAgent::builder().model(model).middleware(strict).build().unwrap();
    let error = agent.invoke("Main job.").await.unwrap_err();
    assert!(error.to_string().contains("the sub-agent failed"), "{error}");
    check_history(error.state.messages()).unwrap();
    assert_eq!(error.state.messages().last().unwrap().text(), "Worked.", "its sibling has finished");
}

#[tokio::test]
async fn a_sub_agents_own_middleware_overrides_the_inherited_one() {
    struct NoFiles;
    impl Middleware for NoFiles {
        fn name(&self) -> &str {
            "Filesystem"
        }
    }
    let model = ScriptedModel::rules()
        .when(first_asked("Sub"), [Turn::text("a")])
        .otherwise([Turn::calls([task("mine", "Sub.")]), Turn::text("Done.")])
        .build();
    let files = Filesystem::default();
    let mine = SubAgentSpec::new("mine", "Has files of its own.").middleware(files);
    run(model.clone(), |b| b.middleware(NoFiles).sub_agent(mine)).await;
    let offers = |request: &ModelRequest| names(request).iter().any(|name| name == "write_file");
    assert_eq!(model.requests().iter().map(offers).collect::<Vec<_>>(), [false, true, false]);
}
