//! A token without a login, which all calls request together.

use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared, WeakShared};

use super::authorized::Access;
use super::grant::{GrantSource, Issued};
use super::{LoginError, merged};
use crate::config::{HttpConfig, OAuthConfig};
use crate::http::Clients;
use crate::sync::lock;

/// The current token of a server. Calls that need another one at the same time share a request for it.
pub(crate) struct Grant {
    source: Arc<GrantSource>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    issued: Option<Issued>,
    pending: Option<Pending>,
    /// The number of requests made, and that of the request for the current token.
    requests: u64,
    issued_by: u64,
}

/// A request for a token. It is dropped once nobody waits for it.
struct Pending {
    request: WeakShared<TokenRequest>,
    scopes: Vec<String>,
}

type TokenRequest = BoxFuture<'static, Result<Access, Arc<LoginError>>>;

impl Grant {
    pub(super) fn new(server: &HttpConfig, config: &OAuthConfig, http: Clients) -> Self {
        Self { source: Arc::new(GrantSource::new(server, config, http)), state: Arc::default() }
    }

    /// Returns the current token if it is still valid, otherwise a new one.
    pub(super) async fn current(&self) -> Result<Access, LoginError> {
        self.token(None, &[]).await
    }

    /// Returns a token in place of a refused one, which also covers these scopes.
    pub(super) async fn replaced(&self, refused: &str, scopes: &[String]) -> Result<Access, LoginError> {
        self.token(Some(refused), scopes).await
    }

    async fn token(&self, refused: Option<&str>, scopes: &[String]) -> Result<Access, LoginError> {
        let request = {
            let mut state = lock(&self.state);
            let is_usable = |issued: &&Issued| {
                issued.is_valid() && refused != Some(issued.access.token.as_str()) && covers(&issued.scopes, scopes)
            };
            if let Some(issued) = state.issued.as_ref().filter(is_usable) {
                return Ok(issued.access.clone());
            }
            match state.pending(scopes) {
                Some(request) => request,
                None => self.begin(&mut state, scopes),
            }
        };
        request
            .await
            .map_err(|error| Arc::try_unwrap(error).unwrap_or_else(|error| LoginError::Refused(error.to_string())))
    }

    /// Begins a request for a token that covers the scopes of the current one and these.
    fn begin(&self, state: &mut State, scopes: &[String]) -> Shared<TokenRequest> {
        // Those of a request that fails are not added: the issuer may refuse them.
        let wanted = merged(state.issued.as_ref().map(|issued| issued.scopes.clone()).unwrap_or_default(), scopes);
        state.requests += 1;
        let (number, source, shared, scopes) =
            (state.requests, self.source.clone(), self.state.clone(), wanted.clone());
        let request = async move {
            let issued = source.issue(wanted).await?;
            let access = issued.access.clone();
            let mut state = lock(&shared);
            // Of requests at the same time, the one begun last counts. A call that misses scopes then asks again.
            if state.issued_by < number {
                state.issued_by = number;
                state.issued = Some(issued);
            }
            Ok(access)
        };
        let request: Shared<TokenRequest> = request.boxed().shared();
        state.pending = request.downgrade().map(|request| Pending { request, scopes });
        request
    }
}

impl State {
    /// Returns the request that somebody waits for, if its token will cover these scopes.
    fn pending(&self, scopes: &[String]) -> Option<Shared<TokenRequest>> {
        let pending = self.pending.as_ref().filter(|pending| covers(&pending.scopes, scopes))?;
        pending.request.upgrade().filter(|request| request.peek().is_none())
    }
}

fn covers(has: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|scope| has.contains(scope))
}
