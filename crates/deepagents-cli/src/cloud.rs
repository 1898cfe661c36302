//! The clouds' own variables: credentials that are not a plain key, and addresses that contain a region or project.

use deepagents::models::Credentials;

use crate::model_choice::{Env, key_variable};

/// Returns a provider's credentials from the environment.
pub(crate) fn credentials(provider: &str, env: Env) -> Option<Credentials> {
    if let Some(key) = key_variable(provider).and_then(env) {
        // Google issues an access token for Vertex, valid for an hour.
        return Some(if provider.starts_with("vertex") { Credentials::token(key) } else { key.into() });
    }
    match provider {
        "azure" | "azure-chat" => env("AZURE_OPENAI_AD_TOKEN").map(Credentials::token),
        "bedrock" | "bedrock-anthropic" => {
            let (id, secret) = (env("AWS_ACCESS_KEY_ID")?, env("AWS_SECRET_ACCESS_KEY")?);
            Some(Credentials::aws(id, secret, env("AWS_SESSION_TOKEN").map(Into::into)))
        }
        "google" => env("GOOGLE_API_KEY").map(Into::into),
        _ => None,
    }
}

/// Returns the address from the environment, for a provider whose address is not fixed or can be overridden.
pub(crate) fn base_url(provider: &str, env: Env) -> Option<String> {
    match provider {
        "azure" | "azure-chat" => {
            let endpoint = env("AZURE_OPENAI_ENDPOINT")?;
            let endpoint = endpoint.trim_end_matches('/');
            Some(if endpoint.contains("/openai") { endpoint.to_owned() } else { format!("{endpoint}/openai/v1") })
        }
        "bedrock" | "bedrock-anthropic" => {
            let region = env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION"))?;
            Some(format!("https://bedrock-runtime.{region}.amazonaws.com"))
        }
        "vertex" | "vertex-anthropic" => {
            let (project, location) = (env("GOOGLE_CLOUD_PROJECT")?, env("GOOGLE_CLOUD_LOCATION")?);
            let host = match location.as_str() {
                "global" => "aiplatform.googleapis.com".to_owned(),
                location => format!("{location}-aiplatform.googleapis.com"),
            };
            Some(format!("https://{host}/v1/projects/{project}/locations/{location}"))
        }
        // The variables that the services' own programs read.
        "openai" | "openai-chat" => env("OPENAI_BASE_URL"),
        "anthropic" => env("ANTHROPIC_BASE_URL"),
        "ollama" => env("OLLAMA_HOST").map(|host| ollama_address(&host)),
        "ollama-chat" => env("OLLAMA_HOST").map(|host| format!("{}/v1", ollama_address(&host))),
        _ => None,
    }
}

/// Completes the address in `OLLAMA_HOST`, which may omit the scheme and the port.
fn ollama_address(host: &str) -> String {
    let host = host.trim_end_matches('/');
    if host.contains("://") {
        return host.to_owned();
    }
    // An IPv6 address contains colons of its own.
    let name = host.rsplit(']').next().unwrap_or_default();
    let port = if name.contains(':') { "" } else { ":11434" };
    format!("http://{host}{port}")
}

/// Returns the variable that a provider's credentials come from, given the usual one; `None` if none is set.
pub(crate) fn set_variable(usual: &'static str, env: Env) -> Option<&'static str> {
    let other = match usual {
        "AWS_BEARER_TOKEN_BEDROCK" => Some("AWS_ACCESS_KEY_ID"),
        "AZURE_OPENAI_API_KEY" => Some("AZURE_OPENAI_AD_TOKEN"),
        "GEMINI_API_KEY" => Some("GOOGLE_API_KEY"),
        _ => None,
    };
    std::iter::once(usual).chain(other).find(|name| env(name).is_some())
}

/// Words for what may be set instead of the usual variable.
pub(crate) fn alternatives_text(usual: &str) -> &'static str {
    match usual {
        "AWS_BEARER_TOKEN_BEDROCK" => " or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cloud_variables_provide_addresses_and_credentials() {
        let vars = [
            ("AWS_REGION", "eu-central-1"),
            ("AWS_ACCESS_KEY_ID", "AKIA"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("AZURE_OPENAI_ENDPOINT", "https://x.openai.azure.com/"),
            ("GOOGLE_CLOUD_PROJECT", "p"),
            ("GOOGLE_CLOUD_LOCATION", "global"),
        ];
        let env = |name: &str| vars.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let address = |provider| base_url(provider, &env);
        assert_eq!(address("bedrock").as_deref(), Some("https://bedrock-runtime.eu-central-1.amazonaws.com"));
        assert_eq!(address("azure").as_deref(), Some("https://x.openai.azure.com/openai/v1"));
        let vertex = "https://aiplatform.googleapis.com/v1/projects/p/locations/global";
        assert_eq!(address("vertex-anthropic").as_deref(), Some(vertex));
        assert_eq!(address("openai"), None);
        let read = |provider, name: &str, value: &str| {
            base_url(provider, &|asked: &str| (asked == name).then(|| value.to_owned())).unwrap_or_default()
        };
        assert_eq!(read("openai", "OPENAI_BASE_URL", "http://gateway/v1"), "http://gateway/v1");
        assert_eq!(read("anthropic", "ANTHROPIC_BASE_URL", "http://gateway"), "http://gateway");
        assert_eq!(read("ollama", "OLLAMA_HOST", "box"), "http://box:11434");
        assert_eq!(read("ollama-chat", "OLLAMA_HOST", "https://box/"), "https://box/v1");
        assert_eq!(read("ollama", "OLLAMA_HOST", "[::1]:9"), "http://[::1]:9");
        assert_eq!(set_variable("AWS_BEARER_TOKEN_BEDROCK", &env), Some("AWS_ACCESS_KEY_ID"));
        assert_eq!(set_variable("OPENAI_API_KEY", &env), None);
        assert!(credentials("bedrock", &env).is_some() && credentials("azure", &env).is_none());
    }
}
