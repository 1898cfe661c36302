//! The provider's prompt cache stays valid: each request starts with the whole previous one.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::models::{Anthropic, Bedrock, Dialect, Gemini, ModelConfig, Ollama, OpenAiChat, OpenAiResponses};
use deepagents::{ChatModel, DeepAgent, ModelRequest};
use serde_json::{Value, json};

/// Thirty turns with plans, files, failures and parallel calls.
fn script() -> Vec<Turn> {
    let turn = |n: usize| match n % 5 {
        0 => Turn::call("write_todos", json!({"todos": [{"content": format!("Step {n}"), "status": "in_progress"}]})),
        1 => Turn::call("write_file", json!({"file_path": format!("/f{n}.txt"), "content": "text\n".repeat(n)})),
        2 => Turn::calls([
            ("read_file", json!({"file_path": format!("/f{}.txt", n - 1)})),
            ("ls", json!({"path": "/"})),
            ("no_such_tool", json!({})),
        ]),
        3 => Turn::call("edit_file", json!({"file_path": "/f1.txt", "old_string": "absent", "new_string": "x"})),
        _ => Turn::call("ls", json!({"path": "/"})).and_text("Looking.").thinking("Where was I?"),
    };
    (0..30).map(turn).chain([Turn::text("Done."), Turn::text("Really.")]).collect()
}

/// The prompt in the provider's order: tools, system prompt, messages by block. Cache marks are removed.
fn prompt(body: &[u8]) -> Vec<String> {
    let mut body: Value = serde_json::from_slice(body).unwrap();
    unmark(&mut body);
    let heads = ["tools", "toolConfig", "system", "instructions", "systemInstruction"];
    let mut parts: Vec<String> = heads.iter().map(|key| body[*key].to_string()).collect();
    let list = ["messages", "input", "contents"].iter().find_map(|key| body[*key].as_array()).unwrap();
    for message in list {
        match message["content"].as_array().or_else(|| message["parts"].as_array()) {
            Some(blocks) => parts.extend(blocks.iter().map(|block| format!("{} {block}", message["role"]))),
            None => parts.push(message.to_string()),
        }
    }
    parts
}

fn unmark(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.shift_remove("cache_control");
            map.values_mut().for_each(unmark);
        }
        Value::Array(items) => {
            items.retain(|item| item.get("cachePoint").is_none());
            items.iter_mut().for_each(unmark);
        }
        _ => {}
    }
}

async fn check(encode: impl Fn(&ModelRequest) -> Vec<u8>) {
    let model = ScriptedModel::new(script());
    let agent = DeepAgent::builder().model(model.clone()).system_prompt("You are careful.").build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let prompts: Vec<Vec<String>> = model.requests().iter().map(|request| prompt(&encode(request))).collect();
    assert!(prompts.len() > 30);
    for (n, pair) in prompts.windows(2).enumerate() {
        let [before, after] = pair else { unreachable!() };
        assert!(after.len() > before.len(), "request {} adds nothing", n + 1);
        assert_eq!(after[..before.len()], before[..], "request {} does not begin with request {n}", n + 1);
    }
}

fn config() -> ModelConfig {
    ModelConfig { api_key: Some("any".into()), ..ModelConfig::default() }
}

#[tokio::test]
async fn each_anthropic_request_starts_with_the_whole_previous_one() {
    let client = Anthropic::new("claude-sonnet-4-5", config()).unwrap();
    assert!(client.profile().cache_marks);
    check(|request| client.request_body(request).unwrap()).await;
}

#[tokio::test]
async fn each_chat_completions_request_starts_with_the_whole_previous_one() {
    let client = OpenAiChat::new(Dialect::named("openai-chat").unwrap(), "gpt-4.1", config()).unwrap();
    check(|request| client.request_body(request).unwrap()).await;
}

#[tokio::test]
async fn each_request_over_the_other_wires_starts_with_the_whole_previous_one() {
    let responses = OpenAiResponses::new("openai", "gpt-5.2", config()).unwrap();
    check(|request| responses.request_body(request).unwrap()).await;
    let gemini = Gemini::new("gemini-2.5-pro", config()).unwrap();
    check(|request| gemini.request_body(request).unwrap()).await;
    let ollama = Ollama::new("qwen3:4b", config()).unwrap();
    check(|request| ollama.request_body(request).unwrap()).await;
    let base_url = Some("https://bedrock-runtime.us-east-1.amazonaws.com".into());
    let bedrock = Bedrock::new("anthropic.claude-sonnet-4-5", ModelConfig { base_url, ..config() }).unwrap();
    check(|request| bedrock.request_body(request).unwrap()).await;
}

#[tokio::test]
async fn two_runs_of_the_same_script_send_the_same_bytes() {
    let client = Anthropic::new("claude-sonnet-4-5", config()).unwrap();
    let mut runs = Vec::new();
    for _ in 0..2 {
        let model = ScriptedModel::new(script());
        let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
        agent.invoke("Go.").await.unwrap();
        runs.push(model.requests().iter().map(|r| client.request_body(r).unwrap()).collect::<Vec<_>>());
    }
    assert_eq!(runs[0], runs[1]);
}
