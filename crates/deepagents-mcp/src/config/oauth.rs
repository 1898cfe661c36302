//! How tokens for a server are got, in code and in files.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::file::EntryError;

/// How tokens for a server are got. The default registers a client and sends a person to a browser.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OAuthConfig {
    /// What a token is issued for.
    pub grant: OAuthGrant,
    /// The client's id, where one is known to the issuer of tokens.
    pub client_id: Option<String>,
    /// How the client proves that it is the one with this id.
    pub client_proof: Option<ClientProof>,
    /// The `https` address of a document that describes the client (a Client ID Metadata Document). It is the client's id at
    /// issuers that take such ids.
    pub client_metadata_url: Option<String>,
    /// The port of this machine that a browser is sent back to, where the issuer knows it beforehand; any free one without.
    pub callback_port: Option<u16>,
    /// What a token is to cover; what the server asks for where there are none.
    pub scopes: Vec<String>,
}

/// What a token is issued for (the `grant_type` of OAuth).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OAuthGrant {
    /// A person who logs in, in a browser.
    #[default]
    AuthorizationCode,
    /// The client itself, by its secret or its key.
    ClientCredentials,
    /// An assertion that another issuer made, such as the token of a workload (RFC 7523).
    JwtBearer {
        /// The assertion.
        assertion: SecretSource,
    },
    /// The identity token of a person, which the identity provider of a company exchanges for a grant at the server's issuer
    /// (RFC 8693, enterprise-managed authorization).
    EnterpriseManaged {
        /// The identity token.
        id_token: SecretSource,
        /// Where it is exchanged.
        identity_provider: IdentityProvider,
    },
}

/// Who exchanges identity tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentityProvider {
    /// Where tokens are exchanged.
    pub token_endpoint: String,
    /// The client's id there.
    pub client_id: String,
}

/// How a client proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientProof {
    /// A secret.
    Secret(SecretSource),
    /// A private key in PEM (PKCS 8), which signs an assertion for each request.
    PrivateKey(SecretSource),
}

/// A secret, or the file that has it, which is read whenever it is needed.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SecretSource {
    /// The secret.
    Value(String),
    /// A file.
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
    /// What must not be shown to anybody.
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

/// How tokens for a server are got, as a file describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct OAuthEntry {
    /// What a token is issued for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantKind>,
    /// The client's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// The client's secret; better a variable than the secret itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// The client's private key in PEM; better a variable than the key itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key: Option<String>,
    /// A file with the client's private key in PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub private_key_file: Option<String>,
    /// The address of a document that describes the client.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_metadata_url: Option<String>,
    /// The port that a browser is sent back to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub callback_port: Option<u16>,
    /// The assertion of `jwt_bearer`, or the identity token of `enterprise_managed`; better a variable than the token itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion: Option<String>,
    /// A file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assertion_file: Option<String>,
    /// Who exchanges the identity token of `enterprise_managed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity_provider: Option<IdentityProvider>,
    /// What a token is to cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

/// The names of [`OAuthGrant`]s in files.
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
    /// The same with variables replaced, and its parts fitting together.
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
            client_id: text(&self.client_id),
            client_proof: secret.or(key),
            client_metadata_url: text(&self.client_metadata_url),
            callback_port: self.callback_port,
            scopes: self.scopes.clone(),
        };
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
