//! When a conversation is compacted and how much stays, by messages, tokens and fractions of the window.

use deepagents::core::message::AssistantMessage;
use deepagents::middleware::summarization::{SummarizationOptions, TruncateArgs};
use deepagents::{Block, DeepAgent, MemoryJournal, Message, RunInput};

use super::*;

/// Ten messages of about a hundred tokens each, the last from a person.
fn hundreds() -> Vec<Message> {
    let text = |n: usize| format!("{n} {}", "word ".repeat(78));
    (0..10).map(|n| if n % 2 == 0 { Message::assistant(text(n)) } else { Message::user(text(n)) }).collect()
}

/// How many of ten messages stay; ten without compaction.
async fn staying(options: SummarizationOptions) -> usize {
    let model = talker().with_profile(window(20_000));
    let agent = DeepAgent::builder().model(model.clone()).summarization(options.truncate_args(None)).build().unwrap();
    agent.invoke(RunInput::messages(hundreds())).await.unwrap();
    let (summaries, sent) = requests(&model);
    let shown = texts(&sent[0]);
    let staying = hundreds().iter().rev().zip(shown.iter().rev()).take_while(|(m, text)| m.text() == **text).count();
    assert_eq!(summaries.is_empty(), staying == 10);
    staying
}

#[tokio::test]
async fn a_trigger_can_combine_several_sizes_with_any_or_all() {
    let keep = |trigger| SummarizationOptions::default().trigger(trigger).keep(Size::Messages(4));
    // The standard stack and ten messages have between 2,000 and 10,000 tokens.
    let (few, many) = (|| Trigger::messages(10), || Trigger::messages(11));
    let (low, high) = (|| Trigger::tokens(2_000), || Trigger::tokens(10_000));
    let (share, large) = (|| Trigger::fraction(0.1), || Trigger::fraction(0.5));
    for (trigger, met) in [
        (few(), true),
        (many(), false),
        (low(), true),
        (high(), false),
        (share(), true),
        (large(), false),
        (few().or(high()), true),
        (many().or(high()).or(large()), false),
        (few().and(low()).and(share()), true),
        (few().and(high()), false),
        (many().and(low()).or(share()), true),
        (Trigger::never(), false),
    ] {
        let described = format!("{trigger:?}");
        assert_eq!(staying(keep(trigger)).await == 4, met, "{described}");
    }
}

#[tokio::test]
async fn the_kept_part_can_be_messages_tokens_or_a_share_of_the_window() {
    let always = || SummarizationOptions::default().trigger(Trigger::messages(10));
    assert_eq!(staying(always().keep(Size::Messages(3))).await, 3);
    assert_eq!(staying(always().keep(Size::Tokens(350))).await, 3);
    // 250 of 20,000 tokens.
    assert_eq!(staying(always().keep(Size::Fraction(0.0125))).await, 2);
    assert_eq!(staying(always().keep(Size::Tokens(1))).await, 1, "the last message stays in any case");
    // A tenth of the window would keep everything.
    assert_eq!(staying(always()).await, 5, "half of the number that is waited for");
    assert_eq!(staying(always().messages_to_keep(5)).await, 5);
    assert_eq!(staying(SummarizationOptions::default().max_tokens_before_summary(2_000).messages_to_keep(5)).await, 5);
}

/// The lengths of the arguments shown to the model, for five edits of 3,000 characters.
async fn edits(args: TruncateArgs) -> Vec<usize> {
    let long = "e".repeat(3_000);
    let mut messages = vec![Message::user("Edit.")];
    for n in 0..5 {
        let edit = json!({"file_path": format!("/{n}"), "old_string": "o", "new_string": long});
        let answer = AssistantMessage::new(vec![Block::call(format!("c{n}"), "edit_file", edit)]);
        messages.extend(answer.tool_calls().map(|call| Message::tool(call, "done")).collect::<Vec<_>>());
        messages.insert(messages.len() - 1, Message::Assistant(answer));
    }
    messages.push(Message::user("Go on."));
    let model = talker().with_profile(window(40_000));
    let options = SummarizationOptions::default().trigger(Trigger::never()).truncate_args(args);
    let agent = DeepAgent::builder().model(model.clone()).summarization(options).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(messages)).await.unwrap();
    let lengths = |messages: &deepagents::core::message::Messages| -> Vec<usize> {
        let answers = messages.iter().filter_map(|m| m.as_assistant());
        let calls = answers.flat_map(AssistantMessage::tool_calls);
        calls.map(|call| call.args["new_string"].as_str().unwrap().len()).collect()
    };
    assert_eq!(lengths(outcome.messages()), [3_000; 5], "the thread keeps them");
    lengths(&model.requests()[0].messages)
}

#[tokio::test]
async fn arguments_are_cut_by_any_kind_of_size_with_a_configurable_marker() {
    let args = || TruncateArgs { trigger: Some(Trigger::tokens(3_000)), ..TruncateArgs::default() };
    let cut = 20 + "...(argument truncated)".len();
    let keep = |size| TruncateArgs { keep: Some(size), ..args() };
    assert_eq!(edits(keep(Size::Messages(5))).await, [cut, cut, cut, 3_000, 3_000]);
    // An edit has about 770 tokens.
    assert_eq!(edits(keep(Size::Tokens(1_000))).await, [cut, cut, cut, cut, 3_000]);
    assert_eq!(edits(keep(Size::Fraction(0.04))).await, [cut, cut, cut, 3_000, 3_000]);
    assert_eq!(edits(TruncateArgs { trigger: Some(Trigger::never()), ..args() }).await, [3_000; 5]);
    assert_eq!(edits(TruncateArgs { max_length: 3_000, ..keep(Size::Messages(5)) }).await, [3_000; 5]);
    let own = TruncateArgs { text: " [cut]".into(), ..keep(Size::Messages(1)) };
    assert_eq!(edits(own).await, [26; 5]);
}

#[tokio::test]
async fn once_arguments_are_cut_others_are_cut_as_they_age() {
    let write =
        |path: &str, chars: usize| Turn::call("write_file", json!({"file_path": path, "content": "w".repeat(chars)}));
    let turns = [write("/long", 60_000), write("/short", 3_000), Turn::text("One."), Turn::text("Two.")];
    let model = ScriptedModel::new(turns);
    let args = TruncateArgs {
        trigger: Some(Trigger::tokens(15_000)),
        keep: Some(Size::Messages(2)),
        ..TruncateArgs::default()
    };
    let options = SummarizationOptions::default().trigger(Trigger::never()).truncate_args(args);
    let agent =
        DeepAgent::builder().journal(MemoryJournal::new()).model(model.clone()).summarization(options).build().unwrap();
    agent.invoke(RunInput::new("Write.").thread("t")).await.unwrap();
    agent.invoke(RunInput::new("Go on.").thread("t")).await.unwrap();
    let lengths = |request: &deepagents::ModelRequest| -> Vec<usize> {
        let answers = request.messages.iter().filter_map(|m| m.as_assistant());
        let calls = answers.flat_map(AssistantMessage::tool_calls);
        calls.map(|call| call.args["content"].as_str().unwrap().len()).collect()
    };
    let cut = 20 + "...(argument truncated)".len();
    let shown: Vec<Vec<usize>> = model.requests().iter().map(lengths).collect();
    // Without the long argument, a request is far below the trigger.
    assert_eq!(shown, [vec![], vec![60_000], vec![cut, 3_000], vec![cut, cut]]);
}

#[tokio::test]
async fn the_providers_token_count_replaces_the_estimate_near_a_limit_if_enabled() {
    let compacts = async |counted: Option<u64>, ask: bool, trigger: u64| {
        let model = talker().with_profile(window(20_000));
        let model = counted.into_iter().fold(model, ScriptedModel::with_token_count);
        let options = SummarizationOptions::default().trigger(Trigger::tokens(trigger)).keep(Size::Messages(2));
        let builder = DeepAgent::builder().model(model.clone()).summarization(options.provider_counts(ask));
        builder.build().unwrap().invoke(RunInput::messages(hundreds())).await.unwrap();
        !requests(&model).0.is_empty()
    };
    // The standard stack and ten messages are estimated at between 2,000 and 10,000 tokens.
    assert!(compacts(Some(11_000), true, 3_500).await && !compacts(None, true, 3_500).await);
    assert!(!compacts(Some(500), true, 2_000).await);
    assert!(compacts(Some(500), false, 2_000).await, "nobody asked");
    assert!(compacts(None, true, 2_000).await, "nobody counts");
    assert!(!compacts(Some(19_000), true, 1_000_000).await, "far from any limit nobody is asked");
}
