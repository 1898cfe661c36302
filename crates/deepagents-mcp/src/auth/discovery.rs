//! Discovers the token issuer of a server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::header::LOCATION;
use http::{Method, Response, StatusCode};
use reqwest::Url;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, ProtectedResourceMetadataInvalidReason as Invalid,
};
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};
use serde_json::{Value, json};

use super::checks;
use super::client::{self, LoginClient};
use super::{LoginError, merged};
use crate::config::OAuthConfig;
use crate::sync::lock;
use crate::text;

/// Timeout for one metadata request.
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of issuers tried.
const MAX_ISSUERS: usize = 8;
/// Well-known locations of authorization server metadata.
const DESCRIPTIONS: [&str; 2] = ["/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"];

/// The last location in which the metadata of a server is looked for.
const LAST_OF_SERVER: &str = "/.well-known/oauth-protected-resource";

/// The token issuer of a server.
pub(super) struct Issuer {
    pub(super) manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    /// Whether the issuer publishes this metadata. Otherwise it holds default endpoints.
    pub(super) is_published: bool,
    /// The resource to request tokens for.
    pub(super) resource: String,
}

/// Discovers the issuer of a server's tokens: the configured one, or the first issuer named by the server that publishes
/// metadata, or the server's own origin if it names none. Locations with missing or unusable metadata are skipped.
/// Default endpoints are assumed only if no location has, or may have, any metadata.
pub(super) async fn issuer(
    url: &str,
    oauth: &OAuthConfig,
    client: &LoginClient,
    challenge: Option<&str>,
) -> Result<Issuer, LoginError> {
    let mut base = client::resource(url).to_owned();
    let mut issuer_index = 0;
    let mut problems: Vec<String> = Vec::new();
    loop {
        let places = Arc::new(MetadataLookup::new(client.clone(), &base, oauth.issuer.clone(), issuer_index));
        let mut manager = AuthorizationManager::new_with_oauth_http_client(base.as_str(), places.clone()).await?;
        let resolved = manager.resolve_metadata_from_challenge(challenge).await;
        let seen = places.seen();
        problems = merged(problems, &seen.problems);
        let more_issuers = issuer_index + 1 < seen.issuers.len().min(MAX_ISSUERS);
        match resolved {
            Ok(resolution) if resolution.source.is_discovered() || problems.is_empty() => {
                let (metadata, is_published) = (resolution.metadata, resolution.source.is_discovered());
                checks::check_trust(oauth, url, &metadata)?;
                checks::check_endpoints(&metadata)?;
                manager.set_metadata(metadata.clone());
                return Ok(Issuer { manager, metadata, is_published, resource: seen.resource.unwrap_or(base) });
            }
            Ok(_) => {
                let words = format!("it is not known who issues its tokens: {}", problems.join("; "));
                return Err(LoginError::Refused(text::line(&words, 400)));
            }
            Err(AuthError::ProtectedResourceMetadataInvalid { reason, .. }) if ends_with_slash(&base, &reason) => {
                base.push('/');
            }
            Err(_) if more_issuers => issuer_index += 1,
            Err(error) => {
                let words = std::iter::once(error.to_string()).chain(problems).collect::<Vec<_>>();
                return Err(LoginError::Refused(text::line(&words.join("; "), 400)));
            }
        }
    }
}

/// Whether the server names itself by its URL plus a slash. Checked for one slash only: the server may append another
/// to every URL requested.
fn ends_with_slash(base: &str, reason: &Invalid) -> bool {
    let is_one = !base.ends_with('/');
    is_one
        && matches!(reason, Invalid::ResourceMismatch { permitted, .. } if permitted.as_str().strip_suffix('/') == Some(base))
}

/// Looks up the metadata locations in turn. Unusable metadata is reported as missing, since the search would otherwise
/// end there.
struct MetadataLookup {
    client: LoginClient,
    base: String,
    /// The configured issuer, which replaces those that the server names.
    configured: Option<String>,
    /// Index of the issuer to show. The others are hidden.
    issuer_index: usize,
    seen: Mutex<Findings>,
}

/// What the lookups have found.
#[derive(Clone, Default)]
struct Findings {
    /// The issuers named by the server.
    issuers: Vec<String>,
    /// The resource identifier of the server.
    resource: Option<String>,
    /// Why locations were skipped that have metadata, or may have.
    problems: Vec<String>,
}

type Answer = Response<Vec<u8>>;

impl MetadataLookup {
    fn new(client: LoginClient, base: &str, configured: Option<String>, issuer_index: usize) -> Self {
        Self { client, base: base.to_owned(), configured, issuer_index, seen: Mutex::default() }
    }

    fn seen(&self) -> Findings {
        lock(&self.seen).clone()
    }

    /// Fetches a location. If no location has the metadata of the server, the last one answers with the configured
    /// issuer.
    async fn look(&self, request: OAuthHttpRequest) -> Result<Answer, OAuthHttpClientError> {
        let OAuthHttpRequest { request, timeout, .. } = request;
        if request.method() != Method::GET {
            return self.client.send(request, timeout).await;
        }
        let place = Url::parse(&request.uri().to_string())?;
        let answer = self.fetch(&place, request).await?;
        if place.path() != LAST_OF_SERVER || self.configured.is_none() || lock(&self.seen).resource.is_some() {
            return Ok(answer);
        }
        let answer = Response::builder().status(StatusCode::OK).body(Vec::new())?;
        self.read(&place, answer, json!({"resource": self.base}))
    }

    async fn fetch(&self, place: &Url, request: http::Request<Vec<u8>>) -> Result<Answer, OAuthHttpClientError> {
        let answer = match self.client.send(request, Some(METADATA_TIMEOUT)).await {
            Ok(answer) => answer,
            Err(error) => return self.mark_missing(place, &crate::http::reason(error.as_ref())),
        };
        let status = answer.status();
        if status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429) {
            return self.mark_missing(place, &format!("HTTP status {}", status.as_u16()));
        }
        if redirects_elsewhere(place, &answer) {
            return not_found_response();
        }
        match serde_json::from_slice::<Value>(answer.body()) {
            Ok(document) if status == StatusCode::OK => self.read(place, answer, document),
            _ => Ok(answer),
        }
    }

    fn read(&self, place: &Url, answer: Answer, mut document: Value) -> Result<Answer, OAuthHttpClientError> {
        let said = |name: &str| document.get(name).and_then(Value::as_str).map(str::to_owned);
        if let Some(path) = described_path(place) {
            let expected = self.expected(place, path);
            return match said("issuer").filter(|issuer| !checks::is_same(issuer, &expected)) {
                Some(other) => self.mark_missing(place, &format!("it describes {other}, not {expected}")),
                None => Ok(answer),
            };
        }
        let mut issuers: Vec<String> = said("authorization_server").into_iter().collect();
        if let Some(listed) = document.get("authorization_servers") {
            // Some servers name their only issuer without a list.
            let listed = listed.as_array().map_or(std::slice::from_ref(listed), Vec::as_slice);
            issuers.extend(listed.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        if let Some(configured) = &self.configured {
            issuers = vec![configured.clone()];
        }
        let resource = said("resource").filter(|resource| is_within(&self.base, resource));
        let Some(resource) = resource else { return Ok(answer) };
        if let (Some(fields), Some(shown)) = (document.as_object_mut(), issuers.get(self.issuer_index)) {
            fields.remove("authorization_server");
            fields.insert("authorization_servers".to_owned(), json!([shown]));
        }
        let mut seen = lock(&self.seen);
        (seen.issuers, seen.resource) = (issuers, Some(resource));
        drop(seen);
        let (head, _) = answer.into_parts();
        Ok(Response::from_parts(head, document.to_string().into_bytes()))
    }

    /// Returns the issuer that a location must describe.
    fn expected(&self, place: &Url, path: &str) -> String {
        let seen = lock(&self.seen);
        // An issuer given as a relative path or by its metadata URL is identified by the location itself.
        let is_whole = |issuer: &&String| !issuer.contains("/.well-known/") && Url::parse(issuer).is_ok();
        let named = seen.issuers.get(self.issuer_index).filter(is_whole);
        named.cloned().unwrap_or_else(|| {
            let mut issuer = place.clone();
            issuer.set_path(path);
            issuer.to_string()
        })
    }

    /// Reports a location as missing and records why.
    fn mark_missing(&self, place: &Url, why: &str) -> Result<Answer, OAuthHttpClientError> {
        // The response of the MCP endpoint itself says nothing about issuers.
        if !Url::parse(&self.base).is_ok_and(|base| base == *place) {
            let problem = format!("{place}: {}", text::line(why, 200));
            lock(&self.seen).problems.push(problem);
        }
        not_found_response()
    }
}

impl OAuthHttpClient for MetadataLookup {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(self.look(request))
    }
}

fn not_found_response() -> Result<Answer, OAuthHttpClientError> {
    Ok(Response::builder().status(StatusCode::NOT_FOUND).body(Vec::new())?)
}

/// Whether a response redirects to another origin, for example to a page for people.
fn redirects_elsewhere(place: &Url, answer: &Answer) -> bool {
    let to = answer.headers().get(LOCATION).and_then(|to| to.to_str().ok());
    let to = to.filter(|_| answer.status().is_redirection()).and_then(|to| place.join(to).ok());
    to.is_some_and(|to| to.origin() != place.origin())
}

/// Returns the path of the issuer that a location describes, if it is a metadata location.
fn described_path(place: &Url) -> Option<&str> {
    let path = place.path();
    DESCRIPTIONS.iter().find_map(|known| {
        let inserted = path.strip_prefix(known).filter(|rest| rest.is_empty() || rest.starts_with('/'));
        inserted.or_else(|| path.strip_suffix(known))
    })
}

/// Whether a server at a URL may use this resource identifier.
fn is_within(base: &str, resource: &str) -> bool {
    let (Ok(base), Ok(resource)) = (Url::parse(base), Url::parse(resource)) else { return false };
    let rest = base.path().strip_prefix(resource.path());
    let fits = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || resource.path().ends_with('/'));
    base.origin() == resource.origin() && fits
}
