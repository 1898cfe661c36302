//! Retry policy, and shared backoff of calls with the same key.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::credentials::Credentials;

/// When and how often a failed call is retried: exponential backoff with full jitter.
///
/// A delay requested by the provider (`Retry-After`) replaces the computed one. Permanent errors are never retried.
///
/// ```
/// use deepagents_models::RetryPolicy;
/// let never = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
/// assert_eq!(never.ceiling(4), std::time::Duration::from_secs(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of attempts, including the first; 1 disables retries.
    pub max_attempts: u32,
    /// Maximum delay after the first failure; it doubles with each further failure.
    pub base: Duration,
    /// Overall maximum delay, unless the provider requests a longer one.
    pub max_delay: Duration,
    /// Maximum time from the first attempt to the start of the last.
    pub budget: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            max_attempts: 5,
            base: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
            budget: Duration::from_secs(300),
        }
    }
}

impl RetryPolicy {
    /// Returns the maximum delay after this many failures.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1_u32 << doublings).min(self.max_delay)
    }

    /// Returns a random delay after this many failures, between zero and [`ceiling`](Self::ceiling).
    pub fn pause(&self, failures: u32) -> Duration {
        self.ceiling(failures).mul_f64(fastrand::f64())
    }
}

/// Default retry budget shared by the calls with one key.
const DEFAULT_RETRY_BUDGET: u32 = 100;

/// Makes calls that share a key back off together, and limits their retries as a whole.
///
/// When a provider limits the rate of one call, other calls of the same model with the same address and key wait too,
/// each with some jitter, instead of being rejected as well; if it is overloaded and says for how long, those of all
/// models do. If the caller drops that call, the others are no longer held back, so a new request goes out immediately.
///
/// If the wait is longer than [`RetryPolicy::budget`], the others fail at once, except that one call a minute is sent: the
/// provider may have changed its mind.
///
/// A provider that fails all calls does not receive many retries of each: calls with the same key share a retry budget.
/// A retry takes one from the budget; a call that succeeds returns what it took, or one if it took none. With no budget
/// left, calls are attempted once. Clones share all of this.
///
/// ```
/// use deepagents_models::{ModelConfig, Registry, SharedBackoff};
/// let mut registry = Registry::new();
/// let backoff = Some(SharedBackoff::with_retry_budget(20));
/// registry.configure("anthropic", ModelConfig { backoff, ..ModelConfig::default() });
/// ```
#[derive(Clone)]
pub struct SharedBackoff(Arc<Shared>);

struct Shared {
    hasher: RandomState,
    retries: u32,
    keys: Mutex<HashMap<u64, KeyState>>,
    /// Source of IDs for calls that hold others back.
    holds: AtomicU64,
}

/// How long after the provider's latest word a call is sent although the others are held back beyond their budget.
const PROBE_AFTER: Duration = Duration::from_secs(60);

/// State of a key; keys in the default state are omitted.
#[derive(Default)]
struct KeyState {
    held_until: Option<Instant>,
    /// When calls were last held back, or one was sent nevertheless.
    probed: Option<Instant>,
    /// Waiting calls that hold the others back, each with its end time.
    waiting: Vec<(HoldId, Instant)>,
    /// Number of retries taken from the budget.
    taken: u32,
}

/// A call that holds others back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId(u64);

/// Identifies calls that back off together. Only a keyed hash is stored, not the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackoffKey(u64);

impl SharedBackoff {
    /// Creates a backoff with a budget of 100 retries.
    pub fn new() -> Self {
        Self::with_retry_budget(DEFAULT_RETRY_BUDGET)
    }

    /// Like [`new`](Self::new), with another retry budget shared by the calls with one key.
    pub fn with_retry_budget(retries: u32) -> Self {
        Self(Arc::new(Shared { hasher: RandomState::new(), retries, keys: Mutex::default(), holds: AtomicU64::new(0) }))
    }

    pub(crate) fn key(&self, base_url: &str, credentials: Option<&Credentials>) -> BackoffKey {
        BackoffKey(self.0.hasher.hash_one((base_url, credentials)))
    }

    /// Returns the key for one model of those with this key.
    pub(crate) fn key_of_model(&self, key: BackoffKey, model: &str) -> BackoffKey {
        BackoffKey(self.0.hasher.hash_one((key, model)))
    }

    /// Holds calls back until this time.
    pub(crate) fn hold(&self, key: BackoffKey, until: Instant) {
        let mut keys = self.keys();
        let state = keys.entry(key.0).or_default();
        state.held_until = state.held_until.max(Some(until));
        state.probed = Some(Instant::now());
    }

    /// Returns whether a call may be sent although calls are held back, which is then taken.
    pub(crate) fn take_probe(&self, key: BackoffKey) -> bool {
        let mut keys = self.keys();
        let Some(state) = keys.get_mut(&key.0) else { return true };
        let is_due = state.probed.is_some_and(|probed| probed.elapsed() >= PROBE_AFTER);
        if is_due {
            state.probed = Some(Instant::now());
        }
        is_due
    }

    /// Records the success of a call that was sent although calls were held back.
    pub(crate) fn probe_succeeded(&self, key: BackoffKey) {
        if let Some(state) = self.keys().get_mut(&key.0) {
            state.held_until = None;
        }
    }

    /// Holds calls back until this time, unless the call that waits for it is dropped first.
    pub(crate) fn hold_while_waiting(&self, key: BackoffKey, until: Instant) -> HoldId {
        let id = HoldId(self.0.holds.fetch_add(1, Ordering::Relaxed));
        self.keys().entry(key.0).or_default().waiting.push((id, until));
        id
    }

    /// Ends the hold of a dropped call. Other calls still wait for what the provider told them.
    pub(crate) fn release(&self, key: BackoffKey, hold: HoldId) {
        if let Some(state) = self.keys().get_mut(&key.0) {
            state.waiting.retain(|(id, _)| *id != hold);
        }
    }

    /// Returns the time until which calls are held back, if they are.
    pub(crate) fn until(&self, key: BackoffKey) -> Option<Instant> {
        let mut keys = self.keys();
        let state = keys.get_mut(&key.0)?;
        let now = Instant::now();
        state.held_until = state.held_until.filter(|until| *until > now);
        state.waiting.retain(|(_, until)| *until > now);
        let until = state.waiting.iter().map(|(_, until)| *until).chain(state.held_until).max();
        if until.is_none() && state.taken == 0 {
            keys.remove(&key.0);
        }
        until
    }

    /// Takes a retry from the budget. Returns `false` if none is left.
    pub(crate) fn take_retry(&self, key: BackoffKey) -> bool {
        let mut keys = self.keys();
        let taken = &mut keys.entry(key.0).or_default().taken;
        let left = *taken < self.0.retries;
        *taken += u32::from(left);
        left
    }

    /// Records the success of a call that took this many retries.
    pub(crate) fn succeeded(&self, key: BackoffKey, retries: u32) {
        if let Some(state) = self.keys().get_mut(&key.0) {
            state.taken = state.taken.saturating_sub(retries.max(1));
        }
    }

    fn keys(&self) -> MutexGuard<'_, HashMap<u64, KeyState>> {
        self.0.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SharedBackoff {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for SharedBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBackoff").field("keys", &self.keys().len()).finish_non_exhaustive()
    }
}
