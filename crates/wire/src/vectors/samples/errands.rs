//! Errands and guests.

use super::{Sample, digest, entry, failure, path, place};
use crate::account::RoomAccount;
use crate::hello::Cipher;
use crate::message::{
    Errand, ErrandCounts, ErrandKnobs, ErrandTold, GuestKey, Outcome, Pull, Question, Terms, Vouch,
};
use crate::{Kind, RelativePath};

pub(super) fn vouch() -> Question {
    Question::Vouch(Vouch {
        certificate: [0xfc; 32],
        places: vec![place()],
        write: true,
        deed: digest(3),
        seconds: 86_400,
        at: "dtn1:8487".into(),
    })
}

pub(super) fn errand() -> Question {
    Question::Errand(Box::new(Errand {
        address: "dtn2:8487".into(),
        server: [0xfb; 32],
        guest: GuestKey("-----BEGIN PRIVATE KEY-----\n".into()),
        sends: true,
        source: Pull::of(vec![place()]),
        destination: place(),
        terms: Terms::of(4 << 20, 1 << 20),
        knobs: ErrandKnobs {
            streams: Some(12),
            chunk_bytes: Some(4 << 20),
            request_bytes: Some(1 << 20),
            cipher: Cipher::Aes128Gcm,
            holds_still: true,
            patience_ms: 600_000,
            stall_ms: 30_000,
        },
        receipt: Some(digest(9)),
        tells_all: true,
    }))
}

pub(super) fn told() -> Vec<Sample<ErrandTold>> {
    use ErrandTold as T;
    let file = || entry(Kind::File { sparse: false, marked: false });
    let done = || Outcome::Done { digest: Some(digest(5)), losses: vec![] };
    let socket = || (RelativePath::root(), Outcome::Skipped("a socket".into()));
    each! { T;
        T::Settled(_) => "settled": T::Settled(vec![(file(), done())]);
        T::Aside(_) => "aside": T::Aside(vec![socket()]);
        T::Deleted(_) => "deleted": T::Deleted(vec![path(b"dir/old")]);
        T::LinkLost(_) => "link lost": T::LinkLost(failure());
        T::LinkUp { .. } => "link up": T::LinkUp { millis: 1540 };
        T::StreamLost(..) => "stream lost": T::StreamLost(3, failure());
        T::Repaired(_) => "repaired": T::Repaired(300);
        T::Note(_) => "note": T::Note("so".into());
        T::Knob(_) => "knob": T::Knob("turned".into());
        T::Detail(_) => "detail": T::Detail("more".into());
        T::LacksRoom { .. } => "lacks room": T::LacksRoom {
            room: RoomAccount { free_bytes: 5 << 40, wanted_bytes: 10 << 40 },
            is_all: true,
        };
        T::Planned(_) => "planned": T::Planned(b"{}".to_vec());
        T::Counts(_) => "counts": T::Counts(ErrandCounts {
            entries_found: 300,
            bytes_found: 5 << 33,
            scan_over: true,
            entries_settled: 200,
            entries_moved: 100,
            bytes_verified: 1 << 33,
            bytes_unmoved: 300,
        });
        T::ReceiptBegins => "receipt begins": T::ReceiptBegins;
        T::Block { .. } => "block": T::Block { number: 1, lines: vec!["-  0  dir  done  .\n".into()], is_whole: true };
        T::Pieces { .. } => "pieces": T::Pieces {
            path: path(b"a"),
            piece_bytes: 4 << 20,
            digests: vec![digest(1), digest(2)],
        };
        T::Over(_) => "over": T::Over(b"{}".to_vec());
        T::Failed(_) => "failed": T::Failed(failure());
    }
}
