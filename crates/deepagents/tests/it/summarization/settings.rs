//! Options, and the tool with which the model compacts.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{DeepAgent, ModelError, RunInput, json_tool};

use super::*;

#[test]
fn a_share_of_an_unknown_window_is_rejected_at_build_time() {
    let options = || SummarizationOptions::default().trigger(Trigger::fraction(0.5));
    let build = |options, model: ScriptedModel| DeepAgent::builder().model(model).summarization(options).build();
    let error = build(options(), talker()).unwrap_err().to_string();
    assert!(error.contains("context_window"), "{error}");
    build(options(), talker().with_profile(window(10_000))).unwrap();
    build(options().context_window(10_000), talker()).unwrap();
    assert!(build(SummarizationOptions::default().keep(Size::Fraction(1.5)), talker()).is_err());
    assert!(build(SummarizationOptions::default().keep(Size::Messages(0)), talker()).is_err());
}

#[tokio::test]
async fn without_configured_sizes_compaction_happens_near_the_end_of_a_known_window() {
    let model = talker().with_profile(window(100_000));
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    for (chars, summaries) in [(200_000, 0), (340_000, 1)] {
        let text = "word ".repeat(chars / 100);
        let messages = (0..20).map(|n| if n % 2 == 0 { Message::user(&text) } else { Message::assistant(&text) });
        agent.invoke(RunInput::messages(messages.chain(["Go on.".into()]))).await.unwrap();
        assert_eq!(requests(&model).0.len(), summaries, "{chars} characters");
    }
}

#[tokio::test]
async fn a_sub_agent_with_another_model_uses_the_window_of_that_model() {
    let page = json_tool("page", "Reads a page.", json!({"type": "object"}), |_: Value, _cx| async {
        Ok("word ".repeat(4_000))
    });
    let task = json!({"description": "Read it.", "subagent_type": "small"});
    let main = ScriptedModel::new([Turn::call("task", task), Turn::text("Done.")]).with_name("test:large");
    let pages = (0..8).map(|at| Turn::call("page", json!({ "at": at }))).chain([Turn::text("Read.")]);
    let small = model((0..8).map(|_| Turn::text("A SUMMARY")), pages);
    let small = small.with_name("test:small").with_profile(window(32_000));
    let agent = DeepAgent::builder()
        .model(main)
        .tool(page)
        .summarization(SummarizationOptions::default().context_window(1_000_000))
        .sub_agent(SubAgentSpec::new("small", "Reads.").model(small.clone()))
        .build()
        .unwrap();
    assert_eq!(agent.invoke("Go.").await.unwrap().text(), "Done.");
    assert!(!requests(&small).0.is_empty(), "40,000 tokens do not fit 32,000");
}

#[tokio::test]
async fn the_summarization_middleware_can_be_removed() {
    let model = talker();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .summarization(by_messages(2, 1))
        .without("Summarization")
        .build()
        .unwrap();
    agent.invoke(RunInput::messages(conversation("H A H A H"))).await.unwrap();
    assert_eq!(requests(&model).0.len(), 0);
    let names: Vec<String> = agent.explain().middlewares.iter().map(|part| part.name.clone()).collect();
    assert!(!names.contains(&"Summarization".to_owned()));
}

#[test]
fn summarization_comes_before_the_cache_marks() {
    let agent = DeepAgent::builder().model(talker()).build().unwrap();
    let names: Vec<String> = agent.explain().middlewares.iter().map(|part| part.name.clone()).collect();
    let at = |name: &str| names.iter().position(|n| n == name).unwrap();
    assert!(at("Filesystem") < at("Summarization") && at("Summarization") + 1 == at("PromptCaching"), "{names:?}");
    assert!(!agent.explain().tools.iter().any(|tool| tool.name == "compact_conversation"), "it is an option");
}

/// The result of `compact_conversation` after a conversation.
async fn compacted(
    words: &str,
    options: SummarizationOptions,
    summary: Turn,
) -> (String, bool, Outcome, ScriptedModel) {
    let turns = [Turn::call("compact_conversation", json!({})), Turn::text("Done.")];
    let model = model([summary], turns);
    let agent = DeepAgent::builder().model(model.clone()).summarization(options.compact_tool(true)).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(conversation(words))).await.unwrap();
    let result = outcome.messages().iter().filter_map(|m| m.as_tool()).next_back().unwrap();
    (Message::Tool(result.clone()).text(), result.is_error, outcome.clone(), model)
}

#[tokio::test]
async fn the_model_can_compact_the_conversation_from_halfway_to_the_trigger() {
    let (text, failed, outcome, model) = compacted("H A H A H", by_messages(12, 2), Turn::text("A SUMMARY")).await;
    assert_eq!(
        (text.as_str(), failed),
        ("Conversation compacted. Summarized 4 messages into a concise summary.", false)
    );
    let shown = texts(requests(&model).1.last().unwrap());
    assert!(shown[0].contains("A SUMMARY"));
    // The open call and its result stay.
    assert_eq!(shown[1..].len(), 3, "{shown:?}");
    assert_eq!(shown[1], "question 4");
    assert!(history(&outcome).contains("question 0"));
}

#[tokio::test]
async fn the_model_is_told_that_there_is_nothing_to_compact() {
    let nothing = "Nothing to compact yet — conversation is within the token budget.";
    for options in [by_messages(20, 2), SummarizationOptions::default().trigger(Trigger::never())] {
        let (text, failed, ..) = compacted("H A H A H", options, Turn::text("A SUMMARY")).await;
        assert_eq!((text.as_str(), failed), (nothing, false));
    }
}

#[tokio::test]
async fn the_model_is_told_when_compaction_fails_and_nothing_has_changed() {
    let (text, failed, _, model) =
        compacted("H A H A H", by_messages(12, 2), Turn::error(ModelError::invalid("not today"))).await;
    assert!(failed);
    assert!(text.starts_with("Compaction failed: ") && text.contains("not today"), "{text}");
    assert!(text.ends_with("no messages were summarized or removed."), "{text}");
    assert_eq!(requests(&model).1.last().unwrap().messages.len(), 7);
}

#[tokio::test]
async fn compaction_by_the_model_stores_images_too() {
    use deepagents::core::message::{Media, MediaKind, MediaSource, UserMessage};
    let source = MediaSource::Base64("aGVsbG8=".into());
    let picture = Block::Media(Media { kind: MediaKind::Image, mime: "image/png".into(), source, name: None });
    let mut messages = conversation("H A H A H");
    messages[0] = Message::User(UserMessage { content: vec![Block::text("look"), picture], ..UserMessage::default() });
    let turns = [Turn::call("compact_conversation", json!({})), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns);
    let options = by_messages(12, 2).compact_tool(true);
    let agent = DeepAgent::builder().model(model).summarization(options).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(messages)).await.unwrap();
    let files = outcome.state.get::<Files>().unwrap();
    let (path, file) = files.iter().find(|(path, _)| path.as_str().contains("/media/")).unwrap();
    assert_eq!(file.content().bytes(), b"hello");
    assert!(history(&outcome).contains(&format!("<image file=\"{path}\"/>")));
}
