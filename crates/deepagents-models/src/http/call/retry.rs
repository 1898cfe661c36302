//! Whether a call is tried again, and when.

use std::time::Duration;

use deepagents_core::model::{ErrorInfo, ModelError};
use tokio::time::Instant;

use super::{Call, State};
use crate::http::Endpoint;

/// Calls that waited for a shared backoff start within this time of each other.
const SPREAD: Duration = Duration::from_millis(250);

impl Call {
    /// How long to wait before the next attempt, or `None` when there is none.
    pub(super) fn pause_after(&mut self, error: &ModelError) -> Option<Duration> {
        self.failures += 1;
        let now = Instant::now();
        let policy = &self.endpoint.retry;
        let asked = error.info().retry_after;
        let after = asked.unwrap_or_else(|| policy.pause(self.failures));
        let next = now.checked_add(after);
        // A limit is that of the key, so other calls run into it too, also where the server does not say for how long.
        let holds = match error {
            ModelError::RateLimited(_) => true,
            ModelError::Overloaded(_) => asked.is_some(),
            _ => false,
        };
        let until = next.filter(|_| holds);
        if self.renews(error) {
            return Some(Duration::ZERO);
        }
        let pause = self.next_pause(error, after, next);
        let (backoff, key) = (&self.endpoint.backoff, self.endpoint.backoff_key);
        match until {
            Some(until) if pause.is_some() => {
                self.hold.take().into_iter().for_each(|hold| backoff.release(key, hold));
                self.hold = Some(backoff.hold_while_waiting(key, until));
            }
            Some(until) => backoff.hold(key, until),
            None => {}
        }
        pause
    }

    /// The pause, if there is another attempt.
    fn next_pause(&mut self, error: &ModelError, after: Duration, next: Option<Instant>) -> Option<Duration> {
        let (endpoint, policy) = (&self.endpoint, &self.endpoint.retry);
        if !self.may_help.unwrap_or(error.is_retryable()) || self.failures >= policy.max_attempts {
            return None;
        }
        let waited = next?.duration_since(self.began);
        let in_time = waited <= policy.budget && self.timeout.is_none_or(|limit| waited < limit);
        if !in_time || !endpoint.backoff.take_retry(endpoint.backoff_key) {
            return None;
        }
        self.retries += 1;
        Some(after)
    }

    /// Whether a credential that was refused is exchanged for another one.
    fn renews(&mut self, error: &ModelError) -> bool {
        if self.renewed || error.info().status != Some(401) {
            return false;
        }
        let credentials = self.endpoint.credentials.as_ref().zip(self.credential.as_ref());
        self.renewed = credentials.is_some_and(|(credentials, refused)| credentials.renew(refused));
        self.renewed
    }
}

impl Drop for Call {
    /// Who gives a call up that waits has what is asked next go out at once. A call that ended by itself is still a limit that
    /// was run into.
    fn drop(&mut self) {
        if let (State::Backoff(_), Some(hold)) = (&self.state, self.hold) {
            self.endpoint.backoff.release(self.endpoint.backoff_key, hold);
        }
    }
}

/// How long the call waits because another one with the same key was told to, and what is told of that: a wait of
/// minutes must not look like a model that is slow.
pub(super) fn held(endpoint: &Endpoint, began: Instant) -> Result<Option<(ModelError, Duration)>, ModelError> {
    let Some(opens) = endpoint.backoff.until(endpoint.backoff_key) else { return Ok(None) };
    let now = Instant::now();
    let error = ModelError::RateLimited(ErrorInfo {
        message: "another call with this key was told to wait".to_owned(),
        retry_after: Some(opens.duration_since(now)),
        ..ErrorInfo::default()
    });
    if opens.duration_since(began) > endpoint.retry.budget {
        return Err(error);
    }
    Ok(Some((error, opens.duration_since(now) + SPREAD.mul_f64(fastrand::f64()))))
}
