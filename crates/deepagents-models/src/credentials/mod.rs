//! API keys and tokens, fixed or fetched on demand.

mod held;
mod secret;

use std::future::Future;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use deepagents_core::model::ModelError;
use futures_util::future::BoxFuture;

use self::held::HeldCredential;
pub use self::secret::Secret;

/// A credential that authenticates the caller to a provider.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Credential {
    /// An API key, sent in the header that the provider uses for keys.
    Key(Secret),
    /// An access token (Entra, Google, OAuth), sent as `authorization: Bearer`.
    Token(Secret),
    /// AWS keys, which sign each request.
    Aws(AwsKeys),
}

/// AWS keys.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AwsKeys {
    /// Access key ID.
    pub access_key_id: Secret,
    /// Secret access key.
    pub secret_access_key: Secret,
    /// Session token, for temporary keys.
    pub session_token: Option<Secret>,
}

impl Credential {
    /// Removes the secret from a text.
    pub(crate) fn redact(&self, text: &mut String) {
        let mut hide = |secret: &Secret| hide(secret.expose(), text);
        match self {
            Self::Key(secret) | Self::Token(secret) => hide(secret),
            Self::Aws(keys) => {
                hide(&keys.secret_access_key);
                hide(&keys.access_key_id);
                keys.session_token.iter().for_each(hide);
            }
        }
    }
}

/// Minimum length in bytes of secrets that are hidden even inside a word.
const MIN_HIDDEN_IN_WORDS: usize = 8;

/// Removes a secret from a text. A short one, as used with local servers, may be part of any word.
pub(crate) fn hide(secret: &str, text: &mut String) {
    if secret.is_empty() || !text.contains(secret) {
        return;
    }
    let (mut out, mut before) = (String::with_capacity(text.len()), None);
    let mut pieces = text.split(secret).peekable();
    while let Some(piece) = pieces.next() {
        out.push_str(piece);
        before = piece.chars().next_back().or(before);
        if let Some(next) = pieces.peek() {
            let beside = [before, next.chars().next()];
            let is_word = !beside.iter().flatten().any(|c| c.is_alphanumeric());
            out.push_str(if secret.len() >= MIN_HIDDEN_IN_WORDS || is_word { "[key]" } else { secret });
            before = secret.chars().next_back();
        }
    }
    *text = out;
}

/// A credential and its lifetime.
#[derive(Clone, Debug)]
pub struct Issued {
    /// The credential.
    pub credential: Credential,
    /// Lifetime from now on. The credential is cached until shortly before its expiry; without a lifetime, the source
    /// is asked before each request.
    pub lifetime: Option<Duration>,
}

impl Issued {
    /// Creates an access token with a lifetime.
    pub fn token(token: impl Into<Secret>, lifetime: Option<Duration>) -> Self {
        Self { credential: Credential::Token(token.into()), lifetime }
    }
}

/// Reason a source returned no credential.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CredentialError {
    /// There is none, and asking again does not help: log in, or set the key.
    #[error("{0}")]
    Refused(String),
    /// The source is currently unavailable.
    #[error("{0}")]
    Unavailable(String),
}

impl From<CredentialError> for ModelError {
    fn from(error: CredentialError) -> Self {
        let message = format!("could not get a credential: {error}");
        match error {
            CredentialError::Refused(_) => Self::Auth(message.into()),
            CredentialError::Unavailable(_) => Self::transport(message),
        }
    }
}

/// A source of credentials.
///
/// Implemented by closures that return a future of [`Issued`].
pub trait CredentialSource: Send + Sync + 'static {
    /// Requests a credential.
    fn issue(&self) -> impl Future<Output = Result<Issued, CredentialError>> + Send;
}

impl<F, Fut> CredentialSource for F
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Issued, CredentialError>> + Send,
{
    fn issue(&self) -> impl Future<Output = Result<Issued, CredentialError>> + Send {
        self()
    }
}

/// Dyn-compatible version of [`CredentialSource`].
trait DynSource: Send + Sync {
    fn issue(self: Arc<Self>) -> BoxFuture<'static, Result<Issued, CredentialError>>;
}

impl<S: CredentialSource> DynSource for S {
    fn issue(self: Arc<Self>) -> BoxFuture<'static, Result<Issued, CredentialError>> {
        Box::pin(async move { CredentialSource::issue(&*self).await })
    }
}

/// Credentials of a provider: a fixed one, or a source.
///
/// Clones share fetched credentials. `Debug` output, errors and recordings contain no secrets.
///
/// ```
/// use std::time::Duration;
/// use deepagents_models::credentials::{CredentialError, Credentials, Issued};
/// let fixed = Credentials::from("a key");
/// let asked = Credentials::from_source(|| async {
///     Ok::<_, CredentialError>(Issued::token("a token", Some(Duration::from_secs(3600))))
/// });
/// assert!(!format!("{fixed:?} {asked:?}").contains("a key"));
/// ```
#[derive(Clone)]
pub struct Credentials(Inner);

#[derive(Clone)]
enum Inner {
    Fixed(Credential),
    Source(Arc<HeldCredential>),
}

impl Credentials {
    /// Creates credentials that are fetched from a source.
    pub fn from_source(source: impl CredentialSource) -> Self {
        Self(Inner::Source(Arc::new(HeldCredential::new(Arc::new(source)))))
    }

    /// Creates a fixed access token, sent as `authorization: Bearer`.
    pub fn token(token: impl Into<Secret>) -> Self {
        Credential::Token(token.into()).into()
    }

    /// Creates AWS keys.
    pub fn aws(id: impl Into<Secret>, secret: impl Into<Secret>, session_token: Option<Secret>) -> Self {
        let keys = AwsKeys { access_key_id: id.into(), secret_access_key: secret.into(), session_token };
        Credential::Aws(keys).into()
    }

    /// Returns the credential, if it is fixed.
    pub(crate) fn fixed(&self) -> Option<&Credential> {
        match &self.0 {
            Inner::Fixed(credential) => Some(credential),
            Inner::Source(_) => None,
        }
    }

    /// Returns whether the key or token is empty.
    pub(crate) fn is_empty(&self) -> bool {
        match self.fixed() {
            Some(Credential::Key(secret) | Credential::Token(secret)) => secret.is_empty(),
            _ => false,
        }
    }

    /// Returns the credential to send now.
    pub(crate) async fn get(&self) -> Result<Credential, CredentialError> {
        match &self.0 {
            Inner::Fixed(credential) => Ok(credential.clone()),
            Inner::Source(held) => held.get().await,
        }
    }

    /// Discards a credential that the provider rejected. Returns whether another one may be available.
    pub(crate) fn renew(&self, refused: &Credential) -> bool {
        match &self.0 {
            Inner::Fixed(_) => false,
            Inner::Source(held) => held.forget(refused),
        }
    }
}

impl Hash for Credentials {
    /// Equal for clones, and for equal fixed credentials.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match &self.0 {
            Inner::Fixed(credential) => credential.hash(state),
            Inner::Source(held) => Arc::as_ptr(held).addr().hash(state),
        }
    }
}

impl From<Credential> for Credentials {
    fn from(credential: Credential) -> Self {
        Self(Inner::Fixed(credential))
    }
}

impl From<&str> for Credentials {
    /// Creates an API key.
    fn from(key: &str) -> Self {
        Credential::Key(key.into()).into()
    }
}

impl From<String> for Credentials {
    /// Creates an API key.
    fn from(key: String) -> Self {
        Credential::Key(key.into()).into()
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.fixed().is_some() { "Credentials(fixed)" } else { "Credentials(asked for)" })
    }
}
