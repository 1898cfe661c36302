//! Hooks on threads that are rewound.

use deepagents::models::scripted::{ScriptedModel, Turn};
use deepagents::{Decision, FinishReason, InterruptOn, InterruptPolicy, RunInput};
use serde_json::json;

use crate::hooks::{Place, answering, at, specific};
use crate::results;

#[tokio::test]
async fn what_hooks_said_of_calls_holds_where_the_thread_goes_back_and_the_turn_is_gone_on_with() {
    let place = Place::new();
    let changed = json!({"file_path": place.path("a.txt"), "content": "safe"});
    let changes = answering(&specific("PreToolUse", &json!({"updatedInput": changed})));
    let denies =
        answering(&specific("PreToolUse", &json!({"permissionDecision": "deny", "permissionDecisionReason": "no"})));
    let mut hooks = at("PreToolUse", &[]);
    hooks["PreToolUse"] = json!([
        {"matcher": "Write", "hooks": [{"type": "command", "command": changes}]},
        {"matcher": "delete", "hooks": [{"type": "command", "command": denies}]},
    ]);
    std::fs::write(place.path("b.txt"), "kept").unwrap();
    let calls = [
        ("write_file", json!({"file_path": "/a.txt", "content": "dangerous"})),
        ("delete", json!({"file_path": "/b.txt"})),
    ];
    let model = ScriptedModel::new([Turn::calls(calls), Turn::text("Done."), Turn::text("Again.")]);
    let asks = InterruptPolicy::new().before("write_file", InterruptOn::any());
    let agent = place.agent(&model, &hooks).interrupt_on(asks).build().unwrap();
    let waiting = agent.invoke(RunInput::new("Go.").thread("t")).await.unwrap();
    assert_eq!(waiting.stop, FinishReason::Interrupted);
    let here = agent.history("t", None, 1).await.unwrap()[0].position;
    let question = waiting.action_requests().remove(0);
    assert_eq!(question.args["content"], "safe");
    let done = agent.invoke(RunInput::resume("t").decide(&question.id, Decision::Approve)).await.unwrap();
    assert_eq!((done.text().as_str(), place.read("a.txt").as_str()), ("Done.", "safe"));
    std::fs::remove_file(place.path("a.txt")).unwrap();
    let back = agent.invoke(RunInput::resume("t").at(here)).await.unwrap();
    let question = back.action_requests().remove(0);
    let again = agent.invoke(RunInput::resume("t").decide(&question.id, Decision::Approve)).await.unwrap();
    assert_eq!((again.text().as_str(), place.read("a.txt").as_str()), ("Again.", "safe"));
    assert_eq!(place.read("b.txt"), "kept", "{:?}", results(&again));
}
