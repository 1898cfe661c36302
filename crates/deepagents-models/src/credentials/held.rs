//! A credential that is asked for once by all who need it, and kept while it is valid.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::time::Instant;

use super::{Credential, CredentialError, DynSource};

/// How long before its end a credential is renewed, unless its whole life is shorter than ten times that.
const MARGIN: Duration = Duration::from_secs(60);

/// What a source gave, and until when it is used.
#[derive(Clone, Debug)]
struct Held {
    credential: Credential,
    /// `None` where the source wants to be asked each time.
    until: Option<Instant>,
}

/// A request to the source, shared by all calls that wait for it.
type Issuing = Shared<BoxFuture<'static, Result<Held, CredentialError>>>;

/// Asks a source for all calls together.
pub(super) struct HeldCredential {
    source: Arc<dyn DynSource>,
    current: Mutex<Option<Issuing>>,
}

impl HeldCredential {
    pub(super) fn new(source: Arc<dyn DynSource>) -> Self {
        Self { source, current: Mutex::default() }
    }

    /// The credential that is held, or a new one.
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

    /// Forgets a credential that was refused. False where the source was asked for it a moment ago: it has no other.
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
            let until = issued.lifetime.and_then(|life| Instant::now().checked_add(life - MARGIN.min(life / 10)));
            Ok(Held { credential: issued.credential, until })
        };
        issued.boxed().shared()
    }

    fn current(&self) -> MutexGuard<'_, Option<Issuing>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is still under way, or gave a credential that is valid.
fn is_usable(issuing: &Issuing) -> bool {
    match issuing.peek() {
        None => true,
        Some(Ok(held)) => held.until.is_some_and(|until| until > Instant::now()),
        Some(Err(_)) => false,
    }
}
