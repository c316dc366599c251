//! Words that are not known, and what was meant.

use thalweg_wire::path::Escaped;

/// That a word is none of those that are known; and the nearest of them, if one is near.
pub fn not_known<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    let shown = Escaped(word.as_bytes());
    match nearest(word, known) {
        Some(near) => format!("`{shown}` is not known here: did you mean `{near}`?"),
        None => format!("`{shown}` is not known here"),
    }
}

/// The nearest of the words that are known, if one is near.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Of so many letters one may be wrong.
    const LETTERS_FOR_EACH: usize = 3;
    let near = known.map(|known| (distance(word, known), known)).min();
    near.filter(|(wrong, _)| wrong * LETTERS_FOR_EACH <= word.len()).map(|(_, near)| near)
}

/// Letters to put in, take out or change to make one word of the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().enumerate() {
        let mut corner = row[0];
        row[0] = at + 1;
        for (column, other) in to.iter().enumerate() {
            let changed = corner + usize::from(letter != *other);
            corner = row[column + 1];
            row[column + 1] = changed.min(corner + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_as_far_apart_as_letters_are_wrong() {
        for (one, other, far) in
            [("", "ab", 2), ("strems", "streams", 1), ("slot", "slots", 1), ("nice", "vice", 1)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (far, far), "{one} {other}");
        }
    }
}
