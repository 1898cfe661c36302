//! Images as sixels: bands of six pixel rows, one colour after the other.

use std::collections::BTreeMap;
use std::io::Cursor;

/// Maximum pixels of an image to decode; a larger one would block the screen.
const MAX_PIXELS: usize = 4 << 20;
/// The highest level of red, green and blue: a cube of 216 colours, which every sixel terminal supports.
const MAX_LEVEL: u32 = 5;
/// The matrix for ordered dithering, which simulates more colours.
const DITHER: [[u32; 4]; 4] = [[0, 8, 2, 10], [12, 4, 14, 6], [3, 11, 1, 9], [15, 7, 13, 5]];

/// Pixels in row order, as red, green, blue and alpha.
struct Bitmap {
    width: usize,
    height: usize,
    points: Vec<[u8; 4]>,
}

/// Returns the sequence that draws a PNG within this width and height in pixels. Returns `None` if it cannot be
/// decoded.
pub(super) fn sequence(png: &[u8], most: (usize, usize)) -> Option<Vec<u8>> {
    let bitmap = Bitmap::decode(png)?;
    let (across, down) = most;
    let (width, height) = if bitmap.width * down > bitmap.height * across {
        (across.min(bitmap.width), bitmap.height * across.min(bitmap.width) / bitmap.width)
    } else {
        (bitmap.width * down.min(bitmap.height) / bitmap.height, down.min(bitmap.height))
    };
    Some(bitmap.scaled(width.max(1), height.max(1)).encode())
}

impl Bitmap {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let mut decoder = png::Decoder::new_with_limits(Cursor::new(bytes), png::Limits { bytes: MAX_PIXELS * 8 });
        decoder.set_transformations(png::Transformations::normalize_to_color8());
        let mut reader = decoder.read_info().ok()?;
        let mut data = vec![0; reader.output_buffer_size().filter(|size| *size <= MAX_PIXELS * 4)?];
        let frame = reader.next_frame(&mut data).ok()?;
        let point = |samples: &[u8]| match *samples {
            [grey] => [grey, grey, grey, u8::MAX],
            [grey, alpha] => [grey, grey, grey, alpha],
            [red, green, blue] => [red, green, blue, u8::MAX],
            [red, green, blue, alpha] => [red, green, blue, alpha],
            _ => [0; 4],
        };
        let (width, height) = (usize::try_from(frame.width).ok()?, usize::try_from(frame.height).ok()?);
        let points: Vec<[u8; 4]> =
            data.chunks_exact(frame.color_type.samples()).map(point).take(width * height).collect();
        (points.len() == width * height && width > 0 && height > 0).then_some(Self { width, height, points })
    }

    /// Scales the bitmap down. Each pixel is the mean of those that it replaces.
    fn scaled(&self, width: usize, height: usize) -> Self {
        let mut points = Vec::with_capacity(width * height);
        for y in 0..height {
            let (top, bottom) = (y * self.height / height, ((y + 1) * self.height).div_ceil(height));
            for x in 0..width {
                let (left, right) = (x * self.width / width, ((x + 1) * self.width).div_ceil(width));
                let rows = self.points.chunks_exact(self.width).take(bottom).skip(top);
                let (mut sum, mut count) = ([0u32; 4], 0u32);
                for point in rows.flat_map(|row| row.iter().take(right).skip(left)) {
                    sum.iter_mut().zip(point).for_each(|(sum, sample)| *sum += u32::from(*sample));
                    count += 1;
                }
                points.push(sum.map(|sum| u8::try_from(sum / count.max(1)).unwrap_or(u8::MAX)));
            }
        }
        Self { width, height, points }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = format!("\x1bP0;1;0q\"1;1;{};{}", self.width, self.height);
        for colour in 0..(MAX_LEVEL + 1).pow(3) {
            let percent = |level: u32| level * 100 / MAX_LEVEL;
            let (red, green, blue) = (colour / 36, colour / 6 % 6, colour % 6);
            out += &format!("#{colour};2;{};{};{}", percent(red), percent(green), percent(blue));
        }
        for (number, band) in self.points.chunks(self.width * 6).enumerate() {
            if number > 0 {
                out.push('-');
            }
            // The pixels of each colour in the band: for each column, a bit per row.
            let mut colours: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
            for (at, point) in band.iter().enumerate() {
                let (x, y) = (at % self.width, at / self.width);
                let Some(colour) = colour(*point, x, y) else { continue };
                let columns = colours.entry(colour).or_insert_with(|| vec![0; self.width]);
                if let Some(bits) = columns.get_mut(x) {
                    *bits |= 1 << y;
                }
            }
            for (colour, columns) in colours {
                out += &format!("#{colour}");
                for run in columns.chunk_by(|one, next| one == next) {
                    let sixel = char::from(b'?' + run.first().copied().unwrap_or(0));
                    match run.len() {
                        short @ ..=3 => out.extend(std::iter::repeat_n(sixel, short)),
                        long => out += &format!("!{long}{sixel}"),
                    }
                }
                out.push('$');
            }
        }
        out += "\x1b\\";
        out.into_bytes()
    }
}

/// Returns the dithered colour of a pixel, or `None` if it is transparent.
fn colour([red, green, blue, alpha]: [u8; 4], x: usize, y: usize) -> Option<u32> {
    let dither = DITHER.get(y % 4).and_then(|row| row.get(x % 4)).copied().unwrap_or(0) * 16 + 8;
    let level = |sample: u8| (u32::from(sample) * MAX_LEVEL + dither) / 255;
    let level = |sample| level(sample).min(MAX_LEVEL);
    (alpha >= 128).then(|| level(red) * 36 + level(green) * 6 + level(blue))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn png(width: u32, height: u32, colour: png::ColorType, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, width, height);
        encoder.set_color(colour);
        encoder.write_header().unwrap().write_image_data(data).unwrap();
        bytes
    }

    /// Returns what follows the colour definitions.
    fn bands(sequence: &[u8]) -> String {
        let text = String::from_utf8(sequence.to_vec()).unwrap();
        let (_, rest) = text.split_once("#215;2;100;100;100").unwrap();
        rest.strip_suffix("\x1b\\").unwrap().to_owned()
    }

    #[test]
    fn pixels_become_sixel_bits_and_transparent_ones_are_left_out() {
        let (red, none) = ([255, 0, 0, 255], [9, 9, 9, 0]);
        let rows: Vec<u8> = [[red; 5], [none; 5], [red; 5]].concat().concat();
        let drawn = sequence(&png(5, 3, png::ColorType::Rgba, &rows), (100, 100)).unwrap();
        assert!(drawn.starts_with(b"\x1bP0;1;0q\"1;1;5;3#0;2;0;0;0"));
        assert_eq!(bands(&drawn), "#180!5D$");
    }

    #[test]
    fn an_oversized_image_is_scaled_down_keeping_its_aspect_ratio() {
        let white = vec![255; 40 * 20 * 3];
        let drawn = sequence(&png(40, 20, png::ColorType::Rgb, &white), (10, 100)).unwrap();
        assert!(drawn.starts_with(b"\x1bP0;1;0q\"1;1;10;5#"));
        assert_eq!(bands(&drawn), "#215!10^$");
    }

    #[test]
    fn an_undecodable_image_is_not_drawn() {
        let whole = png(5, 5, png::ColorType::Grayscale, &[7; 25]);
        assert!(sequence(&whole, (10, 10)).is_some());
        for end in 0..whole.len() - 12 {
            let _ = sequence(&whole[..end], (10, 10));
        }
        assert_eq!(sequence(b"words", (10, 10)), None);
        assert_eq!(sequence(&whole[..40], (10, 10)), None);
    }
}
