//! Random keys, pastes, sizes and model responses must not break the screens.

use std::time::{Duration, Instant};

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use deepagents::models::scripted::Turn;
use deepagents_tui::Mode;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};
use serde_json::json;

use crate::world::World;

#[derive(Clone, Debug)]
enum Action {
    Key(KeyCode, KeyModifiers),
    Type(String),
    Paste(String),
    Resize(u16, u16),
}

/// Complete commands to type.
const COMMANDS: [&str; 18] = [
    "/help",
    "/threads",
    "/rewind",
    "/theme light",
    "/clear",
    "/cost",
    "/model",
    "/todos",
    "/undo",
    "/redo",
    "/auth",
    "/effort",
    "/theme",
    "/tree",
    "/context",
    "/export html",
    "/plan",
    "/fix 1",
];

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
        KeyCode::Char('p'),
        KeyCode::Char('r'),
        KeyCode::Char('2'),
        KeyCode::Char(' '),
        KeyCode::Char('/'),
        KeyCode::Char('@'),
    ]);
    let modified = prop::sample::select("abefghjkloruwy".chars().collect::<Vec<_>>());
    prop_oneof![
        4 => codes.prop_map(|code| Action::Key(code, KeyModifiers::NONE)),
        2 => modified.clone().prop_map(|c| Action::Key(KeyCode::Char(c), KeyModifiers::CONTROL)),
        1 => modified.prop_map(|c| Action::Key(KeyCode::Char(c), KeyModifiers::ALT)),
        2 => "[a-z /@漢é🚀\u{301}]{0,12}".prop_map(Action::Type),
        1 => prop::sample::select(COMMANDS.to_vec()).prop_map(|command| Action::Type(command.to_owned())),
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
        .map(|(at, text)| match at % 5 {
            0 => call("write_file", json!({"file_path": "/made.txt", "content": text})),
            1 => call("execute", json!({"command": format!("echo {at}")})),
            2 => call("edit_file", json!({"file_path": "/notes.txt", "old_string": "beta", "new_string": text})),
            3 => {
                let choices = [format!("{text}a"), format!("{text}b")];
                call("ask_user", json!({"question": format!("{text}?"), "choices": choices, "several": at > 5}))
            }
            _ => Turn::text(text),
        })
        .collect()
}

/// The input, the model's text in each turn, and its first response.
fn scene() -> impl Strategy<Value = (Vec<Action>, Vec<String>, String)> {
    (prop::collection::vec(step(), 1..60), prop::collection::vec(any::<String>(), 0..12), "(\\PC|\n|[*_`#|>-]){0,400}")
}

/// Plays a scene. It must not panic, show a control character or exceed the height of the screen, and the cursor must
/// be on drawn content.
fn play((steps, texts, answer): (Vec<Action>, Vec<String>, String)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        let mut all = vec![Turn::text(answer)];
        all.extend(turns(texts));
        let mut world = World::new(all);
        world.preferences.vi = steps.len().is_multiple_of(3);
        world.preferences.screen_reader = steps.len().is_multiple_of(5);
        let mut screens = world.screens(Mode::Ask);
        let mut height = 24;
        for step in steps {
            match step {
                Action::Key(code, modifiers) => screens.event(Event::Key(KeyEvent::new(code, modifiers))).await,
                Action::Type(text) => screens.type_text(&text).await,
                Action::Paste(text) => screens.event(Event::Paste(text)).await,
                Action::Resize(columns, rows) => {
                    height = usize::from(rows.max(1));
                    screens.event(Event::Resize(columns, rows)).await;
                }
            }
            let (live, cursor) = (screens.live(), screens.cursor());
            assert!(
                live.len() <= height && cursor.is_none_or(|(_, y)| usize::from(y) < live.len()),
                "{cursor:?} {live:?}"
            );
            let text = screens.text();
            assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        }
    });
    runtime.shutdown_background();
}

/// Plays scenes generated from a seed.
fn play_seed(seed: u64, cases: u32) {
    let config = ProptestConfig {
        cases,
        max_shrink_iters: 40,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let played = TestRunner::new(config).run(&scene(), |scene| {
        play(scene);
        Ok(())
    });
    played.unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
}

#[test]
fn no_key_resize_or_response_breaks_the_screens() {
    play_seed(15, 48);
}

#[test]
#[ignore = "it takes a minute, or as many seconds as FUZZ_SECONDS says"]
fn no_key_resize_or_response_breaks_the_screens_in_a_minute() {
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|seconds| seconds.parse().ok()).unwrap_or(60);
    let end = Instant::now() + Duration::from_secs(seconds);
    for seed in 0.. {
        if Instant::now() > end {
            break;
        }
        play_seed(seed, 4);
    }
}
