//! The usage and cost of a session.

use std::sync::Arc;

use deepagents::Usage;
use deepagents::core::journal::ThreadUsage;
use deepagents::core::model::Price;
use deepagents::models::catalogue::Catalogue;

use crate::editor::Editor;
use crate::host::SessionAgent;
use crate::wire;

/// The cost of a session so far, as far as prices are known.
#[derive(Clone, Debug)]
pub(crate) struct Spending {
    /// The name of the session's model, and its price.
    model: String,
    price: Option<Price>,
    /// Prices of all other models; `None` means the built-in ones.
    catalogue: Option<Arc<Catalogue>>,
    dollars: f64,
}

impl Spending {
    /// Sums up the cost of the threads of a session.
    pub(crate) fn new<'a>(agent: &SessionAgent, used: impl IntoIterator<Item = &'a ThreadUsage>) -> Self {
        let model = agent.agent.definition().model().name().to_owned();
        let mut spending = Self { model, price: agent.price, catalogue: agent.catalogue.clone(), dollars: 0.0 };
        for thread in used {
            thread.answers().for_each(|(model, usage)| spending.add(model, usage));
            // The sizes of these prompts are not known, so prices for long prompts do not apply.
            if let Some(mut price) = agent.price {
                price.above = None;
                spending.dollars += price.cost(thread.outside_conversations());
            }
        }
        spending
    }

    /// Adds the cost of an answer of a model. An empty name is the session's model.
    pub(crate) fn add(&mut self, model: &str, usage: Usage) {
        self.dollars += self.price_of(model).map_or(0.0, |price| price.cost(usage));
    }

    fn price_of(&self, model: &str) -> Option<Price> {
        let is_present = model.is_empty() || bare(model) == bare(&self.model);
        let catalogue = || self.catalogue.as_deref().unwrap_or(Catalogue::built_in());
        self.price.filter(|_| is_present).or_else(|| catalogue().lookup(bare(model))?.price)
    }

    fn cost(&self) -> Option<wire::Cost> {
        (self.price.is_some() || self.dollars > 0.0).then(|| wire::Cost::new(self.dollars, "USD"))
    }
}

/// Returns a model's name without its provider.
fn bare(name: &str) -> &str {
    name.split_once(':').map_or(name, |(_, bare)| bare)
}

/// Sends the context usage, if the window's size is known, and the cost of the session.
pub(crate) fn usage_update(editor: &Editor, window: Option<u64>, used: u64, spending: &Spending) {
    if let Some(size) = window.filter(|_| used > 0) {
        let update = wire::UsageUpdate::new(used.min(size), size).cost(spending.cost());
        editor.update(wire::SessionUpdate::UsageUpdate(update));
    }
}
