//! `dataset.json`: what a data set is, in words that travel with it, so that a copy of it can be checked by itself.

use super::DatasetSpec;
use crate::endpoint::content::Content;
use serde::{Deserialize, Serialize};

/// Name of the file, at the set's root.
pub const DESCRIPTION_NAME: &str = "dataset.json";

/// Largest description that is read, in bytes.
pub const DESCRIPTION_BYTES_MAX: u64 = 64 << 10;

/// Of the way in which bytes come from numbers: another one makes other bytes.
const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Description {
    format: u32,
    files: u64,
    sizes: Vec<Size>,
    content: String,
    sparse_percent: u8,
    seed: u64,
}

#[derive(Serialize, Deserialize)]
struct Size {
    bytes: u64,
    weight: u64,
}

impl DatasetSpec {
    /// Content of [`DESCRIPTION_NAME`]: JSON, with an end of line. The same set has the same.
    pub fn description(&self) -> Vec<u8> {
        let sizes = self.sizes.iter().map(|&(bytes, weight)| Size { bytes, weight }).collect();
        let description = Description {
            format: FORMAT,
            files: self.files,
            sizes,
            content: self.content.name().to_owned(),
            sparse_percent: self.sparse_percent,
            seed: self.seed,
        };
        let mut text = serde_json::to_vec_pretty(&description).unwrap_or_default();
        text.push(b'\n');
        text
    }

    /// The set that [`DatasetSpec::description`] describes.
    ///
    /// # Errors
    /// What is wrong with it, in words: it is no JSON, of another format, or its numbers are out of their bounds.
    pub fn from_description(text: &[u8]) -> Result<DatasetSpec, String> {
        let told: Description = serde_json::from_slice(text).map_err(|error| error.to_string())?;
        if told.format != FORMAT {
            return Err(format!("was made in format {}, this program knows {FORMAT}", told.format));
        }
        let content = Content::named(&told.content).ok_or("of a content that is not known")?;
        let sizes = told.sizes.iter().map(|size| (size.bytes, size.weight)).collect();
        let spec = DatasetSpec {
            files: told.files,
            sizes,
            content,
            sparse_percent: told.sparse_percent,
            seed: told.seed,
        };
        spec.check()?;
        Ok(spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_known_again_by_its_description() {
        let sizes = vec![(1 << 20, 3), (4096, 1)];
        let spec =
            DatasetSpec { files: 7, sizes, sparse_percent: 25, seed: u64::MAX, ..DatasetSpec::default() };
        assert_eq!(DatasetSpec::from_description(&spec.description()), Ok(spec));
    }

    #[test]
    fn what_describes_no_set_is_told() {
        let text = String::from_utf8(DatasetSpec::default().description()).unwrap();
        let refused = |from: &str, to: &str| {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            DatasetSpec::from_description(changed.as_bytes()).unwrap_err()
        };
        assert!(refused("\"format\": 1", "\"format\": 2").contains("format 2"));
        assert!(refused("\"content\": \"", "\"content\": \"no ").contains("not known"));
        assert!(!refused("\"files\": 1", "\"files\": 0").is_empty());
        assert!(!refused("{", "[").is_empty());
    }
}
