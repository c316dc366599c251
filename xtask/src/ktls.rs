//! `cargo xtask ktls`: streams that the kernel seals, in a kernel that can: User Mode Linux, from Debian's package, on
//! this machine's own files.
//!
//! 1. The guest boots once for nothing. Where it does not, that says nothing about thalweg: skipped, and why.
//! 2. It boots with the host's root read-only, a tmpfs, and the modules `tls` and its ciphers.
//! 3. The unit tests of `link::ktls` run there, then a daemon and copies: kTLS at both ends, at one, at none, and with
//!    few records to a key, each way. Files are compared byte by byte.
//! 4. What `/proc/net/tls_stat` counted is the proof that the kernel did it, and nothing else.
//!
//! It says nothing about speed: the guest's kernel has no fast AES.
//!
//! On every host `ktls/xstate.c` stands between the guest and `ptrace`: where the processor has AMX the guest does not
//! start without. `--as-with-amx` shows on any host that it does with it.
//!
//! Since a kernel that nobody else uses is there: what `thalweg doctor --apply` changes of one, `--undo` puts back.

use crate::scratch::Scratch;
use crate::{cargo, command, packages, test};
use anyhow::{Context, Result, bail, ensure};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Options of the chore.
#[derive(Default, clap::Args)]
pub struct Args {
    /// Show all that the guest says
    #[arg(long)]
    pub verbose: bool,
    /// Do not install what is missing
    #[arg(long)]
    pub no_install: bool,
    /// Let the host look to the guest as one whose processor has AMX
    #[arg(long)]
    pub as_with_amx: bool,
}

const PACKAGES: &[(&str, &str)] = &[("user-mode-linux", GUEST), ("kmod", "/sbin/modprobe")];
const GUEST: &str = "/usr/bin/linux.uml";
/// Boots in two seconds; all of it takes less than half a minute.
const TIMEOUT: &str = "900";

/// What stands before the host's `ptrace`.
const XSTATE: (&str, &str) = ("xstate", include_str!("ktls/xstate.c"));
/// What makes a host one with AMX, behind that.
const AMX: (&str, &str) = ("amx", include_str!("ktls/amx.c"));

/// What the guest does that is only to boot.
const FIRST: &str = "#!/bin/sh\nmount -t proc proc /proc\necho BOOTED\n";
/// How it ends.
const POWER_OFF: &str = "echo 1 > /proc/sys/kernel/sysrq; echo o > /proc/sysrq-trigger; sleep 10\n";

/// A copy in the guest, each way.
struct Case {
    name: &'static str,
    /// kTLS at the server's end, and at the client's.
    kernel: (bool, bool),
    /// 1024 records to a key are 16 MiB: of the file over two streams one is replaced at least.
    few_records: bool,
}

/// Bytes of the file, as `head` takes them.
const FILE: &str = "48M";
/// Streams of each copy.
const STREAMS: u64 = 2;
/// Sockets with kTLS that a process makes to try the kernel, once.
const PROBE_SOCKETS: u64 = 2;

const CASES: &[Case] = &[
    Case { name: "both", kernel: (true, true), few_records: false },
    Case { name: "client", kernel: (false, true), few_records: false },
    Case { name: "server", kernel: (true, false), few_records: false },
    Case { name: "none", kernel: (false, false), few_records: false },
    Case { name: "few-records", kernel: (true, true), few_records: true },
    Case { name: "few-records-client", kernel: (false, true), few_records: true },
    Case { name: "few-records-server", kernel: (true, false), few_records: true },
];

impl Case {
    fn options(&self, kernel: bool) -> String {
        let records = if self.few_records { " --tls-records 1024" } else { "" };
        format!("--ktls {}{records}", if kernel { "on" } else { "off" })
    }

    /// Sockets that must have got keys, at least: each stream's, those that took over, and the probes. The server,
    /// which serves the push first, tries the kernel then.
    fn sockets_min(&self, way: &str) -> u64 {
        let streams = STREAMS + u64::from(self.few_records);
        let server = if self.kernel.0 { streams + if way == "push" { PROBE_SOCKETS } else { 0 } } else { 0 };
        server + if self.kernel.1 { streams + PROBE_SOCKETS } else { 0 }
    }
}

/// Runs it. Without the guest it says so and is done.
///
/// # Errors
/// If anything in the guest went otherwise than it should; in CI without the guest.
pub fn run(args: &Args) -> Result<()> {
    if !args.no_install {
        packages::install(PACKAGES)?;
    }
    if !Path::new(GUEST).exists() {
        return skipped(&format!("there is no {GUEST} (Debian's package user-mode-linux)"));
    }
    let scratch = Scratch::new("ktls")?;
    let preload = preload(&scratch, if args.as_with_amx { &[XSTATE, AMX] } else { &[XSTATE] })?;
    let said = boot(&scratch, &preload, FIRST)?;
    if !said.lines().any(|line| line.trim_end() == "BOOTED") {
        if args.verbose {
            println!("{said}");
        }
        let why = why_not(&said);
        ensure!(!args.as_with_amx, "the guest does not start as on a host with AMX: {why}");
        return skipped(&format!("the guest does not start on this host: {why}"));
    }
    let [mover, lab] = unit_tests(["thalweg_mover", "thalweg_lab"])?;
    let init = init(&cargo::build_debug()?, &mover, &lab)?;
    let said = boot(&scratch, &preload, &init)?;
    let judged = judge(&said);
    if args.verbose || judged.is_err() {
        println!("{said}");
    }
    judged
}

/// Says why nothing was done.
fn skipped(why: &str) -> Result<()> {
    ensure!(!test::is_ci(), "skipped what CI has to test: {why}");
    println!("skipped: {why}");
    Ok(())
}

/// Compiles what stands before the guest: the names of the libraries, as `LD_PRELOAD` takes them.
fn preload(scratch: &Scratch, sources: &[(&str, &str)]) -> Result<String> {
    let mut libraries = Vec::new();
    for (name, source) in sources {
        let file = scratch.path(&format!("{name}.c"));
        let library = scratch.path(&format!("{name}.so"));
        std::fs::write(&file, source)?;
        command::run(Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &file]))?;
        libraries.push(library.display().to_string());
    }
    Ok(libraries.join(":"))
}

/// Boots the guest with that as its first process, until it is off: all that was said, first by what runs on the host.
fn boot(scratch: &Scratch, preload: &str, init: &str) -> Result<String> {
    let script = scratch.path("init");
    std::fs::write(&script, format!("{init}{POWER_OFF}"))?;
    command::run(Command::new("chmod").arg("+x").arg(&script))?;
    let output = Command::new("timeout")
        .args(["-k", "1", TIMEOUT, "env", &format!("LD_PRELOAD={preload}"), GUEST])
        .args(["mem=768M", "rootfstype=hostfs", "rootflags=/", "ro", "quiet", "con=null", "con0=null,fd:1"])
        .arg(format!("init={}", script.display()))
        .stdin(Stdio::null())
        .output()
        .context("start the guest")?;
    let [host, guest] = [&output.stderr, &output.stdout].map(|said| String::from_utf8_lossy(said));
    Ok(format!("{host}\n{guest}"))
}

/// Why the guest did not start, of what it said: the first line that tells an error, else the last.
fn why_not(said: &str) -> &str {
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let error = lines.clone().find(|line| line.contains("Kernel panic") || line.contains("errno"));
    error.or_else(|| lines.next_back()).unwrap_or("it said nothing")
}

/// The programs with the unit tests of these libraries.
fn unit_tests(libraries: [&str; 2]) -> Result<[PathBuf; 2]> {
    // Beside this program, for the same reason as in [`cargo::build_debug`].
    let packages = ["--package", "thalweg-mover", "--package", "thalweg-lab", "--package", "xtask"];
    let all = cargo::built(&[&["test", "--quiet", "--lib"], &packages[..]].concat())?;
    let find = |library: &str| {
        let built = all.iter().find(|built| built.name == library);
        built.map(|built| built.program.clone()).with_context(|| format!("{library} has no unit tests"))
    };
    Ok([find(libraries[0])?, find(libraries[1])?])
}

/// What the guest does, as its first process.
fn init(program: &Path, tests: &Path, lab: &Path) -> Result<String> {
    let mut script = format!(
        r#"#!/bin/sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/mnt
mount -t proc proc /proc && mount -t tmpfs tmpfs /mnt && cd /mnt || echo FAILED mount
ip link set lo up
mkdir lib && ln -s /usr/lib/uml/modules lib/modules
# What the ciphers are made of the guest's kernel does not find by itself.
for module in gcm ctr ghash-generic chacha20poly1305 chacha_generic poly1305_generic tls sch_fq_codel; do modprobe -d /mnt "$module" || echo "FAILED module $module"; done
TMPDIR=/mnt {tests} --nocapture --test-threads 1 link::ktls && echo TESTS passed
TMPDIR=/mnt THALWEG_GUEST=1 {lab} --nocapture doctor::tests::kernel::what_a_kernel_of_its_own && echo SETTINGS passed
head -c {FILE} /dev/urandom > file
copies() {{ # name, options of the server, options of the client
    {program} serve --listen 127.0.0.1:8487 --state server --ticket-file ticket --export e=/mnt/there $2 > server.log 2>&1 &
    server=$!
    for i in $(seq 600); do [ -s ticket ] && break; sleep 0.1; done
    for way in push pull; do
        rm -rf there/* here; mkdir -p there here
        case $way in
            push) from=file to=tw://127.0.0.1:8487/e/ copy=there/file ;;
            pull) cp file there/file; from=tw://127.0.0.1:8487/e/file to=here/ copy=here/file ;;
        esac
        before=$(awk '$1 == "TlsTxSw" {{ print $2 }}' /proc/net/tls_stat)
        timeout -k 1 300 {program} cp -v --no-tune --state client --ticket ticket --cipher tls --streams {STREAMS} \
            $3 "$from" "$to" > client.log 2>&1
        status=$?
        cat client.log
        cmp file $copy && echo "CASE $1 $way $status $before $(awk '$1 == "TlsTxSw" {{ print $2 }}' /proc/net/tls_stat)"
    done
    kill $server; wait $server; cat server.log; rm -f ticket
}}
mkdir there
"#,
        tests = tests.display(),
        lab = lab.display(),
        program = program.display(),
    );
    for case in CASES {
        let (server, client) = (case.options(case.kernel.0), case.options(case.kernel.1));
        writeln!(script, "copies {} '{server}' '{client}'", case.name)?;
    }
    script += "cat /proc/net/tls_stat\n";
    Ok(script)
}

fn judge(said: &str) -> Result<()> {
    // Serial lines end as serial lines do.
    let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
    if let Some(failed) = lines.iter().find(|line| line.starts_with("FAILED")) {
        bail!("in the guest: {failed}");
    }
    ensure!(lines.contains(&"TESTS passed"), "the unit tests failed in the guest");
    ensure!(lines.contains(&"SETTINGS passed"), "settings were not put back in the guest");
    ensure!(!said.contains("skipped:"), "the guest's kernel lacks what the unit tests need");
    for case in CASES {
        for way in ["push", "pull"] {
            let told = lines.iter().find_map(|line| line.strip_prefix(&format!("CASE {} {way} ", case.name)));
            let told =
                told.with_context(|| format!("{} {way}: the copy differs or was not made", case.name))?;
            let numbers: Vec<u64> = told.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            let [status, before, after] = numbers[..] else { bail!("{} {way}: {told}", case.name) };
            ensure!(status == 0, "{} {way}: status {status}", case.name);
            let sockets = after - before;
            let is_none = case.kernel == (false, false);
            let is_proved = if is_none { sockets == 0 } else { sockets >= case.sockets_min(way) };
            ensure!(is_proved, "{} {way}: {sockets} sockets with kTLS", case.name);
            println!("{:18} {way}: the same, {sockets} sockets with kTLS", case.name);
        }
    }
    let stat: HashMap<&str, &str> = lines
        .iter()
        .filter(|line| line.starts_with("Tls"))
        .filter_map(|line| line.split_once(char::is_whitespace))
        .collect();
    for name in ["TlsTxSw", "TlsRxSw", "TlsDecryptError"] {
        println!("{name}: {}", stat.get(name).context("no /proc/net/tls_stat in the guest")?.trim());
    }
    if let Some(told) = lines
        .iter()
        .find_map(|line| Some(&line[line.find("kTLS: ")?..]).filter(|told| told.contains("measured")))
    {
        println!("auto, measured in the guest: {told}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::why_not;

    #[test]
    fn why_the_guest_did_not_start_is_the_first_error_or_else_the_last_line() {
        let amx = "\nmmapper_init - find_iomem failed\r\nuserspace - ptrace set fp regs failed, errno = 14\r\n\
                   Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\r\nCPU: 0 PID: 1\r\n";
        assert_eq!(why_not(amx), "userspace - ptrace set fp regs failed, errno = 14");
        let no_init =
            "Kernel panic - not syncing: Requested init /none failed (error -2).\nCPU: 0 PID: 1\nStack:\n";
        assert_eq!(why_not(no_init), "Kernel panic - not syncing: Requested init /none failed (error -2).");
        let traced = "ptrace: Operation not permitted\ncheck_ptrace : expected SIGSTOP, got status = 9\n\n";
        assert_eq!(why_not(traced), "check_ptrace : expected SIGSTOP, got status = 9");
        assert_eq!(why_not("\n"), "it said nothing");
    }
}
