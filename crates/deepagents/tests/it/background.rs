//! Background subagents.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use deepagents::channels::Files;
use deepagents::core::middleware::{HookOutput, after_agent, wrap_tool_call};
use deepagents::core::model::StopReason;
use deepagents::core::tool::DynTool;
use deepagents::fs::VPath;
use deepagents::middleware::background::{BackgroundAgents, BackgroundLimits};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::{AgentSubAgent, Mode, SubAgentResult, SubAgentSpec, sub_agent_fn};
use deepagents::{
    Decision, DecisionKind, DeepAgent, DeepAgentBuilder, EventKind, FinishReason, InterruptOn, InterruptPolicy,
    MemoryJournal, Message, ModelRequest, Outcome, RunInput, json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};

use crate::results;

fn first_asked(words: &'static str) -> impl Fn(&ModelRequest) -> bool + Send + Sync + 'static {
    move |request| request.messages.get(0).is_some_and(|m| m.text().contains(words))
}

fn start(description: &str) -> Turn {
    Turn::call("start_async_task", json!({"description": description, "subagent_type": "general-purpose"}))
}

/// A tool that reports that it has started, and waits until the test releases it.
fn gate() -> (impl DynTool, Arc<Notify>, Arc<Semaphore>) {
    let (begun, go): (Arc<Notify>, Arc<Semaphore>) = (Arc::default(), Arc::new(Semaphore::new(0)));
    let (tell, wait) = (begun.clone(), go.clone());
    let tool = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.acquire().await?.forget();
            Ok("open")
        }
    });
    (tool, begun, go)
}

fn agent(model: &ScriptedModel) -> DeepAgentBuilder {
    DeepAgent::builder().model(model.clone()).background_agents(true).journal(MemoryJournal::new())
}

fn told(outcome: &Outcome) -> Vec<String> {
    let users = outcome.messages().iter().filter(|m| matches!(***m, Message::User(_)));
    users.map(|m| m.text()).filter(|text| text.contains("background task has ended")).collect()
}

async fn say(agent: &DeepAgent, text: &str) -> Outcome {
    agent.invoke(RunInput::new(text).thread("t")).await.unwrap()
}

/// Runs turns until `count` results were reported. The tasks run in the background.
async fn until_told(agent: &DeepAgent, count: usize) -> Outcome {
    loop {
        tokio::task::yield_now().await;
        let outcome = say(agent, "Anything?").await;
        if told(&outcome).len() >= count {
            return outcome;
        }
    }
}

fn id_of(outcome: &Outcome, at: usize) -> String {
    results(outcome)[at].0.rsplit(' ').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_task_outlives_its_turn_and_its_result_and_files_are_delivered_once() {
    let (gate, begun, go) = gate();
    let write = json!({"file_path": "/report.md", "content": "found"});
    let model = ScriptedModel::rules()
        .when(
            first_asked("Research"),
            [Turn::call("gate", json!({})), Turn::call("write_file", write), Turn::text("It is in /report.md.")],
        )
        .when(|r| r.messages.len() == 1 && first_asked("Go.")(r), [start("Research birds.")])
        .always(Turn::text("Fine."))
        .build();
    let agent = agent(&model).tool(gate).build().unwrap();
    let first = say(&agent, "Go.").await;
    assert!(results(&first)[0].0.starts_with("Started. task_id: task_"), "{:?}", results(&first));
    assert_eq!(first.text(), "Fine.");
    begun.notified().await;
    assert!(told(&say(&agent, "And now?").await).is_empty());
    let other = agent.invoke(RunInput::new("Not mine.").thread("other")).await.unwrap();
    go.add_permits(1);
    let outcome = until_told(&agent, 1).await;
    let news = &told(&outcome)[0];
    assert!(news.contains("status: success") && news.contains("It is in /report.md."), "{news}");
    assert!(outcome.state.get::<Files>().unwrap().get(&VPath::parse("/report.md").unwrap()).is_some());
    assert_eq!(told(&say(&agent, "Again?").await).len(), 1, "once");
    assert!(told(&other).is_empty());
}

#[tokio::test]
async fn what_has_ended_meanwhile_is_told_behind_an_answer_that_was_cut_off_declined_or_broken_off() {
    for stop in [StopReason::End, StopReason::MaxTokens, StopReason::Refusal, StopReason::Other("error".to_owned())] {
        let model = ScriptedModel::rules()
            .when(first_asked("Research"), [Turn::text("There are birds.")])
            .when(|r| r.messages.len() == 1 && first_asked("Go.")(r), [start("Research birds.")])
            .when(|r| r.messages.len() == 3, [Turn::text("I will").stop(stop.clone())])
            .always(Turn::text("Now I know."))
            .build();
        let itself: Arc<OnceLock<DeepAgent>> = Arc::default();
        let known = itself.clone();
        // Waits for the tasks, so that they have ended just before the run does.
        let patient = after_agent(move |cx| {
            let known = known.clone();
            async move {
                if let (Some("t"), Some(agent)) = (cx.thread(), known.get()) {
                    for task in agent.background("t").await? {
                        let _ = task.outcome().await;
                    }
                }
                Ok(HookOutput::next())
            }
        });
        let agent = agent(&model).middleware(patient).build().unwrap();
        assert!(itself.set(agent.clone()).is_ok());
        let outcome = say(&agent, "Go.").await;
        assert_eq!((told(&outcome).len(), outcome.text().as_str()), (1, "Now I know."), "{stop:?}");
    }
}

#[tokio::test]
async fn news_that_a_broken_off_run_could_not_tell_the_model_is_told_by_the_next() {
    for ends in ["cancelled", "failed"] {
        let model = ScriptedModel::rules()
            .when(first_asked("Research"), [Turn::text("There are birds.")])
            .when(|r| r.messages.len() == 1 && first_asked("Go.")(r), [start("Research birds.")])
            .when(
                |r| r.messages.len() == 4,
                [match ends {
                    "cancelled" => Turn::text("Late.").delay(Duration::from_secs(3600)),
                    _ => Turn::error(deepagents::ModelError::invalid("no")),
                }],
            )
            .always(Turn::text("Now I know."))
            .build();
        let itself: Arc<OnceLock<DeepAgent>> = Arc::default();
        let known = itself.clone();
        // Waits for the tasks, so that they have ended before the next model call.
        let patient = wrap_tool_call(move |request, next| {
            let known = known.clone();
            async move {
                let response = next.run(request).await?;
                for task in known.get().unwrap().background("t").await? {
                    let _ = task.outcome().await;
                }
                Ok(response)
            }
        });
        let agent = agent(&model).middleware(patient).build().unwrap();
        assert!(itself.set(agent.clone()).is_ok());
        let mut run = agent.run(RunInput::new("Go.").thread("t"));
        let mut asked = 0;
        while let Some(event) = run.next().await {
            asked += usize::from(event.path.is_empty() && matches!(event.kind, EventKind::ModelStarted { .. }));
            if asked == 2 && ends == "cancelled" {
                run.cancel();
            }
        }
        let _ = run.outcome().await;
        let outcome = say(&agent, "Anything?").await;
        let last = model.requests().pop().unwrap();
        let shown = last.messages.iter().filter(|m| m.text().contains("background task has ended")).count();
        assert_eq!((shown, outcome.text().as_str()), (1, "Now I know."), "{ends}");
    }
}

#[tokio::test]
async fn a_task_receives_messages_and_can_continue_after_its_end() {
    let (gate, begun, go) = gate();
    let model = ScriptedModel::rules()
        .when(
            first_asked("Slow"),
            [
                Turn::call("gate", json!({})),
                Turn::with(|r| Turn::text(format!("Heard: {}", r.messages.last().unwrap().text()))),
                Turn::with(|r| Turn::text(format!("Then: {}", r.messages.last().unwrap().text()))),
            ],
        )
        .when(|r| r.messages.len() == 1, [start("Slow work.")])
        .always(Turn::with(|r| {
            // The user names the tool and its arguments in JSON.
            let Some(said) = r.messages.last().filter(|m| matches!(***m, Message::User(_))) else {
                return Turn::text("Fine.");
            };
            match serde_json::from_str::<(String, Value)>(&said.text()) {
                Ok((tool, args)) => Turn::call(tool, args),
                Err(_) => Turn::text("Fine."),
            }
        }))
        .build();
    let agent = agent(&model).tool(gate).build().unwrap();
    let id = id_of(&say(&agent, "Go.").await, 0);
    begun.notified().await;
    let call = async |tool: &str, args: Value| {
        let outcome = say(&agent, &json!([tool, args]).to_string()).await;
        results(&outcome).pop().unwrap().0
    };
    let running = call("check_async_task", json!({"task_id": id})).await;
    assert!(running.contains(r#""status":"running""#) && !running.contains("result"), "{running}");
    assert!(running.contains(&format!(r#""thread_id":"t/{id}""#)), "{running}");
    for (status, is_listed) in
        [("all", true), ("running", true), ("waiting", false), ("pending", false), ("timeout", false)]
    {
        let listed = call("list_async_tasks", json!({"status_filter": status})).await;
        assert_eq!(listed.contains(&id), is_listed, "{status}: {listed}");
    }
    call("update_async_task", json!({"task_id": id, "message": "Hurry."})).await;
    go.add_permits(1);
    let outcome = until_told(&agent, 1).await;
    assert!(told(&outcome)[0].contains("Heard: Hurry."), "{:?}", told(&outcome));
    let checked = call("check_async_task", json!({"task_id": id})).await;
    assert!(checked.contains(r#""result":"Heard: Hurry.""#), "{checked}");
    assert_eq!(
        call("cancel_async_task", json!({"task_id": id})).await,
        "Nothing to cancel: it has ended with success."
    );
    call("update_async_task", json!({"task_id": id, "message": "More."})).await;
    let outcome = until_told(&agent, 2).await;
    assert!(told(&outcome)[1].contains("Then: More."), "{:?}", told(&outcome));
}

#[tokio::test]
async fn unknown_agents_and_tasks_are_errors_that_list_the_known_ones() {
    let model = ScriptedModel::new([
        Turn::call("start_async_task", json!({"description": "x", "subagent_type": "nobody"})),
        Turn::call("check_async_task", json!({"task_id": "T1"})),
        Turn::call("cancel_async_task", json!({"task_id": "T1"})),
        Turn::call("update_async_task", json!({"task_id": "T1", "message": "x"})),
        Turn::call("list_async_tasks", json!({})),
        Turn::text("Done."),
    ]);
    let outcome = agent(&model).build().unwrap().invoke("Go.").await.unwrap();
    let results = results(&outcome);
    assert_eq!(results[0], ("Error: there is no sub-agent nobody; there are general-purpose.".to_owned(), true));
    for result in &results[1..4] {
        assert!(result.1 && result.0.contains("there is no task T1"), "{result:?}");
    }
    assert_eq!(results[4], ("There are no such tasks.".to_owned(), false));
}

#[tokio::test]
async fn a_failed_task_is_reported_as_an_error() {
    let model = ScriptedModel::rules()
        .when(first_asked("Fails"), [Turn::error(deepagents::ModelError::invalid("no such model"))])
        .when(|r| r.messages.len() == 1, [start("Fails.")])
        .always(Turn::text("Fine."))
        .build();
    let agent = agent(&model).build().unwrap();
    say(&agent, "Go.").await;
    let outcome = until_told(&agent, 1).await;
    assert!(told(&outcome)[0].contains("status: error") && told(&outcome)[0].contains("no such model"));
}

#[tokio::test]
async fn tasks_are_cancelled_when_the_agent_is_dropped() {
    struct Dropped(Arc<Notify>, Arc<AtomicUsize>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.notify_one();
        }
    }
    let (begun, gone, count): (Arc<Notify>, Arc<Notify>, Arc<AtomicUsize>) = Default::default();
    let (tell, end, drops) = (begun.clone(), gone.clone(), count.clone());
    let hangs = json_tool("hangs", "Hangs.", json!({"type": "object"}), move |_: Value, _cx| {
        let (tell, guard) = (tell.clone(), Dropped(end.clone(), drops.clone()));
        async move {
            let _guard = guard;
            tell.notify_one();
            std::future::pending::<()>().await;
            Ok("never")
        }
    });
    let model = ScriptedModel::rules()
        .when(first_asked("Hang"), [Turn::call("hangs", json!({}))])
        .otherwise([start("Hang."), Turn::text("Started.")])
        .build();
    let agent = agent(&model).tool(hangs).build().unwrap();
    say(&agent, "Go.").await;
    begun.notified().await;
    assert_eq!(count.load(Ordering::SeqCst), 0);
    drop(agent);
    gone.notified().await;
}

#[tokio::test]
async fn concurrent_tasks_do_not_exceed_the_limit() {
    let (gate, ..) = gate();
    let child = ScriptedModel::rules().always(Turn::call("gate", json!({}))).build();
    let child = DeepAgent::builder().model(child).tool(gate).build().unwrap();
    let worker = AgentSubAgent::new("worker", "Works.", &child);
    let limits = BackgroundLimits { at_once: 2, remembered: 2, ..BackgroundLimits::default() };
    let background = BackgroundAgents::new(vec![Arc::new(worker)], limits).unwrap();
    let start = || ("start_async_task", json!({"description": "x", "subagent_type": "worker"}));
    let model = ScriptedModel::new([
        Turn::calls([start(), start(), start()]),
        Turn::call("list_async_tasks", json!({"status_filter": "running"})),
        Turn::with(|r| {
            let listed = r.messages.last().unwrap().text();
            let id = listed.lines().next().unwrap().split_whitespace().nth(2).unwrap().to_owned();
            Turn::call("cancel_async_task", json!({"task_id": format!(" {id} ")}))
        }),
        Turn::call("list_async_tasks", json!({"status_filter": "cancelled"})),
        Turn::calls([start()]),
        Turn::text("Done."),
    ]);
    let agent = DeepAgent::builder().model(model).middleware(background).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let results = results(&outcome);
    assert_eq!(results[..3].iter().filter(|r| r.1 && r.0.contains("2 tasks are running")).count(), 1, "{results:?}");
    assert_eq!(results[3].0.lines().count(), 2);
    assert_eq!(results[4].0, "Cancelled.");
    assert!(results[5].0.contains("status: cancelled"), "{results:?}");
    assert!(!results[6].1, "there is room again: {results:?}");
}

#[tokio::test]
async fn the_number_of_tasks_remembered_across_conversations_is_limited() {
    let child = DeepAgent::builder().model(ScriptedModel::rules().always(Turn::text("Done.")).build()).build().unwrap();
    let worker = AgentSubAgent::new("worker", "Works.", &child);
    let limits = BackgroundLimits { in_all: 3, ..BackgroundLimits::default() };
    let background = BackgroundAgents::new(vec![Arc::new(worker)], limits).unwrap();
    let model = ScriptedModel::rules()
        .always(Turn::with(|r| match r.messages.last().unwrap().text().as_str() {
            "Start." => Turn::call("start_async_task", json!({"description": "x", "subagent_type": "worker"})),
            "List." => Turn::call("list_async_tasks", json!({})),
            _ => Turn::text("Well."),
        }))
        .build();
    let agent = DeepAgent::builder().model(model).middleware(background).journal(MemoryJournal::new()).build().unwrap();
    let say = async |thread: &str, text: &str| agent.invoke(RunInput::new(text).thread(thread)).await.unwrap();
    for thread in ["a", "b", "c", "d"] {
        let mut outcome = say(thread, "Start.").await;
        while told(&outcome).is_empty() {
            tokio::task::yield_now().await;
            outcome = say(thread, "Wait.").await;
        }
    }
    let mut known = Vec::new();
    for thread in ["a", "b", "c", "d"] {
        known.push(results(&say(thread, "List.").await).last().unwrap().0.contains("status: success"));
    }
    assert_eq!(known, [false, true, true, true]);
}

#[test]
fn background_tools_exist_only_when_enabled() {
    let tools = |on| {
        let builder = DeepAgent::builder().model(ScriptedModel::new([])).background_agents(on);
        let explained = builder.build().unwrap().explain();
        explained.tools.into_iter().filter(|t| t.name.ends_with("_async_task") || t.name == "list_async_tasks").count()
    };
    assert_eq!((tools(false), tools(true)), (0, 5));
}

/// A model that starts a gated task, checks it when told that it waits, and makes the calls that the user writes in
/// JSON.
fn asking(child: impl IntoIterator<Item = Turn>) -> ScriptedModel {
    ScriptedModel::rules()
        .when(first_asked("Careful"), child)
        .when(|r| r.messages.len() == 1, [start("Careful work.")])
        .always(Turn::with(|r| {
            let last = r.messages.last().unwrap();
            let text = last.text();
            if !matches!(**last, Message::User(_)) {
                return Turn::text("Fine.");
            }
            if let Ok((tool, args)) = serde_json::from_str::<(String, Value)>(&text) {
                return Turn::call(tool, args);
            }
            match text.split("task_id: ").nth(1).filter(|_| text.contains("waits for a person")) {
                Some(rest) => {
                    let id = rest.split_whitespace().next().unwrap().to_owned();
                    Turn::call("check_async_task", json!({"task_id": id}))
                }
                None => Turn::text("Fine."),
            }
        }))
        .build()
}

fn gated(model: &ScriptedModel, ask: InterruptOn) -> DeepAgent {
    let send =
        json_tool(
            "send",
            "Sends.",
            json!({"type": "object"}),
            |args: Value, _cx| async move { Ok(format!("sent {args}")) },
        );
    agent(model).tool(send).interrupt_on(InterruptPolicy::new().before("send", ask)).build().unwrap()
}

/// Runs turns until the main agent is interrupted.
async fn until_asked(agent: &DeepAgent) -> Outcome {
    let mut outcome = say(agent, "Go.").await;
    while outcome.stop != FinishReason::Interrupted {
        tokio::task::yield_now().await;
        outcome = say(agent, "Anything?").await;
    }
    outcome
}

#[tokio::test]
async fn a_waiting_task_is_announced_and_checking_it_asks_about_its_own_call() {
    let model = asking([
        Turn::calls([("send", json!({"n": 1})), ("send", json!({"n": 2}))]),
        Turn::with(|r| {
            Turn::text(r.messages.tail(r.messages.len() - 2).map(|m| m.text()).collect::<Vec<_>>().join("; "))
        }),
    ]);
    let agent = gated(&model, InterruptOn::any());
    let waiting = until_asked(&agent).await;
    let asked: Vec<_> = waiting.action_requests().into_iter().map(|q| (q.tool, q.args)).collect();
    assert_eq!(asked, [("send".to_owned(), json!({"n": 1})), ("send".to_owned(), json!({"n": 2}))]);
    let ids: Vec<String> = waiting.action_requests().into_iter().map(|q| q.id).collect();
    let edit = Decision::from_json(json!({"type": "edit", "args": {"n": 3}}), "send").unwrap();
    let input = RunInput::resume("t").decide(&ids[0], edit).decide(&ids[1], Decision::Reject { message: None });
    let answered = agent.invoke(input).await.unwrap();
    assert!(results(&answered).last().unwrap().0.contains(r#""status":"running""#), "{:?}", results(&answered));
    let outcome = until_told(&agent, 1).await;
    let news = &told(&outcome)[0];
    assert!(news.contains("sent {\"n\":3}") && news.contains("rejected") && !news.contains("sent {\"n\":2}"), "{news}");
}

#[tokio::test]
async fn a_waiting_task_is_listed_as_such_and_delivers_its_result_only_at_its_end() {
    let model = asking([Turn::call("send", json!({})), Turn::text("Sent.")]);
    let agent = gated(&model, InterruptOn::any());
    let waiting = until_asked(&agent).await;
    assert!(told(&waiting).is_empty());
    // Without an answer, the conversation continues and the task keeps waiting.
    let listed = say(&agent, &json!(["list_async_tasks", {"status_filter": "waiting"}]).to_string()).await;
    assert!(results(&listed).last().unwrap().0.ends_with("status: waiting"), "{:?}", results(&listed));
    let again = say(&agent, &json!(["check_async_task", {"task_id": id_of(&listed, 0)}]).to_string()).await;
    assert_eq!(again.stop, FinishReason::Interrupted);
    let input = RunInput::resume("t").decide(&again.action_requests()[0].id, Decision::Approve);
    agent.invoke(input).await.unwrap();
    assert!(told(&until_told(&agent, 1).await)[0].contains("Sent."));
}

#[tokio::test]
async fn a_waiting_task_can_be_redirected_by_a_message_or_cancelled() {
    let heard = Turn::with(|r| Turn::text(format!("Heard: {}", r.messages.last().unwrap().text())));
    let model = asking([Turn::call("send", json!({})), heard]);
    let agent = gated(&model, InterruptOn::any());
    let waiting = until_asked(&agent).await;
    let id = id_of(&waiting, 0);
    say(&agent, &json!(["update_async_task", {"task_id": id, "message": "Write instead."}]).to_string()).await;
    assert!(told(&until_told(&agent, 1).await)[0].contains("Heard: Write instead."));

    let model = asking([Turn::call("send", json!({})), Turn::text("Never.")]);
    let strict = InterruptOn::only([DecisionKind::Approve]);
    let agent = gated(&model, strict);
    let id = id_of(&until_asked(&agent).await, 0);
    let refused = say(&agent, &json!(["update_async_task", {"task_id": id, "message": "x"}]).to_string()).await;
    assert!(results(&refused).last().unwrap().0.contains("only a person can decide"), "{:?}", results(&refused));
    let cancelled = say(&agent, &json!(["cancel_async_task", {"task_id": id}]).to_string()).await;
    assert_eq!(results(&cancelled).last().unwrap().0, "Cancelled.");
    let listed = say(&agent, &json!(["list_async_tasks", {}]).to_string()).await;
    assert!(results(&listed).last().unwrap().0.ends_with("status: cancelled"));
}

#[tokio::test]
async fn without_a_thread_checking_a_waiting_task_says_nobody_can_be_asked() {
    let model = ScriptedModel::rules()
        .when(first_asked("Careful"), [Turn::call("send", json!({}))])
        .when(|r| r.messages.len() == 1, [start("Careful work.")])
        .always(Turn::with(|r| {
            let last = r.messages.last().unwrap().text();
            let id = |text: &str| {
                text.split("task_id: ").nth(1).map(|rest| rest.split_whitespace().next().unwrap().to_owned())
            };
            match last.as_str() {
                text if text.contains("\"note\"") => Turn::text("Given up."),
                text => match id(text) {
                    Some(id) => Turn::call("check_async_task", json!({"task_id": id})),
                    None => Turn::call("list_async_tasks", json!({})),
                },
            }
        }))
        .build();
    let outcome = gated(&model, InterruptOn::any()).invoke("Go.").await.unwrap();
    assert_eq!((outcome.stop.clone(), outcome.text().as_str()), (FinishReason::Done, "Given up."));
    let last = results(&outcome).pop().unwrap().0;
    assert!(last.contains(r#""status":"waiting""#) && last.contains(r#""tool":"send""#), "{last}");
}

#[tokio::test]
async fn forks_and_closures_can_run_in_the_background() {
    let model = ScriptedModel::rules()
        .when(
            |r| r.messages.last().unwrap().text().contains("Twin work"),
            [Turn::with(|r| {
                Turn::text(format!("Twin saw {} messages: {}", r.messages.len(), r.messages.get(0).unwrap().text()))
            })],
        )
        .when(
            |r| r.messages.len() == 1,
            [Turn::calls(["twin", "count", "ask"].map(|name| {
                ("start_async_task", json!({"description": format!("{name}: Twin work"), "subagent_type": name}))
            }))],
        )
        .always(Turn::with(|r| {
            let last = r.messages.last().unwrap().text();
            match serde_json::from_str::<(String, Value)>(&last) {
                Ok((tool, args)) => Turn::call(tool, args),
                Err(_) => Turn::text("Fine."),
            }
        }))
        .build();
    let count = sub_agent_fn("count", "Counts.", |work, cx| async move {
        tokio::task::yield_now().await;
        assert!(!cx.cancellation().is_cancelled(), "its run may have ended, it has not");
        Ok(SubAgentResult::text(work.description.len().to_string()))
    });
    let ask = sub_agent_fn("ask", "Asks.", |_, cx| async move {
        cx.interrupt("May I?", DecisionKind::ALL)?;
        Ok(SubAgentResult::text("never"))
    });
    let agent = agent(&model)
        .sub_agent(SubAgentSpec::new("twin", "Shares.").mode(Mode::Fork))
        .sub_agent(count)
        .sub_agent(ask)
        .build()
        .unwrap();
    let first = say(&agent, "Secret word.").await;
    let outcome = until_told(&agent, 3).await;
    let told = told(&outcome).join("\n");
    assert!(told.contains("Twin saw 2 messages: Secret word."), "{told}");
    assert!(told.contains("agent: count  status: success\n\n16"), "{told}");
    assert!(told.contains("agent: ask  status: error") && told.contains("delegate it with `task` instead"), "{told}");
    let more = json!(["update_async_task", {"task_id": id_of(&first, 1), "message": "more"}]).to_string();
    let refused = results(&say(&agent, &more).await).pop().unwrap();
    assert!(refused.1 && refused.0.contains("cannot be told anything more"), "{refused:?}");
}

#[tokio::test]
async fn a_checked_result_is_not_announced_again_and_its_files_arrive_once() {
    let write = json!({"file_path": "/report.md", "content": "found"});
    let model = ScriptedModel::rules()
        .when(first_asked("Research"), [Turn::call("write_file", write), Turn::text("Found.")])
        .when(|r| r.messages.len() == 1, [start("Research.")])
        .always(Turn::with(|r| {
            let id = r.messages.iter().find(|m| m.text().starts_with("Started.")).unwrap().text();
            let id = id.rsplit(' ').next().unwrap().to_owned();
            match r.messages.last().unwrap().text() {
                text if text.contains("\"success\"") => Turn::text("Seen."),
                text if text.contains("has ended") => Turn::text("Told."),
                _ => Turn::call("check_async_task", json!({"task_id": id})),
            }
        }))
        .build();
    let agent = agent(&model).build().unwrap();
    let outcome = say(&agent, "Go.").await;
    // The result is delivered exactly once, by the check or by the notification.
    let checked = results(&outcome).iter().filter(|(text, _)| text.contains("\"success\"")).count();
    assert_eq!(checked + told(&outcome).len(), 1, "{:?}", results(&outcome));
    assert!(outcome.state.get::<Files>().unwrap().get(&VPath::parse("/report.md").unwrap()).is_some());
}

#[tokio::test]
async fn a_cancelled_task_is_not_listed_as_running_and_its_id_is_trimmed() {
    let (gate, ..) = gate();
    let model = ScriptedModel::rules()
        .when(first_asked("Hang"), [Turn::call("gate", json!({}))])
        .when(|r| r.messages.len() == 1, [start("Hang.")])
        .always(Turn::with(|r| {
            let last = r.messages.last().unwrap().text();
            let id = r.messages.iter().find(|m| m.text().starts_with("Started.")).unwrap().text();
            let id = format!(" {} \n", id.rsplit(' ').next().unwrap());
            match last.as_str() {
                text if text.starts_with("Started.") => Turn::call("check_async_task", json!({"task_id": id})),
                text if text.starts_with('{') => Turn::call("cancel_async_task", json!({"task_id": id})),
                "Cancelled." => Turn::call("list_async_tasks", json!({"status_filter": "running"})),
                _ => Turn::text("Done."),
            }
        }))
        .build();
    let outcome = agent(&model).tool(gate).build().unwrap().invoke("Go.").await.unwrap();
    let results = results(&outcome);
    assert!(results[1].0.contains(r#""status":"running""#), "{results:?}");
    assert_eq!(results[3], ("There are no such tasks.".to_owned(), false));
}

#[tokio::test]
async fn background_tasks_keep_the_standard_task_tool() {
    let model = ScriptedModel::new([Turn::text("Hi.")]);
    agent(&model).build().unwrap().invoke("Go.").await.unwrap();
    let tools: Vec<String> = model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect();
    assert!(tools.contains(&"task".to_owned()) && tools.contains(&"start_async_task".to_owned()));
}

#[tokio::test]
async fn no_more_tasks_run_at_once_than_the_builder_allows() {
    let (gate, begun, go) = gate();
    let model = ScriptedModel::rules()
        .when(first_asked("Work"), [Turn::call("gate", json!({})), Turn::text("Found.")])
        .otherwise([start("Work one."), start("Work two."), Turn::text("Started.")])
        .build();
    let limits = BackgroundLimits { at_once: 1, ..BackgroundLimits::default() };
    let agent = agent(&model).tool(gate).background_limits(limits).build().unwrap();
    let outcome = say(&agent, "Go.").await;
    begun.notified().await;
    let refused: Vec<bool> = results(&outcome).into_iter().map(|(_, is_error)| is_error).collect();
    assert_eq!(refused, [false, true]);
    go.add_permits(1);
}
