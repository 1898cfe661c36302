//! The cost of a thread.

use deepagents::Usage;
use deepagents::core::journal::ThreadUsage;
use deepagents::core::model::Price;

use super::Session;
use super::run::price_of;
use crate::host::Connection;
use crate::text::grouped;

/// Maximum number of background agents that are counted.
const MOST: usize = 200;

impl Session {
    /// Returns the token usage that the open thread's log records, with sub-agents and undone turns, and its cost.
    pub(super) async fn cost(&self) -> Result<String, String> {
        let connection = self.connection().await?;
        let mut used = Vec::new();
        for thread in self.counted_threads(&connection).await? {
            used.push(self.count(&connection, &thread).await?);
        }
        Ok(told(&connection, &used))
    }

    /// Returns the open thread and those of its background agents.
    async fn counted_threads(&self, connection: &Connection) -> Result<Vec<String>, String> {
        let Some(thread) = self.thread() else { return Ok(Vec::new()) };
        let tasks = connection.agent.background(&thread).await.map_err(|error| error.to_string())?;
        let below = tasks.into_iter().take(MOST).map(|task| task.thread);
        let threads: Vec<String> = std::iter::once(thread).chain(below).collect();
        self.with(|state| state.counted.retain(|counted, _| threads.contains(counted)));
        Ok(threads)
    }

    /// Returns the usage of a thread. If it was counted before, only newer records are read.
    async fn count(&self, connection: &Connection, thread: &str) -> Result<ThreadUsage, String> {
        let before = self.with(|state| state.counted.get(thread).cloned()).unwrap_or_default();
        let threads = connection.agent.threads().map_err(|error| error.to_string())?;
        let usage = threads.usage(thread, before).await.map_err(|error| error.to_string())?;
        self.with(|state| state.counted.insert(thread.to_owned(), usage.clone()));
        Ok(usage)
    }
}

fn told(connection: &Connection, used: &[ThreadUsage]) -> String {
    let (mut usage, mut cost, mut unknown) = (Usage::default(), 0.0, Vec::new());
    let mut add = |model: &str, spent: Usage| {
        if spent == Usage::default() {
            return;
        }
        usage += spent;
        match price(connection, model) {
            Some(price) => cost += price.cost(spent),
            None => {
                let name = if model.is_empty() { connection.model.as_str() } else { model };
                if !unknown.iter().any(|known| known == name) {
                    unknown.push(name.to_owned());
                }
            }
        }
    };
    for thread in used {
        thread.models().for_each(|(model, spent)| add(model, spent));
        // Judges and summaries use the conversation's model, unless they were given their own.
        add("", thread.beside());
    }
    if usage == Usage::default() && connection.price.is_none() {
        unknown.push(connection.model.clone());
    }
    let mut body = format!(
        "in   {:>12}   ({} read from the cache)\nout  {:>12}",
        grouped(usage.input),
        grouped(usage.cache_read),
        grouped(usage.output)
    );
    if unknown.is_empty() || cost > 0.0 {
        body += &format!("\ncost  ${cost:.4} at list prices");
    }
    if !unknown.is_empty() {
        let (names, is) = (unknown.join(", "), if unknown.len() > 1 { "are" } else { "is" });
        body += &format!("\nthe price of {names} {is} not known");
    }
    body
}

/// Returns the price of a model. Assistant messages name it with its provider; an empty name is the current model.
fn price(connection: &Connection, model: &str) -> Option<Price> {
    let name = model.split_once(':').map_or(model, |(_, name)| name);
    let is_present = model.is_empty() || connection.model == model || connection.model == name;
    let present = connection.price.filter(|_| is_present);
    present.or_else(|| price_of(&connection.catalogue, model))
}
