//! Editing a message: pastes, shell keys, vi keys.

use crossterm::event::Event;
use deepagents::models::scripted::Turn;
use deepagents_tui::{Headless, Mode};

use crate::world::{World, say};

fn paste(text: &str) -> Event {
    Event::Paste(text.to_owned())
}

fn lines(word: &str) -> String {
    (0..20).map(|n| format!("{word} {n}")).collect::<Vec<_>>().join("\n")
}

fn input(screens: &Headless) -> String {
    screens.live().into_iter().skip_while(|line| !line.starts_with('›')).collect::<Vec<_>>().join("\n")
}

/// Sends the input. Returns what the model got.
async fn sent(world: &World, screens: &mut Headless) -> String {
    screens.press("enter").await.unwrap();
    assert!(screens.wait_for("Yes.").await && screens.wait_idle().await, "{}", screens.text());
    let requests = world.model.requests();
    let last = requests.last().unwrap().messages.iter().next_back().unwrap();
    last.text()
}

fn answers(count: usize) -> World {
    World::new((0..count).map(|_| Turn::text("Yes.")))
}

#[tokio::test]
async fn a_paste_placeholder_acts_as_one_character_for_every_key() {
    let world = answers(3);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("see ").await;
    screens.event(paste(&lines("line"))).await;
    assert!(input(&screens).contains("› see [Pasted text #1: 20 lines"), "{}", input(&screens));
    screens.press("left").await.unwrap();
    screens.type_text("X").await;
    assert_eq!(sent(&world, &mut screens).await, format!("see X{}", lines("line")));

    screens.event(paste(&lines("line"))).await;
    screens.press("ctrl-w").await.unwrap();
    assert!(!input(&screens).contains("Pasted"), "{}", input(&screens));
    screens.press("ctrl-y ctrl-y").await.unwrap();
    assert_eq!(sent(&world, &mut screens).await, lines("line").repeat(2));

    // Text cut from one message can be pasted into the next.
    screens.event(paste(&lines("other"))).await;
    screens.press("ctrl-u").await.unwrap();
    screens.type_text("hello ").await;
    screens.press("ctrl-y").await.unwrap();
    assert_eq!(sent(&world, &mut screens).await, format!("hello {}", lines("other")));
}

#[tokio::test]
async fn cut_text_outlives_the_message_and_each_paste_is_inserted_once() {
    let world = answers(3);
    let mut screens = world.screens(Mode::Ask);
    screens.event(paste(&lines("cut"))).await;
    screens.press("ctrl-u").await.unwrap();
    screens.type_text("hello").await;
    assert_eq!(sent(&world, &mut screens).await, "hello");
    screens.press("ctrl-y").await.unwrap();
    assert_eq!(sent(&world, &mut screens).await, lines("cut"));
    let first = format!("[Pasted text #2: 20 lines, 149 bytes]\n\u{10f000}\u{10f001}{}", lines("first"));
    screens.event(paste(&first)).await;
    screens.event(paste(&lines("second"))).await;
    let plain = first.replace(['\u{10f000}', '\u{10f001}'], "");
    assert_eq!(sent(&world, &mut screens).await, format!("{plain}{}", lines("second")));
}

#[tokio::test]
async fn a_paste_after_a_command_is_part_of_its_text() {
    let world = answers(1);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("/plan ").await;
    screens.event(paste(&lines("line"))).await;
    let told = sent(&world, &mut screens).await;
    assert!(told.contains(&lines("line")) && !told.contains("Pasted"), "{told}");
}

#[tokio::test]
async fn readline_keys_cut_undo_and_change_letters() {
    let world = World::new([]);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("one two thing").await;
    for (keys, shown) in [
        ("ctrl-w ctrl-w", "› one"),
        ("ctrl-y", "› one two thing"),
        ("ctrl-a alt-u", "› ONE two thing"),
        ("alt-l", "› ONE two thing"),
        ("alt-c", "› ONE two Thing"),
        ("ctrl-t", "› ONE two Thign"),
        ("ctrl-_", "› ONE two Thing"),
        ("ctrl-_ ctrl-_", "› one two thing"),
        ("ctrl-_", "› one"),
        ("ctrl-_", "› one two"),
        ("ctrl-_", "› one two thing"),
        ("ctrl-_", "› one two"),
    ] {
        screens.press(keys).await.unwrap();
        assert_eq!(input(&screens).lines().next(), Some(shown), "{keys}");
    }
    screens.press("ctrl-j").await.unwrap();
    screens.type_text("below").await;
    screens.press("alt-<").await.unwrap();
    screens.type_text("X").await;
    assert!(input(&screens).starts_with("› Xone two\n  below"), "{}", input(&screens));
}

#[tokio::test]
async fn ctrl_p_recalls_earlier_messages_and_a_failed_search_says_so() {
    let world = answers(1);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("first words").await;
    sent(&world, &mut screens).await;
    screens.press("ctrl-p").await.unwrap();
    assert!(input(&screens).starts_with("› first words"), "{}", input(&screens));
    screens.press("ctrl-n").await.unwrap();
    assert!(!input(&screens).contains("first"), "{}", input(&screens));
    screens.press("ctrl-r").await.unwrap();
    screens.type_text("wor").await;
    assert!(!screens.live().join("\n").contains("no match"), "{:?}", screens.live());
    screens.type_text("zz").await;
    assert!(screens.live().join("\n").contains("(search: worzz: no match)"), "{:?}", screens.live());
}

#[tokio::test]
async fn a_search_takes_pastes_goes_back_by_letters_and_stays_in_sight() {
    let world = answers(2);
    let mut screens = world.screens(Mode::Ask);
    let long = (0..15).map(|n| format!("row {n}")).collect::<Vec<_>>().join("\n");
    for text in ["plain cafe\u{301} bar", long.as_str()] {
        screens.event(paste(text)).await;
        screens.press("enter").await.unwrap();
        assert!(screens.wait_until_live("ask for something").await && screens.wait_idle().await, "{}", screens.text());
    }
    screens.type_text("draft").await;
    screens.press("ctrl-r").await.unwrap();
    screens.event(paste("e\u{301} b\nmore")).await;
    let live = screens.live().join("\n");
    assert!(live.contains("(search: e\u{301} b) plain cafe\u{301} bar"), "{:?}", screens.live());
    screens.press("backspace backspace backspace").await.unwrap();
    assert!(screens.live().join("\n").contains("(search: ) draft"), "{:?}", screens.live());
    screens.type_text("row 3").await;
    let live = screens.live().join("\n");
    assert!(live.contains("(search: row 3)") && live.contains("row 14"), "what was found is longer: {live}");
    screens.press("esc").await.unwrap();
    assert!(input(&screens).contains("› draft"), "{}", input(&screens));
}

/// The input after keys in normal mode, with the cursor at the start of a text.
async fn vi(text: &str, keys: &str) -> String {
    let mut world = World::new([]);
    world.preferences.vi = true;
    let mut screens = world.screens(Mode::Ask);
    screens.event(paste(text)).await;
    screens.press("esc").await.unwrap();
    screens.type_text("gg0").await;
    for piece in keys.split_inclusive('⎋') {
        screens.type_text(piece.trim_end_matches('⎋')).await;
        if piece.ends_with('⎋') {
            screens.press("esc").await.unwrap();
        }
    }
    let rows = screens.live();
    let rows = rows.iter().skip_while(|line| !line.starts_with('›'));
    let rows = rows.take_while(|line| line.starts_with("› ") || line.starts_with("  ")).cloned();
    rows.map(|line| line.chars().skip(2).collect::<String>()).collect::<Vec<_>>().join("|")
}

#[tokio::test]
async fn vi_cuts_and_puts_whole_lines() {
    for (text, keys, shown) in [
        ("one\ntwo", "yyp", "one|one|two"),
        ("a\nb", "gg2yy2p", "a|a|b|a|b|b"),
        ("a\nb", "ddd0p", "b|a"),
        ("one\ntwo", "ddp", "two|one"),
        ("one\ntwo", "jdd", "one"),
        ("one\ntwo\nthree", "2ddP", "one|two|three"),
        ("one\ntwo\nthree", "djP", "one|two|three"),
        ("one\ntwo\nthree", "jdgg", "three"),
        ("one\ntwo", "Gccnew", "one|new"),
        ("one\ntwo", "yyjp", "one|two|one"),
    ] {
        assert_eq!(vi(text, keys).await, shown, "{keys}");
    }
}

#[tokio::test]
async fn vi_supports_counts_find_replace_and_undo() {
    for (text, keys, shown) in [
        ("one two three", "2dw", "three"),
        ("one two three", "d2w", "three"),
        ("one two three", "3x", " two three"),
        ("one two three", "dtw", "wo three"),
        ("one two three", "dfw", "o three"),
        ("one two three", "wciwX", "one X three"),
        ("one two three", "wdaw", "one three"),
        ("say \"a b\" now", "ci\"x⎋A!", "say \"x\" now!"),
        ("f(a, b) end", "fadi(", "f() end"),
        ("one", "rX~", "xne"),
        ("one", "~~", "ONe"),
        ("one two", "sX⎋u", "one two"),
        ("one two", "xxuux", "ne two"),
        ("one two", "wxuiX", "one Xtwo"),
        ("one two", "qxwx", "one wo"),
        ("one two", "cqxx", "ne two"),
        ("one two one", "fo;x", "one two ne"),
        ("one\ntwo", "J", "one two"),
        ("one", "5ia⎋", "aaaaaone"),
        ("one", "3A!⎋u", "one"),
        ("one", "3A!?⎋2Ix⎋iy", "xyxone!?!?!?"),
        ("one", "3ofoo⎋", "one|foo|foo|foo"),
        ("one\ntwo", "2Oab⎋x", "ab|a|one|two"),
        ("one", "3ofoo⎋u", "one"),
        ("a\nb\nc\nd", "3ddp", "d|a|b|c"),
        ("a\nb\nc\nd", "j2ddP", "a|b|c|d"),
        ("a\nb\nc\nd", "d2jp", "d|a|b|c"),
        ("ab\ncd\nef\ngh", "2jx", "ab|cd|f|gh"),
        ("ab\ncd\nef\ngh", "5jx", "ab|cd|ef|h"),
        ("ab\ncd\nef\ngh", "G2kx", "ab|d|ef|gh"),
        ("a\nb\nc\nd", "2dGp", "c|a|b|d"),
        ("a\nb\nc", "3J", "a b c"),
        ("ab cd\nef\ngh", "l2Di!", "!a|gh"),
        ("ab cd\nef\ngh", "lc2$X", "aX|gh"),
        ("one two\nthree four", "2dwiX", "X|three four"),
        ("one two\nthree four", "3dw", "four"),
        ("one two\nthree four", "d2WiX", "X|three four"),
        ("one two three", "2d1w", "three"),
        ("one two three", "c2WX", "X three"),
        ("one two three", "d2aw", "three"),
        ("one two three", "wd2aw", "one"),
        ("one two three", "c3iwX", "X three"),
        ("one two three", "xl2p", "neoo two three"),
        ("one two three", "3rXx", "XX two three"),
        ("one", "4rX", "one"),
        ("one two three", "2fex", "one two thre"),
        ("one two three", "10lx", "one two thee"),
        ("one two three", "xxx3u", "one two three"),
    ] {
        assert_eq!(vi(text, keys).await, shown, "{keys}");
    }
}

#[tokio::test]
async fn a_command_replaces_a_message_returned_to_the_input() {
    let world = answers(2);
    let mut screens = world.screens(Mode::Ask);
    screens.type_text("first talk").await;
    sent(&world, &mut screens).await;
    say(&mut screens, "/undo").await;
    assert!(screens.wait_for("undone").await && input(&screens).contains("first talk"), "{}", screens.text());
    say(&mut screens, "/redo").await;
    assert!(screens.wait_for("redone").await && screens.wait_idle().await, "{}", screens.text());
    assert_eq!(world.model.requests().len(), 1);
    say(&mut screens, "/resume").await;
    assert!(screens.wait_for("there is nothing to resume").await, "{}", screens.text());
    screens.press("ctrl-c").await.unwrap();
    say(&mut screens, "/takeover").await;
    assert!(screens.wait_idle().await, "{}", screens.text());
    assert_eq!(screens.text().matches("there is nothing to resume").count(), 2, "{}", screens.text());
    screens.press("ctrl-c").await.unwrap();
    say(&mut screens, "/editor with these words").await;
    assert!(input(&screens).contains("› with these words"), "{}", input(&screens));
}

#[tokio::test]
async fn vi_ends_words_at_empty_lines_joins_without_indent_and_goes_to_the_first_letter_of_a_line() {
    let text = "one two\n\n  three\n)";
    for (keys, expected) in [
        ("wwiX⎋", "one two|X|  three|)"),
        ("jjwbiX⎋", "one two|X|  three|)"),
        ("WWiX⎋", "one two|X|  three|)"),
        ("jjWBiX⎋", "one two|X|  three|)"),
        ("J", "one two|  three|)"),
        ("jJ", "one two|three|)"),
        ("jJJ", "one two|three)"),
        ("3J", "one two three|)"),
    ] {
        assert_eq!(vi(text, keys).await, expected, "{keys}");
    }
    let text = "  one\n  two\n  six";
    for (keys, expected) in [
        ("GiX⎋", "  one|  two|  Xsix"),
        ("2GiX⎋", "  one|  Xtwo|  six"),
        ("GggiX⎋", "  Xone|  two|  six"),
        ("ddiX⎋", "  Xtwo|  six"),
        ("ddpiX⎋", "  two|  Xone|  six"),
        ("dkiX⎋", "X  one|  two|  six"),
        ("GdjiX⎋", "  one|  two|  Xsix"),
        ("d9jiX⎋", "X"),
        ("piX⎋", "X  one|  two|  six"),
    ] {
        assert_eq!(vi(text, keys).await, expected, "{keys}");
    }
}
