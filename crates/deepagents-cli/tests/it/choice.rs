//! The choice of the model, and the errors if there is none.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::program::{deepagents, finish, finish_with, run};
use crate::server::{Reply, Server};

#[test]
fn version_and_help_are_printed() {
    let version = finish(deepagents().arg("--version"));
    assert_eq!(
        (version.code, version.out.as_str()),
        (Some(0), concat!("deepagents ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    let help = finish(deepagents().args(["run", "--help"]));
    assert!(help.code == Some(0) && help.out.contains("--max-turns") && help.out.contains("Examples:"), "{help:?}");
    assert_eq!(finish(deepagents().args(["run", "--timeout", "soon"])).code, Some(2));
}

#[test]
fn an_option_before_the_subcommand_is_an_error_that_shows_its_place() {
    let message = finish(deepagents().args(["--root", "somewhere", "run", "hello"]));
    let tip = "options go after the subcommand: `deepagents run --root <DIR>`";
    assert!(message.code == Some(2) && message.err.contains(tip), "{message:?}");
}

#[test]
fn completions_include_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = finish(deepagents().args(["completions", shell]));
        assert_eq!((script.code, script.err.as_str()), (Some(0), ""));
        for word in ["replay", "max-tokens", "older-than"] {
            assert!(script.out.contains(word), "{shell} lacks {word}");
        }
    }
    assert_eq!(finish(deepagents().args(["completions", "abacus"])).code, Some(2));
}

#[test]
fn a_missing_key_error_names_the_variables() {
    let message = finish(deepagents().args(["run", "hello"]));
    let message = message.one_message();
    assert!(message.contains("ANTHROPIC_API_KEY") && message.contains("deepagents demo"), "{message}");
}

#[test]
fn a_missing_key_error_for_a_named_model_names_its_variable() {
    let message = finish(deepagents().args(["run", "--model", "mistral:mistral-large-latest", "hello"]));
    assert!(message.one_message().contains("set MISTRAL_API_KEY"), "{message:?}");
}

#[test]
fn an_unknown_provider_error_lists_the_known_ones() {
    let message = finish(deepagents().args(["run", "--model", "nobody:x", "hello"]));
    assert!(
        message.wrong_usage().contains("no provider `nobody`") && message.err.contains("anthropic, "),
        "{message:?}"
    );
    let bare = finish(deepagents().args(["run", "--model", "claude-sonnet-4-5", "hello"]));
    assert!(bare.wrong_usage().contains("anthropic:claude-sonnet-4-5"), "{bare:?}");
    let azure = finish(deepagents().env("AZURE_OPENAI_API_KEY", "k").args(["run", "--model", "azure:x", "hello"]));
    assert!(azure.wrong_usage().contains("--base-url"), "{azure:?}");
}

#[test]
fn the_root_must_be_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let message = finish(run(&file, "http://127.0.0.1:1/v1").arg("hello"));
    assert!(message.wrong_usage().contains("is not a directory"), "{message:?}");
    let message = finish(run(&dir.path().join("missing"), "http://127.0.0.1:1/v1").arg("hello"));
    assert!(message.wrong_usage().contains("does not exist"), "{message:?}");
}

#[test]
fn command_line_errors_are_reported_before_a_missing_key() {
    let root = finish(deepagents().args(["run", "--root", "/no/such/place", "hello"]));
    assert!(root.wrong_usage().contains("`/no/such/place` does not exist"), "{root:?}");
    let task = finish(deepagents().args(["run", " "]));
    assert!(task.wrong_usage().contains("task is empty"), "{task:?}");
    let system = finish(deepagents().args(["run", "--system", "@/no/such/file", "hello"]));
    assert!(system.wrong_usage().contains("`/no/such/file` given with --system"), "{system:?}");
}

#[test]
fn a_byte_order_mark_is_dropped_and_non_text_input_is_a_usage_error() {
    let server = Server::start([Reply::Text(vec!["Hello."])]);
    let dir = tempfile::tempdir().unwrap();
    let (system, task) = (dir.path().join("system.md"), dir.path().join("task"));
    std::fs::write(&system, "\u{feff}You are brief.\n").unwrap();
    let mut command = run(dir.path(), &server.address);
    let finished =
        finish_with(command.arg("--no-save").arg("--system").arg(format!("@{}", system.display())), "\u{feff}Hi");
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let messages = server.requests()[0].body["messages"].to_string();
    assert!(messages.contains("You are brief.") && !messages.contains('\u{feff}'), "{messages}");
    std::fs::write(&task, [0xff, 0xfe, 0x00]).unwrap();
    let refused = finish(run(dir.path(), &server.address).stdin(std::fs::File::open(&task).unwrap()));
    assert!(refused.wrong_usage().contains("is not text in UTF-8"), "{refused:?}");
}

#[test]
fn an_unusable_storage_location_is_reported_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let root = dir.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let finished = finish(run(&root, "http://127.0.0.1:1/v1").arg("--db").arg(file.join("t.db")).arg("hello"));
    let message = finished.one_message();
    assert!(message.contains("cannot be stored beside the database") && message.contains("--db"), "{message}");
}

#[test]
fn an_empty_task_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let given = finish(run(dir.path(), "http://127.0.0.1:1/v1").arg("  "));
    assert!(given.wrong_usage().contains("task is empty"), "{given:?}");
    let piped = finish_with(&mut run(dir.path(), "http://127.0.0.1:1/v1"), "\n");
    assert!(piped.wrong_usage().contains("task is empty"), "{piped:?}");
}

#[test]
fn a_connection_refused_error_names_the_host() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let finished = finish(run(dir.path(), &format!("http://{address}/v1")).args(["-q", "hello"]));
    let message = finished.one_message();
    assert_eq!(message.matches("refused").count(), 1, "{message}");
    assert!(message.contains(&address.to_string()), "{message}");
}

#[test]
fn an_address_with_a_bare_name_is_openai_compatible_with_an_optional_key() {
    let server = Server::start([Reply::Text(vec!["one"]), Reply::Text(vec!["two"])]);
    let dir = tempfile::tempdir().unwrap();
    let without = finish(run(dir.path(), &server.address).args(["-q", "hello"]));
    let with = finish(run(dir.path(), &server.address).env("DEEPAGENTS_API_KEY", "k1").args(["-q", "hello"]));
    assert_eq!((without.out.as_str(), with.out.as_str()), ("one\n", "two\n"), "{without:?} {with:?}");
    let requests = server.requests();
    let key = |at: usize| requests[at].head.iter().find(|line| line.starts_with("authorization:")).cloned();
    assert_eq!((key(0), key(1)), (None, Some("authorization: bearer k1".to_owned())));
    assert_eq!(requests[0].body["model"], "test-model");
}

#[test]
fn a_model_from_the_environment_is_announced_unless_quiet() {
    let server = Server::start([Reply::Text(vec!["hi"]), Reply::Text(vec!["hi"])]);
    let dir = tempfile::tempdir().unwrap();
    let mut loud = deepagents();
    loud.args(["run", "hello", "--base-url", &server.address, "--root"])
        .arg(dir.path())
        .env("DEEPAGENTS_MODEL", "small");
    let loud = finish(&mut loud);
    assert!(loud.err.contains("using custom:small (from DEEPAGENTS_MODEL)"), "{loud:?}");
    let quiet = finish(
        deepagents()
            .args(["run", "-q", "hello", "--base-url", &server.address, "--root"])
            .arg(dir.path())
            .env("DEEPAGENTS_MODEL", "small"),
    );
    assert_eq!(quiet.err, "");
}

#[test]
fn models_lists_providers_keys_and_the_current_choice() {
    let none = finish(deepagents().arg("models"));
    assert!(none.code == Some(0) && none.out.contains("could not choose"), "{none:?}");
    let picked =
        finish(deepagents().arg("models").env("OPENAI_API_KEY", "secret-key").env("GROQ_API_KEY", "secret-key"));
    assert!(picked.out.contains("would use openai:") && picked.out.contains("200,000"), "{picked:?}");
    assert!(!picked.out.contains("secret-key"));
    let named = |name: &str| finish(deepagents().args(["models", name])).out;
    let sonnet = named("claude-sonnet-4-5");
    assert!(sonnet.contains("\n  claude-sonnet-4-5 ") && !sonnet.contains("providers"), "{sonnet}");
    assert!(sonnet.lines().skip(2).all(|line| line.starts_with("  claude-sonnet-4-5")), "{sonnet}");
    for same in ["anthropic:claude-sonnet-4-5", "Claude-Sonnet-4.5", "openrouter:anthropic/claude-sonnet-4.5"] {
        assert_eq!(named(same), sonnet);
    }
    // A full name matches by its prefix.
    assert!(named("claude-sonnet-4-5-20250929").contains("\n  claude-sonnet-4-5 "));
    // A provider alone selects the models that it makes.
    for provider in ["anthropic", "anthropic:", "anthropic/", "Anthropic"] {
        let made = named(provider);
        assert!(made.contains("\n  claude-sonnet-4-5 ") && made.contains("\n  claude-3-haiku "), "{provider}: {made}");
        assert!(made.lines().skip(2).all(|line| line.starts_with("  claude-")), "{provider}: {made}");
    }
    for (provider, made) in
        [("openai", "o3-mini"), ("openai-chat", "o3-mini"), ("zai", "glm-4.6"), ("google", "gemini-")]
    {
        assert!(named(provider).contains(&format!("\n  {made}")), "{provider}");
    }
    assert!(named("groq").contains("serves models of other makers"), "{}", named("groq"));
    let mistral = finish(deepagents().args(["models", "mistral:", "--json"]));
    let mistral: Value = serde_json::from_str(&mistral.out).unwrap();
    let models: Vec<_> =
        mistral["models"].as_array().unwrap().iter().map(|model| model["prefix"].as_str().unwrap()).collect();
    for model in ["mistral-large-latest", "codestral", "Mistral-7B-Instruct-v0.1"] {
        assert!(models.contains(&model), "{models:?}");
    }
    assert!(!models.iter().any(|model| model.starts_with("claude")), "{models:?}");
    // The machine may run model servers.
    let is_of_it = |one: &Value| one["name"].as_str().unwrap().contains("mistral:");
    assert!(mistral["served"].as_array().unwrap().iter().all(is_of_it), "{mistral}");
    let json = finish(deepagents().args(["models", "--json"]).env("GROQ_API_KEY", "k"));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert!(json["choice"].as_str().unwrap().starts_with("groq:"));
}

#[test]
fn models_lists_those_of_the_ollama_server_that_the_environment_names() {
    let served = json!({"models": [{"name": "llama-of-the-test"}]});
    let server = Server::with_models([], Some(served));
    let listed = finish(deepagents().arg("models").env("OLLAMA_HOST", &server.address));
    assert!(listed.out.contains("  ollama:llama-of-the-test\n"), "{listed:?}");
}

#[test]
fn explain_works_without_a_key_and_names_its_stand_in() {
    let text = finish(deepagents().args(["explain", "--system", "Be brief."]));
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(
        text.err.contains("as a stand-in") && text.out.contains("read_file") && text.out.contains("Be brief."),
        "{text:?}"
    );
    let json = finish(deepagents().args(["explain", "--json", "--no-todos", "--model", "openai:gpt-5.2"]));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["model"], "openai:gpt-5.2");
    assert!(!json["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == "write_todos"));
    let alone = |system: &[&str]| {
        let out = finish(deepagents().args(["explain", "--json"]).args(system)).out;
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let (without, with) = (alone(&[]), alone(&["--system", "Be brief."]));
    let system = |json: &Value| json["system_tokens"].as_u64().unwrap();
    // The tokens are "Be", " brief" and, with the blank line, "."; the estimate is a quarter of eleven characters.
    let (by, more) = if cfg!(feature = "tokens") { ("o200k", 3..=3) } else { ("estimate", 2..=3) };
    assert_eq!(with["tokenizer"], by);
    assert!(more.contains(&(system(&with) - system(&without))), "{with}");
    let tools: u64 = with["tools"].as_array().unwrap().iter().map(|tool| tool["tokens"].as_u64().unwrap()).sum();
    assert_eq!(with["fixed_tokens"].as_u64(), Some(tools + system(&with)));
    let last = text.out.trim_end().lines().last().unwrap_or_default();
    let (about, by) = if cfg!(feature = "tokens") { ("", " (o200k)") } else { ("about ", "") };
    assert_eq!(last, format!("every request begins with {about}{} tokens{by}", with["fixed_tokens"]));
}
