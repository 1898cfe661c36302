//! Errors of many services: the message reaches the caller, with the right kind.

use std::time::Duration;

use deepagents_core::message::{Message, UserMessage};
use deepagents_core::model::{ChatModel, ModelError, ModelRequest};
use deepagents_models::{Gemini, ModelConfig, OpenAiResponses};
use reqwest::header::HeaderMap;
use serde_json::json;

use crate::server::{Reply, Server, events, output, retries, sse};

fn refusal(status: u16, body: &str) -> ModelError {
    let headers = HeaderMap::from_iter([("cf-request-id".parse().unwrap(), "r1".parse().unwrap())]);
    Gemini::new("g", deepagents_models::ModelConfig::default())
        .unwrap()
        .decode(status, &headers, body.as_bytes())
        .unwrap_err()
}

#[tokio::test]
async fn a_short_google_rate_limit_is_waited_out() {
    let quota = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED",
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.02s"}]}});
    let piece = json!({"candidates": [{"index": 0, "content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]});
    let server = Server::start([Reply::json(429, &quota), Reply::sse(sse(&[piece]))]).await;
    let told = events(&Gemini::new("g", server.config()).unwrap(), ModelRequest::new("x")).await;
    assert_eq!(retries(&told), [("rate_limited", Duration::from_millis(20))]);
    assert_eq!(output(&told).message.text(), "ok");

    let no_wait = r#"{"error":{"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(refusal(429, no_wait).kind(), "rate_limited");
    let money = r#"{"error":{"message":"You exceeded your current quota","code":"insufficient_quota"}}"#;
    assert_eq!(refusal(429, money).kind(), "auth");
    assert_eq!(refusal(429, r#"{"error":{"message":"You exceeded your current quota"}}"#).kind(), "auth");
}

#[test]
fn context_overflow_errors_of_many_services_are_recognised() {
    let cases = [
        "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 5000",
        "invalid params, context window exceeds limit (2013)",
        "Invalid request: Your request exceeded model token limit: 8192",
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4097. Given: 5000",
        "The number of tokens to keep from the initial prompt is greater than the context length.",
        "Prompt exceeds max length",
    ];
    for words in cases {
        let error = refusal(400, &json!({"error": {"message": words}}).to_string());
        assert_eq!(error.kind(), "context_length", "{words}");
    }
    let code = r#"{"error":{"message":"prompt token count of 130000","code":"model_max_prompt_tokens_exceeded"}}"#;
    assert_eq!(refusal(400, code).kind(), "context_length");
    let key = r#"{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***."}"#;
    assert_eq!(refusal(400, key).kind(), "auth");
}

#[test]
fn an_error_message_is_found_wherever_it_appears() {
    let cases = [
        r#"{"success":false,"errors":[{"code":7003,"message":"THE WORDS"}]}"#,
        r#"{"msg":"THE WORDS"}"#,
        r#"{"error_code":17,"error_msg":"THE WORDS"}"#,
        r#"{"title":"THE WORDS","status":422,"type":"about:blank"}"#,
        r#"{"error":"invalid_grant","error_description":"THE WORDS"}"#,
        r#"{"error":{"error":"THE WORDS"}}"#,
        r#"{"error":["THE WORDS"]}"#,
        r#"{"message":["THE WORDS","b"]}"#,
        r#"{"error":{"message":{"text":"THE WORDS"}}}"#,
        r#"{"object":"error","message":{"detail":[{"loc":["body","messages"],"msg":"THE WORDS"}]},"type":"x"}"#,
        r#"{"detail":[{"loc":["body"],"msg":"THE WORDS"}]}"#,
        r#"{"error":{"message":"Provider returned error","metadata":{"raw":{"error":{"message":"THE WORDS"}}}}}"#,
        r#"{"fault":{"faultstring":"THE WORDS"}}"#,
        r#"{"something":{"else":"THE WORDS"}}"#,
        r#""THE WORDS""#,
    ];
    for body in cases {
        let error = refusal(422, body);
        assert!(error.to_string().contains("THE WORDS"), "{body}: {error}");
        assert_eq!((error.kind(), error.info().request_id.as_deref()), ("invalid_request", Some("r1")), "{body}");
    }
    assert!(refusal(422, "{}").to_string().contains("the server gave no reason"));
}

#[tokio::test]
async fn an_error_names_the_part_of_the_request_at_fault_even_if_its_message_is_general() {
    let cases = [
        (
            r#"{"error":{"code":400,"message":"Request contains an invalid argument.","status":"INVALID_ARGUMENT","details":[
                {"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[
                    {"field":"contents[1].parts[0]","description":"Unsupported MIME type."}]}]}}"#,
            "Request contains an invalid argument. (contents[1].parts[0]: Unsupported MIME type.)",
        ),
        (
            r#"{"error":{"message":"Invalid value.","param":"tools[0].name","code":null}}"#,
            "Invalid value. (tools[0].name)",
        ),
        (r#"{"message":"Validation failed","errors":{"max_tokens":["too large"]}}"#, r#"{"max_tokens":["too large"]}"#),
        (r#"{"title":"Bad request","details":"`top_k` is unknown"}"#, "Bad request (`top_k` is unknown)"),
    ];
    for (body, said) in cases {
        let error = refusal(400, body);
        assert!(error.info().message.contains(said), "{body}: {error}");
    }
    let once = refusal(400, r#"{"error":{"message":"`top_k` is unknown","param":"top_k"}}"#);
    assert_eq!(once.info().message, "`top_k` is unknown");
}

#[tokio::test]
async fn a_request_that_was_never_sent_does_not_blame_the_provider() {
    let server = Server::start([]).await;
    let nothing = ModelRequest::new(vec![Message::User(UserMessage::default())]);
    let failed = server.chat("vllm").invoke(nothing).await.unwrap_err();
    assert!(failed.is_own_refusal() && failed.kind() == "invalid_request", "{failed}");
    assert!(!failed.to_string().contains("provider") && server.seen().is_empty(), "{failed}");
    let refused = refusal(400, r#"{"error":{"message":"no"}}"#);
    assert!(!refused.is_own_refusal() && refused.to_string().starts_with("the provider refused"), "{refused}");
}

#[test]
fn permanent_errors_are_not_retried_even_when_reported_in_a_stream() {
    let model = OpenAiResponses::new("openai", "gpt-5", ModelConfig::default()).unwrap();
    let failed = |code: &str| {
        let response = json!({"id": "r", "status": "failed", "error": {"code": code, "message": "m"}, "output": []});
        let body = sse(&[json!({"type": "response.failed", "response": response})]);
        model.decode(200, &HeaderMap::new(), body.as_bytes()).unwrap_err().kind()
    };
    for code in [
        "invalid_image",
        "image_too_large",
        "image_content_policy_violation",
        "failed_to_download_image",
        "cyber_policy",
        "unsupported_file",
    ] {
        assert_eq!(failed(code), "invalid_request", "{code}");
    }
    assert_eq!(failed("usage_not_included"), "auth");
    assert_eq!((failed("server_error"), failed("server_is_overloaded")), ("overloaded", "overloaded"));
}

#[tokio::test]
async fn the_retry_delay_is_read_from_the_error_message() {
    let slow = |words: &str| json!({"error": {"message": words, "code": "rate_limit_exceeded"}}).to_string();
    let wait = |words: &str| refusal(429, &slow(words)).info().retry_after;
    assert_eq!(wait("Limit 30000, Used 29000. Please try again in 3.2s. Visit us"), Some(Duration::from_millis(3200)));
    assert_eq!(wait("Please try again in 1m30s."), Some(Duration::from_secs(90)));
    assert_eq!(wait("Please retry after 34 seconds."), Some(Duration::from_secs(34)));
    assert_eq!(wait("try again in 2 minutes"), Some(Duration::from_secs(120)));
    assert_eq!((wait("try again in a while"), wait("try again in 5 parsecs"), wait("slow")), (None, None, None));
}

#[tokio::test]
async fn the_server_says_whether_a_retry_helps() {
    let busy = || Reply::json(503, &json!({"error": {"message": "busy"}}));
    let server = Server::start([busy().header("x-should-retry", "false")]).await;
    let told = events(&server.chat("vllm"), ModelRequest::new("x")).await;
    assert_eq!((retries(&told).len(), server.seen().len()), (0, 1));
    let whole = json!({"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]});
    let odd = Reply::json(400, &json!({"error": {"message": "odd"}})).header("x-should-retry", "true");
    let server = Server::start([odd, Reply::json(200, &whole)]).await;
    assert_eq!(output(&events(&server.chat("vllm"), ModelRequest::new("x")).await).message.text(), "ok");
}

#[test]
fn permanent_quota_errors_are_distinguished_from_rate_limits() {
    let error = |status: u16, value: &serde_json::Value| refusal(status, &value.to_string());
    let large = json!({"error": {"message": "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 50000.", "code": "rate_limit_exceeded"}});
    assert_eq!(error(429, &large).kind(), "context_length");
    let long =
        json!({"error": {"type": "rate_limit_error", "message": "Extra usage is required for long context requests."}});
    assert_eq!(error(429, &long).kind(), "context_length");
    let day = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "You exceeded your current quota",
        "details": [{"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]}, {"retryDelay": "2s"}]}});
    assert_eq!(error(429, &day).kind(), "auth");
    let flagged = error(403, &json!({"error": {"message": "no", "code": 403, "metadata": {"reasons": ["violence"]}}}));
    assert!(flagged.kind() == "invalid_request" && flagged.to_string().contains("violence"), "{flagged}");
}

#[test]
fn a_call_the_service_could_not_parse_is_retryable() {
    let body = json!({"error": {"message": "Failed to call a function.", "type": "invalid_request_error",
        "code": "tool_use_failed", "failed_generation": "<function=ls>"}});
    let error = refusal(400, &body.to_string());
    assert!(error.is_retryable() && error.to_string().contains("<function=ls>"), "{error}");
}
