//! A cached credential that all users request together.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::{Instant, timeout};

use super::{Credential, CredentialError, DynSource};

/// How long before its expiry a credential is renewed, unless its lifetime is shorter than ten times that.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

/// How long the source is waited for. A person may have to type a password.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(120);

/// A credential from a source, and how long it is used.
#[derive(Clone, Debug)]
struct Held {
    credential: Credential,
    /// `None` if the source must be asked each time.
    until: Option<Instant>,
}

/// A request to the source, shared by all calls that wait for it.
#[derive(Clone)]
struct Issuing {
    issued: Shared<BoxFuture<'static, Result<Held, CredentialError>>>,
    began: Instant,
}

/// Requests a credential once for all calls.
pub(super) struct HeldCredential {
    source: Arc<dyn DynSource>,
    current: Mutex<Option<Issuing>>,
}

impl HeldCredential {
    pub(super) fn new(source: Arc<dyn DynSource>) -> Self {
        Self { source, current: Mutex::default() }
    }

    /// Returns the cached credential, or a new one.
    pub(super) async fn get(&self) -> Result<Credential, CredentialError> {
        let issuing = {
            let mut current = self.current();
            match current.as_ref().filter(|issuing| is_usable(issuing)) {
                Some(issuing) => issuing.clone(),
                None => current.insert(self.issue()).clone(),
            }
        };
        issuing.issued.await.map(|held| held.credential)
    }

    /// Discards a rejected credential. Returns `false` if it was not cached: asking the source again would yield no
    /// other.
    pub(super) fn forget(&self, refused: &Credential) -> bool {
        let mut current = self.current();
        let was_kept = match current.as_ref().and_then(|issuing| issuing.issued.peek()) {
            Some(Ok(held)) => held.until.is_some() && held.credential == *refused,
            _ => false,
        };
        if was_kept {
            *current = None;
        }
        was_kept
    }

    fn issue(&self) -> Issuing {
        let source = Arc::clone(&self.source);
        let asked = AssertUnwindSafe(async move { source.issue().await }).catch_unwind();
        let issued = async move {
            let unavailable = |why: &str| CredentialError::Unavailable(why.to_owned());
            let asked = timeout(SOURCE_TIMEOUT, asked).await.map_err(|_| unavailable("its source does not answer"))?;
            let issued = asked.map_err(|_| unavailable("its source panicked"))??;
            let until =
                issued.lifetime.and_then(|life| Instant::now().checked_add(life - RENEWAL_MARGIN.min(life / 10)));
            Ok(Held { credential: issued.credential, until })
        };
        Issuing { issued: issued.boxed().shared(), began: Instant::now() }
    }

    fn current(&self) -> MutexGuard<'_, Option<Issuing>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the request may still be answered or yielded a valid credential.
fn is_usable(issuing: &Issuing) -> bool {
    match issuing.issued.peek() {
        // The time of a request that nobody waits for any more ends unnoticed.
        None => issuing.began.elapsed() < SOURCE_TIMEOUT,
        Some(Ok(held)) => held.until.is_some_and(|until| until > Instant::now()),
        Some(Err(_)) => false,
    }
}
