//! Parsing and validating a single token.

use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::algorithm::{JwtAlgorithm, VerifyingKey};

/// Maximum length of a token in characters. Headers are limited anyway.
const MAX_TOKEN_CHARS: usize = 16 << 10;

/// A token whose signature has not been checked.
pub(super) struct Unverified<'a> {
    signed: &'a str,
    payload: &'a str,
    signature: Vec<u8>,
    pub(super) algorithm: JwtAlgorithm,
    /// The id of the key that the token names.
    pub(super) key: Option<String>,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// The required claims.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) issuer: String,
    pub(super) audiences: Vec<String>,
    pub(super) leeway: Duration,
}

impl<'a> Unverified<'a> {
    /// Parses a token.
    pub(super) fn read(token: &'a str, allowed: &[JwtAlgorithm]) -> Result<Self, String> {
        if token.len() > MAX_TOKEN_CHARS {
            return Err("the token is too long".to_owned());
        }
        let malformed = || "the token is not a JWT; send a signed one".to_owned();
        let (signed, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, payload) = signed.split_once('.').ok_or_else(malformed)?;
        let header: Header = decode(header).ok_or_else(malformed)?;
        if header.crit.is_some() {
            return Err("the token has critical extensions, none of which are supported".to_owned());
        }
        let algorithm = serde_json::from_value(Value::from(header.alg.as_str())).ok();
        let algorithm = algorithm.filter(|algorithm| allowed.contains(algorithm)).ok_or_else(|| {
            format!("the token is signed with {}, which is not allowed here", header.alg.escape_debug())
        })?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
        Ok(Self { signed, payload, signature, algorithm, key: header.kid })
    }

    /// Returns the claims if the signature is valid and the claims hold now. If the token names a key, only that key is
    /// tried.
    pub(super) fn verify(
        &self,
        keys: &[VerifyingKey],
        rules: &Rules,
        now: Timestamp,
    ) -> Result<Map<String, Value>, String> {
        let mut fitting = keys.iter().filter(|key| self.key.is_none() || key.id == self.key);
        if !fitting.any(|key| key.verifies(self.algorithm, self.signed.as_bytes(), &self.signature)) {
            return Err("the token is not signed with a key of its issuer".to_owned());
        }
        let claims: Map<String, Value> = decode(self.payload).ok_or("the claims of the token cannot be read")?;
        rules.check(&claims, now)?;
        Ok(claims)
    }
}

impl Rules {
    /// Returns when a token with these claims stops being valid.
    pub(super) fn expiry(&self, claims: &Map<String, Value>) -> SystemTime {
        let seconds = seconds(claims, "exp").ok().flatten().and_then(|seconds| u64::try_from(seconds).ok());
        let life = Duration::from_secs(seconds.unwrap_or_default()).saturating_add(self.leeway);
        // A time too far away to be represented.
        SystemTime::UNIX_EPOCH.checked_add(life).unwrap_or_else(|| SystemTime::UNIX_EPOCH + FAR_AWAY)
    }

    fn check(&self, claims: &Map<String, Value>, now: Timestamp) -> Result<(), String> {
        let (now, leeway) = (now.as_second(), i64::try_from(self.leeway.as_secs()).unwrap_or(i64::MAX));
        let expires = seconds(claims, "exp")?.ok_or("the token has no expiry time")?;
        if expires.saturating_add(leeway) <= now {
            return Err("the token has expired; get a new one".to_owned());
        }
        if seconds(claims, "nbf")?.is_some_and(|begins| begins.saturating_sub(leeway) > now) {
            return Err("the token is not valid yet".to_owned());
        }
        if claims.get("iss").and_then(Value::as_str) != Some(&self.issuer) {
            return Err("the token is from another issuer".to_owned());
        }
        let is_meant = |audience: &Value| audience.as_str().is_some_and(|a| self.audiences.iter().any(|own| own == a));
        let meant = match claims.get("aud") {
            Some(Value::Array(audiences)) => audiences.iter().any(is_meant),
            Some(audience) => is_meant(audience),
            None => false,
        };
        if !meant {
            return Err("the token is for another audience".to_owned());
        }
        Ok(())
    }
}

/// About a thousand years.
const FAR_AWAY: Duration = Duration::from_secs(1000 * 366 * 24 * 3600);

/// Returns the time in a claim. A claim that is present but not a number is an error.
fn seconds(claims: &Map<String, Value>, name: &str) -> Result<Option<i64>, String> {
    #[allow(clippy::cast_possible_truncation, reason = "a fraction of a second counts for nothing, and casts saturate")]
    match claims.get(name) {
        None => Ok(None),
        Some(value) => match value.as_f64() {
            Some(seconds) if seconds.is_finite() => Ok(Some(seconds as i64)),
            _ => Err(format!("the claim `{name}` of the token is not a valid time")),
        },
    }
}

/// Decodes a part of a token, which is an object: a list would otherwise be read as the fields in their order.
fn decode<T: DeserializeOwned>(part: &str) -> Option<T> {
    let json = URL_SAFE_NO_PAD.decode(part).ok()?;
    let is_object = json.trim_ascii_start().first() == Some(&b'{');
    serde_json::from_slice(&json).ok().filter(|_| is_object)
}
