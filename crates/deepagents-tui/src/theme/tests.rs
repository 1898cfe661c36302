//! Tests that styles are distinguishable on every kind of terminal.

use super::*;

/// Returns every theme with colours, for every kind of terminal.
fn shown() -> Vec<(String, Theme)> {
    [Colours::Sixteen, Colours::Indexed, Colours::All]
        .into_iter()
        .flat_map(|colours| {
            let (themes, _, problems) = Themes::new(&Preferences { colours, ..Preferences::default() }, true);
            assert_eq!(problems, Vec::<String>::new());
            themes.all.into_iter().map(move |known| (format!("{} in {colours:?}", known.name), known.theme))
        })
        .filter(|(name, _)| !name.starts_with("plain"))
        .collect()
}

#[test]
fn a_changed_word_never_has_the_colour_of_what_it_stands_on() {
    for (name, theme) in shown() {
        for word in [theme.added_word, theme.removed_word] {
            assert_ne!(word.fg, word.bg, "{name}");
            let is_reset = word.bg.is_none_or(|ground| ground == Color::Reset);
            let is_marked = !is_reset || word.add_modifier.contains(Modifier::REVERSED);
            assert!(is_marked || name.starts_with("terminal"), "{name}: {word:?}");
        }
    }
}

#[test]
fn what_is_added_removed_and_stays_has_colours_of_its_own() {
    for (name, theme) in shown() {
        let (added, removed, stays) = (theme.added.fg, theme.removed.fg, theme.dim.fg);
        assert!(added != removed && added != stays && removed != stays, "{name}: {added:?} {removed:?} {stays:?}");
    }
}
