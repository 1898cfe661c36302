//! Requests that exceed the context window.

use deepagents::core::model::ErrorInfo;
use deepagents::middleware::context_editing::{ContextEditing, ContextEdits};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{DeepAgent, MemoryJournal, Message, ModelError, RunInput, json_tool};

use super::*;

fn too_long() -> Turn {
    Turn::error(ModelError::ContextLength(ErrorInfo::from("prompt is too long")))
}

/// Refuses conversations of more than `chars` characters.
fn narrow(chars: usize) -> ScriptedModel {
    let answer = move |request: &ModelRequest| match everything(request).len() {
        _ if request.tools.is_empty() => Turn::text("A SUMMARY"),
        long if long > chars => too_long(),
        _ => Turn::text("Done."),
    };
    ScriptedModel::rules().always(Turn::with(answer)).build()
}

fn long_history(messages: usize, chars: usize) -> Vec<Message> {
    let text = |n: usize| format!("{n} {}", "word ".repeat(chars / 5));
    let message = |n: usize| if n.is_multiple_of(2) { Message::user(text(n)) } else { Message::assistant(text(n)) };
    (0..messages).map(message).chain([Message::user("And now?")]).collect()
}

#[tokio::test]
async fn a_request_rejected_as_too_long_is_compacted_and_sent_once_more() {
    let model = narrow(30_000);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(long_history(20, 4_000))).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(requests(&model).1.len(), 2);
    for n in 0..10 {
        assert!(history(&outcome).contains(&format!("{n} word")), "message {n} is in the file");
    }
}

#[tokio::test]
async fn many_small_messages_can_be_compacted_too() {
    let model = narrow(15_000);
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(long_history(300, 20))).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(requests(&model).1.len(), 2);
}

#[tokio::test]
async fn a_rejected_request_is_retried_once_and_only_if_something_can_be_removed() {
    for (history, asked) in [(long_history(20, 4_000), 2), (vec![Message::user("Hi.")], 1)] {
        let model = ScriptedModel::rules()
            .when(|request| request.tools.is_empty(), [Turn::text("A SUMMARY")])
            .always(too_long())
            .build();
        let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
        let error = agent.invoke(RunInput::messages(history)).await.unwrap_err();
        assert_eq!(error.kind(), "context_length");
        assert_eq!(requests(&model).1.len(), asked);
    }
}

#[tokio::test]
async fn a_message_that_can_never_fit_is_an_error_before_any_call() {
    let model = talker().with_profile(window(2_000));
    let agent = DeepAgent::builder().model(model.clone()).preset(deepagents::Preset::Lean).build().unwrap();
    let error = agent.invoke("x".repeat(40_000)).await.unwrap_err();
    assert_eq!(error.kind(), "context_length");
    assert!(error.to_string().contains("shorten the last message"), "{error}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_prompt_and_tools_that_do_not_fit_are_an_error_before_any_summary() {
    let model = talker().with_profile(window(1_000));
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let error = agent.invoke(RunInput::messages(long_history(20, 400))).await.unwrap_err();
    assert_eq!(error.kind(), "context_length");
    let text = error.to_string();
    assert!(text.contains("system prompt and tools alone") && text.contains("at most 1000 fit"), "{text}");
    assert!(model.requests().is_empty());
}

#[tokio::test]
async fn a_summary_no_shorter_than_its_source_is_not_used_nor_retried_at_every_step() {
    let summary = || Turn::text(format!("## State\n{}", "summed up ".repeat(800)));
    let ls = || Turn::call("ls", json!({"path": "/"}));
    let turns = [ls(), ls(), ls(), Turn::text("Done.")];
    let model = model([summary()], turns).with_profile(window(200_000));
    // Between the size that leaves room for a response and the maximum. Only about 500 tokens can be evicted.
    let agent = DeepAgent::builder()
        .model(model.clone())
        .system_prompt("word ".repeat(151_500))
        .summarization(SummarizationOptions::default().trigger(Trigger::never()))
        .build()
        .unwrap();
    let told = crate::memory::told(&agent, RunInput::messages(long_history(4, 500)), "compaction_failed").await;
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0]["error"].as_str().unwrap().contains("no shorter"), "{told:?}");
    let (summaries, sent) = requests(&model);
    assert_eq!((summaries.len(), sent.len()), (1, 4));
    assert!(sent.iter().all(|request| texts(request)[0].starts_with("0 word")), "nothing is evicted");
}

#[tokio::test]
async fn a_rejected_length_is_remembered_if_the_window_is_unknown() {
    let model = narrow(60_000);
    let agent = DeepAgent::builder().model(model.clone()).journal(deepagents::MemoryJournal::new()).build().unwrap();
    agent.invoke(RunInput::messages(long_history(20, 4_000)).thread("t1")).await.unwrap();
    let more = long_history(20, 4_000);
    let outcome = agent.invoke(RunInput::messages(more).thread("t1")).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    assert_eq!(requests(&model).1.len(), 3, "the second run does not run into it again");
}

#[tokio::test]
async fn a_result_too_large_for_the_window_is_truncated_and_stored_in_full() {
    let turns = [Turn::call("dump", json!({})), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns).with_profile(window(12_000));
    let lines: String = (0..6_000).map(|n| format!("line {n}\n")).collect();
    let whole = lines.clone();
    let dump =
        json_tool("dump", "Dumps.", json!({"type": "object"}), move |_, _| std::future::ready(Ok(lines.clone())));
    let agent = DeepAgent::builder().model(model.clone()).tool(dump).build().unwrap();
    let outcome = agent.invoke("Dump it.").await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    let result = outcome.messages().iter().find(|m| m.as_tool().is_some()).unwrap().text();
    assert_eq!(result, whole, "the thread keeps it");
    let (_, sent) = requests(&model);
    let shown = texts(&sent[1]);
    assert!(shown[2].starts_with("line 0\n") && shown[2].len() < 5_000, "{}", shown[2]);
    let files = outcome.state.get::<Files>().unwrap();
    let stored = files.iter().find(|(path, _)| path.as_str().starts_with("/large_tool_results/")).unwrap();
    assert_eq!(stored.1.content().bytes(), whole.as_bytes());
    assert!(shown[2].contains(stored.0.as_str()));
}

#[tokio::test]
async fn a_file_too_large_for_the_window_is_truncated_and_can_be_reread_in_place() {
    let text: String = (0..1_500).map(|n| format!("line {n} of the book\n")).collect();
    let turns = [Turn::call("read_file", json!({"file_path": "/book.txt", "limit": 2_000})), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns).with_profile(window(9_000));
    let agent = DeepAgent::builder().model(model.clone()).build().unwrap();
    let input = RunInput::new("Read it.").update(crate::memory::files([("/book.txt", text.as_str())]));
    let outcome = agent.invoke(input).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    let shown = &texts(&requests(&model).1[1])[2];
    assert!(shown.contains("line 0 of the book") && shown.len() < 5_000, "{shown}");
    assert!(shown.contains("read /book.txt again with `offset` and `limit`"), "{shown}");
    let files = outcome.state.get::<Files>().unwrap();
    assert!(
        files.iter().all(|(path, _)| !path.as_str().starts_with("/large_tool_results/")),
        "it is in a file already"
    );
}

#[tokio::test]
async fn messages_too_long_for_the_summarising_model_are_summarised_in_parts() {
    let light = |request: &ModelRequest| match everything(request).len() {
        long if long > 16_000 => too_long(),
        _ => Turn::text("## State\nread a part"),
    };
    for known in [true, false] {
        let mut small = ScriptedModel::rules().always(Turn::with(light)).build();
        if known {
            small = small.with_profile(window(4_000));
        }
        let main = talker();
        let options = by_messages(20, 2).model(small.clone()).max_summary_tokens(500);
        let agent = DeepAgent::builder().model(main.clone()).summarization(options).build().unwrap();
        let outcome = agent.invoke(RunInput::messages(long_history(20, 2_000))).await.unwrap();
        let asked: String = small.requests().iter().map(everything).collect();
        for n in 0..19 {
            assert!(asked.contains(&format!("{n} word")), "message {n} is summarised");
        }
        assert!(small.requests().len() > 3);
        for message in long_history(19, 2_000).iter().take(19) {
            assert!(history(&outcome).contains(&message.text()), "what is evicted is stored whole");
        }
        assert!(texts(&requests(&main).1[0])[0].contains("read a part"));
    }
}

#[tokio::test]
async fn the_provider_reported_count_overrides_the_estimate() {
    let turns = [Turn::call("ls", json!({"path": "/"})).usage(usage(9_500, 10)), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns);
    let options = SummarizationOptions::default().max_tokens_before_summary(9_000).messages_to_keep(2);
    let agent = DeepAgent::builder().model(model.clone()).summarization(options).build().unwrap();
    agent.invoke(RunInput::messages(long_history(4, 1_000))).await.unwrap();
    assert_eq!(requests(&model).0.len(), 1, "the second request is known to be too long");
}

#[tokio::test]
async fn a_reported_count_far_above_the_estimate_is_trusted_for_short_messages_too() {
    for (reported, summaries) in [(60_000, 1), (900, 0)] {
        let model = model([Turn::text("A SUMMARY")], [Turn::text("Yes.").usage(usage(reported, 5)), Turn::text("No.")]);
        let options = SummarizationOptions::default().trigger(Trigger::tokens(50_000)).keep(Size::Messages(2));
        let agent = DeepAgent::builder()
            .journal(MemoryJournal::new())
            .model(model.clone())
            .summarization(options)
            .build()
            .unwrap();
        agent.invoke(RunInput::new("Is it far?").thread("t")).await.unwrap();
        let outcome = agent.invoke(RunInput::new("Is it near?").thread("t")).await.unwrap();
        assert_eq!(requests(&model).0.len(), summaries, "{reported}");
        assert_eq!(history(&outcome).contains("Is it far?"), summaries == 1);
    }
}

#[tokio::test]
async fn counts_reported_by_another_provider_are_ignored() {
    use deepagents::core::message::{AssistantMessage, Origin};
    for (name, summaries) in [("house:small", 1), ("elsewhere:large", 0)] {
        let origin = Origin { api: "house-chat".into(), provider: "house".into(), model: "small".into() };
        let answer = AssistantMessage::new(vec![deepagents::Block::text("Hm.")]);
        let answer = AssistantMessage { origin: Some(origin), usage: Some(usage(9_500, 10)), ..answer };
        let mut history = long_history(4, 1_000);
        history.insert(4, Message::Assistant(answer));
        let model = talker().with_name(name);
        let options = SummarizationOptions::default().trigger(Trigger::tokens(9_000)).keep(Size::Messages(2));
        let agent = DeepAgent::builder().model(model.clone()).summarization(options).build().unwrap();
        agent.invoke(RunInput::messages(history)).await.unwrap();
        assert_eq!(requests(&model).0.len(), summaries, "{name}");
    }
}

#[tokio::test]
async fn an_event_reports_that_results_are_truncated() {
    let turns = [Turn::call("dump", json!({})), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns).with_profile(window(12_000));
    let lines: String = (0..6_000).map(|n| format!("line {n}\n")).collect();
    let dump =
        json_tool("dump", "Dumps.", json!({"type": "object"}), move |_, _| std::future::ready(Ok(lines.clone())));
    let agent = DeepAgent::builder().model(model).tool(dump).build().unwrap();
    let told = crate::memory::told(&agent, "Dump it.".into(), "results_clipped").await;
    assert_eq!((told.len(), &told[0]["results"]), (1, &json!(1)));
    assert!(told[0]["tokens_after"].as_u64() < told[0]["tokens_before"].as_u64(), "{told:?}");
}

#[tokio::test]
async fn results_that_are_cleared_already_are_not_truncated_in_place_of_others() {
    let dump = |chars: usize| ("dump", json!({ "chars": chars }));
    let turns = [Turn::calls([dump(70_000)]), Turn::calls([dump(64_000), dump(64_000)]), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns).with_profile(window(33_000));
    let dumps = json_tool("dump", "Dumps.", json!({"type": "object"}), |args: Value, _| {
        std::future::ready(Ok("word".repeat(usize::try_from(args["chars"].as_u64().unwrap()).unwrap() / 4)))
    });
    let edits = ContextEdits { trigger: 100, target: 0, clear_at_least: 1, keep: 2, ..ContextEdits::default() };
    let clearing = ContextEditing::new(edits).unwrap();
    let agent = DeepAgent::builder().model(model.clone()).tool(dumps).middleware(clearing).build().unwrap();
    agent.invoke("Dump them.").await.unwrap();
    let shown = texts(&requests(&model).1[2]);
    assert!(shown[2].starts_with("[cleared to save room"), "{}", shown[2]);
    let lengths: Vec<usize> = shown[4..].iter().map(String::len).collect();
    assert!(lengths[0] < 5_000 && lengths[1] == 64_000, "{lengths:?}");
}
