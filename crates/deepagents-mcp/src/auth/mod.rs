//! Logins: OAuth 2.1 with PKCE, and tokens for one server each.
//!
//! What a server wants is read from its own metadata (RFC 9728, RFC 8414). A client registers itself, is described by a
//! document at an address, or is known beforehand; without a person it has a secret, a key or an assertion
//! ([`OAuthGrant`]). Tokens are asked for with the server's own name for itself as the resource (RFC 8707), are bound
//! to a key where server and issuer want it (RFC 9449), and are refreshed where that is possible. Those of logins are
//! kept in files of mode 0600, and not in a keyring of the system: agents run where no desktop has unlocked one.

mod authorized;
mod callback;
mod client;
mod discovery;
mod dpop;
mod grant;
mod jwt;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    OAuthClientConfig,
};
use tokio::time::timeout;

pub(crate) use authorized::Authorized;
use authorized::{Login, Tokens};
use callback::Callback;
use client::LoginClient;
use discovery::Issuer;
use dpop::Dpop;
use grant::Grant;
use jwt::KeyError;
use store::{LoginState, TokenFile};

use crate::config::{ClientProof, HttpConfig, OAuthConfig, OAuthGrant};
use crate::error::McpError;
use crate::http::{self, Requests};
use crate::options::McpOptions;
use crate::text;

/// How long a person may take.
const PERSON: Duration = Duration::from_secs(300);

/// Scopes that a server may ask for in one go.
const SCOPES: usize = 64;

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server, or whoever issues its tokens, cannot be reached or refuses.
    #[error("{0}")]
    Refused(String),
    /// The browser did not come back.
    #[error("nobody logged in within {} minutes; try again", PERSON.as_secs() / 60)]
    Expired,
    /// The address that a person would log in at is no page that a browser may be sent to.
    #[error("the server asks to log in at {0}, but a browser is only sent to https addresses or to this machine")]
    Page(String),
    /// Nobody but people registers clients with the issuer.
    #[error(
        "the token issuer does not register clients automatically; register one there, and give its id as \
         `oauth.clientId`"
    )]
    NoRegistration,
    /// The issuer, or the person there, has said no.
    #[error("the login was refused: {0}")]
    Declined(String),
    /// The address for the browser could not be opened, or the tokens not be kept.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// The file with a secret cannot be read.
    #[error("the secret in {path} cannot be used: {reason}")]
    Secret {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
    /// A private key cannot be used.
    #[error("{0}")]
    Key(String),
}

impl From<KeyError> for LoginError {
    fn from(error: KeyError) -> Self {
        Self::Key(error.to_string())
    }
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Refused(text::line(&error.to_string(), 400))
    }
}

/// Logs in to a server: `show` is given the address that a person opens in a browser. The tokens go to a file in the
/// folder, and every connection to the server uses them. A login covers what the one before did, where the server has wanted
/// more since. Where no person is needed a token is asked for and thrown away, which shows that there is one to be had.
///
/// # Errors
/// When the login does not come about; nothing is kept then.
pub async fn login(
    server: &str,
    config: &HttpConfig,
    token_dir: &Path,
    show: impl FnOnce(&str) + Send,
) -> Result<(), LoginError> {
    let http = http::client().map_err(LoginError::Refused)?;
    let oauth = config.oauth.clone().unwrap_or_default();
    if oauth.grant != OAuthGrant::AuthorizationCode {
        return Grant::new(&config.url, &oauth, http).current().await.map(drop);
    }
    let client = LoginClient::new(http);
    let challenge = client.challenge(&config.url).await;
    let store = TokenFile::new(token_dir, server, &config.url);
    let before = store.state().await;
    let Issuer { mut manager, metadata, resource } =
        discovery::issuer(&config.url, &client, challenge.as_deref()).await?;
    manager.set_credential_store(store.clone());
    if !takes_client(&oauth, &metadata) {
        return Err(LoginError::NoRegistration);
    }
    let key = match dpop::is_wanted(challenge.as_deref(), &metadata) {
        true => Some(Dpop::generate()?),
        false => None,
    };
    let kept = key.map(|(dpop, kept)| {
        client.bind(Arc::new(dpop));
        kept
    });
    let callback = Callback::open(oauth.callback_port).await?;
    let scopes = scopes(&manager, &oauth, &store, &before).await;
    let request = request(&oauth, &callback.url).await?.with_scopes(scopes);
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
    let page = session.get_authorization_url();
    if !http::is_safe(page) {
        return Err(LoginError::Page(text::line(page, 200)));
    }
    show(page);
    // What comes back has to name what the page was opened with: another page may send a browser here too.
    let state = form_value(page.split_once('?').map_or("", |(_, query)| query), "state").unwrap_or_default();
    let address = timeout(PERSON, callback.wait(&state)).await.map_err(|_| LoginError::Expired)??;
    let tokens = session.handle_callback_url(&address).await?;
    // An issuer may give a token that is bound to nothing, whatever it was asked.
    let dpop_key = kept.filter(|_| store::is_bound(&tokens));
    let state = LoginState { metadata: Some(metadata), resource: Some(resource), dpop_key, wanted_scopes: Vec::new() };
    store.keep_state(&state).await?;
    Ok(())
}

/// A value of a query or a form.
fn form_value(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// What a login asks for: what the file says, or what the server wants; and what the login before covered, where the server
/// has refused something since that it did not.
async fn scopes(
    manager: &AuthorizationManager,
    oauth: &OAuthConfig,
    store: &TokenFile,
    before: &LoginState,
) -> Vec<String> {
    let scopes = match oauth.scopes.as_slice() {
        [] => manager.select_initial_scopes(&[]).await,
        scopes => scopes.to_vec(),
    };
    if before.wanted_scopes.is_empty() {
        return scopes;
    }
    merged(merged(scopes, &store.granted_scopes().await), &before.wanted_scopes)
}

/// Whether the issuer can know who logs in.
fn takes_client(oauth: &OAuthConfig, metadata: &AuthorizationMetadata) -> bool {
    let takes_documents = || {
        let field = metadata.additional_fields.get("client_id_metadata_document_supported");
        oauth.client_metadata_url.is_some() && field.is_some_and(|takes| takes.as_bool() == Some(true))
    };
    oauth.client_id.is_some() || metadata.registration_endpoint.is_some() || takes_documents()
}

/// Who logs in, and where the browser comes back to.
async fn request(oauth: &OAuthConfig, callback: &str) -> Result<AuthorizationRequest, LoginError> {
    let mut request = AuthorizationRequest::new(callback).with_client_name("deepagents").with_initial_scope_selection();
    if let Some(url) = &oauth.client_metadata_url {
        request = request.with_client_metadata_url(url);
    }
    if let Some(id) = &oauth.client_id {
        request = request.with_preregistered_client(id);
    }
    match client_secret(oauth).await? {
        Some(secret) => Ok(request.with_client_secret(secret)),
        None => Ok(request),
    }
}

/// The secret of a client that sends a person to a browser. A key is for the other grants.
async fn client_secret(oauth: &OAuthConfig) -> Result<Option<String>, LoginError> {
    match &oauth.client_proof {
        Some(ClientProof::Secret(source)) => grant::secret(source).await.map(Some),
        _ => Ok(None),
    }
}

/// Scopes in the words of a server, as far as they are any.
fn scopes_of(text: &str) -> Vec<String> {
    let is_scope = |word: &&str| word.chars().all(|c| c.is_ascii_graphic() && !"\"\\".contains(c));
    text.split_whitespace().filter(is_scope).take(SCOPES).map(str::to_owned).collect()
}

/// Scopes, and those of the others that are not among them.
fn merged(mut scopes: Vec<String>, more: &[String]) -> Vec<String> {
    for scope in more {
        if !scopes.contains(scope) {
            scopes.push(scope.clone());
        }
    }
    scopes
}

/// Forgets the tokens of a server; says whether there were any.
///
/// # Errors
/// When the file cannot be removed.
pub async fn logout(server: &str, config: &HttpConfig, token_dir: &Path) -> std::io::Result<bool> {
    TokenFile::new(token_dir, server, &config.url).remove().await
}

/// Whether there are tokens for a server.
pub async fn is_logged_in(server: &str, config: &HttpConfig, token_dir: &Path) -> bool {
    TokenFile::new(token_dir, server, &config.url).exists().await
}

/// A client that sends the tokens of a server, where there are any.
pub(crate) async fn authorized(
    server: &str,
    config: &HttpConfig,
    options: &McpOptions,
    requests: Requests,
) -> Result<Option<Authorized>, McpError> {
    let failed = |error: LoginError| McpError::Connect {
        server: server.to_owned(),
        reason: format!("its tokens cannot be used: {}", text::line(&error.to_string(), 300)),
        stderr: String::new(),
    };
    let oauth = config.oauth.clone().unwrap_or_default();
    if oauth.grant != OAuthGrant::AuthorizationCode {
        let tokens = Tokens::Grant(Grant::new(&config.url, &oauth, requests.http().clone()));
        return Ok(Some(Authorized::new(requests, tokens)));
    }
    let Some(folder) = &options.token_dir else { return Ok(None) };
    let store = TokenFile::new(folder, server, &config.url);
    if !store.exists().await {
        return Ok(None);
    }
    let login = restored(&config.url, &oauth, store, requests.http().clone()).await.map_err(failed)?;
    Ok(login.map(|login| Authorized::new(requests, Tokens::Login(login))))
}

/// A login that was made before.
async fn restored(
    url: &str,
    oauth: &OAuthConfig,
    store: TokenFile,
    http: reqwest::Client,
) -> Result<Option<Login>, LoginError> {
    let state = store.state().await;
    let client = LoginClient::new(http).asking_for(state.resource);
    let dpop = state.dpop_key.as_deref().map(Dpop::restore).transpose()?.map(Arc::new);
    if let Some(dpop) = &dpop {
        client.bind(dpop.clone());
    }
    let mut manager = AuthorizationManager::new_with_oauth_http_client(client::resource(url), Arc::new(client)).await?;
    if let Some(metadata) = state.metadata {
        manager.set_metadata(metadata);
    }
    manager.set_credential_store(store.clone());
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    if let (Some(id), Some(secret)) = (&oauth.client_id, client_secret(oauth).await?) {
        // Refreshing needs the secret too; where a browser was sent does not matter any more.
        manager.configure_client(OAuthClientConfig::new(id, url).with_client_secret(secret))?;
    }
    Ok(Some(Login { manager, store, dpop }))
}
