//! Sends credentials.

use std::time::SystemTime;

use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use deepagents_core::model::ModelError;
use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::body::RequestBody;
use crate::credentials::{AwsKeys, Credential, Secret};

/// How a provider takes credentials. Tokens are always sent as `authorization: Bearer`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Auth {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// The bare key in a header with this name.
    Header(&'static str),
    /// A signature with AWS keys, for a service in a region. An API key is sent as `Bearer`.
    SigV4 {
        /// The region, such as `us-east-1`.
        region: String,
        /// Name of the service in signatures.
        service: &'static str,
    },
}

impl Auth {
    /// Returns the authentication headers.
    pub(super) fn headers(
        &self,
        credential: &Credential,
        url: &Url,
        sent: &HeaderMap,
        body: &RequestBody,
    ) -> Result<HeaderMap, ModelError> {
        match (credential, self) {
            (Credential::Key(key), Self::Header(name)) => one(name, key.expose()),
            (Credential::Key(secret) | Credential::Token(secret), _) => bearer(secret),
            (Credential::Aws(keys), Self::SigV4 { region, service }) => signed(keys, region, service, url, sent, body),
            (Credential::Aws(_), _) => Err(ModelError::invalid(
                "Amazon Web Services keys can only sign requests to Amazon; give this provider a key or a token",
            )),
        }
    }
}

fn bearer(secret: &Secret) -> Result<HeaderMap, ModelError> {
    one("authorization", &format!("Bearer {}", secret.expose()))
}

fn one(name: &str, value: &str) -> Result<HeaderMap, ModelError> {
    let mut headers = HeaderMap::new();
    insert(&mut headers, name, value)?;
    Ok(headers)
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ModelError> {
    let bad = || ModelError::invalid("the key or token contains characters that are not allowed in headers");
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| bad())?;
    let mut value = HeaderValue::from_str(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    headers.insert(name, value);
    Ok(())
}

fn signed(
    keys: &AwsKeys,
    region: &str,
    service: &str,
    url: &Url,
    sent: &HeaderMap,
    body: &RequestBody,
) -> Result<HeaderMap, ModelError> {
    let unsigned = |error: &dyn std::fmt::Display| ModelError::invalid(format!("the request was not signed: {error}"));
    let session = keys.session_token.as_ref().map(|token| token.expose().to_owned());
    let (id, secret) = (keys.access_key_id.expose(), keys.secret_access_key.expose());
    let identity = aws_credential_types::Credentials::new(id, secret, session, None, "deepagents").into();
    #[allow(clippy::disallowed_methods, reason = "Amazon compares the signature's time with its own clock")]
    let now = SystemTime::now();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(region)
        .name(service)
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| unsigned(&error))?
        .into();
    let content_type = sent.get("content-type").and_then(|value| value.to_str().ok());
    let given = content_type.map(|value| ("content-type", value)).into_iter();
    let request = SignableRequest::new("POST", url.as_str(), given, SignableBody::Precomputed(body.sha256()))
        .map_err(|error| unsigned(&error))?;
    let (instructions, _) = sign(request, &params).map_err(|error| unsigned(&error))?.into_parts();
    let mut headers = HeaderMap::new();
    for (name, value) in instructions.headers() {
        insert(&mut headers, name, value)?;
    }
    Ok(headers)
}
