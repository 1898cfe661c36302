//! The server over TLS.

use std::sync::Arc;

use deepagents::models::scripted::Turn;
use reqwest::StatusCode;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{http, say, server};

/// Self-signed, for `localhost` and 127.0.0.1, valid for a hundred years.
const CERTIFICATE: &[u8] = include_bytes!("localhost.der");
const KEY: &[u8] = include_bytes!("localhost_key.der");

/// Starts a TLS server and returns its port.
async fn serve(turns: Vec<Turn>) -> u16 {
    // This installs the TLS crypto provider.
    let _ = http();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key).unwrap();
    let running = server(turns).start().await.unwrap().tls(config);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(running.serve(listener, std::future::pending()));
    port
}

/// Builds a client that trusts only this certificate.
fn client() -> reqwest::Client {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(CERTIFICATE)).unwrap();
    let config = ClientConfig::builder().with_root_certificates(Arc::new(roots)).with_no_client_auth();
    reqwest::Client::builder().tls_backend_preconfigured(config).no_proxy().build().unwrap()
}

#[tokio::test]
async fn runs_are_created_and_streamed_over_tls_and_cards_use_https() {
    let port = serve(vec![Turn::text("Hello."), Turn::text("Again.")]).await;
    let (client, url) = (client(), format!("https://localhost:{port}"));
    let waited = client.post(format!("{url}/runs/wait")).json(&say("hi")).send().await.unwrap();
    let values: Value = waited.json().await.unwrap();
    assert_eq!(values["messages"][1]["content"], "Hello.");
    let streamed = client.post(format!("{url}/runs/stream")).json(&say("hi")).send().await.unwrap();
    assert_eq!(streamed.status(), StatusCode::OK);
    assert!(streamed.text().await.unwrap().contains("Again."));
    let card = client.get(format!("{url}/.well-known/agent-card.json")).send().await.unwrap();
    let card: Value = card.json().await.unwrap();
    assert_eq!(card["url"], format!("{url}/a2a/agent"));
}

#[tokio::test]
async fn clients_without_tls_or_trust_get_no_answer_and_block_no_one() {
    let port = serve(vec![Turn::text("Hello.")]).await;
    let silent = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    plain.write_all(b"GET /ok HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // The server may respond with a TLS alert, and with nothing else.
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let config = ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth();
    let doubting = reqwest::Client::builder().tls_backend_preconfigured(config).no_proxy().build().unwrap();
    assert!(doubting.get(format!("https://localhost:{port}/ok")).send().await.is_err());
    let ok = client().get(format!("https://localhost:{port}/ok")).send().await.unwrap();
    assert_eq!(ok.status(), StatusCode::OK);
    drop(silent);
}
