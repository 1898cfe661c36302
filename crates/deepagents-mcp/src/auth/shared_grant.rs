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
    /// The last request. Requests are made one after the other.
    pending: Option<Pending>,
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
            match state.pending_for(scopes) {
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
        let (source, shared, scopes) = (self.source.clone(), self.state.clone(), scopes.to_vec());
        let covered = state.with_current_scopes(&scopes);
        // Waits for the request before, whose token would be lost if this one did not cover its scopes too.
        let before = state.pending();
        let request = async move {
            if let Some(before) = before {
                // Scopes of a request that fails are not added: the issuer may refuse them.
                let _ = before.await;
            }
            let wanted = lock(&shared).with_current_scopes(&scopes);
            let issued = source.issue(wanted).await?;
            let access = issued.access.clone();
            lock(&shared).issued = Some(issued);
            Ok(access)
        };
        let request: Shared<TokenRequest> = request.boxed().shared();
        state.pending = request.downgrade().map(|request| Pending { request, scopes: covered });
        request
    }
}

impl State {
    /// Returns the last request, if somebody waits for it.
    fn pending(&self) -> Option<Shared<TokenRequest>> {
        let request = self.pending.as_ref()?.request.upgrade();
        request.filter(|request| request.peek().is_none())
    }

    /// Returns the last request, if somebody waits for it and its token will cover these scopes.
    fn pending_for(&self, scopes: &[String]) -> Option<Shared<TokenRequest>> {
        self.pending().filter(|_| self.pending.as_ref().is_some_and(|pending| covers(&pending.scopes, scopes)))
    }

    /// Adds scopes to those of the current token.
    fn with_current_scopes(&self, scopes: &[String]) -> Vec<String> {
        merged(self.issued.as_ref().map(|issued| issued.scopes.clone()).unwrap_or_default(), scopes)
    }
}

fn covers(has: &[String], wanted: &[String]) -> bool {
    wanted.iter().all(|scope| has.contains(scope))
}
