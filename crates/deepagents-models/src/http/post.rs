//! Plain HTTP requests to services other than models.

use deepagents_core::model::ModelError;
use reqwest::Url;

use super::client::{CONNECT_TIMEOUT, ClientKind};
use super::{ClientPool, size};

/// Response of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body, with invalid UTF-8 replaced.
    pub body: String,
}

impl ClientPool {
    /// Posts JSON to a service that is not a model, such as a webhook, and returns its response, whatever the status.
    /// Does not follow redirects. A response of more than `limit` bytes is an error. There is no timeout except for
    /// connecting; drop the future to cancel the request.
    ///
    /// # Errors
    /// Returns an error if the address or a header cannot be used, or if there is no response.
    pub async fn post(
        &self,
        url: &str,
        headers: &[(String, String)],
        body: String,
        proxy: Option<String>,
        limit: usize,
    ) -> Result<PostAnswer, ModelError> {
        let (client, address) = self.client_of(url, proxy).await?;
        let mut request = client.post(address).header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(name, value);
        }
        answer(request.body(body), limit).await
    }

    /// Fetches a document from a service that is not a model, such as the keys of a token issuer, with the same rules
    /// as [`post`](Self::post).
    ///
    /// # Errors
    /// Returns an error if the address cannot be used, or if there is no response.
    pub async fn fetch(&self, url: &str, proxy: Option<String>, limit: usize) -> Result<PostAnswer, ModelError> {
        let (client, address) = self.client_of(url, proxy).await?;
        answer(client.get(address).header("accept", "application/json"), limit).await
    }

    async fn client_of(&self, url: &str, proxy: Option<String>) -> Result<(reqwest::Client, Url), ModelError> {
        let address =
            Url::parse(url).map_err(|error| ModelError::invalid(format!("`{url}` is not a valid address: {error}")))?;
        let kind = ClientKind { tls: address.scheme() == "https", connect: CONNECT_TIMEOUT, proxy };
        Ok((self.get(&kind, 0).await?, address))
    }
}

/// Sends a request and reads the response.
async fn answer(request: reqwest::RequestBuilder, limit: usize) -> Result<PostAnswer, ModelError> {
    let failed = |error: reqwest::Error| ModelError::transport(error.without_url().to_string());
    let response = request.send().await.map_err(failed)?;
    let status = response.status().as_u16();
    match size::read(response, limit).await.map_err(failed)? {
        (_, true) => Err(ModelError::transport(format!("the answer is longer than {limit} bytes"))),
        (body, false) => Ok(PostAnswer { status, body: String::from_utf8_lossy(&body).into_owned() }),
    }
}
