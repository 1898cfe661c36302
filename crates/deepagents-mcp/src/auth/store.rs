//! Tokens in files that nobody else may read.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, CredentialRefreshGuard, CredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;

use crate::text;

/// The tokens of a server at an address, in a file of mode 0600. A token is for its address alone: a server of the same
/// name at another one has another file.
#[derive(Clone, Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl TokenFile {
    pub(super) fn new(folder: &Path, server: &str, url: &str) -> Self {
        let mark: String =
            Sha256::digest(format!("{server}\0{url}")).iter().take(8).map(|b| format!("{b:02x}")).collect();
        Self { path: folder.join(format!("{}-{mark}.json", text::file_name(server))) }
    }

    /// What else is known of the login, beside the tokens.
    fn state_path(&self) -> PathBuf {
        self.path.with_extension("login.json")
    }

    /// What whoever refreshes the tokens holds.
    fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// What else is known of the login.
    pub(super) async fn state(&self) -> LoginState {
        let bytes = tokio::fs::read(self.state_path()).await.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Remembers what else is known of the login.
    pub(super) async fn keep_state(&self, state: &LoginState) -> io::Result<()> {
        replace(&self.state_path(), &serde_json::to_vec(state)?).await
    }

    /// Remembers what the next login is to cover too.
    pub(super) async fn want(&self, scopes: &[String]) -> io::Result<()> {
        let mut state = self.state().await;
        let wanted = super::merged(state.wanted_scopes.clone(), scopes);
        if wanted == state.wanted_scopes {
            return Ok(());
        }
        state.wanted_scopes = wanted;
        self.keep_state(&state).await
    }

    /// What the tokens cover.
    pub(super) async fn granted_scopes(&self) -> Vec<String> {
        let stored = self.read().await.ok().flatten();
        stored.map(|stored| stored.granted_scopes).unwrap_or_default()
    }

    /// Whether there are any.
    pub(super) async fn exists(&self) -> bool {
        tokio::fs::try_exists(&self.path).await.unwrap_or(false)
    }

    /// Removes them; says whether there were any.
    pub(super) async fn remove(&self) -> io::Result<bool> {
        // The tokens are the login; the rest is of no use without them.
        let _ = tokio::fs::remove_file(self.state_path()).await;
        let _ = tokio::fs::remove_file(self.lock_path()).await;
        match tokio::fs::remove_file(&self.path).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn read(&self) -> io::Result<Option<StoredCredentials>> {
        match tokio::fs::read(&self.path).await {
            // A file that cannot be read is one that a new login replaces.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until nobody else refreshes the tokens: an issuer takes each token for refreshing once. A process that ends lets
    /// go, and a request for a token has a limit.
    async fn lock(&self) -> io::Result<CredentialRefreshGuard> {
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(self.lock_path()).await?;
        let file = file.into_std().await;
        let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
        let file = locked.await.map_err(io::Error::other)??;
        Ok(CredentialRefreshGuard::new(file))
    }

    async fn write(&self, credentials: &StoredCredentials) -> io::Result<()> {
        replace(&self.path, &serde_json::to_vec(credentials)?).await
    }
}

/// What is known of a login beside its tokens.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LoginState {
    /// Where the tokens were issued, so that a later process need not find out again.
    pub(super) metadata: Option<AuthorizationMetadata>,
    /// What they were asked for, which refreshing names again.
    pub(super) resource: Option<String>,
    /// The key that they are bound to.
    pub(super) dpop_key: Option<String>,
    /// What the server has wanted since that they do not cover.
    pub(super) wanted_scopes: Vec<String>,
}

/// Whether a token is bound to a key.
pub(super) fn is_bound(tokens: &OAuthTokenResponse) -> bool {
    let tokens = serde_json::to_value(tokens).unwrap_or_default();
    let kind = tokens.get("token_type").and_then(serde_json::Value::as_str);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("dpop"))
}

/// Writes a new file and puts it in the place of the old one, so that neither a kill nor another process leaves half of
/// one.
async fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut options = tokio::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new).await?;
    file.write_all(content).await?;
    file.sync_all().await?;
    tokio::fs::rename(&new, path).await
}

fn failed(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

// The signatures are what `#[async_trait]` makes of those in the trait.
impl CredentialStore for TokenFile {
    fn load<'life, 'async_trait>(&'life self) -> Answer<'async_trait, Option<StoredCredentials>>
    where
        'life: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.read().await.map_err(|error| failed(&error)) })
    }

    fn save<'life, 'async_trait>(&'life self, credentials: StoredCredentials) -> Answer<'async_trait, ()>
    where
        'life: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.write(&credentials).await.map_err(|error| failed(&error)) })
    }

    fn clear<'life, 'async_trait>(&'life self) -> Answer<'async_trait, ()>
    where
        'life: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.remove().await.map(drop).map_err(|error| failed(&error)) })
    }

    fn acquire_refresh_guard<'life, 'async_trait>(&'life self) -> Answer<'async_trait, Option<CredentialRefreshGuard>>
    where
        'life: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move { self.lock().await.map(Some).map_err(|error| failed(&error)) })
    }
}
