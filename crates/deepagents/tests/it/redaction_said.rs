//! Redaction of what people enter outside messages: decisions and goals.

use std::sync::Arc;

use deepagents::core::error::Error;
use deepagents::core::interrupt::{ActionReview, EditedAction};
use deepagents::core::tool::ToolContext;
use deepagents::middleware::AskUser;
use deepagents::middleware::redaction::{Detector, Redaction, Strategy};
use deepagents::middleware::rubric::{Rubric, RubricText};
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{
    Decision, DecisionKind, DeepAgent, EventKind, InterruptOn, InterruptPolicy, MemoryJournal, RunInput, Update,
    json_tool,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

use crate::results;

const MAIL: &str = "ann@example.org";

struct Office {
    agent: DeepAgent,
    model: ScriptedModel,
    made: Arc<std::sync::Mutex<Vec<Value>>>,
}

impl Office {
    /// An agent whose `send` calls need approval, with one pending.
    async fn new(redaction: Redaction) -> Self {
        let made = Arc::<std::sync::Mutex<Vec<Value>>>::default();
        let sends = made.clone();
        let send = json_tool("send", "Sends.", json!({"type": "object"}), move |args: Value, _cx| {
            sends.lock().unwrap().push(args);
            async { Ok("Sent.") }
        });
        let model = ScriptedModel::new([Turn::call("send", json!({"to": "all"})), Turn::text("Done.")]);
        let agent = DeepAgent::builder()
            .model(model.clone())
            .tool(send)
            .interrupt_on(InterruptPolicy::new().before("send", InterruptOn::any()))
            .redaction(redaction)
            .journal(MemoryJournal::new())
            .build()
            .unwrap();
        agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
        Self { agent, model, made }
    }

    /// The events after a decision, and the thread's content.
    async fn answer(&self, decision: Decision) -> (String, String) {
        let mut run = self.agent.run(RunInput::resume("t").decide("0.0", decision));
        let mut events = Vec::new();
        while let Some(event) = run.next().await {
            events.push(event.kind.clone());
        }
        let outcome = run.outcome().await.unwrap();
        let mut kept = serde_json::to_string(outcome.messages()).unwrap();
        for checkpoint in self.agent.history("t", None, 100).await.unwrap() {
            let state = self.agent.state_at("t", checkpoint.position).await.unwrap();
            kept.push_str(&serde_json::to_string(&state.to_json(true).unwrap()).unwrap());
        }
        (serde_json::to_string(&events).unwrap(), kept)
    }
}

fn emails() -> Redaction {
    Redaction::new().hide(Detector::Email)
}

#[tokio::test]
async fn decision_messages_are_redacted_before_storage() {
    for decision in [
        Decision::Reject { message: Some(format!("Not without {MAIL}.")) },
        Decision::Respond { message: format!("I have written to {MAIL}.") },
    ] {
        let office = Office::new(emails()).await;
        let (told, kept) = office.answer(decision).await;
        assert!(!told.contains(MAIL) && told.contains("[REDACTED_EMAIL]"), "{told}");
        assert!(!kept.contains(MAIL) && kept.contains("[REDACTED_EMAIL]"), "{kept}");
    }
}

#[tokio::test]
async fn decision_messages_for_a_tools_own_question_are_redacted_too() {
    let asks = json_tool("ask", "Asks.", json!({"type": "object"}), |_: Value, cx: ToolContext| async move {
        match cx.interrupt("Go on?", [DecisionKind::Reject, DecisionKind::Respond])? {
            Decision::Reject { message } => Ok(message.unwrap_or_default()),
            Decision::Respond { message } => Ok(message),
            _ => Ok("Something else.".to_owned()),
        }
    });
    let agent = DeepAgent::builder().model(ScriptedModel::new([])).tool(asks).redaction(emails()).build().unwrap();
    for decision in [
        Decision::Reject { message: Some(format!("Not without {MAIL}.")) },
        Decision::Respond { message: format!("Not without {MAIL}.") },
    ] {
        let Err(Error::Interrupted(waiting)) = agent.call_tool("ask", json!({}), None).await else { panic!() };
        let request = waiting.action_requests()[0].clone();
        let reviews = [ActionReview::new(request, decision)];
        let output = agent.call_reviewed_tool("ask", json!({}), None, &reviews).await.unwrap();
        assert_eq!(output.content[0].as_text(), Some("Not without [REDACTED_EMAIL]."));
    }
}

#[tokio::test]
async fn an_edit_is_executed_as_given_but_shown_to_the_model_redacted() {
    let office = Office::new(emails()).await;
    let edited_action = EditedAction { name: "send".to_owned(), args: json!({"to": MAIL}) };
    office.answer(Decision::Edit { edited_action }).await;
    assert_eq!(*office.made.lock().unwrap(), [json!({"to": MAIL})]);
    let asked = serde_json::to_string(&office.model.requests()[1].messages).unwrap();
    assert!(!asked.contains(MAIL) && asked.contains("Made instead: send with"), "{asked}");
}

#[tokio::test]
async fn a_blocked_decision_message_leaves_the_question_open() {
    let office = Office::new(Redaction::new().with(Detector::Email, Strategy::Block)).await;
    let reject = |why: String| RunInput::resume("t").decide("0.0", Decision::Reject { message: Some(why) });
    let refused = office.agent.invoke(reject(format!("Ask {MAIL}."))).await.unwrap_err();
    assert!(refused.to_string().contains("email (1)") && !refused.to_string().contains(MAIL), "{refused}");
    let outcome = office.agent.invoke(reject("Not now.".to_owned())).await.unwrap();
    assert!(results(&outcome)[0].0.contains("Not now."));
}

#[tokio::test]
async fn answers_to_the_agents_questions_are_redacted_before_storage() {
    let question = json!({"question": "To whom?"});
    let model = ScriptedModel::new([Turn::call("ask_user", question), Turn::text("Done.")]);
    let agent = DeepAgent::builder()
        .model(model)
        .middleware(AskUser)
        .redaction(emails())
        .journal(MemoryJournal::new())
        .build()
        .unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    let id = waiting.action_requests()[0].id.clone();
    let answer = Decision::Respond { message: MAIL.to_owned() };
    let mut run = agent.run(RunInput::resume("t").decide(id, answer));
    while let Some(event) = run.next().await {
        assert!(!serde_json::to_string(&event.kind).unwrap().contains(MAIL));
    }
    assert!(!serde_json::to_string(run.outcome().await.unwrap().messages()).unwrap().contains(MAIL));
}

#[tokio::test]
async fn the_judge_sees_only_redacted_text_and_its_output_is_redacted() {
    let judged = json!({"result": "needs_revision", "explanation": format!("Not to {MAIL}."),
        "criteria": [{"name": "addressed", "passed": false, "gap": format!("{MAIL} is not named")}]});
    let done =
        json!({"result": "satisfied", "explanation": "So it is.", "criteria": [{"name": "addressed", "passed": true}]});
    let judge = ScriptedModel::new([Turn::text(judged.to_string()), Turn::text(done.to_string())]);
    let model = ScriptedModel::new([Turn::text("Written."), Turn::text("Written again.")]);
    let agent = DeepAgent::builder()
        .model(model.clone())
        .middleware(Rubric::default().model(judge.clone()))
        .redaction(emails())
        .build()
        .unwrap();
    let goal = Update::new::<RubricText>(Some(format!("It is to {MAIL}.")));
    let mut run = agent.run(RunInput::new("Write.").update(goal));
    while let Some(event) = run.next().await {
        if let EventKind::Middleware(event) = &event.kind {
            assert!(!serde_json::to_string(event).unwrap().contains(MAIL));
        }
    }
    let outcome = run.outcome().await.unwrap();
    assert_eq!(outcome.state.get::<RubricText>().cloned().flatten().as_deref(), Some("It is to [REDACTED_EMAIL]."));
    for request in judge.requests().iter().chain(&model.requests()) {
        assert!(!serde_json::to_string(&request.messages).unwrap().contains(MAIL));
    }
}

#[tokio::test]
async fn an_application_can_apply_the_same_redaction_to_its_own_data() {
    let agent = DeepAgent::builder().model(ScriptedModel::new([])).redaction(emails()).build().unwrap();
    assert_eq!(agent.receive_text(format!("About {MAIL}")).unwrap(), "About [REDACTED_EMAIL]");
    let redaction = Redaction::secrets();
    let kept = redaction.text(r#"{"password": "hunter2hunter2"}"#.to_owned()).unwrap();
    assert_eq!(kept, r#"{"password":"[REDACTED_API_KEY]"}"#);
    let blocks = Redaction::new().with(Detector::Email, Strategy::Block);
    assert!(blocks.text(MAIL.to_owned()).is_err());
}
