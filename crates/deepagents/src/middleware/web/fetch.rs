//! `fetch_url`.

use std::error::Error as StdError;
use std::time::Duration;

use deepagents_core::tool::{Tool, ToolContext, ToolError, ToolOutput};
use deepagents_models::http_client;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION};
use reqwest::{Client, Response, Url};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::guard::{Guard, shown};
use super::page::{self, Kind};
use super::{FetchError, wrap_untrusted};

/// Maximum number of characters of a content type to show.
const MAX_KIND_CHARS: usize = 60;

/// Options of fetching.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchOptions {
    /// Time limit per page, including redirects.
    pub timeout: Duration,
    /// Maximum number of bytes to read.
    pub max_bytes: usize,
    /// Maximum number of redirects to follow.
    pub max_redirects: usize,
    /// Hosts to fetch from even if their addresses are not public, such as those of an intranet.
    pub private_hosts: Vec<String>,
}

impl Default for FetchOptions {
    fn default() -> Self {
        Self { timeout: Duration::from_secs(30), max_bytes: 2 << 20, max_redirects: 5, private_hosts: Vec::new() }
    }
}

/// The tool `fetch_url`, which fetches a page as Markdown; see the [module](super).
#[derive(Debug)]
pub struct FetchUrl {
    options: FetchOptions,
    guard: Guard,
    client: OnceCell<Client>,
}

/// The arguments of `fetch_url`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct FetchArgs {
    /// A URL that begins with http:// or https://.
    url: String,
}

/// A fetched page.
struct Page {
    url: Url,
    text: String,
    /// Whether the text is truncated.
    cut: bool,
}

impl Default for FetchUrl {
    fn default() -> Self {
        let options = FetchOptions::default();
        Self { guard: Guard::new(&options.private_hosts), options, client: OnceCell::new() }
    }
}

impl FetchUrl {
    /// Creates the tool with these options.
    ///
    /// # Errors
    /// Returns an error if an option is invalid.
    pub fn new(options: FetchOptions) -> Result<Self, FetchError> {
        if options.timeout.is_zero() || options.max_bytes == 0 {
            return Err(FetchError::Option("fetching needs some time and some bytes".to_owned()));
        }
        Ok(Self { guard: Guard::new(&options.private_hosts), options, client: OnceCell::new() })
    }

    async fn client(&self, url: &Url) -> Result<&Client, FetchError> {
        let failed = |reason: String| FetchError::Transport { url: shown(url), reason };
        let make = || async {
            let builder = http_client().await.map_err(|error| failed(error.to_string()))?;
            // Every redirect is checked individually.
            let builder = builder.dns_resolver(self.guard.clone()).redirect(reqwest::redirect::Policy::none());
            builder.build().map_err(|error| failed(error.to_string()))
        };
        self.client.get_or_try_init(make).await
    }

    async fn page(&self, mut url: Url) -> Result<Page, FetchError> {
        for _ in 0..=self.options.max_redirects {
            self.guard.check(&url)?;
            let request = self.client(&url).await?.get(url.clone());
            let request = request.header(ACCEPT, "text/html, text/*;q=0.9, application/json;q=0.9, */*;q=0.1");
            let request = request.header(ACCEPT_ENCODING, "identity");
            let response = request.send().await.map_err(|error| transport(&url, error))?;
            let status = response.status();
            if !status.is_redirection() {
                if !status.is_success() {
                    return Err(FetchError::Status { url: shown(&url), status: status.as_u16() });
                }
                return self.read(url, response).await;
            }
            // Servers send non-ASCII bytes in this header, which browsers accept.
            let target = response.headers().get(LOCATION).map(|target| String::from_utf8_lossy(target.as_bytes()));
            let reason = "it redirects to an address that cannot be read".to_owned();
            let next = target.and_then(|target| url.join(&target).ok());
            url = next.ok_or_else(|| FetchError::BadUrl { url: shown(&url), reason })?;
        }
        Err(FetchError::Redirects { url: shown(&url), limit: self.options.max_redirects })
    }

    async fn read(&self, url: Url, response: Response) -> Result<Page, FetchError> {
        let not_text =
            |kind: &str| FetchError::NotText { url: shown(&url), kind: kind.chars().take(MAX_KIND_CHARS).collect() };
        let header = |name: HeaderName| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().trim().to_owned()
        };
        let coding = header(CONTENT_ENCODING);
        // Compression was not requested, and a few bytes can expand to gigabytes.
        if !coding.is_empty() && !coding.eq_ignore_ascii_case("identity") {
            return Err(not_text(&format!("compressed ({coding})")));
        }
        let content_type = header(CONTENT_TYPE);
        let Some(kind) = page::kind(&content_type) else {
            return Err(not_text(content_type.split(';').next().unwrap_or_default().trim()));
        };
        let (mut body, mut cut, mut pieces) = (Vec::new(), false, response.bytes_stream());
        while let Some(piece) = pieces.next().await {
            body.extend_from_slice(&piece.map_err(|error| transport(&url, error))?);
            if body.len() > self.options.max_bytes {
                body.truncate(self.options.max_bytes);
                cut = true;
                break;
            }
        }
        let text = page::decode(&body, &content_type);
        let text = match kind {
            Kind::Text => text,
            Kind::Html => match page::markdown(text).await {
                Ok(Some(text)) => text,
                Ok(None) => return Err(FetchError::TooDeep { url: shown(&url), limit: page::MAX_DEPTH }),
                Err(error) => return Err(FetchError::Transport { url: shown(&url), reason: error.to_string() }),
            },
        };
        Ok(Page { url, text, cut })
    }
}

impl Tool for FetchUrl {
    type Args = FetchArgs;

    fn name(&self) -> &str {
        "fetch_url"
    }

    fn description(&self) -> &str {
        "Fetches a page of the public web as Markdown."
    }

    /// A URL may convey information to the server, so a fetch counts as an external effect; repeating it is harmless.
    fn idempotent(&self, _args: &FetchArgs) -> bool {
        true
    }

    async fn call(&self, args: FetchArgs, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let bad =
            |error: &dyn std::fmt::Display| FetchError::BadUrl { url: args.url.clone(), reason: error.to_string() };
        let url = Url::parse(args.url.trim()).map_err(|error| bad(&error))?;
        let limit = self.options.timeout;
        let late = |_| FetchError::Timeout { url: shown(&url), limit };
        let page = tokio::time::timeout(limit, self.page(url.clone())).await.map_err(late)??;
        let text = if page.text.trim().is_empty() { "(no text)" } else { &page.text };
        let mut out = wrap_untrusted("web_page", &format!(" url=\"{}\"", shown(&page.url)), text);
        if page.cut {
            out += &format!("\n[only its first {} bytes were read]", self.options.max_bytes);
        }
        Ok(ToolOutput::text(out))
    }
}

/// Converts an error below HTTP: a blocked address, or the root cause.
fn transport(url: &Url, error: reqwest::Error) -> FetchError {
    let error = error.without_url();
    let mut cause: &(dyn StdError + 'static) = &error;
    loop {
        if let Some(refused) = cause.downcast_ref::<FetchError>() {
            return refused.clone();
        }
        match cause.source() {
            Some(below) => cause = below,
            None => return FetchError::Transport { url: shown(url), reason: cause.to_string() },
        }
    }
}
