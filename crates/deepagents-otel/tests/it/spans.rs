//! Spans built from events.

use std::time::Duration;

use deepagents_core::agent::Agent;
use deepagents_core::interrupt::{ActionRequests, Decision};
use deepagents_core::journal::MemoryJournal;
use deepagents_core::model::{ErrorInfo, ModelError, ModelEvent};
use deepagents_core::run::RunInput;
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_otel::{Content, Operation, Span, SpanContext, SpanId, TraceBuilder, TraceId};
use futures_util::StreamExt;
use serde_json::json;

use crate::agents::{builder, research, spans_of, tool, tree, usage};

fn root(spans: &[Span]) -> &Span {
    let main = |span: &&Span| matches!(span.operation, Operation::InvokeAgent { .. }) && span.path.is_empty();
    spans.iter().find(main).unwrap()
}

/// The ID of the thread's pending interrupt.
async fn question(agent: &Agent) -> String {
    let state = agent.state("t1").await.unwrap();
    let asked = state.get::<ActionRequests>().unwrap().values().find(|asked| asked.decision.is_none());
    asked.unwrap().request.id.clone()
}

/// The spans of a run before and after an interrupt.
async fn both_parts(agent: &Agent, first: &mut TraceBuilder, second: &mut TraceBuilder) -> (Vec<Span>, Vec<Span>) {
    let before = spans_of(agent, RunInput::new("Find out.").thread("t1"), first).await;
    let input = RunInput::resume("t1").decide(question(agent).await, Decision::Approve);
    let after = spans_of(agent, input, second).await;
    (before, after)
}

#[tokio::test]
async fn agents_requests_and_calls_form_one_span_tree_with_sub_agents_under_calls() {
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let mut builder = TraceBuilder::default();
    let input = RunInput::new("Find out.").thread("t1");
    let before = spans_of(&agent, input, &mut builder).await;
    insta::assert_snapshot!("run_that_waits", tree(&before));
}

#[tokio::test]
async fn a_resumed_run_links_to_its_previous_part_even_across_processes() {
    for here in [true, false] {
        let agent = research().journal(MemoryJournal::new()).build().unwrap();
        let (mut one, mut other) = (TraceBuilder::default(), TraceBuilder::default());
        let (before, after) = if here {
            let before = spans_of(&agent, RunInput::new("Find out.").thread("t1"), &mut one).await;
            let input = RunInput::resume("t1").decide(question(&agent).await, Decision::Approve);
            let after = spans_of(&agent, input, &mut one).await;
            (before, after)
        } else {
            both_parts(&agent, &mut one, &mut other).await
        };
        assert_eq!(root(&before).link, None);
        assert_eq!(root(&after).link, Some(root(&before).context));
        assert_ne!(root(&after).context.span, root(&before).context.span);
        if !here {
            insta::assert_snapshot!("run_that_goes_on", tree(&after));
        }
    }
}

#[tokio::test]
async fn the_caller_is_the_parent_and_the_previous_part_is_linked_in_its_trace() {
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let first: SpanContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let second: SpanContext = "00-11112222333344445555666677778888-1111222233334444-01".parse().unwrap();
    let mut one = TraceBuilder::default().with_parent(first);
    let mut other = TraceBuilder::default().with_parent(second).with_previous_trace(first.trace);
    let (before, after) = both_parts(&agent, &mut one, &mut other).await;
    assert_eq!((root(&before).context.trace, root(&before).parent), (first.trace, Some(first.span)));
    assert_eq!((root(&after).context.trace, root(&after).parent), (second.trace, Some(second.span)));
    assert_eq!(root(&after).link, Some(root(&before).context));
    assert!(before.iter().all(|span| span.context.trace == first.trace));
}

#[tokio::test]
async fn the_log_alone_yields_the_same_tree_except_for_models() {
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let (mut one, mut other) = (TraceBuilder::default(), TraceBuilder::default());
    let (before, after) = both_parts(&agent, &mut one, &mut other).await;
    let (mut builder, mut spans) = (TraceBuilder::default(), Vec::new());
    for event in agent.threads().unwrap().events("t1", 0).await.unwrap() {
        builder.event(&event, &mut spans);
    }
    let names = |spans: &[Span]| {
        let name = |span: &Span| match &span.operation {
            Operation::Chat(chat) => format!("chat {} {}", chat.usage.input, chat.message),
            Operation::InvokeAgent { usage, .. } => format!("{:?} {} {:?}", span.path, usage.input, span.link),
            _ => span.name(),
        };
        let mut all: Vec<_> = spans.iter().map(name).collect();
        all.sort_unstable();
        all
    };
    assert_eq!(names(&[before, after].concat()), names(&spans));
}

#[tokio::test]
async fn failed_attempts_are_span_events_and_a_request_without_success_is_an_error() {
    let overloaded =
        || ModelError::Overloaded(ErrorInfo { message: "too busy with s3cr3t".to_owned(), ..ErrorInfo::default() });
    let retry = || Ok(ModelEvent::Retry { error: overloaded(), after: Duration::from_millis(5) });
    let model = ScriptedModel::new([Turn::raw([retry(), Err(overloaded())])]);
    let agent = builder(model).name("main").build().unwrap();
    let spans = spans_of(&agent, "Go.", &mut TraceBuilder::default()).await;
    insta::assert_snapshot!("failed_request", tree(&spans));
    assert!(!format!("{spans:?}").contains("s3cr3t"), "an error in words is content");
}

#[tokio::test]
async fn spans_carry_no_content_unless_enabled_and_then_it_is_redacted() {
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let spans = spans_of(&agent, RunInput::new("Find out.").thread("t1"), &mut TraceBuilder::default()).await;
    let all = format!("{spans:?}");
    assert!(!all.contains("s3cr3t") && !all.contains("shall look") && !all.contains("Find out"), "{all}");

    let redact = |name: &'static str, text: String| {
        (name != "gen_ai.tool.call.result").then(|| text.replace("s3cr3t", "[redacted]"))
    };
    let agent = research().journal(MemoryJournal::new()).build().unwrap();
    let mut builder = TraceBuilder::default().with_content(Content::default().redact(redact));
    let spans = spans_of(&agent, RunInput::new("Find out.").thread("t1"), &mut builder).await;
    let told: Vec<_> = spans.iter().flat_map(|span| &span.content).collect();
    let all = format!("{told:?}");
    assert!(all.contains("[redacted]") && all.contains("I shall look.") && !all.contains("s3cr3t"), "{all}");
    assert!(told.iter().all(|(name, _)| *name != "gen_ai.tool.call.result"), "{all}");
}

#[tokio::test]
async fn open_spans_are_ended_and_marked_when_events_stop() {
    let hangs = tool("hangs", |_| async { std::future::pending().await });
    let model = ScriptedModel::new([Turn::call("hangs", json!({})).usage(usage(1, 1))]);
    let agent = builder(model).name("main").tool(hangs).build().unwrap();
    let (mut builder, mut spans) = (TraceBuilder::default(), Vec::new());
    let mut run = agent.run("Go.");
    while let Some(event) = run.next().await {
        builder.event(&event, &mut spans);
        if matches!(event.kind, deepagents_core::event::EventKind::ToolStarted { .. }) {
            break;
        }
    }
    drop(run);
    assert_eq!(spans.len(), 1);
    builder.finish(&mut spans);
    insta::assert_snapshot!("unfinished", tree(&spans));
    builder.finish(&mut spans);
    assert_eq!(spans.len(), 3, "nothing is ended twice");
}

#[tokio::test]
async fn run_ids_are_the_same_wherever_they_are_derived() {
    assert_eq!(TraceId::of_run(Some("t1"), "run_1").to_string(), "727b37a59c3c74b65f7255d5c3ebb564");
    assert_ne!(TraceId::of_run(Some("t1"), "run_1"), TraceId::of_run(Some("t2"), "run_1"));
    assert_ne!(SpanId::of_run(None, "run_1", 0), SpanId::of_run(None, "run_1", 1));
}

#[test]
fn a_traceparent_is_parsed_strictly() {
    let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    assert_eq!(good.parse::<SpanContext>().unwrap().to_string(), good);
    assert!("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00-more".parse::<SpanContext>().is_ok());
    for wrong in [
        "",
        "00",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
        "00-4bf92f3577b34da6a3ce929d0e0e47é6-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-+1",
    ] {
        assert!(wrong.parse::<SpanContext>().is_err(), "{wrong}");
    }
}
