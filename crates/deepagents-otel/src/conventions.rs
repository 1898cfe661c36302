//! The names of OpenTelemetry's conventions for generative AI, and nothing else that knows them.
//!
//! All of them have the status "development": names change from version to version. They are those of the version in
//! [`SCHEMA_URL`], which is sent with all spans and metrics. Names of our own begin with `deepagents.`.

/// The version of the conventions.
pub const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/gen-ai/1.42.0";
/// The instrumentation scope of all spans and metrics.
pub const SCOPE: &str = "deepagents";

/// Values of [`OPERATION_NAME`].
pub mod operation {
    /// A request to a model.
    pub const CHAT: &str = "chat";
    /// A call of a tool.
    pub const EXECUTE_TOOL: &str = "execute_tool";
    /// An agent's run.
    pub const INVOKE_AGENT: &str = "invoke_agent";
}

/// What a span is about.
pub const OPERATION_NAME: &str = "gen_ai.operation.name";
/// Who serves the model.
pub const PROVIDER_NAME: &str = "gen_ai.provider.name";
/// The model that was asked.
pub const REQUEST_MODEL: &str = "gen_ai.request.model";
/// Tokens that the answer may hold.
pub const REQUEST_MAX_TOKENS: &str = "gen_ai.request.max_tokens";
/// Randomness.
pub const REQUEST_TEMPERATURE: &str = "gen_ai.request.temperature";
/// Nucleus sampling.
pub const REQUEST_TOP_P: &str = "gen_ai.request.top_p";
/// Texts that end the answer.
pub const REQUEST_STOP_SEQUENCES: &str = "gen_ai.request.stop_sequences";
/// What randomness began with.
pub const REQUEST_SEED: &str = "gen_ai.request.seed";
/// The server that the request was sent to.
pub const SERVER_ADDRESS: &str = "server.address";
/// Its port.
pub const SERVER_PORT: &str = "server.port";
/// The provider's id of the answer.
pub const RESPONSE_ID: &str = "gen_ai.response.id";
/// The model that answered, where it is known to be another than was asked.
pub const RESPONSE_MODEL: &str = "gen_ai.response.model";
/// Why the model stopped, one word for each answer.
pub const RESPONSE_FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
/// Seconds until the first piece of the answer.
pub const RESPONSE_TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
/// Tokens of the prompt, cached or not.
pub const USAGE_INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
/// Tokens of the answer, reasoning included.
pub const USAGE_OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
/// Tokens of the prompt that came from the provider's cache.
pub const USAGE_CACHE_READ: &str = "gen_ai.usage.cache_read.input_tokens";
/// Tokens of the prompt that were put into the provider's cache.
pub const USAGE_CACHE_WRITE: &str = "gen_ai.usage.cache_write.input_tokens";
/// Tokens of the answer that were spent on reasoning.
pub const USAGE_REASONING: &str = "gen_ai.usage.reasoning.output_tokens";
/// The thread.
pub const CONVERSATION_ID: &str = "gen_ai.conversation.id";
/// The name of an agent.
pub const AGENT_NAME: &str = "gen_ai.agent.name";
/// What an agent is for.
pub const AGENT_DESCRIPTION: &str = "gen_ai.agent.description";
/// The path of a sub-agent.
pub const AGENT_ID: &str = "gen_ai.agent.id";
/// The name of a tool.
pub const TOOL_NAME: &str = "gen_ai.tool.name";
/// The kind of a tool; ours are all [`TOOL_TYPE_FUNCTION`].
pub const TOOL_TYPE: &str = "gen_ai.tool.type";
/// A tool that the client runs.
pub const TOOL_TYPE_FUNCTION: &str = "function";
/// The provider's id of a call.
pub const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
/// The class of an error.
pub const ERROR_TYPE: &str = "error.type";
/// Whether the tokens of a measurement are of the prompt or of the answer.
pub const TOKEN_TYPE: &str = "gen_ai.token.type";

/// Content, only where it is asked for: the conversation that the model was sent, as JSON.
pub const INPUT_MESSAGES: &str = "gen_ai.input.messages";
/// Content: the model's answer, as JSON.
pub const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";
/// Content: the system prompt, as JSON.
pub const SYSTEM_INSTRUCTIONS: &str = "gen_ai.system_instructions";
/// Content: the tools that the model was offered, as JSON.
pub const TOOL_DEFINITIONS: &str = "gen_ai.tool.definitions";
/// Content: the arguments of a call, as JSON.
pub const TOOL_CALL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
/// Content: what the call gave.
pub const TOOL_CALL_RESULT: &str = "gen_ai.tool.call.result";

/// Ours: the id of the run, which stays the same when another process goes on with it.
pub const RUN_ID: &str = "deepagents.run.id";
/// Ours: 0 for the process that began the run, counted up by each that goes on with it.
pub const RUN_ATTEMPT: &str = "deepagents.run.attempt";
/// Ours: why a run ended.
pub const FINISH_REASON: &str = "deepagents.finish_reason";
/// Ours: the id of the answer in the thread.
pub const MESSAGE_ID: &str = "deepagents.message.id";
/// Ours: an event of a `chat` span, a try that failed and was made again.
pub const ATTEMPT_DISCARDED: &str = "deepagents.attempt_discarded";
/// Ours: the pause before the next try, in milliseconds.
pub const RETRY_AFTER_MS: &str = "deepagents.retry_after_ms";
/// Ours: why a try failed; content.
pub const REASON: &str = "deepagents.reason";

/// The names of metrics.
pub mod metric {
    /// Tokens, by [`TOKEN_TYPE`](super::TOKEN_TYPE).
    pub const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
    /// Seconds of requests to models.
    pub const OPERATION_DURATION: &str = "gen_ai.client.operation.duration";
    /// Seconds until the first piece of an answer.
    pub const TIME_TO_FIRST_CHUNK: &str = "gen_ai.client.operation.time_to_first_chunk";
    /// Seconds of calls of tools.
    pub const TOOL_DURATION: &str = "gen_ai.execute_tool.duration";
    /// Seconds of runs of agents.
    pub const AGENT_DURATION: &str = "gen_ai.invoke_agent.duration";
    /// Ours: spans that were not exported.
    pub const DROPPED_SPANS: &str = "deepagents.export.dropped_spans";
}

/// The conventions' name of a provider of ours, the part of a model's name before the colon.
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
