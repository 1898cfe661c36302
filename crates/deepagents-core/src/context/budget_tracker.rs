//! Tracks what a tree of agents spends.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::machine::{Budget, BudgetRemaining, BudgetState, BudgetUsage};
use crate::message::Usage;
use crate::model::ChatModel;
use crate::panics::lock;
use crate::status::{BudgetKind, FinishReason};

/// Tracks what an agent and all its sub-agents have spent and may spend. Spending below also counts above. It is
/// shared, so that every request counts, including one whose answer was discarded.
#[derive(Debug)]
pub(crate) struct BudgetTracker {
    above: Option<Arc<BudgetTracker>>,
    /// The thread, for a background agent: the parent run tracks its spending separately until it takes it over.
    tracked_under: Option<Arc<str>>,
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    /// The budget given to this part of the run. It takes precedence over the one left by an earlier part.
    given: Budget,
    budget: Budget,
    deadline: Option<Instant>,
    /// Includes what earlier parts of the run have spent.
    spent: BudgetUsage,
    by_agent: BTreeMap<String, Usage>,
    /// What background agents have spent that is not in `spent` yet, by thread.
    by_thread: BTreeMap<Arc<str>, BudgetUsage>,
    /// Whether to record spending even if nothing is limited.
    recorded: bool,
    /// What earlier runs of the thread had spent.
    earlier: BudgetUsage,
    /// The part of `spent` that was taken over from background agents.
    background: BudgetUsage,
}

impl Book {
    /// Returns the account for spending of this part's own agents, or of a background agent.
    fn account(&mut self, background: Option<&Arc<str>>) -> &mut BudgetUsage {
        match background {
            Some(thread) => self.by_thread.entry(thread.clone()).or_default(),
            None => &mut self.spent,
        }
    }

    /// Returns everything that the budget covers.
    fn all(&self) -> BudgetUsage {
        let mut all = self.spent;
        self.by_thread.values().for_each(|more| all += more);
        all
    }
}

impl BudgetTracker {
    /// Starts tracking a part of the tree. Limits that `given` leaves open come from the agent's own budget.
    pub(crate) fn new(above: Option<Arc<Self>>, given: Budget, own: &Budget) -> Self {
        let (budget, spent, by_agent) = (given.clone().or(own), BudgetUsage::default(), BTreeMap::new());
        let (deadline, by_thread) = (deadline(&budget), BTreeMap::new());
        let (recorded, earlier, background) = (false, spent, spent);
        let book = Book { given, deadline, budget, spent, by_agent, by_thread, recorded, earlier, background };
        Self { above, tracked_under: None, book: Mutex::new(book) }
    }

    /// Makes the parent run track this one separately, under the thread of a background agent.
    #[must_use]
    pub(crate) fn tracked_under(self, thread: Option<Arc<str>>) -> Self {
        Self { tracked_under: thread, ..self }
    }

    /// Records spending, whether or not it is limited.
    pub(crate) fn record(&self) {
        lock(&self.book).recorded = true;
    }

    /// Starts where an earlier run of the thread ended.
    pub(crate) fn begin_after(&self, budget_state: &BudgetState) {
        lock(&self.book).earlier = budget_state.total();
    }

    /// Continues from what an earlier part of the run left, and adds what sub-agents had spent that it did not include.
    /// The earlier part's limits take precedence over the agent's current ones. Parent agents have counted all this
    /// themselves.
    pub(crate) fn resume_from(&self, budget_state: Option<&BudgetState>, below: &BudgetUsage) {
        let mut book = lock(&self.book);
        if let Some(budget_state) = budget_state {
            book.budget = book.given.clone().or(&budget_state.budget).or(&book.budget);
            book.deadline = deadline(&book.budget);
            (book.spent, book.earlier, book.background) =
                (budget_state.spent, budget_state.earlier, budget_state.background);
            // The next part must not lose what has been recorded so far.
            book.recorded = true;
        }
        book.spent += below;
    }

    /// Restarts the count of model calls, for a run resumed after it had reached that limit. The new limit is this
    /// part's, or else the agent's own.
    pub(crate) fn count_calls_anew(&self, own: &Budget) {
        let mut book = lock(&self.book);
        let limit = book.given.model_calls.or(own.model_calls);
        book.budget.model_calls = limit.map(|limit| limit.saturating_add(book.spent.model_calls));
    }

    /// Adds a background agent's spending to its separate account.
    fn count_for_thread(&self, thread: &Arc<str>, spent: &BudgetUsage) {
        *lock(&self.book).account(Some(thread)) += spent;
        if let Some(above) = &self.above {
            above.count_for_thread(self.tracked_under.as_ref().unwrap_or(thread), spent);
        }
    }

    /// Takes over what a background agent has spent, whether or not it was tracked separately here.
    pub(crate) fn take_over(&self, thread: &str, agent: &str, spent: &BudgetUsage) {
        let mut book = lock(&self.book);
        let known = book.by_thread.remove(thread).unwrap_or_default();
        let left = known.since(spent);
        if !left.is_nothing() {
            book.by_thread.insert(thread.into(), left);
        }
        book.spent += spent;
        book.background += spent;
        *book.by_agent.entry(agent.to_owned()).or_default() += spent.usage;
        drop(book);
        match (&self.above, &self.tracked_under) {
            (Some(above), Some(own)) => above.count_for_thread(own, &spent.since(&known)),
            (Some(above), None) => above.take_over(thread, agent, spent),
            (None, _) => {}
        }
    }

    /// Returns whether anything is limited, here or above.
    fn is_limited(&self) -> bool {
        !lock(&self.book).budget.is_unlimited() || self.above.as_ref().is_some_and(|above| above.is_limited())
    }

    /// Returns the state that a later part of the run continues from, if anything is limited or recorded.
    pub(crate) fn budget_state(&self) -> Option<BudgetState> {
        let limited = self.is_limited();
        let book = lock(&self.book);
        (limited || book.recorded).then(|| BudgetState {
            budget: book.budget.clone(),
            spent: book.spent,
            earlier: book.earlier,
            background: book.background,
        })
    }

    /// Returns the earliest deadline of this part of the tree and those above.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let above = self.above.as_ref().and_then(|above| above.deadline());
        lock(&self.book).deadline.into_iter().chain(above).min()
    }

    /// Returns whether a deadline of this part of the tree or those above has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Returns why no further request may be sent, if so.
    pub(crate) fn exhausted(&self) -> Option<FinishReason> {
        let book = lock(&self.book);
        book.budget.exhausted_by(&book.all()).or_else(|| self.above.as_ref()?.exhausted())
    }

    /// Counts a model request before it is sent.
    ///
    /// # Errors
    /// Returns an error if the budget is spent, or if the cost is limited and the price is unknown. Nothing is counted
    /// in that case.
    pub(crate) fn begin_model_call(&self, model: &dyn ChatModel) -> Result<()> {
        self.begin_request(|| model.profile().price.is_none().then(|| model.name().to_owned()))
    }

    /// Counts a request before it is sent. `unpriced` returns the model's name if its price is unknown.
    ///
    /// # Errors
    /// As [`begin_model_call`](Self::begin_model_call).
    pub(crate) fn begin_request(&self, unpriced: impl Fn() -> Option<String>) -> Result<()> {
        self.begin_request_of(None, &unpriced)
    }

    fn begin_request_of(&self, from: Option<&Arc<str>>, unpriced: &dyn Fn() -> Option<String>) -> Result<()> {
        // The parents are checked and updated while this part is locked, so that two requests cannot both take the last
        // place.
        let mut book = lock(&self.book);
        if let Some(stop) = book.budget.exhausted_by(&book.all()) {
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
            above.begin_request_of(self.tracked_under.as_ref().or(from), unpriced)?;
        }
        let spent = book.account(from);
        spent.model_calls = spent.model_calls.saturating_add(1);
        Ok(())
    }

    /// Adds what a request has used.
    pub(crate) fn end_model_call(&self, agent: &str, model: &dyn ChatModel, usage: Usage) {
        let cost = model.profile().price.map_or(0.0, |price| price.cost(usage));
        self.charge(agent, usage, cost);
    }

    /// Adds tokens and their cost, here and above.
    pub(crate) fn charge(&self, agent: &str, usage: Usage, cost: f64) {
        self.add(None, agent, usage, cost);
    }

    fn add(&self, from: Option<&Arc<str>>, agent: &str, usage: Usage, cost: f64) {
        if let Some(above) = &self.above {
            above.add(self.tracked_under.as_ref().or(from), agent, usage, cost);
        }
        let mut book = lock(&self.book);
        let spent = book.account(from);
        spent.usage += usage;
        spent.cost += cost;
        if from.is_none() {
            *book.by_agent.entry(agent.to_owned()).or_default() += usage;
        }
    }

    /// Counts a tool call before it is made. A call that an earlier process has `begun` is made regardless of the
    /// limit.
    ///
    /// # Errors
    /// Returns why it may not be made. Nothing is counted in that case.
    pub(crate) fn begin_tool_call(&self, begun: bool) -> Result<(), FinishReason> {
        self.begin_tool(None, begun)
    }

    fn begin_tool(&self, from: Option<&Arc<str>>, begun: bool) -> Result<(), FinishReason> {
        let mut book = lock(&self.book);
        if !begun && book.budget.tool_calls.is_some_and(|limit| book.all().tool_calls >= limit) {
            return Err(FinishReason::Budget(BudgetKind::ToolCalls));
        }
        if let Some(above) = &self.above {
            above.begin_tool(self.tracked_under.as_ref().or(from), begun)?;
        }
        let spent = book.account(from);
        spent.tool_calls = spent.tool_calls.saturating_add(1);
        Ok(())
    }

    /// Uncounts a tool call that waits for a decision: it has not been made, and is counted when it is repeated.
    pub(crate) fn take_back_tool_call(&self) {
        self.take_back_tool(None);
    }

    fn take_back_tool(&self, from: Option<&Arc<str>>) {
        if let Some(above) = &self.above {
            above.take_back_tool(self.tracked_under.as_ref().or(from));
        }
        let mut book = lock(&self.book);
        let spent = book.account(from);
        spent.tool_calls = spent.tool_calls.saturating_sub(1);
    }

    /// Returns what may still be spent, here and above. Requests are refused by the same limits.
    pub(crate) fn remaining(&self) -> BudgetRemaining {
        let book = lock(&self.book);
        let time = book.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let own = BudgetRemaining { time, ..book.budget.remaining(&book.all()) };
        drop(book);
        match &self.above {
            Some(above) => own.least(above.remaining()),
            None => own,
        }
    }

    /// Returns the total spent, including separate accounts.
    pub(crate) fn covered(&self) -> BudgetUsage {
        lock(&self.book).all()
    }

    pub(crate) fn spent(&self) -> BudgetUsage {
        lock(&self.book).spent
    }

    pub(crate) fn by_agent(&self) -> BTreeMap<String, Usage> {
        lock(&self.book).by_agent.clone()
    }

    pub(crate) fn total(&self) -> Usage {
        let mut total = Usage::default();
        for usage in lock(&self.book).by_agent.values() {
            total += *usage;
        }
        total
    }
}

fn deadline(budget: &Budget) -> Option<Instant> {
    budget.time.and_then(|time| Instant::now().checked_add(time))
}
