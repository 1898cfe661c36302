//! Counts what a tree of agents spends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::machine::{Budget, BudgetRemaining, BudgetState, BudgetUsage};
use crate::message::Usage;
use crate::model::ChatModel;
use crate::status::{BudgetKind, FinishReason};

/// What an agent and all below it have spent and may spend; what is spent below counts above too. Shared, so that every
/// request counts, also one whose answer was thrown away.
#[derive(Debug)]
pub(crate) struct BudgetTracker {
    above: Option<Arc<BudgetTracker>>,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    /// What this part of the run was told itself; it comes before what an earlier part had left.
    given: Budget,
    budget: Budget,
    deadline: Option<Instant>,
    /// With what earlier parts of the run have spent.
    spent: BudgetUsage,
    by_agent: BTreeMap<String, Usage>,
}

impl BudgetTracker {
    /// Counts a part of the tree, from now on: with what it is given and, where that says nothing, the agent's own.
    pub(crate) fn new(above: Option<Arc<Self>>, given: Budget, own: &Budget) -> Self {
        let (budget, spent, by_agent) = (given.clone().or(own), BudgetUsage::default(), BTreeMap::new());
        let book = Book { given, deadline: deadline(&budget), budget, spent, by_agent };
        Self { above, book: Mutex::new(book) }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Goes on from what an earlier part of the run has left, and what agents below had spent that it did not include.
    /// Its limits come before those that the agent has now. Agents above have counted all that for themselves.
    pub(crate) fn go_on(&self, ledger: Option<&BudgetState>, below: &BudgetUsage) {
        let mut book = self.lock();
        if let Some(ledger) = ledger {
            book.budget = book.given.clone().or(&ledger.budget).or(&book.budget);
            book.deadline = deadline(&book.budget);
            book.spent = ledger.spent;
        }
        book.spent += below;
    }

    /// Whether anything is limited, here or above.
    fn is_limited(&self) -> bool {
        !self.lock().budget.is_unlimited() || self.above.as_ref().is_some_and(|above| above.is_limited())
    }

    /// What a later part of the run goes on from, if anything is limited.
    pub(crate) fn ledger(&self) -> Option<BudgetState> {
        let limited = self.is_limited();
        let book = self.lock();
        limited.then(|| BudgetState { budget: book.budget.clone(), spent: book.spent })
    }

    /// When the time of this part of the tree, or of one above, is up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let above = self.above.as_ref().and_then(|above| above.deadline());
        self.lock().deadline.into_iter().chain(above).min()
    }

    /// Why no further request may be sent.
    pub(crate) fn exhausted(&self) -> Option<FinishReason> {
        let book = self.lock();
        book.budget.spent(&book.spent).or_else(|| self.above.as_ref()?.exhausted())
    }

    /// Counts a request to a model before it is sent.
    ///
    /// # Errors
    /// When the budget is spent, or what the request costs is limited and not known. Nothing is counted then.
    pub(crate) fn begin_model_call(&self, model: &dyn ChatModel) -> Result<()> {
        self.begin_request(|| model.profile().price.is_none().then(|| model.name().to_owned()))
    }

    /// Counts a request before it is sent. `unpriced` names the model if its price is not known.
    ///
    /// # Errors
    /// As [`begin_model_call`](Self::begin_model_call).
    pub(crate) fn begin_request(&self, unpriced: impl Fn() -> Option<String>) -> Result<()> {
        self.begin_request_of(&unpriced)
    }

    fn begin_request_of(&self, unpriced: &dyn Fn() -> Option<String>) -> Result<()> {
        // Those above are looked at and counted while this part is locked, so that no two requests take the last place.
        let mut book = self.lock();
        if let Some(stop) = book.budget.spent(&book.spent) {
            return Err(Error::BudgetExhausted(stop));
        }
        if book.budget.cost.is_some()
            && let Some(name) = unpriced()
        {
            return Err(Error::Input(format!(
                "the cost of the run is limited, but the price of {name} is not known; set it in the model's profile"
            )));
        }
        if let Some(above) = &self.above {
            above.begin_request_of(unpriced)?;
        }
        book.spent.model_calls = book.spent.model_calls.saturating_add(1);
        Ok(())
    }

    /// Counts what a request has used.
    pub(crate) fn end_model_call(&self, agent: &str, model: &dyn ChatModel, usage: Usage) {
        let cost = model.profile().price.map_or(0.0, |price| price.cost(usage));
        self.charge(agent, usage, cost);
    }

    /// Counts tokens and what they cost, here and above.
    pub(crate) fn charge(&self, agent: &str, usage: Usage, cost: f64) {
        if let Some(above) = &self.above {
            above.charge(agent, usage, cost);
        }
        let mut book = self.lock();
        book.spent.usage += usage;
        book.spent.cost += cost;
        *book.by_agent.entry(agent.to_owned()).or_default() += usage;
    }

    /// Counts a tool call before it is made.
    ///
    /// # Errors
    /// Why it may not be made; nothing is counted then.
    pub(crate) fn begin_tool_call(&self) -> Result<(), FinishReason> {
        let mut book = self.lock();
        if book.budget.tool_calls.is_some_and(|limit| book.spent.tool_calls >= limit) {
            return Err(FinishReason::Budget(BudgetKind::ToolCalls));
        }
        if let Some(above) = &self.above {
            above.begin_tool_call()?;
        }
        book.spent.tool_calls = book.spent.tool_calls.saturating_add(1);
        Ok(())
    }

    /// A tool call that waits for a decision has not been made: it is counted when it is made again.
    pub(crate) fn take_back_tool_call(&self) {
        if let Some(above) = &self.above {
            above.take_back_tool_call();
        }
        let mut book = self.lock();
        book.spent.tool_calls = book.spent.tool_calls.saturating_sub(1);
    }

    /// What may still be spent, here and above.
    pub(crate) fn remaining(&self) -> BudgetRemaining {
        let book = self.lock();
        let time = book.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let own = BudgetRemaining { time, ..book.budget.remaining(&book.spent) };
        drop(book);
        match &self.above {
            Some(above) => own.least(above.remaining()),
            None => own,
        }
    }

    pub(crate) fn spent(&self) -> BudgetUsage {
        self.lock().spent
    }

    pub(crate) fn by_agent(&self) -> BTreeMap<String, Usage> {
        self.lock().by_agent.clone()
    }

    pub(crate) fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in self.lock().by_agent.values() {
            total += *usage;
        }
        total
    }
}

fn deadline(budget: &Budget) -> Option<Instant> {
    budget.time.and_then(|time| Instant::now().checked_add(time))
}
