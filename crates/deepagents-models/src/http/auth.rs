//! Sends credentials.

use std::time::SystemTime;

use aws_sigv4::http_request::{self, SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use deepagents_core::model::ModelError;
use reqwest::Url;
use reqwest::header::HeaderMap;

use super::error::header;
use crate::body::RequestBody;
use crate::credentials::{AwsKeys, Credential};

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
        let mut headers = HeaderMap::new();
        match (credential, self) {
            (Credential::Key(key), Self::Header(name)) => insert(&mut headers, name, key.expose())?,
            (Credential::Key(secret) | Credential::Token(secret), _) => {
                insert(&mut headers, "authorization", &format!("Bearer {}", secret.expose()))?;
            }
            (Credential::Aws(keys), Self::SigV4 { region, service }) => {
                sign(&mut headers, keys, (region, service), url, sent, body)?;
            }
            (Credential::Aws(_), _) => {
                return Err(ModelError::invalid(
                    "Amazon Web Services keys can only sign requests to Amazon; give this provider a key or a token",
                ));
            }
        }
        Ok(headers)
    }
}

fn insert(headers: &mut HeaderMap, name: &str, value: &str) -> Result<(), ModelError> {
    super::endpoint::insert(headers, name, value, true)
        .map_err(|_| ModelError::invalid("the key or token contains characters that are not allowed in headers"))
}

/// Adds the headers of a signature for a service in a region.
fn sign(
    headers: &mut HeaderMap,
    keys: &AwsKeys,
    (region, service): (&str, &str),
    url: &Url,
    sent: &HeaderMap,
    body: &RequestBody,
) -> Result<(), ModelError> {
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
    let given = header(sent, "content-type").map(|value| ("content-type", value)).into_iter();
    let request = SignableRequest::new("POST", url.as_str(), given, SignableBody::Precomputed(body.sha256()))
        .map_err(|error| unsigned(&error))?;
    let (instructions, _) = http_request::sign(request, &params).map_err(|error| unsigned(&error))?.into_parts();
    instructions.headers().try_for_each(|(name, value)| insert(headers, name, value))
}
