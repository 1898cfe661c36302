//! Services that implement Chat Completions, with their differences.

use super::dialect::{CallIds, Dialect, OutputForm, ReasoningForm};

/// Dialects of known services, `custom` last.
pub(super) static TABLE: [Dialect; 20] = [
    Dialect::OPENAI,
    Dialect {
        name: "azure-chat",
        service: Some("azure"),
        base_url: None,
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        key_header: Some("api-key"),
        unknown_fields: false,
        ..Dialect::OPENAI
    },
    // The extra field `provider` selects the providers behind it.
    Dialect {
        reasoning: ReasoningForm::Field("reasoning"),
        malformed_arguments: true,
        unknown_fields: true,
        cache_marks: true,
        ..Dialect::service("openrouter", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY")
    },
    Dialect {
        output: OutputForm::JsonObject,
        parallel_field: false,
        malformed_arguments: true,
        missing_reasoning: Some(""),
        ..Dialect::service("deepseek", "https://api.deepseek.com", "DEEPSEEK_API_KEY")
    },
    Dialect {
        max_tokens_field: "max_completion_tokens",
        reasoning: ReasoningForm::Field("reasoning"),
        ..Dialect::service("groq", "https://api.groq.com/openai/v1", "GROQ_API_KEY")
    },
    Dialect {
        reasoning: ReasoningForm::Content,
        asks_usage: false,
        any_tool: "any",
        call_ids: CallIds::NineAlphanumerics,
        malformed_arguments: true,
        ..Dialect::service("mistral", "https://api.mistral.ai/v1", "MISTRAL_API_KEY")
    },
    Dialect {
        max_tokens_field: "max_completion_tokens",
        ..Dialect::service("xai", "https://api.x.ai/v1", "XAI_API_KEY")
    },
    Dialect {
        reasoning: ReasoningForm::Field("reasoning"),
        ..Dialect::service("together", "https://api.together.xyz/v1", "TOGETHER_API_KEY")
    },
    Dialect::service("fireworks", "https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY"),
    Dialect {
        max_tokens_field: "max_completion_tokens",
        reasoning: ReasoningForm::Field("reasoning"),
        ..Dialect::service("cerebras", "https://api.cerebras.ai/v1", "CEREBRAS_API_KEY")
    },
    // Searches by itself and does not support our tools; its reasoning is part of the text.
    Dialect {
        reasoning: ReasoningForm::Hidden,
        asks_usage: false,
        parallel_field: false,
        ..Dialect::service("perplexity", "https://api.perplexity.ai", "PERPLEXITY_API_KEY")
    },
    Dialect {
        parallel_field: false,
        ..Dialect::service("huggingface", "https://router.huggingface.co/v1", "HF_TOKEN")
    },
    Dialect {
        parallel_field: false,
        ..Dialect::service("nvidia", "https://integrate.api.nvidia.com/v1", "NVIDIA_API_KEY")
    },
    // Reasoning models reject calls without reasoning before them.
    Dialect {
        missing_reasoning: Some(" "),
        any_tool: "auto",
        parallel_field: false,
        output: OutputForm::JsonObject,
        ..Dialect::service("moonshot", "https://api.moonshot.ai/v1", "MOONSHOT_API_KEY")
    },
    Dialect {
        any_tool: "auto",
        parallel_field: false,
        output: OutputForm::JsonObject,
        ..Dialect::service("zai", "https://api.z.ai/api/paas/v4", "ZAI_API_KEY")
    },
    Dialect {
        any_tool: "auto",
        output: OutputForm::JsonObject,
        ..Dialect::service("qwen", "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "DASHSCOPE_API_KEY")
    },
    Dialect {
        reasoning: ReasoningForm::Field("reasoning"),
        service: Some("ollama"),
        parallel_field: false,
        ..Dialect::local("ollama-chat", "http://localhost:11434/v1", "OLLAMA_API_KEY")
    },
    Dialect::local("llamacpp", "http://localhost:8080/v1", "LLAMACPP_API_KEY"),
    Dialect::local("vllm", "http://localhost:8000/v1", "VLLM_API_KEY"),
    Dialect::BASE,
];
