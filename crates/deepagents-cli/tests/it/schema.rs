//! An answer in the shape of a schema.

use std::fs;

use serde_json::{Value, json};

use crate::program::{finish, run};
use crate::server::{Reply, Server};

#[test]
fn an_answer_in_the_shape_of_a_schema_is_printed_as_json_alone() {
    let server = Server::start([Reply::Call("answer", json!({"quality": "good", "faults": 0}))]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("schema.json");
    let schema = json!({
        "type": "object",
        "properties": {"quality": {"type": "string"}, "faults": {"type": "integer"}},
        "required": ["quality", "faults"],
    });
    fs::write(&file, schema.to_string()).unwrap();
    let finished = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&file).arg("Judge"));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let answer: Value = serde_json::from_str(&finished.out).unwrap();
    assert_eq!(answer, json!({"quality": "good", "faults": 0}));
    for (text, why) in [("{", "is no JSON"), ("{\"type\": \"string\"}", "no schema of an object")] {
        fs::write(&file, text).unwrap();
        let refused = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&file).arg("Judge"));
        assert!(refused.wrong_usage().contains(why), "{refused:?}");
    }
    let missing = dir.path().join("missing.json");
    let refused = finish(run(dir.path(), &server.address).arg("--json-schema").arg(&missing).arg("Judge"));
    assert!(refused.wrong_usage().contains("cannot be read"), "{refused:?}");
}
