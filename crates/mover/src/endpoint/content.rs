//! Bytes that nobody stored: the same for the same seed and offset, however they are asked for. Pure.
//!
//! Each kind is made of small blocks, each from its own number only, so that any range can be made alone, by any number
//! of threads, and compared with what was read.

/// What content is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Content {
    /// No pattern: does not compress, no two blocks are the same.
    #[default]
    Noise,
    /// Frames of a detector: 1024 x 1024 pixels of 16 bits, little endian, a smooth bowl that drifts from frame to
    /// frame, with four bits of noise. Compresses to about half.
    Frames,
    /// Lines of 64 bytes with a number and common words, the last byte a line feed. Compresses to a fraction.
    Text,
}

impl Content {
    /// All kinds, with their names.
    pub const ALL: [(&'static str, Content); 3] =
        [("noise", Content::Noise), ("frames", Content::Frames), ("text", Content::Text)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, content)| *content == self).map_or("", |(name, _)| name)
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Content> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, content)| *content)
    }

    /// Fills `buffer` with the bytes from `offset` on.
    pub fn fill(self, seed: u64, offset: u64, buffer: &mut [u8]) {
        match self {
            Content::Noise => by_blocks(offset, buffer, |number| mixed(seed, number).to_le_bytes()),
            Content::Frames => by_blocks(offset, buffer, |number| pixels(seed, number)),
            Content::Text => by_blocks(offset, buffer, |number| line(seed, number)),
        }
    }
}

/// The same number for the same arguments, and no pattern (splitmix64: Steele, Lea, Flood, "Fast splittable
/// pseudorandom number generators", OOPSLA 2014).
pub fn mixed(seed: u64, number: u64) -> u64 {
    let mut mixed = seed.wrapping_add(number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Whole blocks in place, the first and the last one cut as the range has it.
fn by_blocks<const BYTES: usize>(offset: u64, buffer: &mut [u8], block: impl Fn(u64) -> [u8; BYTES]) {
    let bytes = BYTES as u64;
    let skip = (offset % bytes) as usize;
    let (head, rest) = buffer.split_at_mut(((BYTES - skip) % BYTES).min(buffer.len()));
    if !head.is_empty() {
        head.copy_from_slice(&block(offset / bytes)[skip..][..head.len()]);
    }
    let mut number = offset.div_ceil(bytes);
    let (whole, tail) = rest.as_chunks_mut::<BYTES>();
    for place in whole {
        *place = block(number);
        number += 1;
    }
    if !tail.is_empty() {
        tail.copy_from_slice(&block(number)[..tail.len()]);
    }
}

/// Pixels of one block: 4 bits of noise for each of them in one random number.
const PIXELS: usize = 16;

fn pixels(seed: u64, number: u64) -> [u8; 2 * PIXELS] {
    let noise = mixed(seed, number);
    let first = number.wrapping_mul(PIXELS as u64);
    let (x, y, frame) = ((first & 1023) as i32, ((first >> 10) & 1023) as i32, (first >> 20) & 63);
    // A row shares what depends on its height.
    let row = 800 + frame as i32 + (((y - 512) * (y - 512)) >> 9);
    let mut block = [0; 2 * PIXELS];
    for (at, pixel) in block.chunks_exact_mut(2).enumerate() {
        let from_middle = x + at as i32 - 512;
        let value = row + ((from_middle * from_middle) >> 9) + ((noise >> (4 * at)) & 15) as i32;
        pixel.copy_from_slice(&(value as u16).to_le_bytes());
    }
    block
}

const LINE_BYTES: usize = 64;

/// Digits of the number that a line begins with.
const DIGITS: usize = 10;

const WORDS: [&str; 32] = [
    "the",
    "of",
    "data",
    "file",
    "and",
    "beam",
    "to",
    "event",
    "run",
    "in",
    "detector",
    "value",
    "is",
    "sample",
    "energy",
    "for",
    "error",
    "time",
    "with",
    "count",
    "frame",
    "at",
    "temperature",
    "from",
    "node",
    "by",
    "calibration",
    "ok",
    "warning",
    "threshold",
    "on",
    "checksum",
];

/// A word takes so many bytes when it is put down, spaces behind it: a copy of a fixed length is several times as fast.
const PUT_BYTES: usize = 16;

const PADDED: [[u8; PUT_BYTES]; WORDS.len()] = {
    let mut padded = [[b' '; PUT_BYTES]; WORDS.len()];
    let mut at = 0;
    while at < WORDS.len() {
        let word = WORDS[at].as_bytes();
        let mut letter = 0;
        while letter < word.len() {
            padded[at][letter] = word[letter];
            letter += 1;
        }
        at += 1;
    }
    padded
};

fn line(seed: u64, number: u64) -> [u8; LINE_BYTES] {
    let mut block = [b' '; LINE_BYTES + PUT_BYTES];
    let mut rest = number;
    for digit in block[..DIGITS].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let mut chance = mixed(seed, number);
    let mut at = DIGITS + 1;
    while at < LINE_BYTES - 1 {
        // The product of two draws: the first words come more often than the last ones.
        let word = (((chance & 31) * ((chance >> 5) & 31)) >> 5) as usize;
        chance = chance.rotate_right(10).wrapping_add(number);
        block[at..at + PUT_BYTES].copy_from_slice(&PADDED[word]);
        at += WORDS[word].len() + 1;
    }
    block[LINE_BYTES - 1] = b'\n';
    let mut line = [0; LINE_BYTES];
    line.copy_from_slice(&block[..LINE_BYTES]);
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_of_one_kind() {
        for (name, content) in Content::ALL {
            assert_eq!((content.name(), Content::named(name)), (name, Some(content)));
        }
        assert_eq!(Content::named("folklore"), None);
    }

    /// Bytes that compression at level 1 leaves of a mebibyte, as a share.
    fn left(content: Content) -> f64 {
        let mut bytes = vec![0; 1 << 20];
        content.fill(7, 0, &mut bytes);
        let squeezed = zstd::bulk::compress(&bytes, 1).unwrap();
        squeezed.len() as f64 / bytes.len() as f64
    }

    #[test]
    fn kinds_compress_as_they_say() {
        assert!(left(Content::Noise) > 0.99);
        assert!((0.3..0.7).contains(&left(Content::Frames)), "{}", left(Content::Frames));
        assert!(left(Content::Text) < 0.45, "{}", left(Content::Text));
    }

    #[test]
    fn text_is_lines_of_words_and_frames_are_smooth() {
        let mut text = vec![0; 640];
        Content::Text.fill(3, 0, &mut text);
        let text = String::from_utf8(text).unwrap();
        assert_eq!(text.lines().count(), 10);
        assert!(text.lines().nth(9).unwrap().starts_with("0000000009 "));
        let mut frame = vec![0; 4096];
        Content::Frames.fill(3, 0, &mut frame);
        let pixels: Vec<i32> =
            frame.chunks(2).map(|two| i32::from(u16::from_le_bytes([two[0], two[1]]))).collect();
        // 1024 pixels are a row; neighbours differ by noise, and by a step of the bowl.
        assert!(pixels[..1024].windows(2).all(|pair| (pair[0] - pair[1]).abs() <= 18));
    }

    proptest! {
        #[test]
        fn any_range_alone_is_the_same_as_within_the_whole(
            kind in 0..3usize, seed: u64, from in 0..500usize, bytes in 0..500usize
        ) {
            let content = Content::ALL[kind].1;
            let mut whole = vec![0; 1000];
            content.fill(seed, 0, &mut whole);
            let mut part = vec![0; bytes];
            content.fill(seed, from as u64, &mut part);
            prop_assert_eq!(&part[..], &whole[from..from + bytes]);
        }

        #[test]
        fn another_seed_or_a_far_offset_gives_other_bytes(kind in 0..3usize, seed: u64, offset in 0..u64::MAX / 2) {
            let content = Content::ALL[kind].1;
            let mut bytes = [[0; 256]; 2];
            content.fill(seed, offset, &mut bytes[0]);
            content.fill(seed.wrapping_add(1), offset, &mut bytes[1]);
            prop_assert_ne!(bytes[0], bytes[1]);
        }
    }
}
