//! The names of OpenTelemetry's semantic conventions for generative AI. Only this module knows them.
//!
//! All of them have the status "development", so names change between versions. These are from the version in
//! [`SCHEMA_URL`], which is sent with all spans and metrics. Names of this project begin with `deepagents.`.

/// The version of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/1.42.0";
/// The instrumentation scope of all spans and metrics.
pub const SCOPE: &str = "deepagents";

/// Values of [`OPERATION_NAME`].
pub mod operation {
    /// A model request.
    pub const CHAT: &str = "chat";
    /// A tool call.
    pub const EXECUTE_TOOL: &str = "execute_tool";
    /// A run of an agent.
    pub const INVOKE_AGENT: &str = "invoke_agent";
}

/// The operation of a span.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// The provider of the model.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The requested model.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// The maximum number of tokens of the answer.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// The sampling temperature.
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// The top-p of nucleus sampling.
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
/// Sequences that end the answer.
pub const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";
/// The seed of sampling.
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
/// The server that the request is sent to.
pub const SERVER_ADDRESS: &str = "server.address";
/// The server's port.
pub const SERVER_PORT: &str = "server.port";
/// The provider's id of the answer.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// The model that answered, if it is known to differ from the requested one.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Why the model stopped, one reason per answer.
pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Seconds until the first piece of the answer.
pub const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// Tokens of the prompt, cached or not.
pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens of the answer, reasoning included.
pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens of the prompt read from the provider's cache.
pub const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens of the prompt written to the provider's cache.
pub const USAGE_CACHE_WRITE: &str = "gen_ai.usage.cache_write.input_tokens";
/// Tokens of the answer used for reasoning.
pub const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
/// The thread.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The name of an agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// The description of an agent.
pub const AGENT_DESCRIPTION: &str = "gen_ai.agent.description";
/// The path of a sub-agent.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// The name of a tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The type of a tool; always [`TOOL_TYPE_FUNCTION`] here.
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// A tool executed by the client.
pub const TOOL_TYPE_FUNCTION: &str = "function";
/// The provider's id of a call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The class of an error.
pub const ERROR_TYPE: &str = "error.type";
/// Whether a measurement counts tokens of the prompt or of the answer.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";

/// Content, which is opt-in: the conversation sent to the model, as JSON.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Content: the model's answer, as JSON.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Content: the system prompt, as JSON.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// Content: the tools offered to the model, as JSON.
pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
/// Content: the arguments of a call, as JSON.
pub const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: the result of a call.
pub const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

/// Own name: the id of the run, which is kept when another process resumes it.
pub const RUN_ID: &str = "deepagents.run.id";
/// Own name: 0 for the process that started the run, incremented by each process that resumes it.
pub const RUN_ATTEMPT: &str = "deepagents.run.attempt";
/// Own name: why a run ended.
pub const FINISH_REASON: &str = "deepagents.finish_reason";
/// Own name: the id of the answer in the thread.
pub const MESSAGE_ID: &str = "deepagents.message.id";
/// Own name: an event of a `chat` span, a failed attempt that was retried.
pub const ATTEMPT_DISCARDED: &str = "deepagents.attempt_discarded";
/// Own name: the delay before the next attempt, in milliseconds.
pub const RETRY_AFTER_MS: &str = "deepagents.retry_after_ms";
/// Own name: why an attempt failed; content.
pub const REASON: &str = "deepagents.reason";

/// The names of metrics.
pub mod metric {
    /// Tokens, by [`TOKEN_TYPE`](super::TOKEN_TYPE).
    pub const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
    /// Duration of model requests in seconds.
    pub const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
    /// Seconds until the first piece of an answer.
    pub const TIME_TO_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
    /// Duration of tool calls in seconds.
    pub const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
    /// Duration of agent runs in seconds.
    pub const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
    /// Own name: spans that were not exported.
    pub const DROPPED_SPANS: &str = "deepagents.export.dropped_spans";
}

/// Returns the conventions' name for a provider, given the part of a model's name before the colon.
pub fn provider_name(prefix: &str) -> &str {
    match prefix {
        "azure" | "azure-chat" => "azure.ai.openai",
        "bedrock" | "bedrock-anthropic" => "aws.bedrock",
        "google" | "google-interactions" => "gcp.gemini",
        "vertex" | "vertex-anthropic" => "gcp.vertex_ai",
        "mistral" => "mistral_ai",
        "moonshot" => "moonshot_ai",
        "openai-chat" => "openai",
        "xai" => "x_ai",
        "ollama-chat" => "ollama",
        other => other,
    }
}
