//! Stores tokens in files that only the owner may read.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use rmcp::transport::auth::{
    AuthError, AuthorizationMetadata, CredentialRefreshGuard, CredentialStore, OAuthTokenResponse, StoredCredentials,
};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;

use crate::text;

/// The token file of a server, of mode 0600. Tokens are valid for one URL only: a server of the same name at another
/// URL has another file.
#[derive(Clone, Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
}

type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, AuthError>> + Send + 'a>>;

impl TokenFile {
    pub(super) fn new(folder: &Path, server: &str, url: &str) -> Self {
        let mark = text::hash(&format!("{server}\0{url}"), 8);
        Self { path: folder.join(format!("{}-{mark}.json", text::file_name(server))) }
    }

    /// Path of the login state.
    fn state_path(&self) -> PathBuf {
        self.path.with_extension("login.json")
    }

    /// Path of the lock file.
    fn lock_path(&self) -> PathBuf {
        self.path.with_extension("lock")
    }

    /// Reads the login state.
    pub(super) async fn state(&self) -> LoginState {
        let bytes = tokio::fs::read(self.state_path()).await.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    /// Writes the login state.
    async fn write_state(&self, state: &LoginState) -> io::Result<()> {
        replace(&self.state_path(), &serde_json::to_vec(state)?).await
    }

    /// Stores a login that has requested these scopes. Other scopes, which calls have lacked meanwhile, are left for the
    /// next login.
    pub(super) async fn keep_login(
        &self,
        credentials: &StoredCredentials,
        state: LoginState,
        requested: &[String],
    ) -> io::Result<()> {
        // Of several logins at the same time, both files must be those of the last one.
        let _guard = self.lock(true).await?;
        let mut wanted_scopes = self.state().await.wanted_scopes;
        wanted_scopes.retain(|scope| !requested.contains(scope));
        self.write(credentials).await?;
        self.write_state(&LoginState { wanted_scopes, ..state }).await
    }

    /// Stores scopes for the next login to request.
    pub(super) async fn request_scopes(&self, scopes: &[String]) -> io::Result<()> {
        let _guard = self.lock(true).await?;
        let mut state = self.state().await;
        let wanted = super::merged(state.wanted_scopes.clone(), scopes);
        if wanted == state.wanted_scopes {
            return Ok(());
        }
        state.wanted_scopes = wanted;
        self.write_state(&state).await
    }

    /// Returns the scopes granted.
    pub(super) async fn granted_scopes(&self) -> Vec<String> {
        let stored = self.read().await.ok().flatten();
        stored.map(|stored| stored.granted_scopes).unwrap_or_default()
    }

    /// Whether there are tokens.
    pub(super) async fn exists(&self) -> bool {
        tokio::fs::try_exists(&self.path).await.unwrap_or(false)
    }

    /// Removes the tokens. Returns whether there were any. The lock file stays: another process may wait for it, and
    /// with a second one both would refresh at the same time.
    pub(super) async fn remove(&self) -> io::Result<bool> {
        // Errors are ignored: this file is useless without the tokens.
        let _ = tokio::fs::remove_file(self.state_path()).await;
        match tokio::fs::remove_file(&self.path).await {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Like [`remove`](Self::remove), after any refresh that is in progress, which would store new tokens.
    pub(super) async fn remove_locked(&self) -> io::Result<bool> {
        // There is no refresh if nobody has created the lock file yet.
        let _guard = match self.lock(false).await {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            locked => Some(locked?),
        };
        self.remove().await
    }

    async fn read(&self) -> io::Result<Option<StoredCredentials>> {
        match tokio::fs::read(&self.path).await {
            // An unreadable file counts as missing, and a new login replaces it.
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Acquires the lock of both files, because an issuer accepts each refresh token once, and changes at the same time
    /// would lose one of them. The wait is bounded: a process that ends releases the lock, and token requests have a
    /// timeout.
    async fn lock(&self, create: bool) -> io::Result<CredentialRefreshGuard> {
        if let Some(folder) = self.path.parent().filter(|_| create) {
            create_private(folder).await?;
        }
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create(create).truncate(false).mode(0o600).open(self.lock_path()).await?;
        let file = file.into_std().await;
        let locked = tokio::task::spawn_blocking(move || file.lock().map(|()| file));
        let file = locked.await.map_err(io::Error::other)??;
        Ok(CredentialRefreshGuard::new(file))
    }

    async fn write(&self, credentials: &StoredCredentials) -> io::Result<()> {
        replace(&self.path, &serde_json::to_vec(credentials)?).await
    }
}

/// What is known about a login besides its tokens.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct LoginState {
    /// Metadata of the issuer, so that a later process need not discover it again.
    pub(super) metadata: Option<AuthorizationMetadata>,
    /// The resource that the tokens were requested for. Refreshing requests it again.
    pub(super) resource: Option<String>,
    /// The key that the tokens are bound to.
    pub(super) dpop_key: Option<String>,
    /// Scopes that the server has asked for since, and that the tokens lack.
    pub(super) wanted_scopes: Vec<String>,
}

/// Whether a token is bound to a key.
pub(super) fn is_bound(tokens: &OAuthTokenResponse) -> bool {
    let tokens = serde_json::to_value(tokens).unwrap_or_default();
    let kind = tokens.get("token_type").and_then(serde_json::Value::as_str);
    kind.is_some_and(|kind| kind.eq_ignore_ascii_case("dpop"))
}

/// Creates a directory that only the owner may read.
async fn create_private(folder: &Path) -> io::Result<()> {
    tokio::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).await
}

/// Replaces a file atomically, so that neither a kill nor another process leaves a partial one.
async fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_private(folder).await?;
    let new = text::new_version(path);
    let written = async {
        let mut options = tokio::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new).await?;
        file.write_all(content).await?;
        file.sync_all().await?;
        tokio::fs::rename(&new, path).await?;
        // An issuer accepts a refresh token once, so the new one must outlast a loss of power. Not every file system can
        // do that for directories.
        if let Ok(folder) = tokio::fs::File::open(folder).await {
            let _ = folder.sync_all().await;
        }
        Ok(())
    }
    .await;
    if written.is_err() {
        // The next write has another name, so it would not replace this file.
        let _ = tokio::fs::remove_file(&new).await;
    }
    written
}

fn failed(error: &io::Error) -> AuthError {
    AuthError::CredentialStoreError(error.to_string())
}

// These signatures match what `#[async_trait]` generates for the trait.
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
        Box::pin(async move { self.lock(true).await.map(Some).map_err(|error| failed(&error)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn scopes_that_calls_lack_at_the_same_time_are_all_left_for_the_next_login() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenFile::new(&folder.path().join("new"), "alpha", "https://example.com/mcp");
        let requests = (0..20).map(|number| {
            let store = store.clone();
            tokio::spawn(async move { store.request_scopes(&[format!("scope-{number}")]).await })
        });
        for request in requests.collect::<Vec<_>>() {
            request.await.unwrap().unwrap();
        }
        assert_eq!(store.state().await.wanted_scopes.len(), 20);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn of_logins_at_the_same_time_both_files_are_those_of_one() {
        let folder = tempfile::tempdir().unwrap();
        let store = TokenFile::new(folder.path(), "alpha", "https://example.com/mcp");
        for round in 0..10 {
            let logins = (0..8).map(|number| {
                let (store, client) = (store.clone(), format!("client-{round}-{number}"));
                let credentials = StoredCredentials::new(client.clone(), None, Vec::new(), None);
                let state = LoginState { resource: Some(client), ..LoginState::default() };
                tokio::spawn(async move { store.keep_login(&credentials, state, &[]).await })
            });
            for login in logins.collect::<Vec<_>>() {
                login.await.unwrap().unwrap();
            }
            assert_eq!(store.state().await.resource, Some(store.read().await.unwrap().unwrap().client_id));
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_file_that_several_tasks_replace_at_once_is_always_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("alpha-1.login.json");
        let states = (1..=40).map(|number| {
            let path = path.clone();
            tokio::spawn(async move { replace(&path, &vec![b'x'; number * 1_000]).await })
        });
        for state in states.collect::<Vec<_>>() {
            state.await.unwrap().unwrap();
            assert_eq!(tokio::fs::read(&path).await.unwrap().len() % 1_000, 0);
        }
        let mut left = tokio::fs::read_dir(folder.path()).await.unwrap();
        assert_eq!(left.next_entry().await.unwrap().unwrap().path(), path);
        assert!(left.next_entry().await.unwrap().is_none());
    }
}
