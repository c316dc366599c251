//! What holds for a whole process, in a process of its own: one test, so that no other runs beside it.

use std::io::ErrorKind;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use thalweg_sys::{Dir, process};

#[test]
fn modes_are_exact_the_file_size_limit_is_an_error_and_no_core_dump_is_made() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = Dir::open(scratch.path()).unwrap();

    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    dir.create_new(b"masked", 0o666).unwrap();
    assert_eq!(dir.stat(b"masked").unwrap().mode, 0o600);
    assert_eq!((process::umask_before(), process::user_mode()), (None, 0o666), "the kernel masks it");
    assert_eq!(process::user_directory_mode(), 0o777, "here as well");
    assert_eq!(process::clear_umask(), 0o077);
    assert_eq!((process::umask_before(), process::user_mode()), (Some(0o077), 0o600));
    assert_eq!(process::user_directory_mode(), 0o700);
    let umask_of = |command: &mut std::process::Command| {
        let said = command.args(["-c", "umask"]).output().unwrap().stdout;
        u32::from_str_radix(String::from_utf8(said).unwrap().trim(), 8).unwrap()
    };
    let mut command = std::process::Command::new("sh");
    assert_eq!(umask_of(&mut command), 0, "a child has ours");
    let mut command = std::process::Command::new("sh");
    assert_eq!(umask_of(thalweg_sys::child::with_users_umask(&mut command)), 0o077);
    for mode in [0o000, 0o777, 0o666, 0o4755, 0o1640] {
        dir.create_new(b"file", mode).unwrap();
        assert_eq!(dir.stat(b"file").unwrap().mode, mode);
        dir.remove_file(b"file").unwrap();
        dir.make_fifo(b"pipe", mode).unwrap();
        assert_eq!(dir.stat(b"pipe").unwrap().mode, mode);
        dir.remove_file(b"pipe").unwrap();
    }
    dir.make_dir(b"dir", 0o1777).unwrap();
    assert_eq!(dir.stat(b"dir").unwrap().mode, 0o1777);
    dir.set_mode(b"dir", 0o2750).unwrap();
    assert_eq!(dir.stat(b"dir").unwrap().mode, 0o2750);

    process::forbid_core_dumps().unwrap();
    let core = getrlimit(Resource::Core);
    assert!(core.current == core.maximum && core.maximum.is_some_and(|most| most <= 1), "{core:?}");
    process::forbid_core_dumps().unwrap();

    process::ignore_file_size_signal().unwrap();
    let file = dir.create_new(b"limited", 0o600).unwrap();
    let old = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(10_000), ..old }).unwrap();
    let error = file.write_all_at(&[1; 20_000], 0).unwrap_err();
    setrlimit(Resource::Fsize, old).unwrap();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{error}");
    assert_eq!(file.stat().unwrap().size, 10_000);
}
