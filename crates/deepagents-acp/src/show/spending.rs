//! What a session has used and cost so far.

use deepagents::core::model::Price;
use deepagents::{State, Usage};

use crate::editor::Editor;
use crate::wire;

/// What a session has cost so far, where the price of its model is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending {
    price: Option<Price>,
    dollars: f64,
}

impl Spending {
    /// What the answers of a conversation have cost.
    pub(crate) fn new(state: &State, price: Option<Price>) -> Self {
        let mut spending = Self { price, dollars: 0.0 };
        for usage in state.messages().iter().filter_map(|message| message.as_assistant()?.usage) {
            spending.add(usage);
        }
        spending
    }

    /// Adds what an answer has cost.
    pub(crate) fn add(&mut self, usage: Usage) {
        self.dollars += self.price.as_ref().map_or(0.0, |price| price.cost(usage));
    }

    fn cost(&self) -> Option<wire::Cost> {
        self.price.as_ref().map(|_| wire::Cost::new(self.dollars, "USD"))
    }
}

/// Tells how full the context is, where its size is known, and what the session has cost.
pub(crate) fn usage_update(editor: &Editor, window: Option<u64>, used: u64, spending: &Spending) {
    if let Some(size) = window.filter(|_| used > 0) {
        let update = wire::UsageUpdate::new(used.min(size), size).cost(spending.cost());
        editor.update(wire::SessionUpdate::UsageUpdate(update));
    }
}
