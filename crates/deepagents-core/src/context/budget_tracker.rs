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
    /// The thread, of an agent in the background: the run above counts apart what it spends, until it takes it over.
    beside: Option<Arc<str>>,
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
    /// What agents in the background have spent that is no part of `spent` yet, by their threads.
    beside: BTreeMap<Arc<str>, BudgetUsage>,
    /// Whether what is spent is written down although nothing is limited.
    recorded: bool,
    /// What earlier runs of the thread had spent.
    earlier: BudgetUsage,
    /// What of `spent` was taken over from agents in the background.
    background: BudgetUsage,
}

impl Book {
    /// Where something is counted that an agent of this part has spent, or one in the background.
    fn account(&mut self, beside: Option<&Arc<str>>) -> &mut BudgetUsage {
        match beside {
            Some(thread) => self.beside.entry(thread.clone()).or_default(),
            None => &mut self.spent,
        }
    }

    /// All that the budget is to cover.
    fn all(&self) -> BudgetUsage {
        let mut all = self.spent;
        self.beside.values().for_each(|more| all += more);
        all
    }
}

impl BudgetTracker {
    /// Counts a part of the tree, from now on: with what it is given and, where that says nothing, the agent's own.
    pub(crate) fn new(above: Option<Arc<Self>>, given: Budget, own: &Budget) -> Self {
        let (budget, spent, by_agent) = (given.clone().or(own), BudgetUsage::default(), BTreeMap::new());
        let (deadline, beside) = (deadline(&budget), BTreeMap::new());
        let (recorded, earlier, background) = (false, spent, spent);
        let book = Book { given, deadline, budget, spent, by_agent, beside, recorded, earlier, background };
        Self { above, beside: None, book: Mutex::new(book) }
    }

    /// Makes the run above count this one apart, under the thread of an agent in the background.
    #[must_use]
    pub(crate) fn beside(self, thread: Option<Arc<str>>) -> Self {
        Self { beside: thread, ..self }
    }

    /// Writes down what is spent, whether or not it is limited.
    pub(crate) fn record(&self) {
        self.lock().recorded = true;
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins where an earlier run of the thread has ended.
    pub(crate) fn begin_after(&self, ledger: &BudgetState) {
        self.lock().earlier = ledger.total();
    }

    /// Goes on from what an earlier part of the run has left, and what agents below had spent that it did not include.
    /// Its limits come before those that the agent has now. Agents above have counted all that for themselves.
    pub(crate) fn go_on(&self, ledger: Option<&BudgetState>, below: &BudgetUsage) {
        let mut book = self.lock();
        if let Some(ledger) = ledger {
            book.budget = book.given.clone().or(&ledger.budget).or(&book.budget);
            book.deadline = deadline(&book.budget);
            (book.spent, book.earlier, book.background) = (ledger.spent, ledger.earlier, ledger.background);
            // What was written down so far is not forgotten by the next part.
            book.recorded = true;
        }
        book.spent += below;
    }

    /// Counts model calls from here, for a run that goes on where they had come to their limit: up to that of this part, or
    /// the agent's own.
    pub(crate) fn count_calls_anew(&self, own: &Budget) {
        let mut book = self.lock();
        let limit = book.given.model_calls.or(own.model_calls);
        book.budget.model_calls = limit.map(|limit| limit.saturating_add(book.spent.model_calls));
    }

    /// Counts apart what an agent in the background had spent.
    fn count_beside(&self, thread: &Arc<str>, spent: &BudgetUsage) {
        *self.lock().account(Some(thread)) += spent;
        if let Some(above) = &self.above {
            above.count_beside(self.beside.as_ref().unwrap_or(thread), spent);
        }
    }

    /// Takes over what an agent in the background has spent, whether or not it was counted apart here.
    pub(crate) fn take_over(&self, thread: &str, agent: &str, spent: &BudgetUsage) {
        let mut book = self.lock();
        let known = book.beside.remove(thread).unwrap_or_default();
        let left = known.since(spent);
        if !left.is_nothing() {
            book.beside.insert(thread.into(), left);
        }
        book.spent += spent;
        book.background += spent;
        *book.by_agent.entry(agent.to_owned()).or_default() += spent.usage;
        drop(book);
        match (&self.above, &self.beside) {
            (Some(above), Some(own)) => above.count_beside(own, &spent.since(&known)),
            (Some(above), None) => above.take_over(thread, agent, spent),
            (None, _) => {}
        }
    }

    /// Whether anything is limited, here or above.
    fn is_limited(&self) -> bool {
        !self.lock().budget.is_unlimited() || self.above.as_ref().is_some_and(|above| above.is_limited())
    }

    /// What a later part of the run goes on from, if anything is limited.
    pub(crate) fn ledger(&self) -> Option<BudgetState> {
        let limited = self.is_limited();
        let book = self.lock();
        (limited || book.recorded).then(|| BudgetState {
            budget: book.budget.clone(),
            spent: book.spent,
            earlier: book.earlier,
            background: book.background,
        })
    }

    /// When the time of this part of the tree, or of one above, is up.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let above = self.above.as_ref().and_then(|above| above.deadline());
        self.lock().deadline.into_iter().chain(above).min()
    }

    /// Why no further request may be sent.
    pub(crate) fn exhausted(&self) -> Option<FinishReason> {
        let book = self.lock();
        book.budget.spent(&book.all()).or_else(|| self.above.as_ref()?.exhausted())
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
        self.begin_request_of(None, &unpriced)
    }

    fn begin_request_of(&self, from: Option<&Arc<str>>, unpriced: &dyn Fn() -> Option<String>) -> Result<()> {
        // Those above are looked at and counted while this part is locked, so that no two requests take the last place.
        let mut book = self.lock();
        if let Some(stop) = book.budget.spent(&book.all()) {
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
            above.begin_request_of(self.beside.as_ref().or(from), unpriced)?;
        }
        let spent = book.account(from);
        spent.model_calls = spent.model_calls.saturating_add(1);
        Ok(())
    }

    /// Counts what a request has used.
    pub(crate) fn end_model_call(&self, agent: &str, model: &dyn ChatModel, usage: Usage) {
        let cost = model.profile().price.map_or(0.0, |price| price.cost(usage));
        self.charge(agent, usage, cost);
    }

    /// Counts tokens and what they cost, here and above.
    pub(crate) fn charge(&self, agent: &str, usage: Usage, cost: f64) {
        self.add(None, agent, usage, cost);
    }

    fn add(&self, from: Option<&Arc<str>>, agent: &str, usage: Usage, cost: f64) {
        if let Some(above) = &self.above {
            above.add(self.beside.as_ref().or(from), agent, usage, cost);
        }
        let mut book = self.lock();
        let spent = book.account(from);
        spent.usage += usage;
        spent.cost += cost;
        if from.is_none() {
            *book.by_agent.entry(agent.to_owned()).or_default() += usage;
        }
    }

    /// Counts a tool call before it is made. One that an earlier process has `begun` is made whatever is left.
    ///
    /// # Errors
    /// Why it may not be made; nothing is counted then.
    pub(crate) fn begin_tool_call(&self, begun: bool) -> Result<(), FinishReason> {
        self.begin_tool(None, begun)
    }

    fn begin_tool(&self, from: Option<&Arc<str>>, begun: bool) -> Result<(), FinishReason> {
        let mut book = self.lock();
        if !begun && book.budget.tool_calls.is_some_and(|limit| book.all().tool_calls >= limit) {
            return Err(FinishReason::Budget(BudgetKind::ToolCalls));
        }
        if let Some(above) = &self.above {
            above.begin_tool(self.beside.as_ref().or(from), begun)?;
        }
        let spent = book.account(from);
        spent.tool_calls = spent.tool_calls.saturating_add(1);
        Ok(())
    }

    /// A tool call that waits for a decision has not been made: it is counted when it is made again.
    pub(crate) fn take_back_tool_call(&self) {
        self.take_back_tool(None);
    }

    fn take_back_tool(&self, from: Option<&Arc<str>>) {
        if let Some(above) = &self.above {
            above.take_back_tool(self.beside.as_ref().or(from));
        }
        let mut book = self.lock();
        let spent = book.account(from);
        spent.tool_calls = spent.tool_calls.saturating_sub(1);
    }

    /// What may still be spent, here and above, of what the budget is to cover: requests are refused by the same.
    pub(crate) fn remaining(&self) -> BudgetRemaining {
        let book = self.lock();
        let time = book.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let own = BudgetRemaining { time, ..book.budget.remaining(&book.all()) };
        drop(book);
        match &self.above {
            Some(above) => own.least(above.remaining()),
            None => own,
        }
    }

    /// What was spent with what is counted apart.
    pub(crate) fn covered(&self) -> BudgetUsage {
        self.lock().all()
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
