//! Servers with invalid responses, and servers with only what the Agent Protocol requires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents::remote::RemoteConfig;
use deepagents::{Decision, MemoryJournal, RunInput};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{below, delegating, play};

type Answer = dyn Fn(&str, &str) -> Option<String> + Send + Sync;

/// Serves raw responses by request line and body, and records the heads of requests.
async fn raw(
    answer: impl Fn(&str, &str) -> Option<String> + Send + Sync + 'static,
) -> (String, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (answer, heads): (Arc<Answer>, Arc<Mutex<Vec<String>>>) = (Arc::new(answer), Arc::default());
    let noted = heads.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(one(stream, answer.clone(), noted.clone()));
        }
    });
    (url, heads)
}

async fn one(mut stream: TcpStream, answer: Arc<Answer>, heads: Arc<Mutex<Vec<String>>>) -> std::io::Result<()> {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    let (head, length) = loop {
        let read = stream.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
            break (head.to_owned(), length.unwrap_or(0));
        }
    };
    while text.len() < head.len() + 4 + length {
        let read = stream.read(&mut bytes).await?;
        if read == 0 {
            return Ok(());
        }
        text.push_str(&String::from_utf8_lossy(&bytes[..read]));
    }
    heads.lock().unwrap().push(head.clone());
    if let Some(answer) =
        answer(head.lines().next().unwrap_or_default(), text.split_once("\r\n\r\n").map_or("", |(_, body)| body))
    {
        stream.write_all(answer.as_bytes()).await?;
    }
    Ok(())
}

fn ok(body: &serde_json::Value) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

const NOT_FOUND: &str = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

async fn asked(url: &str) -> String {
    let there = RemoteConfig::langgraph(url, "worker").unwrap().retry_timeout(Duration::from_millis(300));
    play(&delegating(there).build().unwrap(), "Hi").await.0.text()
}

#[tokio::test]
async fn a_minimal_agent_protocol_server_is_polled_for_the_run_status() {
    let looks = Mutex::new(0);
    let (url, _) = raw(move |line, _| {
        let messages = json!([{"type": "human", "content": "Hi", "id": "1"},
            {"type": "ai", "content": "Hello.", "id": "2", "usage_metadata": {"input_tokens": 7, "output_tokens": 3}}]);
        Some(match line.split(' ').take(2).collect::<Vec<_>>()[..] {
            ["POST", "/threads"] => ok(&json!({"thread_id": "t"})),
            ["POST", path] if path.ends_with("/runs") => ok(&json!({"run_id": "r", "status": "pending"})),
            ["GET", path] if path.ends_with("/runs/r") => {
                let mut looks = looks.lock().unwrap();
                *looks += 1;
                ok(&json!({"run_id": "r", "status": if *looks < 3 { "running" } else { "success" }}))
            }
            ["GET", path] if path.starts_with("/threads/") && !path.contains("/runs") => {
                ok(&json!({"thread_id": "t", "status": "idle", "values": {"messages": messages}}))
            }
            _ => NOT_FOUND.to_owned(),
        })
    })
    .await;
    let there = RemoteConfig::langgraph(&url, "worker").unwrap();
    let (outcome, events) = play(&delegating(there).build().unwrap(), "Hi").await;
    assert_eq!(outcome.text(), "Hello.");
    assert!(below(&events).contains(&"task:0.0: answered 7+3".to_owned()), "{:#?}", below(&events));
}

#[tokio::test]
async fn invalid_responses_are_readable_errors() {
    let (url, _) =
        raw(|_, _| Some("HTTP/1.1 200 OK\r\ncontent-length: 3\r\nconnection: close\r\n\r\n<a>".into())).await;
    assert!(asked(&url).await.contains("gave an answer that is not in the protocol"));
    let (url, _) = raw(|_, _| Some(ok(&json!({"run_id": "../../admin"})))).await;
    assert!(asked(&url).await.contains("no `run_id`"));
    let (url, _) = raw(|_, _| None).await;
    assert!(asked(&url).await.contains("does not answer"));
    let (url, _) = raw(|_, _| Some("not even HTTP\r\n\r\n".into())).await;
    assert!(asked(&url).await.contains("does not answer"));
    for after in ["18446744073709551615", "99999999999999999999", "-1", "soon"] {
        let head = format!("HTTP/1.1 503 x\r\nretry-after: {after}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
        let (url, _) = raw(move |_, _| Some(head.clone())).await;
        assert!(asked(&url).await.contains("does not answer"), "{after}");
    }
}

#[tokio::test]
async fn a_redirect_to_another_host_receives_neither_task_nor_headers() {
    let (thief, heads) = raw(|_, _| Some(ok(&json!({})))).await;
    let to = thief.clone();
    let (url, _) = raw(move |_, _| {
        Some(format!("HTTP/1.1 307 x\r\nlocation: {to}/threads\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"))
    })
    .await;
    let there = RemoteConfig::langgraph(&url, "worker").unwrap().header("x-api-key", "very-secret").unwrap();
    let (outcome, _) = play(&delegating(there).build().unwrap(), "Hi").await;
    assert!(outcome.text().contains("307"), "{}", outcome.text());
    assert!(heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_a2a_card_cannot_redirect_requests_to_another_host() {
    let (thief, heads) = raw(|_, _| Some(ok(&json!({})))).await;
    let card = json!({"name": "x", "url": thief, "protocolVersion": "0.3.0", "preferredTransport": "JSONRPC"});
    let (url, _) = raw(move |_, _| Some(ok(&card))).await;
    let there = RemoteConfig::a2a(&url).unwrap().header("x-api-key", "very-secret").unwrap();
    let (outcome, _) = play(&delegating(there).build().unwrap(), "Hi").await;
    assert!(outcome.text().contains("sends requests to"), "{}", outcome.text());
    assert!(heads.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_task_with_an_unknown_state_is_an_error_and_is_not_waited_for() {
    for (status, said) in [
        (json!({"state": "pondering"}), "`pondering`"),
        (json!({"state": "unknown"}), "`unknown`"),
        (json!({"state": "TASK_STATE_UNSPECIFIED"}), "`TASK_STATE_UNSPECIFIED`"),
        (json!({"state": 7}), "``"),
        (json!({}), "``"),
    ] {
        let cancelled = Arc::new(AtomicBool::new(false));
        let seen = cancelled.clone();
        let (url, _) = raw(move |line, body| {
            if !line.starts_with("POST") {
                return Some(NOT_FOUND.to_owned());
            }
            seen.fetch_or(body.contains("tasks/cancel"), Ordering::SeqCst);
            let task = json!({"kind": "task", "id": "t", "contextId": "c", "status": status});
            Some(ok(&json!({"jsonrpc": "2.0", "id": 1, "result": task})))
        })
        .await;
        let there = RemoteConfig::a2a(&url).unwrap().retry_timeout(Duration::from_millis(300));
        let text = play(&delegating(there).build().unwrap(), "Hi").await.0.text();
        assert!(text.contains(said), "{text}");
        assert!(cancelled.load(Ordering::SeqCst), "it works on where nobody waits for it");
    }
}

#[tokio::test]
async fn an_agent_that_supports_only_a2a_1_0_is_addressed_in_that_version() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = asked.clone();
    let (url, heads) = raw(move |line, body| {
        if line.starts_with("GET") {
            let one = json!({"url": "/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "acme"});
            return Some(ok(&json!({"name": "there", "supportedInterfaces": [one], "capabilities": {}})));
        }
        let request: serde_json::Value = serde_json::from_str(body).unwrap();
        noted.lock().unwrap().push(request.clone());
        let artifact = json!({"artifactId": "a", "parts": [{"text": "Hello."}]});
        let result = match request["method"].as_str().unwrap() {
            "SendMessage" => json!({"task": {"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_WORKING"}}}),
            "GetTask" => json!({"id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
                "artifacts": [artifact], "history": [{"role": "ROLE_AGENT", "parts": [{"text": "Hm."}]}]}),
            other => panic!("{other}"),
        };
        Some(ok(&json!({"jsonrpc": "2.0", "id": 1, "result": result})))
    })
    .await;
    let there = RemoteConfig::a2a(&url).unwrap().retry_timeout(Duration::from_millis(300));
    let text = play(&delegating(there).build().unwrap(), "Hi").await.0.text();
    assert!(text.contains("Hello."), "{text}");
    let asked = asked.lock().unwrap().clone();
    let message = &asked[0]["params"]["message"];
    assert_eq!((&message["role"], &message["parts"]), (&json!("ROLE_USER"), &json!([{"text": "Hi"}])));
    assert_eq!(asked[0]["params"]["configuration"]["returnImmediately"], true);
    assert_eq!(asked[1]["params"], json!({"id": "t", "tenant": "acme"}));
    let heads = heads.lock().unwrap().clone();
    let versions = heads.iter().filter(|head| head.contains("a2a-version: 1.0")).count();
    assert_eq!(versions, asked.len(), "the card is asked for without one: {heads:?}");
}

#[tokio::test]
async fn an_artifacts_data_and_files_are_listed_with_its_text() {
    let parts = json!([
        {"kind": "text", "text": "Two tables."},
        {"kind": "data", "data": {"rows": 2}},
        {"kind": "file", "file": {"name": "a.csv", "mimeType": "text/csv", "uri": "https://files.example.com/a.csv"}},
        {"kind": "file", "file": {"name": "b.csv", "bytes": "MSwyCg=="}},
        {"url": "https://files.example.com/c.csv", "filename": "c.csv", "mediaType": "text/csv"},
        {"kind": "file", "file": {"bytes": "MSwyCg=="}},
        {"kind": "file", "file": 7},
        {"kind": "smell"},
    ]);
    let (url, _) = raw(move |line, _| {
        if !line.starts_with("POST") {
            return Some(NOT_FOUND.to_owned());
        }
        let artifacts = json!([{"artifactId": "a", "parts": parts}]);
        let status = json!({"state": "completed"});
        let task = json!({"kind": "task", "id": "t", "contextId": "c", "status": status, "artifacts": artifacts});
        Some(ok(&json!({"jsonrpc": "2.0", "id": 1, "result": task})))
    })
    .await;
    let there = RemoteConfig::a2a(&url).unwrap().retry_timeout(Duration::from_millis(300));
    let text = play(&delegating(there).build().unwrap(), "Hi").await.0.text();
    let unnamed = "[file without a name: its content was not taken over]";
    let expected = [
        "Two tables.",
        r#"{"rows":2}"#,
        "[file a.csv: https://files.example.com/a.csv]",
        "[file b.csv: its content was not taken over]",
        "[file c.csv: https://files.example.com/c.csv]",
        unnamed,
        unnamed,
    ];
    assert_eq!(text, expected.join("\n"));
}

#[tokio::test]
async fn an_answer_carries_the_context_that_the_agent_gave_the_task() {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let noted = sent.clone();
    let (url, _) = raw(move |line, body| {
        if !line.starts_with("POST") {
            return Some(NOT_FOUND.to_owned());
        }
        let request: serde_json::Value = serde_json::from_str(body).unwrap();
        let mut sent = noted.lock().unwrap();
        sent.push(request["params"]["message"].clone());
        let said = json!({"kind": "message", "role": "agent", "messageId": "q", "parts": [{"kind": "text", "text": "Which?"}]});
        let status = match sent.len() {
            1 => json!({"state": "input-required", "message": said}),
            _ => json!({"state": "completed"}),
        };
        let task = json!({"kind": "task", "id": "t", "contextId": "theirs", "status": status});
        Some(ok(&json!({"jsonrpc": "2.0", "id": 1, "result": task})))
    })
    .await;
    let there = RemoteConfig::a2a(&url).unwrap().retry_timeout(Duration::from_millis(300));
    let agent = delegating(there).journal(MemoryJournal::new()).build().unwrap();
    let (outcome, _) = play(&agent, RunInput::new("Hi").thread("t")).await;
    let asked = outcome.action_requests();
    let answer = Decision::Respond { message: "This one.".to_owned() };
    play(&agent, RunInput::resume("t").decide(&asked[0].id, answer)).await;
    let sent = sent.lock().unwrap();
    let context = |at: usize| (&sent[at]["taskId"], &sent[at]["contextId"]);
    assert_eq!(context(1), (&json!("t"), &json!("theirs")), "{sent:?}");
    assert_ne!(context(0).1, context(1).1);
}

#[tokio::test]
async fn an_error_whose_text_does_not_end_is_reported_without_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let head = "HTTP/1.1 403 Forbidden\r\ncontent-length: 1000000\r\n\r\n";
                let mut sent = stream.write_all(head.as_bytes()).await;
                let mut pace = tokio::time::interval(Duration::from_millis(50));
                while sent.is_ok() {
                    pace.tick().await;
                    sent = stream.write_all(b"x").await;
                }
            });
        }
    });
    let text = tokio::time::timeout(Duration::from_secs(60), asked(&url)).await.expect("the error is reported");
    assert!(text.contains("403"), "{text}");
}
