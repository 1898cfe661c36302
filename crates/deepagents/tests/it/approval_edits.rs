//! What a person makes of a call in its place.

use deepagents::core::interrupt::DecisionError;
use deepagents::models::scripted::Turn;
use deepagents::{DecisionAuthor, DecisionRecord, RunInput};
use serde_json::json;

use crate::approval::{Office, edit, refused, send};
use crate::results;

#[tokio::test]
async fn an_edit_that_its_tool_does_not_take_is_refused_and_leaves_the_question_open() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let before = office.records().await.len();
    let wrong = [
        (edit("send", json!({"n": "one"})), "/n"),
        (edit("send", json!({})), "\"n\" is a required property"),
        (edit("send", json!({"n": 2, "cc": "b"})), "'cc' was unexpected"),
        (edit("other", json!({"m": 2})), "\"n\" is a required property"),
    ];
    for (decision, words) in wrong {
        let error = refused(office.answer(&[("0.0", decision)]).await);
        assert!(
            matches!(&error, DecisionError::Arguments { id, why } if id == "0.0" && why.contains(words)),
            "{error}"
        );
    }
    assert_eq!((office.records().await.len(), office.made().len()), (before, 0), "nothing was stored or made");
    let done = office.answer(&[("0.0", edit("send", json!({"n": 2})))]).await.unwrap();
    assert_eq!((done.text().as_str(), office.made()), ("Done.", vec!["send 2".to_owned()]));
}

#[tokio::test]
async fn an_edit_may_keep_an_argument_of_the_models_that_the_tool_does_not_name() {
    let office = Office::new([Turn::call("send", json!({"n": 1, "cc": "b"})), Turn::text("Done.")]);
    office.go().await;
    office.answer(&[("0.0", edit("send", json!({"n": 2, "cc": "b"})))]).await.unwrap();
    assert_eq!(office.made(), ["send 2"]);
}

#[tokio::test]
async fn what_a_rule_has_edited_wrongly_is_told_to_the_model_as_nobody_is_there_to_put_it_right() {
    let office = Office::new([Turn::calls([send(1)]), Turn::text("Done.")]);
    office.go().await;
    let hook = DecisionAuthor::Rule { text: "a hook".to_owned() };
    let decided = DecisionRecord::new(edit("send", json!({"n": "one"})), hook);
    let done = office.agent().invoke(RunInput::resume("t").decide("0.0", decided)).await.unwrap();
    assert_eq!((done.text().as_str(), office.made().len()), ("Done.", 0));
    assert!(results(&done)[0].0.contains("send does not take these arguments"), "{:?}", results(&done));
}
