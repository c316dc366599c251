//! The program at the far side: where it is looked for.

use super::sshd::Sshd;
use super::support::{Scratch, finish, noise};
use super::{command, cp, ok, said, static_program, text};
use std::time::{Duration, SystemTime};

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

#[test]
fn where_a_program_is_placed_one_that_nobody_used_for_long_goes_and_a_use_keeps_it() {
    let scratch = Scratch::new();
    let Some(sshd) = Sshd::start_with(&scratch, false, &[]) else { return };
    let Some(program) = static_program() else { return };
    std::fs::write(scratch.path("file"), noise(1, 1000)).unwrap();
    let cache = sshd.cache().join("thalweg");
    let long_ago = SystemTime::now() - Duration::from_secs(40 * 86_400);
    let age = |name: &str| std::fs::File::open(cache.join(name)).unwrap().set_modified(long_ago).unwrap();
    let earlier = "0".repeat(64);
    for name in [earlier.as_str(), "notes"] {
        std::fs::create_dir_all(cache.join(name)).unwrap();
        std::fs::write(cache.join(name).join("thalweg"), "x").unwrap();
        age(name);
    }
    let bootstrap = |to: &str| {
        let mut copy = command(&scratch, &sshd, &["--bootstrap"]);
        copy.env("THALWEG_STATIC", &program).arg(scratch.path("file")).arg(sshd.url(&scratch.path(to)));
        let out = finish(copy.spawn().unwrap());
        assert!(out.status.success(), "{}", said(&out));
    };
    bootstrap("far-1");
    assert!(!cache.join(&earlier).exists());
    assert!(cache.join("notes/thalweg").exists());
    let is_placed = |name: &String| name.len() == 64;
    let names =
        || std::fs::read_dir(&cache).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap());
    let [placed] = names().filter(is_placed).collect::<Vec<_>>().try_into().expect("one program");
    age(&placed);
    bootstrap("far-2");
    let used = cache.join(&placed).metadata().unwrap().modified().unwrap();
    assert!(used > long_ago + Duration::from_secs(86_400), "its use is noted");
}
