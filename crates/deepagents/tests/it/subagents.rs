//! Delegation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use deepagents::channels::{Files, Todos};
use deepagents::core::model::ModelEvent;
use deepagents::core::run::{ModelCall, RunObserver};
use deepagents::fs::VPath;
use deepagents::middleware::subagents::DelegationLimits;
use deepagents::models::Fallback;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{Mode, SubAgentResult, SubAgentSpec, sub_agent_fn};
use deepagents::{
    ChatModel, DeepAgent, DeepAgentBuilder, EventKind, FinishReason, Message, ModelError, ModelRequest, Outcome,
    RunInput,
};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::json;

use crate::results;

fn task(description: &str) -> (&'static str, serde_json::Value) {
    ("task", json!({"description": description, "subagent_type": "general-purpose"}))
}

fn asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.iter().any(|m| matches!(**m, Message::User(_)) && m.text().contains(words))
}

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn text_of(outcome: &Outcome, path: &str) -> Option<String> {
    let file = outcome.state.get::<Files>()?.get(&VPath::parse(path).unwrap())?.clone();
    Some(String::from_utf8(file.content().bytes().to_vec()).unwrap())
}

async fn run(model: ScriptedModel, configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> Outcome {
    let agent = configure(DeepAgent::builder().model(model)).build().unwrap();
    agent.invoke("Main job.").await.unwrap()
}

#[tokio::test]
async fn a_sub_agent_sees_only_its_task_and_returns_its_last_text() {
    let model = ScriptedModel::rules()
        .when(first_asked("Count"), [Turn::text("There are three.  ")])
        .otherwise([Turn::calls([task("Count the birds.")]), Turn::text("Three.")])
        .build();
    let outcome = run(model.clone(), |b| b).await;
    assert_eq!(results(&outcome), [("There are three.".to_owned(), false)]);
    let child = &model.requests()[1];
    assert_eq!(child.messages.len(), 1);
    assert!(child.tools.iter().all(|tool| tool.name != "task"), "a sub-agent does not delegate in turn");
}

/// Records the purposes of the agents that call a model.
#[derive(Default)]
struct Purposes(Mutex<Vec<Option<String>>>);

impl RunObserver for Purposes {
    fn model(
        self: Arc<Self>,
        call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        self.0.lock().unwrap().push(call.description.as_deref().map(str::to_owned));
        model.stream(request)
    }
}

#[tokio::test]
async fn an_observer_learns_each_agents_purpose() {
    for description in [Some("Knows birds."), None] {
        let delegate = Turn::call("task", json!({"description": "Count the birds.", "subagent_type": "counter"}));
        let model = ScriptedModel::rules()
            .when(first_asked("Count"), [Turn::text("Three.")])
            .otherwise([delegate, Turn::text("Three.")])
            .build();
        let builder = DeepAgent::builder().model(model).sub_agent(SubAgentSpec::new("counter", "Counts things."));
        let builder = description.into_iter().fold(builder, DeepAgentBuilder::description);
        let purposes = Arc::new(Purposes::default());
        builder.build().unwrap().invoke(RunInput::new("Main job.").observer(purposes.clone())).await.unwrap();
        let own = description.map(str::to_owned);
        assert_eq!(*purposes.0.lock().unwrap(), [own.clone(), Some("Counts things.".to_owned()), own]);
    }
}

#[tokio::test]
async fn a_sub_agents_writes_and_deletions_are_returned_file_by_file() {
    let write = |path: &str, content: &str| ("write_file", json!({"file_path": path, "content": content}));
    let model = ScriptedModel::rules()
        .when(first_asked("First"), [Turn::calls([write("/x.txt", "edited by first")]), Turn::text("Edited.")])
        .when(
            first_asked("Second"),
            [
                Turn::calls([write("/b.txt", "by second")]),
                Turn::call("delete", json!({"file_path": "/gone.txt"})),
                Turn::text("Wrote and deleted."),
            ],
        )
        .otherwise([
            Turn::calls([write("/x.txt", "original"), write("/gone.txt", "soon gone")]),
            Turn::calls([task("First job."), task("Second job.")]),
            Turn::text("Done."),
        ])
        .build();
    let files = deepagents::middleware::filesystem::FilesystemOptions { read_before_edit: false, ..Default::default() };
    let outcome = run(model, |b| b.files(files)).await;
    assert_eq!(
        text_of(&outcome, "/x.txt").as_deref(),
        Some("edited by first"),
        "the other's stale copy is not written back"
    );
    assert_eq!(text_of(&outcome, "/b.txt").as_deref(), Some("by second"));
    assert_eq!(text_of(&outcome, "/gone.txt"), None, "a deleted file does not come back");
}

#[tokio::test]
async fn when_two_sub_agents_change_one_file_the_first_wins_with_a_conflict_note() {
    let write = |text: &str| Turn::call("write_file", json!({"file_path": "/same.txt", "content": text}));
    let model = ScriptedModel::rules()
        .when(first_asked("First"), [write("one"), Turn::text("Wrote.")])
        .when(first_asked("Second"), [write("two"), Turn::text("Wrote.")])
        .otherwise([Turn::calls([task("First."), task("Second.")]), Turn::text("Done.")])
        .build();
    let outcome = run(model, |b| b).await;
    let told: Vec<bool> = results(&outcome).iter().map(|(text, _)| text.contains("/same.txt")).collect();
    assert_eq!(told.iter().filter(|t| **t).count(), 1, "{:?}", results(&outcome));
    let kept = text_of(&outcome, "/same.txt").unwrap();
    assert!(kept == "one" || kept == "two");
}

#[tokio::test]
async fn a_sub_agent_keeps_its_own_todo_list() {
    let plan = |word: &str| Turn::call("write_todos", json!({"todos": [{"content": word, "status": "completed"}]}));
    let model = ScriptedModel::rules()
        .when(first_asked("Sub job"), [plan("theirs"), Turn::text("Planned.")])
        .otherwise([plan("mine"), Turn::calls([task("Sub job.")]), Turn::text("Done.")])
        .build();
    let outcome = run(model, |b| b).await;
    let todos = outcome.state.get::<Todos>().unwrap();
    assert_eq!(todos.iter().map(|t| t.content.as_str()).collect::<Vec<_>>(), ["mine"]);
}

#[tokio::test]
async fn a_failed_sub_agent_is_an_error_result_and_its_siblings_finish() {
    let model = ScriptedModel::rules()
        .when(first_asked("Fails"), [Turn::error(deepagents::ModelError::invalid("no such model"))])
        .when(first_asked("Works"), [Turn::text("Worked.")])
        .otherwise([Turn::calls([task("Fails."), task("Works.")]), Turn::text("Half done.")])
        .build();
    let outcome = run(model, |b| b).await;
    let results = results(&outcome);
    assert!(results[0].1 && results[0].0.contains("sub-agent general-purpose failed"), "{results:?}");
    assert_eq!(results[1], ("Worked.".to_owned(), false));
    assert_eq!(
        (outcome.stop, outcome.state.messages().last().unwrap().text()),
        (FinishReason::Done, "Half done.".to_owned())
    );
}

#[tokio::test]
async fn an_unknown_sub_agent_or_argument_is_an_error_listing_the_known_ones() {
    let model = ScriptedModel::new([
        Turn::call("task", json!({"description": "x", "subagent_type": "nobody"})),
        Turn::call("task", json!({"description": "x", "subagent_type": "general-purpose", "prompt": "y"})),
        Turn::text("Done."),
    ]);
    let outcome = run(model, |b| b).await;
    let results = results(&outcome);
    assert_eq!(results[0], ("Error: there is no sub-agent nobody; there are general-purpose.".to_owned(), true));
    assert!(results[1].1 && results[1].0.contains("prompt"), "{results:?}");
}

#[tokio::test]
async fn a_described_sub_agent_has_its_prompt_tools_and_model_and_is_listed() {
    let own = ScriptedModel::new([Turn::text("Researched.")]).with_name("scripted:own");
    let main = ScriptedModel::new([
        Turn::call("task", json!({"description": "Find out.", "subagent_type": "researcher"})),
        Turn::text("Done."),
    ]);
    let spec = SubAgentSpec::new("researcher", "Finds things out.").system_prompt("Cite sources.").model(own.clone());
    let outcome = run(main.clone(), |b| b.sub_agent(spec)).await;
    assert_eq!(results(&outcome)[0].0, "Researched.");
    assert!(own.requests()[0].system_text().starts_with("Cite sources."));
    let task = main.requests()[0].tools.iter().find(|tool| tool.name == "task").unwrap().clone();
    assert!(
        task.description.contains("- general-purpose: ")
            && task.description.contains("- researcher: Finds things out.")
    );
}

#[tokio::test]
async fn a_fork_sees_the_conversation_and_starts_with_the_same_prompt() {
    let model = ScriptedModel::rules()
        .when(asked("Look closer."), [Turn::text("Looked.")])
        .otherwise([
            Turn::call("task", json!({"description": "Look closer.", "subagent_type": "twin"})),
            Turn::text("Done."),
        ])
        .build();
    let twin = SubAgentSpec::new("twin", "Shares the conversation.").mode(Mode::Fork);
    let outcome = run(model.clone(), |b| b.sub_agent(twin)).await;
    assert_eq!(results(&outcome)[0].0, "Looked.");
    let requests = model.requests();
    assert_eq!(requests[1].messages.get(0).unwrap().text(), "Main job.");
    assert_eq!(requests[0].system_text(), requests[1].system_text());
    let names = |r: &ModelRequest| r.tools.iter().map(|t| (t.name.clone(), t.description.clone())).collect::<Vec<_>>();
    assert_eq!(names(&requests[0]), names(&requests[1]));
}

#[tokio::test]
async fn closures_and_other_agents_can_be_sub_agents() {
    let inner = DeepAgent::builder().model(ScriptedModel::new([Turn::text("From within.")])).build().unwrap();
    let inner = deepagents::subagents::AgentSubAgent::new("inner", "An agent.", &inner);
    let echo = sub_agent_fn("echo", "Repeats.", |work, _cx| async move { Ok(SubAgentResult::text(work.description)) });
    let model = ScriptedModel::new([
        Turn::calls([
            ("task", json!({"description": "Hello", "subagent_type": "echo"})),
            ("task", json!({"description": "Hello", "subagent_type": "inner"})),
        ]),
        Turn::text("Done."),
    ]);
    let outcome = run(model, |b| b.sub_agent(echo).sub_agent(inner).general_purpose(false)).await;
    assert_eq!(results(&outcome), [("Hello".to_owned(), false), ("From within.".to_owned(), false)]);
}

#[tokio::test]
async fn an_agent_without_sub_agents_has_no_task_tool() {
    let agent = DeepAgent::builder().model(ScriptedModel::new([])).general_purpose(false).build().unwrap();
    assert!(agent.explain().tools.iter().all(|tool| tool.name != "task"));
}

#[tokio::test]
async fn two_sub_agents_with_one_name_are_rejected() {
    let spec = || SubAgentSpec::new("twice", "Twice.");
    let error =
        DeepAgent::builder().model(ScriptedModel::new([])).sub_agent(spec()).sub_agent(spec()).build().unwrap_err();
    assert_eq!(error.to_string(), "two sub-agents are named `twice`; give each a name of its own");
}

#[tokio::test]
async fn a_hundred_sub_agents_of_one_turn_run_concurrently() {
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(100));
    let meet = sub_agent_fn("meet", "Waits for all.", move |_, _| {
        let barrier = barrier.clone();
        async move {
            barrier.wait().await;
            Ok(SubAgentResult::text("met"))
        }
    });
    let calls = (0..100).map(|n| ("task", json!({"description": format!("{n}"), "subagent_type": "meet"})));
    let model = ScriptedModel::new([Turn::calls(calls), Turn::text("Done.")]);
    let outcome = run(model, |b| b.sub_agent(meet)).await;
    assert!(results(&outcome).iter().all(|(text, _)| text == "met"));
}

/// A sub-agent that records how many of its kind have worked at once.
fn counting() -> (impl Into<SubAgentSpec>, Arc<AtomicUsize>) {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let count = sub_agent_fn("count", "Counts.", move |_, _| {
        let (now, most) = (now.clone(), most.clone());
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok(SubAgentResult::text("counted"))
        }
    });
    (count, seen)
}

#[tokio::test]
async fn a_sub_agents_own_limits_do_not_exceed_those_above_it() {
    for own in [json!({"depth": 3}), json!({"depth": 3, "at_once": 200})] {
        let (count, seen) = counting();
        let calls = (0..20).map(|n| ("task", json!({"description": format!("{n}"), "subagent_type": "count"})));
        let model = ScriptedModel::rules()
            .when(first_asked("Lead"), [Turn::calls(calls), Turn::text("Led.")])
            .otherwise([
                Turn::call("task", json!({"description": "Lead.", "subagent_type": "lead"})),
                Turn::text("Done."),
            ])
            .build();
        let lead = json!({"name": "lead", "description": "Leads.", "limits": own});
        let lead: SubAgentSpec = serde_json::from_value(lead).unwrap();
        let limits = DelegationLimits { at_once: 1, ..DelegationLimits::default() };
        let outcome = run(model, |b| b.sub_agent(lead.sub_agent(count)).delegation_limits(limits)).await;
        assert_eq!(results(&outcome)[0].0, "Led.");
        assert_eq!(seen.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn concurrent_sub_agents_do_not_exceed_the_limit() {
    let (count, seen) = counting();
    let calls = (0..20).map(|n| ("task", json!({"description": format!("{n}"), "subagent_type": "count"})));
    let model = ScriptedModel::new([Turn::calls(calls), Turn::text("Done.")]);
    let limits = DelegationLimits { at_once: 3, ..DelegationLimits::default() };
    run(model, |b| b.sub_agent(count).delegation_limits(limits)).await;
    assert!((1..=3).contains(&seen.load(Ordering::SeqCst)));
}

#[tokio::test]
async fn a_sub_agents_events_carry_its_path_and_its_tokens_are_counted() {
    let usage = |n| deepagents::Usage { input: n, output: 1, ..Default::default() };
    let model = ScriptedModel::rules()
        .when(first_asked("Sub job"), [Turn::text("Done below.").usage(usage(5))])
        .otherwise([Turn::calls([task("Sub job.")]).usage(usage(10)), Turn::text("Done.").usage(usage(20))])
        .build();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let mut run = agent.run("Main job.");
    let mut below = Vec::new();
    while let Some(event) = run.next().await {
        if !event.path.is_empty() {
            assert!(event.path[0].starts_with("task:"), "{:?}", event.path);
            below.push(event.kind);
        }
    }
    assert!(matches!(below.first(), Some(EventKind::AgentStarted { name }) if name == "general-purpose"));
    assert!(matches!(below.last(), Some(EventKind::AgentFinished { usage, .. }) if usage.input == 5));
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.usage.input, 35);
    assert_eq!(outcome.usage_by_agent["general-purpose"].input, 5);
}

#[tokio::test]
async fn sub_agents_keep_using_the_model_that_replaced_a_failed_one() {
    let away = || Turn::error(deepagents::ModelError::transport("away"));
    let first = ScriptedModel::new([away(), away(), away()]).with_name("first:m");
    let second = ScriptedModel::rules()
        .when(first_asked("Count"), [Turn::text("Three.")])
        .otherwise([Turn::calls([task("Count the birds.")]), Turn::text("There are three.")])
        .build();
    let chain = Fallback::new(std::sync::Arc::new(first.clone())).then(std::sync::Arc::new(second.clone()));
    let agent = DeepAgent::builder().model(chain).build().unwrap();
    assert_eq!(agent.invoke("Main job.").await.unwrap().text(), "There are three.");
    assert_eq!((first.requests().len(), second.requests().len()), (1, 3), "the one that failed is asked once");
}
