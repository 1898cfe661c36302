//! Many calls to one host: how many are sent at once, and over how many connections.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use deepagents_core::model::{CacheTtl, ChatModel, ModelEvent, ModelRequest};
use deepagents_models::{Anthropic, ClientPool, ModelConfig, Registry, RetryPolicy};
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio::sync::{Barrier, Semaphore};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::server::{Reply, Server, anthropic_text};

/// Self-signed, for `localhost`, valid for a hundred years.
const CERTIFICATE: &[u8] = include_bytes!("../../../deepagents-server/tests/it/localhost.der");
const KEY: &[u8] = include_bytes!("../../../deepagents-server/tests/it/localhost_key.der");

fn answer() -> Result<Response<String>, Infallible> {
    let mut response = Response::new(anthropic_text("ok"));
    response.headers_mut().insert("content-type", "text/event-stream".parse().unwrap());
    Ok(response)
}

/// A server over HTTP/1.1 that answers when it is allowed to.
#[derive(Clone)]
struct Held {
    url: String,
    allowed: Arc<Semaphore>,
    open: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Held {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let held = Self { url, allowed: Arc::new(Semaphore::new(0)), open: Arc::default(), most: Arc::default() };
        let server = held.clone();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = server.clone();
                let service = service_fn(move |_: Request<Incoming>| server.clone().answer());
                tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
            }
        });
        held
    }

    async fn answer(self) -> Result<Response<String>, Infallible> {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        self.allowed.acquire().await.unwrap().forget();
        self.open.fetch_sub(1, Ordering::SeqCst);
        answer()
    }

    /// Waits until this many requests are open.
    async fn has_open(&self, requests: usize) {
        within(async {
            while self.open.load(Ordering::SeqCst) < requests {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// A model that sends at most this many requests at once.
    fn model(&self, limit: usize) -> Anthropic {
        let config = ModelConfig {
            api_key: Some("a key".into()),
            base_url: Some(self.url.clone()),
            pool: ClientPool::with_max_requests(limit),
            retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }),
            ..ModelConfig::default()
        };
        Anthropic::new("claude-sonnet-4-5", config).unwrap()
    }
}

/// Fails instead of waiting forever.
async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), work).await.unwrap()
}

fn calls(model: &Anthropic, calls: usize) -> JoinSet<String> {
    let model = model.clone();
    let call = move |_| {
        let model = model.clone();
        async move { model.invoke(ModelRequest::new("x")).await.unwrap().message.text() }
    };
    (0..calls).map(call).collect()
}

#[tokio::test]
async fn calls_above_the_limit_of_their_host_wait_for_their_turn() {
    let server = Held::start().await;
    let calls = calls(&server.model(3), 10);
    server.has_open(3).await;
    server.allowed.add_permits(10);
    assert_eq!(within(calls.join_all()).await, ["ok"; 10]);
    assert_eq!(server.most.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_calls_own_timeout_covers_the_wait_for_its_turn() {
    let server = Held::start().await;
    let model = server.model(1);
    let first = calls(&model, 1);
    server.has_open(1).await;
    let mut request = ModelRequest::new("x");
    request.settings.timeout = Some(Duration::from_millis(20));
    let error = model.invoke(request).await.unwrap_err();
    assert!(error.to_string().contains("settings.timeout"), "{error}");
    assert_eq!(server.most.load(Ordering::SeqCst), 1, "it was not sent");
    server.allowed.add_permits(1);
    assert_eq!(within(first.join_all()).await, ["ok"]);
}

#[tokio::test]
async fn a_call_dropped_while_it_waits_or_reads_leaves_its_turn_to_the_next() {
    let server = Held::start().await;
    let model = server.model(1);
    let mut first = model.stream(ModelRequest::new("x"));
    let mut second = model.stream(ModelRequest::new("x"));
    assert!(futures_util::poll!(first.next()).is_pending());
    assert!(futures_util::poll!(second.next()).is_pending());
    let mut third = model.stream(ModelRequest::new("x"));
    assert!(futures_util::poll!(third.next()).is_pending());
    drop((second, first));
    server.allowed.add_permits(100);
    assert!(within(third.next()).await.is_some_and(|event| event.is_ok()));
}

#[tokio::test]
async fn an_answer_that_is_dropped_in_the_middle_leaves_its_turn_to_the_next() {
    let half = anthropic_text("half").split_inclusive("\n\n").take(4).collect::<String>();
    let server = Server::start([Reply::sse(half).then_silence(), Reply::sse(anthropic_text("ok"))]).await;
    let model =
        Anthropic::new("claude-sonnet-4-5", ModelConfig { pool: ClientPool::with_max_requests(1), ..server.config() });
    let model = model.unwrap();
    let mut unread = model.stream(ModelRequest::new("x"));
    assert!(matches!(within(unread.next()).await, Some(Ok(ModelEvent::Text { .. }))));
    let mut next = model.stream(ModelRequest::new("x"));
    assert!(futures_util::poll!(next.next()).is_pending());
    drop(unread);
    assert!(within(next.next()).await.is_some_and(|event| event.is_ok()));
}

#[tokio::test]
async fn a_request_that_cannot_be_encoded_leaves_its_turn_to_the_next() {
    let server = Held::start().await;
    let model = server.model(1);
    let mut request = ModelRequest::new("x");
    request.cache.messages = vec![(7, CacheTtl::FiveMinutes)];
    let mut failed = model.stream(request);
    assert!(within(failed.next()).await.is_some_and(|event| event.is_err()));
    server.allowed.add_permits(1);
    assert_eq!(within(calls(&model, 1).join_all()).await, ["ok"]);
    drop(failed);
}

#[tokio::test]
async fn a_registry_limits_the_calls_of_all_its_models() {
    let server = Held::start().await;
    let mut registry = Registry::new();
    registry.pool(ClientPool::with_max_requests(2));
    for provider in ["anthropic", "openai-chat"] {
        let base_url = Some(server.url.clone());
        let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
        let config = ModelConfig { api_key: Some("a key".into()), base_url, retry, ..ModelConfig::default() };
        registry.configure(provider, config);
    }
    let mut all = JoinSet::new();
    for name in ["anthropic:a", "openai-chat:b", "anthropic:c", "openai-chat:d"] {
        let model = registry.model(name).unwrap();
        all.spawn(async move { model.invoke(ModelRequest::new("x")).await.is_ok() });
    }
    server.has_open(2).await;
    server.allowed.add_permits(100);
    within(all.join_all()).await;
    assert_eq!(server.most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn a_pool_in_the_configuration_of_a_provider_or_model_has_precedence_over_the_registrys() {
    let server = Held::start().await;
    let mut registry = Registry::new();
    registry.pool(ClientPool::with_max_requests(1));
    let config = ModelConfig {
        api_key: Some("a key".into()),
        base_url: Some(server.url.clone()),
        pool: ClientPool::with_max_requests(2),
        ..ModelConfig::default()
    };
    registry.configure("anthropic", config);
    let mut all = JoinSet::new();
    let own = ModelConfig { pool: ClientPool::with_max_requests(1), ..ModelConfig::default() };
    let of_provider = ["anthropic:b", "anthropic:c", "anthropic:d"].map(|name| (name, ModelConfig::default()));
    for (name, config) in std::iter::once(("anthropic:a", own)).chain(of_provider) {
        let model = registry.model_with(name, config).unwrap();
        all.spawn(async move { model.invoke(ModelRequest::new("x")).await.is_ok() });
    }
    server.has_open(3).await;
    server.allowed.add_permits(100);
    within(all.join_all()).await;
    assert_eq!(server.most.load(Ordering::SeqCst), 3);
}

/// All calls are answered when the last has arrived, and a connection has at most 100 of them.
#[tokio::test]
#[cfg_attr(target_vendor = "apple", ignore = "certificates are trusted by the system alone")]
async fn hundreds_of_calls_are_sent_at_once_over_several_http2_connections() {
    // This test runs itself in a process that trusts the certificate.
    const ROLE: &str = "hundreds_of_calls_are_sent_at_once_over_several_http2_connections";
    if std::env::var_os(ROLE).is_none() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("certificate.pem");
        let encoded = base64::engine::general_purpose::STANDARD.encode(CERTIFICATE);
        std::fs::write(&file, format!("-----BEGIN CERTIFICATE-----\n{encoded}\n-----END CERTIFICATE-----\n")).unwrap();
        let mut program = tokio::process::Command::new(std::env::current_exe().unwrap());
        program.args([&format!("hosts::{ROLE}"), "--exact"]).env(ROLE, "1").env("SSL_CERT_FILE", file);
        let told = program.output().await.unwrap();
        assert!(told.status.success(), "{told:?}");
        assert!(String::from_utf8_lossy(&told.stdout).contains("1 passed"), "{told:?}");
        return;
    }
    let calls_at_once = 250;
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(KEY));
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let mut config = config.with_single_cert(vec![CertificateDer::from(CERTIFICATE)], key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let all_arrived = Arc::new(Barrier::new(calls_at_once));
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let (acceptor, all_arrived) = (acceptor.clone(), Arc::clone(&all_arrived));
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |_: Request<Incoming>| {
                    let all_arrived = Arc::clone(&all_arrived);
                    async move {
                        all_arrived.wait().await;
                        answer()
                    }
                });
                let mut http = http2::Builder::new(TokioExecutor::new());
                http.max_concurrent_streams(100);
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let config = ModelConfig { api_key: Some("a key".into()), base_url: Some(url), ..ModelConfig::default() };
    let model = Anthropic::new("claude-sonnet-4-5", config).unwrap();
    assert_eq!(within(calls(&model, calls_at_once).join_all()).await.len(), calls_at_once);
}
