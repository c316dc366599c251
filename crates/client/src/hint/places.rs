use thalweg_wire::message::{Failure, FailureKind, Reason};

pub(super) fn of(failure: &Failure) -> Option<&'static str> {
    Some(match failure.reason {
        Reason::BothFar | Reason::NoErrands => {
            "where you cannot log in: cp and sync go through a directory here with --stage DIR; one file also through a pipe: \
             thalweg cat SRC | thalweg stream - DST"
        }
        Reason::NotAskedFor => {
            "--devices copies FIFOs and devices as what they are; what comes out of one goes with: thalweg stream - DST < SRC"
        }
        Reason::NotFollowed => match failure.kind {
            FailureKind::Permission => {
                "from an export only what is in it is taken, and an absolute link leads out: --exclude leaves such a link out; \
                 without -L links are taken as links, wherever they lead"
            }
            FailureKind::Unsupported => {
                "--exclude leaves the link out that leads there; without -L links are taken as links"
            }
            _ => "--exclude leaves such a link out; without -L links are taken as links, wherever they lead",
        },
        Reason::NotExpanded => {
            "names are taken as they are, and patterns are not expanded: `cp` and `sync` choose what is below a source with \
             --include and --exclude, or by a list with --files-from"
        }
        Reason::NoPlace => {
            "as it is written it is a path of this machine; a place at a daemon is tw://HOST[:PORT]/EXPORT/PATH, one by ssh \
             [USER@]HOST:PATH, and one of the configuration @NAME/PATH"
        }
        Reason::NotBesideIndex if failure.kind == FailureKind::NotFound => {
            "the files that an index names are looked for beside it, of a pipe beside the pipe, and of standard input in the \
             working directory: bring them there, or name the index where they are"
        }
        _ => return None,
    })
}
