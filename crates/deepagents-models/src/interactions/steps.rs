//! Converts steps of an interaction to blocks.

use deepagents_core::message::{Block, Reasoning, Text};
use serde_json::{Map, Value};

use crate::args::{self, InvalidArgs};
use crate::blocks::{call, native, provider_item};
use crate::exact;
use crate::json::text;

/// Converts a complete step.
pub(super) fn block(mut step: Map<String, Value>) -> Block {
    match text(step.get("type")) {
        "model_output" => Block::Text(Text { text: words(&step, "content"), native: native(step) }),
        "thought" => Block::Reasoning(Reasoning { text: words(&step, "summary"), native: native(step) }),
        "function_call" => {
            let [id, name] = ["id", "name"].map(|key| text(step.get(key)).to_owned());
            let args = match step.get("arguments") {
                Some(field @ Value::String(raw)) if exact::read(field).is_none() => {
                    Err(InvalidArgs { raw: raw.clone(), error: "the arguments are not valid JSON".to_owned() })
                }
                field => args::from_field(field),
            };
            if args.is_err() {
                // The API requires an object.
                step.insert("arguments".to_owned(), Value::Object(Map::new()));
            }
            call(id, name, args, native(step))
        }
        _ => provider_item(Value::Object(step)),
    }
}

/// Returns the texts of a step's parts.
fn words(step: &Map<String, Value>, field: &str) -> String {
    let parts = step.get(field).and_then(Value::as_array).into_iter().flatten();
    parts.filter_map(|part| part.get("text")?.as_str()).collect()
}
