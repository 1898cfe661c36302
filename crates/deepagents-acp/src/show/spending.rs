//! The usage and cost of a session.

use deepagents::core::model::Price;
use deepagents::{State, Usage};

use crate::editor::Editor;
use crate::wire;

/// The cost of a session so far, if its model's price is known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spending {
    price: Option<Price>,
    dollars: f64,
}

impl Spending {
    /// Sums up the cost of a conversation.
    pub(crate) fn new(state: &State, price: Option<Price>) -> Self {
        let mut spending = Self { price, dollars: 0.0 };
        for usage in state.messages().iter().filter_map(|message| message.as_assistant()?.usage) {
            spending.add(usage);
        }
        spending
    }

    /// Adds the cost of a model response.
    pub(crate) fn add(&mut self, usage: Usage) {
        self.dollars += self.price.as_ref().map_or(0.0, |price| price.cost(usage));
    }

    fn cost(&self) -> Option<wire::Cost> {
        self.price.as_ref().map(|_| wire::Cost::new(self.dollars, "USD"))
    }
}

/// Sends the context usage, if the window's size is known, and the cost of the session.
pub(crate) fn usage_update(editor: &Editor, window: Option<u64>, used: u64, spending: &Spending) {
    if let Some(size) = window.filter(|_| used > 0) {
        let update = wire::UsageUpdate::new(used.min(size), size).cost(spending.cost());
        editor.update(wire::SessionUpdate::UsageUpdate(update));
    }
}
