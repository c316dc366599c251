//! The words of `data:`, a set of files that is made while it is read.

use super::units;
use thalweg_mover::endpoint::content::Content;
use thalweg_mover::endpoint::dataset::DatasetSpec;

/// Sizes with their weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes(pub Vec<(u64, u64)>);

/// `files=1000,size=1MiB,content=frames,sparse=10%,seed=7`, each with a default; a distribution of sizes has `+` where
/// a comma would be.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_spec(text: &str) -> Result<DatasetSpec, String> {
    let mut spec = DatasetSpec::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let number = || value.parse::<u64>().map_err(|_| format!("`{part}`: a number"));
        match key {
            "files" => spec.files = number()?,
            "size" => spec.sizes = parse_sizes(&value.replace('+', ","))?.0,
            "content" => spec.content = parse_content(value)?,
            "sparse" => spec.sparse_percent = parse_percent(value)?,
            "seed" => spec.seed = number()?,
            _ => return Err(format!("`{part}` is not one of files=, size=, content=, sparse=, seed=")),
        }
    }
    spec.check()?;
    Ok(spec)
}

/// The words that [`parse_spec`] reads.
pub fn words(spec: &DatasetSpec) -> String {
    let sizes: Vec<String> = match spec.sizes[..] {
        [(bytes, _)] => vec![bytes.to_string()],
        _ => spec.sizes.iter().map(|(bytes, weight)| format!("{bytes}:{weight}")).collect(),
    };
    format!(
        "files={},size={},content={},sparse={}%,seed={}",
        spec.files,
        sizes.join("+"),
        spec.content.name(),
        spec.sparse_percent,
        spec.seed
    )
}

/// Sizes: one, or several with their weights, `1KiB:70,1MiB:30`.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let one = |part: &str| match part.split_once(':') {
        Some((size, weight)) => {
            let weight = weight.parse().map_err(|_| format!("`{weight}`: a weight is a whole number"))?;
            Ok((units::parse_size(size)?, weight))
        }
        None => Ok((units::parse_size(part)?, 1)),
    };
    text.split(',').map(one).collect::<Result<Vec<_>, String>>().map(Sizes)
}

/// A kind of content by its name.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_content(text: &str) -> Result<Content, String> {
    let names: Vec<&str> = Content::ALL.iter().map(|(name, _)| *name).collect();
    Content::named(text).ok_or_else(|| format!("one of {}", names.join(", ")))
}

/// A share, in whole percent.
///
/// # Errors
/// What is wrong, in words.
pub fn parse_percent(text: &str) -> Result<u8, String> {
    units::parse_share(text).map(|share| (share * 100.0).round() as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_from_words_and_written_in_them() {
        let spec = parse_spec("files=1000,size=1KiB:70+1MiB:30,content=frames,sparse=10%,seed=7").unwrap();
        assert_eq!(spec.sizes, [(1024, 70), (1 << 20, 30)]);
        assert_eq!(
            (spec.files, spec.content, spec.sparse_percent, spec.seed),
            (1000, Content::Frames, 10, 7)
        );
        assert_eq!(parse_spec(&words(&spec)).unwrap(), spec);
        assert_eq!(parse_spec("").unwrap(), DatasetSpec::default());
        for bad in ["files=0", "size=x", "size=1:x", "content=folklore", "sparse=200%", "mood=good", "seed="]
        {
            assert!(parse_spec(bad).is_err(), "{bad}");
        }
    }
}
