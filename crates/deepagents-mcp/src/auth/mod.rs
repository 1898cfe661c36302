//! Logins: OAuth 2.1 with PKCE, a client that registers itself, and tokens for one server each.
//!
//! What a server wants is read from its own metadata (RFC 9728, RFC 8414); tokens are asked for with its address as the
//! resource (RFC 8707), kept in files of mode 0600, and refreshed where that is possible.

mod callback;
mod client;
mod store;

use std::path::Path;
use std::time::Duration;

use ::http::header::{ACCEPT, WWW_AUTHENTICATE};
use rmcp::transport::AuthClient;
use rmcp::transport::auth::{AuthError, AuthorizationRequest, AuthorizationSession, OAuthClientConfig};
use tokio::time::timeout;

use callback::Callback;
use store::TokenFile;

use crate::config::{HttpConfig, OAuthConfig};
use crate::error::McpError;
use crate::http;
use crate::options::McpOptions;
use crate::text;

/// How long a person may take.
const PERSON: Duration = Duration::from_secs(300);

/// How long the server may take to say what it wants.
const ANSWER: Duration = Duration::from_secs(10);

/// Why a login failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoginError {
    /// The server, or whoever issues its tokens, cannot be reached or refuses.
    #[error("{0}")]
    Refused(String),
    /// The browser did not come back.
    #[error("nobody has logged in within {} minutes; try again", PERSON.as_secs() / 60)]
    Expired,
    /// The address for the browser could not be opened, or the tokens not be kept.
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

impl From<AuthError> for LoginError {
    fn from(error: AuthError) -> Self {
        Self::Refused(text::line(&error.to_string(), 400))
    }
}

/// Logs in to a server: `show` is given the address that a person opens in a browser. The tokens go to a file in the
/// folder, and every connection to the server uses them.
///
/// # Errors
/// When the login does not come about; nothing is kept then.
pub async fn login(
    server: &str,
    config: &HttpConfig,
    token_dir: &Path,
    show: impl FnOnce(&str) + Send,
) -> Result<(), LoginError> {
    let client = http::client().map_err(LoginError::Refused)?;
    let challenge = challenge(&client, &config.url).await;
    let mut manager = client::manager(&config.url, client).await?;
    let store = TokenFile::new(token_dir, server, &config.url);
    manager.set_credential_store(store.clone());
    let metadata = manager.resolve_metadata_from_challenge(challenge.as_deref()).await?.metadata;
    manager.set_metadata(metadata.clone());
    let callback = Callback::open().await?;
    let mut request =
        AuthorizationRequest::new(&callback.url).with_client_name("deepagents").with_initial_scope_selection();
    if let Some(known) = &config.oauth {
        request = request.with_preregistered_client(&known.client_id).with_scopes(&known.scopes);
        request = known.client_secret.iter().fold(request, AuthorizationRequest::with_client_secret);
    }
    let session = AuthorizationSession::new(manager, request).await.map_err(|(_, error)| error)?;
    show(session.get_authorization_url());
    let address = timeout(PERSON, callback.wait()).await.map_err(|_| LoginError::Expired)??;
    session.handle_callback_url(&address).await?;
    store.keep_metadata(&metadata).await?;
    Ok(())
}

/// What the server says to a request without a token: where the login is, and what it should cover. Without an answer it
/// is looked for where such things usually are.
async fn challenge(client: &reqwest::Client, url: &str) -> Option<String> {
    let request = client.post(url).timeout(ANSWER).header(ACCEPT, "application/json, text/event-stream");
    let ping = serde_json::json!({"jsonrpc": "2.0", "id": 0, "method": "ping"});
    let answer = request.json(&ping).send().await.ok()?;
    answer.headers().get(WWW_AUTHENTICATE)?.to_str().ok().map(str::to_owned)
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
    client: reqwest::Client,
) -> Result<Option<AuthClient<reqwest::Client>>, McpError> {
    let Some(folder) = &options.token_dir else { return Ok(None) };
    let store = TokenFile::new(folder, server, &config.url);
    if !store.exists().await {
        return Ok(None);
    }
    let failed = |error: AuthError| {
        let reason = text::line(&error.to_string(), 300);
        McpError::Connect {
            server: server.to_owned(),
            reason: format!("its tokens cannot be used: {reason}"),
            stderr: String::new(),
        }
    };
    let mut manager = client::manager(&config.url, client.clone()).await.map_err(failed)?;
    if let Some(metadata) = store.metadata().await {
        manager.set_metadata(metadata);
    }
    manager.set_credential_store(store);
    let known = manager.initialize_from_store().await.map_err(failed)?;
    if let Some(OAuthConfig { client_id, client_secret: Some(secret), .. }) = config.oauth.as_ref().filter(|_| known) {
        // Refreshing needs the secret too; where a browser was sent does not matter any more.
        let client = OAuthClientConfig::new(client_id, &config.url).with_client_secret(secret);
        manager.configure_client(client).map_err(failed)?;
    }
    Ok(known.then(|| AuthClient::new(client, manager)))
}
