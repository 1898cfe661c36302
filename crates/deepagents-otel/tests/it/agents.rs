//! Traced agents, and the shape of their spans.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use deepagents_core::agent::{Agent, AgentBuilder};
use deepagents_core::env::{Clock, SequentialIds, Timestamp};
use deepagents_core::interrupt::DecisionKind;
use deepagents_core::message::Usage;
use deepagents_core::run::RunInput;
use deepagents_core::state::State;
use deepagents_core::tool::{DynTool, ToolContext, ToolError, ToolOutput, json_tool};
use deepagents_models::scripted::{ScriptedModel, Turn};
use deepagents_otel::{AttributeValue, Operation, Span, TraceBuilder};
use futures_util::StreamExt;
use serde_json::{Value, json};

/// A clock that advances by a millisecond at each reading.
#[derive(Default)]
pub(crate) struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        let seconds = 1_795_000_000_000 + self.0.fetch_add(1, Ordering::SeqCst);
        Timestamp::from_millisecond(seconds).unwrap()
    }
}

pub(crate) fn builder(model: ScriptedModel) -> AgentBuilder {
    Agent::builder(model).ids(SequentialIds::default()).clock(Ticks::default())
}

pub(crate) fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// A tool without arguments.
pub(crate) fn tool<F, R>(name: &str, call: F) -> impl DynTool + use<F, R>
where
    F: Fn(ToolContext) -> R + Send + Sync + 'static,
    R: Future<Output = Result<ToolOutput, ToolError>> + Send + 'static,
{
    json_tool(name, "A tool.", json!({"type": "object"}), move |_: Value, cx| call(cx))
}

/// An agent that looks something up, with a subagent that interrupts before it does the same.
pub(crate) fn research() -> AgentBuilder {
    let lookup = || tool("lookup", |_| async { Ok("41".into()) });
    let ask = tool("ask", |cx| async move {
        let said = cx.interrupt("Go on?", [DecisionKind::Approve, DecisionKind::Reject])?;
        Ok(said.kind().to_string().into())
    });
    let below = ScriptedModel::new([
        Turn::call("ask", json!({})).usage(usage(20, 2)),
        Turn::text("They said so.").usage(Usage { cache_read: 20, ..usage(30, 3) }),
    ]);
    let below = Agent::builder(below).name("researcher").tool(ask).build().unwrap();
    let task = tool("task", move |cx| {
        let below = below.clone();
        async move {
            let state = State::new(below.schema().clone());
            let text = cx.run_child(&below, "task", state, "Ask.").await?.result.map_err(ToolError::fatal)?.text();
            Ok(text.into())
        }
    });
    let model = ScriptedModel::new([
        Turn::call("lookup", json!({"secret": "s3cr3t"})).and_text("I shall look.").usage(usage(10, 1)),
        Turn::call("task", json!({})).usage(usage(11, 1)),
        Turn::text("It is 41.").usage(usage(12, 4)),
    ]);
    builder(model).name("main").tool(lookup()).tool(task)
}

/// The spans of a run, built from the events of a subscriber.
pub(crate) async fn spans_of(agent: &Agent, input: impl Into<RunInput>, builder: &mut TraceBuilder) -> Vec<Span> {
    let (mut run, mut spans) = (agent.run(input), Vec::new());
    while let Some(event) = run.next().await {
        builder.event(&event, &mut spans);
    }
    spans
}

/// Spans as a tree, without values that vary between runs.
pub(crate) fn tree(spans: &[Span]) -> String {
    let mut below: BTreeMap<_, Vec<&Span>> = BTreeMap::new();
    let known: Vec<_> = spans.iter().map(|span| span.context.span).collect();
    for span in spans {
        below.entry(span.parent.filter(|parent| known.contains(parent))).or_default().push(span);
    }
    let mut out = String::new();
    let roots = below.get(&None).cloned().unwrap_or_default();
    for root in roots {
        write(root, 0, &below, &mut out);
    }
    out
}

fn write(span: &Span, depth: usize, below: &BTreeMap<Option<deepagents_otel::SpanId>, Vec<&Span>>, out: &mut String) {
    let indent = "  ".repeat(depth);
    *out += &format!("{indent}{} [{:?}]\n", span.name(), span.kind());
    for (name, value) in span.attributes() {
        let shown = match value {
            _ if name.ends_with("first_chunk") || name.ends_with("message.id") => "…".to_owned(),
            AttributeValue::Text(text) => text.to_owned(),
            AttributeValue::Texts(texts) => texts.join(","),
            AttributeValue::Int(n) => n.to_string(),
            other => format!("{other:?}"),
        };
        *out += &format!("{indent}  · {name} = {shown}\n");
    }
    if let Operation::Chat(chat) = &span.operation {
        for attempt in &chat.discarded {
            *out += &format!("{indent}  ! discarded, {:?}, {} ms\n", attempt.reason, attempt.retry_after_ms);
        }
    }
    if let Some(error) = &span.error {
        *out += &format!("{indent}  ! {} {:?}\n", error.kind, error.message);
    }
    assert!(span.start <= span.end, "{} ends before it begins", span.name());
    let mut children = below.get(&Some(span.context.span)).cloned().unwrap_or_default();
    children.sort_by_key(|child| child.start);
    for child in children {
        assert!(span.start <= child.start && child.end <= span.end, "{} is not within {}", child.name(), span.name());
        write(child, depth + 1, below, out);
    }
}

/// Runs an agent to the end and approves everything.
pub(crate) async fn agree(
    agent: &Agent,
    thread: &str,
    input: impl Into<RunInput>,
    watch: impl Fn(RunInput) -> RunInput,
) {
    use deepagents_core::interrupt::Decision;
    let mut outcome = agent.invoke(watch(input.into().thread(thread))).await.unwrap();
    while let [question, ..] = outcome.action_requests().as_slice() {
        let input = RunInput::resume(thread).decide(&question.id, Decision::Approve);
        outcome = agent.invoke(watch(input)).await.unwrap();
    }
}

pub(crate) type Shared<T> = Arc<std::sync::Mutex<T>>;
