//! Signed tokens: JSON Web Tokens (RFC 7519) from an OpenID Connect provider or another issuer.
//!
//! Validation follows RFC 8725: the algorithm must be one that is allowed here, whatever the token says, and the
//! issuer, audience and time are always checked.

mod algorithm;
mod keys;
mod token;

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

pub use algorithm::JwtAlgorithm;
use keys::{KeyLocation, KeySource, check_address};
use token::{Rules, Unverified};

use super::{Authenticate, Identity, Limits, Presented, Refusal};

/// A configuration with which tokens cannot be checked.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the issuer of tokens: {0}")]
pub struct JwtError(String);

/// Authenticates callers by tokens of an issuer. The claim `sub` identifies the caller.
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
    /// Accepts the tokens of an OpenID Connect provider for this audience. The keys are located by its discovery
    /// document and fetched when the first token arrives. They are fetched again once an hour, and when a token names
    /// an unknown key.
    ///
    /// # Errors
    /// Returns an error unless the issuer is an `https://` URL; `http://` is allowed for this machine.
    pub fn discover(issuer: impl Into<String>, audience: impl Into<String>) -> Result<Self, JwtError> {
        let issuer = issuer.into();
        check_address(&issuer).map_err(JwtError)?;
        Ok(Self::new(KeyLocation::Discovered { issuer: issuer.clone() }, issuer, audience.into()))
    }

    /// Accepts the tokens of an issuer whose key set (JWKS) is at a URL.
    ///
    /// # Errors
    /// Returns an error unless the keys are at an `https://` URL; `http://` is allowed for this machine.
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

    /// Accepts tokens for another audience as well.
    #[must_use]
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        self.rules.audiences.push(audience.into());
        self
    }

    /// Accepts only tokens signed with these algorithms.
    #[must_use]
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = JwtAlgorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Sets the tolerated clock skew of the issuer, a minute by default.
    #[must_use]
    pub fn leeway(mut self, leeway: Duration) -> Self {
        self.rules.leeway = leeway;
        self
    }

    /// Sets the minimum time between fetches of the keys, ten seconds by default.
    #[must_use]
    pub fn refresh_pause(mut self, pause: Duration) -> Self {
        self.keys.pause = pause;
        self
    }

    /// Sets the claim that identifies callers, in place of `sub`. A value must never be reassigned to another person.
    /// With `email`, tokens whose `email_verified` is present and not true are refused.
    #[must_use]
    pub fn identity_claim(mut self, claim: impl Into<String>) -> Self {
        self.identity = claim.into();
        self
    }

    /// Gives full access to callers whose claim equals this value or is a list that contains it. Dots access nested
    /// claims: `realm_access.roles`.
    #[must_use]
    pub fn admin(mut self, claim: impl Into<String>, value: impl Into<String>) -> Self {
        self.admin = Some((claim.into(), value.into()));
        self
    }

    /// Sets the limits of each caller.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    fn identity(&self, claims: &Map<String, Value>) -> Result<Identity, Refusal> {
        let id = find(claims, &self.identity).and_then(Value::as_str).filter(|id| !id.is_empty());
        let id = id.ok_or_else(|| Refusal::Unknown(format!("the token has no claim `{}`", self.identity)))?;
        // Some issuers let people enter any address before it is verified. Some write the claim as text.
        let is_verified = |verified: &Value| *verified == json!(true) || *verified == json!("true");
        if self.identity == "email" && claims.get("email_verified").is_some_and(|verified| !is_verified(verified)) {
            return Err(Refusal::Forbidden("the email address in the token is not verified by its issuer".to_owned()));
        }
        let identity = Identity::new(id).limits(self.limits.clone()).expires_at(self.rules.expiry(claims));
        let is_admin = self.admin.as_ref().is_some_and(|(claim, wanted)| match find(claims, claim) {
            Some(Value::String(value)) => value == wanted,
            Some(Value::Array(values)) => values.iter().any(|value| value == wanted),
            _ => false,
        });
        Ok(if is_admin { identity.admin() } else { identity })
    }
}

/// Finds a claim by its name or its dotted path.
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
