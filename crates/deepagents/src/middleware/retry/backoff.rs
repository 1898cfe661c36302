//! The number of retries and the delays between them.

use std::time::Duration;

/// The number of retries and the delays between them: `initial` before the first retry, multiplied by `factor` for each
/// further one, up to `max`.
///
/// ```
/// use std::time::Duration;
/// use deepagents::middleware::retry::Backoff;
/// let patient = Backoff { retries: 5, initial: Duration::from_millis(200), ..Backoff::default() };
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    /// Maximum number of retries; 2 by default.
    pub retries: u32,
    /// The first delay; one second by default.
    pub initial: Duration,
    /// The factor by which each delay grows; 2 by default. With 0, all delays are the same.
    pub factor: f64,
    /// The maximum delay; one minute by default. A delay that the provider asks for is respected; if it is longer than
    /// this, the call is not retried.
    pub max: Duration,
    /// Whether delays vary, so that many callers do not retry at the same time; `true` by default. They are up to a
    /// quarter shorter, or up to a quarter longer than what the other side asks for.
    pub jitter: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        let (initial, max) = (Duration::from_secs(1), Duration::from_secs(60));
        Self { retries: 2, initial, factor: 2.0, max, jitter: true }
    }
}

/// An error for an invalid factor.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("waits cannot be multiplied by {0}; give 0 for constant waits, or a number of at least 1")]
pub struct BackoffError(f64);

impl Backoff {
    pub(super) fn check(self) -> Result<Self, BackoffError> {
        let sensible = self.factor.is_finite() && (self.factor == 0.0 || self.factor >= 1.0);
        if sensible { Ok(self) } else { Err(BackoffError(self.factor)) }
    }

    /// Returns the delay after this many attempts, or `None` if the call is not retried. `asked` is the delay that the
    /// other side asks for.
    pub(super) fn wait(&self, attempts: u32, asked: Option<Duration>) -> Option<Duration> {
        if attempts > self.retries || asked.is_some_and(|asked| asked > self.max) {
            return None;
        }
        let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        let factor = if self.factor == 0.0 { 1.0 } else { self.factor.powi(exponent) };
        let seconds = (self.initial.as_secs_f64() * factor).min(self.max.as_secs_f64());
        let quarter = if self.jitter { fastrand::f64() / 4.0 } else { 0.0 };
        let wait = Duration::try_from_secs_f64(seconds * (1.0 - quarter)).unwrap_or(self.max).min(self.max);
        // What is asked for is the same for all callers, and must not be undercut.
        let asked = asked.map(|asked| asked.saturating_add(asked.mul_f64(quarter)));
        Some(wait.max(asked.unwrap_or_default()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(backoff: Backoff) -> Vec<Option<u64>> {
        (1..=5).map(|attempts| Some(backoff.wait(attempts, None)?.as_secs())).collect()
    }

    #[test]
    fn retry_delays_grow_by_the_factor_up_to_the_maximum() {
        let backoff = Backoff { retries: 4, jitter: false, max: Duration::from_secs(5), ..Backoff::default() };
        assert_eq!(waits(backoff), [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(waits(Backoff { factor: 0.0, ..backoff }), [Some(1), Some(1), Some(1), Some(1), None]);
        assert_eq!(waits(Backoff { retries: 0, ..backoff }), [None; 5]);
    }

    #[test]
    fn jitter_is_at_most_a_quarter_and_never_exceeds_the_maximum_delay() {
        let backoff = Backoff { initial: Duration::from_secs(60), ..Backoff::default() };
        for _ in 0..200 {
            let wait = backoff.wait(1, None).unwrap();
            assert!((Duration::from_secs(45)..=Duration::from_secs(60)).contains(&wait), "{wait:?}");
        }
    }

    #[test]
    fn callers_spread_out_at_the_maximum_and_after_a_delay_that_they_were_asked_for() {
        let backoff = Backoff { initial: Duration::from_secs(60), ..Backoff::default() };
        let distinct = |waits: Vec<Duration>| waits.into_iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(distinct((0..200).filter_map(|_| backoff.wait(1, None)).collect()) > 150);
        let asked: Vec<_> =
            (0..200).filter_map(|_| Backoff::default().wait(1, Some(Duration::from_secs(30)))).collect();
        assert!(asked.iter().all(|wait| (Duration::from_secs(30)..=Duration::from_millis(37_500)).contains(wait)));
        assert!(distinct(asked) > 150);
    }

    #[test]
    fn a_requested_delay_is_honoured_unless_it_is_too_long() {
        let backoff = Backoff { jitter: false, ..Backoff::default() };
        assert_eq!(backoff.wait(1, Some(Duration::from_secs(30))), Some(Duration::from_secs(30)));
        assert_eq!(backoff.wait(1, Some(Duration::from_millis(5))), Some(Duration::from_secs(1)));
        assert_eq!(backoff.wait(1, Some(Duration::from_secs(61))), None);
    }

    #[test]
    fn an_invalid_backoff_factor_is_rejected() {
        for factor in [-1.0, 0.5, f64::NAN, f64::INFINITY] {
            assert!(Backoff { factor, ..Backoff::default() }.check().is_err());
        }
        assert!(Backoff { factor: 0.0, ..Backoff::default() }.check().is_ok());
    }
}
