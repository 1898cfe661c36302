//! OAuth settings of a server, in code and in files.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::file::EntryError;
use crate::http::is_safe;

/// How to obtain tokens for a server. By default, the client registers itself and a person logs in with a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// The grant type.
    pub grant: OAuthGrant,
    /// The only token issuer to use, as its metadata names it. If `None`, the one that the server names, which gets a
    /// configured secret or assertion only if it has the origin of the server, or if both are on this machine.
    pub issuer: Option<String>,
    /// The client ID, if the client is registered with the authorization server.
    pub client_id: Option<String>,
    /// How the client authenticates.
    pub client_proof: Option<ClientProof>,
    /// The `https` URL of a Client ID Metadata Document. It serves as the client ID at authorization servers that
    /// support this.
    pub client_metadata_url: Option<String>,
    /// The port for the browser redirect, if it is registered. If `None`, any free port.
    pub callback_port: Option<u16>,
    /// Whether the issuer is known to support PKCE (S256), so that a login goes on although its metadata does not say so.
    pub assume_pkce: bool,
    /// The scopes to request. If empty, those that the server asks for.
    pub scopes: Vec<String>,
}

/// The OAuth grant type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// A person logs in with a browser.
    #[default]
    AuthorizationCode,
    /// The client authenticates with its own secret or key.
    ClientCredentials,
    /// An assertion of another issuer, such as a workload identity token (RFC 7523).
    JwtBearer {
        /// The assertion.
        assertion: SecretSource,
    },
    /// A person's ID token, which the company's identity provider exchanges for a grant at the authorization server
    /// (RFC 8693, enterprise-managed authorization).
    EnterpriseManaged {
        /// The ID token.
        id_token: SecretSource,
        /// The identity provider that exchanges it.
        identity_provider: IdentityProvider,
    },
}

/// An identity provider that exchanges ID tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProvider {
    /// Its token endpoint.
    pub token_endpoint: String,
    /// The client ID at the identity provider.
    pub client_id: String,
}

/// How a client authenticates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientProof {
    /// With a client secret.
    Secret(SecretSource),
    /// With a private key (PEM, PKCS #8) that signs an assertion for each request.
    PrivateKey(SecretSource),
}

/// A secret, or a file that holds it. The file is read at each use.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// The secret.
    Value(String),
    /// The path of the file.
    File(PathBuf),
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(_) => f.write_str("Value(..)"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl OAuthConfig {
    /// Whether the issuer gets a secret that is configured, or what is signed with it.
    pub(crate) fn sends_secret(&self) -> bool {
        match (&self.grant, &self.client_proof) {
            (OAuthGrant::JwtBearer { .. }, _) | (_, Some(ClientProof::Secret(_))) => true,
            // Browser logins do not use the key.
            (OAuthGrant::AuthorizationCode, _) => false,
            (_, proof) => proof.is_some(),
        }
    }

    /// Returns the values to redact.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &String> {
        let proof = self.client_proof.as_ref().map(|proof| match proof {
            ClientProof::Secret(source) | ClientProof::PrivateKey(source) => source,
        });
        let assertion = match &self.grant {
            OAuthGrant::JwtBearer { assertion: source } | OAuthGrant::EnterpriseManaged { id_token: source, .. } => {
                Some(source)
            }
            _ => None,
        };
        proof.into_iter().chain(assertion).filter_map(|source| match source {
            SecretSource::Value(value) => Some(value),
            SecretSource::File(_) => None,
        })
    }
}

/// OAuth settings in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct OAuthEntry {
    /// The grant type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantKind>,
    /// The only token issuer to use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// The client ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The client secret; preferably a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The client's private key in PEM; preferably a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    /// The path of the client's private key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_file: Option<String>,
    /// The URL of the Client ID Metadata Document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The port for the browser redirect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// Whether the issuer is known to support PKCE (S256).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub assume_pkce: bool,
    /// The assertion of `jwt_bearer`, or the ID token of `enterprise_managed`; preferably a variable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<String>,
    /// The path of a file with the assertion or token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion_file: Option<String>,
    /// The identity provider of `enterprise_managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<IdentityProvider>,
    /// The scopes to request.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// Whether an address may be that of an issuer. The address of its metadata is another one.
fn is_issuer(address: &str) -> bool {
    is_safe(address) && !address.contains(['?', '#']) && !address.contains("/.well-known/")
}

/// The names of [`OAuthGrant`] variants in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum GrantKind {
    /// [`OAuthGrant::AuthorizationCode`].
    AuthorizationCode,
    /// [`OAuthGrant::ClientCredentials`].
    ClientCredentials,
    /// [`OAuthGrant::JwtBearer`].
    JwtBearer,
    /// [`OAuthGrant::EnterpriseManaged`].
    EnterpriseManaged,
}

impl OAuthEntry {
    /// Replaces variables and validates the settings.
    pub(super) fn config(&self, made: &dyn Fn(&String) -> String) -> Result<OAuthConfig, EntryError> {
        let text = |field: &Option<String>| field.as_ref().map(made);
        let source = |value: &Option<String>, file: &Option<String>, name: &str| match (text(value), text(file)) {
            (Some(_), Some(_)) => {
                Err(EntryError::OAuth(format!("`{name}` and `{name}File` are both given; give only one of them")))
            }
            (Some(value), None) => Ok(Some(SecretSource::Value(value))),
            (None, file) => Ok(file.map(|file| SecretSource::File(file.into()))),
        };
        let secret = text(&self.client_secret).map(|secret| ClientProof::Secret(SecretSource::Value(secret)));
        let key = source(&self.private_key, &self.private_key_file, "privateKey")?.map(ClientProof::PrivateKey);
        if secret.is_some() && key.is_some() {
            return Err(EntryError::OAuth(
                "a client may have either `clientSecret` or a private key, not both".to_owned(),
            ));
        }
        let assertion = source(&self.assertion, &self.assertion_file, "assertion")?;
        let config = OAuthConfig {
            grant: OAuthGrant::AuthorizationCode,
            issuer: text(&self.issuer),
            client_id: text(&self.client_id),
            client_proof: secret.or(key),
            client_metadata_url: text(&self.client_metadata_url),
            callback_port: self.callback_port,
            assume_pkce: self.assume_pkce,
            scopes: self.scopes.clone(),
        };
        if config.issuer.as_ref().is_some_and(|issuer| !is_issuer(issuer)) {
            let words = "`issuer` must be the https address by which the token issuer names itself in its metadata";
            return Err(EntryError::OAuth(words.to_owned()));
        }
        let wants = |what: &str, by: &str| EntryError::OAuth(format!("the grant `{by}` needs {what}"));
        if config.client_id.is_none() && config.client_proof.is_some() {
            return Err(EntryError::OAuth("a secret or a key needs the `clientId` that it belongs to".to_owned()));
        }
        let grant = match self.grant.unwrap_or(GrantKind::AuthorizationCode) {
            GrantKind::AuthorizationCode => OAuthGrant::AuthorizationCode,
            GrantKind::ClientCredentials if config.client_proof.is_none() => {
                return Err(wants("`clientId`, and `clientSecret` or `privateKey`", "client_credentials"));
            }
            GrantKind::ClientCredentials => OAuthGrant::ClientCredentials,
            GrantKind::JwtBearer => {
                let assertion = assertion.ok_or_else(|| wants("`assertion` or `assertionFile`", "jwt_bearer"))?;
                OAuthGrant::JwtBearer { assertion }
            }
            GrantKind::EnterpriseManaged => {
                let by = "enterprise_managed";
                let id_token = assertion.ok_or_else(|| wants("`assertion` or `assertionFile`", by))?;
                let provider = self.identity_provider.as_ref();
                let provider = provider.ok_or_else(|| wants("`identityProvider`", by))?;
                let identity_provider = IdentityProvider {
                    token_endpoint: made(&provider.token_endpoint),
                    client_id: made(&provider.client_id),
                };
                OAuthGrant::EnterpriseManaged { id_token, identity_provider }
            }
        };
        Ok(OAuthConfig { grant, ..config })
    }
}
