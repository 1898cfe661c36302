//! Images, in the graphics protocols of terminals.
//!
//! The output is made from the image's bytes only. They are decoded, checked and encoded again, so that they cannot
//! contain other control sequences.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::sixel;

/// The graphics protocol of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Graphics {
    /// The kitty graphics protocol; draws PNG.
    Kitty,
    /// The inline images of iTerm2; draws PNG, JPEG and GIF.
    Iterm2,
    /// Sixel graphics; draws PNG.
    Sixel,
}

/// Maximum bytes of an image to draw; a larger one would block the screen.
const MAX_IMAGE_BYTES: usize = 4 << 20;
/// Maximum pixels per side.
const MAX_SIDE: u32 = 16_384;
/// Maximum rows that it takes.
const MAX_ROWS: u16 = 16;
/// Bytes per chunk of the kitty protocol.
const CHUNK_BYTES: usize = 4_096;
/// The signature of PNG.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

/// An image ready to be written at its position. Writing it leaves the cursor anywhere.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Drawing {
    pub(crate) rows: u16,
    pub(crate) sequence: Vec<u8>,
}

/// The room for an image: free cells, and the pixels of a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Canvas {
    pub(crate) columns: u16,
    pub(crate) rows: u16,
    pub(crate) cell: (u16, u16),
}

impl Graphics {
    /// Returns the sequence that removes images before the screen is redrawn, if erasing the cells does not remove
    /// them.
    pub(crate) fn erase(self) -> &'static [u8] {
        match self {
            Self::Kitty => b"\x1b_Ga=d,d=a,q=2\x1b\\",
            Self::Iterm2 | Self::Sixel => b"",
        }
    }

    /// Draws an image given as base64, no larger than its size. Returns `None` if the terminal cannot draw it, or there
    /// is no room.
    pub(crate) fn draw(self, base64: &str, canvas: Canvas) -> Option<Drawing> {
        if base64.len() / 4 * 3 > MAX_IMAGE_BYTES {
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

/// Encodes an image in chunks. The terminal sends no reply and does not move the cursor.
fn kitty(data: &str, columns: u16, rows: u16) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + data.len() / CHUNK_BYTES * 16 + 64);
    let pieces = data.as_bytes().chunks(CHUNK_BYTES);
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
    /// Returns the columns and rows of an image, scaled down if it does not fit.
    fn cells(self, (width, height): (u32, u32)) -> Option<(u16, u16)> {
        let (columns, rows) = (u32::from(self.columns), u32::from(self.rows.min(MAX_ROWS)));
        let (across, down) = (u32::from(self.cell.0.max(1)), u32::from(self.cell.1.max(1)));
        if columns == 0 || rows == 0 {
            return None;
        }
        let (width, height) = (u64::from(width), u64::from(height));
        let (most_across, most_down) = (u64::from(columns * across), u64::from(rows * down));
        // The scale is the smaller of the two and at most one, as a fraction to avoid rounding.
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

/// Returns the width and height that an image declares. Returns `None` if its format is not supported, or a side is out
/// of range.
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
    let fits = |side: u32| (1..=MAX_SIDE).contains(&side);
    (fits(size.0) && fits(size.1)).then_some(size)
}

/// Returns the size in the first frame header of a JPEG.
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
    fn an_image_takes_the_cells_it_needs_within_the_available_space() {
        let cells = |width, height| CANVAS.cells((width, height)).unwrap();
        assert_eq!(cells(100, 100), (10, 5));
        assert_eq!(cells(1, 1), (1, 1));
        assert_eq!(cells(2_000, 1_000), (64, 16));
        assert_eq!(cells(16_000, 100), (78, 1));
        assert_eq!(cells(100, 16_000), (1, 16));
        assert_eq!(Canvas { rows: 0, ..CANVAS }.cells((100, 100)), None);
        let tiny = Canvas { columns: 1, rows: 1, cell: (0, 0) };
        assert_eq!(tiny.cells((MAX_SIDE, MAX_SIDE)), Some((1, 1)));
    }

    #[test]
    fn kitty_gets_png_in_chunks_that_request_no_response() {
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
    fn image_dimensions_are_read_from_gif_jpeg_and_png() {
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
    fn invalid_and_oversized_images_are_not_drawn() {
        for data in ["\x1b]0;owned\x07", "aGVsbG8=", "", &png(0, 5, 0), &png(70_000, 5, 0), &png(5, 5, MAX_IMAGE_BYTES)]
        {
            assert_eq!(Graphics::Iterm2.draw(data, CANVAS), None);
        }
    }
}
