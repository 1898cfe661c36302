//! Limits of callers, and the request rate limiter.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Limits;

/// The limits of callers whose identity does not set them.
#[derive(Debug, Default)]
pub(crate) struct LimitTable {
    pub(crate) everybody: Limits,
    pub(crate) by_id: HashMap<String, Limits>,
}

impl LimitTable {
    /// Returns the limits of a caller.
    pub(crate) fn of(&self, id: &str) -> Limits {
        self.by_id.get(id).cloned().unwrap_or_default().or(&self.everybody)
    }
}

/// Maximum number of callers to track. Beyond it, callers with a full allowance are dropped.
const MAX_CALLERS: usize = 10_000;

/// A token bucket for each caller.
#[derive(Debug, Default)]
pub(super) struct RateLimiter(Mutex<HashMap<String, Allowance>>);

#[derive(Debug)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl RateLimiter {
    /// Takes one request from the bucket. If it is empty, returns how long to wait.
    pub(super) fn take(&self, id: &str, per_minute: u32, now: Instant) -> Result<(), Duration> {
        let full = f64::from(per_minute.max(1));
        let per_second = full / 60.0;
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MAX_CALLERS && !all.contains_key(id) {
            all.retain(|_, one| now.saturating_duration_since(one.at) < Duration::from_secs(60));
        }
        let one = all.entry(id.to_owned()).or_insert(Allowance { left: full, at: now });
        let filled = now.saturating_duration_since(one.at).as_secs_f64() * per_second;
        (one.left, one.at) = ((one.left + filled).min(full), now);
        if one.left >= 1.0 {
            one.left -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64((1.0 - one.left) / per_second))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allowance_refills_evenly_and_is_separate_for_each_caller() {
        let (limiter, begin) = (RateLimiter::default(), Instant::now());
        for _ in 0..60 {
            assert!(limiter.take("ada", 60, begin).is_ok());
        }
        assert!(limiter.take("ada", 60, begin).is_err());
        assert!(limiter.take("bob", 60, begin).is_ok());
        assert!(limiter.take("ada", 60, begin + Duration::from_secs(1)).is_ok());
        assert!(limiter.take("ada", 60, begin + Duration::from_secs(1)).is_err());
    }
}
