//! Proofs of possession of the key that a token is bound to (DPoP, RFC 9449).

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use reqwest::Url;
use rmcp::transport::auth::AuthorizationMetadata;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::jwt::{KeyError, SigningKey, unique};
use crate::cache;
use crate::sync::lock;

/// Header with a proof.
pub(super) const PROOF: &str = "dpop";
/// Header with a nonce from the server.
const NONCE: &str = "dpop-nonce";
/// Error code that requires a nonce.
pub(super) const WANTS_NONCE: &str = "use_dpop_nonce";

/// The key that tokens are bound to, with the nonces to use in proofs.
pub(super) struct Dpop {
    key: SigningKey,
    jwk: Value,
    /// By origin: issuer and server have separate nonces.
    nonces: Mutex<HashMap<String, String>>,
}

impl Dpop {
    /// Generates a key. Returns it with its serialised form.
    pub(super) fn generate() -> Result<(Self, String), KeyError> {
        let der = SigningKey::generate()?;
        let kept = URL_SAFE_NO_PAD.encode(&der);
        Ok((Self::new(SigningKey::from_pkcs8(&der)?)?, kept))
    }

    /// Restores a serialised key.
    pub(super) fn restore(kept: &str) -> Result<Self, KeyError> {
        let der = URL_SAFE_NO_PAD.decode(kept).map_err(|_| KeyError::Format)?;
        Self::new(SigningKey::from_pkcs8(&der)?)
    }

    fn new(key: SigningKey) -> Result<Self, KeyError> {
        let jwk = key.public_jwk().ok_or(KeyError::Format)?;
        Ok(Self { key, jwk, nonces: Mutex::default() })
    }

    /// Creates a proof for a request, bound to the token sent with it.
    pub(super) fn proof(&self, method: &str, url: &Url, token: Option<&str>) -> Result<String, KeyError> {
        let mut target = url.clone();
        target.set_query(None);
        target.set_fragment(None);
        let mut claims = json!({"jti": unique()?, "htm": method, "htu": target.as_str(), "iat": cache::now()});
        if let Some(claims) = claims.as_object_mut() {
            if let Some(token) = token {
                let digest = Sha256::digest(token.as_bytes());
                claims.insert("ath".to_owned(), URL_SAFE_NO_PAD.encode(digest).into());
            }
            if let Some(nonce) = lock(&self.nonces).get(&origin(url)) {
                claims.insert("nonce".to_owned(), nonce.clone().into());
            }
        }
        self.key.sign(json!({"typ": "dpop+jwt", "jwk": self.jwk}), &claims)
    }

    /// Stores the nonce of a response. Returns whether there is one.
    pub(super) fn store_nonce(&self, url: &Url, headers: &HeaderMap) -> bool {
        let Some(nonce) = headers.get(NONCE).and_then(|nonce| nonce.to_str().ok()) else { return false };
        lock(&self.nonces).insert(origin(url), nonce.to_owned());
        true
    }
}

fn origin(url: &Url) -> String {
    url.origin().ascii_serialization()
}

/// Whether to bind tokens to a key: the server asks for it, and the issuer supports it.
pub(super) fn is_wanted(challenge: Option<&str>, metadata: &AuthorizationMetadata) -> bool {
    let schemes = challenge.unwrap_or_default().split(',').map(|part| part.trim_start().to_ascii_lowercase());
    let algorithms = metadata.additional_fields.get("dpop_signing_alg_values_supported").and_then(Value::as_array);
    schemes.into_iter().any(|part| part.starts_with("dpop "))
        && algorithms.is_some_and(|known| known.iter().any(|name| name == "ES256"))
}
