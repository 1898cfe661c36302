//! Logins: OAuth 2.1 with PKCE, and a separate token per server.
//!
//! The requirements of a server come from its metadata (RFC 9728, RFC 8414). A client registers dynamically, is
//! described by a metadata document, or is registered beforehand. Without a person it uses a secret, a key or an
//! assertion ([`OAuthGrant`]).
//!
//! Tokens are requested for the server's own resource identifier (RFC 8707), bound to a key if server and issuer
//! support it (RFC 9449), and refreshed if possible. Tokens of logins are stored in files of mode 0600, not in the
//! system keyring, because agents also run where no desktop session has unlocked it.

mod authorized;
mod callback;
mod checks;
mod client;
mod discovery;
mod dpop;
mod error;
mod grant;
mod jwt;
mod shared_grant;
mod store;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, AuthorizationRequest, AuthorizationSession,
    CredentialStore, InMemoryCredentialStore, OAuthClientConfig,
};
use tokio::time::timeout;

use authorized::Login;
pub(crate) use authorized::{Access, Tokens};
use callback::Callback;
use client::LoginClient;
use discovery::Issuer;
use dpop::Dpop;
pub use error::LoginError;
use shared_grant::Grant;
use store::{LoginState, TokenFile};

use crate::config::{ClientProof, HttpConfig, OAuthConfig, OAuthGrant};
use crate::error::McpError;
use crate::http::{self, Clients};
use crate::servers::Shared;
use crate::text;

/// Time limit for a person to log in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum number of scopes that a server may request at once.
const MAX_SCOPES: usize = 64;

/// Logs in to a server. `show` gets the URL that a person opens in a browser. The tokens are stored in a file in
/// `token_dir`, and every connection to the server uses them.
///
/// If the server has asked for more scopes since the previous login, the new login covers the old scopes too. For a
/// grant that needs no person, a token is requested and discarded, to check that the grant works.
///
/// # Errors
/// Returns an error if the login fails. No tokens are stored then, unless only their metadata could not be stored.
pub async fn login(
    server: &str,
    config: &HttpConfig,
    token_dir: &Path,
    show: impl FnOnce(&str) + Send,
) -> Result<(), LoginError> {
    let http = Clients::default();
    let oauth = config.oauth.clone().unwrap_or_default();
    if oauth.grant != OAuthGrant::AuthorizationCode {
        return Grant::new(config, &oauth, http).current().await.map(drop);
    }
    let client = LoginClient::new(http, config)?;
    let challenge = client.challenge().await;
    let store = TokenFile::new(token_dir, server, &config.url);
    let before = store.state().await;
    let Issuer { mut manager, metadata, is_published, resource } =
        discovery::issuer(&config.url, &oauth, &client, challenge.as_deref()).await?;
    checks::check_pkce(&oauth, &metadata, is_published)?;
    let credentials = InMemoryCredentialStore::new();
    manager.set_credential_store(credentials.clone());
    if !takes_client(&oauth, &metadata) {
        return Err(LoginError::NoRegistration);
    }
    let mut dpop_key = None;
    if dpop::is_wanted(challenge.as_deref(), &metadata) {
        let (dpop, serialised) = Dpop::generate()?;
        client.bind(Arc::new(dpop));
        dpop_key = Some(serialised);
    }
    let callback = Callback::open(oauth.callback_port).await?;
    let scopes = scopes(&manager, &oauth, &store, &before).await;
    let request = request(&oauth, &callback.url).await?.with_scopes(scopes.clone());
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
    let page = session.get_authorization_url();
    if !http::is_safe(page) {
        return Err(LoginError::Page(text::line(page, 200)));
    }
    show(page);
    // The response must carry the state of this login: another page may redirect a browser here too.
    let state = form_value(page.split_once('?').map_or("", |(_, query)| query), "state").unwrap_or_default();
    let redirect = timeout(LOGIN_TIMEOUT, callback.wait(&state)).await.map_err(|_| LoginError::Expired)??;
    let finish = async {
        let tokens = session.handle_callback_url(&redirect.url).await?;
        // An issuer may issue an unbound token even if a bound one was requested.
        let dpop_key = dpop_key.filter(|_| store::is_bound(&tokens));
        let (metadata, resource) = (Some(metadata), Some(resource));
        let state = LoginState { metadata, resource, dpop_key, wanted_scopes: Vec::new() };
        let credentials = credentials.load().await?.ok_or(AuthError::AuthorizationRequired)?;
        store.keep_login(&credentials, state, &scopes).await?;
        Ok(())
    };
    let outcome = finish.await;
    redirect.show(&outcome).await;
    outcome
}

/// Returns a value of a query or form.
fn form_value(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

/// Returns the scopes to request: the configured ones, or those that the server asks for. If the server has refused a
/// request for lack of scopes since the previous login, the granted and the missing scopes are added.
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

/// Whether the issuer supports a way to identify the client.
fn takes_client(oauth: &OAuthConfig, metadata: &AuthorizationMetadata) -> bool {
    let takes_documents = || {
        let field = metadata.additional_fields.get("client_id_metadata_document_supported");
        oauth.client_metadata_url.is_some() && field.is_some_and(|takes| takes.as_bool() == Some(true))
    };
    oauth.client_id.is_some() || metadata.registration_endpoint.is_some() || takes_documents()
}

/// Builds the authorization request.
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

/// Returns the client secret of a browser login. Private keys are for the other grants.
async fn client_secret(oauth: &OAuthConfig) -> Result<Option<String>, LoginError> {
    match &oauth.client_proof {
        Some(ClientProof::Secret(source)) => grant::secret(source).await.map(Some),
        _ => Ok(None),
    }
}

/// Parses the scopes that a server asks for. Invalid ones are skipped.
fn scopes_of(text: &str) -> Vec<String> {
    let is_scope = |word: &&str| word.chars().all(|c| c.is_ascii_graphic() && !"\"\\".contains(c));
    text.split_whitespace().filter(is_scope).take(MAX_SCOPES).map(str::to_owned).collect()
}

/// Appends the texts that are not in the list yet.
fn merged(mut texts: Vec<String>, more: &[String]) -> Vec<String> {
    for text in more {
        if !texts.contains(text) {
            texts.push(text.clone());
        }
    }
    texts
}

/// Deletes the tokens of a server. Returns whether there were any.
///
/// # Errors
/// Returns an error if the file cannot be removed.
pub async fn logout(server: &str, config: &HttpConfig, token_dir: &Path) -> std::io::Result<bool> {
    TokenFile::new(token_dir, server, &config.url).remove_locked().await
}

/// Whether there are tokens for a server.
pub async fn is_logged_in(server: &str, config: &HttpConfig, token_dir: &Path) -> bool {
    TokenFile::new(token_dir, server, &config.url).exists().await
}

/// Returns the source of a server's tokens, if there is one.
pub(crate) async fn tokens(server: &str, config: &HttpConfig, shared: &Shared) -> Result<Option<Tokens>, McpError> {
    let failed = |error: LoginError| McpError::Connect {
        server: server.to_owned(),
        reason: format!("its tokens cannot be used: {}", text::line(&error.to_string(), 300)),
        stderr: String::new(),
    };
    let http = shared.http.clone();
    let oauth = config.oauth.clone().unwrap_or_default();
    if oauth.grant != OAuthGrant::AuthorizationCode {
        return Ok(Some(Tokens::Grant(Grant::new(config, &oauth, http))));
    }
    let Some(folder) = &shared.options.token_dir else { return Ok(None) };
    let store = TokenFile::new(folder, server, &config.url);
    if !store.exists().await {
        return Ok(None);
    }
    let login = restored(config, &oauth, store, http).await.map_err(failed)?;
    Ok(login.map(Tokens::Login))
}

/// Restores a login from its files. Returns `None` if there is none with the issuer to use.
async fn restored(
    config: &HttpConfig,
    oauth: &OAuthConfig,
    store: TokenFile,
    http: Clients,
) -> Result<Option<Login>, LoginError> {
    let state = store.state().await;
    let url = &config.url;
    let client = LoginClient::new(http, config)?.asking_for(state.resource);
    let dpop = state.dpop_key.as_deref().map(Dpop::restore).transpose()?.map(Arc::new);
    if let Some(dpop) = &dpop {
        client.bind(dpop.clone());
    }
    let metadata = match state.metadata {
        Some(metadata) => metadata,
        None => discovery::issuer(url, oauth, &client, client.challenge().await.as_deref()).await?.metadata,
    };
    if !checks::is_configured(oauth, &metadata) {
        return Ok(None);
    }
    checks::check_trust(oauth, url, &metadata)?;
    let mut manager = AuthorizationManager::new_with_oauth_http_client(client::resource(url), Arc::new(client)).await?;
    manager.set_metadata(metadata);
    manager.set_credential_store(store.clone());
    if !manager.initialize_from_store().await? {
        return Ok(None);
    }
    if let (Some(id), Some(secret)) = (&oauth.client_id, client_secret(oauth).await?) {
        // Refreshing requires the secret too; the redirect URI no longer matters.
        manager.configure_client(OAuthClientConfig::new(id, url).with_client_secret(secret))?;
    }
    Ok(Some(Login { manager, store, dpop }))
}
