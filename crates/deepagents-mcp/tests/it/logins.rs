//! Logins with an issuer that grants everything.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use deepagents_mcp::{Entry, HttpConfig, McpOptions, McpServers, ServerConfig, TransportConfig, auth};
use serde_json::{Value, json};

use crate::issuer::{Issuer, comes_back, comes_back_with, connects, decoded, ok};
use crate::script::{agent, one_call, options, results, run};

pub(crate) fn http(config: &ServerConfig) -> HttpConfig {
    match &config.transport {
        TransportConfig::Http(http) => http.clone(),
        other => panic!("{other:?}"),
    }
}

/// The configuration for the server of an issuer, with these OAuth settings.
pub(crate) fn entry(issuer: &Issuer, oauth: &Value) -> ServerConfig {
    let entry: Entry = serde_json::from_value(json!({"url": issuer.url(), "oauth": oauth})).unwrap();
    entry.config(&|_| Some("hush-hush".to_owned())).unwrap()
}

/// Logs in. Returns the URL that was shown.
pub(crate) async fn login(config: &ServerConfig, folder: &Path) -> reqwest::Url {
    let shown = Arc::new(Mutex::new(String::new()));
    let to = shown.clone();
    let show = move |address: &str| {
        address.clone_into(&mut to.lock().unwrap());
        tokio::spawn(comes_back(address.to_owned()));
    };
    auth::login("alpha", &http(config), folder, show).await.unwrap();
    let shown = shown.lock().unwrap().clone();
    reqwest::Url::parse(&shown).unwrap()
}

pub(crate) fn query(address: &reqwest::Url, name: &str) -> String {
    address.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
}

/// Returns the result of a tool call.
pub(crate) async fn called(config: &ServerConfig, folder: &Path) -> (String, bool) {
    let options = McpOptions { token_dir: Some(folder.to_owned()), ..options() };
    let servers = McpServers::new([("alpha", config.clone())], options);
    let (agent, _) = agent(&servers, one_call("write", json!({})));
    let (outcome, told) = run(&agent, "Go.").await;
    servers.close().await;
    results(&outcome).pop().unwrap_or_else(|| panic!("there was no call: {told:?}"))
}

#[tokio::test]
async fn a_login_registers_uses_pkce_names_the_resource_and_stores_tokens_privately() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    let address = login(&server, folder.path()).await;
    let shown = address.to_string();
    for part in ["code_challenge_method=S256", "resource=", "client_id=client-of-", "notes%3Aread"] {
        assert!(shown.contains(part), "{part} is not in {shown}");
    }
    let exchange = &issuer.requests("POST /token")[0];
    for param in ["code_verifier", "resource"] {
        assert!(exchange.param(param).is_some(), "{exchange:?}");
    }
    assert_eq!(exchange.param("code").unwrap(), "code-1");
    let config = http(&server);
    assert!(auth::is_logged_in("alpha", &config, folder.path()).await);
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    // The same name at another URL has no tokens.
    let other = http(&ServerConfig::http("http://127.0.0.1:9/mcp"));
    assert!(!auth::is_logged_in("alpha", &other, folder.path()).await);
    assert_eq!(called(&server, folder.path()).await, ("written".to_owned(), false));
    assert!(auth::logout("alpha", &config, folder.path()).await.unwrap());
    assert!(!auth::is_logged_in("alpha", &config, folder.path()).await);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(left.iter().all(|path| path.extension().unwrap() == "lock"), "{left:?}");
}

#[tokio::test]
async fn a_logout_waits_for_a_refresh_and_keeps_the_lock_that_others_wait_for() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    let names = || std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path());
    let tokens = names().find(|path| !path.to_string_lossy().contains(".login.")).unwrap();
    let lock = std::fs::File::create(tokens.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let (config, dir) = (http(&server), folder.path().to_owned());
    let mut out = tokio::spawn(async move { auth::logout("alpha", &config, &dir).await.unwrap() });
    // It can only end once the lock is free.
    assert!(tokio::time::timeout(std::time::Duration::from_millis(50), &mut out).await.is_err());
    assert!(tokens.exists());
    drop(lock);
    assert!(out.await.unwrap());
    assert_eq!(names().collect::<Vec<_>>(), [tokens.with_extension("lock")]);
}

#[tokio::test]
async fn a_known_client_does_not_register_again() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = entry(&issuer, &json!({"clientId": "known", "clientSecret": "${SECRET}"}));
    assert!(!format!("{config:?}").contains("hush-hush"));
    let address = login(&config, folder.path()).await;
    assert_eq!(query(&address, "client_id"), "known");
    assert!(issuer.requests("POST /register").is_empty());
    assert!(!issuer.requests("POST /token").is_empty());
}

#[tokio::test]
async fn a_client_may_be_a_metadata_document_if_the_issuer_supports_it() {
    let folder = tempfile::tempdir().unwrap();
    let document = json!({"clientMetadataUrl": "https://example.com/client.json"});
    let takes = Issuer::start().await.with(|wants| wants.documents = true);
    let address = login(&entry(&takes, &document), folder.path()).await;
    assert_eq!(query(&address, "client_id"), "https://example.com/client.json");
    assert!(takes.requests("POST /register").is_empty());

    let registers = Issuer::start().await;
    let address = login(&entry(&registers, &document), folder.path()).await;
    assert!(query(&address, "client_id").starts_with("client-of-"), "{address}");
}

#[tokio::test]
async fn a_missing_scope_is_reported_and_requested_by_the_next_login() {
    let issuer = Issuer::start().await.with(|wants| wants.call_scope = Some("notes:write"));
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    let address = login(&server, folder.path()).await;
    assert_eq!(query(&address, "scope"), "notes:read");
    let (said, is_error) = called(&server, folder.path()).await;
    assert!(is_error && said.contains("notes:write") && said.contains("deepagents mcp login alpha"), "{said}");

    let address = login(&server, folder.path()).await;
    assert_eq!(query(&address, "scope"), "notes:read notes:write");
    // In this issuer, the code carries the scopes granted in the browser.
    issuer.change(|wants| wants.call_scope = None);
    assert_eq!(called(&server, folder.path()).await, ("written".to_owned(), false));
    let address = login(&server, folder.path()).await;
    assert_eq!(query(&address, "scope"), "notes:read", "a login that covers all is not widened for ever");
}

#[tokio::test]
async fn a_scope_that_a_call_lacks_during_a_login_is_requested_by_the_next_one() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    issuer.change(|wants| wants.call_scope = Some("notes:write"));
    let (config, dir) = (server.clone(), folder.path().to_owned());
    let show = |address: &str| {
        let address = address.to_owned();
        tokio::spawn(async move {
            assert!(called(&config, &dir).await.1);
            comes_back(address).await;
        });
    };
    auth::login("alpha", &http(&server), folder.path(), show).await.unwrap();
    let address = login(&server, folder.path()).await;
    assert_eq!(query(&address, "scope"), "notes:read notes:write");
}

#[tokio::test]
async fn a_server_that_moved_to_another_issuer_gets_a_new_client_there() {
    let (old, new) = (Issuer::start().await, Issuer::start().await);
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(old.url());
    login(&server, folder.path()).await;
    let first = query(&login(&server, folder.path()).await, "client_id");
    old.change(|wants| wants.elsewhere = Some(new.address.clone()));
    let moved = login(&server, folder.path()).await;
    assert_eq!(moved.port(), reqwest::Url::parse(&new.address).unwrap().port());
    assert_ne!(query(&moved, "client_id"), first);
    let seen = new.requests("POST").iter().map(|request| request.body.clone()).collect::<String>();
    assert!(!seen.is_empty() && !seen.contains(&first), "{seen}");
}

#[tokio::test]
async fn tokens_are_bound_to_a_key_when_required_and_every_request_has_a_new_proof() {
    let issuer = Issuer::start().await.with(|wants| wants.dpop = true);
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    // First without the nonce that the issuer requires, then with it.
    assert_eq!(issuer.requests("POST /token").len(), 2);
    assert_eq!(called(&server, folder.path()).await, ("written".to_owned(), false));

    let proofs: Vec<String> =
        issuer.requests("POST /mcp").iter().filter_map(|r| Some(r.header("dpop")?.to_owned())).collect();
    let mut ids = Vec::new();
    for proof in &proofs {
        let (header, claims) = decoded(proof);
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert_eq!((&claims["htm"], &claims["htu"]), (&json!("POST"), &json!(issuer.url())));
        assert!(claims["ath"].is_string() && header["jwk"]["d"].is_null(), "{header} {claims}");
        assert!(is_signed(proof, &header["jwk"]), "{proof}");
        ids.push(claims["jti"].as_str().unwrap().to_owned());
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert!(count > 3 && ids.len() == count, "{ids:?}");
}

/// Whether a token was signed with the private key of this JWK.
fn is_signed(token: &str, jwk: &Value) -> bool {
    use base64::Engine;
    let decode = |text: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
    let mut point = vec![4];
    point.extend(decode(jwk["x"].as_str().unwrap()));
    point.extend(decode(jwk["y"].as_str().unwrap()));
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ECDSA_P256_SHA256_FIXED, point);
    key.verify(signed.as_bytes(), &decode(signature)).is_ok()
}

#[tokio::test]
async fn concurrent_refreshes_of_one_token_take_turns() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    issuer.revoke();
    let (one, two) = tokio::join!(called(&server, folder.path()), called(&server, folder.path()));
    // Each process may refresh the refused token once, and a later process may use the result of the first.
    assert_eq!((one.1, two.1), (false, false), "{one:?} {two:?}");
    let refreshed = issuer.requests("POST /token");
    let refreshed = refreshed.iter().filter(|r| r.param("grant_type").as_deref() == Some("refresh_token"));
    assert!((1..=2).contains(&refreshed.count()));
}

#[tokio::test]
async fn a_failed_login_stores_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config = http(&ServerConfig::http("http://127.0.0.1:9/mcp"));
    let refused = auth::login("gone", &config, folder.path(), |_| panic!("there is nothing to show")).await;
    assert!(refused.is_err());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn a_client_unknown_to_the_issuer_is_told_to_log_in_again() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(issuer.url());
    login(&server, folder.path()).await;
    issuer.revoke();
    issuer.change(|wants| {
        let forgotten = ("401 Unauthorized", String::new(), json!({"error": "invalid_client"}));
        wants.places = vec![("POST /token", forgotten)];
    });
    let options = McpOptions { token_dir: Some(folder.path().to_owned()), ..options() };
    let servers = McpServers::new([("alpha", server)], options);
    servers.ready().await;
    let problem = servers.status()[0].problem().unwrap().to_owned();
    servers.close().await;
    assert!(problem.contains("deepagents mcp login alpha"), "{problem}");
}

#[tokio::test]
async fn nobody_is_sent_to_an_address_that_is_not_a_web_page() {
    for page in ["file:///etc/passwd", "javascript:alert(1)", "http://issuer.example/authorize"] {
        let issuer = Issuer::start().await.with(|wants| wants.page = Some(page));
        let folder = tempfile::tempdir().unwrap();
        let config = http(&ServerConfig::http(issuer.url()));
        let refused = auth::login("alpha", &config, folder.path(), |shown| panic!("{shown} is shown")).await;
        assert!(refused.is_err(), "{page}");
    }
}

#[tokio::test]
async fn a_login_waits_for_its_own_callback_whoever_else_connects() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let show = |address: &str| {
        let address = address.to_owned();
        tokio::spawn(async move {
            let idle = connects(&address).await;
            let foreign = comes_back_with(&address, "code=code-2", Some("foreign")).await;
            assert!(foreign.starts_with("HTTP/1.1 400"), "{foreign}");
            comes_back(address).await;
            drop(idle);
        });
    };
    auth::login("alpha", &http(&ServerConfig::http(issuer.url())), folder.path(), show).await.unwrap();
    assert_eq!(issuer.requests("POST /token")[0].param("code").unwrap(), "code-1");
}

#[tokio::test]
async fn a_rejected_login_is_reported_in_the_issuers_words() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (tell, told) = tokio::sync::oneshot::channel();
    let show = |address: &str| {
        let address = address.to_owned();
        let said = "error=access_denied&error_description=You+may+%3Cnot%3E";
        tokio::spawn(async move { tell.send(comes_back_with(&address, said, None).await) });
    };
    let refused = auth::login("alpha", &http(&ServerConfig::http(issuer.url())), folder.path(), show).await;
    let words = refused.unwrap_err().to_string();
    assert!(words.contains("access_denied: You may <not>"), "{words}");
    let page = told.await.unwrap();
    assert!(page.contains("refused") && page.contains("You may &lt;not&gt;"), "{page}");
}

#[tokio::test]
async fn the_page_in_the_browser_says_what_came_of_the_exchange_of_the_code() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let said = json!({"error": "invalid_grant", "error_description": "not <b>twice</b>"});
    for (refusal, words) in [(Some(("400 Bad Request", String::new(), said)), "The login failed: "), (None, "Done.")] {
        let is_granted = refusal.is_none();
        issuer.change(|wants| wants.places = refusal.map(|refusal| ("POST /token", refusal)).into_iter().collect());
        let (tell, told) = tokio::sync::oneshot::channel();
        let exchanges = issuer.clone();
        let show = |address: &str| {
            let address = address.to_owned();
            tokio::spawn(async move {
                let page = comes_back_with(&address, "code=code-1", None).await;
                tell.send((page, exchanges.requests("POST /token").len()))
            });
        };
        let before = issuer.requests("POST /token").len();
        let outcome = auth::login("alpha", &http(&ServerConfig::http(issuer.url())), folder.path(), show).await;
        let (page, exchanged) = told.await.unwrap();
        assert_eq!((outcome.is_ok(), exchanged), (is_granted, before + 1), "{page}");
        assert!(page.contains(words) && !page.contains("<b>"), "{page}");
        assert_eq!(page.contains("invalid_grant"), !is_granted, "{page}");
    }
}

#[tokio::test]
async fn no_browser_is_sent_to_an_issuer_that_would_get_secrets_unencrypted() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let config = http(&ServerConfig::http(issuer.url()));
    for endpoint in ["token_endpoint", "registration_endpoint"] {
        issuer.change(|wants| {
            let mut metadata = wants.metadata(&issuer.address);
            metadata[endpoint] = json!("http://tokens.invalid/token");
            wants.places = vec![("GET /.well-known/oauth-authorization-server", ok(metadata))];
        });
        let refused = auth::login("alpha", &config, folder.path(), |_| panic!("there is nothing to show")).await;
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("http://tokens.invalid/token") && words.contains("unencrypted"), "{words}");
    }
    assert!(issuer.requests("POST /register").is_empty());
}

#[tokio::test]
async fn an_issuer_without_registration_is_reported_with_what_to_do() {
    let issuer = Issuer::start().await.with(|wants| wants.registers = false);
    let folder = tempfile::tempdir().unwrap();
    let config = http(&ServerConfig::http(issuer.url()));
    let refused = auth::login("alpha", &config, folder.path(), |_| panic!("there is nothing to show")).await;
    let words = refused.unwrap_err().to_string();
    assert_eq!(words.matches("oauth.clientId").count(), 1, "{words}");
    login(&entry(&issuer, &json!({"clientId": "known"})), folder.path()).await;
}

#[tokio::test]
async fn secrets_in_an_address_are_not_sent_to_the_issuer() {
    let issuer = Issuer::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = ServerConfig::http(format!("{}?token=sk-q", issuer.url()));
    let address = login(&server, folder.path()).await;
    assert!(!address.as_str().contains("sk-q"), "{address}");
    assert_eq!(query(&address, "resource"), issuer.url());
    assert_eq!(called(&server, folder.path()).await, ("written".to_owned(), false));
}
