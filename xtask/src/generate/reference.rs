//! Pages of docs/reference that are made from the program itself.

use super::{text, visible};
use clap::Command;
use std::fmt::Write;
use thalweg_cli::{config, exit};
use thalweg_service::metrics::table::{Metric, TABLE};

const MADE: &str = "<!-- Made by `cargo xtask gen` from the code. Do not edit. -->\n\n";

/// docs/reference/cli.md: every command with its options.
pub fn command_line(command: &Command) -> String {
    let mut page = format!("{MADE}# The command line\n\n");
    let _ = writeln!(page, "{}\n", text(command.get_about()));
    for sub in visible(command) {
        let _ = writeln!(page, "- [`thalweg {0}`](#thalweg-{0}): {1}", sub.get_name(), text(sub.get_about()));
    }
    for sub in visible(command) {
        section(&mut page, "thalweg", sub);
    }
    let _ = writeln!(page, "\nExit codes: [exit-codes.md](exit-codes.md).");
    page
}

/// A command, then those below it.
fn section(page: &mut String, above: &str, command: &Command) {
    let name = format!("{above} {}", command.get_name());
    let _ = writeln!(page, "\n## {name}\n\n{}\n", text(command.get_about()));
    let usage = command.clone().bin_name(&name).render_usage().to_string();
    let _ = writeln!(page, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let shown = || command.get_arguments().filter(|argument| !argument.is_hide_set());
    shown()
        .filter(|argument| argument.get_help_heading().is_none())
        .for_each(|argument| option(page, argument));
    let mut headings: Vec<&str> = Vec::new();
    for heading in shown().filter_map(clap::Arg::get_help_heading) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let _ = writeln!(page, "\n**{heading}**\n");
        shown()
            .filter(|argument| argument.get_help_heading() == Some(heading))
            .for_each(|argument| option(page, argument));
    }
    if let Some(after) = command.get_after_help().filter(|after| !after.to_string().starts_with("Exit codes"))
    {
        let _ = writeln!(page, "\n{after}");
    }
    for sub in visible(command) {
        section(page, &name, sub);
    }
}

fn option(page: &mut String, argument: &clap::Arg) {
    if matches!(argument.get_id().as_str(), "help" | "version") {
        return;
    }
    let names: Vec<String> = argument
        .get_short()
        .map(|short| format!("-{short}"))
        .into_iter()
        .chain(argument.get_long().map(|long| format!("--{long}")))
        .collect();
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
    let value = if takes_value { values.collect::<Vec<_>>().join(" ") } else { String::new() };
    let shown =
        [names.join(", "), value].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let _ = write!(page, "- `{shown}`: {}", text(argument.get_help()));
    let possible = argument.get_possible_values();
    if takes_value && !possible.is_empty() {
        let all: Vec<_> = possible
            .iter()
            .map(|value| format!("`{}` ({})", value.get_name(), text(value.get_help())))
            .collect();
        let _ = write!(page, ". One of {}", all.join(", "));
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy().into_owned()).collect();
    if takes_value && !defaults.is_empty() {
        let _ = write!(page, ". Default: `{}`", defaults.join(" "));
    }
    if let Some(variable) = argument.get_env() {
        let _ = write!(page, ". Environment: `{}`", variable.to_string_lossy());
    }
    page.push('\n');
}

/// docs/reference/exit-codes.md.
pub fn exit_codes() -> String {
    let mut page =
        format!("{MADE}# Exit codes\n\nNever renumbered. A code that is not here is a failure.\n\n");
    page.push_str("| code | meaning |\n|---|---|\n");
    for (exit, meaning) in exit::TABLE {
        let _ = writeln!(page, "| {} | {meaning} |", exit.code());
    }
    page.push_str(
        "\nOf several failed entries the gravest decides: damage (4), then space (6), then other failures (2), then \
         changed sources (5). Of several copies in one command (`--and`) it is the same, and a copy of which nothing could \
         be done (1, 3) stands between other failures and space; a signal (130, 143) goes over all. A reader of stdout that goes away (`thalweg ls | head`) is no failure: commands that only \
         print end with 0, copies go on.\n",
    );
    page
}

/// docs/reference/metrics.md.
pub fn metrics() -> String {
    let mut page = format!("{MADE}# Metrics of a daemon\n\n{METRICS}\n");
    page.push_str("| metric | kind | labels | what it says |\n|---|---|---|---|\n");
    for Metric { name, kind, labels, help } in TABLE {
        let labels: Vec<String> = labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(page, "| `{name}` | {} | {} | {help} |", kind.word(), labels.join(", "));
    }
    page
}

const METRICS: &str = "\
What `thalweg serve --metrics` tells ([metrics.md](../guide/metrics.md)). Counters begin at zero with the daemon and never go \
back. Names are added, never given another meaning. `kind`, `direction` and `outcome` are those of the log \
([daemon.md](../guide/daemon.md#what-it-did)): `push` is what comes, `pull` what goes.
";

const CONFIGURATION: &str = "\
Layers, each over the one before:

1. `/etc/thalweg/config.toml`
2. `$XDG_CONFIG_HOME/thalweg/config.toml` (`~/.config/thalweg/config.toml`)
3. the environment
4. the command line

`--config FILE` (or `THALWEG_CONFIG`) goes in the place of the first two. A key at the top of a file is an option of every \
command that has it; in a table with a command's name it is that command's only, and goes over the top. `[frames]` is of \
all its commands. What only has the name of such an option stands on the command line: `--listen`, `--memory` and \
`--window` of `frames`, `--cca` of `advise`, `--chunk` and `--window` of `model`. A value is a text \
or a number as on the command line, `true` or `false` for a flag, and a list of texts where an option may be given several \
times (in the environment it has one value there). Files and directories (`state`, `ticket`, `ticket-file`, `place-file`, \
`issuers`) are relative to the configuration file, and `~/` is your home. A flag that a file sets is taken back by its variable: \
`THALWEG_COMPRESS=no`. What is not known, or has a bad value, is an error with file and line. A variable that is empty \
says nothing, and one that begins with `THALWEG_` and is none of those below is told with a warning.

```toml
streams = 8
stall-timeout = \"20s\"

[cp]
compress = true

[serve]
listen = [\"0.0.0.0:8487\", \"[::]:8487\"]
export = [\"data=/srv/data\", \"archive=/srv/archive:ro\"]

[place.site]
url = \"tw://dtn.example.org/data\"
ticket = \"site.ticket\"

[place.archive]
url = \"s3://archive/beamline\"
endpoint = \"https://store.example.org\"
profile = \"archive\"
```

## Places

`[place.NAME]` gives a place a name: `@NAME/path` is the path below `url` wherever a place is accepted, `@NAME` the place \
itself. `url` is `tw://HOST[:PORT][/EXPORT[/PATH]]`, an ssh place or `s3://BUCKET[/PREFIX]`; `ticket` names the ticket file of that daemon (relative \
to the configuration file; `~/` is your home) and goes over `--ticket`. A file of this machine that begins with `@` is \
written `./@...`. Secrets stand in ticket files only, never in a configuration, in the environment or on a command line; those \
for object stores stand where the AWS tools have them.

A place in a bucket may have: `endpoint`, the URL of the store (`http://` where nothing is to be encrypted); `region`; \
`profile`, one of the AWS configuration; `style`, `path` or `virtual`: where the bucket stands in a URL; `ca`, a file of \
certificates to trust (PEM); `anonymous = true`, where requests are not to be signed; `directory-markers = true`, which keeps \
directories as empty objects; `server-times = true`, which asks no object for the time of its file. What is not said is \
looked for in the environment and the AWS configuration ([object stores](../guide/objects.md)).

## Variables that are no options

| variable | what it says |
|---|---|
| `THALWEG_LOG` | what is told on stderr beside errors: `info`, `debug`, or by part, `thalweg_mover=debug` |
| `THALWEG_STATIC` | a static program for `--bootstrap` |

## Options

| option | variable | commands |
|---|---|---|
";

/// docs/reference/configuration.md: where options may stand besides the command line.
pub fn configuration(command: &Command) -> String {
    let mut page = format!("{MADE}# Configuration\n\n{CONFIGURATION}");
    for option in config::OPTIONS {
        let takes = |sub: &&Command| config::takes(sub, option);
        let commands: Vec<&str> = visible(command).filter(takes).map(Command::get_name).collect();
        let _ = writeln!(page, "| `{option}` | `{}` | {} |", config::variable(option), commands.join(", "));
    }
    page
}
