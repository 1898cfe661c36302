//! Foreign child agents, each in a scope opened by a call.

use std::sync::{Arc, Mutex};

use deepagents_core::agent::{Agent, ChildEvent, NewTask};
use deepagents_core::event::{Event, EventKind};
use deepagents_core::interrupt::{Decision, DecisionKind};
use deepagents_core::journal::{Journal, MemoryJournal, RunStatus};
use deepagents_core::message::Usage;
use deepagents_core::run::{Budget, BudgetKind, FinishReason, RunInput};
use deepagents_core::state::State;
use deepagents_core::tool::{Tool, ToolContext, ToolError, ToolOutput};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::support::{assert_sound, kinds, lines, tool, until, watch};

/// A service that runs its own agents by ID. They continue when their waiters are gone.
#[derive(Clone, Default)]
struct Service {
    sessions: Arc<Mutex<Vec<String>>>,
    waiting: Arc<Notify>,
    answers: Arc<Mutex<Option<Arc<Semaphore>>>>,
}

impl Service {
    /// A service that answers immediately.
    fn ready() -> Self {
        let service = Self::default();
        *service.answers.lock().unwrap() = Some(Arc::new(Semaphore::new(1)));
        service
    }

    fn create(&self) -> String {
        let mut sessions = self.sessions.lock().unwrap();
        let id = format!("session_{}", sessions.len() + 1);
        sessions.push(id.clone());
        id
    }

    async fn answer(&self, id: &str) -> String {
        assert!(self.sessions.lock().unwrap().iter().any(|known| known == id), "no session {id}");
        let ready = self.answers.lock().unwrap().clone();
        self.waiting.notify_one();
        match ready {
            Some(answers) => drop(answers.acquire().await.unwrap()),
            None => std::future::pending().await,
        }
        format!("{id} answers")
    }

    fn become_ready(&self) {
        *self.answers.lock().unwrap() = Some(Arc::new(Semaphore::new(1)));
    }
}

/// Delegates to an agent of the service.
struct Remote(Service);

impl Tool for Remote {
    type Args = Value;

    fn name(&self) -> &str {
        "remote"
    }

    fn description(&self) -> &str {
        "Delegates."
    }

    fn idempotent(&self, _args: &Value) -> bool {
        true
    }

    async fn call(&self, args: Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let scope = cx.child_scope("remote", "foreign").await?;
        let id = match scope.recorded("session") {
            Some(id) => id.as_str().unwrap().to_owned(),
            None => {
                let id = self.0.create();
                scope.record("session", id.clone()).await?;
                id
            }
        };
        scope.begin_model_call()?;
        scope.emit(ChildEvent::Text("thinking".to_owned()));
        scope.emit(ChildEvent::ToolStarted {
            id: "x1".to_owned(),
            name: "look".to_owned(),
            args: json!({"at": "sky"}),
        });
        scope.emit(ChildEvent::ToolFinished {
            id: "x1".to_owned(),
            name: "look".to_owned(),
            error: false,
            text: "blue".to_owned(),
        });
        let usage = Usage { input: 100, output: 10, ..Usage::default() };
        scope.emit(ChildEvent::Answered { usage });
        scope.charge(usage, 0.5).await?;
        if args["ask"] == true {
            let question = scope.question("deploy", json!({"to": "prod"})).text("Deploy?");
            let question = question.allowed([DecisionKind::Approve, DecisionKind::Reject]);
            match scope.interrupt(question).await? {
                Decision::Approve => {}
                other => return Err(ToolError::model(format!("not approved: {other:?}"))),
            }
        }
        scope.emit(ChildEvent::Custom { name: "almost".to_owned(), data: json!(1) });
        let answer = tokio::select! {
            answer = self.0.answer(&id) => answer,
            () = scope.cancellation().cancelled() => {
                scope.finish(FinishReason::Cancelled).await?;
                return Ok("cancelled".into());
            }
        };
        scope.finish(FinishReason::Done).await?;
        Ok(answer.into())
    }
}

fn parent(service: &Service, journal: Option<Arc<MemoryJournal>>, args: Value) -> Agent {
    let model = ScriptedModel::rules()
        .always(Turn::with(move |request: &deepagents_core::model::ModelRequest| {
            match request.messages.iter().filter(|message| message.as_assistant().is_some()).count() {
                0 => Turn::call("remote", args.clone()),
                _ => Turn::text("done"),
            }
            .usage(Usage { input: 10, output: 1, ..Usage::default() })
        }))
        .build();
    let builder = Agent::builder(model).tool(Remote(service.clone()));
    match journal {
        Some(journal) => builder.journal(journal).build().unwrap(),
        None => builder.build().unwrap(),
    }
}

fn below(events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| !event.path.is_empty()).cloned().collect()
}

#[tokio::test]
async fn a_foreign_agents_events_look_like_a_local_ones_under_its_path() {
    let (events, outcome) = watch(parent(&Service::ready(), None, json!({})).run("go")).await;
    let outcome = outcome.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: session_1 answers");
    let foreign = below(&events);
    assert!(foreign.iter().all(|event| *event.path == ["remote:0.0".to_owned()]), "{foreign:?}");
    assert_eq!(
        kinds(&foreign),
        ["agent_started", "text_delta", "tool_started", "tool_finished", "model_finished", "custom", "agent_finished"]
    );
    let calls: Vec<String> = foreign
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ToolStarted { call, .. } | EventKind::ToolFinished { call, .. } => Some(call.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(calls, ["remote:0.0/0.0", "remote:0.0/0.0"]);
    assert_eq!(outcome.usage_by_agent["foreign"].input, 100);
    assert_eq!((outcome.spent.model_calls, outcome.spent.cost), (3, 0.5));
}

#[tokio::test]
async fn a_killed_foreign_agent_continues_from_what_it_recorded() {
    let (service, journal) = (Service::default(), Arc::new(MemoryJournal::new()));
    let budget = Budget::default().tokens(10_000);
    let run = parent(&service, Some(journal.clone()), json!({}));
    let run = run.run(RunInput::new("go").thread("t").budget(budget));
    service.waiting.notified().await;
    // The log at this moment is what a process killed now would leave.
    journal.threads().copy("t", "killed", None).await.unwrap();
    drop(run);
    service.become_ready();
    let again = parent(&service, Some(journal.clone()), json!({}));
    let outcome = again.resume("killed").outcome().await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2], "result: session_1 answers");
    assert_eq!(service.sessions.lock().unwrap().len(), 1, "it went on with its session");
    // 10 + 1 twice for the agent, and 110 for each charge of the foreign agent.
    assert_eq!(outcome.spent.usage.total(), 242);
    let known = again.sub_agents("killed").await.unwrap();
    assert_eq!(known.len(), 1);
    assert_eq!((known[0].agent.as_str(), known[0].status), ("foreign", RunStatus::Ended));
    assert_eq!(known[0].recorded["session"], "session_1");
    assert_eq!(known[0].path, ["remote:0.0"]);
}

#[tokio::test]
async fn a_foreign_agents_question_has_its_path_and_its_call_resumes_with_the_answer() {
    let (service, journal) = (Service::ready(), Arc::new(MemoryJournal::new()));
    let asking = parent(&service, Some(journal.clone()), json!({"ask": true}));
    let outcome = asking.invoke(RunInput::new("go").thread("t")).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Interrupted);
    let [question] = &outcome.action_requests()[..] else { panic!("{:?}", outcome.action_requests()) };
    assert_eq!(question.call.path, ["remote:0.0"]);
    assert_eq!((question.tool.as_str(), question.text.as_str()), ("deploy", "Deploy?"));
    assert_eq!(asking.sub_agents("t").await.unwrap()[0].status, RunStatus::Interrupted);
    let input = RunInput::resume("t").decide(question.id.clone(), Decision::Approve);
    let again = parent(&service, Some(journal.clone()), json!({"ask": true}));
    let outcome = again.invoke(input).await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: session_1 answers");
    assert_eq!(service.sessions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_foreign_agents_question_below_a_sub_agent_reaches_the_main_agent() {
    let (service, journal) = (Service::ready(), Arc::new(MemoryJournal::new()));
    let middle = parent(&service, None, json!({"ask": true}));
    let task = move |_: Value, cx: ToolContext| {
        let middle = middle.clone();
        async move {
            let state = State::new(middle.schema().clone());
            let ended = cx.run_child(&middle, "task", state, "do it").await?;
            Ok(ended.result?.text())
        }
    };
    let model = || ScriptedModel::new([Turn::call("task", json!({})), Turn::text("all done")]);
    let build = |turns: ScriptedModel| {
        Agent::builder(turns).tool(tool("task", task.clone())).journal(journal.clone()).build().unwrap()
    };
    let outcome = build(model()).invoke(RunInput::new("go").thread("t")).await.unwrap();
    let question = outcome.action_requests().pop().unwrap();
    assert_eq!(question.call.path, ["task:0.0", "remote:0.0"]);
    let input = RunInput::resume("t").decide(question.id, Decision::Approve);
    let outcome = build(ScriptedModel::new([Turn::text("all done")])).invoke(input).await.unwrap();
    assert_eq!(outcome.text(), "all done");
    assert_eq!(service.sessions.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_foreign_agent_is_charged_to_the_whole_trees_budget() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let spender = tool("spend", move |_, cx| {
        let seen = noted.clone();
        async move {
            let scope = cx.child_scope("s", "spender").await?;
            seen.lock().unwrap().push(scope.remaining().tokens);
            scope.begin_model_call()?;
            assert!(scope.charge(Usage::default(), f64::NAN).await.is_err());
            scope.charge(Usage { input: 100, output: 0, ..Usage::default() }, 0.0).await?;
            seen.lock().unwrap().push(scope.remaining().tokens);
            let refused = scope.begin_model_call().unwrap_err();
            assert_eq!(refused.kind(), "budget");
            scope.fail("out of money").await?;
            Ok("spent")
        }
    });
    let usage = Usage { input: 10, output: 0, ..Usage::default() };
    let model = ScriptedModel::new([Turn::call("spend", json!({})).usage(usage), Turn::text("never")]);
    let run = Agent::builder(model).tool(spender).build().unwrap();
    let outcome = run.invoke(RunInput::new("go").budget(Budget::default().tokens(60))).await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Budget(BudgetKind::Tokens));
    assert_eq!(*seen.lock().unwrap(), [Some(50), Some(0)]);
    assert_eq!(outcome.usage_by_agent["spender"].input, 100);
}

#[tokio::test]
async fn background_spending_reduces_the_budget_left_for_a_foreign_agent() {
    let used = |input| Usage { input, output: 0, ..Usage::default() };
    let below = Agent::builder(ScriptedModel::new([Turn::text("sent").usage(used(30))])).name("below").build().unwrap();
    let seen = Arc::new(Mutex::new(None));
    let noted = seen.clone();
    let spend = tool("spend", move |_, cx| {
        let (agent, seen) = (below.clone(), noted.clone());
        async move {
            let state = cx.state().fork(agent.schema().clone())?;
            let (id, name, input) = ("errand".to_owned(), "below".to_owned(), RunInput::new("Send both."));
            let begun = cx.background().start(NewTask { id, name, agent, state, input }, 1);
            begun.map_err(ToolError::fatal)?.outcome().await.map_err(ToolError::fatal)?;
            let scope = cx.child_scope("s", "spender").await?;
            *seen.lock().unwrap() = scope.remaining().tokens;
            scope.finish(FinishReason::Done).await?;
            Ok("spent")
        }
    });
    let model = ScriptedModel::new([Turn::call("spend", json!({})).usage(used(10)), Turn::text("done")]);
    let agent = Agent::builder(model).tool(spend).journal(MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::new("go").thread("t").budget(Budget::default().tokens(60))).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), Some(20));
}

#[tokio::test]
async fn a_foreign_agent_can_be_cancelled_with_its_run_or_by_its_path() {
    for by_path in [false, true] {
        let service = Service::default();
        let mut run = parent(&service, None, json!({})).run("go");
        until(&mut run, |kind| matches!(kind, EventKind::Custom { name, .. } if name == "almost")).await;
        if by_path {
            assert!(run.handle().cancel_agent(&["remote:0.0".to_owned()]));
        } else {
            run.cancel();
        }
        let outcome = run.outcome().await.unwrap();
        assert_sound(outcome.messages());
        assert_eq!(lines(outcome.messages())[2], "result: cancelled");
        assert_eq!(outcome.stop, if by_path { FinishReason::Done } else { FinishReason::Cancelled });
    }
}

#[tokio::test]
async fn a_foreign_agent_whose_call_ends_without_its_result_has_failed() {
    let journal = Arc::new(MemoryJournal::new());
    let lost = tool("lost", |_, cx| async move {
        let scope = cx.child_scope("l", "lost").await?;
        scope.record("id", 7).await?;
        Err::<String, _>(ToolError::model("the line went dead"))
    });
    let model = ScriptedModel::new([Turn::call("lost", json!({})), Turn::text("done")]);
    let agent = Agent::builder(model).tool(lost).journal(journal.clone()).build().unwrap();
    let (events, outcome) = watch(agent.run(RunInput::new("go").thread("t"))).await;
    assert_eq!(lines(outcome.unwrap().messages())[2], "error: the line went dead");
    assert_eq!(kinds(&below(&events)), ["agent_started", "agent_failed"]);
    let known = agent.sub_agents("t").await.unwrap();
    assert_eq!((known[0].status, known[0].recorded["id"].clone()), (RunStatus::Failed, json!(7)));
    let state = agent.sub_agent_state("t", &known[0].path).await.unwrap();
    assert!(state.messages().is_empty());
}

#[tokio::test]
async fn an_agent_can_be_cancelled_by_its_path_even_after_another_with_that_path_has_ended() {
    let twice = tool("twice", |_, cx| async move {
        let (first, second) = (cx.child_scope("s", "first").await?, cx.child_scope("s", "second").await?);
        first.finish(FinishReason::Done).await?;
        drop(first);
        cx.progress("one has ended");
        second.cancellation().cancelled().await;
        second.finish(FinishReason::Cancelled).await?;
        Ok("cancelled")
    });
    let model = ScriptedModel::new([Turn::call("twice", json!({})), Turn::text("done")]);
    let mut run = Agent::builder(model).tool(twice).build().unwrap().run("go");
    until(&mut run, |kind| matches!(kind, EventKind::ToolProgress { .. })).await;
    assert!(run.handle().cancel_agent(&["s:0.0".to_owned()]));
    assert_eq!(lines(run.outcome().await.unwrap().messages())[2], "result: cancelled");
}
