//! Approval of calls by a person.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use deepagents::core::env::{Clock, Timestamp};
use deepagents::core::interrupt::DecisionError;
use deepagents::core::journal::{Claim, Journal, LogPosition, Record};
use deepagents::fs::permissions::{AccessMode, Operation, Permissions, Rule};
use deepagents::middleware::HumanInTheLoop;
use deepagents::middleware::filesystem::FilesystemOptions;
use deepagents::models::scripted::{ScriptedModel, Turn, check_history};
use deepagents::profile::{ProfileConfig, Profiles};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Decision, DecisionKind, DeepAgent, DeepAgentBuilder, Error, EventKind, FinishReason, Interrupt, InterruptOn,
    InterruptPolicy, MemoryJournal, Outcome, RunError, RunInput, after_model, json_tool, wrap_tool_call,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::results;

/// A journal, a model and a tool that records its calls, shared by several agents as by processes.
#[derive(Clone)]
pub(crate) struct Office {
    journal: Arc<MemoryJournal>,
    model: ScriptedModel,
    made: Arc<Mutex<Vec<String>>>,
    now: Arc<AtomicU32>,
}

#[derive(Clone)]
struct Minutes(Arc<AtomicU32>);

impl Clock for Minutes {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(i64::from(self.0.load(Ordering::SeqCst)) * 60).unwrap()
    }
}

impl Office {
    pub(crate) fn new(turns: impl IntoIterator<Item = Turn>) -> Self {
        let model = ScriptedModel::new(turns);
        Self { journal: Arc::default(), model, made: Arc::default(), now: Arc::default() }
    }

    pub(crate) fn builder(&self) -> DeepAgentBuilder {
        ["send", "read", "other"].into_iter().fold(
            DeepAgent::builder()
                .model(self.model.clone())
                .clock(Minutes(self.now.clone()))
                .journal(self.journal.clone()),
            |builder, name| {
                let made = self.made.clone();
                let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
                builder.tool(json_tool(name, "A tool.", schema, move |args: Value, _cx| {
                    made.lock().unwrap().push(format!("{name} {}", args["n"]));
                    async move { Ok(format!("{name} {}", args["n"])) }
                }))
            },
        )
    }

    /// Builds a new agent.
    pub(crate) fn agent(&self) -> DeepAgent {
        self.builder().interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any())).build().unwrap()
    }

    pub(crate) async fn go(&self) -> Outcome {
        let outcome = self.agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
        assert_eq!(outcome.stop, FinishReason::Interrupted);
        outcome
    }

    pub(crate) async fn answer(&self, answers: &[(&str, Decision)]) -> Result<Outcome, Box<RunError>> {
        let input = RunInput::resume("t");
        let input = answers.iter().fold(input, |input, (id, decision)| input.decide(*id, decision.clone()));
        self.agent().invoke(input).await
    }

    /// What a request tells the model.
    pub(crate) fn told(&self, request: usize) -> String {
        serde_json::to_string(&self.model.requests()[request].messages).unwrap()
    }

    pub(crate) fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().clone()
    }

    pub(crate) async fn records(&self) -> Vec<Record> {
        let entries = self.journal.read("t", 0..LogPosition::MAX).await.unwrap();
        entries.into_iter().map(|entry| entry.record).collect()
    }
}

pub(crate) fn send(n: u32) -> (&'static str, Value) {
    ("send", json!({"n": n}))
}

pub(crate) fn read(n: u32) -> (&'static str, Value) {
    ("read", json!({"n": n}))
}

#[allow(clippy::needless_pass_by_value, reason = "`json!` gives values")]
pub(crate) fn edit(name: &str, args: Value) -> Decision {
    Decision::from_json(json!({"type": "edit", "edited_action": {"name": name, "args": args}}), "").unwrap()
}

fn reject(message: &str) -> Decision {
    Decision::Reject { message: Some(message.to_owned()) }
}

fn respond(message: &str) -> Decision {
    Decision::Respond { message: message.to_owned() }
}

fn ids(outcome: &Outcome) -> Vec<String> {
    outcome.action_requests().into_iter().map(|q| q.id).collect()
}

pub(crate) fn refused(ended: Result<Outcome, Box<RunError>>) -> DecisionError {
    match &*ended.unwrap_err().error {
        Error::Answer(error) => error.clone(),
        other => panic!("another error: {other}"),
    }
}

#[tokio::test]
async fn all_gated_calls_of_a_turn_are_asked_about_before_any_call_runs() {
    let office = Office::new([Turn::calls([read(1), send(2), send(3)]), Turn::text("Done.")]);
    let waiting = office.go().await;
    assert_eq!(office.made(), [""; 0], "not even the call that nobody is asked about");
    assert_eq!(ids(&waiting), ["0.1", "0.2"]);
    let question = &waiting.action_requests()[0];
    assert_eq!((question.tool.as_str(), &question.args), ("send", &json!({"n": 2})));
    assert!(question.text.contains("send") && question.text.contains(r#"{"n":2}"#), "{}", question.text);
    let done = office.answer(&[("0.2", Decision::Approve), ("0.1", reject("too early"))]).await.unwrap();
    assert_eq!((done.stop.clone(), done.text()), (FinishReason::Done, "Done.".to_owned()));
    let results = results(&done);
    assert_eq!(results[0], ("read 1".to_owned(), false));
    assert!(results[1].1 && results[1].0.contains("rejected the call of send: too early"), "{results:?}");
    assert_eq!(results[2], ("send 3".to_owned(), false));
    check_history(done.messages()).unwrap();
    assert!(done.action_requests().is_empty());
}

#[tokio::test]
async fn questions_can_be_answered_singly_in_any_order_by_rebuilt_agents() {
    let office = Office::new([Turn::calls([send(1), send(2), send(3)]), Turn::text("Done.")]);
    office.go().await;
    let second = office.answer(&[("0.2", Decision::Approve)]).await.unwrap();
    assert_eq!(
        (second.stop.clone(), ids(&second)),
        (FinishReason::Interrupted, vec!["0.0".to_owned(), "0.1".to_owned()])
    );
    let third = office.answer(&[("0.0", Decision::Approve)]).await.unwrap();
    assert_eq!(ids(&third), ["0.1"]);
    assert_eq!(office.made(), [""; 0], "no call runs before all are decided");
    let none = office.answer(&[]).await.unwrap();
    assert_eq!(none.stop, FinishReason::Interrupted, "resuming without an answer goes on waiting");
    let done = office.answer(&[("0.1", Decision::Approve)]).await.unwrap();
    assert_eq!(done.text(), "Done.");
    assert_eq!(results(&done).iter().map(|r| r.0.as_str()).collect::<Vec<_>>(), ["send 1", "send 2", "send 3"]);
    assert_eq!(office.made().len(), 3);
}

#[tokio::test]
async fn a_waiting_thread_survives_serialization() {
    let office = Office::new([Turn::calls([send(1), read(2)]), Turn::text("Done.")]);
    office.go().await;
    let json = serde_json::to_string(&office.records().await).unwrap();
    let journal = Arc::new(MemoryJournal::new());
    let fence = journal.claim("t", Claim::new("copy", Duration::from_secs(60))).await.unwrap();
    let records: Vec<Record> = serde_json::from_str(&json).unwrap();
    journal.append("t", fence, 0, records).await.unwrap();
    journal.release("t", fence).await.unwrap();
    let copy = Office { journal, ..office };
    let done = copy.answer(&[("0.0", edit("send", json!({"n": 7})))]).await.unwrap();
    assert_eq!(done.text(), "Done.");
    let made: std::collections::BTreeSet<String> = copy.made().into_iter().collect();
    assert_eq!(made.into_iter().collect::<Vec<_>>(), ["read 2", "send 7"]);
}

#[tokio::test]
async fn an_edited_call_replaces_the_models_which_is_kept_with_a_note() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    office.go().await;
    let done = office
        .answer(&[("0.0", edit("send", json!({"n": 9}))), ("0.1", edit("other", json!({"n": 8})))])
        .await
        .unwrap();
    let mut made = office.made();
    made.sort();
    assert_eq!(made, ["other 8", "send 9"]);
    let answer = done.messages().iter().find_map(|m| m.as_assistant().cloned()).unwrap();
    assert!(format!("{answer:?}").contains("Number(1)"), "the model's own call stays as it is");
    let results = results(&done);
    for (result, words) in results.iter().zip([["send with {\"n\":9}", "send 9"], ["other with {\"n\":8}", "other 8"]])
    {
        assert!(!result.1 && words.iter().all(|word| result.0.contains(word)), "{result:?}");
        assert!(result.0.contains("on purpose"), "{result:?}");
    }
}

#[tokio::test]
async fn an_edited_call_is_reported_as_executed_by_the_run_and_its_log() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    office.go().await;
    let input = RunInput::resume("t").decide("0.0", edit("send", json!({"n": 9}))).decide("0.1", Decision::Approve);
    let agent = office.agent();
    let began = |kind: &EventKind| match kind {
        EventKind::ToolStarted { name, args, .. } => Some(format!("{name} {}", args["n"])),
        _ => None,
    };
    let told: Vec<_> = agent.run(input).collect().await;
    let told: Vec<String> = told.iter().filter_map(|event| began(&event.kind)).collect();
    assert_eq!(told, ["send 9", "send 2"]);
    let read = agent.threads().unwrap().events("t", 0).await.unwrap();
    let read: Vec<String> = read.iter().filter_map(|event| began(&event.kind)).collect();
    assert_eq!(read, told);
}

#[tokio::test]
async fn a_response_is_the_result_and_the_tool_does_not_run() {
    let office = Office::new([Turn::calls([send(1), read(2)]), Turn::text("Done.")]);
    office.go().await;
    let done = office.answer(&[("0.0", respond("I sent it myself."))]).await.unwrap();
    assert_eq!(results(&done), [("I sent it myself.".to_owned(), false), ("read 2".to_owned(), false)]);
    assert_eq!(office.made(), ["read 2"]);
}

#[tokio::test]
async fn a_persons_text_in_place_of_a_result_is_shown_in_full() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    let files = FilesystemOptions { result_tokens: Some(10), ..FilesystemOptions::default() };
    let agent = || {
        let asked = InterruptPolicy::new().before("send", InterruptOn::any());
        office.builder().interrupt_on(asked).files(files.clone()).build().unwrap()
    };
    agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let words = "word ".repeat(100);
    let input = RunInput::resume("t").decide("0.0", respond(&words)).decide("0.1", reject(&words));
    let results = results(&agent().invoke(input).await.unwrap());
    assert_eq!(results[0], (words.clone(), false));
    assert!(results[1].1 && results[1].0.contains(&words), "{results:?}");
}

#[tokio::test]
async fn invalid_answers_are_rejected_before_storage_and_leave_the_question_open() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    let only = InterruptOn::only([DecisionKind::Approve, DecisionKind::Edit]);
    let agent = || office.builder().interrupt_on(InterruptPolicy::new().before("send", only.clone())).build().unwrap();
    agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let before = office.records().await.len();
    let wrong = [
        ("9.9", Decision::Approve, "no open question is named `9.9`; the open ones are: 0.0, 0.1"),
        ("0.0", reject("no"), "question `0.0` cannot be answered with reject, only with approve, edit"),
        ("0.0", edit("send", json!([1])), "question `0.0`: the arguments of an edited call must be an object"),
    ];
    for (id, decision, words) in wrong {
        // If one of several decisions is invalid, none is stored.
        let input = RunInput::resume("t").decide("0.1", Decision::Approve).decide(id, decision);
        assert_eq!(refused(agent().invoke(input).await).to_string(), words);
    }
    let unknown = RunInput::resume("t").decide("0.0", edit("nope", json!({})));
    let DecisionError::UnknownTool { tool, known, .. } = refused(agent().invoke(unknown).await) else { panic!() };
    assert!(tool == "nope" && known.contains(&"send".to_owned()), "{known:?}");
    let twice = RunInput::resume("t").decide("0.0", Decision::Approve).decide("0.0", Decision::Approve);
    assert_eq!(refused(agent().invoke(twice).await), DecisionError::Answered { id: "0.0".to_owned() });
    assert_eq!(office.records().await.len(), before, "nothing was stored");
    agent().invoke(RunInput::resume("t").decide("0.0", Decision::Approve)).await.unwrap();
    let again = RunInput::resume("t").decide("0.0", Decision::Approve);
    assert_eq!(refused(agent().invoke(again).await), DecisionError::Answered { id: "0.0".to_owned() });
    let done = agent().invoke(RunInput::resume("t").decide("0.1", Decision::Approve)).await.unwrap();
    assert_eq!(done.text(), "Done.");
}

#[tokio::test]
async fn an_answer_given_twice_takes_effect_once_and_the_second_is_an_error() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    office.answer(&[("0.0", Decision::Approve)]).await.unwrap();
    let second = refused(office.answer(&[("0.0", Decision::Approve)]).await);
    assert_eq!(second, DecisionError::Unknown { id: "0.0".to_owned(), open: Vec::new() });
    assert_eq!(office.made(), ["send 1"]);
    assert_eq!(office.agent().state("t").await.unwrap().messages().len(), 4);
}

#[tokio::test]
async fn decisions_together_with_a_new_message_are_rejected() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let input = RunInput::new("And?").thread("t").decide("0.0", Decision::Approve);
    let error = office.agent().invoke(input).await.unwrap_err().to_string();
    assert!(error.contains("RunInput::resume"), "{error}");
    assert_eq!(office.answer(&[("0.0", Decision::Approve)]).await.unwrap().text(), "Done.");
}

#[tokio::test]
async fn an_expired_question_counts_as_rejected_and_accepts_no_answer() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    let ask = InterruptOn::only([DecisionKind::Approve]).expires_after(Duration::from_secs(600));
    let agent = || office.builder().interrupt_on(InterruptPolicy::new().before("send", ask.clone())).build().unwrap();
    let waiting = agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(waiting.action_requests()[0].expires_at.as_deref(), Some("1970-01-01T00:10:00Z"));
    office.now.store(9, Ordering::SeqCst);
    let still = agent().invoke(RunInput::resume("t").decide("0.0", Decision::Approve)).await.unwrap();
    assert_eq!(still.stop, FinishReason::Interrupted);
    office.now.store(10, Ordering::SeqCst);
    let late = RunInput::resume("t").decide("0.1", Decision::Approve);
    assert_eq!(refused(agent().invoke(late).await), DecisionError::Expired { id: "0.1".to_owned() });
    let done = agent().invoke(RunInput::resume("t")).await.unwrap();
    let results = results(&done);
    assert_eq!(results[0], ("send 1".to_owned(), false));
    assert!(results[1].1 && results[1].0.contains("nobody decided in time"), "{results:?}");
}

#[tokio::test]
async fn a_new_message_continues_without_answers_and_drops_the_questions() {
    let office = Office::new([Turn::calls([read(1), send(2)]), Turn::text("Understood.")]);
    office.go().await;
    let next = office.agent().invoke(RunInput::new("Never mind.").thread("t")).await.unwrap();
    assert_eq!(next.text(), "Understood.");
    assert!(next.action_requests().is_empty());
    check_history(next.messages()).unwrap();
    for (text, error) in results(&next) {
        assert!(error && text.contains("was never made: the conversation went on before it was decided on"), "{text}");
    }
    assert_eq!(office.made(), [""; 0]);
    assert!(matches!(refused(office.answer(&[("0.1", Decision::Approve)]).await), DecisionError::Unknown { .. }));
}

#[tokio::test]
async fn run_events_report_each_question_once_and_that_the_run_waits() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    let mut run = office.agent().run(RunInput::new("Go.").thread("t"));
    let mut asked = Vec::new();
    let mut last = None;
    while let Some(event) = run.next().await {
        if let EventKind::ActionRequested { question } = &event.kind {
            asked.push(question.id.clone());
        }
        last = Some(event.kind);
    }
    assert_eq!(asked, ["0.0", "0.1"]);
    assert!(matches!(last, Some(EventKind::RunFinished { stop: FinishReason::Interrupted, .. })), "{last:?}");
}

#[tokio::test]
async fn a_run_without_a_thread_fails_with_advice_instead_of_waiting() {
    let office = Office::new([Turn::calls([read(1), send(2)])]);
    let error = office.agent().invoke("Go.").await.unwrap_err();
    assert!(error.to_string().contains("the run has no thread"), "{error}");
    check_history(error.state.messages()).unwrap();
    assert_eq!(office.made(), [""; 0]);
}

#[tokio::test]
async fn approvals_without_a_journal_decisions_or_a_unique_name_fail_the_build() {
    let built = |builder: DeepAgentBuilder| builder.build().unwrap_err().to_string();
    let bare = || DeepAgent::builder().model(ScriptedModel::new([]));
    let send = |ask| InterruptPolicy::new().before("send", ask);
    assert!(built(bare().interrupt_on(send(InterruptOn::any()))).contains(".journal("));
    let kept = || bare().journal(MemoryJournal::new());
    assert!(
        built(kept().interrupt_on(send(InterruptOn::only([]))))
            .contains("no decision is allowed about calls of `send`")
    );
    struct Namesake;
    impl deepagents::Middleware for Namesake {
        fn name(&self) -> &str {
            "HumanInTheLoop"
        }
    }
    assert!(kept().middleware(Namesake).build().is_ok(), "alone it is the user's way to ask");
    let error = built(kept().middleware(Namesake).interrupt_on(send(InterruptOn::any())));
    assert!(error.contains("HumanInTheLoop"), "{error}");
}

#[tokio::test]
async fn a_custom_human_in_the_loop_applies_alongside_interrupt_on() {
    let office = Office::new([Turn::calls([send(1), read(2)]), Turn::text("Done.")]);
    let own = HumanInTheLoop::new(InterruptPolicy::new().before("read", InterruptOn::any()));
    let agent = office
        .builder()
        .middleware(own)
        .interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()))
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["0.0", "0.1"]);
}

#[tokio::test]
async fn only_calls_matching_the_condition_are_asked_about_with_the_given_text() {
    let office = Office::new([Turn::calls([send(1), send(50)]), Turn::text("Done.")]);
    let large = InterruptOn::any()
        .when(|call, _| call.args["n"].as_u64().is_some_and(|n| n > 10))
        .describe(|call, cx| format!("{} sends {}", cx.agent_name(), call.args["n"]));
    let agent =
        office.builder().name("clerk").interrupt_on(InterruptPolicy::new().before("send", large)).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["0.1"]);
    assert_eq!(waiting.action_requests()[0].text, "clerk sends 50");
}

#[tokio::test]
async fn the_formats_of_other_implementations_are_written_and_read() {
    let office = Office::new([Turn::calls([send(1), send(2), send(3), send(4)]), Turn::text("Done.")]);
    let waiting = office.go().await;
    let [pause] = Interrupt::group(waiting.action_requests()).try_into().unwrap();
    let json = pause.to_json();
    assert_eq!(json["action_requests"][1]["name"], "send");
    assert_eq!(json["action_requests"][1]["args"], json!({"n": 2}));
    assert_eq!(
        json["review_configs"][0],
        json!({"action_name": "send", "allowed_decisions": ["approve", "edit", "reject", "respond"]})
    );
    let short = pause.decisions(vec![json!({"type": "accept"})]).unwrap_err();
    assert_eq!(short, DecisionError::Count { given: 1, open: 4 });
    let given = vec![
        json!({"type": "accept"}),
        json!({"type": "edit", "args": {"n": 20}}),
        json!({"type": "ignore"}),
        json!({"type": "response", "message": "no need"}),
    ];
    let answers = pause.decisions(given).unwrap();
    let input = answers.into_iter().fold(RunInput::resume("t"), |input, (id, decision)| input.decide(id, decision));
    let done = office.agent().invoke(input).await.unwrap();
    let results = results(&done);
    assert_eq!(results[0].0, "send 1");
    assert!(results[1].0.ends_with("send 20"), "{results:?}");
    assert!(results[2].1, "{results:?}");
    assert_eq!(results[3].0, "no need");
    let wrong = [json!({"type": "perhaps"}), json!({"type": "edit"}), json!({"type": "respond"}), json!("approve")];
    for wrong in wrong {
        assert!(matches!(Decision::from_json(wrong.clone(), "send"), Err(DecisionError::Shape(_))), "{wrong}");
    }
    let written = serde_json::to_value(edit("send", json!({"n": 1}))).unwrap();
    assert_eq!(written, json!({"type": "edit", "edited_action": {"name": "send", "args": {"n": 1}}}));
}

#[tokio::test]
async fn a_call_answered_by_a_later_hook_is_not_asked_about() {
    let office = Office::new([Turn::calls([send(1)]), Turn::calls([read(2)]), Turn::text("Done.")]);
    let answers = after_model(|cx| async move {
        let open = cx.open_calls().into_iter().find(|(_, call)| call.name == "send");
        Ok(match open {
            Some((_, call)) => deepagents::HookOutput::update(deepagents::Update::message(deepagents::Message::Tool(
                deepagents::core::message::ToolMessage::error(&call.id, &call.name, "not today"),
            ))),
            None => deepagents::HookOutput::next(),
        })
    });
    let gate = InterruptPolicy::new().before("send", InterruptOn::any());
    let agent = office.builder().middleware(answers).interrupt_on(gate).build().unwrap();
    let done = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!((done.stop, office.made()), (FinishReason::Done, vec!["read 2".to_owned()]));
}

#[tokio::test]
async fn a_gated_call_not_made_by_the_model_is_asked_about_in_its_turn() {
    use deepagents::core::message::{AssistantMessage, Block, ToolCall};
    let office = Office::new([Turn::text("Done.")]);
    let call = ToolCall { id: "c1".into(), name: "send".into(), args: json!({"n": 1}), native: None };
    let mut answer = AssistantMessage::default();
    answer.content.push(Block::ToolCall(call));
    let gate = InterruptPolicy::new().before("send", InterruptOn::any());
    let build = || {
        let straight = deepagents::before_agent(|cx| async move {
            let open = cx.messages().last().is_some_and(|m| m.as_assistant().is_some());
            Ok(if open {
                deepagents::HookOutput::go(deepagents::JumpTo::Tools)
            } else {
                deepagents::HookOutput::next()
            })
        });
        office.builder().without("PatchToolCalls").middleware(straight).interrupt_on(gate.clone()).build().unwrap()
    };
    let given = RunInput::messages([deepagents::Message::user("Go."), deepagents::Message::Assistant(answer)]);
    let waiting = build().invoke(given.thread("t")).await.unwrap();
    assert_eq!((waiting.stop.clone(), office.made().len()), (FinishReason::Interrupted, 0));
    let id = ids(&waiting).remove(0);
    let done = build().invoke(RunInput::resume("t").decide(id, Decision::Approve)).await.unwrap();
    assert_eq!((done.text(), office.made()), ("Done.".to_owned(), vec!["send 1".to_owned()]));
}

#[tokio::test]
async fn a_user_tool_wrapper_sees_gated_calls_only_after_the_decision() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    let seen: Arc<AtomicU32> = Arc::default();
    let agent = || {
        let seen = seen.clone();
        let counts = wrap_tool_call(move |request, next| {
            seen.fetch_add(1, Ordering::SeqCst);
            async move { next.run(request).await }
        });
        let gate = InterruptPolicy::new().before("send", InterruptOn::any());
        office.builder().middleware(counts).interrupt_on(gate).build().unwrap()
    };
    agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    agent().invoke(RunInput::resume("t").decide("0.0", Decision::Approve)).await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_answer_stays_valid_when_the_thread_restarts_from_an_earlier_position() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Sent."), Turn::text("Not sent.")]);
    office.go().await;
    let at = office.records().await.len() as LogPosition;
    office.answer(&[("0.0", Decision::Approve)]).await.unwrap();
    assert_eq!(office.made(), ["send 1"]);
    // The calls of the new branch have other IDs.
    let back = office.agent().invoke(RunInput::resume("t").at(at)).await.unwrap();
    assert_eq!(back.stop, FinishReason::Interrupted);
    let id = ids(&back).remove(0);
    assert_ne!(id, "0.0");
    let done = office.answer(&[(&id, reject("changed my mind"))]).await.unwrap();
    assert_eq!((done.text(), office.made()), ("Not sent.".to_owned(), vec!["send 1".to_owned()]));
    assert!(results(&done)[0].0.contains("changed my mind"), "{:?}", results(&done));
}

#[tokio::test]
async fn cancelling_a_run_resumed_by_an_answer_leaves_a_whole_history() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Never.").delay(Duration::from_secs(3600))]);
    office.go().await;
    let mut run = office.agent().run(RunInput::resume("t").decide("0.0", Decision::Approve));
    while let Some(event) = run.next().await {
        if matches!(event.kind, EventKind::ToolFinished { .. }) {
            run.cancel();
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.stop, FinishReason::Cancelled);
    check_history(outcome.messages()).unwrap();
    assert!(outcome.action_requests().is_empty());
}

fn asking_to(operation: Operation, path: &str) -> Permissions {
    Permissions::new([Rule::new(AccessMode::Ask, [path]).only([operation])]).unwrap()
}

#[test]
fn human_in_the_loop_cannot_be_removed_while_something_needs_approval() {
    let asked = || Office::new([]).builder().interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()));
    let ruled = || Office::new([]).builder().permissions(asking_to(Operation::Write, "/**"));
    let own = HumanInTheLoop::new(InterruptPolicy::new().before("send", InterruptOn::any()));
    let profile = ProfileConfig { excluded_middleware: ["HumanInTheLoop".into()].into(), ..ProfileConfig::default() };
    for (builder, calls) in [
        (asked().without("HumanInTheLoop"), "calls of send"),
        (ruled().without("HumanInTheLoop"), "calls of apply_patch, delete, edit_file, write_file"),
        (Office::new([]).builder().middleware(own).without("HumanInTheLoop"), "calls of send"),
        (asked().profile(profile.clone()), "calls of send"),
        (ruled().profile(profile.clone()), "calls of apply_patch, delete, edit_file, write_file"),
    ] {
        let error = builder.build().unwrap_err().to_string();
        assert!(error.contains("nobody would be asked") && error.contains(calls), "{error}");
    }
    assert!(Office::new([]).builder().profile(profile).build().is_ok(), "nothing is asked about");
    // The same for a subagent with a stricter policy than its parent.
    let strict =
        SubAgentSpec::new("strict", "S.").interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()));
    let profiles = || {
        let mut profiles = Profiles::empty();
        let excluded = ProfileConfig { excluded_middleware: ["HumanInTheLoop".into()].into(), ..Default::default() };
        profiles.register("scripted", excluded).unwrap();
        profiles
    };
    let error = Office::new([]).builder().profiles(profiles()).sub_agent(strict).build().unwrap_err().to_string();
    assert!(error.contains("`strict`") && error.contains("nobody would be asked"), "{error}");
}

#[tokio::test]
async fn a_call_a_rule_wants_approved_waits_and_follows_the_decision() {
    let write = |path: &str| ("write_file", json!({"file_path": path, "content": "x"}));
    let office = Office::new([
        Turn::calls([write("/safe.txt"), write("/secret/a.txt"), write("/secret/b.txt")]),
        Turn::text("Done."),
    ]);
    let agent = || office.builder().permissions(asking_to(Operation::Write, "/secret/**")).build().unwrap();
    let waiting = agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["0.1", "0.2"]);
    let input = RunInput::resume("t").decide("0.1", Decision::Approve).decide("0.2", reject("keep out"));
    let done = agent().invoke(input).await.unwrap();
    let results = results(&done);
    assert_eq!(results[0], ("Wrote /safe.txt".to_owned(), false));
    assert_eq!(results[1], ("Wrote /secret/a.txt".to_owned(), false));
    assert!(results[2].1 && results[2].0.contains("keep out"), "{results:?}");
}

#[tokio::test]
async fn a_tool_marked_never_is_not_asked_about_whatever_the_rules_say() {
    let write = ("write_file", json!({"file_path": "/secret/a.txt", "content": "x"}));
    let delete = ("delete", json!({"file_path": "/secret/b.txt"}));
    for (approvals, asked) in [
        (InterruptPolicy::new(), vec!["0.0", "0.1"]),
        (InterruptPolicy::new().never("write_file"), vec!["0.1"]),
        (InterruptPolicy::new().never("write_file").before("write_file", InterruptOn::any()), vec!["0.0", "0.1"]),
        (InterruptPolicy::new().before("write_file", InterruptOn::any()).never("write_file"), vec!["0.0", "0.1"]),
    ] {
        let office = Office::new([Turn::calls([write.clone(), delete.clone()]), Turn::text("Done.")]);
        let rules = asking_to(Operation::Write, "/secret/**");
        let agent = office.builder().interrupt_on(approvals).permissions(rules).build().unwrap();
        let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
        assert_eq!(ids(&waiting), asked);
    }
}

#[tokio::test]
async fn read_calls_that_may_reach_a_rules_files_are_asked_about() {
    let calls = [
        ("read_file", json!({"file_path": "/sec/a"}), true),
        ("read_file", json!({"file_path": "sec//a"}), true),
        ("read_file", json!({"file_path": "/pub/a"}), false),
        ("read_file", json!({"file_path": "/pub/../sec/a"}), false),
        ("ls", json!({"path": "."}), true),
        ("ls", json!({"path": "/pub"}), false),
        ("grep", json!({"pattern": "x"}), true),
        ("grep", json!({"pattern": "x", "path": "/pub"}), false),
        ("glob", json!({"pattern": "*"}), true),
        ("glob", json!({"pattern": "*", "path": "/pub"}), false),
        ("glob", json!({"pattern": "/sec/**", "path": "/pub"}), true),
        ("glob", json!({"pattern": "/{pub,sec}/*", "path": "/pub"}), true),
        ("glob", json!({"pattern": "/pub/*", "path": "/pub"}), false),
        ("glob", json!({"pattern": "sec/**", "path": "/pub"}), false),
    ];
    let mut model_calls: Vec<(&str, Value)> = vec![("write_file", json!({"file_path": "/sec/a", "content": "KEY"}))];
    model_calls.extend(calls.iter().map(|(name, args, _)| (*name, args.clone())));
    let office = Office::new([Turn::calls(model_calls), Turn::text("Done.")]);
    let agent = office.builder().permissions(asking_to(Operation::Read, "/sec/**")).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let expected: Vec<String> =
        calls.iter().enumerate().filter(|(_, call)| call.2).map(|(at, _)| format!("0.{}", at + 1)).collect();
    assert_eq!(ids(&waiting), expected);
    let answers = ids(&waiting).into_iter().fold(RunInput::resume("t"), |input, id| input.decide(id, reject("no")));
    let done = agent.invoke(answers).await.unwrap();
    for ((text, _), (name, args, asked)) in results(&done).iter().skip(1).zip(&calls) {
        assert!(*asked || !text.contains("KEY") && !text.contains("/sec/a\n"), "{name} {args}: {text}");
    }
}

#[tokio::test]
async fn a_user_middleware_can_ask_through_the_call_context() {
    let office = Office::new([Turn::calls([send(1), read(2)]), Turn::text("Done.")]);
    let agent = || {
        let asks = wrap_tool_call(|request, next| async move {
            if request.call.name != "send" {
                return next.run(request).await;
            }
            match request.cx.interrupt("Really?", [DecisionKind::Approve, DecisionKind::Reject])? {
                Decision::Approve => next.run(request).await,
                _ => Ok(deepagents::ToolResponse::error("no")),
            }
        });
        office.builder().middleware(asks).build().unwrap()
    };
    let waiting = agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!((waiting.stop.clone(), office.made()), (FinishReason::Interrupted, vec!["read 2".to_owned()]));
    assert_eq!(waiting.action_requests()[0].text, "Really?");
    let id = ids(&waiting).remove(0);
    let done = agent().invoke(RunInput::resume("t").decide(id, Decision::Approve)).await.unwrap();
    assert_eq!((done.text(), office.made()), ("Done.".to_owned(), vec!["read 2".to_owned(), "send 1".to_owned()]));
}

#[tokio::test]
async fn an_expired_question_of_one_sub_agent_leaves_the_others_open() {
    let office = Office {
        model: ScriptedModel::rules()
            .when(
                |r| r.messages.get(0).is_some_and(|m| m.text() == "A."),
                [Turn::calls([send(1)]), Turn::text("A done.")],
            )
            .when(
                |r| r.messages.get(0).is_some_and(|m| m.text() == "B."),
                [Turn::calls([read(2)]), Turn::text("B done.")],
            )
            .otherwise([
                Turn::calls(
                    ["A.", "B."].map(|text| ("task", json!({"description": text, "subagent_type": "general-purpose"}))),
                ),
                Turn::text("Done."),
            ])
            .build(),
        ..Office::new([])
    };
    let agent = || {
        let soon = InterruptOn::any().expires_after(Duration::from_secs(60));
        let gate = InterruptPolicy::new().before("send", soon).before("read", InterruptOn::any());
        office.builder().interrupt_on(gate).build().unwrap()
    };
    let waiting = agent().invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["task:0.0/0.0", "task:0.1/0.0"]);
    office.now.store(2, Ordering::SeqCst);
    let done = agent().invoke(RunInput::resume("t").decide("task:0.1/0.0", Decision::Approve)).await.unwrap();
    assert_eq!((done.text(), office.made()), ("Done.".to_owned(), vec!["read 2".to_owned()]));
    assert_eq!(results(&done), [("A done.".to_owned(), false), ("B done.".to_owned(), false)]);
}

#[tokio::test]
async fn a_resumed_runs_events_report_the_decisions() {
    let office = Office::new([Turn::calls([send(1), send(2)]), Turn::text("Done.")]);
    office.go().await;
    let input = RunInput::resume("t").decide("0.1", Decision::Approve).decide("0.0", reject("no"));
    let kinds: Vec<EventKind> = office.agent().run(input).map(|event| event.kind).collect().await;
    assert!(matches!(kinds[0], EventKind::RunStarted { .. }), "{:?}", kinds[0]);
    let told: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| match kind {
            EventKind::ActionDecided { id, decision, .. } => Some((id, decision)),
            _ => None,
        })
        .collect();
    assert_eq!(told, [("0.1".to_owned(), Decision::Approve), ("0.0".to_owned(), reject("no"))]);
}

#[tokio::test]
async fn a_custom_human_in_the_loop_applies_alongside_rules_that_ask() {
    let write = ("write_file", json!({"file_path": "/secret/a.txt", "content": "x"}));
    let office = Office::new([Turn::calls([write, read(2), send(3)]), Turn::text("Done.")]);
    let own = HumanInTheLoop::new(InterruptPolicy::new().before("read", InterruptOn::any()));
    let rules = asking_to(Operation::Write, "/secret/**");
    let agent = office.builder().middleware(own).permissions(rules).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["0.0", "0.1"]);
}

#[test]
fn a_decision_can_be_read_with_and_without_its_author() {
    use deepagents::{DecisionAuthor, DecisionRecord};
    let old: DecisionRecord = serde_json::from_value(json!({"type": "reject", "message": "no"})).unwrap();
    assert_eq!((old.decision.clone(), old.author.clone()), (reject("no"), None));
    assert_eq!(serde_json::to_value(&old).unwrap(), json!({"type": "reject", "message": "no"}));
    let new = DecisionRecord::new(Decision::Approve, DecisionAuthor::RememberedRule { text: "ls".to_owned() });
    let stored = json!({"type": "approve", "author": {"by": "remembered_rule", "text": "ls"}});
    assert_eq!(serde_json::to_value(&new).unwrap(), stored);
    assert_eq!(serde_json::from_value::<DecisionRecord>(stored).unwrap(), new);
}

#[tokio::test]
async fn invalid_arguments_are_refused_before_anybody_is_asked() {
    let missing = ("write_file", json!({"file_path": "/a.txt"}));
    let right = ("write_file", json!({"file_path": "/b.txt", "content": "x"}));
    let office = Office::new([Turn::calls([missing, right]), Turn::text("Done.")]);
    let agent =
        office.builder().interrupt_on(InterruptPolicy::new().before("write_file", InterruptOn::any())).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(ids(&waiting), ["0.1"]);
    let done = agent.invoke(RunInput::resume("t").decide("0.1", Decision::Approve)).await.unwrap();
    let results = results(&done);
    assert!(results[0].1 && results[0].0.contains("write_file does not take these arguments"), "{results:?}");
    assert!(!results[1].1, "{results:?}");
}

#[tokio::test]
async fn a_call_with_unknown_arguments_is_asked_about_unchanged_with_a_warning() {
    let more = |n: u64| json!({"n": n, "dry_run": true});
    let office = Office::new([Turn::calls([("send", more(1)), ("send", more(2)), send(3)]), Turn::text("Done.")]);
    let waiting = office.go().await;
    assert_eq!(ids(&waiting), ["0.0", "0.1", "0.2"]);
    let asked = waiting.action_requests();
    assert_eq!(asked[0].args, more(1));
    assert!(asked[0].text.contains("may ignore some") && asked[0].text.contains("dry_run"), "{}", asked[0].text);
    assert!(!asked[2].text.contains("may ignore some"), "{}", asked[2].text);
    let answers = [("0.0", Decision::Approve), ("0.1", edit("send", more(9))), ("0.2", Decision::Approve)];
    let done = office.answer(&answers).await.unwrap();
    assert!(results(&done).iter().all(|result| !result.1), "{:?}", results(&done));
    let mut made = office.made();
    made.sort();
    assert_eq!(made, ["send 1", "send 3", "send 9"]);
}

#[tokio::test]
async fn an_approved_call_whose_path_now_leads_elsewhere_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    ["one", "two"].into_iter().for_each(|name| std::fs::create_dir(dir.path().join(name)).unwrap());
    std::os::unix::fs::symlink("one", dir.path().join("link")).unwrap();
    let write = ("write_file", json!({"file_path": "/link/a.txt", "content": "x"}));
    let office = Office::new([Turn::calls([write]), Turn::text("Done.")]);
    let files = deepagents::fs::LocalBackend::open(dir.path()).unwrap();
    let agent = office
        .builder()
        .backend(files)
        .interrupt_on(InterruptPolicy::new().before("write_file", InterruptOn::any()))
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(waiting.action_requests()[0].leads_to.as_deref(), Some("/one/a.txt"));
    std::fs::remove_file(dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("two", dir.path().join("link")).unwrap();
    let done = agent.invoke(RunInput::resume("t").decide("0.0", Decision::Approve)).await.unwrap();
    assert!(results(&done)[0].0.contains("leads elsewhere"), "{:?}", results(&done));
    assert!(!dir.path().join("two/a.txt").exists() && !dir.path().join("one/a.txt").exists());
}
