//! State across delegation: what subagents get, and what comes back.

use deepagents::channels::{Files, StructuredResponse, Todos};
use deepagents::core::state::{ChannelError, ChannelSpec, Sharing};
use deepagents::core::tool::DynTool;
use deepagents::fs::PathError;
use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::subagents::SubAgentSpec;
use deepagents::{
    Channel, Context, Decision, DeepAgent, DeepAgentBuilder, FinishReason, HookOutput, InterruptOn, InterruptPolicy,
    Middleware, Outcome, ResponseFormat, Result, RunInput, ToolContext, ToolOutput, Update, tool_fn,
};
use serde_json::json;

use super::{begins, journal, task};
use crate::results;

/// The notes of all agents, in order.
struct Notes;

impl Channel for Notes {
    const NAME: &'static str = "notes";
    const SHARING: Sharing<Self::Value, Self::Update> =
        Sharing::shared_by(|given, left| left.get(given.len()..).filter(|new| !new.is_empty()).map(<[_]>::to_vec));
    type Value = Vec<String>;
    type Update = Vec<String>;

    fn reduce(value: &mut Vec<String>, update: Vec<String>) -> std::result::Result<(), ChannelError> {
        value.extend(update);
        Ok(())
    }
}

deepagents::core::last_value!(City("city"): String);
deepagents::core::last_value!(Draft("draft"): String => copied);
deepagents::core::last_value!(Own("own"): String => separate);
deepagents::core::last_value!(Secret("secret"): String => private);

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Note {
    text: String,
}

/// Adds a note and returns the earlier ones.
fn note() -> impl DynTool {
    tool_fn("note", "Notes something.", |args: Note, cx: ToolContext| async move {
        let before = cx.get::<Notes>().join(",");
        Ok(ToolOutput::text(format!("before: {before}")).with_update(Update::new::<Notes>(vec![args.text])))
    })
    .channel::<Notes>()
}

fn noting(text: &str) -> (&'static str, serde_json::Value) {
    ("note", json!({"text": text}))
}

fn notes(outcome: &Outcome) -> Vec<String> {
    outcome.state.get::<Notes>().cloned().unwrap_or_default()
}

/// Adds a note in the main agent, in general-purpose, and in the main agent again.
fn three_notes() -> ScriptedModel {
    ScriptedModel::rules()
        .when(begins("Below."), [Turn::calls([noting("below")]), Turn::text("Noted.")])
        .otherwise([
            Turn::calls([noting("above")]),
            Turn::calls([task("general-purpose", "Below.")]),
            Turn::calls([noting("after")]),
            Turn::text("Done."),
        ])
        .build()
}

#[tokio::test]
async fn a_user_tools_channel_works_in_general_purpose_and_its_writes_are_returned() {
    let model = three_notes();
    let outcome =
        DeepAgent::builder().model(model.clone()).tool(note()).build().unwrap().invoke("Main.").await.unwrap();
    assert_eq!(notes(&outcome), ["above", "below", "after"]);
    let below = model.requests().into_iter().rfind(|r| begins("Below.")(r)).unwrap();
    assert_eq!(below.messages.last().unwrap().text(), "before: above");
    assert_eq!(results(&outcome)[2].0, "before: above,below");
}

#[tokio::test]
async fn a_user_tools_channel_also_survives_a_resume_in_general_purpose() {
    let (model, journal) = (three_notes(), journal());
    let build = || {
        let gate = InterruptPolicy::new().before("note", InterruptOn::any());
        DeepAgent::builder()
            .model(model.clone())
            .tool(note())
            .journal(journal.clone())
            .interrupt_on(gate)
            .build()
            .unwrap()
    };
    let mut outcome = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
    for _ in 0..3 {
        assert_eq!(outcome.stop, FinishReason::Interrupted);
        let id = outcome.action_requests().remove(0).id;
        // Each answer goes to a new agent, as in another process.
        outcome = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
    }
    assert_eq!(notes(&outcome), ["above", "below", "after"]);
    assert_eq!(results(&outcome)[2].0, "before: above,below");
}

#[tokio::test]
async fn a_user_tools_channel_is_available_to_a_background_agent() {
    let model = ScriptedModel::rules()
        .when(begins("Below."), [Turn::calls([noting("below")]), Turn::text("Noted.")])
        .otherwise([
            Turn::calls([noting("above")]),
            Turn::call("start_async_task", json!({"description": "Below.", "subagent_type": "general-purpose"})),
            Turn::text("Waiting."),
            Turn::text("Done."),
        ])
        .build();
    let builder = DeepAgent::builder().model(model).tool(note()).background_agents(true);
    let outcome = builder.build().unwrap().invoke("Main.").await.unwrap();
    assert_eq!(notes(&outcome), ["above", "below"]);
}

/// Sets every kind of channel as its task says, and records the previous values.
#[derive(Clone)]
struct Sets;

impl Middleware for Sets {
    fn name(&self) -> &str {
        "Sets"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![
            ChannelSpec::new::<City>(),
            ChannelSpec::new::<Draft>(),
            ChannelSpec::new::<Own>(),
            ChannelSpec::new::<Secret>(),
        ]
    }

    async fn before_agent(&self, cx: &Context) -> Result<HookOutput> {
        let found = [cx.get::<City>(), cx.get::<Draft>(), cx.get::<Own>(), cx.get::<Secret>()];
        let expected = if cx.path().is_empty() { ["", "", "", ""] } else { ["main", "main", "", ""] };
        assert_eq!(found, expected, "{:?}", cx.path());
        let name = cx.agent_name().to_owned();
        let update = Update::new::<City>(name.clone()).with::<Draft>(name.clone());
        Ok(HookOutput::update(update.with::<Own>(name.clone()).with::<Secret>(name)))
    }
}

fn delegates(agent: &'static str) -> ScriptedModel {
    let todos = json!({"todos": [{"content": "Below", "status": "completed"}]});
    ScriptedModel::rules()
        .when(begins("Below."), [Turn::call("write_todos", todos), Turn::text("Set.")])
        .otherwise([Turn::calls([task(agent, "Below.")]), Turn::text("Done.")])
        .build()
}

#[tokio::test]
async fn all_but_messages_todos_and_private_keys_pass_to_children_and_back() {
    let spec = SubAgentSpec::new("setter", "Sets.").middleware(Sets);
    let builder = DeepAgent::builder().name("main").model(delegates("setter")).middleware(Sets).sub_agent(spec);
    let outcome = builder.build().unwrap().invoke("Main.").await.unwrap();
    let state = &outcome.state;
    assert_eq!(state.get::<City>().unwrap(), "setter", "shared");
    assert_eq!(state.get::<Draft>().unwrap(), "main", "copied: goes down and does not come back");
    assert_eq!((state.get::<Own>().unwrap().as_str(), state.get::<Secret>().unwrap().as_str()), ("main", "main"));
    assert!(state.get::<Todos>().unwrap().is_empty());
    assert_eq!(outcome.messages().len(), 4, "{:?}", results(&outcome));
    assert!(!state.to_json(false).unwrap().contains_key("secret"));
}

/// A middleware of the main agent only. Its tool writes the channel in every agent.
struct Declares;

impl Middleware for Declares {
    fn name(&self) -> &str {
        "Declares"
    }

    fn channels(&self) -> Vec<ChannelSpec> {
        vec![ChannelSpec::new::<City>()]
    }
}

/// Sets the city, without declaring the channel.
fn go() -> impl DynTool {
    tool_fn("go", "Goes somewhere.", |args: Note, cx: ToolContext| async move {
        Ok(ToolOutput::text(format!("from {:?}", cx.get::<City>())).with_update(Update::new::<City>(args.text)))
    })
}

fn going(city: &str) -> (&'static str, serde_json::Value) {
    ("go", json!({"text": city}))
}

async fn travel(model: ScriptedModel, configure: impl FnOnce(DeepAgentBuilder) -> DeepAgentBuilder) -> Outcome {
    configure(DeepAgent::builder().model(model).tool(go())).build().unwrap().invoke("Main.").await.unwrap()
}

#[tokio::test]
async fn an_applications_channel_is_available_in_nested_sub_agents() {
    let model = || {
        ScriptedModel::rules()
            .when(begins("Deep."), [Turn::calls([going("Oslo")]), Turn::text("There.")])
            .when(begins("Below."), [Turn::calls([task("inner", "Deep.")]), Turn::text("There.")])
            .otherwise([Turn::calls([going("Rome")]), Turn::calls([task("outer", "Below.")]), Turn::text("Done.")])
            .build()
    };
    let outer = || SubAgentSpec::new("outer", "Passes on.").sub_agent(SubAgentSpec::new("inner", "Goes."));
    let of_middleware = travel(model(), |b| b.middleware(Declares).sub_agent(outer())).await;
    let of_builder = travel(model(), |b| b.channel::<City>().sub_agent(outer())).await;
    for outcome in [of_middleware, of_builder] {
        assert_eq!(outcome.state.get::<City>().unwrap(), "Oslo", "{:?}", results(&outcome));
    }
}

#[tokio::test]
async fn when_two_sub_agents_change_one_value_the_first_wins_and_the_model_is_told() {
    let model = ScriptedModel::rules()
        .when(begins("Go to Oslo"), [Turn::calls([going("Oslo")]), Turn::text("In Oslo.")])
        .when(begins("Go to Rome"), [Turn::calls([going("Rome")]), Turn::text("In Rome.")])
        .when(begins("Stay"), [Turn::text("Stayed.")])
        .otherwise([
            Turn::calls(["Go to Oslo", "Go to Rome", "Stay"].map(|words| task("general-purpose", words))),
            Turn::text("Done."),
        ])
        .build();
    let outcome = travel(model, |b| b.channel::<City>()).await;
    let told: Vec<_> = results(&outcome).into_iter().filter(|(text, _)| text.contains("[not kept: `city`")).collect();
    assert_eq!(told.len(), 1, "{:?}", results(&outcome));
    let kept = outcome.state.get::<City>().unwrap();
    assert!(["Oslo", "Rome"].contains(&kept.as_str()) && !told[0].0.contains(kept.as_str()), "{told:?}");
    assert!(results(&outcome).iter().all(|(_, error)| !error), "a report is not lost to a conflict");
}

#[test]
fn the_kinds_of_sharing_describe_themselves() {
    let shared: Sharing<u8, u8> = Sharing::shared();
    assert_eq!(format!("{shared:?}"), "Sharing { hidden: false, inherited: true, comes_back: true }");
    let private: Sharing<u8, u8> = Sharing::private();
    assert_eq!(format!("{private:?}"), "Sharing { hidden: true, inherited: false, comes_back: false }");
}

/// Subagents return a count if they may, and the main agent returns its own type.
fn counts() -> ScriptedModel {
    ScriptedModel::rules()
        .when(begins("Below."), [Turn::calls([noting("below")]), Turn::call("Count", json!({"birds": 3}))])
        .otherwise([
            Turn::calls([task("counter", "Below.")]),
            Turn::call("Said", json!({"words": 7})),
            Turn::text("Done."),
        ])
        .build()
}

fn shape(name: &str, key: &str) -> ResponseFormat {
    ResponseFormat::json(name, json!({"type": "object", "properties": {key: {"type": "integer"}}, "required": [key]}))
}

#[tokio::test]
async fn a_structured_answer_belongs_to_its_own_agent_only_even_after_a_resume() {
    for shaped_above in [true, false] {
        for gated in [true, false] {
            let (model, journal) = (counts(), journal());
            let build = || {
                let counter = SubAgentSpec::new("counter", "Counts.").response_format(shape("Count", "birds"));
                let mut builder = DeepAgent::builder().model(model.clone()).tool(note()).sub_agent(counter);
                builder = builder.journal(journal.clone()).general_purpose(false);
                if shaped_above {
                    builder = builder.response_format(shape("Said", "words"));
                }
                let gate = InterruptPolicy::new().before("note", InterruptOn::any());
                if gated { builder.interrupt_on(gate) } else { builder }.build().unwrap()
            };
            let mut outcome = build().invoke(RunInput::new("Main.").thread("t")).await.unwrap();
            while outcome.stop == FinishReason::Interrupted {
                assert_eq!(outcome.structured_json(), None);
                let id = outcome.action_requests().remove(0).id;
                outcome = build().invoke(RunInput::resume("t").decide(&id, Decision::Approve)).await.unwrap();
            }
            let expected = shaped_above.then(|| json!({"words": 7}));
            assert_eq!(outcome.structured_json(), expected.as_ref(), "above {shaped_above}, gated {gated}");
            assert_eq!(results(&outcome)[0].0, r#"{"birds": 3}"#);
            let stored = build().state("t").await.unwrap();
            assert_eq!(stored.get::<StructuredResponse>().cloned().flatten(), expected);
        }
    }
}

#[tokio::test]
async fn a_runs_outcome_has_its_messages_todos_and_files() {
    let todos = json!({"todos": [{"content": "Write it", "status": "completed"}]});
    let model = ScriptedModel::new([
        Turn::calls([
            ("write_todos", todos),
            ("write_file", json!({"file_path": "/report.md", "content": "Three birds."})),
        ]),
        Turn::text("Done."),
    ]);
    let given = Files::put([("given.md", "What is known.")]).unwrap();
    let agent = DeepAgent::builder().model(model).build().unwrap();
    let outcome = agent.invoke(RunInput::new("Go").update(given)).await.unwrap();
    assert_eq!(outcome.messages().last().unwrap().text(), "Done.");
    assert_eq!(outcome.state.get::<Todos>().unwrap()[0].content, "Write it");
    let files = outcome.state.get::<Files>().unwrap();
    assert_eq!(files.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), ["/given.md", "/report.md"]);
    assert_eq!((files.text("/given.md"), files.text("/report.md")), (Some("What is known."), Some("Three birds.")));
    assert!(matches!(Files::put([("../etc", "")]), Err(PathError::Traversal(_))));
}
