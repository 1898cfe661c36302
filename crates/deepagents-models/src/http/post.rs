//! Plain requests, for services of the user's that are no models.

use std::time::Duration;

use deepagents_core::model::ModelError;
use futures_util::StreamExt;
use reqwest::Url;

use super::ClientPool;
use super::client::ClientKind;

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// What a service answered.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PostAnswer {
    /// The HTTP status.
    pub status: u16,
    /// The body; bytes that are not UTF-8 are replaced.
    pub body: String,
}

impl ClientPool {
    /// Posts JSON to a service that is no model, such as one that an application tells of what happens, and gives its
    /// answer, whatever its status. Redirects are not followed. An answer of more than so many bytes is an error. There is no
    /// limit of time but for connecting: dropping the future gives the request up.
    ///
    /// # Errors
    /// When the address or a header cannot be used, and when there is no answer.
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

    /// Gets a document from a service that is no model, such as the keys of an issuer of tokens, as [`post`](Self::post)
    /// does.
    ///
    /// # Errors
    /// When the address cannot be used, and when there is no answer.
    pub async fn fetch(&self, url: &str, proxy: Option<String>, limit: usize) -> Result<PostAnswer, ModelError> {
        let (client, address) = self.client_of(url, proxy).await?;
        answer(client.get(address).header("accept", "application/json"), limit).await
    }

    async fn client_of(&self, url: &str, proxy: Option<String>) -> Result<(reqwest::Client, Url), ModelError> {
        let address =
            Url::parse(url).map_err(|error| ModelError::invalid(format!("`{url}` is not a valid address: {error}")))?;
        let kind = ClientKind { tls: address.scheme() == "https", connect: CONNECT, proxy };
        Ok((self.get(&kind).await?, address))
    }
}

/// Sends a request, and reads its answer.
async fn answer(request: reqwest::RequestBuilder, limit: usize) -> Result<PostAnswer, ModelError> {
    let failed = |error: reqwest::Error| ModelError::transport(error.without_url().to_string());
    let response = request.send().await.map_err(failed)?;
    let (status, mut bytes) = (response.status().as_u16(), Vec::new());
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(failed)?);
        if bytes.len() > limit {
            return Err(ModelError::transport(format!("the answer is longer than {limit} bytes")));
        }
    }
    Ok(PostAnswer { status, body: String::from_utf8_lossy(&bytes).into_owned() })
}
