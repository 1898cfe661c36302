//! When a failed call is made again, and how calls with one key wait together.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
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

/// Makes calls that share a key wait together.
///
/// When a provider tells one call to come back later, the others with the same address and key wait too, each a
/// little differently, instead of running into the same refusal. Clones share what is held back.
#[derive(Clone, Default)]
pub struct SharedBackoff(Arc<Shared>);

#[derive(Default)]
struct Shared {
    hasher: RandomState,
    held_until: Mutex<HashMap<u64, Instant>>,
}

/// Whose calls wait together. Only a keyed hash is kept, so that no secret is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BackoffKey(u64);

impl SharedBackoff {
    /// Nothing is held back yet.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn key(&self, base_url: &str, credentials: Option<&Credentials>) -> BackoffKey {
        BackoffKey(self.0.hasher.hash_one((base_url, credentials)))
    }

    /// Holds calls back until this moment.
    pub(crate) fn hold(&self, key: BackoffKey, until: Instant) {
        let mut held = self.held();
        let entry = held.entry(key.0).or_insert(until);
        *entry = until.max(*entry);
    }

    /// Until when calls are held back, if they are.
    pub(crate) fn until(&self, key: BackoffKey) -> Option<Instant> {
        let mut held = self.held();
        let until = *held.get(&key.0)?;
        if until <= Instant::now() {
            held.remove(&key.0);
            return None;
        }
        Some(until)
    }

    fn held(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.0.held_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SharedBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedBackoff").field("held", &self.held().len()).finish_non_exhaustive()
    }
}
