//! What the model is shown in place of evicted messages.

use deepagents::core::message::{AssistantMessage, Origin, Reasoning};
use deepagents::middleware::summarization::{CacheReuse, Compactions, SummarizationOptions, Trigger, TruncateArgs};
use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::scripted::Turn;
use deepagents::{Block, DeepAgent, EventKind, MemoryJournal, Message, MiddlewareEvent, RunInput};
use futures_util::StreamExt;
use serde_json::json;

use super::*;
use crate::memory::files;

#[tokio::test]
async fn the_conversation_is_compacted_as_soon_as_the_trigger_is_reached() {
    for (words, summaries) in [("H A H A H", 0), ("H A H A H H", 1)] {
        let model = talker();
        let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(6, 2)).build().unwrap();
        agent.invoke(RunInput::messages(conversation(words))).await.unwrap();
        assert_eq!(requests(&model).0.len(), summaries, "{words}");
    }
}

#[tokio::test]
async fn the_thread_keeps_every_message_and_the_model_sees_a_summary_and_the_recent() {
    let model = model([Turn::text("## Goal\nFIND IT")], [Turn::text("Done.")]);
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2)).build().unwrap();
    let outcome = agent.invoke(RunInput::messages(conversation("H A H A H"))).await.unwrap();
    let kept: Vec<String> = outcome.messages().iter().map(|m| m.text()).collect();
    assert_eq!(kept, ["question 0", "answer 1", "question 2", "answer 3", "question 4", "Done."]);
    let (summaries, sent) = requests(&model);
    let shown = texts(&sent[0]);
    assert_eq!(shown[1..], ["answer 3", "question 4"]);
    assert!(shown[0].contains("## Goal\nFIND IT") && shown[0].contains("/conversation_history/"), "{}", shown[0]);
    let asked = texts(&summaries[0]).concat();
    assert!(asked.contains("question 0") && asked.contains("question 2") && !asked.contains("answer 3"), "{asked}");
    assert!(history(&outcome).contains("question 2") && !history(&outcome).contains("answer 3"));
}

#[tokio::test]
async fn an_answer_and_its_results_stay_together() {
    let model = talker();
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(6, 4)).build().unwrap();
    agent.invoke(RunInput::messages(conversation("H A H A2 H"))).await.unwrap();
    assert_eq!(texts(&requests(&model).1[0])[1..], ["c3_0 c3_1", "listing c3_0", "listing c3_1", "question 4"]);
    // A conversation of one turn is not compacted.
    let model = talker();
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(1, 1)).build().unwrap();
    agent.invoke(RunInput::messages(conversation("A2"))).await.unwrap();
    assert_eq!(requests(&model).0.len(), 0);
}

#[tokio::test]
async fn successive_summaries_keep_what_was_settled() {
    let script = [Turn::text("## Goal\nFIRST GOAL\n## State\nBEGUN"), Turn::text("## State\nHALF WAY")];
    let model = model(script, (0..8).map(|n| Turn::text(format!("answer {n}"))));
    let agent = DeepAgent::builder()
        .model(model.clone())
        .journal(MemoryJournal::new())
        .summarization(by_messages(7, 3))
        .build()
        .unwrap();
    let mut outcome = None;
    for n in 0..6 {
        outcome = Some(agent.invoke(RunInput::new(format!("question {n}")).thread("t1")).await.unwrap());
    }
    let outcome = outcome.unwrap();
    let (summaries, sent) = requests(&model);
    assert_eq!(summaries.len(), 2);
    let second = texts(&summaries[1]).concat();
    assert!(second.contains("FIRST GOAL") && second.contains("BEGUN"), "{second}");
    assert!(!second.contains("question 0"), "what is summarised is not summarised again");
    let shown = &texts(sent.last().unwrap())[0];
    assert!(shown.contains("FIRST GOAL") && shown.contains("HALF WAY") && !shown.contains("BEGUN"), "{shown}");
    // The cut is an index into the whole thread, and each message is in the file once.
    assert_eq!(outcome.state.get::<Compactions>().unwrap().last.as_ref().unwrap().cut.index, 8);
    let file = history(&outcome);
    for n in 0..4 {
        assert_eq!(file.matches(&format!("question {n}\n")).count(), 1, "{file}");
    }
    assert!(!file.contains("FIRST GOAL"));
}

#[tokio::test]
async fn the_last_user_message_and_the_todo_list_survive_eviction() {
    let plan = json!({"todos": [{"content": "Measure twice", "status": "in_progress"}, {"content": "Cut once", "status": "pending"}]});
    let turns = std::iter::once(Turn::call("write_todos", plan))
        .chain((0..10).map(|_| Turn::call("ls", json!({"path": "/"}))))
        .chain([Turn::text("Done.")]);
    let model = model((0..9).map(|n| Turn::text(format!("SUMMARY {n}"))), turns);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .todos(TodoPolicy::off())
        .memory(["/AGENTS.md"])
        .summarization(by_messages(8, 2))
        .build()
        .unwrap();
    let input = RunInput::new("Build the shelf.").update(files([("/AGENTS.md", "Use oak.")]));
    agent.invoke(input).await.unwrap();
    let (summaries, sent) = requests(&model);
    assert!(summaries.len() > 2);
    for (n, request) in sent.iter().enumerate() {
        let shown = everything(request);
        assert!(shown.contains("Build the shelf.") && shown.contains("Use oak."), "request {n}: {shown}");
        assert!(n == 0 || (shown.contains("Measure twice") && shown.contains("Cut once")), "request {n}");
    }
}

#[tokio::test]
async fn kept_user_text_does_not_bring_the_next_summary_forward() {
    let turns = (0..6).map(|_| Turn::call("ls", json!({"path": "/"}))).chain([Turn::text("Done.")]);
    let model = model((0..9).map(|n| Turn::text(format!("SUMMARY {n}"))), turns);
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(8, 3)).build().unwrap();
    agent.invoke(RunInput::new("Look around.")).await.unwrap();
    let (summaries, sent) = requests(&model);
    // Nine messages become a summary, the user's text, and two calls with their results; then eight become seven and
    // the user's text.
    let shown: Vec<usize> = sent.iter().map(|request| request.messages.len()).collect();
    assert_eq!(shown, [1, 3, 5, 7, 6, 8, 6]);
    assert_eq!(summaries.len(), 2);
}

#[tokio::test]
async fn a_thread_continued_in_another_process_is_shown_the_same_way() {
    let journal = std::sync::Arc::new(MemoryJournal::new());
    let mut sent = Vec::new();
    for question in ["question 5", "question 6"] {
        let model = talker();
        let agent = DeepAgent::builder()
            .model(model.clone())
            .journal(journal.clone())
            .summarization(by_messages(5, 2))
            .build()
            .unwrap();
        let given = if sent.is_empty() { conversation("H A H A") } else { Vec::new() };
        agent.invoke(RunInput::messages(given.into_iter().chain([question.into()])).thread("t1")).await.unwrap();
        sent.push(requests(&model));
    }
    assert_eq!((sent[0].0.len(), sent[1].0.len()), (1, 1), "four messages are shown, then five");
    let before = texts(&sent[0].1[0]);
    let asked = texts(&sent[1].0[0]).concat();
    assert!(asked.contains("A SUMMARY") && asked.contains("question 5") && !asked.contains("question 0"), "{asked}");
    assert_eq!(before.len(), 3);
}

#[tokio::test]
async fn long_arguments_of_old_writes_are_cut_but_kept_in_the_thread() {
    let exact = "e".repeat(2000);
    let long = "w".repeat(2001);
    let call = |id: &str, name: &str, args| Block::call(id, name, args);
    let answer = AssistantMessage::new(vec![
        call("c1", "write_file", json!({"file_path": "/a", "content": long})),
        call("c2", "write_file", json!({"file_path": "/b", "content": exact})),
        call("c3", "execute", json!({"command": long})),
    ]);
    let results: Vec<Message> = answer.tool_calls().map(|call| Message::tool(call, "done")).collect();
    let mut messages = vec![Message::user("Write."), Message::Assistant(answer)];
    messages.extend(results);
    messages.extend([Message::assistant("Written."), Message::user("Go on.")]);
    let args =
        TruncateArgs { trigger: Some(Trigger::messages(5)), keep: Some(Size::Messages(2)), ..TruncateArgs::default() };
    let model = talker();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .summarization(SummarizationOptions::default().trigger(Trigger::never()).truncate_args(args))
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::messages(messages)).await.unwrap();
    let lengths = |message: &Message| -> Vec<usize> {
        let calls = message.as_assistant().unwrap().tool_calls();
        calls.map(|c| c.args.get("content").or(c.args.get("command")).unwrap().as_str().unwrap().len()).collect()
    };
    assert_eq!(lengths(model.requests()[0].messages.get(1).unwrap()), [43, 2000, 2001]);
    assert_eq!(lengths(outcome.messages().get(1).unwrap()), [2001, 2000, 2001]);
}

#[tokio::test]
async fn thinking_of_messages_before_the_cut_is_not_replayed_but_later_thinking_is() {
    let thinking = |text: &str| {
        let thought = Block::Reasoning(Reasoning { text: "hm".into(), native: None });
        let origin = Origin { api: "anthropic-messages".into(), provider: "anthropic".into(), model: "m".into() };
        let content = vec![thought, Block::text(text)];
        Message::Assistant(AssistantMessage { origin: Some(origin), ..AssistantMessage::new(content) })
    };
    let history = vec![
        Message::user("question 0"),
        thinking("answer 1"),
        Message::user("question 2"),
        thinking("answer 3"),
        Message::user("question 4"),
    ];
    let turns = [Turn::call("ls", json!({"path": "/"})).thinking("fresh"), Turn::text("Done.")];
    let model = model([Turn::text("A SUMMARY")], turns);
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(5, 2)).build().unwrap();
    agent.invoke(RunInput::messages(history)).await.unwrap();
    let (_, sent) = requests(&model);
    let thoughts = |request: &ModelRequest| {
        request.messages.iter().flat_map(|m| m.content().to_vec()).filter(|b| matches!(b, Block::Reasoning(_))).count()
    };
    assert_eq!(sent.iter().map(thoughts).collect::<Vec<_>>(), [0, 1]);
}

#[tokio::test]
async fn cache_marks_stay_on_their_messages() {
    let model = talker();
    let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(6, 3)).build().unwrap();
    agent.invoke(RunInput::messages(conversation("H A H A H A H"))).await.unwrap();
    let request = &requests(&model).1[0];
    let marked: Vec<String> =
        request.cache.messages.iter().map(|(at, _)| request.messages.get(*at).unwrap().text()).collect();
    assert_eq!(marked, ["question 4", "question 6"]);
}

#[tokio::test]
async fn a_summary_counts_towards_usage_but_is_not_emitted_as_an_answer() {
    let model = model([Turn::text("SECRET").usage(usage(100, 7))], [Turn::text("Done.").usage(usage(50, 5))]);
    let agent = DeepAgent::builder().model(model).summarization(by_messages(5, 2)).build().unwrap();
    let mut run = agent.run(RunInput::messages(conversation("H A H A H")));
    let (mut text, mut compacted) = (String::new(), None);
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::TextDelta { text: more, .. } => text.push_str(&more),
            EventKind::Middleware(MiddlewareEvent::ConversationCompacted { evicted, kept, .. }) => {
                compacted = Some((evicted, kept));
            }
            _ => {}
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(text, "Done.");
    assert_eq!(outcome.usage, usage(150, 12));
    assert_eq!(compacted, Some((3, 2)));
}

#[tokio::test]
async fn the_summary_request_can_share_the_conversations_prefix() {
    let turns = [Turn::text("## State\nOVER THE PREFIX"), Turn::text("Done.")];
    let model = deepagents::models::scripted::ScriptedModel::new(turns);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .summarization(by_messages(5, 2).prefix(CacheReuse::Always))
        .build()
        .unwrap();
    agent.invoke(RunInput::messages(conversation("H A H A H"))).await.unwrap();
    let sent = model.requests();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0].tools, sent[1].tools);
    assert_eq!(sent[0].system, sent[1].system);
    assert_eq!(texts(&sent[0])[..5], ["question 0", "answer 1", "question 2", "answer 3", "question 4"]);
    assert!(texts(&sent[1])[0].contains("OVER THE PREFIX"));
}

#[tokio::test]
async fn the_cached_prefix_is_reused_when_a_cache_is_reported_and_reuse_is_cheaper() {
    for (cached, over_prefix) in [(0, false), (30_000, true)] {
        let first = Usage { cache_read: cached, ..usage(30_500, 10) };
        let turns =
            [Turn::call("ls", json!({"path": "/"})).usage(first), Turn::text("## State\nSHORT"), Turn::text("Done.")];
        let model = deepagents::models::scripted::ScriptedModel::new(turns).with_profile(window(100_000));
        let options = SummarizationOptions::default().trigger(Trigger::tokens(30_000)).keep(Size::Messages(3));
        let agent = DeepAgent::builder().model(model.clone()).summarization(options).build().unwrap();
        let long = Message::user("word ".repeat(20_000));
        let mut run = agent.run(RunInput::messages([long, Message::assistant("Read."), Message::user("Go on.")]));
        let mut told = Vec::new();
        while let Some(event) = run.next().await {
            if let EventKind::Middleware(event) = event.kind {
                told.push(event);
            }
        }
        let MiddlewareEvent::ConversationCompacted { over_cached_prefix, .. } = told[0] else { panic!("{told:?}") };
        assert_eq!(over_cached_prefix, over_prefix);
        assert_eq!(model.requests()[1].tools.is_empty(), !over_prefix);
    }
}

#[tokio::test]
async fn an_answer_with_calls_is_not_a_summary_and_only_evicted_messages_are_resent() {
    let turns = [Turn::call("ls", json!({"path": "/"})), Turn::text("PLAIN"), Turn::text("Done.")];
    let model = deepagents::models::scripted::ScriptedModel::new(turns);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .summarization(by_messages(5, 2).prefix(CacheReuse::Always))
        .build()
        .unwrap();
    let outcome = agent.invoke(RunInput::messages(conversation("H A H A H"))).await.unwrap();
    assert_eq!(outcome.text(), "Done.");
    assert!(model.requests()[1].tools.is_empty());
    assert!(texts(&model.requests()[2])[0].contains("PLAIN"));
}

#[tokio::test]
async fn a_replaced_thread_does_not_use_its_old_summary() {
    use deepagents::channels::MessagesChannel;
    use deepagents::core::message::MessageOp;
    let model = talker();
    let agent = DeepAgent::builder()
        .model(model.clone())
        .journal(MemoryJournal::new())
        .summarization(by_messages(5, 2))
        .build()
        .unwrap();
    agent.invoke(RunInput::messages(conversation("H A H A H")).thread("t1")).await.unwrap();
    let anew =
        deepagents::Update::new::<MessagesChannel>(vec![MessageOp::RemoveAll, MessageOp::put("Something else.")]);
    agent.invoke(RunInput::messages([]).update(anew).thread("t1")).await.unwrap();
    assert_eq!(texts(model.requests().last().unwrap()), ["Something else."]);
}

#[tokio::test]
async fn the_kept_part_never_starts_with_orphaned_results() {
    let orphan =
        |id: &str| Message::Tool(deepagents::core::message::ToolMessage { call_id: id.into(), ..Default::default() });
    for keep in 1..6 {
        let mut history = conversation("H A H A2 H");
        history.insert(1, orphan("gone1"));
        history.insert(2, orphan("gone2"));
        let model = talker();
        let agent = DeepAgent::builder().model(model.clone()).summarization(by_messages(6, keep)).build().unwrap();
        agent.invoke(RunInput::messages(history)).await.unwrap();
        let (summaries, sent) = requests(&model);
        assert_eq!(summaries.len(), 1);
        deepagents::models::scripted::check_history(&sent[0].messages).unwrap();
        assert!(!texts(&sent[0]).iter().any(String::is_empty), "{:?}", texts(&sent[0]));
    }
}
