//! Many subscribers to one run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use deepagents::core::agent::Agent;
use deepagents::core::message::{AssistantMessage, Block};
use deepagents::core::model::{ModelEvent, ModelOutput, ModelProfile};
use deepagents::{ChatModel, EventKind, ModelError, ModelRequest, Subscribe};
use futures_util::stream::{self, BoxStream, StreamExt};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use crate::bars::Bars;
use crate::{Bench, timed, usage};

/// Number of chunks in the answer, more than are buffered for lagging subscribers.
const CHUNKS: usize = 2_000;
/// Maximum memory of all subscribers together, in MB.
const MAX_MEGABYTES: f64 = 20.0;
/// Maximum CPU time per event and subscriber, in microseconds.
const MAX_MICROSECONDS: f64 = 3.0;

/// A model that answers in many chunks, each when the semaphore permits it.
struct Piecemeal(Arc<Semaphore>);

impl ChatModel for Piecemeal {
    fn name(&self) -> &str {
        "bench:piecemeal"
    }

    fn profile(&self) -> ModelProfile {
        ModelProfile::default()
    }

    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let pace = self.0.clone();
        let piece = |n: usize| format!("piece {n:04} ");
        let pieces = stream::iter(0..CHUNKS).then(move |n| {
            let pace = pace.clone();
            async move {
                if let Ok(permit) = pace.acquire().await {
                    permit.forget();
                }
                Ok(ModelEvent::Text { block: 0, delta: piece(n) })
            }
        });
        let whole = AssistantMessage::new(vec![Block::text((0..CHUNKS).map(piece).collect::<String>())]);
        let end = ModelEvent::Finished(Box::new(ModelOutput::new(whole)));
        pieces.chain(stream::iter([Ok(end)])).boxed()
    }
}

impl Bench {
    /// `watchers K`: one run of 2,000 chunks with K subscribers, which start reading when half of them are sent.
    pub(crate) async fn watchers(&self) -> Result<Map<String, Value>> {
        let count: usize = self.arg(0)?;
        let pace = Arc::new(Semaphore::new(0));
        let run = Agent::builder(Piecemeal(pace.clone())).build()?.run("go").detach();
        run.snapshot().await;
        let before = usage::resident_bytes();
        let mut streams: Vec<_> = (0..count).map(|_| run.subscribe(Subscribe::Start)).collect();
        let mut first = run.subscribe(Subscribe::Start);
        let half = CHUNKS / 2;
        pace.add_permits(half);
        let mut said = 0;
        while said < half {
            let event = first.next().await;
            ensure!(event.is_some(), "the run ended early");
            said += usize::from(event.is_some_and(|event| matches!(event.kind, EventKind::TextDelta { .. })));
        }
        let each = usage::resident_bytes().saturating_sub(before) as f64 / 1e6;
        let (started, cpu) = (Instant::now(), usage::cpu());
        let mut tasks = tokio::task::JoinSet::new();
        for mut stream in streams.drain(..) {
            tasks.spawn(async move {
                let mut events = 0_usize;
                while stream.next().await.is_some() {
                    events += 1;
                }
                events
            });
        }
        drop(first);
        pace.add_permits(CHUNKS - half);
        let mut events = 0;
        while let Some(of_one) = tasks.join_next().await {
            events += of_one?;
        }
        run.outcome().await?;
        let (seconds, cpu) = (started.elapsed(), usage::cpu().saturating_sub(cpu));
        let mut out = timed(seconds, cpu);
        out.insert("mb".to_owned(), json!(each));
        out.insert("events".to_owned(), json!(events));
        let mut bars = Bars::default();
        bars.at_most("mb of all watchers", Some(each), MAX_MEGABYTES);
        bars.takes_at_most("µs of CPU an event and watcher", Some(micros(cpu, events)), MAX_MICROSECONDS);
        out.insert("bars".to_owned(), bars.into_value());
        Ok(out)
    }
}

fn micros(time: Duration, events: usize) -> f64 {
    time.as_secs_f64() * 1e6 / events.max(1) as f64
}
