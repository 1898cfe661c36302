//! A server that requires tokens and their issuer, on one address.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that requires tokens, and their issuer. Records every request.
#[derive(Clone)]
pub(crate) struct Issuer {
    pub(crate) address: String,
    state: Arc<Mutex<State>>,
}

/// Its settings and state.
pub(crate) struct State {
    requests: Vec<Request>,
    /// Whether tokens are bound to keys and proofs carry nonces.
    pub(crate) dpop: bool,
    /// Whether client metadata documents are supported.
    pub(crate) documents: bool,
    /// Client authentication methods.
    pub(crate) methods: Vec<&'static str>,
    /// Scope that a tool call requires in addition to the general ones, unless its argument `scope` names another.
    pub(crate) call_scope: Option<&'static str>,
    /// Scope that no token gets.
    pub(crate) refused_scope: Option<&'static str>,
    /// Headers of the response to a call without that scope, in place of the usual ones.
    pub(crate) refusal: Option<String>,
    /// Lifetime of tokens in seconds.
    pub(crate) expires_in: Value,
    /// The token endpoint, if it is at another URL.
    pub(crate) elsewhere: Option<String>,
    /// The login page, if it is at another URL.
    pub(crate) page: Option<&'static str>,
    /// Whether dynamic client registration is supported.
    pub(crate) registers: bool,
    /// Whether the server names the URL of its metadata.
    pub(crate) points: bool,
    /// Responses that replace the usual ones, by path.
    pub(crate) places: Vec<(&'static str, Answer)>,
    /// Issued tokens with their scopes.
    tokens: Vec<(String, String)>,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) line: String,
    head: String,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let fits = |line: &&str| line.split(':').next().is_some_and(|found| found.eq_ignore_ascii_case(name));
        Some(self.head.lines().find(fits)?.split_once(':')?.1.trim())
    }

    /// Returns a form parameter.
    pub(crate) fn param(&self, name: &str) -> Option<String> {
        let mut pairs = form_urlencoded::parse(self.body.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }
}

pub(crate) type Answer = (&'static str, String, Value);

pub(crate) fn ok(body: Value) -> Answer {
    ("200 OK", String::new(), body)
}

impl Issuer {
    pub(crate) async fn start() -> Self {
        Self::start_at("127.0.0.1").await
    }

    /// Starts one at another address of this machine. It does not count as a program of this machine.
    pub(crate) async fn start_elsewhere() -> Self {
        Self::start_at("127.0.0.2").await
    }

    async fn start_at(host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = State {
            requests: Vec::new(),
            dpop: false,
            // Some issuers send a string.
            expires_in: json!("3600"),
            documents: false,
            methods: vec!["none", "client_secret_basic"],
            call_scope: None,
            refused_scope: None,
            refusal: None,
            elsewhere: None,
            page: None,
            registers: true,
            points: true,
            places: Vec::new(),
            tokens: Vec::new(),
        };
        let issuer = Self { address, state: Arc::new(Mutex::new(state)) };
        let serving = issuer.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let issuer = serving.clone();
                tokio::spawn(async move { issuer.serve(stream).await });
            }
        });
        issuer
    }

    /// Changes the settings.
    pub(crate) fn with(self, change: impl FnOnce(&mut State)) -> Self {
        change(&mut self.state.lock().unwrap());
        self
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock().unwrap());
    }

    /// Returns the URL of the server.
    pub(crate) fn url(&self) -> String {
        format!("{}/mcp", self.address)
    }

    /// Returns the requests that start with this.
    pub(crate) fn requests(&self, beginning: &str) -> Vec<Request> {
        let state = self.state.lock().unwrap();
        state.requests.iter().filter(|request| request.line.starts_with(beginning)).cloned().collect()
    }

    /// Revokes all tokens issued so far.
    pub(crate) fn revoke(&self) {
        self.state.lock().unwrap().tokens.clear();
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some(request) = read(&mut stream).await else { return };
        let (status, head, body) = self.answer(&request);
        self.state.lock().unwrap().requests.push(request);
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{head}content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
        );
        let _ = stream.write_all(answer.as_bytes()).await;
        let _ = stream.shutdown().await;
    }

    fn answer(&self, request: &Request) -> Answer {
        let base = &self.address;
        let path = request.line.split(' ').nth(1).unwrap().split('?').next().unwrap();
        let mut state = self.state.lock().unwrap();
        let named = |place: &&(&str, Answer)| format!("{} {path}", request.line.split(' ').next().unwrap()) == place.0;
        if let Some((_, answer)) = state.places.iter().find(named) {
            return answer.clone();
        }
        match path {
            "/mcp" | "/mcp/" => state.server(base, request),
            "/meta" => {
                let issuer = state.elsewhere.as_ref().unwrap_or(base);
                ok(
                    json!({"resource": format!("{base}/mcp"), "authorization_servers": [issuer], "scopes_supported": ["notes:read"]}),
                )
            }
            "/.well-known/oauth-authorization-server" => ok(state.metadata(base)),
            "/register" => {
                let client = json!({"client_id": format!("client-of-{base}"), "redirect_uris": [], "token_endpoint_auth_method": "none"});
                ("201 Created", String::new(), client)
            }
            "/token" => state.token(request),
            "/exchange" => ok(json!({"access_token": "grant-of-the-provider", "token_type": "N_A"})),
            _ => ("404 Not Found", String::new(), json!({})),
        }
    }
}

impl State {
    pub(crate) fn metadata(&self, base: &str) -> Value {
        let mut metadata = json!({
            "issuer": base,
            "authorization_endpoint": self.page.map_or_else(|| format!("{base}/authorize"), str::to_owned),
            "token_endpoint": format!("{base}/token"),
            "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": self.methods,
            "client_id_metadata_document_supported": self.documents,
        });
        if !self.registers {
            metadata.as_object_mut().unwrap().remove("registration_endpoint");
        }
        if self.dpop {
            metadata["dpop_signing_alg_values_supported"] = json!(["ES256"]);
        }
        metadata
    }

    fn token(&mut self, request: &Request) -> Answer {
        if self.dpop && !request.header("dpop").is_some_and(|proof| has_nonce(proof, "of-the-issuer")) {
            return ("400 Bad Request", "dpop-nonce: of-the-issuer\r\n".to_owned(), json!({"error": "use_dpop_nonce"}));
        }
        let scopes = request.param("scope").unwrap_or_else(|| "notes:read".to_owned());
        if self.refused_scope.is_some_and(|scope| scopes.contains(scope)) {
            return ("400 Bad Request", String::new(), json!({"error": "invalid_scope"}));
        }
        let token = format!("token-{}", self.requests.len());
        self.tokens.push((token.clone(), scopes));
        let kind = if self.dpop { "DPoP" } else { "Bearer" };
        let expires_in = &self.expires_in;
        ok(json!({"access_token": token, "token_type": kind, "expires_in": expires_in, "refresh_token": "again-1"}))
    }

    /// The MCP server, with one tool.
    fn server(&self, base: &str, request: &Request) -> Answer {
        let scheme = if self.dpop { "DPoP" } else { "Bearer" };
        let pointer =
            if self.points { format!("resource_metadata=\"{base}/meta\"") } else { "realm=\"notes\"".to_owned() };
        let challenge = |more: &str| format!("www-authenticate: {scheme} {pointer}{more}\r\n");
        let sent = request.header("authorization").and_then(|value| value.strip_prefix(scheme)).unwrap_or_default();
        let Some((_, scopes)) = self.tokens.iter().find(|(token, _)| token == sent.trim()) else {
            return ("401 Unauthorized", challenge(", scope=\"notes:read\""), json!({}));
        };
        if self.dpop && !request.header("dpop").is_some_and(|proof| has_nonce(proof, "of-the-server")) {
            let more = ", error=\"use_dpop_nonce\"";
            return ("401 Unauthorized", challenge(more) + "dpop-nonce: of-the-server\r\n", json!({}));
        }
        let message: Value = serde_json::from_str(&request.body).unwrap_or_default();
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "write", "inputSchema": {"type": "object"}}]}),
            "tools/call" => {
                let of_call = message["params"]["arguments"]["scope"].as_str();
                if let Some(scope) =
                    of_call.or(self.call_scope).filter(|scope| !scopes.split(' ').any(|has| has == *scope))
                {
                    let more = format!(", error=\"insufficient_scope\", scope=\"{scope}\"");
                    let refusal = self.refusal.clone().unwrap_or_else(|| challenge(&more));
                    return ("403 Forbidden", refusal, json!({}));
                }
                json!({"content": [{"type": "text", "text": "written"}]})
            }
            method if method.starts_with("notifications/") => return ("202 Accepted", String::new(), Value::Null),
            _ => {
                let error = json!({"code": -32601, "message": "unknown"});
                return ok(json!({"jsonrpc": "2.0", "id": message["id"], "error": error}));
            }
        };
        ok(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    }
}

/// Decodes the header and claims of a signed token.
pub(crate) fn decoded(token: &str) -> (Value, Value) {
    use base64::Engine;
    let part = |number: usize| {
        let part = token.split('.').nth(number).unwrap();
        serde_json::from_slice(&base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    };
    (part(0), part(1))
}

fn has_nonce(proof: &str, nonce: &str) -> bool {
    decoded(proof).1["nonce"] == nonce
}

pub(crate) async fn read(stream: &mut TcpStream) -> Option<Request> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        bytes.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            if count == 0 {
                return None;
            }
            continue;
        };
        let mut request = Request {
            line: head.lines().next().unwrap_or_default().to_owned(),
            head: head.to_owned(),
            body: String::new(),
        };
        let length: usize = request.header("content-length").map_or(0, |length| length.parse().unwrap());
        if body.len() < length && count > 0 {
            continue;
        }
        request.body = body.to_owned();
        return Some(request);
    }
}

/// Returns a query value of the login URL.
fn value(address: &str, name: &str) -> String {
    let url = reqwest::Url::parse(address).unwrap();
    url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap()
}

/// Connects to the redirect URI and sends nothing.
pub(crate) async fn connects(address: &str) -> TcpStream {
    let back = reqwest::Url::parse(&value(address, "redirect_uri")).unwrap();
    TcpStream::connect(("127.0.0.1", back.port().unwrap())).await.unwrap()
}

/// Follows the redirect with this instead of the code. Returns the page.
pub(crate) async fn comes_back_with(address: &str, said: &str, state: Option<&str>) -> String {
    let state = state.map_or_else(|| value(address, "state"), str::to_owned);
    let path = reqwest::Url::parse(&value(address, "redirect_uri")).unwrap().path().to_owned();
    let mut stream = connects(address).await;
    let request = format!("GET {path}?{said}&state={state} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    page
}

/// Follows the redirect as the browser.
pub(crate) async fn comes_back(address: String) {
    let page = comes_back_with(&address, "code=code-1", None).await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}
