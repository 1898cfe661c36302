//! Inputs that are almost valid.

use fastrand::Rng;

/// Bytes with a special meaning in some format.
const SPECIAL_BYTES: &[u8] = b"\0\t\n\r \"#$%&'()*+,-./0:;<=>?@[\\]^_`{|}~\x7f\xc3\xff";

/// Maximum length of an input.
const MAX_INPUT_BYTES: usize = 8 << 10;

/// Creates inputs from samples.
pub(crate) struct Mutator {
    random: Rng,
    samples: &'static [&'static str],
}

impl Mutator {
    pub(crate) fn new(seed: u64, samples: &'static [&'static str]) -> Self {
        Self { random: Rng::with_seed(seed), samples }
    }

    pub(crate) fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.sample().to_vec();
        for _ in 0..self.random.u32(0..8) {
            self.change(&mut input);
        }
        input.truncate(MAX_INPUT_BYTES);
        input
    }

    fn sample(&mut self) -> &'static [u8] {
        self.samples.get(self.random.usize(0..self.samples.len().max(1))).copied().unwrap_or_default().as_bytes()
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        let length = input.len();
        let at = self.random.usize(0..=length);
        let part = at..(at + self.random.usize(0..=16)).min(length);
        match self.random.u8(0..8) {
            0 => {
                input.splice(part, []);
            }
            1 => input.insert(at, self.random.u8(..)),
            2 | 3 => input.insert(at, *self.random.choice(SPECIAL_BYTES).unwrap_or(&0)),
            4 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.u8(0..8);
                }
            }
            5 => {
                // Repeats a part.
                let part = input.get(part).unwrap_or_default().repeat(1 << self.random.u32(0..6));
                input.splice(at..at, part);
            }
            6 => {
                let other = self.sample();
                let from = self.random.usize(0..=other.len());
                input.truncate(at);
                input.extend(other.get(from..).unwrap_or_default());
            }
            _ => {
                let numbers = [u64::MAX, 0, 1 << 31, 1 << 53, 999_999_999_999];
                let number = self.random.choice(numbers).unwrap_or_default().to_string();
                input.splice(part, number.into_bytes());
            }
        }
    }
}
