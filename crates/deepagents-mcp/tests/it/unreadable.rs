//! Programs whose responses are malformed.

use std::time::Duration;

use deepagents_models::scripted::Turn;
use serde_json::json;

use crate::script::{Script, agent, alone, echo, results, run, text};

/// A server that answers each call with the case named by its argument `text`: a line of a file, or the output of shell
/// code.
fn answering(cases: &[(&str, &str)]) -> Script {
    let cases: String =
        cases.iter().map(|(name, shell)| format!("*'\"text\":\"{name}\"'*) {shell} ;;\n        ")).collect();
    Script::new(&[echo()], format!("case \"$line\" in {cases}esac"))
}

#[tokio::test]
async fn an_unreadable_response_fails_its_call_at_once() {
    let cases = [
        ("number", r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"n":NaN}}\n' $id"#),
        ("deep", r#"printf '{"jsonrpc":"2.0","id":%s,"result":' $id; head -c 500 /dev/zero | tr '\0' '['; echo"#),
        ("shape", r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":"done"}}\n' $id"#),
        ("none", r#"printf '{"jsonrpc":"2.0","id":%s}\n' $id"#),
        ("both", r#"printf '{"jsonrpc":"2.0","id":%s,"result":{},"error":{"code":1,"message":"x"}}\n' $id"#),
        (
            "long",
            r#"printf '{"result":{"content":[{"type":"text","text":"'; head -c 17825792 /dev/zero | tr '\0' 'x'; printf '"}]},"jsonrpc":"2.0","id":%s}\n' $id"#,
        ),
    ];
    let script = answering(&cases);
    let servers = alone(script.config().call_timeout(Duration::from_secs(30)));
    let calls = cases.iter().map(|(name, _)| ("mcp__alpha__echo", json!({"text": name})));
    let (agent, _) = agent(&servers, [Turn::calls(calls), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert_eq!(results.len(), cases.len());
    for ((name, _), (said, is_error)) in cases.iter().zip(&results) {
        let words = if *name == "shape" { "the result cannot be read" } else { "unreadable answer" };
        assert!(*is_error && said.contains(words), "{name}: {said}");
    }
    assert!(results[5].0.contains("16 MiB"), "{results:?}");
    assert_eq!(script.pids().len(), 1, "the connection holds");
}

#[tokio::test]
async fn an_endless_response_fails_early_and_an_endless_flood_ends_the_server() {
    let cases = [
        (
            "answer",
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"x":"' $id; yes xxxxxxxxxxxxxxx | tr -d '\n'"#,
            "16 MiB",
        ),
        ("words", r"yes xxxxxxxxxxxxxxx | tr -d '\n'", "64 MiB"),
        (
            "lines",
            r#"yes '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}'"#,
            "too many lines",
        ),
    ];
    for (name, shell, expected) in cases {
        let script = answering(&[(name, shell)]);
        // No call may wait for this timeout: the test itself would time out first.
        let servers = alone(script.config().call_timeout(Duration::from_secs(3_600)));
        let (agent, _) = agent(&servers, crate::script::one_call("echo", json!({"text": name})));
        let (outcome, _) = run(&agent, "Go.").await;
        servers.close().await;
        let results = results(&outcome);
        assert!(results[0].1 && results[0].0.contains(expected), "{name}: {results:?}");
    }
}

#[tokio::test]
async fn imperfect_but_unambiguous_responses_are_accepted() {
    let result = r#""result":{"content":[{"type":"text","text":"here"}]}"#;
    let cases = [
        ("batch", format!(r#"printf '[{{"jsonrpc":"2.0","id":%s,{result}}}]\n' $id"#), "here"),
        ("unnamed", format!(r#"printf '{{"id":%s,{result}}}\n' $id"#), "here"),
        ("nothing", format!(r#"printf '{{"jsonrpc":"2.0","id":%s,{result},"error":null}}\n' $id"#), "here"),
        ("words", format!(r#"printf 'DEBUG sent {{"jsonrpc":"2.0","id":%s,{result}}}\n' $id"#), "here"),
        ("texts", format!(r#"printf '{{"jsonrpc":"2.0","id":"%s",{result}}}\n' $id"#), "here"),
        (
            "latin",
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"caf\351"}]}}\n' $id"#
                .into(),
            "caf\u{fffd}",
        ),
        (
            "half",
            r#"printf '{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"a\\ud83d"}]}}\n' $id"#
                .into(),
            "a\u{fffd}",
        ),
        ("wordless", r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":7}}\n' $id"#.into(), "{\"code\":7}"),
        ("coded", r#"printf '{"jsonrpc":"2.0","id":%s,"error":{"code":"E","message":"no"}}\n' $id"#.into(), "no"),
        ("plain", r#"printf '{"jsonrpc":"2.0","id":%s,"error":"broken"}\n' $id"#.into(), "broken"),
    ];
    let shells: Vec<(&str, &str)> = cases.iter().map(|(name, shell, _)| (*name, shell.as_str())).collect();
    let script = answering(&shells);
    let servers = alone(script.config().call_timeout(Duration::from_secs(30)));
    let calls = cases.iter().map(|(name, ..)| ("mcp__alpha__echo", json!({"text": name})));
    let (agent, _) = agent(&servers, [Turn::calls(calls), Turn::text("Done.")]);
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    let results = results(&outcome);
    assert_eq!(results.len(), cases.len());
    for ((name, _, expected), (said, is_error)) in cases.iter().zip(&results) {
        let is_failure = ["wordless", "coded", "plain"].contains(name);
        assert!(said.contains(expected) && *is_error == is_failure, "{name}: {said}");
    }
}

#[tokio::test]
async fn answers_to_no_request_do_not_prevent_a_server_from_starting() {
    let stray = [
        r#"{"jsonrpc":"2.0","id":"other","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":77,"error":{"code":-1,"message":"x"}}"#,
    ];
    let stray = stray.map(|line| format!("say '{line}'")).join("\n");
    let script = Script::new(&[echo()], text("here")).at_start(&stray);
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, crate::script::one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("here".to_owned(), false)]);
}

#[tokio::test]
async fn errors_without_a_request_do_not_prevent_a_server_from_starting() {
    let stray = r#"say '{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}'"#;
    let script =
        Script::new(&[echo()], format!("{stray}\n{}", text("here"))).at_start(&format!("{stray}\n{stray}\n{stray}"));
    let servers = alone(script.config());
    let (agent, _) = agent(&servers, crate::script::one_call("echo", json!({})));
    let (outcome, _) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(results(&outcome), [("here".to_owned(), false)]);
}
