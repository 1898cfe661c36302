//! Call hooks, and the list of a server's models.

use std::sync::{Arc, Mutex};

use deepagents_core::model::{ChatModel, ModelRequest};
use deepagents_models::{Answered, Attempt, CallHook, ModelConfig, ServedModel, served_models};
use reqwest::header::{HeaderMap, HeaderValue};
use serde_json::json;

use crate::server::{Reply, Server, anthropic_text};

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl CallHook for Log {
    fn request(&self, attempt: &Attempt<'_>, headers: &mut HeaderMap) {
        assert!(headers.get("x-api-key").is_none() && headers.get("authorization").is_none(), "no credential is shown");
        headers.insert("x-tenant", HeaderValue::from_static("blue"));
        self.0.lock().unwrap().push(format!("{} {}", attempt.number, attempt.url.path()));
    }

    fn response(&self, _: &Attempt<'_>, answered: &Answered<'_>) {
        self.0.lock().unwrap().push(format!("{} {:?}", answered.status, answered.headers.get("x-limit")));
    }
}

#[tokio::test]
async fn a_hook_adds_headers_and_sees_every_attempt_but_no_credentials() {
    let busy = Reply::json(529, &json!({"error": {"message": "busy"}})).header("x-limit", "3");
    let server = Server::start([busy, Reply::sse(anthropic_text("hi"))]).await;
    let log = Arc::new(Log::default());
    let config = ModelConfig { hook: Some(log.clone()), ..server.config() };
    let model = deepagents_models::Anthropic::new("m", config).unwrap();
    model.invoke(ModelRequest::new("x")).await.unwrap();
    assert_eq!(*log.0.lock().unwrap(), ["1 /v1/messages", "529 Some(\"3\")", "2 /v1/messages", "200 None"]);
    let head = &server.seen()[1].head;
    assert!(head.contains("x-tenant: blue") && head.contains("x-api-key: sk-very-secret"), "{head}");
}

/// Records everything that a hook is shown.
#[derive(Default)]
struct Everything(Mutex<String>);

impl CallHook for Everything {
    fn request(&self, attempt: &Attempt<'_>, headers: &mut HeaderMap) {
        for (name, value) in headers.iter() {
            self.0.lock().unwrap().push_str(&format!("{name}: {}; ", value.to_str().unwrap()));
        }
        self.0.lock().unwrap().push_str(&format!("{attempt:?}; "));
        headers.insert("x-team", HeaderValue::from_static("red"));
    }

    fn response(&self, attempt: &Attempt<'_>, answered: &Answered<'_>) {
        self.0.lock().unwrap().push_str(&format!("{attempt:?} {answered:?}"));
    }
}

#[tokio::test]
async fn hooks_never_see_possible_secrets() {
    let answer = Reply::sse(anthropic_text("hi")).header("set-cookie", "session=secret5").header("x-limit", "3");
    let server = Server::start([answer]).await;
    let hook = Arc::new(Everything::default());
    let headers = [("authorization", "Bearer secret2"), ("x-team", "blue")];
    let config = ModelConfig {
        api_key: Some("secret1".into()),
        base_url: Some(server.url.replace("http://", "http://me:secret3@")),
        headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        hook: Some(hook.clone()),
        ..server.config()
    };
    let mut request = ModelRequest::new("x");
    request.headers = vec![("Cookie".into(), "secret4".into()), ("traceparent".into(), "00-1-2-01".into())];
    deepagents_models::Anthropic::new("m", config).unwrap().invoke(request).await.unwrap();
    let shown = hook.0.lock().unwrap().clone();
    assert!(
        !shown.contains("secret") && shown.contains("traceparent: 00-1-2-01") && shown.contains("x-limit"),
        "{shown}"
    );
    let head = &server.seen()[0].head;
    for sent in ["x-api-key: secret1", "authorization: Bearer secret2", "cookie: secret4", "x-team: red"] {
        assert!(head.contains(sent), "{sent}: {head}");
    }
    assert!(!head.contains("blue"), "what a hook adds takes the place of what is configured: {head}");
}

#[tokio::test]
async fn servers_list_their_models() {
    let ollama = json!({"models": [{"name": "qwen3:4b", "model": "qwen3:4b"}]});
    let vllm = json!({"object": "list", "data": [{"id": "Qwen/Qwen3-4B", "max_model_len": 32_768}]});
    let llamacpp = json!({"data": [{"id": "gemma.gguf", "meta": {"n_ctx_train": 8192}}]});
    let server = Server::start([&ollama, &vllm, &llamacpp].map(|list| Reply::json(200, list))).await;
    let mut names = Vec::new();
    for provider in ["ollama", "vllm", "llamacpp"] {
        let config = ModelConfig { base_url: Some(format!("{}/v1", server.url)), ..server.config() };
        let served = served_models(provider, &config).await.unwrap();
        names.extend(served.into_iter().map(|ServedModel { name, context_window, .. }| (name, context_window)));
    }
    let want = [("qwen3:4b", None), ("Qwen/Qwen3-4B", Some(32_768)), ("gemma.gguf", Some(8192))];
    assert_eq!(names, want.map(|(name, size)| (name.to_owned(), size)));
    let paths: Vec<String> = server.seen().iter().map(|seen| seen.head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(paths, ["GET /api/tags HTTP/1.1", "GET /v1/models HTTP/1.1", "GET /v1/models HTTP/1.1"]);
    let nowhere = ModelConfig { base_url: Some("http://127.0.0.1:1".into()), ..ModelConfig::default() };
    assert!(served_models("vllm", &nowhere).await.unwrap_err().to_string().contains("is the server running?"));
}

#[tokio::test]
async fn each_provider_is_asked_for_its_models_where_and_with_the_headers_that_it_expects() {
    let anthropic = json!({"data": [{"type": "model", "id": "claude-sonnet-4-5"}], "has_more": false});
    let google = json!({"models": [{"name": "models/gemini-2.5-pro", "inputTokenLimit": 1_048_576}]});
    let azure = json!({"data": [{"id": "gpt-5.2"}]});
    // vLLM and llama.cpp name a model by the path that they were given.
    let vllm = json!({"data": [{"id": "models/gpt-5.2"}]});
    let lists = [&anthropic, &anthropic, &google, &google, &azure, &azure, &azure, &vllm];
    let server = Server::start(lists.map(|list| Reply::json(200, list))).await;
    let asked = async |provider: &str, below: &str, key: bool| {
        let base_url = Some(format!("{}{below}", server.url));
        let config = ModelConfig { base_url, ..server.config() };
        let config = if key { config } else { ModelConfig { api_key: Some("".into()), ..config } };
        let served = served_models(provider, &config).await.unwrap();
        let mut lines = server.seen().pop().unwrap().head;
        lines.make_ascii_lowercase();
        let line = lines.lines().next().unwrap().to_owned();
        let sent =
            |line: &&str| ["x-", "api-key", "authorization", "anthropic-"].iter().any(|start| line.starts_with(start));
        let headers: Vec<String> = lines.lines().filter(sent).map(str::to_owned).collect();
        (line, headers, served[0].name.clone(), served[0].context_window)
    };
    let key = "x-api-key: sk-very-secret";
    for below in ["", "/v1/"] {
        let (line, mut headers, name, _) = asked("anthropic", below, true).await;
        headers.sort();
        assert_eq!((line.as_str(), name.as_str()), ("get /v1/models?limit=1000 http/1.1", "claude-sonnet-4-5"));
        assert_eq!(headers, ["anthropic-version: 2023-06-01", key]);
    }
    for provider in ["google", "google-interactions"] {
        let (line, headers, name, window) = asked(provider, "/v1beta", true).await;
        assert_eq!((line.as_str(), name.as_str()), ("get /v1beta/models?pagesize=1000 http/1.1", "gemini-2.5-pro"));
        assert_eq!((headers, window), (vec!["x-goog-api-key: sk-very-secret".to_owned()], Some(1_048_576)));
    }
    for (provider, has_key, sent, listed) in [
        ("azure", true, Some("api-key: sk-very-secret"), "gpt-5.2"),
        ("azure-chat", true, Some("api-key: sk-very-secret"), "gpt-5.2"),
        ("groq", true, Some("authorization: bearer sk-very-secret"), "gpt-5.2"),
        ("vllm", false, None, "models/gpt-5.2"),
    ] {
        let (line, headers, name, _) = asked(provider, "/v1", has_key).await;
        assert_eq!((line.as_str(), name.as_str()), ("get /v1/models http/1.1", listed), "{provider}");
        assert_eq!(headers, sent.into_iter().collect::<Vec<_>>(), "{provider}");
    }
}
