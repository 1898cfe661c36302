//! A compaction is kept, whatever happens to the call for which it was made.

use std::sync::Arc;
use std::time::Duration;

use deepagents::core::agent::Agent;
use deepagents::core::middleware::wrap_model_call;
use deepagents::core::model::ErrorInfo;
use deepagents::fs::StateBackend;
use deepagents::middleware::Summarization;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, EventKind, FinishReason, MemoryJournal, MiddlewareEvent, ModelError, RunInput};
use futures_util::StreamExt;

use super::*;

fn refused() -> Turn {
    Turn::error(ModelError::Invalid(ErrorInfo::from("no")))
}

#[tokio::test]
async fn a_summary_is_made_once_even_if_later_calls_fail_or_are_cancelled() {
    let turns = [refused(), Turn::text("never").delay(Duration::from_secs(3600)), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .summarization(by_messages(6, 2))
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let mut told = 0;
    let mut count = |kind: &EventKind| {
        told += usize::from(matches!(kind, EventKind::Middleware(MiddlewareEvent::ConversationCompacted { .. })));
    };
    let mut run = agent.run(RunInput::messages(conversation("H A H A H A H")).thread("t"));
    while let Some(event) = run.next().await {
        count(&event.kind);
    }
    run.outcome().await.unwrap_err();
    let mut run = agent.run(RunInput::new("Again.").thread("t"));
    while let Some(event) = run.next().await {
        count(&event.kind);
        if matches!(event.kind, EventKind::ModelStarted { .. }) {
            run.cancel();
        }
    }
    assert_eq!(run.outcome().await.unwrap().stop, FinishReason::Cancelled);
    let outcome = agent.invoke(RunInput::new("Once more.").thread("t")).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    let (summaries, sent) = requests(&model);
    assert_eq!((summaries.len(), told), (1, 1), "one summary, told once");
    assert!(sent.iter().all(|request| texts(request)[0].contains("A SUMMARY")));
    assert_eq!(history(&outcome).matches("## Summarized at").count(), 1);
}

#[tokio::test]
async fn a_retrying_wrapper_reuses_the_summary() {
    let model = model([Turn::text("A SUMMARY")], [refused(), Turn::text("Done.")]);
    let options = by_messages(6, 2);
    let summarization = Summarization::new(Arc::new(model.clone()), StateBackend::new(), options).unwrap();
    let again = wrap_model_call(|request, next| async move {
        match next.run(request.clone()).await {
            Err(_) => next.run(request).await,
            answer => answer,
        }
    });
    let look = deepagents::json_tool("look", "Looks.", json!({"type": "object"}), |_: Value, _| async { Ok("there") });
    let agent = Agent::builder(model.clone()).tool(look).middleware(again).middleware(summarization).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(conversation("H A H A H A H"))).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    let (summaries, sent) = requests(&model);
    assert_eq!((summaries.len(), sent.len()), (1, 2));
    assert_eq!(texts(&sent[0]), texts(&sent[1]), "both tries are shown the same");
    assert_eq!(history(&outcome).matches("## Summarized at").count(), 1);
}

#[tokio::test]
async fn a_length_rejected_by_one_model_does_not_limit_another() {
    let named = |name: &str, chars: usize| {
        let answer = move |request: &ModelRequest| match everything(request).len() {
            _ if request.tools.is_empty() => Turn::text("A SUMMARY"),
            long if long > chars => Turn::error(ModelError::ContextLength(ErrorInfo::from("prompt is too long"))),
            _ => Turn::text("Done."),
        };
        ScriptedModel::rules().always(Turn::with(answer)).build().with_name(name)
    };
    let journal = Arc::new(MemoryJournal::new());
    let text = |n: usize| format!("{n} {}", "word ".repeat(800));
    let long = || (0..20).map(|n| if n % 2 == 0 { Message::user(text(n)) } else { Message::assistant(text(n)) });
    let run = async |model: &ScriptedModel| {
        let agent = DeepAgent::builder().model(model.clone()).journal(journal.clone()).build().unwrap();
        let input = RunInput::messages(long().chain([Message::user("And now?")])).thread("t");
        assert_eq!(agent.invoke(input).await.unwrap().text(), "Done.");
        requests(model)
    };
    let (summaries, _) = run(&named("small", 60_000)).await;
    assert_eq!(summaries.len(), 1);
    let (summaries, sent) = run(&named("large", 10_000_000)).await;
    assert_eq!((summaries.len(), sent.len()), (0, 1));
}
