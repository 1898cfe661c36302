//! Tokens that an issuer signs: JSON Web Tokens (RFC 7519), of an OpenID Connect provider or any other.
//!
//! What a token may be follows RFC 8725: the algorithm is one that is allowed here, whatever the token says; the issuer,
//! the audience and the time are always checked.

mod algorithm;
mod keys;
mod token;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value};

pub use algorithm::JwtAlgorithm;
use keys::{KeyLocation, KeySource, check_address};
use token::{Rules, Unverified};

use super::{Authenticate, Identity, Limits, Presented, Refusal};

/// Why tokens cannot be checked as configured.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the issuer of tokens: {0}")]
pub struct JwtError(String);

/// Lets in whoever has a token of an issuer. Who they are is its claim `sub`.
///
/// ```
/// use deepagents_server::{JwtAlgorithm, JwtTokens};
///
/// let tokens = JwtTokens::discover("https://login.example.com", "deepagents")?
///     .algorithms([JwtAlgorithm::Es256])
///     .identity_claim("email")
///     .admin("roles", "operator");
/// # Ok::<(), deepagents_server::JwtError>(())
/// ```
#[derive(Debug)]
pub struct JwtTokens {
    rules: Rules,
    algorithms: Vec<JwtAlgorithm>,
    keys: KeySource,
    identity: String,
    admin: Option<(String, String)>,
    limits: Limits,
}

impl JwtTokens {
    /// Those of an OpenID Connect provider, for this audience. Its keys are found by its discovery document, when the first
    /// token comes; they are fetched again once an hour, and when a token names a key that is new.
    ///
    /// # Errors
    /// When the issuer is no `https://` address; this machine's may be `http://`.
    pub fn discover(issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, JwtError> {
        let issuer = issuer.into();
        check_address(&issuer).map_err(JwtError)?;
        Ok(Self::new(KeyLocation::Discovered { issuer: issuer.clone() }, issuer, audience.into()))
    }

    /// Those of an issuer whose set of keys (JWKS) is at an address.
    ///
    /// # Errors
    /// When the keys are at no `https://` address; this machine's may be `http://`.
    pub fn with_keys_at(
        address: impl Into<String>,
        issuer: impl Into<String>,
        audience: impl Into<String>,
    ) -> Result<Self, JwtError> {
        let address = address.into();
        check_address(&address).map_err(JwtError)?;
        Ok(Self::new(KeyLocation::At(address), issuer.into(), audience.into()))
    }

    fn new(keys: KeyLocation, issuer: String, audience: String) -> Self {
        Self {
            rules: Rules { issuer, audiences: vec![audience], leeway: Duration::from_secs(60) },
            algorithms: JwtAlgorithm::ALL.to_vec(),
            keys: KeySource::new(keys),
            identity: "sub".to_owned(),
            admin: None,
            limits: Limits::default(),
        }
    }

    /// Takes tokens for another audience too.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audiences.push(audience.into());
        self
    }

    /// Takes tokens that are signed in these ways alone.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = JwtAlgorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// How far the issuer's clock may be off, a minute by default.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.rules.leeway = leeway;
        self
    }

    /// At most one fetch of keys in this time, ten seconds by default.
    #[must_use]
    pub fn refresh_pause(mut self, pause: Duration) -> Self {
        self.keys.pause = pause;
        self
    }

    /// The claim that says who they are, in place of `sub`. Its values must belong to one person each for ever.
    #[must_use]
    pub fn identity_claim(mut self, claim: impl Into<String>) -> Self {
        self.identity = claim.into();
        self
    }

    /// Lets those see everything whose claim is this value, or a list that has it. Dots lead into claims that are objects:
    /// `realm_access.roles`.
    #[must_use]
    pub fn admin(mut self, claim: impl Into<String>, value: impl Into<String>) -> Self {
        self.admin = Some((claim.into(), value.into()));
        self
    }

    /// Limits each of them.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<Identity, Refusal> {
        let id = find(claims, &self.identity).and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Refusal::Unknown(format!("the token has no claim `{}`", self.identity)))?;
        let identity = Identity::new(id).limits(self.limits.clone());
        let is_admin = self.admin.as_ref().is_some_and(|(claim, wanted)| match find(claims, claim) {
            Some(Value::String(value)) => value == wanted,
            Some(Value::Array(values)) => values.iter().any(|value| value == wanted),
            _ => false,
        });
        Ok(if is_admin { identity.admin() } else { identity })
    }
}

/// A claim by its name, or by the way to it.
fn find<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    claims.get(name).or_else(|| {
        let mut parts = name.split('.');
        let first = claims.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.get(part))
    })
}

impl Authenticate for JwtTokens {
    async fn authenticate(&self, presented: Presented<'_>) -> Result<Identity, Refusal> {
        let Some(token) = presented.token() else {
            return Err(Refusal::Unknown("send a token: `Authorization: Bearer TOKEN` or `x-api-key`".to_owned()));
        };
        let token = Unverified::read(token, &self.algorithms).map_err(Refusal::Unknown)?;
        let keys = self.keys.get(token.key.as_deref()).await.map_err(Refusal::Unavailable)?;
        let claims = token.verify(&keys, &self.rules, Timestamp::now()).map_err(Refusal::Unknown)?;
        self.identity(&claims)
    }
}
