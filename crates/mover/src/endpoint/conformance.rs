//! What every implementation of the traits of endpoints has to keep, checked for each of them.
//!
//! A suite asks for a fresh place for each promise, its *bed*, and sees of the implementation nothing but the trait. A
//! new endpoint gets a bed beside the others ([`made`] for what needs no disk, [`local`] for what has one) and a test
//! that hands it to the suites of its traits: [`source`], [`destination`], [`flow`], [`feed`]. What it does not offer
//! is stated there, with the reason.
//!
//! Not checked, because nothing of it shows through the traits: that memory does not grow with the tree, what survives
//! a power cut, what a full disk or one that fails does to the outcome. Names that would leave the root cannot be
//! tried: no [`RelativePath`](thalweg_wire::RelativePath) is one.

mod source;

mod destination;

mod flow;

mod feed;

mod made;

mod local;

/// Promises that an implementation does not offer, and why.
type Missing = [(&'static str, &'static str)];

/// Checks each of the promises, but those that are `missing`: these it tells.
fn each<C: Copy>(promises: &[(&'static str, C)], missing: &Missing, check: impl Fn(C)) {
    for (promise, _) in missing {
        assert!(promises.iter().any(|(known, _)| known == promise), "nobody promises this: {promise}");
    }
    for &(promise, subject) in promises {
        match missing.iter().find(|(known, _)| *known == promise) {
            None => {
                // The last such line names what a failure is about.
                eprintln!("checked: {promise}");
                check(subject);
            }
            Some((_, reason)) => eprintln!("not offered: {promise}: {reason}"),
        }
    }
}

/// States that none of these promises is offered.
fn none_of<C>(promises: &[(&'static str, C)], reason: &str) {
    for (promise, _) in promises {
        eprintln!("not offered: {promise}: {reason}");
    }
}

/// Bytes without a pattern.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut content = vec![0; bytes];
    super::content::Content::Noise.fill(seed, 0, &mut content);
    content
}
