use crate::elsewhere::BETWEEN;
use crate::frames::files::READ_NAMED;
use crate::reach::FIND_PLACE;
use thalweg_mover::endpoint::OPEN;
use thalweg_mover::endpoint::local::{FOLLOW_LINKS, NOT_ASKED_FOR, OPEN_SOURCE};
use thalweg_wire::message::{Failure, FailureKind};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match (failure.kind, failure.operation.as_str()) {
        (FailureKind::Unsupported, BETWEEN) => {
            "where you cannot log in: in two copies, through a directory here; one file also through a pipe: thalweg cat SRC | \
             thalweg stream - DST"
        }
        (FailureKind::Unsupported, _) if failure.cause.ends_with(NOT_ASKED_FOR) => {
            "--devices copies FIFOs and devices as what they are; what comes out of one goes with: thalweg stream - DST < SRC"
        }
        (FailureKind::NotFound, FOLLOW_LINKS) => {
            "--exclude leaves such a link out; without --copy-links (-L) links are copied as links, wherever they lead"
        }
        (FailureKind::Permission, FOLLOW_LINKS) => {
            "from an export only what is in it is copied, and an absolute link leads out: --exclude leaves such a link out; \
             without --copy-links (-L) links are copied as links, wherever they lead"
        }
        (FailureKind::Unsupported, FOLLOW_LINKS) => {
            "--exclude leaves the link out that leads there; without --copy-links (-L) links are copied as links"
        }
        (FailureKind::NotFound, OPEN_SOURCE | OPEN) if failure.cause.contains(['*', '?', '[']) => {
            "names are taken as they are, and patterns are not expanded: `cp` and `sync` choose what is below a source with \
             --include and --exclude, or by a list with --files-from"
        }
        (FailureKind::NotFound, FIND_PLACE) => {
            "as it is written it is a path of this machine; a place at a daemon is tw://HOST[:PORT]/EXPORT/PATH, one by ssh \
             [USER@]HOST:PATH, and one of the configuration @NAME/PATH"
        }
        (FailureKind::NotFound, READ_NAMED) => {
            "the files that an index names are looked for beside it, of a pipe beside the pipe, and of standard input in the \
             working directory: bring them there, or name the index where they are"
        }
        _ => return None,
    })
}
