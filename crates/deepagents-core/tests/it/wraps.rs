//! What wrappers of model and tool calls can do with the rest of the stack.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use deepagents_core::event::EventKind;
use deepagents_core::journal::MemoryJournal;
use deepagents_core::last_value;
use deepagents_core::message::{AssistantMessage, Message};
use deepagents_core::middleware::{
    Middleware, ModelNext, ModelResponse, ToolResponse, wrap_model_call, wrap_tool_call,
};
use deepagents_core::model::{ChatModel, ModelError, ModelOutput, ModelRequest};
use deepagents_core::run::{FinishReason, RunInput};
use deepagents_core::state::{ChannelSpec, Update};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::json;

use crate::support::{Notes, agent, assert_sound, echo, kinds, lines, tool, until, watch};

last_value!(Tries("tries"): u32);

/// Declares the channel, and writes a new number to it at each pass of a model call.
#[derive(Default)]
struct CountsPasses(AtomicU32);
impl Middleware for CountsPasses {
    fn name(&self) -> &str {
        "CountsPasses"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Tries>()]
    }
    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> deepagents_core::error::Result<ModelResponse> {
        let pass = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        Ok(next.run(request).await?.with_update(Update::new::<Tries>(pass)))
    }
}

fn said(text: &str) -> ModelResponse {
    ModelOutput::new(AssistantMessage::new(vec![deepagents_core::message::Block::text(text)])).into()
}

#[tokio::test]
async fn a_wrap_may_answer_without_calling_the_model() {
    let model = ScriptedModel::new([]);
    let agent =
        agent(model.clone()).middleware(wrap_model_call(|_, _| async { Ok(said("from the cache")) })).build().unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    assert_eq!(outcome.unwrap().text(), "from the cache");
    assert!(model.requests().is_empty());
    assert!(!kinds(&events).contains(&"model_started".to_owned()));
}

#[tokio::test]
async fn a_wrap_may_retry_the_model_and_the_discarded_attempts_update_is_dropped() {
    let model = ScriptedModel::new([Turn::text("first"), Turn::text("second")]);
    let agent = agent(model.clone())
        .middleware(wrap_model_call(|request, next| async move {
            next.run(request.clone()).await?;
            next.run(request).await
        }))
        .middleware(CountsPasses::default())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: hi", "assistant: second"]);
    assert_eq!(outcome.state.get::<Tries>(), Some(&2));
    assert_eq!(model.requests().len(), 2);
}

#[tokio::test]
async fn a_wrap_may_discard_the_answer_with_its_update_and_give_its_own() {
    let agent = agent(ScriptedModel::new([Turn::text("rude")]))
        .middleware(wrap_model_call(|request, next| async move {
            next.run(request).await?;
            Ok(said("polite"))
        }))
        .middleware(CountsPasses::default())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(lines(outcome.messages()), ["user: hi", "assistant: polite"]);
    assert_eq!(outcome.state.get::<Tries>(), Some(&0));
}

#[tokio::test]
async fn a_wrap_may_fall_back_to_another_model_and_the_attempts_are_told_apart() {
    let broken = ScriptedModel::new([Turn::error(ModelError::transport("reset"))]);
    let spare: Arc<dyn ChatModel> = Arc::new(ScriptedModel::new([Turn::text("spare")]).with_name("scripted:spare"));
    let agent = agent(broken)
        .middleware(wrap_model_call(move |request, next| {
            let spare = spare.clone();
            async move {
                match next.run(request.clone()).await {
                    Err(_) => next.with_model(spare).run(request).await,
                    answer => answer,
                }
            }
        }))
        .build()
        .unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    assert_eq!(outcome.unwrap().text(), "spare");
    let attempts: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::ModelStarted { model, attempt, .. } => Some(format!("{model} starts {attempt}")),
            EventKind::AttemptDiscarded { attempt, .. } => Some(format!("{attempt} discarded")),
            EventKind::ModelFinished { attempt, .. } => Some(format!("{attempt} finished")),
            _ => None,
        })
        .collect();
    let expected = ["scripted:script starts 0", "0 discarded", "scripted:spare starts 1", "1 finished"];
    assert_eq!(attempts, expected);
}

#[tokio::test(start_paused = true)]
async fn a_wrap_may_race_two_models_and_the_finished_event_names_the_winner() {
    let seconds = std::time::Duration::from_secs;
    let fast = ScriptedModel::new([Turn::text("fast").delay(seconds(1))]);
    let slow: Arc<dyn ChatModel> = Arc::new(ScriptedModel::new([Turn::text("slow").delay(seconds(3600))]));
    let agent = agent(fast)
        .middleware(wrap_model_call(move |request, next| {
            let slow = next.with_model(slow.clone());
            async move {
                tokio::select! {
                    biased;
                    answer = slow.run(request.clone()) => answer,
                    answer = next.run(request) => answer,
                }
            }
        }))
        .build()
        .unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    assert_eq!(outcome.unwrap().text(), "fast");
    let winner = events.iter().find_map(|event| match &event.kind {
        EventKind::ModelFinished { attempt, .. } => Some(*attempt),
        _ => None,
    });
    let texts: Vec<u32> = events
        .iter()
        .filter_map(|event| match &event.kind {
            EventKind::TextDelta { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert!(!texts.is_empty());
    assert!(texts.iter().all(|attempt| Some(*attempt) == winner), "{texts:?} against {winner:?}");
}

#[tokio::test]
async fn an_earlier_attempt_that_beats_a_later_one_is_the_finished_one() {
    let (first, second) = (ScriptedModel::new([Turn::text("first")]), ScriptedModel::new([Turn::text("second")]));
    let second: Arc<dyn ChatModel> = Arc::new(second);
    let agent = agent(first)
        .middleware(wrap_model_call(move |request, next| {
            let other = next.with_model(second.clone());
            async move {
                let answer = next.run(request.clone()).await;
                other.run(request).await?;
                answer
            }
        }))
        .build()
        .unwrap();
    let (events, outcome) = watch(agent.run("hi")).await;
    assert_eq!(outcome.unwrap().text(), "first");
    let finished = events.iter().any(|e| matches!(&e.kind, EventKind::ModelFinished { attempt: 0, .. }));
    assert!(finished, "{events:?}");
}

#[tokio::test]
async fn a_wrap_may_move_the_rest_of_the_stack_into_a_task() {
    let agent = agent(ScriptedModel::new([Turn::text("from a task")]))
        .middleware(wrap_model_call(|request, next| async move {
            tokio::spawn(async move { next.run(request).await }).await.map_err(deepagents_core::error::Error::other)?
        }))
        .middleware(CountsPasses::default())
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!(outcome.text(), "from a task");
    assert_eq!(outcome.state.get::<Tries>(), Some(&1));
}

#[tokio::test]
async fn tokens_of_answers_discarded_by_a_wrap_count() {
    let usage = |input| deepagents_core::message::Usage { input, output: 1, ..Default::default() };
    let model = ScriptedModel::new([Turn::text("a").usage(usage(10)), Turn::text("b").usage(usage(20))]);
    let agent = agent(model)
        .middleware(wrap_model_call(|request, next| async move {
            next.run(request.clone()).await?;
            next.run(request).await
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("hi").await.unwrap();
    assert_eq!((outcome.usage.input, outcome.usage.output), (30, 2));
    assert_eq!(outcome.usage_by_agent["agent"], outcome.usage);
}

#[tokio::test]
async fn a_wrap_may_supply_a_tool_for_an_unknown_name() {
    let hidden = Arc::new(tool("hidden", |args, _| async move { Ok(format!("hidden got {args}")) }));
    let agent = agent(ScriptedModel::new([Turn::call("hidden", json!({"x": 1})), Turn::text("done")]))
        .middleware(wrap_tool_call(move |mut request, next| {
            if request.tool.is_none() {
                request.tool = Some(hidden.clone());
            }
            async move { next.run(request).await }
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: hidden got {\"x\":1}");
}

#[tokio::test]
async fn a_wrap_may_answer_a_call_itself() {
    let agent = agent(ScriptedModel::new([Turn::call("anything", json!({})), Turn::text("done")]))
        .middleware(wrap_tool_call(|request, _next| async move {
            Ok(ToolResponse::text(format!("no need to run {}", request.call.name)))
        }))
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    assert_eq!(lines(outcome.messages())[2], "result: no need to run anything");
}

#[tokio::test]
async fn a_wrap_may_change_arguments_and_the_thread_keeps_the_models() {
    let agent = agent(ScriptedModel::new([Turn::call("echo", json!({"x": 1})), Turn::text("done")]))
        .middleware(wrap_tool_call(|mut request, next| async move {
            request.call.args = json!({"x": 2});
            next.run(request).await
        }))
        .tool(echo())
        .build()
        .unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[1..3], ["assistant: [echo {\"x\":1}]", "result: {\"x\":2}"]);
}

#[tokio::test]
async fn a_wraps_own_error_names_it_and_an_error_passing_through_does_not() {
    use deepagents_core::error::Error;
    let call = || Turn::call("echo", json!({"text": "x"}));
    let outer = || wrap_tool_call(|request, next| async move { next.run(request).await }).named("Outer");
    let bad = wrap_tool_call(|_request, _next| async {
        "x".parse::<u8>().map(|_| ToolResponse::text("")).map_err(Error::other)
    });
    let made = agent(ScriptedModel::new([call()])).tool(echo()).middleware(outer()).middleware(bad.named("Bad"));
    let error = made.build().unwrap().invoke("Go.").await.unwrap_err();
    assert_eq!(error.to_string(), "wrap_tool_call of middleware `Bad` failed: invalid digit found in string");
    assert_eq!(error.error.kind(), "other");

    let bad = wrap_model_call(|_request, _next| async { Err(Error::other("no")) }).named("Bad");
    let error = agent(ScriptedModel::new([])).middleware(bad).build().unwrap().invoke("Go.").await.unwrap_err();
    assert_eq!(error.to_string(), "wrap_model_call of middleware `Bad` failed: no");

    let through = wrap_model_call(|request, next| async move { next.run(request).await });
    let model = ScriptedModel::new([Turn::error(ModelError::invalid("wrong"))]);
    let error = agent(model).middleware(through).build().unwrap().invoke("Go.").await.unwrap_err();
    assert!(matches!(&*error.error, Error::Model(_)), "{error:?}");
}

#[tokio::test]
async fn a_panic_names_the_code_it_came_from() {
    let calls = || [Turn::call("echo", json!({"text": "x"})), Turn::text("Done.")];
    let through = || wrap_tool_call(|request, next| async move { next.run(request).await }).named("Outer");
    let bad =
        wrap_tool_call(|_request, _next| async { if true { panic!("ouch") } else { Ok(ToolResponse::text("")) } });
    let made = agent(ScriptedModel::new(calls()))
        .tool(echo())
        .middleware(through())
        .middleware(bad.named("Bad"))
        .build()
        .unwrap();
    let told = lines(made.invoke("Go.").await.unwrap().messages());
    assert!(
        told.iter().any(|line| line.contains("the tool crashed: in wrap_tool_call of middleware `Bad`: ouch")),
        "{told:?}"
    );

    let crash = tool("echo", |_, _| async { if true { panic!("ouch") } else { Ok("x") } });
    let made = agent(ScriptedModel::new(calls())).tool(crash).middleware(through()).build().unwrap();
    let told = lines(made.invoke("Go.").await.unwrap().messages());
    assert!(told.iter().any(|line| line.contains("Error: the tool crashed: ouch")), "{told:?}");

    let through = wrap_model_call(|request, next| async move { next.run(request).await });
    let model = ScriptedModel::new([Turn::with(|_| panic!("ouch"))]);
    let error = agent(model).middleware(through).build().unwrap().invoke("Go.").await.unwrap_err();
    assert!(error.to_string().starts_with("it panicked: in the model "), "{error}");
    let bad = wrap_model_call(|_request, _next| async { if true { panic!("ouch") } else { Ok(said("")) } });
    let error =
        agent(ScriptedModel::new([])).middleware(bad.named("Bad")).build().unwrap().invoke("Go.").await.unwrap_err();
    assert_eq!(error.to_string(), "it panicked: in wrap_model_call of middleware `Bad`: ouch");
}

#[tokio::test]
async fn an_observer_that_only_reads_events_changes_nothing() {
    use deepagents_core::event::Event;
    use deepagents_core::run::{RunInput, RunObserver};
    #[derive(Default)]
    struct Counts(AtomicU32);
    impl RunObserver for Counts {
        fn event(&self, _event: &Event) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let model = ScriptedModel::new([Turn::call("echo", json!({"text": "x"})), Turn::text("Done.")]);
    let counts = Arc::new(Counts::default());
    let agent = agent(model).tool(echo()).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Go.").observer(counts.clone())).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    assert!(counts.0.load(Ordering::Relaxed) > 5);
}

/// Counts each pass with `keep`, so that the count survives a failed call.
struct QueuesPasses;
impl Middleware for QueuesPasses {
    fn name(&self) -> &str {
        "QueuesPasses"
    }
    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<Tries>()]
    }
    async fn wrap_model_call(
        &self,
        request: ModelRequest,
        next: ModelNext,
    ) -> deepagents_core::error::Result<ModelResponse> {
        let pass = next.cx().with_queued_updates()?.get::<Tries>() + 1;
        next.cx().queue_update(Update::new::<Tries>(pass));
        next.run(request).await
    }
}

#[tokio::test]
async fn what_a_wrap_keeps_survives_a_failed_cancelled_or_retried_call() {
    let refused = || Turn::error(ModelError::Invalid("no".into()));
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([
        refused(),
        Turn::text("never").delay(std::time::Duration::from_secs(3600)),
        refused(),
        Turn::text("done"),
    ]);
    let again = wrap_model_call(|request, next| async move {
        let last = request.messages.last().map(|message| message.text());
        match next.run(request.clone()).await {
            Err(_) if last.as_deref() == Some("twice") => next.run(request).await,
            answer => answer,
        }
    });
    let agent = agent(model).middleware(again).middleware(QueuesPasses).journal(journal).build().unwrap();
    let kept = async || agent.state("t").await.unwrap().get::<Tries>().copied();
    let failed = agent.invoke(RunInput::new("fails").thread("t")).await.unwrap_err();
    assert_eq!((failed.state.get::<Tries>(), kept().await), (Some(&1), Some(1)));
    let mut run = agent.run(RunInput::new("waits").thread("t"));
    until(&mut run, |kind| matches!(kind, EventKind::ModelStarted { .. })).await;
    run.cancel();
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    assert_eq!(kept().await, Some(2));
    // The second pass of a call sees what the first has kept.
    let outcome = agent.invoke(RunInput::new("twice").thread("t")).await.unwrap();
    assert_eq!((outcome.text(), kept().await), ("done".to_owned(), Some(4)));
}

#[tokio::test]
async fn queued_messages_have_stable_ids() {
    let notes = Notes::default();
    let seen = notes.clone();
    let keeps = wrap_model_call(move |request, next| {
        let seen = seen.clone();
        async move {
            next.cx().queue_update(Update::message(Message::harness("noted")));
            for _ in 0..2 {
                seen.add(next.cx().with_queued_updates()?.state().messages().last().unwrap().id());
            }
            next.run(request).await
        }
    });
    let agent = agent(ScriptedModel::new([Turn::text("done")])).middleware(keeps).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let noted = outcome.messages().iter().find(|message| message.text() == "noted").unwrap();
    assert!(!noted.id().is_empty());
    assert_eq!(notes.list(), [noted.id(), noted.id()]);
}
