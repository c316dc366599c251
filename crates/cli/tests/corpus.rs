//! Every file of the fuzz corpus through its decoder: what was found once stays fixed.

#[path = "../../../fuzz/src/cli.rs"]
mod properties;

#[path = "../../../fuzz/src/corpus.rs"]
mod corpus;

#[test]
fn every_file_of_the_corpus_keeps_the_property_of_its_decoder() {
    corpus::run(&properties::TARGETS);
}
