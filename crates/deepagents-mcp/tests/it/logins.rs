//! Logins, with an authorization server that says yes.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use deepagents_mcp::{Entry, ServerConfig, TransportConfig, auth};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A server that wants a token and whoever issues it, at one address. It keeps every request.
struct Issuer {
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Issuer {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (base, log) = (address.clone(), requests.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, base.clone(), log.clone()));
            }
        });
        Self { address, requests }
    }

    fn request(&self, beginning: &str) -> String {
        let requests = self.requests.lock().unwrap();
        requests.iter().find(|request| request.starts_with(beginning)).cloned().unwrap_or_default()
    }
}

async fn answer(mut stream: TcpStream, base: String, log: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let count = stream.read(&mut buffer).await.unwrap_or(0);
        request.extend_from_slice(&buffer[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { if count == 0 { return } else { continue } };
        let length = head
            .to_lowercase()
            .lines()
            .find_map(|l| l.strip_prefix("content-length:").map(|n| n.trim().parse().unwrap()));
        if body.len() < length.unwrap_or(0) && count > 0 {
            continue;
        }
        log.lock().unwrap().push(text);
        break;
    }
    let text = String::from_utf8_lossy(&request).into_owned();
    let path = text.split(' ').nth(1).unwrap().split('?').next().unwrap().to_owned();
    let (status, head, body) = match path.as_str() {
        "/mcp" => {
            let challenge =
                format!("www-authenticate: Bearer resource_metadata=\"{base}/meta\", scope=\"notes:read\"\r\n");
            ("401 Unauthorized", challenge, json!({}))
        }
        "/meta" => {
            let meta = json!({"resource": format!("{base}/mcp"), "authorization_servers": [base], "scopes_supported": ["notes:read"]});
            ("200 OK", String::new(), meta)
        }
        "/.well-known/oauth-authorization-server" => {
            let meta = json!({
                "issuer": base,
                "authorization_endpoint": format!("{base}/authorize"),
                "token_endpoint": format!("{base}/token"),
                "registration_endpoint": format!("{base}/register"),
                "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"],
            });
            ("200 OK", String::new(), meta)
        }
        "/register" => (
            "201 Created",
            String::new(),
            json!({"client_id": "client-1", "redirect_uris": [], "token_endpoint_auth_method": "none"}),
        ),
        "/token" => (
            "200 OK",
            String::new(),
            json!({"access_token": "token-1", "token_type": "Bearer", "expires_in": 3600, "refresh_token": "again-1"}),
        ),
        _ => ("404 Not Found", String::new(), json!({})),
    };
    let body = body.to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\n{head}content-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let _ = stream.write_all(answer.as_bytes()).await;
    let _ = stream.shutdown().await;
}

/// Goes where a browser is sent back to.
async fn comes_back(address: String) {
    let url = reqwest::Url::parse(&address).unwrap();
    let query =
        |name: &str| url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap();
    let back = reqwest::Url::parse(&query("redirect_uri")).unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", back.port().unwrap())).await.unwrap();
    let request = format!("GET {}?code=code-1&state={} HTTP/1.1\r\nhost: x\r\n\r\n", back.path(), query("state"));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).await.unwrap();
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

fn http(config: ServerConfig) -> deepagents_mcp::HttpConfig {
    match config.transport {
        TransportConfig::Http(http) => http,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_login_registers_proves_itself_names_the_resource_and_keeps_the_tokens_for_nobody_else() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = http(ServerConfig::http(format!("{}/mcp", issuer.address)));
    let shown = Arc::new(Mutex::new(String::new()));
    let to = shown.clone();
    let show = move |address: &str| {
        address.clone_into(&mut to.lock().unwrap());
        tokio::spawn(comes_back(address.to_owned()));
    };
    auth::login("notes", &config, folder.path(), show).await.unwrap();
    let address = shown.lock().unwrap().clone();
    for part in ["code_challenge_method=S256", "resource=", "client_id=client-1", "notes%3Aread"] {
        assert!(address.contains(part), "{part} is not in {address}");
    }
    let exchange = issuer.request("POST /token");
    assert!(
        exchange.contains("code_verifier=") && exchange.contains("resource=") && exchange.contains("code=code-1"),
        "{exchange}"
    );
    assert!(auth::is_logged_in("notes", &config, folder.path()).await);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // Another address of the same name has none of it.
    let other = http(ServerConfig::http("http://127.0.0.1:9/mcp"));
    assert!(!auth::is_logged_in("notes", &other, folder.path()).await);
    assert!(auth::logout("notes", &config, folder.path()).await.unwrap());
    assert!(!auth::is_logged_in("notes", &config, folder.path()).await);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_client_that_is_known_already_does_not_register() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let entry: Entry = serde_json::from_value(json!({
        "url": format!("{}/mcp", issuer.address),
        "oauth": {"clientId": "known", "clientSecret": "${SECRET}"},
    }))
    .unwrap();
    let config = http(entry.config(&|_| Some("hush-hush".to_owned())).unwrap());
    assert!(!format!("{config:?}").contains("hush-hush"));
    auth::login("notes", &config, folder.path(), |address| drop(tokio::spawn(comes_back(address.to_owned()))))
        .await
        .unwrap();
    assert_eq!(issuer.request("POST /register"), "");
    assert!(!issuer.request("POST /token").is_empty());
}

#[tokio::test]
async fn a_login_that_the_issuer_refuses_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = http(ServerConfig::http("http://127.0.0.1:9/mcp"));
    let refused = auth::login("gone", &config, folder.path(), |_| panic!("there is nothing to show")).await;
    assert!(refused.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
