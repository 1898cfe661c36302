//! Classifies provider errors by their codes, their text and the HTTP status.

use deepagents_core::model::{ErrorInfo, ModelError};

use crate::http::error_body::MODERATION;

/// Returns the error variant for the codes, the text and the status.
pub(in crate::http) fn classify(status: Option<u16>, codes: &[String], info: ErrorInfo) -> ModelError {
    let has = |words: &[&str]| codes.iter().any(|code| words.contains(&code.as_str()));
    let text = info.message.to_lowercase();
    let says = |phrases: &[&str]| phrases.iter().any(|phrase| text.contains(phrase));
    if !matches!(status, Some(401 | 403 | 429))
        && (has(&[
            "context_length_exceeded",
            "exceed_context_size_error",
            "request_too_large",
            "tokens_limit_reached",
            "model_max_prompt_tokens_exceeded",
        ]) || says(TOO_LONG))
    {
        return ModelError::ContextLength(info);
    }
    // Limits of a single request: a shorter one helps, waiting does not.
    if says(&["request too large for", "extra usage is required for long context"]) {
        return ModelError::ContextLength(info);
    }
    // A content filter would reject the same request again.
    if has(&["content_filter", "content_policy_violation", MODERATION]) {
        return ModelError::Invalid(info);
    }
    // A malformed call may be well-formed the next time.
    if has(&["tool_use_failed"]) {
        return ModelError::Overloaded(info);
    }
    // A run does not wait for a daily limit.
    if codes.iter().any(|code| code.contains("PerDay")) {
        return ModelError::Auth(info);
    }
    // Google reports all limits this way, even one that ends in a second.
    let may_wait = info.retry_after.is_some() || has(&["RESOURCE_EXHAUSTED"]);
    if status == Some(402)
        || has(&["insufficient_quota", "billing_error", "billing_not_active", "insufficient_balance"])
        || says(&[
            "api key not valid",
            "incorrect api key",
            "invalid api key",
            "credit balance is too low",
            "insufficient balance",
        ])
        || (says(&["exceeded your current quota"]) && !may_wait)
    {
        return ModelError::Auth(info);
    }
    match status {
        Some(429) => ModelError::RateLimited(info),
        Some(401 | 403) => ModelError::Auth(info),
        Some(408 | 409 | 425) => ModelError::Overloaded(info),
        // Gateways limit the bytes of a request, often without a code or a reason.
        Some(413) => ModelError::ContextLength(info),
        Some(501 | 505) => ModelError::Invalid(info),
        Some(500..) => ModelError::Overloaded(info),
        Some(_) => ModelError::Invalid(info),
        None if has(&[
            "rate_limit_error",
            "rate_limit_exceeded",
            "too_many_requests",
            "throttlingException",
            "RESOURCE_EXHAUSTED",
        ]) =>
        {
            ModelError::RateLimited(info)
        }
        None if has(&[
            "authentication_error",
            "permission_error",
            "invalid_api_key",
            "accessDeniedException",
            "usage_not_included",
        ]) =>
        {
            ModelError::Auth(info)
        }
        None if codes.iter().any(|code| is_refusal(code)) => ModelError::Invalid(info),
        None if has(&[
            "invalid_request_error",
            "not_found_error",
            "invalid_prompt",
            "model_not_found",
            "validationException",
            "BadRequestError",
            "NotFoundError",
        ]) =>
        {
            ModelError::Invalid(info)
        }
        None => ModelError::Overloaded(info),
    }
}

/// Returns whether a code rejects the content of a request, which would be rejected each time: images, policies and
/// formats.
fn is_refusal(code: &str) -> bool {
    ["invalid_", "unsupported_"].iter().any(|start| code.starts_with(start))
        || ["image", "policy"].iter().any(|part| code.split('_').any(|word| word == *part))
}

/// Phrases in providers' errors for a prompt that is too long, in lower case.
const TOO_LONG: &[&str] = &[
    "prompt is too long",
    "input is too long",
    "maximum context length",
    "maximum prompt length",
    "available context size",
    "exceeds the context window",
    "exceed context limit",
    "exceeds the model's context",
    "context length exceeded",
    "exceeds the context length",
    "context window exceeded",
    "context limit exceeded",
    "input tokens exceed the configured limit",
    // Error names that gateways put in the text.
    "context_length_exceeded",
    "contextwindowexceedederror",
    "too large for model with",
    "exceeds the maximum number of tokens",
    "reduce the length of the messages",
    "please reduce your message size",
    "number of tokens in the prompt cannot exceed",
    "context window exceeds limit",
    "exceeded model token limit",
    "range of input length should be",
    "`inputs` tokens + `max_new_tokens` must be",
    "greater than the context length",
    "prompt exceeds max length",
    // Limits of a request's size in bytes.
    "request entity too large",
    "request body too large",
    "request_too_large",
    "payload too large",
    "payload size exceeds the limit",
];
