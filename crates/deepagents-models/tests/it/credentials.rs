//! Keys and tokens: fetched once, renewed, and never shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use deepagents_core::model::{ChatModel, ModelRequest};
use deepagents_models::credentials::{CredentialError, Issued};
use deepagents_models::{Anthropic, Credentials, ModelConfig, RetryPolicy, Timeouts};
use serde_json::json;

use crate::server::{Reply, Server, anthropic_text, events, output};

/// Issues `token-0`, `token-1` and so on, and counts them.
fn counted(lifetime: Option<Duration>) -> (Credentials, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let credentials = Credentials::from_source(move || {
        let counter = Arc::clone(&counter);
        async move {
            tokio::task::yield_now().await;
            let number = counter.fetch_add(1, Ordering::SeqCst);
            Ok(Issued::token(format!("token-{number}"), lifetime))
        }
    });
    (credentials, count)
}

fn model(server: &Server, credentials: &Credentials) -> Anthropic {
    let config = ModelConfig { api_key: Some(credentials.clone()), ..server.config() };
    Anthropic::new("claude-sonnet-4-5", config).unwrap()
}

fn bearer(server: &Server) -> Vec<String> {
    let token = |head: &str| {
        let line = head.lines().find_map(|line| line.strip_prefix("authorization: Bearer "))?;
        Some(line.trim().to_owned())
    };
    server.seen().iter().filter_map(|seen| token(&seen.head)).collect()
}

#[tokio::test]
async fn concurrent_calls_request_one_token_and_reuse_it_until_it_expires() {
    let server = Server::start((0..4).map(|_| Reply::sse(anthropic_text("hi")))).await;
    let (credentials, count) = counted(Some(Duration::from_secs(3600)));
    let (one, two) = (model(&server, &credentials), model(&server, &credentials));
    let calls =
        [one.invoke(ModelRequest::new("a")), two.invoke(ModelRequest::new("b")), one.invoke(ModelRequest::new("c"))];
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap();
    }
    two.invoke(ModelRequest::new("d")).await.unwrap();
    assert_eq!((count.load(Ordering::SeqCst), bearer(&server)), (1, vec!["token-0".to_owned(); 4]));
}

#[tokio::test]
async fn a_source_without_expiry_is_queried_per_request_and_expired_tokens_renew() {
    for lifetime in [None, Some(Duration::ZERO)] {
        let server = Server::start((0..2).map(|_| Reply::sse(anthropic_text("hi")))).await;
        let (credentials, _) = counted(lifetime);
        let model = model(&server, &credentials);
        for text in ["a", "b"] {
            model.invoke(ModelRequest::new(text)).await.unwrap();
        }
        assert_eq!(bearer(&server), ["token-0", "token-1"]);
    }
}

#[tokio::test]
async fn a_rejected_token_is_exchanged_once() {
    let refused =
        || Reply::json(401, &json!({"error": {"type": "authentication_error", "message": "expired token-0"}}));
    let server = Server::start([refused(), Reply::sse(anthropic_text("hi"))]).await;
    let (credentials, count) = counted(Some(Duration::from_secs(3600)));
    let told = events(&model(&server, &credentials), ModelRequest::new("x")).await;
    assert_eq!(output(&told).message.text(), "hi");
    assert_eq!(bearer(&server), ["token-0", "token-1"]);

    let server = Server::start([refused(), refused()]).await;
    let (fresh, _) = counted(Some(Duration::from_secs(3600)));
    let error = model(&server, &fresh).invoke(ModelRequest::new("x")).await.unwrap_err();
    assert_eq!((error.kind(), server.seen().len(), count.load(Ordering::SeqCst)), ("auth", 2, 2));
}

#[tokio::test]
async fn a_source_without_a_token_is_a_typed_error_and_no_request_is_sent() {
    let server = Server::start([]).await;
    let refused = || async { Err(CredentialError::Refused("log in with `az login`".into())) };
    let error = model(&server, &Credentials::from_source(refused)).invoke(ModelRequest::new("x")).await.unwrap_err();
    assert!(error.kind() == "auth" && error.to_string().contains("az login"), "{error}");
    let away = || async { Err(CredentialError::Unavailable("the metadata server is away".into())) };
    let error = model(&server, &Credentials::from_source(away)).invoke(ModelRequest::new("x")).await.unwrap_err();
    assert_eq!((error.kind(), server.seen().len()), ("transport", 0));
}

#[tokio::test]
async fn tokens_are_removed_from_error_messages() {
    let refused = |token: &str| {
        let told = json!({"error": {"type": "invalid_request_error", "message": format!("{token} may not do this")}});
        Reply::json(403, &told).header("request-id", token)
    };
    let server = Server::start([refused("token-0"), refused("token-1")]).await;
    let (credentials, _) = counted(None);
    let model = model(&server, &credentials);
    let error = model.invoke(ModelRequest::new("x")).await.unwrap_err();
    assert!(!format!("{error} {error:?} {credentials:?}").contains("token-"), "{error:?}");
    let error = model.count_tokens(ModelRequest::new("x")).await.unwrap_err();
    assert!(!format!("{error} {error:?}").contains("token-"), "{error:?}");
}

/// A source whose first answer never comes or is a panic, and whose second is a token.
fn broken_once(panics: bool) -> Credentials {
    let count = Arc::new(AtomicUsize::new(0));
    Credentials::from_source(move || {
        let number = count.fetch_add(1, Ordering::SeqCst);
        async move {
            match (number, panics) {
                (0, true) => panic!("no such command"),
                (0, false) => std::future::pending().await,
                _ => Ok(Issued::token("token", Some(Duration::from_secs(3600)))),
            }
        }
    })
}

#[tokio::test]
async fn a_source_that_panics_fails_one_call() {
    let server = Server::start([Reply::sse(anthropic_text("hi"))]).await;
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
    let config = ModelConfig { api_key: Some(broken_once(true)), retry, ..server.config() };
    let model = Anthropic::new("claude-sonnet-4-5", config).unwrap();
    let error = model.invoke(ModelRequest::new("x")).await.unwrap_err();
    assert!(error.kind() == "transport" && error.to_string().contains("panicked"), "{error}");
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
}

#[tokio::test]
async fn a_source_that_does_not_answer_ends_a_call_and_is_asked_again_later() {
    let server = Server::start([Reply::sse(anthropic_text("hi"))]).await;
    let retry = Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() });
    let timeouts = Some(Timeouts { first_byte: Duration::from_millis(20), ..Timeouts::default() });
    let config = ModelConfig { api_key: Some(broken_once(false)), retry, timeouts, ..server.config() };
    let model = Anthropic::new("claude-sonnet-4-5", config.clone()).unwrap();
    let error = model.invoke(ModelRequest::new("x")).await.unwrap_err();
    assert!(error.kind() == "transport" && error.to_string().contains("the source of the credential"), "{error}");
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(121)).await;
    tokio::time::resume();
    let patient = ModelConfig { timeouts: None, ..config };
    let model = Anthropic::new("claude-sonnet-4-5", patient).unwrap();
    assert_eq!(model.invoke(ModelRequest::new("x")).await.unwrap().message.text(), "hi");
}
