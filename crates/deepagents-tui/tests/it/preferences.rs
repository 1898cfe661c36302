//! Preferences: keys, vi mode, themes, words instead of symbols, custom commands.

use deepagents::channels::TodoStatus;
use deepagents::models::scripted::Turn;
use deepagents_tui::{Headless, Mode, Notifications, Preferences, UserTheme, check_key};
use serde_json::json;

use crate::world::{TIMEOUT, World, say};

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
}

#[tokio::test]
async fn a_remapped_key_works_and_its_default_no_longer_does() {
    let mut world = World::new([]);
    world.preferences.keys = pairs(&[("mode", "f2"), ("details", "ctrl-t"), ("fly", "ctrl-x"), ("stop", "hyper")]);
    let mut screens = world.screens(Mode::Ask);
    screens.press("shift-tab").await.unwrap();
    assert!(screens.live().join("\n").contains("ask ·"), "{:?}", screens.live());
    screens.press("f2").await.unwrap();
    assert!(screens.live().join("\n").contains("auto ·"), "{:?}", screens.live());
    let text = screens.text();
    assert!(text.contains("there is no action `fly`") && text.contains("`hyper` is not a valid key"), "{text}");
    assert!(check_key("ctrl-o").is_ok() && check_key("f13").is_err() && check_key("").is_err());
}

#[tokio::test]
async fn hints_show_the_remapped_keys() {
    let many = Turn::call("execute", json!({"command": "seq 100"}));
    let mut world = World::new([many, Turn::text("Done.")]);
    world.preferences.keys =
        pairs(&[("mode", "alt-m"), ("details", "ctrl-t"), ("stop", "f9"), ("search", "pgup"), ("quit", "alt-Q")]);
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "/keys").await;
    for line in ["Ctrl+J, Alt+Enter  ", "Ctrl+T  ", "F9  ", "PgUp  ", "Alt+Shift+Q  ", "Ctrl+G  "] {
        assert!(screens.text().contains(line), "{line}: {}", screens.text());
    }
    say(&mut screens, "/mode").await;
    assert!(screens.text().contains("ask; Alt+M switches to the next one"), "{}", screens.text());
    say(&mut screens, "count").await;
    assert!(screens.wait_for("F9 stop").await, "{}", screens.text());
    screens.press("f").await.unwrap();
    assert!(screens.live().join("\n").contains("F9 back"), "{:?}", screens.live());
    screens.press("f9 y").await.unwrap();
    assert!(screens.wait_for("Done.").await && screens.wait_idle().await, "{}", screens.text());
    assert!(screens.text().contains("more lines (Ctrl+T)"), "{}", screens.text());
    screens.press("ctrl-t").await.unwrap();
    assert!(screens.live().join("\n").contains("Ctrl+T back"), "{:?}", screens.live());
    screens.press("ctrl-t").await.unwrap();
    say(&mut screens, "/threads").await;
    assert!(screens.wait_until_live("PgUp rename · Ctrl+F fork · Alt+Shift+Q delete ·").await, "{:?}", screens.live());
    screens.press("f9").await.unwrap();
    let text = screens.text();
    assert!(!text.contains("Esc") && !text.contains("Ctrl+O") && !text.contains("Shift+Tab"), "{text}");
}

#[tokio::test]
async fn messages_can_be_edited_with_vi_keys() {
    let mut world = World::new([Turn::text("Yes.")]);
    world.preferences.vi = true;
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("one two three").await;
    screens.press("esc").await.unwrap();
    assert!(screens.live().join("\n").contains("NORMAL"), "{:?}", screens.live());
    for (keys, text) in [("0dw", "› two three"), ("u", "› one two three"), ("0wcw", "› one  three")] {
        screens.type_text(keys).await;
        assert!(screens.live().join("\n").contains(text), "{keys}: {:?}", screens.live());
    }
    screens.type_text("2").await;
    screens.press("esc").await.unwrap();
    screens.type_text("$xxA!").await;
    assert!(screens.live().join("\n").contains("› one 2 thr!"), "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    screens.type_text("0yyAend").await;
    screens.press("esc").await.unwrap();
    screens.type_text("p").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Yes.").await && screens.wait_idle().await);
    screens.type_text("given up").await;
    screens.press("esc ctrl-c").await.unwrap();
    screens.type_text("new").await;
    assert!(screens.live().join("\n").contains("› new"), "{:?}", screens.live());
    assert!(world.told().contains("one 2 thr!end\none 2 thr!"), "{}", world.told());
}

#[tokio::test]
async fn a_custom_theme_is_offered_and_its_errors_are_reported() {
    let mut world = World::new([]);
    let colours = pairs(&[("base", "light"), ("accent", "#ff00ff"), ("sparkle", "red"), ("bad", "reddish")]);
    world.preferences.themes = vec![UserTheme { name: "mine".to_owned(), colours }];
    world.preferences.theme = "nothing".to_owned();
    let mut screens = world.screens(Mode::Ask);
    screens.press("esc").await.unwrap();
    let text = screens.text();
    assert!(
        text.contains("there is no colour named `sparkle`") && text.contains("`reddish` is not a valid colour"),
        "{text}"
    );
    assert!(text.contains("there is no theme `nothing`"), "{text}");
    say(&mut screens, "/theme mine").await;
    say(&mut screens, "/theme").await;
    assert!(screens.live().join("\n").contains("your own · in use"), "{:?}", screens.live());
}

#[tokio::test]
async fn screen_reader_mode_uses_words_and_prints_each_answer_once() {
    let todos = json!({"todos": [
        {"content": "first", "status": TodoStatus::Completed},
        {"content": "second", "status": TodoStatus::Pending},
    ]});
    let mut world = World::new([Turn::call("write_todos", todos), Turn::text("All said.")]);
    world.preferences.screen_reader = true;
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "plan it").await;
    assert!(screens.wait_for("All said.").await && screens.wait_idle().await);
    say(&mut screens, "/todos").await;
    let text = screens.text();
    assert!(text.contains("You: plan it") && text.contains("Done: write_todos"), "{text}");
    assert!(text.contains("Done: first") && text.contains("Open: second") && !text.contains('☑'), "{text}");
}

#[tokio::test]
async fn a_command_supplies_the_status_line_and_another_is_notified() {
    // A failing command is reported with its exit code.
    let told = "grep -q '\"message\":\"execute waits for your decision\"' && exit 3; exit 4";
    let mut world = World::new([Turn::call("execute", json!({"command": "true"})), Turn::text("Yes.")]);
    world.preferences = Preferences {
        status_line: Some(
            "tr -d '\\n' | sed 's/.*\"mode\":\"\\([a-z]*\\)\".*/mode=\\1/'; printf '\\033[31mx'".to_owned(),
        ),
        notifications: Notifications { bell: true, terminal: true, command: Some(told.to_owned()) },
        ..Preferences::default()
    };
    let mut screens = world.screens(Mode::Ask);
    assert!(screens.wait_until_live("mode=ask").await, "{:?}", screens.live());
    screens.press("shift-tab").await.unwrap();
    assert!(screens.wait_until_live("mode=auto").await, "{:?}", screens.live());
    screens.press("shift-tab shift-tab").await.unwrap();
    say(&mut screens, "run it").await;
    assert!(screens.wait_for("notify.command: it ended with exit status: 3").await, "{}", screens.text());
}

#[tokio::test]
async fn one_status_line_command_runs_at_a_time_and_its_output_shows_at_once() {
    let mut world = World::new([]);
    // Ends when the file appears, and records whether another instance was running.
    let command = "mkdir lock || echo twice >> runs; echo run >> runs; echo line; while [ ! -e go ]; do sleep 0.01; done; rmdir lock";
    world.preferences.status_line = Some(command.to_owned());
    let mut screens = world.screens(Mode::Ask);
    assert!(screens.wait_until_live("line").await, "{:?}", screens.live());
    screens.press("shift-tab shift-tab shift-tab shift-tab").await.unwrap();
    std::fs::write(world.dir.path().join("go"), "").unwrap();
    let runs = || world.read("runs");
    let began = std::time::Instant::now();
    while runs().lines().count() < 2 && began.elapsed() < TIMEOUT {
        tokio::task::yield_now().await;
    }
    assert_eq!(runs(), "run\nrun\n");
}

#[tokio::test]
async fn a_command_is_shown_exactly_in_ascii_mode() {
    let mut world = World::new([Turn::call("execute", json!({"command": "rm -- \"é 漢\" ✓.txt"}))]);
    world.preferences.unicode = false;
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_for("rm -- \"<U+00E9> <U+6F22>\" <U+2713>.txt").await, "{}", screens.text());
}

#[tokio::test]
async fn screen_reader_mode_renders_tables_and_lists_as_words() {
    let text = "| name | size |\n|---|---|\n| a.txt | 3 |\n\n- first\n- second\n\n> said\n";
    let mut world = World::new([Turn::text(text)]);
    world.preferences.screen_reader = true;
    let mut screens = world.screens(Mode::Ask);
    say(&mut screens, "go").await;
    assert!(screens.wait_for("second").await && screens.wait_idle().await, "{}", screens.text());
    let text = screens.text();
    assert!(text.contains("name: a.txt; size: 3") && text.contains("- first") && text.contains("> said"), "{text}");
    assert!(!text.contains(['│', '┼', '•']), "{text}");
}

#[tokio::test]
async fn a_message_sent_before_a_model_is_chosen_waits_and_the_choice_is_offered() {
    let mut world = World::new([]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    screens.press("esc").await.unwrap();
    say(&mut screens, "hello there").await;
    assert!(screens.live().join("\n").contains("Which provider"), "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("starting"), "{:?}", screens.live());
    screens.press("esc").await.unwrap();
    assert!(screens.live().join("\n").contains("› hello there"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_list_longer_than_the_screen_shows_its_position_and_wraps_around() {
    let mut world = World::new([]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    screens.resize(80, 5).await;
    let live = |screens: &Headless| screens.live().join("\n");
    assert!(live(&screens).contains("1 of 3"), "{}", live(&screens));
    screens.press("up").await.unwrap();
    assert!(live(&screens).contains("3 of 3") && live(&screens).contains("acme"), "{}", live(&screens));
    screens.press("down").await.unwrap();
    assert!(live(&screens).contains("1 of 3") && live(&screens).contains("on this machine"), "{}", live(&screens));
    screens.press("pgup").await.unwrap();
    assert!(live(&screens).contains("1 of 3"), "{}", live(&screens));
}

#[tokio::test]
async fn providers_without_a_key_come_first_and_are_found_by_their_description() {
    let mut world = World::new([]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    let live = |screens: &Headless| screens.live().join("\n");
    let rows = live(&screens);
    let [local, demo, acme] = ["on this machine", "demonstration", "acme"].map(|words| rows.find(words).unwrap());
    assert!(local < demo && demo < acme, "{rows}");
    screens.type_text("ollama").await;
    assert!(live(&screens).contains("❯ a model on this machine"), "{}", live(&screens));
    screens.press("ctrl-u").await.unwrap();
    screens.type_text("acme_api").await;
    assert!(live(&screens).contains("❯ acme") && !live(&screens).contains("machine"), "{}", live(&screens));
}

#[tokio::test]
async fn a_key_is_entered_hidden_and_asked_for_again_if_wrong() {
    let mut world = World::new([]);
    world.onboarding = true;
    let mut screens = world.screens(Mode::Ask);
    screens.press("down down enter").await.unwrap();
    screens.type_text("wrong").await;
    assert!(
        screens.live().join("\n").contains("key: •••••") && !screens.text().contains("wrong"),
        "{}",
        screens.text()
    );
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("that is no key").await, "{}", screens.text());
    screens.type_text("acme").await;
    screens.press("enter").await.unwrap();
    screens.type_text("right").await;
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("model: acme:best").await, "{}", screens.text());
    assert!(!screens.text().contains("right"), "{}", screens.text());
    say(&mut screens, "/auth").await;
    assert!(screens.live().join("\n").contains("demonstration"), "{:?}", screens.live());
    screens.press("home end enter").await.unwrap();
    assert!(screens.live().join("\n").contains("acme"), "{:?}", screens.live());
    assert!(screens.live().join("\n").contains("key:"), "{:?}", screens.live());
    screens.press("ctrl-c").await.unwrap();
    // With the provider as argument, the key is typed next and not shown.
    say(&mut screens, "/auth acme").await;
    screens.type_text("hidden").await;
    assert!(screens.live().join("\n").contains("key: ••••••"), "{:?}", screens.live());
    assert!(!screens.live().join("\n").contains("hidden"), "{:?}", screens.live());
    screens.press("ctrl-c").await.unwrap();
    say(&mut screens, "/quit").await;
    assert!(screens.has_ended());
}
