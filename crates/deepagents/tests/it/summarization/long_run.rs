//! A run of three hundred turns in a window of thirty thousand tokens.

use std::collections::BTreeSet;

use deepagents::middleware::todo::TodoPolicy;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::{DeepAgent, EventKind, MiddlewareEvent, RunInput};
use futures_util::StreamExt;

use super::*;
use crate::memory::files;

const TURNS: usize = 300;
const WINDOW: usize = 30_000;

/// Plans, files, results and text, a few hundred tokens per turn.
fn turn(n: usize) -> Turn {
    let filler = |what: &str| format!("{what} {n}: {}", "lorem ipsum dolor ".repeat(20 + n % 23));
    match n % 6 {
        0 => {
            let items: Vec<Value> =
                (0..4).map(|i| json!({"content": format!("Plan {} item {i}", n / 60), "status": if i == 0 { "in_progress" } else { "pending" }})).collect();
            if n.is_multiple_of(60) {
                Turn::call("write_todos", json!({"todos": items}))
            } else {
                Turn::call("ls", json!({"path": "/"}))
            }
        }
        1 => Turn::call("write_file", json!({"file_path": format!("/f{n}.txt"), "content": filler("content")})),
        2 => Turn::calls([("look", json!({"at": filler("left")})), ("look", json!({"at": filler("right")}))]),
        3 => Turn::call("look", json!({"at": filler("one")})).and_text(filler("I think")),
        4 => Turn::call("read_file", json!({"file_path": format!("/f{}.txt", n - 3)})),
        _ => Turn::call("look", json!({"at": n.to_string()})).thinking("Where was I?"),
    }
}

/// The characters of a request, with some overhead per message.
fn chars(request: &ModelRequest) -> usize {
    let mut chars = request.system_text().len();
    chars +=
        request.tools.iter().map(|t| t.name.len() + t.description.len() + t.schema.to_string().len()).sum::<usize>();
    for message in request.messages.iter() {
        chars += 16;
        chars += message
            .content()
            .iter()
            .map(|block| match block {
                Block::Text(text) => text.text.len(),
                Block::ToolCall(call) => call.name.len() + call.args.to_string().len(),
                Block::Reasoning(thought) => thought.text.len(),
                _ => 0,
            })
            .sum::<usize>();
    }
    chars
}

/// A provider that counts tokens.
#[derive(Clone, Copy)]
struct Provider {
    /// Characters per token, in tenths.
    token: usize,
    /// Whether it reports its count.
    reports: bool,
}

impl Provider {
    fn tokens(self, request: &ModelRequest) -> usize {
        chars(request) * 10 / self.token
    }
}

/// The prompt in the order in which it is sent.
fn prompt(request: &ModelRequest) -> String {
    let tools: String = request.tools.iter().map(|t| format!("{}{}{}\n", t.name, t.description, t.schema)).collect();
    let messages: String = request.messages.iter().map(|m| serde_json::to_string(m).unwrap() + "\n").collect();
    format!("{tools}\n{}\n{messages}", request.system_text())
}

fn common(a: &str, b: &str) -> usize {
    if b.starts_with(a) {
        return a.len();
    }
    a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count()
}

/// Plays the run with only the standard prompt. Returns how much of the total input repeated the previous request, in
/// percent. Requests after a compaction are included.
async fn play(provider: Provider) -> usize {
    let summary = |request: &ModelRequest| {
        let seen = texts(request).concat();
        let earlier = seen.contains("GOAL: the whole shelf");
        Turn::text(if earlier { "## State\nFurther on." } else { "## Goal\nGOAL: the whole shelf\n## State\nBegun." })
    };
    let answers = (0..TURNS).map(turn).chain([Turn::text("Done.")]).map(move |turn| {
        let counted = move |request: &ModelRequest| usage(provider.tokens(request) as u64, 200);
        if provider.reports { Turn::with(move |request| turn.clone().usage(counted(request))) } else { turn }
    });
    let model = ScriptedModel::rules()
        .when(|r| r.tools.is_empty(), (0..40).map(|_| Turn::with(summary)))
        .otherwise(answers.collect::<Vec<_>>())
        .build()
        .with_profile(window(WINDOW as u64));
    let look = deepagents::json_tool("look", "Looks.", json!({"type": "object"}), |args: Value, _| {
        std::future::ready(Ok(format!("seen {}", args["at"].as_str().unwrap_or_default())))
    });
    let agent = DeepAgent::builder()
        .model(model.clone())
        .tool(look)
        .todos(TodoPolicy::off())
        .memory(["/AGENTS.md"])
        .build()
        .unwrap();
    let input = RunInput::new("Build the whole shelf.").update(files([("/AGENTS.md", "Use oak.")]));
    let mut run = agent.run(input);
    // The numbers of the requests before which the view changed.
    let (mut asked, mut changed) = (0, BTreeSet::new());
    while let Some(event) = run.next().await {
        match event.kind {
            EventKind::Lagged { .. } => panic!("the reader keeps up: {event:?}"),
            EventKind::ModelStarted { .. } => asked += 1,
            EventKind::Middleware(
                MiddlewareEvent::ConversationCompacted { .. } | MiddlewareEvent::ArgumentsTruncated { .. },
            ) => {
                changed.insert(asked);
            }
            EventKind::Middleware(event) => assert!(matches!(event, MiddlewareEvent::MemoryLoaded { .. }), "{event:?}"),
            _ => {}
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.text(), "Done.");

    let (summaries, sent) = requests(&model);
    assert_eq!(sent.len(), TURNS + 1);
    assert!((3..20).contains(&summaries.len()), "{} summaries", summaries.len());
    for (n, request) in sent.iter().enumerate() {
        let tokens = provider.tokens(request);
        assert!(tokens <= WINDOW, "request {n} has {tokens} tokens");
        check_history(&request.messages).unwrap();
        let shown = everything(request);
        assert!(shown.contains("Build the whole shelf."), "request {n} lacks the last words of the person");
        assert!(shown.contains("Use oak."), "request {n} lacks the memory");
        if n > 0 {
            let plan = (n - 1) / 60;
            for item in 0..4 {
                assert!(shown.contains(&format!("Plan {plan} item {item}")), "request {n} lacks item {item}");
            }
        }
    }
    // Facts from the first summary are in the last request.
    assert!(everything(sent.last().unwrap()).contains("GOAL: the whole shelf"));

    // Every message no longer shown is in the history file.
    let stored = history(&outcome);
    let shown: BTreeSet<&str> = sent.last().unwrap().messages.iter().map(|m| m.id()).collect();
    let mut evicted = 0;
    for message in outcome.messages().iter().filter(|m| !shown.contains(m.id())) {
        let text = message.text();
        if text != outcome.text() {
            evicted += 1;
            assert!(stored.contains(&text), "not in the history: {text}");
        }
        for call in message.as_assistant().into_iter().flat_map(|a| a.tool_calls()) {
            assert!(stored.contains(&call.args.to_string()), "not in the history: {}", call.args);
        }
    }
    assert!(evicted > 400, "{evicted}");

    // Without compaction, a request starts with the whole previous one; after a compaction, with the same system prompt
    // and tools.
    let prompts: Vec<String> = sent.iter().map(prompt).collect();
    let fixed = common(&prompts[0], prompts.last().unwrap());
    assert!(fixed > sent[0].system_text().len(), "{fixed} bytes are fixed");
    let (mut all, mut cached) = (0, 0);
    for n in 1..prompts.len() {
        let same = common(&prompts[n - 1], &prompts[n]);
        let wanted = if changed.contains(&n) { fixed } else { prompts[n - 1].len() };
        assert!(same >= wanted, "request {n} has {same} bytes of the one before instead of {wanted}");
        (all, cached) = (all + prompts[n].len(), cached + same);
    }
    assert!(changed.len() < 40, "{changed:?}");
    cached * 100 / all
}

#[tokio::test]
async fn three_hundred_turns_stay_within_the_window_and_lose_nothing() {
    let cached = play(Provider { token: 40, reports: false }).await;
    assert!(cached >= 95, "{cached} %");
}

#[tokio::test]
async fn three_hundred_turns_stay_within_the_window_when_the_provider_reports_its_counts() {
    let cached = play(Provider { token: 40, reports: true }).await;
    assert!(cached >= 95, "{cached} %");
}

#[tokio::test]
async fn three_hundred_turns_stay_within_the_window_when_estimates_are_too_low() {
    let cached = play(Provider { token: 28, reports: true }).await;
    assert!(cached >= 95, "{cached} %");
}
