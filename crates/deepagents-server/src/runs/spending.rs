//! The cost of callers' model calls, and the budgets that limit it.
//!
//! A run of a caller with a budget stores its cost after each model call, under a key of its own. Nothing is counted
//! twice, and the cost of a run counts even if its process is killed.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use deepagents::ModelRequest;
use deepagents::middleware::summarization::estimated_tokens;
use deepagents_core::message::Usage;
use deepagents_core::model::{ChatModel, ModelError, ModelEvent, Price};
use deepagents_core::run::{ModelCall, RunObserver};
use deepagents_core::store::{Query, StoreError};
use futures_core::stream::BoxStream;
use futures_util::{StreamExt, stream};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use serde_json::json;
use tokio::runtime::Handle;

use crate::app::App;
use crate::auth::Limits;
use crate::error::{ApiError, Result};
use crate::ids;
use crate::records::Records;

/// How long the spending of other processes is cached.
const SPENDING_TTL: Duration = Duration::from_secs(15);

/// The spending of callers with budgets, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Spending(Mutex<HashMap<String, Month>>);

/// A caller's spending in a month.
#[derive(Debug, Default)]
struct Month {
    name: String,
    /// The amounts in the store at the last read, by key.
    stored: HashMap<String, f64>,
    /// When the store was last read, and the day of the month then.
    read: Option<(Instant, i8)>,
    /// The amounts spent by runs of this process, by key. The store may have less.
    own: HashMap<String, f64>,
}

impl Month {
    /// Returns the prefixes of the keys to read on a day of the month. Earlier days do not change any more, except that
    /// an amount may be stored a little after its day.
    fn outdated(&self, today: i8) -> Vec<String> {
        match self.read {
            None => vec![String::new()],
            Some((when, _)) if when.elapsed() <= SPENDING_TTL => Vec::new(),
            Some((_, last)) => (last.saturating_sub(1)..=today).map(prefix_of).collect(),
        }
    }

    /// Sums the amounts whose keys have a prefix.
    fn sum(&self, prefix: &str) -> f64 {
        let own = self.own.iter();
        let stored = self.stored.iter().filter(|(key, _)| !self.own.contains_key(*key));
        own.chain(stored).filter(|(key, _)| key.starts_with(prefix)).map(|(_, usd)| usd).sum()
    }
}

fn now() -> Zoned {
    Timestamp::now().to_zoned(TimeZone::UTC)
}

/// Returns the prefix of the keys of a day of the month.
fn prefix_of(day: i8) -> String {
    format!("{day:02}/")
}

/// Returns the records of the amounts. The owner is hashed because an id may contain characters that a namespace may
/// not.
fn records<'a>(app: &'a App, owner: &str, month: &str) -> Records<'a> {
    app.records(&["spending", &ids::derived(&[owner]).simple().to_string(), month])
}

impl Spending {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Month>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a closure on a caller's month.
    fn with<T>(&self, owner: &str, name: &str, what: impl FnOnce(&mut Month) -> T) -> T {
        let mut all = self.lock();
        let month = all.entry(owner.to_owned()).or_default();
        if month.name != name {
            *month = Month { name: name.to_owned(), ..Month::default() };
        }
        what(month)
    }

    /// Returns what a caller has spent this day and this month.
    async fn spent(&self, app: &App, owner: &str, at: &Zoned) -> Result<(f64, f64), StoreError> {
        let name = at.strftime("%Y-%m").to_string();
        let outdated = self.with(owner, &name, |month| month.outdated(at.day()));
        if !outdated.is_empty() {
            let mut found = Vec::new();
            for key_prefix in outdated {
                let query = Query { key_prefix, ..Query::default() };
                found.extend(records(app, owner, &name).search(&query).await?);
            }
            let found = found.into_iter().filter_map(|item| Some((item.key, item.value.get("usd")?.as_f64()?)));
            self.with(owner, &name, |month| {
                month.stored.extend(found);
                month.read = Some((Instant::now(), at.day()));
            });
        }
        Ok(self.with(owner, &name, |month| (month.sum(&prefix_of(at.day())), month.sum(""))))
    }

    /// Returns which budget is exhausted and when it renews, or `None` if the caller may spend more.
    async fn check(&self, app: &App, owner: &str, limits: &Limits) -> Result<Option<(String, Duration)>, StoreError> {
        if !limits.has_budget() {
            return Ok(None);
        }
        let now = now();
        let (day, month) = self.spent(app, owner, &now).await?;
        let next_month = now.last_of_month().and_then(|last| last.checked_add(1.day()));
        let budgets = [
            ("month", limits.usd_per_month, month, next_month),
            ("day", limits.usd_per_day, day, now.checked_add(1.day())),
        ];
        Ok(budgets.into_iter().find_map(|(period, limit, spent, next)| {
            let limit = limit.filter(|limit| spent >= *limit)?;
            let wait = next.and_then(|next| next.start_of_day()).ok().map(|next| now.duration_until(&next));
            let wait = wait.and_then(|wait| Duration::try_from(wait).ok()).unwrap_or_default();
            Some((format!("the budget of {limit} US dollars a {period} is spent"), wait))
        }))
    }

    /// Rejects a run if its owner's budget is exhausted.
    pub(super) async fn admit(&self, app: &App, owner: &str, limits: &Limits) -> Result<()> {
        match self.check(app, owner, limits).await? {
            Some((why, wait)) => Err(ApiError::too_many(why, wait)),
            None => Ok(()),
        }
    }
}

/// Records the cost of a run's model calls, and fails further ones once its owner's budget is exhausted. Calls in
/// flight complete.
pub(super) struct SpendingTracker {
    app: Arc<App>,
    owner: String,
    limits: Limits,
    /// The key of this run in this process.
    key: String,
}

impl SpendingTracker {
    /// Creates a tracker if the owner has a budget.
    pub(super) fn new(app: &Arc<App>, owner: &str, limits: &Limits) -> Option<Arc<Self>> {
        limits.has_budget().then(|| {
            let (app, owner, limits) = (app.clone(), owner.to_owned(), limits.clone());
            Arc::new(Self { app, owner, limits, key: ids::fresh() })
        })
    }

    async fn admit(&self, model: &dyn ChatModel) -> Result<(), ModelError> {
        if model.profile().price.is_none() {
            let why = format!("the price of {} is not known, so its use cannot be limited", model.name());
            return Err(ModelError::Auth(why.as_str().into()));
        }
        match self.app.spending.check(&self.app, &self.owner, &self.limits).await {
            Ok(None) => Ok(()),
            Ok(Some((why, _))) => Err(ModelError::Auth(why.as_str().into())),
            Err(error) => Err(ModelError::transport(format!("the amount spent so far cannot be read: {error}"))),
        }
    }

    /// Counts a cost in this process. Returns what the run has cost so far, to be stored.
    fn count(&self, usd: f64) -> Amount {
        let now = now();
        let (month, key) = (now.strftime("%Y-%m").to_string(), prefix_of(now.day()) + &self.key);
        let usd = self.app.spending.with(&self.owner, &month, |known| {
            let spent = known.own.entry(key.clone()).or_default();
            *spent += usd;
            *spent
        });
        Amount { month, key, usd }
    }

    async fn store(&self, amount: Amount) {
        // If this fails, this process still counts the amount, and the next call stores the sum.
        let _ = records(&self.app, &self.owner, &amount.month).put(&amount.key, &json!({"usd": amount.usd})).await;
    }
}

/// What a run has cost on a day.
struct Amount {
    month: String,
    key: String,
    usd: f64,
}

impl RunObserver for SpendingTracker {
    fn model(
        self: Arc<Self>,
        _call: ModelCall,
        model: &Arc<dyn ChatModel>,
        request: ModelRequest,
    ) -> BoxStream<'static, Result<ModelEvent, ModelError>> {
        let model = model.clone();
        let begun = async move {
            if let Err(error) = self.admit(&*model).await {
                return stream::once(std::future::ready(Err(error))).boxed();
            }
            let price = model.profile().price;
            let meter =
                CallMeter { tracker: self, price, request: request.clone(), attempt: Attempt::Sent { bytes: 0 } };
            let metered = stream::unfold((model.stream(request), meter), |(mut events, mut meter)| async move {
                let event = events.next().await?;
                meter.note(&event).await;
                Some((event, (events, meter)))
            });
            metered.boxed()
        };
        stream::once(begun).flatten().boxed()
    }
}

/// Charges a model call. Providers bill answers that are cut off, but report nothing for them: such an answer is charged
/// by an estimate when it fails, is retried, or is dropped.
struct CallMeter {
    tracker: Arc<SpendingTracker>,
    price: Option<Price>,
    request: ModelRequest,
    attempt: Attempt,
}

/// The state of an attempt to make the call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The request was sent, and this much of the answer has arrived.
    Sent { bytes: usize },
    /// There is nothing more to charge: the answer is complete, the request was refused, or a retry is due.
    Settled,
}

impl CallMeter {
    async fn note(&mut self, event: &Result<ModelEvent, ModelError>) {
        let cost = match event {
            Ok(
                ModelEvent::Text { delta, .. }
                | ModelEvent::Reasoning { delta, .. }
                | ModelEvent::ToolArgs { delta, .. },
            ) => {
                self.received(delta);
                return;
            }
            Ok(ModelEvent::ToolCall { name, .. }) => {
                self.received(name);
                return;
            }
            Ok(ModelEvent::Finished(output)) => output.price.or(self.price).map(|price| price.cost(output.usage)),
            // A refused request costs nothing.
            Ok(ModelEvent::Retry { .. }) | Err(_) if self.attempt == (Attempt::Sent { bytes: 0 }) => None,
            Ok(ModelEvent::Retry { .. }) | Err(_) => self.estimate(),
            Ok(_) => return,
        };
        self.attempt = Attempt::Settled;
        if let Some(usd) = cost {
            let amount = self.tracker.count(usd);
            self.tracker.store(amount).await;
        }
    }

    fn received(&mut self, text: &str) {
        let before = if let Attempt::Sent { bytes } = self.attempt { bytes } else { 0 };
        self.attempt = Attempt::Sent { bytes: before + text.len() };
    }

    /// Estimates the cost of the attempt, or returns `None` if it is charged already.
    fn estimate(&self) -> Option<f64> {
        let Attempt::Sent { bytes } = self.attempt else { return None };
        let output = (bytes as u64).div_ceil(BYTES_PER_TOKEN);
        let usage = Usage { input: estimated_tokens(&self.request), output, ..Usage::default() };
        self.price.map(|price| price.cost(usage))
    }
}

/// Bytes of text in a token, about.
const BYTES_PER_TOKEN: u64 = 4;

impl Drop for CallMeter {
    /// Charges a call that was dropped before its end, such as that of a cancelled run.
    fn drop(&mut self) {
        let Some(usd) = self.estimate() else { return };
        let amount = self.tracker.count(usd);
        // Without a runtime, the process is about to end.
        if let Ok(runtime) = Handle::try_current() {
            let tracker = self.tracker.clone();
            runtime.spawn(async move { tracker.store(amount).await });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_days_that_may_have_changed_are_read_again() {
        let outdated = |read, today| Month { read, ..Month::default() }.outdated(today);
        assert_eq!(outdated(None, 12), [""]);
        assert_eq!(outdated(Some((Instant::now(), 12)), 12), Vec::<String>::new());
        let before = Instant::now().checked_sub(SPENDING_TTL * 2);
        assert_eq!(outdated(before.map(|before| (before, 12)), 12), ["11/", "12/"]);
        assert_eq!(outdated(before.map(|before| (before, 9)), 10), ["08/", "09/", "10/"]);
    }
}
