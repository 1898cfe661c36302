//! When a failed call is made again, and how calls with one key wait together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::credentials::Credentials;

/// When and how often a failed call is made again: exponential backoff with full jitter.
///
/// What the provider asks for (`Retry-After`) takes the place of the computed pause. Errors that would come again
/// are never retried.
///
/// ```
/// use deepagents_models::RetryPolicy;
/// let never = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
/// assert_eq!(never.ceiling(4), std::time::Duration::from_secs(4));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Calls in all, the first included; 1 means no retry.
    pub max_attempts: u32,
    /// The longest pause after the first failure; it doubles with each further one.
    pub base: Duration,
    /// The longest pause at all, unless the provider asks for a longer one.
    pub max_delay: Duration,
    /// No attempt begins later than this after the first.
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
    /// The longest pause after this many failures.
    pub fn ceiling(&self, failures: u32) -> Duration {
        let doublings = failures.saturating_sub(1).min(31);
        self.base.saturating_mul(1_u32 << doublings).min(self.max_delay)
    }

    /// A pause after this many failures: anything between nothing and the ceiling.
    pub fn pause(&self, failures: u32) -> Duration {
        self.ceiling(failures).mul_f64(fastrand::f64())
    }
}

/// Retries that calls with one key have in common where nothing else is said.
const RETRIES: u32 = 100;

/// Makes calls that share a key wait together, and bounds how often they are retried together.
///
/// When a provider tells one call to come back later, the others with the same address and key wait too, each a
/// little differently, instead of running into the same refusal. Once that call is given up by whoever made it, nothing holds
/// them back any more: what a person says next goes out at once. A provider that fails every call is not asked many times
/// by each of them: retries come out of a budget that the calls with a key have in common. A retry takes one from it; a call
/// that succeeds gives back what it took, or one if it took none. While nothing is left, calls are made once. Clones share
/// all of this.
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
    /// Counts those that hold others back.
    holds: AtomicU64,
}

/// What is known of a key; a key of which nothing is known is left out.
#[derive(Default)]
struct KeyState {
    held_until: Option<Instant>,
    /// The calls that wait themselves for what they hold the others back for, each until when.
    waiting: Vec<(HoldId, Instant)>,
    /// How many retries are taken out of the budget.
    taken: u32,
}

/// A call that holds others back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldId(u64);

/// Whose calls wait together. Only a keyed hash is kept, so that no secret is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackoffKey(u64);

impl SharedBackoff {
    /// Nothing is held back yet, and 100 retries are left.
    pub fn new() -> Self {
        Self::with_retry_budget(RETRIES)
    }

    /// As [`new`](Self::new), with another number of retries that the calls with a key have in common.
    pub fn with_retry_budget(retries: u32) -> Self {
        Self(Arc::new(Shared { hasher: RandomState::new(), retries, keys: Mutex::default(), holds: AtomicU64::new(0) }))
    }

    pub(crate) fn key(&self, base_url: &str, credentials: Option<&Credentials>) -> BackoffKey {
        BackoffKey(self.0.hasher.hash_one((base_url, credentials)))
    }

    /// Holds calls back until this moment.
    pub(crate) fn hold(&self, key: BackoffKey, until: Instant) {
        let mut keys = self.keys();
        let held = &mut keys.entry(key.0).or_default().held_until;
        *held = (*held).max(Some(until));
    }

    /// Holds calls back until this moment, as long as the call that waits for it is not given up.
    pub(crate) fn hold_while_waiting(&self, key: BackoffKey, until: Instant) -> HoldId {
        let id = HoldId(self.0.holds.fetch_add(1, Ordering::Relaxed));
        self.keys().entry(key.0).or_default().waiting.push((id, until));
        id
    }

    /// The call that waited is given up by whoever made it: the others wait for what they were told themselves.
    pub(crate) fn release(&self, key: BackoffKey, hold: HoldId) {
        if let Some(state) = self.keys().get_mut(&key.0) {
            state.waiting.retain(|(id, _)| *id != hold);
        }
    }

    /// Until when calls are held back, if they are.
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

    /// Takes a retry out of the budget, if there is one left.
    pub(crate) fn take_retry(&self, key: BackoffKey) -> bool {
        let mut keys = self.keys();
        let taken = &mut keys.entry(key.0).or_default().taken;
        let left = *taken < self.0.retries;
        *taken += u32::from(left);
        left
    }

    /// A call that took so many retries succeeded.
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
