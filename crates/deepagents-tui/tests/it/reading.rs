//! A question is answered with yes only once the whole call has been on the screen.

use deepagents::models::scripted::Turn;
use deepagents_tui::{Headless, Mode};
use serde_json::json;

use crate::world::{World, say};

/// A command of so many lines, the last of which leaves a file.
fn long_command(lines: usize) -> Turn {
    let said: String = (1..lines).map(|line| format!("echo line {line}\n")).collect();
    Turn::call("execute", json!({"command": format!("{said}touch end.txt")}))
}

async fn asked(world: &World) -> Headless {
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_until_live("y yes").await, "{:?}", screens.live());
    screens
}

#[tokio::test]
async fn the_first_key_that_agrees_to_a_long_command_shows_all_of_it() {
    for key in ["y", "enter", "a", "p", "e"] {
        let world = World::new([long_command(30), Turn::text("It ran.")]);
        let mut screens = asked(&world).await;
        let live = screens.live().join("\n");
        assert!(live.contains("of 31 (y or Ctrl+O shows all)") && !live.contains("touch end.txt"), "{live}");
        screens.press(key).await.unwrap();
        let live = screens.live().join("\n");
        assert!(live.contains("$ echo line 1") && live.contains("more below (y, PgDn)"), "{key}: {live}");
        assert!(!world.has("end.txt") && world.remembered.lock().unwrap().is_empty());
        // The next one shows the rest, and only then is a yes accepted.
        screens.press("y").await.unwrap();
        let live = screens.live().join("\n");
        assert!(
            live.contains("touch end.txt") && !live.contains("more below") && !world.has("end.txt"),
            "{key}: {live}"
        );
        screens.press("y").await.unwrap();
        assert!(screens.wait_for("It ran.").await && world.has("end.txt"), "{}", screens.text());
    }
}

#[tokio::test]
async fn a_command_read_to_its_end_is_agreed_to_at_the_question_too() {
    let world = World::new([long_command(60), Turn::text("It ran.")]);
    let mut screens = asked(&world).await;
    // Half of it is not all of it.
    screens.press("ctrl-o pgdn esc y").await.unwrap();
    assert!(screens.live().join("\n").contains("$ echo line 1") && !world.has("end.txt"), "{:?}", screens.live());
    screens.press("pgdn pgdn pgdn esc").await.unwrap();
    let live = screens.live().join("\n");
    assert!(live.contains("of 61 (Ctrl+O shows all)") && live.contains("y yes"), "{live}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("It ran.").await && world.has("end.txt"), "{}", screens.text());
}

#[tokio::test]
async fn a_no_needs_no_reading() {
    let world = World::new([long_command(60), Turn::text("I did not.")]);
    let mut screens = asked(&world).await;
    screens.press("n").await.unwrap();
    assert!(screens.wait_for("I did not.").await && !world.has("end.txt"), "{}", screens.text());
}

#[tokio::test]
async fn a_larger_window_shows_the_whole_call_and_one_key_agrees() {
    let world = World::new([long_command(30), Turn::text("It ran.")]);
    let mut screens = asked(&world).await;
    screens.resize(100, 50).await;
    assert!(screens.live().join("\n").contains("touch end.txt"), "{:?}", screens.live());
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("It ran.").await && world.has("end.txt"), "{}", screens.text());
}

#[tokio::test]
async fn each_question_of_a_turn_is_read_by_itself_and_so_are_all_together() {
    let long = |file: &str| {
        let said: String = (1..30).map(|line| format!("echo line {line}\n")).collect();
        ("execute", json!({"command": format!("{said}touch {file}")}))
    };
    let world = World::new([Turn::calls([long("a"), long("b"), long("c")]), Turn::text("All ran.")]);
    let mut screens = asked(&world).await;
    screens.press("y y y").await.unwrap();
    assert!(screens.live().join("\n").contains("(2 of 3)"), "{:?}", screens.live());
    screens.press("t y").await.unwrap();
    assert!(screens.live().join("\n").contains("more below"), "{:?}", screens.live());
    screens.press("y y").await.unwrap();
    let live = screens.live().join("\n");
    assert!(live.contains("All 2 of them?") && live.contains("touch c") && !live.contains("more below"), "{live}");
    screens.press("y").await.unwrap();
    assert!(screens.wait_for("All ran.").await && ["a", "b", "c"].iter().all(|file| world.has(file)));
}

#[tokio::test]
async fn a_low_window_names_the_file_and_shows_its_whole_path_before_a_yes() {
    let path = "/deep/er/path/to/some/long/file/name/which/is/long.txt";
    let inside = path.trim_start_matches('/');
    for size in [(60, 10), (40, 10), (40, 12), (30, 8)] {
        for what in ["write_file", "edit_file"] {
            let change = json!({"file_path": path, "content": "a\nb\nc\n", "old_string": "x", "new_string": "y"});
            let world = World::new([
                Turn::call("read_file", json!({"file_path": path})),
                Turn::call(what, change),
                Turn::text("End."),
            ]);
            std::fs::create_dir_all(world.dir.path().join(inside).parent().unwrap()).unwrap();
            if what == "edit_file" {
                std::fs::write(world.dir.path().join(inside), "x\n").unwrap();
            }
            let mut screens = world.screens(Mode::Ask);
            screens.resize(size.0, size.1).await;
            say(&mut screens, "go").await;
            assert!(screens.wait_until_live("long.txt?").await, "{size:?}: {:?}", screens.live());
            let live = screens.live().join("\n");
            assert!(
                live.contains("? New file /") || live.contains("? Change /") || live.contains("new file"),
                "{live}"
            );
            screens.press("y").await.unwrap();
            let shown: String = screens.live().iter().map(|line| line.trim()).collect();
            if size.0 < 60 {
                assert!(shown.contains(path), "{size:?}: {shown}");
            }
            for _ in 0..50 {
                if screens.text().contains("End.") || !screens.live().join("\n").contains("more below") {
                    break;
                }
                screens.press("y").await.unwrap();
            }
            screens.press("y").await.unwrap();
            assert!(screens.wait_for("End.").await, "{size:?}: {}", screens.text());
            let now = std::fs::read_to_string(world.dir.path().join(inside)).unwrap();
            assert_eq!(now, if what == "edit_file" { "y\n" } else { "a\nb\nc\n" }, "{size:?}");
        }
    }
}
