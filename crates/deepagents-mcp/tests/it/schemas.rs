//! Tool schemas. Providers refuse a whole request if one of its schemas is invalid.

use deepagents_core::event::MiddlewareEvent;
use deepagents_models::scripted::Turn;
use serde_json::{Value, json};

use crate::script::{Script, agent, alone, echo, offered, one_call, results, run, text};

fn tool(name: &str, schema: &Value) -> Value {
    json!({"name": name, "description": "Does it.", "inputSchema": schema})
}

/// Returns the argument schema and description that the model gets for the only tool.
async fn told(schema: Value) -> (Value, String) {
    let script = Script::new(&[tool("it", &schema)], text("fine"));
    let servers = alone(script.config());
    servers.ready().await;
    let spec = servers.tools().get("mcp__alpha__it").map(|tool| tool.spec());
    servers.close().await;
    let spec = spec.unwrap_or_else(|| panic!("{:?}", servers.status()));
    (Value::clone(&spec.schema), spec.description)
}

#[tokio::test]
async fn a_tool_that_providers_reject_is_left_out_and_named_and_the_others_remain() {
    let mut deep = json!({"type": "string"});
    for _ in 0..70 {
        deep = json!({"type": "object", "properties": {"d": deep}});
    }
    let property = |schema: Value| json!({"type": "object", "properties": {"n": schema}});
    let odd = [
        ("kind", property(json!({"type": "strng"})), "strng"),
        ("required", json!({"type": "object", "required": "n"}), "required"),
        ("listed", json!({"type": "object", "properties": [1]}), "properties"),
        ("dangling", property(json!({"$ref": "#/$defs/none"})), "#/$defs/none"),
        ("deep", deep, "levels"),
        ("long", property(json!({"description": "x".repeat(100_000)})), "bytes"),
        ("bound", json!({"type": "object", "properties": {"a b": {}}, "dependentRequired": {"a b": ["c"]}}), "a b"),
    ];
    let mut tools: Vec<Value> = odd.iter().map(|(name, schema, _)| tool(name, schema)).collect();
    tools.push(echo());
    let script = Script::new(&tools, text("fine"));
    let servers = alone(script.config());
    let (agent, model) = agent(&servers, one_call("echo", json!({})));
    let (outcome, events) = run(&agent, "Go.").await;
    servers.close().await;
    assert_eq!(offered(&model, 0), ["mcp__alpha__echo"]);
    assert_eq!(results(&outcome), [("fine".to_owned(), false)]);
    let problems: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            MiddlewareEvent::McpServer { problem, .. } => problem.as_ref(),
            _ => None,
        })
        .collect();
    assert_eq!(problems.len(), odd.len(), "{problems:?}");
    for ((name, _, why), problem) in odd.iter().zip(&problems) {
        assert!(problem.contains(&format!("tool {name} is left out")) && problem.contains(why), "{problem}");
    }
}

#[tokio::test]
async fn a_valid_schema_is_kept_unchanged() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}, "default": [{"minimum": 1, "exclusiveMinimum": true}]},
            "of-it.all_1": {"anyOf": [{"type": "string", "pattern": "^a+$"}, {"type": "null"}], "exclusiveMinimum": 3},
            "far": {"$ref": "https://example.com/schema.json"},
        },
        "required": ["items"],
        "additionalProperties": false,
        "$defs": {"item": {"type": "object", "properties": {"next": {"$ref": "#/$defs/item"}}}},
    });
    assert_eq!(told(schema.clone()).await, (schema, "Does it.".to_owned()));
}

#[tokio::test]
async fn schemas_of_older_drafts_are_converted_to_the_current_one() {
    let older = json!({
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": ["object", "null"],
        "properties": {
            "n": {"type": "number", "minimum": 0, "exclusiveMinimum": true, "maximum": 9, "exclusiveMaximum": false},
            "pair": {"type": "array", "items": [{"type": "string"}, {"type": "number"}], "additionalItems": false},
            "odd": {"type": "string", "pattern": "(?<=a)[[:x"},
            "empty": {"type": "object", "properties": []},
        },
    });
    let present = json!({
        "type": "object",
        "properties": {
            "n": {"type": "number", "exclusiveMinimum": 0, "maximum": 9},
            "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": false},
            "odd": {"type": "string"},
            "empty": {"type": "object", "properties": {}},
        },
    });
    assert_eq!(told(older).await.0, present);
}

#[tokio::test]
async fn a_schema_combination_becomes_one_object_and_the_choice_is_described() {
    let by = |name: &str| json!({"properties": {name: {"type": "string"}, "kind": {"const": name}}, "required": [name, "kind"]});
    let choice = json!({"properties": {"size": {"type": "integer"}}, "required": ["size"], "oneOf": [by("a"), by("b"), {"type": "null"}]});
    let (schema, words) = told(choice).await;
    let kinds = json!({"anyOf": [{"const": "a"}, {"const": "b"}]});
    let properties =
        json!({"size": {"type": "integer"}, "a": {"type": "string"}, "kind": kinds, "b": {"type": "string"}});
    assert_eq!(schema, json!({"properties": properties, "required": ["size", "kind"], "type": "object"}));
    assert_eq!(words, "Does it.\n\nGive exactly one of these sets of arguments: a, kind \"a\"; b, kind \"b\".");

    let both =
        json!({"allOf": [{"required": ["a", "b"]}, {"required": ["a"], "properties": {"a": {"type": "string"}}}]});
    assert_eq!(told(both).await.0["required"], json!(["a", "b"]));
    // A recursive schema is expanded to a limited depth.
    let itself = json!({"$ref": "#/$defs/A"});
    let choice = json!({"$ref": "#/$defs/A", "$defs": {"A": {"anyOf": vec![itself; 16], "properties": {"n": {}}}}});
    assert_eq!(told(choice).await.0["properties"], json!({"n": {}}));

    let reference =
        json!({"$ref": "#/$defs/X", "$defs": {"X": {"type": "object", "allOf": [by("a"), {"required": ["c"]}]}}});
    let (schema, words) = told(reference).await;
    assert_eq!((&schema["type"], &schema["required"]), (&json!("object"), &json!(["a", "kind", "c"])));
    assert_eq!(schema["properties"], json!({"a": {"type": "string"}, "kind": {"const": "a"}}));
    assert!(["$ref", "allOf"].iter().all(|key| schema.get(key).is_none()) && words == "Does it.", "{schema} {words}");
}

#[tokio::test]
async fn argument_names_are_made_legal_and_translated_back_for_the_server() {
    let long = "x".repeat(80);
    let properties = json!({
        "$filter": {"type": "string", "description": "What to keep"}, "_filter": {}, "größe!": {"type": "integer"}, &long: true,
    });
    let schema = json!({"type": "object", "properties": properties, "required": ["_filter", "$filter"]});
    let script = Script::new(&[tool("it", &schema)], text("fine"));
    let servers = alone(script.config());
    let args = json!({"_filter_2": "a", "_filter": "b", "gr__e_": 3, "x".repeat(64): 4});
    let (agent, model) = agent(&servers, [Turn::call("mcp__alpha__it", args), Turn::text("Done.")]);
    run(&agent, "Go.").await;
    servers.close().await;
    let schema = Value::clone(&model.requests()[0].tools[0].schema);
    assert_eq!(schema["required"], json!(["_filter", "_filter_2"]));
    assert_eq!(schema["properties"]["_filter_2"], json!({"type": "string", "description": "`$filter`: What to keep"}));
    let sent = std::fs::read_to_string(script.file("sent")).unwrap();
    let call = sent.lines().find(|line| line.contains("tools/call")).unwrap();
    let call: Value = serde_json::from_str(call).unwrap();
    assert_eq!(call["params"]["arguments"], json!({"$filter": "a", "_filter": "b", "größe!": 3, &long: 4}));
}

#[tokio::test]
async fn a_too_deeply_nested_schema_does_not_affect_the_other_tools() {
    let mut deep = "{}".to_owned();
    for _ in 0..120 {
        deep = format!("{{\"type\":\"object\",\"properties\":{{\"d\":{deep}}}}}");
    }
    let script = Script::new(&[echo()], text("fine"));
    let config = script.config();
    let list = format!("[{{\"name\":\"deep\",\"inputSchema\":{deep}}},{}]", echo());
    std::fs::write(script.file("tools.json"), list).unwrap();
    let servers = alone(config);
    servers.ready().await;
    let names: Vec<String> = servers.tools().names().map(str::to_owned).collect();
    servers.close().await;
    assert_eq!(names, ["mcp__alpha__echo"]);
}
