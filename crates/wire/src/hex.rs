//! Bytes as hexadecimal digits, two for each.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Lower case, without anything between.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |four: u8| char::from(DIGITS[usize::from(four)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of such digits, of either case; `None` if it is anything else.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.chars().map(|digit| digit.to_digit(16).map(|four| four as u8));
    let digits = digits.collect::<Option<Vec<u8>>>()?;
    digits
        .len()
        .is_multiple_of(2)
        .then(|| digits.chunks_exact(2).map(|pair| (pair[0] << 4) | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn digits_are_what_they_are_elsewhere() {
        assert_eq!(hex(&[0, 1, 0xab, 0xff]), "0001abff");
        assert_eq!(unhex("0001abFF"), Some(vec![0, 1, 0xab, 0xff]));
        assert_eq!((hex(&[]), unhex("")), (String::new(), Some(Vec::new())));
        // A number may have a sign, and digits have not.
        for bad in ["0", "0g", "+f", "-0", " 1", "0x12", "\u{ff11}1"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes: Vec<u8>) {
            prop_assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        }
    }
}
