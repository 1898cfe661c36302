//! What detectors find in text of people, programs and tools, and what they ignore.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use deepagents::core::message::{AssistantMessage, Reasoning, UserMessage};
use deepagents::core::model::{ModelEvent, ModelOutput};
use deepagents::core::tool::ToolError;
use deepagents::middleware::redaction::{Detector, HashKey, Redaction, Strategy};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Block, DeepAgent, EventKind, MemoryJournal, Message, RunInput, ToolOutput, json_tool};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::redaction::{hidden, shown};
use crate::results;

/// Each text has one match, marked with brackets.
async fn finds(detector: Detector, texts: &[&str]) {
    for text in texts {
        let mark = format!("[REDACTED_{}]", detector.name().to_uppercase());
        let (before, rest) = text.split_once('⟦').unwrap();
        let (_, after) = rest.split_once('⟧').unwrap();
        let said = text.replace(['⟦', '⟧'], "");
        assert_eq!(hidden(detector.clone(), &said).await, format!("{before}{mark}{after}"), "{said}");
    }
}

/// The texts stay unchanged.
async fn leaves(detector: Detector, texts: &[&str]) {
    for text in texts {
        assert_eq!(hidden(detector.clone(), text).await, *text);
    }
}

#[tokio::test]
async fn redaction_recognises_boundaries_in_unspaced_scripts_and_escapes() {
    let mails = [
        "请把报告发给⟦bob@example.com⟧谢谢",
        "_⟦bob@example.com⟧_",
        r#""to:\n⟦bob@example.com⟧""#,
        "Hi ⟦jörg@example.org⟧.",
    ];
    finds(Detector::Email, &mails).await;
    finds(Detector::CreditCard, &["卡号⟦4111111111111111⟧有效", r#""card:\n⟦4111111111111111⟧""#]).await;
    finds(Detector::Ip, &["地址⟦10.0.0.1⟧是", r#""\t⟦10.0.0.1⟧""#, "地址⟦2001:db8::1⟧是", r#""\n⟦2001:db8::1⟧""#])
        .await;
    finds(Detector::MacAddress, &["机⟦00:1A:2b:3C:4d:5E⟧是", r#""\n⟦00:1A:2b:3C:4d:5E⟧""#]).await;
    finds(Detector::Url, &["见⟦https://a.example/x⟧谢谢。"]).await;
    let keys = [
        "密钥⟦sk-abcdefghijklmnopqrstuvwx⟧结束",
        "token_⟦ghp_abcdefghijklmnopqrstuvwxyz0123456789⟧",
        r#"{"a":"\n⟦sk-abcdefghijklmnopqrstuvwx⟧"}"#,
        r#"{"a":"\t⟦AKIAIOSFODNN7EXAMPLE⟧"}"#,
    ];
    finds(Detector::ApiKey, &keys).await;
    leaves(Detector::ApiKey, &["desk-abcdefghijklmnopqrstuvwx"]).await;
}

#[tokio::test]
async fn a_card_number_is_found_next_to_other_numbers() {
    let found = [
        "⟦4111 1111 1111 1111⟧ 12/27",
        "⟦4111 1111 1111 1111⟧ 123",
        "card 2 ⟦4111 1111 1111 1111⟧",
        "1 ⟦3782-822463-10005⟧ 7",
    ];
    finds(Detector::CreditCard, &found).await;
    // No issuer's numbers start like a time in milliseconds. Digits of a fraction do not count either.
    let times: Vec<String> = (0..400u64).map(|n| (1_700_000_000_000 + n * 7_919).to_string()).collect();
    leaves(Detector::CreditCard, &[times.join(", ").as_str(), "0.4111111111111111", "a4111111111111111"]).await;
}

/// Pseudo-random numbers, the same in each run.
fn numbers() -> impl Iterator<Item = u64> {
    std::iter::successors(Some(0x9e37_79b9_7f4a_7c15_u64), |n| {
        Some(n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
    .map(|n| n >> 33)
}

#[tokio::test]
async fn tables_of_numbers_are_not_taken_for_cards() {
    let mut numbers = numbers();
    let mut rows: Vec<String> = Vec::new();
    // Columns that add up to a card number are excluded.
    for columns in [6, 7, 10, 11, 14, 15, 18, 19] {
        for _ in 0..100 {
            let row: Vec<String> = numbers.by_ref().take(columns).map(|n| (1000 + n % 9000).to_string()).collect();
            rows.push(row.join(" "));
        }
    }
    // In columns, even if those of a row are the digits of a card.
    rows.push(
        "4111,1111,1111,1111\n4111\t1111\t1111\t1111\n4111, 1111, 1111, 1111\n4111 | 1111 | 1111 | 1111".to_owned(),
    );
    rows.push("4111 1111 1111 1111 2027 3041".to_owned());
    for year in 1900..2100 {
        rows.push(format!("{year} {} {} {}", year + 1, year + 2, year + 3));
        rows.push(format!("{year}-{} {}-{} {year}-12-31", year + 1, year + 1, year + 2));
    }
    let rows = rows.join("\n");
    leaves(Detector::CreditCard, &[rows.as_str()]).await;
    let cards = "⟦4111 1111 1111 1111⟧ 2027";
    finds(Detector::CreditCard, &[cards]).await;
    let two = hidden(Detector::CreditCard, "4111 1111 1111 1111 5555 5555 5555 4444").await;
    assert_eq!(two, "[REDACTED_CREDIT_CARD] [REDACTED_CREDIT_CARD]");
}

#[tokio::test]
async fn code_paths_and_slices_are_not_taken_for_ip_addresses() {
    let sources = [
        "use std::fs; use std::env; std::default::Default",
        "crate::cache::Cache, d::f and a::b::c",
        "a::before { content: '' }",
        "items[1::3], items[::2]",
        "Vec::<u8>::deserialize(f32::from(x))",
    ];
    leaves(Detector::Ip, &sources).await;
    finds(
        Detector::Ip,
        &["addr:⟦fe80::1⟧", "[⟦2001:db8::1⟧]:80", "⟦::ffff:10.0.0.1⟧,", "⟦2a00:1450:4001:81b::200e⟧/64"],
    )
    .await;
}

#[tokio::test]
async fn secrets_are_found_in_every_naming_and_notation() {
    let found = [
        "AWS_SECRET_ACCESS_KEY=⟦wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧",
        "SECRET_KEY=⟦abcdefghijklmnop⟧",
        "secret_key = \"⟦abcdefgh12345678⟧\"",
        "\"accessToken\": \"⟦abcdefgh12345678⟧\"",
        "dbPassword=⟦hunter2hunter2⟧",
        "PGPASSWORD=⟦hunter2hunter2⟧ psql",
        "password=⟦hunter2⟧",
        "password   = \"⟦hunter2hunter2⟧\"",
        "password := \"⟦hunter2hunter2⟧\"",
        "'password' => '⟦hunter2hunter2⟧'",
        "password=\"⟦abcdefgh,restofsecret⟧\"",
        "password = \"⟦correct horse, battery⟧\"",
        r#"{\"password\":\"⟦hunter2hunter2⟧\",\"x\":1}"#,
        "const password: string = \"⟦hunter2hunter2⟧\";",
        "os.environ[\"API_KEY\"] = \"⟦abcd1234efgh⟧\"",
        "<password>⟦hunter2hunter2⟧</password>",
        "Authorization: Bearer ⟦abcdefgh12345678⟧",
        "{\"Authorization\": \"Basic ⟦dXNlcjpodW50ZXIy⟧\"}",
        "postgres://app:⟦hunter2hunter2⟧@db/x",
        "GITHUB_PAT=⟦abcdefghijklmn1234567⟧",
        "Server=x;Pwd=⟦hunter2hunter2⟧;",
        "connect(password=⟦hunter2hunter2⟧)",
        "It is ⟦SG.abcdefghijklmnopqrstuv.abcdefghijklmnopqrstuvwxyz⟧.",
    ];
    finds(Detector::ApiKey, &found[..found.len() - 1]).await;
    // The full stop may be part of such a key.
    assert!(
        hidden(Detector::ApiKey, &found[found.len() - 1].replace(['⟦', '⟧'], "")).await.contains("[REDACTED_API_KEY]")
    );
}

#[tokio::test]
async fn types_calls_numbers_and_placeholders_under_secret_names_are_kept() {
    let code = [
        "token: String, secret: SecretString, password: Option<String>, secretKey: Uint8Array",
        "password = os.environ[\"PASSWORD\"]; token = self.token_value; key = getApiKey()",
        "connect(password=config.password, api_key=api_key_value, token=access_token)",
        "max_tokens=4096, max_tokens: 10000000, total_tokens = 12345678",
        "token => console.log(token); token::Token::new(x); if token == other_token { }",
        "const apiKey: string = process.env.API_KEY ?? requireKey();",
        "password=$PASSWORD token=${{ secrets.TOKEN }} password=<your-password> api_key={api_key}",
        "postgres://app:${PASSWORD}@db/x, postgres://user:password@localhost",
        "format!(\"Bearer {token}\"), and Bearer authentication is used",
        "\"token_type\": \"bearer_token\", \"next_page_token\": \"abcd1234efgh\"",
        "password: \"Enter your password here\"",
        "{ token: 'delimiter' }, token_url = \"https://a.example/token1\"",
        "PWD=/home/ann/project1",
        "api_key: [REDACTED_API_KEY] password: ****MPLE token=<api_key_hash:1f3a2b3c4d5e6f70>",
    ];
    leaves(Detector::ApiKey, &code).await;
}

/// The texts of files below a directory.
fn sources(directory: &Path, kinds: &[&str], into: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, kinds, into);
        } else if path.extension().is_some_and(|kind| kinds.iter().any(|wanted| *wanted == kind)) {
            let text = std::fs::read_to_string(&path).unwrap();
            // Tests contain fake secrets.
            if path.ends_with("tests.rs") {
                continue;
            }
            into.push(text.split("#[cfg(test)]").next().unwrap().to_owned());
        }
    }
}

#[tokio::test]
async fn program_sources_are_not_redacted() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut texts = Vec::new();
    for krate in std::fs::read_dir(crates).unwrap() {
        let krate = krate.unwrap();
        let source = krate.path().join("src");
        // This crate contains fake tokens for tests of servers.
        if source.is_dir() && krate.file_name() != "deepagents-testing" {
            sources(&source, &["rs"], &mut texts);
        }
    }
    sources(&crates.join("deepagents-server/web/src"), &["ts", "tsx", "css"], &mut texts);
    sources(&crates.parent().unwrap().join(".ci"), &["py", "sh"], &mut texts);
    assert!(texts.len() > 1000, "{}", texts.len());
    let redaction = [Detector::CreditCard, Detector::MacAddress, Detector::ApiKey, Detector::PrivateKey]
        .into_iter()
        .fold(Redaction::new(), Redaction::hide);
    let said: Vec<Message> = texts.iter().map(Message::user).collect();
    let model = ScriptedModel::rules().always(Turn::text("Fine.")).build();
    let agent = DeepAgent::builder().model(model).redaction(redaction).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(said)).await.unwrap();
    let mut changed = Vec::new();
    for (text, message) in texts.iter().zip(outcome.messages().iter()) {
        let shown = message.text();
        changed.extend(text.lines().zip(shown.lines()).filter(|(was, is)| was != is).map(|(was, _)| was.to_owned()));
    }
    assert!(changed.is_empty(), "{changed:#?}");
}

const FIRST: &str = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
const LINE: &str = "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu";

#[tokio::test]
async fn partial_private_keys_are_found_and_certificates_are_not() {
    let found = [
        "⟦-----BEGIN PGP PRIVATE KEY BLOCK-----\nabc\n-----END PGP PRIVATE KEY BLOCK-----⟧".to_owned(),
        format!("     2\t⟦{FIRST}\n     3\t{LINE}⟧\n     4\tand more"),
        format!("keys/a.pem:2:⟦{FIRST}⟧"),
        format!("keys\\id:2:⟦{FIRST}\nkeys\\id:3:{LINE}⟧\nend"),
        format!("    26\t⟦{LINE}\n    27\tMzEfYyji\n    28\t-----END PRIVATE KEY-----⟧\n"),
    ];
    for text in found {
        finds(Detector::PrivateKey, &[&text]).await;
    }
    let certificate = "MIIDBTCCAe2gAwIBAgIUVZ3zkX1nBfG6s8gXH8hZk2tqS3AwDQYJKoZIhvcNAQEL";
    leaves(Detector::PrivateKey, &[&format!("{certificate}\n{LINE}\nMzEf\n-----END CERTIFICATE-----\n")]).await;
}

#[tokio::test]
async fn inner_lines_of_a_private_key_are_found_without_its_header() {
    let (other, wide) = ("dHJ1c3Qgbm8gb25lIDEyMzQ1Njc4OTAgYWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4", "xyzXYZ");
    let found = [
        format!("⟦{LINE}\n{other}⟧"),
        format!("    12\t⟦{LINE}\n    13\t{other}\n    14\t{LINE}⟧\n"),
        format!("keys/a.pem-7-⟦{LINE}\nkeys/a.pem-8-{other}⟧"),
        format!(r#"{{"text": "of a file:\n⟦{LINE}\n{other}⟧\n"}}"#),
        format!(
            r#""⟦{LINE}\n{other}⟧", "-----BEGIN CERTIFICATE-----\n{}-----END CERTIFICATE-----""#,
            r"MIID\n".repeat(9)
        ),
        // What only looks like the first line of an armour: it goes on in the next line.
        format!("-----BEGIN THE\nNEXT-----\n⟦{LINE}\n{other}⟧"),
        format!(r"-----BEGIN THE\nNEXT-----\n⟦{LINE}\n{other}⟧"),
        format!("    12\t⟦{LINE}{wide}\n    13\t{other}{wide}⟧\n\n(lines 12-13 of 40; go on with offset 13)"),
    ];
    for text in found {
        finds(Detector::PrivateKey, &[&text]).await;
    }
    let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
    let blob = vec![LINE; 200].join("\n");
    leaves(
        Detector::PrivateKey,
        &[
            format!("{LINE}\nand more"),
            format!("{digest}\n{digest}\n{digest}"),
            format!("-----BEGIN CERTIFICATE-----\n{LINE}\n{other}\n"),
            format!(r"-----BEGIN CERTIFICATE-----\n{LINE}\n{other}\n"),
            format!("-----BEGIN PGP SIGNATURE-----\n\n{LINE}\n{other}\n=AbC1\n-----END PGP SIGNATURE-----\n"),
            format!("{LINE}\n{other}\n=AbC1\n-----END PGP SIGNATURE-----\n"),
            format!("MIIDBTCCAe2gAwIBAgIUVZ3zkX1nBfG6s8gXH8hZk2tqS3AwDQYJKoZIhvcNAQEL\n{LINE}\n{other}"),
            format!("{LINE}abcdefgh1234\n{other}abcdefgh1234"),
            blob,
        ]
        .each_ref()
        .map(String::as_str),
    )
    .await;
}

#[tokio::test]
async fn structured_values_are_checked_with_their_keys_and_keys_are_checked_too() {
    let args =
        json!({"password": "hunter2hunter2", "headers": {"api_key": ["abcdefgh12345678"]}, "max_tokens": 10_000_000});
    let seen = Arc::new(std::sync::Mutex::new(Value::Null));
    let sees = seen.clone();
    let tool = json_tool("look", "Looks.", json!({"type": "object"}), move |args: Value, _cx| {
        *sees.lock().unwrap() = args;
        let artifact =
            json!({"password": 12_345_678, "bob@example.com": 1, "ann@example.com": 2, "token": "delimiter"});
        async { Ok(ToolOutput::text("Seen.").with_artifact(artifact)) }
    });
    let model = ScriptedModel::new([Turn::call("look", args), Turn::text("Done.")]);
    let redaction = Redaction::secrets().hide(Detector::Email);
    let agent = DeepAgent::builder().model(model).tool(tool).redaction(redaction).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    let mark = "[REDACTED_API_KEY]";
    let hidden = json!({"password": mark, "headers": {"api_key": [mark]}, "max_tokens": 10_000_000});
    assert_eq!(*seen.lock().unwrap(), hidden);
    assert!(!serde_json::to_string(outcome.messages()).unwrap().contains("hunter2"));
    let result = outcome.messages().iter().find_map(|message| message.as_tool().cloned()).unwrap();
    let artifact = result.artifact.unwrap();
    assert_eq!((&artifact["password"], &artifact["token"]), (&json!(mark), &json!("delimiter")));
    let names: Vec<&String> = artifact.as_object().unwrap().keys().collect();
    assert!(
        names.iter().any(|name| *name == "[REDACTED_EMAIL]")
            && names.iter().any(|name| *name == "[REDACTED_EMAIL] (2)")
    );
}

#[tokio::test]
async fn a_clients_original_message_is_redacted_too() {
    let kept = json!({"name": "bob@example.com", "additional_kwargs": {"password": "hunter2hunter2"}, "content": "I am bob@example.com."});
    let said = UserMessage {
        content: vec![Block::text("I am bob@example.com.")],
        as_sent: Some(Box::new(kept)),
        ..UserMessage::default()
    };
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let redaction = Redaction::secrets().hide(Detector::Email);
    let agent = DeepAgent::builder().model(model).redaction(redaction).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(vec![Message::User(said)])).await.unwrap();
    let Some(Message::User(said)) = outcome.messages().get(0).map(|message| (**message).clone()) else { panic!() };
    let hidden = json!({"name": "[REDACTED_EMAIL]", "additional_kwargs": {"password": "[REDACTED_API_KEY]"}, "content": "I am [REDACTED_EMAIL]."});
    assert_eq!(said.as_sent.as_deref(), Some(&hidden));
}

#[tokio::test]
async fn a_thread_is_rescanned_when_a_named_pattern_or_strategy_changes() {
    let journal = Arc::new(MemoryJournal::new());
    let first = async |redaction: Redaction| {
        let model = ScriptedModel::new([Turn::text("Fine.")]);
        let agent = DeepAgent::builder().model(model).redaction(redaction).journal(journal.clone()).build().unwrap();
        let outcome = agent.invoke(RunInput::new("Go on.").thread("t")).await.unwrap();
        outcome.messages().get(0).unwrap().text()
    };
    let ticket =
        |pattern: &str, strategy| Redaction::new().named("ticket", Detector::pattern(pattern).unwrap(), strategy);
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let redaction = ticket(r"TCK-\d+", Strategy::Redact);
    let agent = DeepAgent::builder().model(model).redaction(redaction).journal(journal.clone()).build().unwrap();
    agent.invoke(RunInput::new("About TCK-1, OLD-2345678 and bob@example.com.").thread("t")).await.unwrap();
    assert_eq!(
        first(ticket(r"OLD-\d+", Strategy::Mask)).await,
        "About [REDACTED_TICKET], ****5678 and bob@example.com."
    );
    let hash = |key: &str| Redaction::new().named("ticket", Detector::Email, Strategy::Hash(HashKey::new(key)));
    assert!(first(hash("one")).await.contains("<ticket_hash:"));
}

#[tokio::test]
async fn an_error_text_blocked_by_a_rule_is_withheld_and_the_run_continues() {
    let fails = json_tool("fails", "Fails.", json!({"type": "object"}), |_: Value, _cx| async move {
        Err::<&str, _>(ToolError::model("No account for bob@example.com."))
    });
    let model = ScriptedModel::new([Turn::call("fails", json!({})), Turn::text("Done.")]);
    let redaction = Redaction::new().with(Detector::Email, Strategy::Block).tool_results(true);
    let agent = DeepAgent::builder().model(model).tool(fails).redaction(redaction).build().unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    assert_eq!(results(&outcome), [("Error: the result was withheld: it holds email (1).".to_owned(), true)]);
}

/// The text deltas of a response.
async fn pieces(redaction: Redaction, answer: &str) -> Vec<String> {
    deltas(redaction, ScriptedModel::new([Turn::text(answer)]).with_chunk_size(4)).await
}

/// The text deltas of a run.
async fn deltas(redaction: Redaction, model: ScriptedModel) -> Vec<String> {
    let agent = DeepAgent::builder().model(model).redaction(redaction.output(true)).build().unwrap();
    let mut run = agent.run("Go.");
    let mut pieces = Vec::new();
    while let Some(event) = run.next().await {
        if let EventKind::TextDelta { text, .. } = &event.kind {
            pieces.push(text.clone());
        }
    }
    pieces
}

#[tokio::test]
async fn answers_in_unspaced_scripts_are_streamed_as_they_arrive() {
    let redaction = || Redaction::secrets().hide(Detector::Email).hide(Detector::CreditCard).hide(Detector::Url);
    let answer = "今天天气很好，我们去公园散步吧。请写信给bob@example.com，谢谢。会議は明日の午後です。";
    let told = pieces(redaction(), answer).await;
    assert!(told.len() > 6, "{told:?}");
    assert_eq!(told.concat(), answer.replace("bob@example.com", "[REDACTED_EMAIL]"));
}

#[tokio::test]
async fn text_that_continues_behind_a_later_block_reveals_no_match() {
    for (first, second, expected) in [
        ("Write to bob@exa", "mple.org, then wait.", "Write to bob@exa"),
        ("Das größte ", "Übel: bob@example.org.", "Das größte Übel: [REDACTED_EMAIL]."),
    ] {
        let text = |delta: &str| Ok(ModelEvent::Text { block: 0, delta: delta.to_owned() });
        let thought = Reasoning { text: "Hm.".to_owned(), native: None };
        let content = vec![Block::text(format!("{first}{second}")), Block::Reasoning(thought)];
        let message = AssistantMessage::new(content);
        let output = ModelOutput::new(message);
        let answer = [
            text(first),
            Ok(ModelEvent::Reasoning { block: 1, delta: "Hm.".to_owned() }),
            text(second),
            Ok(ModelEvent::Finished(Box::new(output))),
        ];
        let shown = deltas(Redaction::new().hide(Detector::Email), ScriptedModel::new([Turn::raw(answer)])).await;
        assert_eq!(shown.concat(), expected);
    }
}

#[tokio::test]
async fn text_held_back_for_long_is_not_rescanned_with_every_delta() {
    let looks = Arc::new(AtomicUsize::new(0));
    let counts = looks.clone();
    let counting = Detector::function(move |_| {
        counts.fetch_add(1, Ordering::Relaxed);
        Vec::new()
    });
    let answer = format!("-----BEGIN RSA PRIVATE KEY-----\n{}", "word ".repeat(12_000));
    let redaction = Redaction::new().hide(Detector::PrivateKey).named("counted", counting, Strategy::Redact);
    assert_eq!(pieces(redaction, &answer).await.concat(), "[REDACTED_PRIVATE_KEY]");
    assert!(looks.load(Ordering::Relaxed) < 500, "{looks:?}");
}

#[tokio::test]
async fn redaction_marks_are_not_redacted_again() {
    for strategy in [Strategy::Redact, Strategy::Mask, Strategy::Hash(HashKey::new("k"))] {
        let redaction = Redaction::new().with(Detector::ApiKey, strategy);
        let once =
            shown(redaction.clone(), "password = \"hunter2hunter2\", api_key: sk-abcdefghijklmnopqrstuvwx").await;
        assert!(!once.contains("hunter2"), "{once}");
        assert_eq!(shown(redaction, &once).await, once);
    }
}

/// Matching is linear in the length: a naive matcher took minutes or hours for each of these texts.
#[test]
fn scanning_does_not_go_over_the_same_text_repeatedly() {
    let line = format!("{}aB3", "x7Q".repeat(20)) + "a";
    let keys = Redaction::secrets().hide(Detector::CreditCard);
    let many = |part: &str, times: usize| part.repeat(times);
    let texts = [
        many("token=", 20_000),
        format!("{}{}", many("token=", 3_000), many(")", 40_000)),
        format!("token={}", many(")", 100_000)),
        many("token=a(", 15_000),
        many(&format!("{line}\n{line}\n\n"), 2_000),
        many(&format!("{line}\\n{line}!\\n"), 2_000),
        many(&format!("MC4CAQAw{}\\n!", many("a", 20)), 4_000),
        many(&format!("{} ", many("1", 10_000)), 10),
    ];
    let keys = std::sync::Arc::new(keys);
    for text in texts {
        let (begin, keys) = (text.get(..40).unwrap().to_owned(), keys.clone());
        let (done, ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(keys.text(text)));
        let hidden = ended.recv_timeout(std::time::Duration::from_secs(120)).unwrap_or_else(|_| panic!("{begin}"));
        assert!(!hidden.unwrap().is_empty(), "{begin}");
    }
    let fields: serde_json::Map<String, Value> =
        (0..8_000).map(|at| (format!("u{at}@example.org"), Value::from(at))).collect();
    let mails = Redaction::new().hide(Detector::Email);
    let hidden: Value = serde_json::from_str(&mails.text(Value::from(fields).to_string()).unwrap()).unwrap();
    assert_eq!(hidden.as_object().unwrap().len(), 8_000);
    assert!(hidden.get("[REDACTED_EMAIL]").is_some() && hidden.get("[REDACTED_EMAIL] (8000)").is_some());
}

#[tokio::test]
async fn a_secret_value_ends_where_its_notation_says() {
    let texts = [
        "call(password=⟦hunter2hunter2⟧)",
        "a?token=⟦9abcDEF(12)⟧ b",
        "{password=⟦hunter2hunter2⟧}}",
        "x=1&password=⟦hunter2hunter2&token=abcDEF123456⟧",
    ];
    finds(Detector::ApiKey, &texts).await;
    let said = "password=hunter2hunter2&secret=\"abcDEF123456x\"";
    let hidden = hidden(Detector::ApiKey, said).await;
    assert!(!hidden.contains("hunter2") && !hidden.contains("123456"), "{hidden}");
    let long = format!("password = \"{}end\" and more", "a1B2".repeat(1_000));
    assert_eq!(crate::redaction::hidden(Detector::ApiKey, &long).await, "password = \"[REDACTED_API_KEY]\" and more");
}
