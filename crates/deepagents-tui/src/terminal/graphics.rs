//! Pictures, in the protocols of the terminals that draw them.
//!
//! What is written is made of the bytes of a picture alone: they are decoded, looked at and encoded anew, so that nothing
//! in them reaches the terminal as another sequence.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::sixel;

/// How a terminal takes pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Graphics {
    /// The protocol of kitty, in which PNG is drawn.
    Kitty,
    /// The inline images of iTerm2, in which PNG, JPEG and GIF are drawn.
    Iterm2,
    /// Sixels, as which PNG is drawn.
    Sixel,
}

/// Bytes of a picture that is drawn; a larger one would hold up the screen.
const LARGEST: usize = 4 << 20;
/// Pixels of a side of it.
const SIDE: u32 = 16_384;
/// Rows that it takes.
const ROWS: u16 = 16;
/// Bytes of a piece of kitty's protocol.
const CHUNK: usize = 4_096;
/// How PNG begins.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// A picture that is ready to be written where it is to be seen; the cursor may be anywhere then.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Drawing {
    pub(crate) rows: u16,
    pub(crate) sequence: Vec<u8>,
}

/// Where a picture is drawn: cells that are free, and pixels of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) cell: (u16, u16),
}

impl Graphics {
    /// What takes pictures off the screen before it is drawn anew, where they do not go with the cells below them.
    pub(crate) fn erase(self) -> &'static [u8] {
        match self {
            Self::Kitty => b"\x1b_Ga=d,d=a,q=2\x1b\\",
            Self::Iterm2 | Self::Sixel => b"",
        }
    }

    /// Draws a picture that is given as base64, no larger than it is; nothing where the terminal cannot or it has no room.
    pub(crate) fn draw(self, base64: &str, canvas: Canvas) -> Option<Drawing> {
        if base64.len() / 4 * 3 > LARGEST {
            return None;
        }
        let bytes = STANDARD.decode(base64).ok()?;
        if self != Self::Iterm2 && !bytes.starts_with(PNG) {
            return None;
        }
        let (columns, rows) = canvas.cells(dimensions(&bytes)?)?;
        let data = STANDARD.encode(&bytes);
        let sequence = match self {
            Self::Kitty => kitty(&data, columns, rows),
            Self::Iterm2 => {
                let size = bytes.len();
                let how = format!("size={size};width={columns};height={rows};preserveAspectRatio=1;doNotMoveCursor=1");
                format!("\x1b]1337;File=inline=1;{how}:{data}\x07").into_bytes()
            }
            Self::Sixel => {
                let points = |cells: u16, of_cell: u16| usize::from(cells) * usize::from(of_cell.max(1));
                sixel::sequence(&bytes, (points(columns, canvas.cell.0), points(rows, canvas.cell.1)))?
            }
        };
        Some(Drawing { rows, sequence })
    }
}

/// In pieces; the terminal answers nothing and leaves the cursor where it is.
fn kitty(data: &str, columns: u16, rows: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + data.len() / CHUNK * 16 + 64);
    let pieces = data.as_bytes().chunks(CHUNK);
    let last = pieces.len().saturating_sub(1);
    for (at, piece) in pieces.enumerate() {
        let more = u8::from(at != last);
        let head = match at {
            0 => format!("\x1b_Ga=T,f=100,q=2,C=1,c={columns},r={rows},m={more};"),
            _ => format!("\x1b_Gm={more};"),
        };
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(piece);
        out.extend_from_slice(b"\x1b\\");
    }
    out
}

impl Canvas {
    /// The columns and rows of a picture of so many pixels, made smaller where it does not fit.
    fn cells(self, (width, height): (u32, u32)) -> Option<(u16, u16)> {
        let (columns, rows) = (u32::from(self.columns), u32::from(self.rows.min(ROWS)));
        let (across, down) = (u32::from(self.cell.0.max(1)), u32::from(self.cell.1.max(1)));
        if columns == 0 || rows == 0 {
            return None;
        }
        let (width, height) = (u64::from(width), u64::from(height));
        let (most_across, most_down) = (u64::from(columns * across), u64::from(rows * down));
        // The scale is the smaller of the two, and never more than one; as fractions, so that nothing is lost.
        let (part, whole) = if width * most_down > height * most_across {
            (most_across.min(width), width)
        } else {
            (most_down.min(height), height)
        };
        let cells = |pixels: u64, cell: u32, most: u32| {
            let cells = (pixels * part).div_ceil(whole * u64::from(cell)).clamp(1, u64::from(most));
            u16::try_from(cells).ok()
        };
        Some((cells(width, across, columns)?, cells(height, down, rows)?))
    }
}

/// Pixels across and down, as the picture says itself; nothing where it is none of a kind that is drawn.
fn dimensions(bytes: &[u8]) -> Option<(u32, u32)> {
    let little = |at: usize| Some(u32::from(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?)));
    let size = match bytes {
        [b'G', b'I', b'F', b'8', ..] => (little(6)?, little(8)?),
        [0xff, 0xd8, ..] => jpeg(bytes)?,
        png if png.starts_with(PNG) => {
            let side = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
            (bytes.get(12..16) == Some(b"IHDR")).then_some((side(16)?, side(20)?))?
        }
        _ => return None,
    };
    let fits = |side: u32| (1..=SIDE).contains(&side);
    (fits(size.0) && fits(size.1)).then_some(size)
}

/// The size in the first frame of a JPEG.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut rest = bytes.get(2..)?;
    loop {
        let [0xff, kind, high, low, ..] = *rest else { return None };
        let length = usize::from(u16::from_be_bytes([high, low]));
        let is_frame = (0xc0..=0xcf).contains(&kind) && !matches!(kind, 0xc4 | 0xc8 | 0xcc);
        if is_frame {
            let [_, y1, y0, x1, x0] = *rest.get(4..)?.first_chunk()?;
            return Some((u16::from_be_bytes([x1, x0]).into(), u16::from_be_bytes([y1, y0]).into()));
        }
        rest = rest.get(length.checked_add(2)?..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, more: usize) -> String {
        let mut bytes = [PNG, b"\0\0\0\rIHDR", &width.to_be_bytes(), &height.to_be_bytes()].concat();
        bytes.resize(bytes.len() + more, 7);
        STANDARD.encode(bytes)
    }

    const CANVAS: Canvas = Canvas { columns: 78, rows: 20, cell: (10, 20) };

    #[test]
    fn a_picture_takes_the_cells_that_it_needs_and_no_more_than_there_are() {
        let cells = |width, height| CANVAS.cells((width, height)).unwrap();
        assert_eq!(cells(100, 100), (10, 5));
        assert_eq!(cells(1, 1), (1, 1));
        assert_eq!(cells(2_000, 1_000), (64, 16));
        assert_eq!(cells(16_000, 100), (78, 1));
        assert_eq!(cells(100, 16_000), (1, 16));
        assert_eq!(Canvas { rows: 0, ..CANVAS }.cells((100, 100)), None);
        let tiny = Canvas { columns: 1, rows: 1, cell: (0, 0) };
        assert_eq!(tiny.cells((SIDE, SIDE)), Some((1, 1)));
    }

    #[test]
    fn kitty_is_given_png_in_pieces_that_ask_for_no_answer() {
        let data = png(100, 100, 9_000);
        let drawn = Graphics::Kitty.draw(&data, CANVAS).unwrap();
        let text = String::from_utf8(drawn.sequence).unwrap();
        let pieces: Vec<&str> = text.split_terminator("\x1b\\").collect();
        assert_eq!((drawn.rows, pieces.len()), (5, 3));
        assert!(pieces[0].starts_with("\x1b_Ga=T,f=100,q=2,C=1,c=10,r=5,m=1;"), "{}", pieces[0]);
        assert!(pieces[1].starts_with("\x1b_Gm=1;") && pieces[2].starts_with("\x1b_Gm=0;"));
        let joined: String = pieces.iter().map(|piece| piece.split_once(';').unwrap().1).collect();
        assert_eq!(joined, data);
        let jpeg = STANDARD.encode(b"\xff\xd8\xff\xc0\x00\x11\x08\x00\x0a\x00\x14");
        assert_eq!(Graphics::Kitty.draw(&jpeg, CANVAS), None);
        assert!(Graphics::Iterm2.draw(&jpeg, CANVAS).is_some());
    }

    #[test]
    fn sizes_are_read_from_the_kinds_that_are_drawn() {
        let sized = |bytes: &[u8]| dimensions(bytes);
        assert_eq!(sized(b"GIF89a\x0a\x00\x14\x00"), Some((10, 20)));
        assert_eq!(sized(b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc2\x00\x11\x08\x00\x0a\x00\x14"), Some((20, 10)));
        assert_eq!(sized(&STANDARD.decode(png(3, 4, 0)).unwrap()), Some((3, 4)));
        for broken in [
            &b"GIF89a\x00\x00\x00\x00"[..],
            b"\xff\xd8\xff\xe0\xff\xff",
            b"\xff\xd8\xff\xe0\x00\x00",
            b"\x89PNG\r\n\x1a\n",
            b"",
            b"words",
        ] {
            assert_eq!(sized(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn what_is_no_picture_or_too_large_is_not_drawn() {
        for data in ["\x1b]0;owned\x07", "aGVsbG8=", "", &png(0, 5, 0), &png(70_000, 5, 0), &png(5, 5, LARGEST)] {
            assert_eq!(Graphics::Iterm2.draw(data, CANVAS), None);
        }
    }
}
