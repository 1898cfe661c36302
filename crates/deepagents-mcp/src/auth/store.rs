//! Tokens in files that nobody else may read.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use rmcp::transport::auth::{AuthError, AuthorizationMetadata, CredentialStore, StoredCredentials};
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

    /// Where tokens are issued, beside them: so that a later process need not find out again.
    fn metadata_path(&self) -> PathBuf {
        self.path.with_extension("issuer.json")
    }

    /// Where the tokens were issued, as far as that is remembered.
    pub(super) async fn metadata(&self) -> Option<AuthorizationMetadata> {
        serde_json::from_slice(&tokio::fs::read(self.metadata_path()).await.ok()?).ok()
    }

    /// Remembers where the tokens were issued.
    pub(super) async fn keep_metadata(&self, metadata: &AuthorizationMetadata) -> io::Result<()> {
        replace(&self.metadata_path(), &serde_json::to_vec(metadata)?).await
    }

    /// Whether there are any.
    pub(super) async fn exists(&self) -> bool {
        tokio::fs::try_exists(&self.path).await.unwrap_or(false)
    }

    /// Removes them; says whether there were any.
    pub(super) async fn remove(&self) -> io::Result<bool> {
        let _ = tokio::fs::remove_file(self.metadata_path()).await;
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

    async fn write(&self, credentials: &StoredCredentials) -> io::Result<()> {
        replace(&self.path, &serde_json::to_vec(credentials)?).await
    }
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
}
