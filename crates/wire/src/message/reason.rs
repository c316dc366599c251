//! Why something failed, for programs: words change with the C library, with versions and with who says them.

use serde::de::IntoDeserializer;
use serde::de::value::{Error, U32Deserializer};
use serde::{Deserialize, Deserializer, Serialize};

/// Why it failed, where a decision or a hint goes by that.
///
/// On the wire it is its place in this list: what is new stands last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Reason {
    /// None that anybody goes by, or one that this version does not know.
    #[default]
    Other,
    /// No more descriptors may be had.
    NoDescriptors,
    /// A file would have more bytes than one may have there: by the account's limit, or the file system's own.
    FileTooLarge,
    /// There is no memory for a stream's frames.
    NoMemory,
    /// The account or the control group may have no more threads, or memory for them.
    NoThreads,
    /// The congestion control that was asked for is not permitted.
    CongestionRefused,
    /// A disk failed, or its file system.
    DiskFailed,
    /// A file system has room for bytes and none for more files.
    NoInodes,
    /// What keeps the name of a staging directory belongs to somebody else, or is open to others.
    NotOurs,
    /// Something would take the place of what stands there, and may not.
    NotReplaced,
    /// What is kept between copies has no directory.
    NoState,
    /// What is copied only if that is asked for was named.
    NotAskedFor,
    /// A name that is not there is a pattern that nobody expanded.
    NotExpanded,
    /// Both places are far.
    BothFar,
    /// A place is none of this machine, and is not written as another one's.
    NoPlace,
    /// A file that an index names is not to be had.
    NotBesideIndex,
    /// One side does not trust the other's certificate.
    NotTrusted,
    /// Nobody answers where a peer was dialled.
    NotAnswered,
    /// The name of a peer was not found.
    NotResolved,
    /// No way that was named leads to the far side.
    NoWay,
    /// The place that a measurement of a path was told is not reached.
    NotMeasured,
    /// The ssh of this machine cannot be started.
    NoSsh,
    /// The far side cannot keep or run our own program.
    NotPlaced,
    /// There is no thalweg where ssh was to start it.
    NoFarProgram,
    /// What ssh started there is no thalweg that this one can talk with.
    FarProgramDiffers,
    /// ssh does not get there, or has ended.
    SshEnded,
    /// A far mover that ssh started is not reached, or not any more.
    FarNotReached,
    /// A far mover that ssh started ends again and again.
    FarEnds,
    /// The same content arrived damaged too often, or is not what was read.
    Damaged,
    /// A file lost its name while it was written.
    NameLost,
    /// Another file has the name of one that is read in pieces.
    NameReplaced,
    /// A hub has no window of this size.
    NoWindow,
    /// Another one has the name of a producer or consumer.
    NameTaken,
    /// A channel has as many producers or consumers as it takes.
    ChannelCrowded,
    /// A hub cannot write its log, and tries again.
    LogNotWritten,
    /// Consumers are slower than producers, or away.
    ConsumersSlow,
    /// A set is over.
    SetOver,
    /// A hub has no room for one more channel.
    NoChannelRoom,
    /// Another hub has the spill log.
    LogTaken,
    /// Somebody changed the spill log under its hub.
    LogChanged,
    /// A spill log does not say how large it may be.
    LogSizeUnknown,
    /// Another hub has the directory.
    HubDirectoryTaken,
    /// Another daemon has the state directory.
    StateTaken,
    /// Another program has the port.
    PortTaken,
    /// Another transfer has the destination, or what is unfinished there.
    DestinationTaken,
    /// Another stream notes what grows there.
    GrowingTaken,
    /// What is to be ended as complete another stream still writes; what is to be removed somebody does.
    StillWritten,
    /// A copy that runs does not answer.
    CopySilent,
    /// Another watch has the directory.
    WatchTaken,
    /// What is to be run is no program.
    NoProgram,
    /// What works with threads is used in a process that has none of them.
    InFork,
    /// Nobody lets us make a host of a testbed.
    NoNamespace,
    /// A thread panicked.
    ThreadPanicked,
    /// What was begun begins anew the next time, and says itself what it needs.
    BeginsAnew,
    /// A symbolic link was to be followed, and is not.
    NotFollowed,
    /// Source files were to be removed, and may not be.
    SourceStays,
    /// A file system has no locks.
    NoLocks,
    /// Both sides speak the protocol, and no version of it in common.
    NoVersion,
    /// The key of a stream in TLS form has sealed as much as it may.
    KeyUsedUp,
    /// The certificate of an object store is not trusted.
    StoreNotTrusted,
    /// No object store answers at an endpoint.
    StoreNotAnswered,
    /// A token of an identity provider is not there, is over, or is not taken.
    TokenNotTaken,
    /// A daemon does not let itself be sent to the other one.
    NoErrands,
    /// A far mover answers and does not know a session any more.
    SessionGone,
    /// What a source has no more may not be deleted where a copy put it.
    NotDeleted,
}

impl Reason {
    /// In words with dashes, as events and Python have it: `no-descriptors`. `None` of [`Reason::Other`].
    pub fn word(self) -> Option<String> {
        if self == Reason::Other {
            return None;
        }
        let mut word = String::new();
        for letter in format!("{self:?}").chars() {
            if letter.is_ascii_uppercase() && !word.is_empty() {
                word.push('-');
            }
            word.push(letter.to_ascii_lowercase());
        }
        Some(word)
    }

    /// Reads one of any version: what this one does not know is [`Reason::Other`].
    pub(super) fn of_any<'de, D: Deserializer<'de>>(from: D) -> Result<Reason, D::Error> {
        let number: U32Deserializer<Error> = u32::deserialize(from)?.into_deserializer();
        Ok(Reason::deserialize(number).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Failure, FailureKind, LENGTH_BYTES, Message};

    /// Its body with this number in the place of its reason.
    fn with_number(number: &[u8]) -> Vec<u8> {
        let failure = Failure::new(FailureKind::Space, "write", "no").because(Reason::InFork);
        let mut bytes = Message::Goodbye(Some(failure)).encode().unwrap().split_off(LENGTH_BYTES);
        let at = bytes.iter().position(|&byte| byte == Reason::InFork as u8).unwrap();
        drop(bytes.splice(at..=at, number.iter().copied()));
        bytes
    }

    #[test]
    fn a_reason_that_only_the_peer_knows_is_read_as_any_other() {
        let reason_of = |number: &[u8]| match Message::decode(&with_number(number)).unwrap() {
            Message::Goodbye(Some(failure)) => {
                assert_eq!((failure.kind, &*failure.cause), (FailureKind::Space, "no"));
                failure.reason
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(reason_of(&[Reason::NoInodes as u8]), Reason::NoInodes);
        // The next one, and the largest number that there is.
        for number in [&[Reason::NotDeleted as u8 + 1][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]] {
            assert_eq!(reason_of(number), Reason::Other, "{number:?}");
        }
        assert!(Message::decode(&with_number(&[0xff; 6])).is_err(), "no number at all");
    }

    #[test]
    fn a_reason_has_a_word_for_programs_and_none_has_none() {
        assert_eq!(Reason::NoDescriptors.word().as_deref(), Some("no-descriptors"));
        assert_eq!(Reason::BothFar.word().as_deref(), Some("both-far"));
        assert_eq!(Reason::Other.word(), None);
    }

    #[test]
    fn of_two_reasons_the_one_nearer_to_the_cause_stays() {
        let failure = Failure::new(FailureKind::Space, "write", "no");
        assert_eq!(failure.reason, Reason::Other);
        let failure = failure.because(Reason::NoInodes).because(Reason::NoState);
        assert_eq!(failure.reason, Reason::NoInodes);
    }
}
