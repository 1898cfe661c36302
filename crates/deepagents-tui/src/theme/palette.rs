//! The colours of the themes.

use ratatui::style::Color;

use crate::terminal::Colours;

/// The colours of a theme.
#[derive(Clone, Copy)]
pub(super) struct Palette {
    pub(super) dim: Color,
    pub(super) accent: Color,
    pub(super) good: Color,
    pub(super) bad: Color,
    pub(super) warn: Color,
    pub(super) code: Color,
    pub(super) keyword: Color,
    pub(super) string: Color,
    pub(super) user: Color,
    pub(super) added_word: Color,
    pub(super) removed_word: Color,
}

impl Palette {
    pub(super) fn named(name: &str) -> Option<Self> {
        let rgb = Color::Rgb;
        Some(match name {
            "dark" => Self {
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
            },
            "light" => Self {
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
            },
            "contrast" => Self {
                dim: Color::White,
                accent: Color::LightCyan,
                good: Color::LightGreen,
                bad: Color::LightRed,
                warn: Color::LightYellow,
                code: Color::White,
                keyword: Color::LightMagenta,
                string: Color::LightGreen,
                user: Color::LightCyan,
                added_word: Color::LightGreen,
                removed_word: Color::LightRed,
            },
            "ansi" => Self {
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
            },
            "terminal" => Self {
                dim: Color::Reset,
                accent: Color::Reset,
                good: Color::Green,
                bad: Color::Red,
                warn: Color::Yellow,
                code: Color::Reset,
                keyword: Color::Reset,
                string: Color::Reset,
                user: Color::Reset,
                added_word: Color::Reset,
                removed_word: Color::Reset,
            },
            _ => return None,
        })
    }

    /// Returns the colours for modification, each with the name of its role.
    pub(super) fn fields(&mut self) -> [(&'static str, &mut Color); 11] {
        [
            ("dim", &mut self.dim),
            ("accent", &mut self.accent),
            ("good", &mut self.good),
            ("bad", &mut self.bad),
            ("warn", &mut self.warn),
            ("code", &mut self.code),
            ("keyword", &mut self.keyword),
            ("string", &mut self.string),
            ("user", &mut self.user),
            ("added_word", &mut self.added_word),
            ("removed_word", &mut self.removed_word),
        ]
    }

    /// Replaces colours that the terminal lacks by the nearest that it has.
    pub(super) fn shown_in(mut self, colours: Colours) -> Self {
        for (ground, text) in [(&mut self.added_word, self.good), (&mut self.removed_word, self.bad)] {
            // Sixteen colours have no shade on which the word is readable.
            if colours == Colours::Sixteen && colours.nearest(*ground) != *ground {
                *ground = text;
            }
        }
        for (_, colour) in self.fields() {
            *colour = colours.nearest(*colour);
        }
        self
    }
}
