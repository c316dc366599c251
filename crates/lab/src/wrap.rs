//! A program around another: strace, a shell that limits something, a door into a name space.

use std::process::Command;

/// `outer`, which runs `inner`: program and arguments of that follow its own. What `inner` sets and removes of the
/// environment is set and removed for both, and they are in its directory. Standard input and output are those of
/// `outer`.
pub fn wrap(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(directory) = inner.get_current_dir() {
        outer.current_dir(directory);
    }
    outer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrapped_has_its_words_its_environment_and_its_directory() {
        let mut inner = Command::new("sh");
        inner.args(["-c", "echo \"$0 ${SET-unset} ${HOME-unset} $PWD\"", "a word"]);
        inner.env("SET", "here").env_remove("HOME").current_dir("/proc/self");
        let mut outer = Command::new("sh");
        outer.args(["-c", "echo around; exec \"$@\"", "sh"]);
        let said = wrap(outer, &inner).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert!(said.starts_with("around\na word here unset /proc/"), "{said}");
    }
}
