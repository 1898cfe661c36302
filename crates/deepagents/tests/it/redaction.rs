//! Personal data and secrets are redacted before anyone sees them.

use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use deepagents::core::event::RedactedPlace;
use deepagents::core::message::ToolMessage;
use deepagents::core::tool::DynTool;
use deepagents::middleware::redaction::{Detector, HashKey, Redaction, RedactionBlocked, Strategy};
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{
    Block, DeepAgent, Error, EventKind, MemoryJournal, Message, MiddlewareEvent, Outcome, RunError, RunInput,
    ToolOutput, json_tool,
};
use futures_util::StreamExt;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use serde_json::{Value, json};

use crate::results;

/// What the model is shown of a user message.
pub(super) async fn shown(redaction: Redaction, said: &str) -> String {
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let agent = DeepAgent::builder().model(model.clone()).redaction(redaction).build().unwrap();
    agent.invoke(said).await.unwrap();
    model.requests()[0].messages.get(0).unwrap().text()
}

pub(super) async fn hidden(detector: Detector, said: &str) -> String {
    shown(Redaction::new().hide(detector), said).await
}

async fn masked(detector: Detector, said: &str) -> String {
    shown(Redaction::new().with(detector, Strategy::Mask), said).await
}

#[tokio::test]
async fn email_addresses_are_found_and_lookalikes_are_not() {
    let text = hidden(Detector::Email, "To a.b+c@mail.example.co.uk, x_1%y@d-e.org; not a@b, @home or a|b@.").await;
    assert_eq!(text, "To [REDACTED_EMAIL], [REDACTED_EMAIL]; not a@b, @home or a|b@.");
    assert_eq!(masked(Detector::Email, "a.b+c@mail.example.uk").await, "a.b+c@****.uk");
}

#[tokio::test]
async fn card_numbers_of_13_to_19_digits_are_found_by_their_check_digit() {
    // Visa, Amex with fifteen digits, a short Visa, and nineteen digits; then a wrong check digit, and too few digits.
    let found = "4111 1111 1111 1111, 3782-822463-10005, 4222222222222, 6304000000000000000.";
    assert_eq!(hidden(Detector::CreditCard, found).await.matches("[REDACTED_CREDIT_CARD]").count(), 4);
    let none = "4111 1111 1111 1112, 4111 1111 1111, 0000 0000 0000 0000 and order 12345678901234567890123.";
    assert_eq!(hidden(Detector::CreditCard, none).await, none);
    assert_eq!(masked(Detector::CreditCard, "4111-1111-1111-1111").await, "****-****-****-1111");
}

#[tokio::test]
async fn ipv4_and_ipv6_addresses_are_found_and_times_and_versions_are_not() {
    let text = hidden(
        Detector::Ip,
        "From 192.168.0.1 and fe80::1ff:fe23:4567:890a, 2001:db8::1. Not 999.1.1.1 or 12:30:45 or a::b::c.",
    )
    .await;
    assert_eq!(text, "From [REDACTED_IP] and [REDACTED_IP], [REDACTED_IP]. Not 999.1.1.1 or 12:30:45 or a::b::c.");
    assert_eq!(masked(Detector::Ip, "10.1.2.34").await, "*.*.*.34");
    assert_eq!(masked(Detector::Ip, "2001:db8::7334").await, "****:7334");
}

#[tokio::test]
async fn mac_addresses_and_urls_are_found_without_surrounding_punctuation() {
    assert_eq!(
        hidden(Detector::MacAddress, "00:1A:2b:3C:4d:5E, 00-1a-2b-3c-4d-5e.").await,
        "[REDACTED_MAC_ADDRESS], [REDACTED_MAC_ADDRESS]."
    );
    assert_eq!(masked(Detector::MacAddress, "00-1a-2b-3c-4d-5e").await, "**-**-**-**-**-5e");
    let text =
        hidden(Detector::Url, "See https://a.example/x?y=1, www.example.org, (example.com/path). Not foo.bar.").await;
    assert_eq!(text, "See [REDACTED_URL], [REDACTED_URL], ([REDACTED_URL]). Not foo.bar.");
    assert_eq!(masked(Detector::Url, "http://a.example").await, "[MASKED_URL]");
}

#[tokio::test]
async fn service_keys_named_secrets_and_private_keys_are_found() {
    let keys = [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
    ];
    for key in keys {
        assert_eq!(
            hidden(Detector::ApiKey, &format!("It is {key}, use it.")).await,
            "It is [REDACTED_API_KEY], use it."
        );
    }
    let named =
        hidden(Detector::ApiKey, "export MY_API_KEY=\"hunter2hunter2\" and password: correcthorse; the token is fine")
            .await;
    assert_eq!(named, "export MY_API_KEY=\"[REDACTED_API_KEY]\" and password: [REDACTED_API_KEY]; the token is fine");
    assert_eq!(masked(Detector::ApiKey, "AKIAIOSFODNN7EXAMPLE").await, "****MPLE");
    assert_eq!(masked(Detector::ApiKey, "password=12345678").await, "password=****");
    let pem = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----";
    assert_eq!(hidden(Detector::PrivateKey, &format!("Key:\n{pem}\nEnd.")).await, "Key:\n[REDACTED_PRIVATE_KEY]\nEnd.");
    // A truncated key is a secret too.
    assert_eq!(hidden(Detector::PrivateKey, "-----BEGIN PRIVATE KEY-----\nMIIE").await, "[REDACTED_PRIVATE_KEY]");
}

#[tokio::test]
async fn custom_patterns_and_functions_are_applied() {
    let ticket = || Detector::pattern(r"TCK-\d+").unwrap();
    let redaction = |strategy| Redaction::new().named("ticket", ticket(), strategy);
    assert_eq!(shown(redaction(Strategy::Redact), "About TCK-123.").await, "About [REDACTED_TICKET].");
    assert_eq!(shown(redaction(Strategy::Mask), "About TCK-1234.").await, "About ****1234.");
    let short = Redaction::new().named("pin", Detector::pattern(r"\d{4}").unwrap(), Strategy::Mask);
    assert_eq!(shown(short, "PIN 1234").await, "PIN ****");
    assert!(Detector::pattern("(").is_err());
    // Ranges outside the text, or inside a character, are ignored.
    let odd = Detector::function(|text| vec![0..1, 1..2, 3..400, 5..5, text.len() + 1..text.len() + 2]);
    assert_eq!(hidden(odd, "ä ok").await, "ä ok");
}

#[tokio::test]
async fn overlapping_matches_are_redacted_as_one() {
    let mail_in_url = Redaction::new().hide(Detector::Url).hide(Detector::Email);
    let text = shown(mail_in_url, "Go to https://example.org/?user=ann@example.org&x=1 now.").await;
    assert_eq!(text, "Go to [REDACTED_URL] now.");
    let overlapping = Redaction::new().named("a", Detector::pattern("abcd").unwrap(), Strategy::Redact).named(
        "b",
        Detector::pattern("cdef").unwrap(),
        Strategy::Redact,
    );
    assert_eq!(shown(overlapping, "xabcdefx").await, "x[REDACTED_A]x");
}

#[test]
fn of_overlapping_matches_none_stays_readable_and_a_blocked_one_blocks() {
    let secret = "postgres://app:hunter2hunter2@db.example.com/x";
    let text = Redaction::secrets().with(Detector::Email, Strategy::Mask).text(secret.to_owned()).unwrap();
    assert!(!text.contains("hunter2") && text.contains("[REDACTED_"), "{text}");

    let code = Detector::pattern(r"\d{4}-[A-Z]+").unwrap();
    let redaction = Redaction::new().with(Detector::CreditCard, Strategy::Mask).named("code", code, Strategy::Redact);
    assert_eq!(redaction.text("4111 1111 1111 1111-SECRET".to_owned()).unwrap(), "[REDACTED_CREDIT_CARD]");
    assert_eq!(redaction.text("4111 1111 1111 1111".to_owned()).unwrap(), "**** **** **** 1111");

    for hidden in [Detector::Url, Detector::Email] {
        let redaction = Redaction::new().with(Detector::ApiKey, Strategy::Block).hide(hidden.clone());
        let blocked = redaction.text(secret.to_owned()).unwrap_err();
        assert_eq!(blocked.found, [("api_key".to_owned(), 1)].into(), "{hidden:?}");
    }
    let redaction = Redaction::new().hide(Detector::ApiKey).with(Detector::Email, Strategy::Block);
    let under_a_name = json!({"password": "ann@example.org"}).to_string();
    assert_eq!(redaction.text(under_a_name).unwrap_err().found, [("email".to_owned(), 1)].into());
}

#[tokio::test]
async fn a_hash_depends_on_value_and_key_and_reveals_nothing_without_the_key() {
    let hash = |key: &str| Redaction::new().with(Detector::Email, Strategy::Hash(HashKey::new(key)));
    let (one, again) = (shown(hash("k"), "a@b.org").await, shown(hash("k"), "a@b.org").await);
    assert_eq!(one, again);
    assert!(one.starts_with("<email_hash:") && one.len() == "<email_hash:>".len() + 8, "{one}");
    assert_ne!(one, shown(hash("other"), "a@b.org").await);
    assert_ne!(one, shown(hash("k"), "b@b.org").await);
    assert!(!format!("{:?}", hash("a secret key")).contains("secret"));
}

async fn run(agent: &DeepAgent, input: impl Into<RunInput>) -> (Result<Outcome, Box<RunError>>, Vec<EventKind>) {
    let mut run = agent.run(input);
    let mut events = Vec::new();
    while let Some(event) = run.next().await {
        events.push(event.kind.clone());
    }
    (run.outcome().await, events)
}

fn blocked(failure: &RunError) -> RedactionBlocked {
    let Error::Hook { source, .. } = &*failure.error else {
        let Error::Other(source) = &*failure.error else { panic!("{failure}") };
        return source.downcast_ref::<RedactionBlocked>().unwrap().clone();
    };
    let Error::Other(source) = &**source else { panic!("{failure}") };
    source.downcast_ref::<RedactionBlocked>().unwrap().clone()
}

const MAIL: &str = "ann@example.org";

#[tokio::test]
async fn user_input_is_redacted_before_anything_is_recorded() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let agent = DeepAgent::builder()
        .model(model)
        .redaction(Redaction::new().hide(Detector::Email))
        .journal(journal.clone())
        .build()
        .unwrap();
    let (outcome, events) = run(&agent, RunInput::new(format!("I am {MAIL}.")).thread("t")).await;
    let outcome = outcome.unwrap();
    assert!(!serde_json::to_string(outcome.messages()).unwrap().contains(MAIL));
    assert!(!serde_json::to_string(&events).unwrap().contains(MAIL));
    let history = agent.history("t", None, 100).await.unwrap();
    assert!(!history.is_empty());
    for checkpoint in history {
        let state = agent.state_at("t", checkpoint.position).await.unwrap();
        assert!(!serde_json::to_string(&state.to_json(true).unwrap()).unwrap().contains(MAIL));
    }
}

#[tokio::test]
async fn blocked_input_ends_the_run_before_storage_and_is_not_repeated_in_the_error() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let redaction = Redaction::new().with(Detector::Email, Strategy::Block);
    let agent =
        DeepAgent::builder().model(model.clone()).redaction(redaction).journal(journal.clone()).build().unwrap();
    let (outcome, _) = run(&agent, RunInput::new(format!("{MAIL} and b@c.de")).thread("t")).await;
    let failure = outcome.unwrap_err();
    assert_eq!(blocked(&failure).found, [("email".to_owned(), 2)].into());
    assert!(failure.to_string().contains("email (2)") && !failure.to_string().contains(MAIL), "{failure}");
    assert_eq!(model.requests().len(), 0);
    let (outcome, _) = run(&agent, RunInput::new("Hello.").thread("t")).await;
    assert_eq!(outcome.unwrap().messages().len(), 2);
}

#[tokio::test]
async fn a_message_to_a_running_run_is_redacted_too() {
    let model = ScriptedModel::new([Turn::call("gate", json!({})), Turn::text("Fine.")]);
    let (opened, open) = tokio::sync::oneshot::channel::<()>();
    let open = Arc::new(tokio::sync::Mutex::new(Some(open)));
    let gate = json_tool("gate", "Waits.", json!({"type": "object"}), move |_: Value, _cx| {
        let open = open.clone();
        async move {
            let open = open.lock().await.take();
            if let Some(open) = open {
                open.await.unwrap();
            }
            Ok("open")
        }
    });
    let agent = DeepAgent::builder()
        .model(model.clone())
        .tool(gate)
        .redaction(Redaction::new().hide(Detector::Email))
        .build()
        .unwrap();
    let mut running = agent.run("Go.");
    let handle = running.handle();
    let mut opened = Some(opened);
    while let Some(event) = running.next().await {
        if matches!(event.kind, EventKind::ToolStarted { .. })
            && let Some(opened) = opened.take()
        {
            handle.steer(format!("Write to {MAIL}."));
            opened.send(()).unwrap();
        }
        assert!(!serde_json::to_string(&event.kind).unwrap().contains(MAIL));
    }
    let outcome = running.outcome().await.unwrap();
    assert!(outcome.messages().iter().any(|m| m.text() == "Write to [REDACTED_EMAIL]."));
}

#[tokio::test]
async fn earlier_messages_are_redacted_at_run_start_and_given_ones_as_configured() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new([Turn::text(format!("You are {MAIL}.")), Turn::text("Fine.")]);
    let before = DeepAgent::builder().model(model.clone()).journal(journal.clone()).build().unwrap();
    run(&before, RunInput::new(format!("I am {MAIL}.")).thread("t")).await.0.unwrap();
    let redaction = Redaction::new().hide(Detector::Email).output(true);
    let after = DeepAgent::builder().model(model.clone()).redaction(redaction).journal(journal).build().unwrap();
    let (outcome, events) = run(&after, RunInput::new("Who am I?").thread("t")).await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.messages().get(0).unwrap().text(), "I am [REDACTED_EMAIL].");
    assert_eq!(outcome.messages().get(1).unwrap().text(), "You are [REDACTED_EMAIL].");
    let told = events.iter().any(|kind| {
        let found = [("email".to_owned(), 2)].into();
        *kind == EventKind::Middleware(MiddlewareEvent::Redacted { place: RedactedPlace::History, found })
    });
    assert!(told);
    assert!(!serde_json::to_string(&model.requests()[1].messages).unwrap().contains(MAIL));
}

#[tokio::test]
async fn an_earlier_message_that_would_be_blocked_is_redacted_and_ends_no_later_run() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new(["One.", "Two."].map(Turn::text));
    let before = DeepAgent::builder().model(model.clone()).journal(journal.clone()).build().unwrap();
    run(&before, RunInput::new(format!("I am {MAIL}.")).thread("t")).await.0.unwrap();
    let redaction = Redaction::new().with(Detector::Email, Strategy::Block);
    let after = DeepAgent::builder().model(model.clone()).redaction(redaction).journal(journal).build().unwrap();
    let (outcome, events) = run(&after, RunInput::new("Hello.").thread("t")).await;
    assert_eq!(outcome.unwrap().messages().get(0).unwrap().text(), "I am [REDACTED_EMAIL].");
    let found = [("email".to_owned(), 1)].into();
    let told = EventKind::Middleware(MiddlewareEvent::Redacted { place: RedactedPlace::History, found });
    assert!(events.contains(&told));
    let (outcome, _) = run(&after, RunInput::new(format!("I am {MAIL}.")).thread("t")).await;
    assert_eq!(blocked(&outcome.unwrap_err()).found, [("email".to_owned(), 1)].into(), "a new one is blocked");
}

#[tokio::test]
async fn a_thread_is_checked_again_when_a_function_of_the_rules_is_another() {
    let journal = Arc::new(MemoryJournal::new());
    let model = ScriptedModel::new(["One.", "Two."].map(Turn::text));
    let agent = |word: &'static str| {
        let words =
            Detector::function(move |text| text.match_indices(word).map(|(at, _)| at..at + word.len()).collect());
        let redaction = Redaction::new().hide(words);
        let builder = DeepAgent::builder().model(model.clone()).redaction(redaction).journal(journal.clone());
        builder.build().unwrap()
    };
    run(&agent("oak"), RunInput::new("oak and elm").thread("t")).await.0.unwrap();
    let (outcome, _) = run(&agent("elm"), RunInput::new("Hello.").thread("t")).await;
    assert_eq!(outcome.unwrap().messages().get(0).unwrap().text(), "[REDACTED_CUSTOM] and [REDACTED_CUSTOM]");
}

#[tokio::test]
async fn what_a_function_has_found_is_not_found_again_in_its_marks() {
    let model = || ScriptedModel::rules().always(Turn::text("Fine.")).build();
    let (looked, journal) = (Arc::new(Mutex::new(0)), Arc::new(MemoryJournal::new()));
    let agent = |strategy: Strategy| {
        let looked = looked.clone();
        let capitals = Detector::function(move |text| {
            *looked.lock().unwrap() += usize::from(text.contains("say "));
            let (mut found, mut start) = (Vec::new(), 0);
            for word in text.split(|c: char| !c.is_ascii_uppercase() && c != '_') {
                found.extend((word.len() > 3).then_some(start..start + word.len()));
                start += word.len() + 1;
            }
            found.extend(text.match_indices("hash").map(|(at, hash)| at..at + hash.len()));
            found
        });
        let redaction = Redaction::new().with(capitals, strategy);
        DeepAgent::builder().model(model()).redaction(redaction).journal(journal.clone()).build().unwrap()
    };
    let key = || Strategy::Hash(HashKey::new(*b"0123456789abcdef"));
    for (thread, strategy) in [("redacted", Strategy::Redact), ("hashed", key())] {
        let first = agent(strategy.clone());
        let outcome = run(&first, RunInput::new("I say OAKS.").thread(thread)).await.0.unwrap();
        let hidden = outcome.messages().get(0).unwrap().text();
        assert!(!hidden.contains("OAKS"), "{hidden}");
        let before = *looked.lock().unwrap();
        run(&first, RunInput::new("Again.").thread(thread)).await.0.unwrap();
        assert_eq!(*looked.lock().unwrap(), before, "the same agent does not check the thread again");
        // As in another process.
        let outcome = run(&agent(strategy), RunInput::new("Again.").thread(thread)).await.0.unwrap();
        assert!(*looked.lock().unwrap() > before);
        assert_eq!(outcome.messages().get(0).unwrap().text(), hidden);
    }
}

fn all_of(redaction: Redaction) -> Redaction {
    redaction.output(true).tool_results(true)
}

#[tokio::test]
async fn answers_reasoning_and_arguments_are_redacted_in_deltas_state_and_tools() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sees = seen.clone();
    let send = json_tool("send", "Sends.", json!({"type": "object"}), move |args: Value, _cx| {
        sees.lock().unwrap().push(args.to_string());
        async { Ok("Sent.") }
    });
    let args = json!({"to": [MAIL], "deep": {"cc": format!("x {MAIL} y")}, "n": 1});
    let model = ScriptedModel::new([
        Turn::call("send", args)
            .and_text(format!("I write to {MAIL}, as you said."))
            .thinking(format!("Is {MAIL} right?")),
        Turn::text(format!("Sent to {MAIL}")),
    ]);
    let redaction = Redaction::new().hide(Detector::Email).output(true);
    let agent = DeepAgent::builder().model(model.clone()).tool(send).redaction(redaction).build().unwrap();
    let (outcome, events) = run(&agent, "Go.").await;
    let outcome = outcome.unwrap();
    assert_eq!(outcome.text(), "Sent to [REDACTED_EMAIL]");
    assert!(!serde_json::to_string(&events).unwrap().contains(MAIL));
    assert!(!serde_json::to_string(outcome.messages()).unwrap().contains(MAIL));
    assert_eq!(
        *seen.lock().unwrap(),
        [json!({"to": ["[REDACTED_EMAIL]"], "deep": {"cc": "x [REDACTED_EMAIL] y"}, "n": 1}).to_string()]
    );
    let pieces = |wanted: u32| -> String {
        let texts = events.iter().filter_map(|kind| match kind {
            EventKind::TextDelta { turn, text, .. } if *turn == wanted => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    };
    assert_eq!(
        (pieces(0), pieces(1)),
        ("I write to [REDACTED_EMAIL], as you said.".to_owned(), "Sent to [REDACTED_EMAIL]".to_owned())
    );
    let arguments: String = events
        .iter()
        .filter_map(|kind| if let EventKind::ToolCallDelta { args, .. } = kind { Some(args.as_str()) } else { None })
        .collect();
    assert_eq!(serde_json::from_str::<Value>(&arguments).unwrap()["to"][0], "[REDACTED_EMAIL]");
    let found: usize = events
        .iter()
        .filter_map(|kind| match kind {
            EventKind::Middleware(MiddlewareEvent::Redacted { place: RedactedPlace::Output, found }) => {
                Some(found["email"])
            }
            _ => None,
        })
        .sum();
    assert_eq!(found, 5);
    check_history(outcome.messages()).unwrap();
}

#[tokio::test]
async fn a_blocked_answer_ends_the_run_before_any_delta_is_emitted() {
    let model = ScriptedModel::new([Turn::text(format!("It is {MAIL}, you see."))]);
    let redaction = Redaction::new().with(Detector::Email, Strategy::Block).output(true);
    let agent = DeepAgent::builder().model(model).redaction(redaction).build().unwrap();
    let (outcome, events) = run(&agent, "Go.").await;
    assert_eq!(blocked(&outcome.unwrap_err()).found, [("email".to_owned(), 1)].into());
    assert!(!serde_json::to_string(&events).unwrap().contains("ann"));
}

fn leaky() -> impl DynTool {
    json_tool("leak", "Leaks.", json!({"type": "object"}), |_: Value, cx: deepagents::ToolContext| async move {
        cx.progress("I find ann@exam");
        cx.progress("ple.org here\nand more ");
        Ok(ToolOutput::text(format!("It is {MAIL}."))
            .with_artifact(json!({"who": MAIL, "card": 4_111_111_111_111_111u64})))
    })
}

#[tokio::test]
async fn tool_results_artifacts_and_progress_are_redacted_only_where_enabled() {
    let agent = |redaction: Redaction| {
        let model = ScriptedModel::new([Turn::call("leak", json!({})), Turn::text("Done.")]);
        DeepAgent::builder().model(model).tool(leaky()).redaction(redaction).build().unwrap()
    };
    let both = Redaction::new().hide(Detector::Email).hide(Detector::CreditCard);
    let (outcome, events) = run(&agent(all_of(both.clone())), "Go.").await;
    let outcome = outcome.unwrap();
    assert_eq!(results(&outcome), [("It is [REDACTED_EMAIL].".to_owned(), false)]);
    assert!(!serde_json::to_string(&events).unwrap().contains("ann@"));
    let told: String = events
        .iter()
        .filter_map(|kind| if let EventKind::ToolProgress { text, .. } = kind { Some(text.as_str()) } else { None })
        .collect();
    assert_eq!(told, "I find [REDACTED_EMAIL] here\nand more ");
    let result = outcome.messages().iter().find_map(|m| m.as_tool().cloned()).unwrap();
    assert_eq!(result.artifact, Some(json!({"who": "[REDACTED_EMAIL]", "card": "[REDACTED_CREDIT_CARD]"})));

    let (outcome, _) = run(&agent(both), "Go.").await;
    assert_eq!(results(&outcome.unwrap()), [(format!("It is {MAIL}."), false)]);
}

#[tokio::test]
async fn a_blocked_tool_result_is_withheld_and_the_run_continues() {
    let model = ScriptedModel::new([Turn::call("leak", json!({})), Turn::text("Done.")]);
    let redaction = Redaction::new().with(Detector::Email, Strategy::Block).tool_results(true);
    let agent = DeepAgent::builder().model(model).tool(leaky()).redaction(redaction).build().unwrap();
    let (outcome, events) = run(&agent, "Go.").await;
    let outcome = outcome.unwrap();
    assert_eq!(results(&outcome), [("Error: the result was withheld: it holds email (1).".to_owned(), true)]);
    assert!(!serde_json::to_string(&events).unwrap().contains("ann@"));
}

#[tokio::test]
async fn a_large_result_is_redacted_before_it_is_stored_in_a_file() {
    let large = json_tool("leak", "Leaks.", json!({"type": "object"}), |_: Value, _cx| async move {
        Ok(format!("{MAIL} and more words\n").repeat(8_000))
    });
    let model = ScriptedModel::new([Turn::call("leak", json!({})), Turn::text("Done.")]);
    let agent = DeepAgent::builder()
        .model(model)
        .tool(large)
        .redaction(all_of(Redaction::new().hide(Detector::Email)))
        .build()
        .unwrap();
    let outcome = agent.invoke("Go.").await.unwrap();
    assert!(results(&outcome)[0].0.contains("too large to show"));
    assert!(!serde_json::to_string(&outcome.state.to_json(true).unwrap()).unwrap().contains(MAIL));
}

#[tokio::test]
async fn sub_agents_apply_the_same_redaction() {
    let task = json!({"description": format!("Write to {MAIL}."), "subagent_type": "general-purpose"});
    let below = |r: &deepagents::ModelRequest| r.messages.get(0).is_some_and(|m| m.text().contains("Write to"));
    let model = ScriptedModel::rules()
        .when(below, [Turn::text("Written.")])
        .always(Turn::with(move |r| match r.messages.len() {
            1 => Turn::call("task", task.clone()),
            _ => Turn::text("Done."),
        }))
        .build();
    let agent =
        DeepAgent::builder().model(model.clone()).redaction(Redaction::new().hide(Detector::Email)).build().unwrap();
    agent.invoke("Go.").await.unwrap();
    let below = model.requests().into_iter().find(|r| r.messages.get(0).unwrap().text().contains("Write to")).unwrap();
    assert_eq!(below.messages.get(0).unwrap().text(), "Write to [REDACTED_EMAIL].");
}

#[tokio::test]
async fn results_and_answers_given_as_input_are_redacted_where_enabled() {
    let model = ScriptedModel::new([Turn::text("Fine.")]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .redaction(all_of(Redaction::new().hide(Detector::Email)))
        .build()
        .unwrap();
    let call = Block::call("c1", "look", json!({"who": MAIL}));
    let answer = deepagents::core::message::AssistantMessage::new(vec![call]);
    let result = ToolMessage { call_id: "c1".to_owned(), content: vec![Block::text(MAIL)], ..ToolMessage::default() };
    let given = vec![Message::user("Who?"), Message::Assistant(answer), Message::Tool(result), Message::user("Well?")];
    agent.invoke(RunInput::messages(given)).await.unwrap();
    assert!(!serde_json::to_string(&model.requests()[0].messages).unwrap().contains(MAIL));
}

/// Texts with something to redact, and other words.
fn texts() -> impl proptest::strategy::Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "ann@example.org",
        "4111 1111 1111 1111",
        "192.168.0.1",
        "2001:db8::1",
        "00:1A:2b:3C:4d:5E",
        "https://a.example/x?y=1",
        "sk-proj-abcdefghijklmnop1234",
        "password: correcthorse",
        "-----BEGIN PRIVATE KEY-----\nMII\nE=\n-----END PRIVATE KEY-----",
        "words",
        "地址bob@example.com，",
        "密钥sk-abcdefghijklmnopqrstuvwx结束",
        "卡号4111111111111111有效。",
        "谢谢",
        "4111 1111 1111 1111 12/27",
        "db_password = \"correct horse, battery\"",
        "password: string = 'hunter2hunter2'",
        "MY_TOKEN =",
        "Authorization: Bearer abcdefgh12345678",
        "Bearer",
        "postgres://app:hunter2hunter2@db/x",
        "token",
        "=",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n",
        "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n",
        "-----END PRIVATE KEY-----",
        "src/b.pem:2:MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu\n",
        "12:30",
        "a@",
        "4111 1111",
        "ä…ß",
        ",",
        ".",
        "-----BEGIN",
        "x=1",
        "\n",
    ]);
    prop::collection::vec((part, prop::sample::select(vec![" ", "\n", "\\n", ", ", ""])), 1..14)
        .prop_map(|parts| parts.into_iter().flat_map(|(part, between)| [part, between]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    #[test]
    fn an_answer_in_deltas_of_any_size_reads_like_the_whole_one(text in texts(), size in 1..40usize) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (told, whole) = runtime.block_on(in_pieces(&text, size));
        prop_assert_eq!(told, whole);
    }
}

/// Returns an answer as it was streamed in pieces of `size`, and as it was stored.
async fn in_pieces(text: &str, size: usize) -> (String, String) {
    use Detector::{ApiKey, CreditCard, Email, Ip, MacAddress, PrivateKey, Url};
    let all = [Email, CreditCard, Ip, MacAddress, Url, ApiKey, PrivateKey];
    let redaction = all.into_iter().fold(Redaction::new().output(true), Redaction::hide);
    let model = ScriptedModel::new([Turn::text(text)]).with_chunk_size(size);
    let agent = DeepAgent::builder().model(model).redaction(redaction).build().unwrap();
    let (outcome, events) = run(&agent, "Go.").await;
    let piece = |kind: &EventKind| if let EventKind::TextDelta { text, .. } = kind { Some(text.clone()) } else { None };
    (events.iter().filter_map(piece).collect(), outcome.unwrap().messages().last().unwrap().text())
}

#[tokio::test]
async fn lines_of_a_private_key_behind_names_of_files_are_hidden_while_they_come() {
    let first = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj";
    let next = "MzEfYyjiWA4R4/M2bS1GB4t7NXp98C3SC6dVMvDuictGeurT8jNbvJZHtCSuYEvu";
    for size in [1, 3, 8, 40] {
        let (told, whole) =
            in_pieces(&format!("a b.pem:1:{first}\nb.pem:2:{next}\nb.pem-3-{next}\nend of it"), size).await;
        assert!(!told.contains("MzEf") && told == whole, "{size}: {told}");
        let (told, whole) = in_pieces(&format!("{first}\n密钥sk-abcdefghijklmnopqrstuvwx结束 "), size).await;
        assert_eq!(told, whole, "{size}");
    }
}

#[tokio::test]
async fn long_texts_are_looked_at_where_they_hold_up_no_other_task() {
    let threads: Arc<Mutex<Vec<(usize, ThreadId)>>> = Arc::default();
    let looked = threads.clone();
    let detector = Detector::function(move |text| {
        looked.lock().unwrap().push((text.len(), std::thread::current().id()));
        text.match_indices("SECRET").map(|(at, found)| at..at + found.len()).collect()
    });
    let long = |place: &str| format!("{place} SECRET {}", "word ".repeat(30_000));
    let result = long("result");
    let tool = json_tool("look", "Looks.", json!({"type": "object"}), move |_: Value, _cx| {
        let result = result.clone();
        async move { Ok(ToolOutput::text(result)) }
    });
    let model = ScriptedModel::new([Turn::call("look", json!({"at": long("args")})), Turn::text(long("answer"))]);
    let redaction = Redaction::new().named("word", detector, Strategy::Redact).output(true).tool_results(true);
    let journal = MemoryJournal::new();
    let agent = DeepAgent::builder().model(model).tool(tool).redaction(redaction).journal(journal);
    let agent = agent.without("Filesystem").build().unwrap();
    let outcome = agent.run(RunInput::new(long("said")).thread("t")).outcome().await.unwrap();
    let said = serde_json::to_string(outcome.messages()).unwrap();
    assert_eq!((said.matches("SECRET").count(), said.matches("[REDACTED_WORD]").count()), (0, 4), "{}", said.len());
    let here = std::thread::current().id();
    let threads = threads.lock().unwrap();
    let long: Vec<&(usize, ThreadId)> = threads.iter().filter(|(length, _)| *length > 100_000).collect();
    assert!(long.len() >= 4 && long.iter().all(|(_, thread)| *thread != here), "{long:?}");
}
