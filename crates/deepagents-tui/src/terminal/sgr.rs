//! Styles as SGR sequences.

use ratatui::style::{Color, Modifier, Style};

/// The colours that a terminal supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Colours {
    /// 16 colours.
    Sixteen,
    /// 256 colours: a cube with six steps each of red, green and blue, and greys.
    Indexed,
    /// All 24-bit colours.
    #[default]
    All,
}

/// The first 16 colours, and how most terminals show them.
const BASE_COLOURS: [(Color, [u8; 3]); 16] = [
    (Color::Black, [0, 0, 0]),
    (Color::Red, [170, 0, 0]),
    (Color::Green, [0, 170, 0]),
    (Color::Yellow, [170, 85, 0]),
    (Color::Blue, [0, 0, 170]),
    (Color::Magenta, [170, 0, 170]),
    (Color::Cyan, [0, 170, 170]),
    (Color::Gray, [170, 170, 170]),
    (Color::DarkGray, [85, 85, 85]),
    (Color::LightRed, [255, 85, 85]),
    (Color::LightGreen, [85, 255, 85]),
    (Color::LightYellow, [255, 255, 85]),
    (Color::LightBlue, [85, 85, 255]),
    (Color::LightMagenta, [255, 85, 255]),
    (Color::LightCyan, [85, 255, 255]),
    (Color::White, [255, 255, 255]),
];
/// The steps of the colour cube.
const CUBE_STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];

impl Colours {
    /// Returns the supported colour that is nearest.
    pub(crate) fn nearest(self, color: Color) -> Color {
        match (self, color) {
            (Self::Indexed, Color::Rgb(r, g, b)) => Color::Indexed(indexed([r, g, b])),
            (Self::Sixteen, Color::Rgb(r, g, b)) => sixteen([r, g, b]),
            (Self::Sixteen, Color::Indexed(index @ 16..)) => sixteen(of_index(index)),
            (_, color) => color,
        }
    }
}

fn distance(one: [u8; 3], other: [u8; 3]) -> u32 {
    one.iter().zip(other).map(|(one, other)| u32::from(one.abs_diff(other)).pow(2)).sum()
}

/// Returns the colour of an index from 16 on.
fn of_index(index: u8) -> [u8; 3] {
    if index >= 232 {
        return [8 + (index - 232) * 10; 3];
    }
    let cube = usize::from(index.saturating_sub(16));
    [cube / 36, cube / 6 % 6, cube % 6].map(|step| CUBE_STEPS.get(step).copied().unwrap_or(0))
}

fn indexed(rgb: [u8; 3]) -> u8 {
    (16..=255).min_by_key(|index| distance(of_index(*index), rgb)).unwrap_or(16)
}

/// Minimum difference between the highest and lowest component of a colour that does not look grey.
const COLOURED: u8 = 40;

fn is_coloured(rgb: [u8; 3]) -> bool {
    let parts = || rgb.into_iter();
    parts().max().unwrap_or(0) - parts().min().unwrap_or(0) > COLOURED
}

fn sixteen(rgb: [u8; 3]) -> Color {
    // A pale green is nearer to grey, but grey would lose its meaning.
    let alike = (0_u8..).zip(BASE_COLOURS).filter(|(_, (_, shown))| is_coloured(*shown) == is_coloured(rgb));
    let nearest = alike.min_by_key(|(_, (_, shown))| distance(*shown, rgb));
    Color::Indexed(nearest.map_or(7, |(index, _)| index))
}

/// Writes the sequence that sets a style, regardless of the previous one. Without `colour`, colours are omitted.
pub(super) fn sgr(style: Style, colour: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(b"\x1b[0");
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
        (Modifier::CROSSED_OUT, "9"),
    ];
    for (modifier, code) in modifiers {
        if style.add_modifier.contains(modifier) {
            out.push(b';');
            out.extend_from_slice(code.as_bytes());
        }
    }
    if colour {
        paint(style.fg, 30, out);
        paint(style.bg, 40, out);
    }
    out.push(b'm');
}

fn paint(color: Option<Color>, base: u8, out: &mut Vec<u8>) {
    let Some(color) = color else { return };
    let is_it = |(index, (named, _)): &(u8, (Color, _))| color == *named || color == Color::Indexed(*index);
    // The first 16 colours have codes of their own, which all terminals support.
    let code = match ((0_u8..).zip(BASE_COLOURS).find(is_it), color) {
        (Some((index @ 0..8, _)), _) => format!(";{}", base + index),
        (Some((index, _)), _) => format!(";{}", base + 52 + index),
        (None, Color::Rgb(r, g, b)) => format!(";{};2;{r};{g};{b}", base + 8),
        (None, Color::Indexed(index)) => format!(";{};5;{index}", base + 8),
        (None, _) => return,
    };
    out.extend_from_slice(code.as_bytes());
}
