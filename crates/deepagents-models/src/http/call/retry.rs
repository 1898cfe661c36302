//! Decides whether and when a call is retried.

use std::time::Duration;

use deepagents_core::model::{ErrorInfo, ModelError};
use tokio::time::Instant;

use super::{Call, State};

/// Calls that waited for a shared backoff start spread over this time.
const SPREAD: Duration = Duration::from_millis(250);

impl Call {
    /// Returns the delay before the next attempt; `None` if there is none.
    pub(super) fn pause_after(&mut self, error: &ModelError) -> Option<Duration> {
        self.failures += 1;
        if self.renews(error) {
            return Some(Duration::ZERO);
        }
        let asked = error.info().retry_after;
        let after = asked.unwrap_or_else(|| self.endpoint.retry.pause(self.failures));
        let next = Instant::now().checked_add(after);
        let pause = next.filter(|next| self.takes_retry(error, *next)).map(|_| after);
        // Other calls of the model would hit its limit too, even if the server does not say for how long.
        let held = match error {
            ModelError::RateLimited(_) => Some(self.endpoint.rate_key),
            ModelError::Overloaded(_) => asked.map(|_| self.endpoint.backoff_key),
            _ => None,
        };
        let backoff = &self.endpoint.backoff;
        match next.zip(held) {
            Some((until, key)) if pause.is_some() => {
                self.hold.take().into_iter().for_each(|(key, hold)| backoff.release(key, hold));
                self.hold = Some((key, backoff.hold_while_waiting(key, until)));
            }
            Some((until, key)) => backoff.hold(key, until),
            None => {}
        }
        pause
    }

    /// Returns how long the call must wait because another one was told to, and an error that reports it: a wait of
    /// minutes must not look like a slow model.
    pub(super) fn shared_wait(&mut self) -> Result<Option<(ModelError, Duration)>, ModelError> {
        let endpoint = &self.endpoint;
        let held = |key| Some((endpoint.backoff.until(key)?, key));
        let latest =
            held(endpoint.rate_key).into_iter().chain(held(endpoint.backoff_key)).max_by_key(|(until, _)| *until);
        let Some((opens, key)) = latest else { return Ok(None) };
        let now = Instant::now();
        let error = ModelError::RateLimited(ErrorInfo {
            message: "another call with this key was told to wait".to_owned(),
            retry_after: Some(opens.duration_since(now)),
            ..ErrorInfo::default()
        });
        if opens.duration_since(self.sent) <= endpoint.retry.budget {
            return Ok(Some((error, opens.duration_since(now) + SPREAD.mul_f64(fastrand::f64()))));
        }
        if !endpoint.backoff.take_probe(key) {
            return Err(error);
        }
        self.probes = Some(key);
        Ok(None)
    }

    /// Returns whether there is another attempt at this time, which is then taken from the key's budget.
    fn takes_retry(&mut self, error: &ModelError, next: Instant) -> bool {
        let (endpoint, policy) = (&self.endpoint, &self.endpoint.retry);
        let waited = next.duration_since(self.sent);
        let may_retry = self.may_help.unwrap_or(error.is_retryable())
            && self.failures < policy.max_attempts
            && waited <= policy.budget
            && self.timeout.is_none_or(|limit| next.duration_since(self.began) < limit)
            && endpoint.backoff.take_retry(endpoint.backoff_key);
        self.retries += u32::from(may_retry);
        may_retry
    }

    /// Returns whether a rejected credential was discarded so that another one is obtained.
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
    /// Releases the hold of a call dropped while it waits, so that the next request goes out immediately. A call that
    /// ended by itself did hit a limit, so its hold stays.
    fn drop(&mut self) {
        if let (State::Backoff(_), Some((key, hold))) = (&self.state, self.hold) {
            self.endpoint.backoff.release(key, hold);
        }
    }
}
