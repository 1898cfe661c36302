//! Reading the runs of a thread from its log.

use std::collections::{HashMap, HashSet};

use anyhow::Result;
use deepagents::core::agent::ThreadAccess;
use deepagents::core::journal::{LogPosition, Record, ThreadInfo};
use deepagents::core::message::MessageOp;
use deepagents::core::run::BudgetUsage;
use deepagents::core::state::MessagesChannel;
use deepagents::models::Catalogue;
use deepagents::otel::{ModelName, Operation, Span, SpanId, TraceBuilder};
use deepagents::{Event, EventKind, FinishReason, Message, Usage};
use serde::Serialize;

/// Number of records read at once.
const PAGE_RECORDS: LogPosition = 1_000;

/// The runs of a thread, and the waits between them.
pub(super) struct Timeline {
    pub(super) parts: Vec<Part>,
}

/// A part of a run in one process, or a wait for people between two parts.
#[derive(Serialize)]
pub(super) enum Part {
    #[serde(rename = "run")]
    Run(Vec<Row>),
    #[serde(rename = "waiting")]
    Interrupted {
        /// Duration in milliseconds; `None` if the wait continues.
        #[serde(rename = "duration_ms")]
        millis: Option<u64>,
        /// The tools whose calls were interrupted.
        tools: Vec<String>,
    },
}

/// A span of a run.
#[derive(Serialize)]
pub(super) struct Row {
    /// Depth in the tree of spans.
    pub(super) depth: usize,
    pub(super) name: String,
    /// Milliseconds since the start of the run.
    #[serde(rename = "start_ms")]
    pub(super) start: u64,
    /// Duration in milliseconds; `None` for usage of which the log has only the amount.
    #[serde(rename = "duration_ms")]
    pub(super) millis: Option<u64>,
    /// Usage of the request; for an agent, of all its requests and those of agents below it.
    pub(super) usage: Usage,
    /// US dollars at list prices, if the prices of all requests are known.
    #[serde(rename = "cost_usd")]
    pub(super) cost: Option<f64>,
    #[serde(skip)]
    pub(super) is_request: bool,
    /// Why it ended in an unusual way.
    pub(super) note: Option<String>,
}

impl Timeline {
    pub(super) async fn of(threads: &ThreadAccess, info: &ThreadInfo, catalogue: &Catalogue) -> Result<Self> {
        let (from, events) = events(threads, info).await?;
        let models = models(threads, info, from).await?;
        let (mut builder, mut parts) = (TraceBuilder::default(), Vec::new());
        let (mut spans, mut asked, mut waiting) = (Vec::new(), Vec::new(), None);
        let last = events.len().checked_sub(1);
        for (at, event) in events.iter().enumerate() {
            if let (EventKind::RunStarted { .. }, Some(since)) = (&event.kind, waiting.take()) {
                let millis = u64::try_from(event.at.as_millisecond().saturating_sub(since)).unwrap_or(0);
                parts.push(Part::Interrupted { millis: Some(millis), tools: std::mem::take(&mut asked) });
            }
            builder.event(event, &mut spans);
            let ends = matches!(event.kind, EventKind::RunFinished { .. } | EventKind::RunFailed { .. });
            match &event.kind {
                EventKind::ActionRequested { question } => asked.push(question.tool.clone()),
                EventKind::RunFinished { stop: FinishReason::Interrupted, .. } => {
                    waiting = Some(event.at.as_millisecond());
                }
                _ => {}
            }
            let cut = !ends && events.get(at + 1).is_some_and(|next| matches!(next.kind, EventKind::RunStarted { .. }));
            if cut || (Some(at) == last && !ends) {
                builder.finish(&mut spans);
            }
            if ends || cut || Some(at) == last {
                let rows = rows(&std::mem::take(&mut spans), &models, catalogue);
                parts.extend((!rows.is_empty()).then_some(Part::Run(rows)));
            }
        }
        if waiting.is_some() {
            parts.push(Part::Interrupted { millis: None, tools: asked });
        }
        Ok(Self { parts })
    }
}

/// Returns the events from the earliest position that the log can replay, and that position.
async fn events(threads: &ThreadAccess, info: &ThreadInfo) -> Result<(LogPosition, Vec<Event>)> {
    let first = match threads.events(&info.id, 0).await {
        Ok(events) => return Ok((0, events)),
        // Pruned events are not available.
        Err(error) => match threads.history(&info.id, None, usize::MAX).await?.pop() {
            Some(first) => first,
            None => return Err(error.into()),
        },
    };
    Ok((first.position, threads.events(&info.id, first.position).await?))
}

/// Returns the models of all agents' answers by the ID of the answer, from the records after a position. Loading the
/// state of each sub-agent instead would read the whole log each time.
async fn models(threads: &ThreadAccess, info: &ThreadInfo, from: LogPosition) -> Result<HashMap<String, ModelName>> {
    let mut models = HashMap::new();
    let mut note = |message: &Message| {
        if let Some(answer) = message.as_assistant()
            && let Some(origin) = &answer.origin
        {
            let name = ModelName::new(&format!("{}:{}", origin.provider, origin.model));
            models.insert(answer.id.clone(), name);
        }
    };
    threads.state(&info.id).await?.messages().iter().for_each(|message| note(message));
    let mut next = from;
    while next < info.end {
        let page = next..info.end.min(next + PAGE_RECORDS);
        next = page.end;
        for entry in threads.journal().read(&info.id, page).await? {
            let record = match entry.record {
                Record::Child { entry, .. } => *entry,
                record => record,
            };
            let (Record::Update { update } | Record::StateUpdated { update, .. }) = record else { continue };
            for op in update.resolve(threads.schema())?.get::<MessagesChannel>().flatten() {
                if let MessageOp::Put(message) = op {
                    note(message);
                }
            }
        }
    }
    Ok(models)
}

/// Returns the spans of a run in depth-first order.
fn rows(spans: &[Span], models: &HashMap<String, ModelName>, catalogue: &Catalogue) -> Vec<Row> {
    let Some(root) = spans.iter().find(|span| span.path.is_empty() && is_agent(span)) else { return Vec::new() };
    let known: HashSet<SpanId> = spans.iter().map(|span| span.context.span).collect();
    let mut below: HashMap<SpanId, Vec<&Span>> = HashMap::new();
    for span in spans.iter().filter(|span| span.context.span != root.context.span) {
        let parent = span.parent.filter(|parent| known.contains(parent));
        below.entry(parent.unwrap_or(root.context.span)).or_default().push(span);
    }
    below.values_mut().for_each(|spans| spans.sort_by_key(|span| (span.start, span.end)));
    let (mut rows, mut open) = (Vec::new(), vec![(root, 0)]);
    while let Some((span, depth)) = open.pop() {
        let children = below.remove(&span.context.span).unwrap_or_default();
        open.extend(children.into_iter().rev().map(|child| (child, depth + 1)));
        rows.push(row(span, depth, root.start, models, catalogue));
    }
    add_asides(&mut rows);
    sum_costs(&mut rows);
    rows
}

fn is_agent(span: &Span) -> bool {
    matches!(span.operation, Operation::InvokeAgent { .. })
}

fn row(span: &Span, depth: usize, from: u64, models: &HashMap<String, ModelName>, catalogue: &Catalogue) -> Row {
    let millis = |nanos: u64| nanos / 1_000_000;
    let (mut name, mut usage, mut cost, mut is_request) = (span.name(), Usage::default(), None, false);
    match &span.operation {
        Operation::Chat(chat) => {
            (usage, is_request) = (chat.usage, true);
            if let Some(model) = models.get(&chat.message) {
                name = format!("chat {}", model.model);
                cost = catalogue.profile(&model.model).price.map(|price| price.cost(chat.usage));
            }
        }
        Operation::InvokeAgent { usage: tokens, .. } => {
            usage = *tokens;
            name = if span.agent.is_empty() { "agent".to_owned() } else { format!("agent {}", span.agent) };
        }
        Operation::ExecuteTool { tool, .. } => name = format!("tool {tool}"),
        _ => {}
    }
    let note = match (&span.error, &span.operation) {
        (Some(error), _) => Some(error.kind.to_string()),
        (None, Operation::InvokeAgent { finish: Some(finish), .. }) if finish != "done" => Some(finish.to_string()),
        _ => None,
    };
    let start = millis(span.start.saturating_sub(from));
    let took = millis(span.end.saturating_sub(span.start));
    Row { depth, name, start, millis: Some(took), usage, cost, is_request, note }
}

/// Adds a row for model requests outside an agent's conversation, such as those of judges or for summaries: the usage
/// of the agent that none of its requests accounts for.
fn add_asides(rows: &mut Vec<Row>) {
    // Bottom-up, so that parents do not count the same usage again.
    for at in (0..rows.len()).rev() {
        let Some((agent, after)) = rows.get(at..).and_then(<[Row]>::split_first) else { continue };
        if agent.is_request || agent.usage == Usage::default() {
            continue;
        }
        let below = || after.iter().take_while(|row| row.depth > agent.depth);
        let mut counted = BudgetUsage::default();
        below().filter(|row| row.is_request).for_each(|row| counted.usage += row.usage);
        let mut spent = BudgetUsage::default();
        spent.usage = agent.usage;
        let usage = spent.since(&counted).usage;
        if usage == Usage::default() {
            continue;
        }
        let (depth, name, start) = (agent.depth + 1, "outside the conversation".to_owned(), agent.start);
        let aside = Row { depth, name, start, millis: None, usage, cost: None, is_request: true, note: None };
        let end = at + 1 + below().count();
        rows.insert(end, aside);
    }
}

/// Sets the cost of each agent to that of its requests and of those of agents below it.
fn sum_costs(rows: &mut [Row]) {
    for at in 0..rows.len() {
        let Some((agent, after)) = rows.get_mut(at..).and_then(<[Row]>::split_first_mut) else { continue };
        if !agent.is_request && agent.usage != Usage::default() {
            let own = after.iter().take_while(|row| row.depth > agent.depth).filter(|row| row.is_request);
            agent.cost = own.map(|row| row.cost).sum();
        }
    }
}
