//! Colours by meaning.

mod palette;

use std::borrow::Cow;
use std::str::FromStr;

use ratatui::style::{Color, Modifier, Style};

use crate::preferences::{Preferences, UserTheme};
use crate::terminal::Colours;
use crate::text::{exact, exact_ascii};
use palette::Palette;

/// The styles of everything that is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Theme {
    /// Whether words replace symbols, for screen readers.
    pub(crate) spoken: bool,
    /// Whether only ASCII is shown.
    pub(crate) ascii: bool,
    pub(crate) dim: Style,
    pub(crate) bold: Style,
    pub(crate) accent: Style,
    pub(crate) good: Style,
    pub(crate) bad: Style,
    pub(crate) warn: Style,
    pub(crate) user: Style,
    pub(crate) code: Style,
    pub(crate) inline_code: Style,
    pub(crate) heading: Style,
    pub(crate) link: Style,
    pub(crate) added: Style,
    pub(crate) added_word: Style,
    pub(crate) removed: Style,
    pub(crate) removed_word: Style,
    pub(crate) keyword: Style,
    pub(crate) string: Style,
    pub(crate) number: Style,
    pub(crate) comment: Style,
    pub(crate) selected: Style,
}

/// A theme and its name.
#[derive(Clone, Debug)]
pub(crate) struct NamedTheme {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) theme: Theme,
}

/// The available themes and the name of the current one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Themes {
    pub(crate) all: Vec<NamedTheme>,
    pub(crate) present: String,
}

impl Themes {
    /// Returns the available themes, the initial theme, and messages about errors in the user's own themes.
    pub(crate) fn new(preferences: &Preferences, colour: bool) -> (Self, Theme, Vec<String>) {
        let mut problems = Vec::new();
        let named = |(name, about): &(&str, &str)| NamedTheme {
            name: (*name).to_owned(),
            about: (*about).to_owned(),
            theme: built_in(name, preferences.colours).unwrap_or_else(Theme::plain),
        };
        let mut all: Vec<NamedTheme> = NAMES.iter().map(named).collect();
        for own in &preferences.themes {
            let (theme, wrong) = of_user(own, preferences.colours);
            problems.extend(wrong);
            all.retain(|known| known.name != own.name);
            all.push(NamedTheme { name: own.name.clone(), about: "your own".to_owned(), theme });
        }
        for known in &mut all {
            known.theme.spoken = preferences.screen_reader;
            known.theme.ascii = !preferences.unicode;
        }
        let wanted = if colour { preferences.theme.as_str() } else { "plain" };
        let mut themes = Self { all, present: String::new() };
        let theme = themes.choose(wanted).or_else(|| {
            problems.push(format!("there is no theme `{wanted}`; /theme shows all themes"));
            themes.choose("dark")
        });
        (themes, theme.unwrap_or_else(Theme::plain), problems)
    }

    /// Switches to the theme of this name.
    pub(crate) fn choose(&mut self, name: &str) -> Option<Theme> {
        let found = self.all.iter().find(|known| known.name == name)?.theme;
        name.clone_into(&mut self.present);
        Some(found)
    }
}

/// Returns the names of the built-in themes.
pub fn theme_names() -> [&'static str; NAMES.len()] {
    NAMES.map(|(name, _)| name)
}

/// The built-in themes and what they are for.
const NAMES: [(&str, &str); 6] = [
    ("dark", "for dark backgrounds"),
    ("light", "for light backgrounds"),
    ("contrast", "high contrast"),
    ("ansi", "the sixteen colours of the terminal"),
    ("terminal", "the terminal's own text colour, and few others"),
    ("plain", "no colours"),
];

/// Returns the style of a changed word on a background of this colour. If text and background have the same colour, the
/// style is reversed instead.
fn word(text: Color, ground: Color) -> Style {
    let style = Style::new().fg(text).add_modifier(Modifier::BOLD);
    if text == ground { style.add_modifier(Modifier::REVERSED) } else { style.bg(ground) }
}

/// Returns the built-in theme of this name.
fn built_in(name: &str, colours: Colours) -> Option<Theme> {
    let mut theme = Theme::from_palette(Palette::named(name)?, colours);
    if name == "terminal" {
        theme.dim = theme.dim.add_modifier(Modifier::DIM);
        theme.comment = theme.dim;
        theme.inline_code = theme.bold;
        theme.accent = theme.bold;
        theme.keyword = theme.bold;
    }
    Some(theme)
}

/// Builds a user's theme from its valid entries. Returns a message for each invalid one.
fn of_user(own: &UserTheme, colours: Colours) -> (Theme, Vec<String>) {
    let mut problems = Vec::new();
    let base = own.colours.iter().find(|(field, _)| field == "base").map_or("dark", |(_, base)| base.as_str());
    let mut palette = Palette::named(base).or_else(|| {
        problems.push(format!("theme {}: its base `{base}` is not a theme", own.name));
        Palette::named("dark")
    });
    for (field, colour) in own.colours.iter().filter(|(field, _)| field != "base") {
        let place = palette.iter_mut().flat_map(Palette::fields).find(|(role, _)| role == field);
        match (place, Color::from_str(colour)) {
            (Some((_, place)), Ok(colour)) => *place = colour,
            (None, _) => problems.push(format!("theme {}: there is no colour named `{field}`", own.name)),
            (_, Err(_)) => problems.push(format!("theme {}: `{colour}` is not a valid colour", own.name)),
        }
    }
    (palette.map_or_else(Theme::plain, |palette| Theme::from_palette(palette, colours)), problems)
}

impl Theme {
    /// Makes deceptive and hidden characters visible, in a text that the user decides on.
    pub(crate) fn exact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.ascii { exact_ascii(text) } else { exact(text) }
    }

    fn from_palette(palette: Palette, colours: Colours) -> Self {
        let p = palette.shown_in(colours);
        let fg = |color| Style::new().fg(color);
        Self {
            dim: fg(p.dim),
            bold: Style::new().add_modifier(Modifier::BOLD),
            accent: fg(p.accent),
            good: fg(p.good),
            bad: fg(p.bad),
            warn: fg(p.warn),
            user: fg(p.user),
            code: fg(p.code),
            inline_code: fg(p.string),
            heading: fg(p.accent).add_modifier(Modifier::BOLD),
            link: fg(p.accent).add_modifier(Modifier::UNDERLINED),
            added: fg(p.good),
            added_word: word(p.good, p.added_word),
            removed: fg(p.bad),
            removed_word: word(p.bad, p.removed_word),
            keyword: fg(p.keyword),
            string: fg(p.string),
            number: fg(p.warn),
            comment: fg(p.dim),
            selected: fg(p.accent).add_modifier(Modifier::BOLD),
            ..Self::default()
        }
    }

    /// The theme without colours, which uses text attributes only.
    pub(crate) fn plain() -> Self {
        let (bold, dim, under) = (Modifier::BOLD.into(), Modifier::DIM.into(), Modifier::UNDERLINED.into());
        Self {
            dim,
            bold,
            accent: bold,
            bad: bold,
            warn: bold,
            user: bold,
            inline_code: bold,
            heading: bold,
            link: under,
            added_word: under,
            removed_word: under,
            keyword: bold,
            comment: dim,
            selected: bold,
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests;
