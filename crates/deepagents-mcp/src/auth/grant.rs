//! Tokens without a person's login: for a client itself, for a workload, or through a company's identity provider.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use form_urlencoded::{Serializer, byte_serialize};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use rmcp::transport::auth::AuthorizationMetadata;
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::authorized::Access;
use super::client::LoginClient;
use super::discovery::{self, Issuer};
use super::dpop::{self, Dpop};
use super::jwt::SigningKey;
use super::{LoginError, merged};
use crate::config::{ClientProof, HttpConfig, IdentityProvider, OAuthConfig, OAuthGrant, SecretSource};
use crate::http::Clients;
use crate::text;

/// Timeout for token requests.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(30);
/// How long before its expiry a token is renewed, unless its lifetime is shorter than ten times that.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);
/// Maximum size of a file with a key or assertion, in bytes.
const MAX_FILE_BYTES: u64 = 64 * 1024;

const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";
const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";
const ID_JAG: &str = "urn:ietf:params:oauth:token-type:id-jag";
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Requests tokens for a server.
pub(super) struct GrantSource {
    server: HttpConfig,
    config: OAuthConfig,
    http: Clients,
}

/// An issued token.
pub(super) struct Issued {
    pub(super) access: Access,
    until: Option<Instant>,
    pub(super) scopes: Vec<String>,
}

impl Issued {
    /// Whether the token has not expired.
    pub(super) fn is_valid(&self) -> bool {
        self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// A token response.
#[derive(Deserialize)]
struct Answer {
    access_token: String,
    #[serde(default)]
    token_type: String,
    expires_in: Option<u64>,
}

/// The parameters of a token request.
type Params<'a> = Vec<(&'a str, String)>;

impl GrantSource {
    pub(super) fn new(server: &HttpConfig, config: &OAuthConfig, http: Clients) -> Self {
        Self { server: server.clone(), config: config.clone(), http }
    }

    /// Requests a token that also covers these scopes.
    pub(super) async fn issue(&self, wanted: Vec<String>) -> Result<Issued, LoginError> {
        let client = LoginClient::new(self.http.clone(), &self.server)?;
        let challenge = client.challenge().await;
        let Issuer { manager, metadata, resource, .. } =
            discovery::issuer(&self.server.url, &self.config, &client, challenge.as_deref()).await?;
        let mut scopes = match self.config.scopes.as_slice() {
            [] => manager.select_initial_scopes(&[]).await,
            scopes => scopes.to_vec(),
        };
        // `offline_access` is useless here: nobody logs in, and there is no refresh token.
        scopes.retain(|scope| scope != "offline_access");
        let scopes = merged(scopes, &wanted);
        if dpop::is_wanted(challenge.as_deref(), &metadata) {
            client.bind(Arc::new(Dpop::generate()?.0));
        }
        let mut params: Params<'_> = vec![("resource", resource.clone())];
        if !scopes.is_empty() {
            params.push(("scope", scopes.join(" ")));
        }
        match &self.config.grant {
            OAuthGrant::JwtBearer { assertion } => {
                params.extend([("grant_type", BEARER.to_owned()), ("assertion", secret(assertion).await?)]);
            }
            OAuthGrant::EnterpriseManaged { id_token, identity_provider } => {
                let assertion = self.exchanged(id_token, identity_provider, (&metadata, resource), &scopes).await?;
                params.extend([("grant_type", BEARER.to_owned()), ("assertion", assertion)]);
            }
            OAuthGrant::ClientCredentials | OAuthGrant::AuthorizationCode => {
                params.push(("grant_type", "client_credentials".to_owned()));
            }
        }
        let basic = self.identify(&metadata, &mut params).await?;
        let answer = request(&client, &metadata.token_endpoint, &params, basic).await?;
        // A token whose expiry overflows the clock is used until it is refused.
        let life = answer.expires_in.map(Duration::from_secs);
        let until = life.and_then(|life| Instant::now().checked_add(life - RENEWAL_MARGIN.min(life / 10)));
        let dpop = client.dpop().filter(|_| answer.token_type.eq_ignore_ascii_case("dpop")).cloned();
        Ok(Issued { access: Access { token: answer.access_token, dpop }, until, scopes })
    }

    /// Authenticates the client in the parameters, or returns the value of an `Authorization` header.
    async fn identify(
        &self,
        metadata: &AuthorizationMetadata,
        params: &mut Params<'_>,
    ) -> Result<Option<String>, LoginError> {
        let Some(id) = &self.config.client_id else { return Ok(None) };
        let methods = metadata.additional_fields.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let takes = |method: &str| methods.is_some_and(|methods| methods.iter().any(|known| known == method));
        match &self.config.client_proof {
            None => params.push(("client_id", id.clone())),
            Some(ClientProof::Secret(source)) if takes("client_secret_post") && !takes("client_secret_basic") => {
                params.extend([("client_id", id.clone()), ("client_secret", secret(source).await?)]);
            }
            Some(ClientProof::Secret(source)) => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", encoded(id), encoded(&secret(source).await?));
                return Ok(Some(format!("Basic {}", STANDARD.encode(pair))));
            }
            Some(ClientProof::PrivateKey(source)) => {
                let key = SigningKey::from_pem(&secret(source).await?)?;
                let audience = metadata.issuer.as_deref().unwrap_or(&metadata.token_endpoint);
                let assertion = key.client_assertion(id, audience)?;
                params.extend([("client_assertion_type", ASSERTION.to_owned()), ("client_assertion", assertion)]);
            }
        }
        Ok(None)
    }

    /// Exchanges an ID token at the identity provider for a grant at the server's issuer.
    async fn exchanged(
        &self,
        id_token: &SecretSource,
        provider: &IdentityProvider,
        (metadata, resource): (&AuthorizationMetadata, String),
        scopes: &[String],
    ) -> Result<String, LoginError> {
        let audience = metadata.issuer.clone().unwrap_or_else(|| metadata.token_endpoint.clone());
        let mut params: Params<'_> = vec![
            ("grant_type", EXCHANGE.to_owned()),
            ("requested_token_type", ID_JAG.to_owned()),
            ("audience", audience),
            ("resource", resource),
            ("subject_token", secret(id_token).await?),
            ("subject_token_type", ID_TOKEN.to_owned()),
            ("client_id", provider.client_id.clone()),
        ];
        if !scopes.is_empty() {
            params.push(("scope", scopes.join(" ")));
        }
        // A separate client: the DPoP proof binds the server's token, not the provider's grant.
        let client = LoginClient::new(self.http.clone(), &self.server)?;
        Ok(request(&client, &provider.token_endpoint, &params, None).await?.access_token)
    }
}

/// Sends a token request.
async fn request(
    client: &LoginClient,
    endpoint: &str,
    params: &Params<'_>,
    basic: Option<String>,
) -> Result<Answer, LoginError> {
    let refused = |reason: String| LoginError::Refused(text::line(&reason, 400));
    if !crate::http::is_safe(endpoint) {
        return Err(refused(format!("tokens are issued at {endpoint}, to which secrets would be sent unencrypted")));
    }
    let body = Serializer::new(String::new()).extend_pairs(params).finish();
    let mut made = http::Request::post(endpoint)
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(ACCEPT, "application/json");
    if let Some(basic) = basic {
        made = made.header(AUTHORIZATION, basic);
    }
    let made = made.body(body.into_bytes()).map_err(|error| refused(error.to_string()))?;
    let answer =
        client.send(made, Some(TOKEN_TIMEOUT)).await.map_err(|error| refused(format!("{endpoint}: {error}")))?;
    if !answer.status().is_success() {
        let said: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        let word = |name: &str| said.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (status, error, words) = (answer.status().as_u16(), word("error"), word("error_description"));
        return Err(refused(format!("the token issuer refused with status {status}: {error} {words}")));
    }
    // The response may contain a token, so it is not shown.
    serde_json::from_slice(answer.body()).map_err(|_| refused(format!("the answer of {endpoint} is not a token")))
}

/// Returns a secret, read from its file if it has one.
pub(super) async fn secret(source: &SecretSource) -> Result<String, LoginError> {
    match source {
        SecretSource::Value(value) => Ok(value.clone()),
        SecretSource::File(path) => {
            let failed = |reason: String| LoginError::Secret { path: path.display().to_string(), reason };
            let size = tokio::fs::metadata(path).await.map_err(|error| failed(error.to_string()))?.len();
            if size > MAX_FILE_BYTES {
                return Err(failed(format!("it has more than {MAX_FILE_BYTES} bytes")));
            }
            let text = tokio::fs::read_to_string(path).await.map_err(|error| failed(error.to_string()))?;
            Ok(text.trim().to_owned())
        }
    }
}
