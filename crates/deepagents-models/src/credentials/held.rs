//! A cached credential that all users request together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::{Credential, CredentialError, DynSource};

/// How long before its expiry a credential is renewed, unless its lifetime is shorter than ten times that.
const RENEWAL_MARGIN: Duration = Duration::from_secs(60);

/// A credential from a source, and how long it is used.
#[derive(Clone, Debug)]
struct Held {
    credential: Credential,
    /// `None` if the source must be asked each time.
    until: Option<Instant>,
}

/// A request to the source, shared by all calls that wait for it.
type Issuing = Shared<BoxFuture<'static, Result<Held, CredentialError>>>;

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
        issuing.await.map(|held| held.credential)
    }

    /// Discards a rejected credential. Returns `false` if it was not cached: asking the source again would yield no
    /// other.
    pub(super) fn forget(&self, refused: &Credential) -> bool {
        let mut current = self.current();
        let was_kept = match current.as_ref().and_then(Shared::peek) {
            Some(Ok(held)) => held.until.is_some() && held.credential == *refused,
            _ => false,
        };
        if was_kept {
            *current = None;
        }
        was_kept
    }

    fn issue(&self) -> Issuing {
        let asked = Arc::clone(&self.source).issue();
        let issued = async move {
            let issued = asked.await?;
            let until =
                issued.lifetime.and_then(|life| Instant::now().checked_add(life - RENEWAL_MARGIN.min(life / 10)));
            Ok(Held { credential: issued.credential, until })
        };
        issued.boxed().shared()
    }

    fn current(&self) -> MutexGuard<'_, Option<Issuing>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether the request is still pending or yielded a valid credential.
fn is_usable(issuing: &Issuing) -> bool {
    match issuing.peek() {
        None => true,
        Some(Ok(held)) => held.until.is_some_and(|until| until > Instant::now()),
        Some(Err(_)) => false,
    }
}
