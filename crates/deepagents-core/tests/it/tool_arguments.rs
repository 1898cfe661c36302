//! Arguments are validated before a tool gets them, and tools before an agent is built.

use deepagents_core::agent::BuildError;
use deepagents_core::journal::{MemoryJournal, Record, RecordUpdate, decode, encode};
use deepagents_core::middleware::{HookOutput, Middleware, ToolNext, ToolRequest, after_model, wrap_tool_call};
use deepagents_core::run::{Context, RunInput};
use deepagents_core::state::Update;
use deepagents_core::tool::{
    DynTool, Effect, Tool, ToolContext, ToolError, ToolOutput, ToolSetError, json_tool, schema_of, tool_fn,
    unnamed_fields,
};
use deepagents_models::scripted::{ScriptedModel, Turn};
use serde_json::{Value, json};
use std::sync::Arc;

use crate::support::{Notes, agent, assert_sound, lines, tool};

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[allow(dead_code, reason = "only read from JSON")]
struct Trip {
    /// Where to.
    city: String,
    /// How many nights.
    nights: u32,
    note: Option<String>,
}

async fn answer(args: Value, tool: impl DynTool) -> String {
    let agent = agent(ScriptedModel::new([Turn::call("book", args), Turn::text("done")])).tool(tool).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_sound(outcome.messages());
    lines(outcome.messages())[2].clone()
}

fn typed(notes: &Notes) -> impl DynTool + use<> {
    let notes = notes.clone();
    tool_fn("book", "Books.", move |trip: Trip, _cx| {
        notes.add(trip.city.clone());
        async move { Ok(format!("{} for {}", trip.city, trip.nights)) }
    })
}

fn untyped(notes: &Notes) -> impl DynTool + use<> {
    let notes = notes.clone();
    json_tool("book", "Books.", (*schema_of::<Trip>()).clone(), move |args: Value, _cx| {
        notes.add("called");
        async move { Ok(format!("{} for {}", args["city"].as_str().unwrap(), args["nights"])) }
    })
}

#[tokio::test]
async fn valid_arguments_reach_typed_and_untyped_tools() {
    let notes = Notes::default();
    let args = json!({"city": "Turin", "nights": 2, "unknown": true});
    assert_eq!(answer(args.clone(), typed(&notes)).await, "result: Turin for 2");
    assert_eq!(answer(args, untyped(&notes)).await, "result: Turin for 2");
}

#[tokio::test]
async fn invalid_arguments_are_reported_with_every_problem_and_never_reach_the_tool() {
    let notes = Notes::default();
    let args = json!({"nights": "two", "note": 5});
    for line in [answer(args.clone(), typed(&notes)).await, answer(args, untyped(&notes)).await] {
        assert!(line.starts_with("error: Error: bad arguments for book: "), "{line}");
        for part in ["city", "/nights", "/note"] {
            assert!(line.contains(part), "{part} is not named: {line}");
        }
    }
    assert!(notes.list().is_empty());
}

#[tokio::test]
async fn quoted_numbers_and_booleans_are_accepted_when_unambiguous() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Options {
        limit: Option<i64>,
        all: bool,
        rates: Vec<f64>,
    }
    let tool = tool_fn("book", "Books.", |args: Options, _cx| async move {
        Ok(format!("{:?} {} {:?}", args.limit, args.all, args.rates))
    });
    let args = json!({"limit": " 12 ", "all": "True", "rates": ["0.5", 1]});
    assert_eq!(answer(args, tool).await, "result: Some(12) true [0.5, 1.0]");

    let notes = Notes::default();
    for nights in [json!("2"), json!("2.0"), json!(2.0)] {
        let args = json!({"city": "Turin", "nights": nights});
        assert!(answer(args.clone(), typed(&notes)).await.starts_with("result: "), "{args}");
        assert!(answer(args.clone(), untyped(&notes)).await.starts_with("result: "), "{args}");
    }
    for wrong in [json!({"city": 7, "nights": 2}), json!({"city": "Turin", "nights": "2.5"})] {
        assert!(answer(wrong.clone(), typed(&notes)).await.starts_with("error: "), "{wrong}");
        assert!(answer(wrong.clone(), untyped(&notes)).await.starts_with("error: "), "{wrong}");
    }
}

#[tokio::test]
async fn arguments_are_coerced_through_references_and_nullable_types() {
    let schema = json!({
        "type": "object",
        "properties": {
            "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "stay": {"anyOf": [{"$ref": "#/$defs/stay"}, {"type": "null"}]},
            "either": {"anyOf": [{"type": "integer"}, {"type": "boolean"}, {"type": "string"}]},
            "circle": {"$ref": "#/$defs/circle"}
        },
        "$defs": {
            "stay": {"type": "object", "properties": {"quiet": {"type": "boolean"}}},
            "circle": {"$ref": "#/$defs/circle"}
        }
    });
    let tool = json_tool("book", "Books.", schema, |args, _cx| async move { Ok(args.to_string()) });
    let wrong = json!({"limit": "5", "stay": {"quiet": "TRUE"}, "either": "5"});
    let right = json!({"limit": 5, "stay": {"quiet": true}, "either": "5"});
    assert_eq!(tool.coerced(&wrong), Some(right.clone()));
    assert_eq!(tool.coerced(&right), None, "it is taken as it is");
    assert_eq!(answer(wrong, tool).await, format!("result: {right}"));
}

#[tokio::test]
async fn a_null_for_an_optional_argument_counts_as_left_out() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Options {
        city: String,
        #[serde(default)]
        nights: u32,
        #[serde(default)]
        stops: Vec<Visit>,
        note: Option<String>,
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Visit {
        #[serde(default)]
        nights: u32,
    }
    let typed = || {
        tool_fn("book", "Books.", |args: Options, _cx| async move {
            let stops: Vec<u32> = args.stops.iter().map(|stop| stop.nights).collect();
            Ok(format!("{} {} {stops:?} {:?}", args.city, args.nights, args.note))
        })
    };
    let args = json!({"city": "Turin", "nights": null, "stops": [{"nights": null}], "note": null});
    assert_eq!(answer(args.clone(), typed()).await, "result: Turin 0 [0] None");
    let line = answer(json!({"city": null, "nights": null}), typed()).await;
    assert!(line.contains("null is not of type \"string\" at `/city`"), "{line}");

    let schema = json!({
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "kind": {"enum": ["day", "night"], "default": "day"},
            "note": {"type": ["string", "null"]},
            "any": {},
            "stay": {"$ref": "#/$defs/stay"},
        },
        "required": ["city"],
        "$defs": {"stay": {"anyOf": [{"type": "integer"}, {"type": "boolean"}]}}
    });
    let untyped = json_tool("book", "Books.", schema, |args, _cx| async move { Ok(args.to_string()) });
    let args = json!({"city": "Turin", "kind": null, "note": null, "any": null, "stay": null});
    let want = json!({"city": "Turin", "note": null, "any": null});
    assert_eq!(answer(args, untyped).await, format!("result: {want}"));
}

#[tokio::test]
async fn hooks_see_the_coerced_arguments_and_the_history_keeps_the_original() {
    let (typed_notes, untyped_notes) = (Notes::default(), Notes::default());
    check_hooks(typed(&Notes::default()), &typed_notes).await;
    check_hooks(untyped(&Notes::default()), &untyped_notes).await;
}

async fn check_hooks(tool: impl DynTool, seen: &Notes) {
    let (asked, made) = (seen.clone(), seen.clone());
    let before = after_model(move |cx: Context| {
        asked.add(cx.open_calls().iter().map(|(_, call)| call.args["nights"].to_string()).collect::<String>());
        async { Ok(HookOutput::next()) }
    });
    let around = wrap_tool_call(move |request: ToolRequest, next: ToolNext| {
        made.add(request.call.args["nights"].to_string());
        next.run(request)
    });
    let written = json!({"city": "Turin", "nights": "2"});
    let model = ScriptedModel::new([Turn::call("book", written.clone()), Turn::text("done")]);
    let agent = agent(model).tool(tool).middleware(before).middleware(around).build().unwrap();
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: Turin for 2");
    assert_eq!(seen.list(), ["2", "2", ""]);
    let answers = outcome.messages().iter().filter_map(|message| message.as_assistant());
    let args = answers.flat_map(|answer| answer.tool_calls()).map(|call| call.args.clone()).collect::<Vec<_>>();
    assert_eq!(args, [written]);
}

#[tokio::test]
async fn the_effects_of_a_call_are_computed_from_its_coerced_arguments() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Change {
        #[allow(dead_code, reason = "only read from JSON")]
        all: bool,
    }
    struct Changes;
    impl Tool for Changes {
        type Args = Change;
        fn name(&self) -> &str {
            "change"
        }
        fn description(&self) -> &str {
            "Changes."
        }
        fn effect(&self, _args: &Change) -> Effect {
            Effect::Write { paths: vec!["/a".into()] }
        }
        async fn call(&self, _args: Change, _cx: ToolContext) -> Result<ToolOutput, ToolError> {
            Ok("done".into())
        }
    }
    let effect = |args: Value| DynTool::effect(&Changes, &args);
    assert_eq!(effect(json!({"all": "true"})), effect(json!({"all": true})));
    assert_eq!(effect(json!({"all": "perhaps"})), Effect::Read);
}

#[tokio::test]
async fn a_problem_found_only_by_the_type_is_reported_with_its_location() {
    let notes = Notes::default();
    let line = answer(json!({"city": "Turin", "nights": 9_999_999_999_u64}), typed(&notes)).await;
    assert!(line.starts_with("error: ") && line.contains("nights"), "{line}");
}

#[tokio::test]
async fn non_object_arguments_are_refused() {
    for args in [json!(null), json!([1]), json!("x")] {
        let line = answer(args, typed(&Notes::default())).await;
        assert!(line.starts_with("error: "), "{line}");
    }
}

#[test]
fn the_schema_of_a_type_is_short_and_keeps_descriptions_and_required_fields() {
    insta::assert_json_snapshot!("schema_of_a_type", *schema_of::<Trip>());
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(dead_code, reason = "only read from JSON")]
enum Place {
    /// On a map.
    Point { x: f64, y: f64 },
    /// By its name.
    Town { name: String },
}

#[tokio::test]
async fn an_enum_of_objects_becomes_one_object_and_missing_fields_are_named() {
    let schema = json!({
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["point", "town"]},
            "name": {"type": "string"},
            "x": {"type": "number"},
            "y": {"type": "number"},
        },
        "required": ["kind"],
        "description": "Give exactly one of these sets of arguments: kind \"point\", x, y (On a map.); kind \"town\", name (By its name.).",
    });
    assert_eq!(*schema_of::<Place>(), schema);
    let tool = || {
        tool_fn("book", "Books.", |place: Place, _cx| async move {
            Ok(if matches!(place, Place::Town { .. }) { "a town" } else { "a point" })
        })
    };
    assert_eq!(answer(json!({"kind": "town", "name": "Turin"}), tool()).await, "result: a town");
    assert_eq!(answer(json!({"kind": "point", "x": "1.5", "y": 2}), tool()).await, "result: a point");
    let line = answer(json!({"kind": "point", "x": 1}), tool()).await;
    assert!(line.contains("bad arguments for book: missing field `y`"), "{line}");
    let line = answer(json!({"kind": "planet"}), tool()).await;
    assert!(line.contains(r#""planet" is not one of "point" or "town" at `/kind`"#), "{line}");
}

#[tokio::test]
async fn root_alternatives_are_shown_as_one_object_and_still_enforced() {
    let properties = json!({"city": {"type": "string"}, "code": {"type": "string"}});
    let either = json!([{"required": ["city"]}, {"required": ["code"]}]);
    let schema = json!({"type": "object", "properties": properties, "oneOf": either, "description": "A place."});
    let tool = || json_tool("book", "Books.", schema.clone(), |_, _| async { Ok("booked") });
    let words = "A place. Give exactly one of these sets of arguments: city; code.";
    let shown = json!({"type": "object", "properties": properties, "description": words});
    assert_eq!(*tool().spec().schema, shown);
    assert_eq!(answer(json!({"code": "TO"}), tool()).await, "result: booked");
    assert!(answer(json!({}), tool()).await.starts_with("error: Error: bad arguments for book: {} is not valid"));
}

#[tokio::test]
async fn a_long_invalid_value_is_not_repeated_to_the_model() {
    let notes = Notes::default();
    let long = json!({"city": ["x".repeat(10_000)], "nights": 1});
    for line in [answer(long.clone(), typed(&notes)).await, answer(long, untyped(&notes)).await] {
        assert!(line.contains(r#"what was given is not of type "string" at `/city`"#), "{line}");
    }
}

#[tokio::test]
async fn of_very_many_problems_only_the_first_are_shown_to_the_model() {
    let schema = json!({"type": "object", "properties": {"nights": {"type": "array", "items": {"type": "integer"}}}});
    let tool = json_tool("book", "Books.", schema, |_args, _cx| async { Ok("booked") });
    let line = answer(json!({"nights": vec!["x"; 1_000]}), tool).await;
    assert!(
        line.contains(r#""x" is not of type "integer" at `/nights/0`"#) && line.contains("; and 980 more"),
        "{line}"
    );
    assert!(line.len() < 2_000, "{line}");
}

#[test]
fn an_unnamed_field_is_found_at_the_end_of_long_arguments() {
    let mail = json!({"allOf": [{"properties": {"to": {}}}, {"properties": {"text": {}}}]});
    let schema = json!({"properties": {"mails": {"items": mail}}});
    let mut mails = vec![json!({"to": "Ann", "text": "Hi."}); 1_000];
    assert_eq!(unnamed_fields(&schema, &json!({ "mails": mails })), None);
    mails.push(json!({"to": "Bob", "cc": "Ann"}));
    assert_eq!(unnamed_fields(&schema, &json!({ "mails": mails })).as_deref(), Some("`mails/1000/cc`"));
}

#[test]
fn the_schema_of_a_type_may_contain_that_of_another_type() {
    struct Booking;
    impl schemars::JsonSchema for Booking {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "Booking".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            let schema = json!({"type": "object", "properties": {"trip": *schema_of::<Trip>()}});
            schemars::Schema::try_from(schema).unwrap()
        }
    }
    let (done, schema) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(schema_of::<Booking>()));
    let schema = schema.recv_timeout(std::time::Duration::from_secs(30)).expect("the schema is not made");
    assert_eq!(schema["properties"]["trip"]["properties"]["nights"]["type"], "integer");
}

#[test]
fn a_type_without_fields_has_a_schema_that_providers_accept() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Nothing {}
    assert_eq!(*schema_of::<Nothing>(), json!({"type": "object", "properties": {}}));
}

#[tokio::test]
async fn a_tool_with_unit_arguments_accepts_an_empty_object() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Unit;
    assert_eq!(*schema_of::<()>(), json!({"type": "object", "properties": {}}));
    for args in [json!({}), json!({"unknown": true})] {
        let tool = tool_fn("book", "Books.", |(): (), _cx| async { Ok("booked") }).effect(Effect::Read);
        assert_eq!(answer(args.clone(), tool).await, "result: booked");
        let tool = tool_fn("book", "Books.", |_: Unit, _cx| async { Ok("booked") });
        assert_eq!(answer(args, tool).await, "result: booked");
    }
    let tool = tool_fn("book", "Books.", |(): (), _cx| async { Ok("booked") });
    assert!(answer(json!([1]), tool).await.starts_with("error: "));
}

#[test]
fn non_object_argument_types_are_a_build_error_that_names_the_remedy() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[allow(dead_code, reason = "only its schema is of interest")]
    enum Colour {
        Red,
        Blue,
    }
    fn refused<A>() -> String
    where
        A: serde::de::DeserializeOwned + schemars::JsonSchema + Send + 'static,
    {
        let tool = tool_fn("paint", "Paints.", |_: A, _cx| async { Ok("painted") });
        agent(ScriptedModel::new([])).tool(tool).build().unwrap_err().to_string()
    }
    for error in
        [refused::<String>(), refused::<Colour>(), refused::<Vec<Trip>>(), refused::<Option<Trip>>(), refused::<u32>()]
    {
        assert!(error.contains("`paint`") && error.contains("fields of a struct"), "{error}");
    }
}

#[tokio::test]
async fn object_argument_types_without_fields_of_their_own_are_accepted() {
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    #[allow(dead_code, reason = "only read from JSON")]
    enum Place {
        City { name: String },
        Home,
    }
    let any = tool_fn("book", "Books.", |args: Value, _cx| async move { Ok(args.to_string()) });
    assert_eq!(answer(json!({"a": 1}), any).await, r#"result: {"a":1}"#);
    let map = tool_fn("book", "Books.", |args: std::collections::BTreeMap<String, u32>, _cx| async move {
        Ok(args["a"].to_string())
    });
    assert_eq!(answer(json!({"a": 1}), map).await, "result: 1");
    let tagged = tool_fn("book", "Books.", |place: Place, _cx| async move {
        Ok(match place {
            Place::City { name } => name,
            Place::Home => "home".to_owned(),
        })
    });
    assert_eq!(answer(json!({"kind": "city", "name": "Turin"}), tagged).await, "result: Turin");
}

/// Provides a tool.
struct Brings(&'static str, &'static str);
impl Middleware for Brings {
    fn name(&self) -> &str {
        self.0
    }
    fn tools(&self) -> Vec<Arc<dyn DynTool>> {
        let says = self.0;
        vec![Arc::new(tool(self.1, move |_, _| async move { Ok(format!("of {says}")) }))]
    }
}

#[tokio::test]
async fn a_callers_tool_replaces_a_middlewares_tool_of_the_same_name() {
    let model = ScriptedModel::new([Turn::call("ls", json!({})), Turn::text("done")]);
    let agent = agent(model)
        .tool(tool("ls", |_, _| async { Ok("of the caller") }))
        .middleware(Brings("Files", "ls"))
        .build()
        .unwrap();
    assert_eq!(agent.tools().len(), 1);
    let outcome = agent.invoke("go").await.unwrap();
    assert_eq!(lines(outcome.messages())[2], "result: of the caller");
}

#[test]
fn two_tools_with_one_name_are_a_build_error_that_names_their_sources() {
    let twice = agent(ScriptedModel::new([]))
        .tool(tool("ls", |_, _| async { Ok("") }))
        .tool(tool("ls", |_, _| async { Ok("") }))
        .build();
    assert!(matches!(twice.unwrap_err(), BuildError::ToolTwice { name, .. } if name == "ls"));
    let twice = agent(ScriptedModel::new([])).middleware(Brings("A", "ls")).middleware(Brings("B", "ls")).build();
    let error = twice.unwrap_err().to_string();
    assert!(error.contains("middleware `A`") && error.contains("middleware `B`"), "{error}");
}

#[test]
fn tools_that_providers_reject_are_build_errors() {
    for name in ["", "a b", "é", &"x".repeat(65)] {
        let built = agent(ScriptedModel::new([])).tool(tool(name, |_, _| async { Ok("") })).build();
        assert!(matches!(built.unwrap_err(), BuildError::Tool(ToolSetError::Name(_))), "{name}");
    }
    let list = json_tool("list", "", json!({"type": "array"}), |_, _| async { Ok::<_, ToolError>("") });
    let built = agent(ScriptedModel::new([])).tool(list).build();
    assert!(matches!(built.unwrap_err(), BuildError::Tool(ToolSetError::Schema(name)) if name == "list"));
}

#[tokio::test]
async fn too_deeply_nested_arguments_get_an_error_result() {
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!({"a": inner}));
    for (levels, taken) in [(64, true), (65, false), (127, false)] {
        let mut args = nested(levels);
        let model = ScriptedModel::new([Turn::call("echo", std::mem::take(&mut args)), Turn::text("done")]);
        let journal = MemoryJournal::new();
        let agent = agent(model).tool(tool("echo", |_, _| async { Ok("taken") })).journal(journal).build().unwrap();
        let outcome = agent.invoke(RunInput::new("go").thread("t")).await.unwrap();
        let result = lines(outcome.messages()).remove(2);
        if taken {
            assert_eq!(result, "result: taken", "{levels}");
        } else {
            assert!(result.contains("they are nested more than 64 levels deep"), "{levels}: {result}");
        }
        let stored = encode(&Record::Update {
            update: RecordUpdate::Live(Update::message((*outcome.messages().get(1).unwrap().clone()).clone())),
        });
        decode("t", 0, &stored.unwrap()).unwrap();
    }
}
