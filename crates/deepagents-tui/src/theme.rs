//! Colours by what they mean.

use ratatui::style::{Color, Modifier, Style};

/// The look of everything that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each field is the style of what it is called after")]
pub(crate) struct Theme {
    pub(crate) name: &'static str,
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

/// The colours that a theme is made of.
struct Palette {
    name: &'static str,
    dim: Color,
    accent: Color,
    good: Color,
    bad: Color,
    warn: Color,
    code: Color,
    keyword: Color,
    string: Color,
    user: Color,
    added_word: Color,
    removed_word: Color,
}

impl Theme {
    /// The themes there are, with what they are for.
    pub(crate) const NAMES: [(&'static str, &'static str); 5] = [
        ("dark", "for dark backgrounds"),
        ("light", "for light backgrounds"),
        ("contrast", "high contrast"),
        ("ansi", "the sixteen colours of the terminal"),
        ("plain", "no colours"),
    ];

    /// The theme of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let rgb = Color::Rgb;
        Some(match name {
            "dark" => Self::from_palette(&Palette {
                name: "dark",
                dim: rgb(0x8a, 0x8f, 0x98),
                accent: rgb(0x7a, 0xb8, 0xff),
                good: rgb(0x7e, 0xc9, 0x8f),
                bad: rgb(0xf0, 0x80, 0x80),
                warn: rgb(0xe5, 0xc0, 0x7b),
                code: rgb(0xd0, 0xd4, 0xdc),
                keyword: rgb(0xc6, 0x92, 0xe9),
                string: rgb(0xa5, 0xd6, 0xa7),
                user: rgb(0x7a, 0xb8, 0xff),
                added_word: rgb(0x1e, 0x4d, 0x2b),
                removed_word: rgb(0x5c, 0x26, 0x26),
            }),
            "light" => Self::from_palette(&Palette {
                name: "light",
                dim: rgb(0x6a, 0x6f, 0x78),
                accent: rgb(0x0b, 0x57, 0xa4),
                good: rgb(0x1a, 0x7f, 0x37),
                bad: rgb(0xb3, 0x1d, 0x28),
                warn: rgb(0x8a, 0x5a, 0x00),
                code: rgb(0x24, 0x29, 0x2f),
                keyword: rgb(0x7c, 0x2d, 0xb0),
                string: rgb(0x0a, 0x6b, 0x3d),
                user: rgb(0x0b, 0x57, 0xa4),
                added_word: rgb(0xb7, 0xe4, 0xc4),
                removed_word: rgb(0xff, 0xc9, 0xc9),
            }),
            "contrast" => Self::from_palette(&Palette {
                name: "contrast",
                dim: Color::White,
                accent: Color::LightCyan,
                good: Color::LightGreen,
                bad: Color::LightRed,
                warn: Color::LightYellow,
                code: Color::White,
                keyword: Color::LightMagenta,
                string: Color::LightGreen,
                user: Color::LightCyan,
                added_word: Color::Blue,
                removed_word: Color::Red,
            }),
            "ansi" => Self::from_palette(&Palette {
                name: "ansi",
                dim: Color::DarkGray,
                accent: Color::Cyan,
                good: Color::Green,
                bad: Color::Red,
                warn: Color::Yellow,
                code: Color::Reset,
                keyword: Color::Magenta,
                string: Color::Green,
                user: Color::Cyan,
                added_word: Color::Green,
                removed_word: Color::Red,
            }),
            "plain" => Self::plain(),
            _ => return None,
        })
    }

    fn from_palette(p: &Palette) -> Self {
        let fg = |color| Style::new().fg(color);
        Self {
            name: p.name,
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
            added_word: fg(p.good).bg(p.added_word).add_modifier(Modifier::BOLD),
            removed: fg(p.bad),
            removed_word: fg(p.bad).bg(p.removed_word).add_modifier(Modifier::BOLD),
            keyword: fg(p.keyword),
            string: fg(p.string),
            number: fg(p.warn),
            comment: fg(p.dim),
            selected: fg(p.accent).add_modifier(Modifier::BOLD),
        }
    }

    /// Without colours: weight alone tells things apart.
    pub(crate) fn plain() -> Self {
        let none = Style::new();
        let bold = none.add_modifier(Modifier::BOLD);
        let dim = none.add_modifier(Modifier::DIM);
        let under = none.add_modifier(Modifier::UNDERLINED);
        Self {
            name: "plain",
            dim,
            bold,
            accent: bold,
            good: none,
            bad: bold,
            warn: bold,
            user: bold,
            code: none,
            inline_code: bold,
            heading: bold,
            link: under,
            added: none,
            added_word: under,
            removed: none,
            removed_word: under,
            keyword: bold,
            string: none,
            number: none,
            comment: dim,
            selected: bold,
        }
    }
}
