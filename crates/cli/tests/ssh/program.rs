//! The program at the far side: where it is looked for.

use super::sshd::Sshd;
use super::support::{Scratch, noise};
use super::{cp, ok, said, text};

#[test]
fn a_thalweg_that_cargo_put_into_the_far_home_is_found_in_the_first_login() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    std::fs::write(scratch.path("file"), noise(1, 100_000)).unwrap();
    let (file, far) = (text(&scratch.path("file")), sshd.url(&scratch.path("far")));
    let cargo = sshd.home.join(".cargo/bin");
    std::fs::create_dir_all(&cargo).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_thalweg"), cargo.join("thalweg")).unwrap();
    ok(&scratch, &sshd, &[&file, &far]);
    assert_eq!(std::fs::read(scratch.path("far")).unwrap(), noise(1, 100_000));
    assert_eq!(sshd.logins(), 1);
    // What its user names is tried alone.
    let out = cp(&scratch, &sshd, &["--far-path", "thalweg", &file, &far]);
    assert_eq!(out.status.code(), Some(3), "{}", said(&out));
    let told = said(&out);
    assert!(told.contains("no `thalweg` at 127.0.0.1") && !told.contains(".local/bin"), "{told}");
    assert!(told.contains("`ssh HOST thalweg --version`"), "{told}");
    // One that is in none of these places is said to be in none of them.
    std::fs::remove_file(cargo.join("thalweg")).unwrap();
    let told = said(&cp(&scratch, &sshd, &[&file, &far]));
    assert!(told.contains("no `thalweg` at 127.0.0.1") && told.contains("~/.local/bin"), "{told}");
}
