//! Runs properties on the files that libFuzzer left, and on pieces of them.

use std::path::Path;

/// A decoder with its property, by the name of its folder.
pub type Target = (&'static str, fn(&[u8]));

/// Runs each on all files in the folder of its name, of which there is one at least, on the empty input, and on every
/// file cut short.
pub fn run(targets: &[Target]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, property) in targets {
        property(b"");
        let files = std::fs::read_dir(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut ran = 0;
        for file in files {
            let bytes = std::fs::read(file.expect("a file").path()).expect("its bytes");
            property(&bytes);
            property(&bytes[..bytes.len() / 2]);
            property(&bytes[..bytes.len().saturating_sub(1)]);
            ran += 1;
        }
        assert!(ran > 0, "{name}: no files");
        println!("{name}: {ran} files");
    }
}
