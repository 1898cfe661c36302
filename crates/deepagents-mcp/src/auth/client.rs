//! The HTTP requests of a login.

use std::sync::Arc;

use rmcp::transport::auth::{AuthError, AuthorizationManager};
use rmcp::transport::{OAuthHttpClient, OAuthHttpClientError, OAuthHttpClientFuture, OAuthHttpRequest};

/// Bytes of an answer.
const MOST: usize = 1 << 20;

/// Makes the requests of a login with our client, which follows redirects on the same origin alone.
struct LoginClient(reqwest::Client);

/// What knows the tokens of a server.
pub(super) async fn manager(url: &str, client: reqwest::Client) -> Result<AuthorizationManager, AuthError> {
    AuthorizationManager::new_with_oauth_http_client(url, Arc::new(LoginClient(client))).await
}

impl OAuthHttpClient for LoginClient {
    fn execute(&self, request: OAuthHttpRequest) -> OAuthHttpClientFuture<'_> {
        Box::pin(async move {
            let mut made = reqwest::Request::try_from(request.request)?;
            *made.timeout_mut() = request.timeout;
            let mut answer = self.0.execute(made).await?;
            let mut built = http::Response::builder().status(answer.status()).version(answer.version());
            for (name, value) in answer.headers() {
                built = built.header(name, value);
            }
            let mut body = Vec::new();
            while let Some(chunk) = answer.chunk().await? {
                if body.len() + chunk.len() > MOST {
                    return Err(OAuthHttpClientError::from("the answer is too long"));
                }
                body.extend_from_slice(&chunk);
            }
            Ok(built.body(body)?)
        })
    }
}
