//! Tracks what a tree of agents spends.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use tokio::time::Instant;

use crate::error::{Error, Result};
use crate::machine::{Budget, BudgetState, BudgetUsage, LimitExit};
use crate::message::Usage;
use crate::model::{ChatModel, ModelOutput};
use crate::panics::lock;
use crate::status::{BudgetKind, FinishReason};

/// Tracks what an agent and all its sub-agents have spent and may spend. Spending below also counts above. It is
/// shared, so that every request counts, including one whose answer was discarded.
#[derive(Debug)]
pub(crate) struct BudgetTracker {
    above: Option<Arc<BudgetTracker>>,
    /// The thread, for a background agent: the parent run tracks its spending separately until it takes it over.
    tracked_under: Option<Arc<str>>,
    /// Whether it is that of an agent, which needs requests of its own after those of the parts below it.
    is_of_agent: bool,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    /// The budget given to this part of the run. It takes precedence over the one left by an earlier part.
    given: Budget,
    budget: Budget,
    deadline: Option<Instant>,
    /// Includes what earlier parts of the run have spent.
    spent: BudgetUsage,
    /// A list, because every run has one and there are few names.
    by_agent: Vec<(String, Usage)>,
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

    fn add_for(&mut self, agent: &str, usage: Usage) {
        match self.by_agent.iter_mut().find(|(name, _)| name == agent) {
            Some((_, known)) => *known += usage,
            None => self.by_agent.push((agent.to_owned(), usage)),
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
        let budget = given.clone().or(own);
        let book = Book { given, deadline: deadline(&budget), budget, ..Book::default() };
        Self { above, tracked_under: None, is_of_agent: true, book: Mutex::new(book) }
    }

    /// Starts tracking what makes no requests between those of its parts: several runs, or the scope of one agent.
    pub(crate) fn of_parts(above: Option<Arc<Self>>, budget: Budget) -> Self {
        Self { is_of_agent: false, ..Self::new(above, budget, &Budget::default()) }
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
        book.add_for(agent, spent.usage);
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
        self.find_up(&|book, above| book.budget.exhausted_except(&book.all(), above))
    }

    /// Returns what happens at the limits of the agent.
    pub(crate) fn limit_exit(&self) -> LimitExit {
        let own = lock(&self.book).budget.at_limit;
        own.or_else(|| Some(self.above.as_ref()?.limit_exit())).unwrap_or_default()
    }

    /// Returns why the next request is the last one, if so. `before` is what the one before has spent.
    pub(crate) fn ends_after_next(&self, before: &BudgetUsage) -> Option<FinishReason> {
        self.find_up(&|book, above| book.budget.ends_after(&book.all(), before, above))
    }

    /// Returns the first result here or above. `find` also gets the number of agents above, up to the one whose budget
    /// it is, that answer at their limits and so need another request.
    fn find_up<T>(&self, find: &dyn Fn(&Book, u64) -> Option<T>) -> Option<T> {
        let (mut tracker, mut above) = (self, 0);
        loop {
            let found = find(&lock(&tracker.book), above);
            if found.is_some() {
                return found;
            }
            tracker = tracker.above.as_deref()?;
            above += u64::from(tracker.needs_last_request());
        }
    }

    /// Returns whether it is that of an agent that answers at its limits.
    fn needs_last_request(&self) -> bool {
        self.is_of_agent && self.limit_exit() == LimitExit::Answer
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
        let check = |book: &Book, above| match book.budget.exhausted_except(&book.all(), above) {
            Some(stop) => Err(Error::BudgetExhausted(stop)),
            None => match book.budget.cost.and_then(|_| unpriced()) {
                Some(name) => Err(Error::Input(format!(
                    "the cost of the run is limited, but the price of {name} is not known; set it in the model's \
                     profile"
                ))),
                None => Ok(()),
            },
        };
        self.count((None, 0), &check, &|spent| spent.model_calls = spent.model_calls.saturating_add(1))
    }

    /// Counts something here and above, unless a check refuses it here or above. Returns the refusal. Each part stays
    /// locked while those above are checked and updated, so that two requests cannot both take the last place. `from`
    /// is the background agent that it is counted for, and how many agents up to this one answer at their limits.
    fn count<E>(
        &self,
        from: (Option<&Arc<str>>, u64),
        check: &dyn Fn(&Book, u64) -> Result<(), E>,
        add: &dyn Fn(&mut BudgetUsage),
    ) -> Result<(), E> {
        let (from, answering) = from;
        let mut book = lock(&self.book);
        check(&book, answering)?;
        if let Some(above) = &self.above {
            let answering = answering + u64::from(above.needs_last_request());
            above.count((self.tracked_under.as_ref().or(from), answering), check, add)?;
        }
        add(book.account(from));
        Ok(())
    }

    /// Adds what a request has used.
    pub(crate) fn end_model_call(&self, agent: &str, model: &dyn ChatModel, output: &ModelOutput) {
        let price = output.price.or_else(|| model.profile().price);
        self.charge(agent, output.usage, price.map_or(0.0, |price| price.cost(output.usage)));
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
            book.add_for(agent, usage);
        }
    }

    /// Counts a tool call before it is made. A call that an earlier process has `begun` is made regardless of the
    /// limit.
    ///
    /// # Errors
    /// Returns why it may not be made. Nothing is counted in that case.
    pub(crate) fn begin_tool_call(&self, begun: bool) -> Result<(), FinishReason> {
        let check = |book: &Book, _| match book.budget.tool_calls {
            Some(limit) if !begun && book.all().tool_calls >= limit => Err(FinishReason::Budget(BudgetKind::ToolCalls)),
            _ => Ok(()),
        };
        self.count((None, 0), &check, &|spent| spent.tool_calls = spent.tool_calls.saturating_add(1))
    }

    /// Uncounts a tool call that waits for a decision: it has not been made, and is counted when it is repeated.
    pub(crate) fn take_back_tool_call(&self) {
        let Ok(()) = self.count((None, 0), &|_, _| Ok::<_, Infallible>(()), &|spent| {
            spent.tool_calls = spent.tool_calls.saturating_sub(1);
        });
    }

    /// Returns what may still be spent, here and above. Requests are refused by the same limits.
    pub(crate) fn remaining(&self) -> Budget {
        let book = lock(&self.book);
        let time = book.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let own = Budget { time, ..book.budget.remaining(&book.all()) };
        drop(book);
        match &self.above {
            Some(above) => own.least(&above.remaining()),
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
        lock(&self.book).by_agent.iter().cloned().collect()
    }

    pub(crate) fn total(&self) -> Usage {
        lock(&self.book).by_agent.iter().map(|(_, usage)| *usage).sum()
    }
}

fn deadline(budget: &Budget) -> Option<Instant> {
    budget.time.and_then(|time| Instant::now().checked_add(time))
}
