//! Random keys, pastes, sizes and answers: nothing of it may break the screens.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;
use proptest::prelude::*;
use serde_json::json;

use crate::world::World;

#[derive(Clone, Debug)]
enum Action {
    Key(KeyCode, KeyModifiers),
    Type(String),
    Paste(String),
    Resize(u16, u16),
}

fn step() -> impl Strategy<Value = Action> {
    let codes = prop::sample::select(vec![
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::Left,
        KeyCode::Right,
        KeyCode::Home,
        KeyCode::End,
        KeyCode::PageUp,
        KeyCode::PageDown,
        KeyCode::Backspace,
        KeyCode::Delete,
        KeyCode::Char('y'),
        KeyCode::Char('n'),
        KeyCode::Char('e'),
        KeyCode::Char('f'),
        KeyCode::Char('/'),
        KeyCode::Char('@'),
    ]);
    let modified = prop::sample::select("abefghjkloruwy".chars().collect::<Vec<_>>());
    prop_oneof![
        4 => codes.prop_map(|code| Action::Key(code, KeyModifiers::NONE)),
        2 => modified.clone().prop_map(|c| Action::Key(KeyCode::Char(c), KeyModifiers::CONTROL)),
        1 => modified.prop_map(|c| Action::Key(KeyCode::Char(c), KeyModifiers::ALT)),
        2 => "[a-z /@漢é🚀\u{301}]{0,12}".prop_map(Action::Type),
        1 => prop::sample::select(vec!["/help", "/threads", "/rewind", "/theme light", "/clear", "/cost", "/model", "/todos"])
            .prop_map(|command| Action::Type(command.to_owned())),
        1 => any::<String>().prop_map(Action::Paste),
        1 => (0_u16..120, 0_u16..50).prop_map(|(columns, rows)| Action::Resize(columns, rows)),
        1 => (0_u16..6, 0_u16..6).prop_map(|(columns, rows)| Action::Resize(columns, rows)),
    ]
}

fn turns(texts: Vec<String>) -> Vec<Turn> {
    let call = |name: &str, args| Turn::call(name, args);
    texts
        .into_iter()
        .enumerate()
        .map(|(at, text)| match at % 4 {
            0 => call("write_file", json!({"file_path": "/made.txt", "content": text})),
            1 => call("execute", json!({"command": format!("echo {at}")})),
            2 => call("edit_file", json!({"file_path": "/notes.txt", "old_string": "beta", "new_string": text})),
            _ => Turn::text(text),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn no_key_size_or_answer_breaks_the_screens(
        steps in prop::collection::vec(step(), 1..60),
        texts in prop::collection::vec(any::<String>(), 0..12),
        answer in "(\\PC|\n|[*_`#|>-]){0,400}",
    ) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let mut all = vec![Turn::text(answer)];
            all.extend(turns(texts));
            let world = World::new(all);
            let mut screens = world.screens(Mode::Ask);
            for step in steps {
                match step {
                    Action::Key(code, modifiers) => screens.event(Event::Key(KeyEvent::new(code, modifiers))).await,
                    Action::Type(text) => screens.type_text(&text).await,
                    Action::Paste(text) => screens.event(Event::Paste(text)).await,
                    Action::Resize(columns, rows) => screens.event(Event::Resize(columns, rows)).await,
                }
                let text = screens.text();
                assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
            }
        });
        runtime.shutdown_background();
    }
}
