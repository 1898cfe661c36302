//! Structured output by a tool, with middleware that hides tools or limits calls.

use deepagents::core::structured::{OutputStrategy, ResponseFormat};
use deepagents::middleware::ToolFilter;
use deepagents::middleware::limits::{ToolCallLimit, ToolCallLimitExit};
use deepagents::middleware::tool_search::ToolSearch;
use deepagents::middleware::tool_selector::ToolSelector;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgentBuilder, FinishReason, Middleware};
use serde_json::json;

use crate::play;

fn shaped(builder: DeepAgentBuilder) -> DeepAgentBuilder {
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]});
    builder.response_format(ResponseFormat::json("weather_report", schema).strategy(OutputStrategy::Tool))
}

fn answer() -> Turn {
    Turn::call("weather_report", json!({"ok": true}))
}

/// The tools in the first request of an agent.
async fn offered(middleware: impl Middleware) -> Vec<String> {
    let (outcome, model) = play([answer()], |b| shaped(b).middleware(middleware)).await;
    assert_eq!(outcome.structured_json(), Some(&json!({"ok": true})));
    model.requests()[0].tools.iter().map(|tool| tool.name.clone()).collect()
}

#[tokio::test]
async fn tool_filters_never_remove_the_answer_tool() {
    assert_eq!(offered(ToolFilter::only(["ls"])).await, ["ls", "weather_report"]);
    let others = offered(ToolFilter::exclude(["weather_report", "ls"])).await;
    assert!(others.contains(&"weather_report".to_owned()) && !others.contains(&"ls".to_owned()), "{others:?}");
    let judge = ScriptedModel::new([Turn::text(json!({"tools": ["ls"]}).to_string())]);
    assert_eq!(offered(ToolSelector::default().model(judge.clone())).await, ["ls", "weather_report"]);
    assert!(!judge.requests()[0].system_text().contains("weather_report"));
    let search = ToolSearch::default().deferring(|_| true).above_tokens(0);
    assert_eq!(offered(search).await, ["tool_search", "weather_report"]);
}

#[tokio::test]
async fn a_tool_call_limit_does_not_block_the_structured_answer() {
    let ls = || Turn::call("ls", json!({"path": "/"}));
    let limit = || ToolCallLimit::new(None, Some(1)).unwrap();
    for limit in [limit(), limit().exit(ToolCallLimitExit::End), limit().exit(ToolCallLimitExit::Error)] {
        let (outcome, _) = play([ls(), answer()], |b| shaped(b).middleware(limit)).await;
        assert_eq!(outcome.structured_json(), Some(&json!({"ok": true})));
        assert_eq!(outcome.stop, FinishReason::Done);
    }
}
