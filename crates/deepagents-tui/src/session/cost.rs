//! The cost of a thread.

use deepagents::Usage;
use deepagents::core::journal::ThreadUsage;
use deepagents::core::model::Price;

use super::{Result, Session};
use crate::app::event::Event;
use crate::host::Connection;
use crate::text::grouped;

/// Maximum number of background agents that are counted.
const MAX_AGENTS: usize = 200;

impl Session {
    /// Returns the token usage that the open thread's log records, with sub-agents and undone turns, and its cost.
    pub(super) async fn cost(&self) -> Result<String> {
        Ok(self.total().await?.cost_text())
    }

    /// Reports the usage and cost of the open thread, for the user's status line command.
    pub(super) fn tell_cost(&self) {
        self.spawn(|this| async move {
            let thread = this.thread();
            // An unreadable log is reported where the user asks for the cost.
            let total = this.total().await.ok();
            Ok(total.map(|total| Event::Counted { thread, usage: total.usage, dollars: total.known() }))
        });
    }

    async fn total(&self) -> Result<Total> {
        let connection = self.connection().await?;
        let mut used = Vec::new();
        for thread in self.counted_threads(&connection).await? {
            used.push(self.count(&connection, &thread).await?);
        }
        Ok(Total::of(&connection, &used))
    }

    /// Returns the open thread and those of its background agents.
    async fn counted_threads(&self, connection: &Connection) -> Result<Vec<String>> {
        let Some(thread) = self.thread() else { return Ok(Vec::new()) };
        let tasks = connection.agent.background(&thread).await?;
        let below = tasks.into_iter().take(MAX_AGENTS).map(|task| task.thread);
        let threads: Vec<String> = std::iter::once(thread).chain(below).collect();
        self.with(|state| state.counted.retain(|counted, _| threads.contains(counted)));
        Ok(threads)
    }

    /// Returns the usage of a thread. If it was counted before, only newer records are read.
    async fn count(&self, connection: &Connection, thread: &str) -> Result<ThreadUsage> {
        let before = self.with(|state| state.counted.get(thread).cloned()).unwrap_or_default();
        let usage = connection.agent.threads()?.usage(thread, before).await?;
        self.with(|state| state.counted.insert(thread.to_owned(), usage.clone()));
        Ok(usage)
    }
}

/// The total usage and cost, and the models without a known price.
#[derive(Default)]
struct Total {
    usage: Usage,
    dollars: f64,
    unknown: Vec<String>,
}

impl Total {
    fn of(connection: &Connection, used: &[ThreadUsage]) -> Self {
        let mut total = Self::default();
        for thread in used {
            // Each answer is priced by itself, because long prompts may have their own prices.
            thread.answers().for_each(|(model, spent)| total.add(model, price(connection, model), spent, connection));
            // Judges and summaries are priced as the conversation's model, which they use unless they have their own.
            // The sizes of their prompts are not known, so prices for long prompts do not apply.
            let usual = price(connection, "").map(|mut price| {
                price.above = None;
                price
            });
            total.add("", usual, thread.outside_conversations(), connection);
        }
        if total.usage == Usage::default() && connection.price.is_none() {
            total.unknown.push(connection.model.clone());
        }
        total
    }

    fn add(&mut self, model: &str, price: Option<Price>, spent: Usage, connection: &Connection) {
        if spent == Usage::default() {
            return;
        }
        self.usage += spent;
        match price {
            Some(price) => self.dollars += price.cost(spent),
            None => {
                let name = if model.is_empty() { connection.model.as_str() } else { model };
                if !self.unknown.iter().any(|known| known == name) {
                    self.unknown.push(name.to_owned());
                }
            }
        }
    }

    /// Returns the cost, as far as prices are known.
    fn known(&self) -> Option<f64> {
        (self.unknown.is_empty() || self.dollars > 0.0).then_some(self.dollars)
    }

    fn cost_text(&self) -> String {
        let mut body = format!(
            "in   {:>12}   ({} read from the cache)\nout  {:>12}",
            grouped(self.usage.input),
            grouped(self.usage.cache_read),
            grouped(self.usage.output)
        );
        if let Some(dollars) = self.known() {
            body += &format!("\ncost  ${dollars:.4} at list prices");
        }
        if !self.unknown.is_empty() {
            let (names, is) = (self.unknown.join(", "), if self.unknown.len() > 1 { "are" } else { "is" });
            body += &format!("\nthe price of {names} {is} not known");
        }
        body
    }
}

/// Returns the cost of an answer: of the main agent if the path is empty, otherwise of a sub-agent with this model.
pub(super) fn of_answer(connection: &Connection, path: &[String], model: Option<&str>, spent: Usage) -> Option<f64> {
    let named = model.and_then(|model| price(connection, model));
    Some(named.or(connection.price.filter(|_| path.is_empty()))?.cost(spent))
}

/// Returns the price of a model. Assistant messages name it with its provider; an empty name is the current model.
fn price(connection: &Connection, model: &str) -> Option<Price> {
    let name = model.split_once(':').map_or(model, |(_, name)| name);
    let is_present = model.is_empty() || connection.model == model || connection.model == name;
    let present = connection.price.filter(|_| is_present);
    present.or_else(|| connection.catalogue.lookup(name)?.price)
}
