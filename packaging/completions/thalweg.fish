# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_thalweg_global_optspecs
    string join \n config= h/help V/version
end

function __fish_thalweg_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_thalweg_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_thalweg_using_subcommand
    set -l cmd (__fish_thalweg_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c thalweg -n "__fish_thalweg_needs_command" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_needs_command" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_needs_command" -s V -l version -d 'Print version'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "cp" -d 'Copy files and trees'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "sync" -d 'Make a destination the same as a source'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "stream" -d 'Move what is still being made: files that grow, directories with such files, pipes (`-`)'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "mark" -d 'Say how much of a file that a stream writes is durable'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "frames" -d 'Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "slots" -d 'Show who may send to a daemon, and when: the slots that it gave away'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "verify" -d 'Check that what a receipt says is still there, and undamaged'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "identity" -d 'Say who signs receipts here: fingerprint, public key and certificate'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "login" -d 'Log in at an identity provider whose tokens a daemon takes: approved in a browser, kept for all commands there'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "logout" -d 'Forget such logins, and have their provider give no more tokens by them'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "check" -d 'Compare two places by content, changing nothing'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "ls" -d 'List what is at a place'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "du" -d 'Sum up the bytes below a place'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "cat" -d 'Print files, compared with their digests'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "rm" -d 'Remove files and trees'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "gc" -d 'Find and remove what unfinished copies left behind'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "limit" -d 'Give copies that run another rate'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "why" -d 'Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "jobs" -d 'Show what goes on without a terminal (--detach); wait for it, stop it, resume it'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "predict" -d 'Say how long a transfer would take, with a range, before it begins'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "probe" -d 'Measure each part of a way alone and in company: which stage is the narrowest'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "tune" -d 'Find settings for a way by trial, one knob at a time; later copies start with them'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "explain-filter" -d 'Say which rule takes a path in or leaves it out'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "serve" -d 'Serve directories to other machines'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "ticket" -d 'Let people into a daemon, each with a name, rights and an end; and take that back'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "watch" -d 'Copy what becomes complete in a directory, and run a program on arrival, each item once'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "testbed" -d 'Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "advise" -d 'Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "model" -d 'Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "doctor" -d 'Say what on this machine stands in the way of moving data: what is, what should be, why, how to take it back'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "bench" -d 'Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "dataset" -d 'Files made from a seed, to measure and to try with, and checked by it'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "plot" -d 'Draw the figures of results: SVG or PNG, with their data as CSV'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "report" -d 'One page about results: figures beside the papers\' own, tables, what was measured where; HTML that stands alone'
complete -c thalweg -n "__fish_thalweg_needs_command" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l and -d 'One more copy at the same time: its sources, then its destination (a place that begins with `-` is written `./-`). May be given several times. Copies with the same daemon or ssh host share one link, in both directions; others have links of their own. All options apply to every copy, and the gravest exit code is the command\'s' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l bwlimit -d 'Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it (MiB/s). `thalweg limit` changes it while the copy runs' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l class -d 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there' -r -f -a "normal\t'As fast as the path carries, fair as TCP is'
scavenger\t'What others leave'"
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l dscp -d 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l nice -d 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l ionice -d 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l part -d 'Copy part K of N alone: files are dealt by their names, directories are in all parts. N hosts that see the same trees share a copy so, each with a K of its own (a job array); none knows of another. Not with deletions, --and and several hosts in a place' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l filter -d 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l include -d 'Take in names that match, before a later --exclude' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l exclude -d 'Leave out names that match' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l include-from -d 'Patterns to take in, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l exclude-from -d 'Patterns to leave out, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l files-from -d 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l verify -d 'How far to verify' -r -f -a "written\t'Digest compared before each write, everything synced'
readback\t'Then read again from the medium'
paranoid\t'And the source read twice'"
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l check -d 'How to recognise what is there already' -r -f -a "evidence\t'Size, time of change, and what is remembered of the last copy'
digest\t'Compare content'
nothing\t'Send everything again'"
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l io-depth -d 'Requests to a disk in flight for each stream (default: 4)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l direct -d 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l order -d 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l concurrency -d 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l depth -d 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l chunk -d 'Bytes of a chunk: a power of two from 64KiB to 64MiB' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l request -d 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l memory -d 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l window -d 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l stage -d 'Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to end. Both places may be far, also both tw://. See docs/guide/staging.md' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l streams -d 'TCP connections (default: by round trip and cores)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l patience -d 'Give up without progress for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l to-ticket -d 'The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at the source' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l receipt -d 'Write what both sides signed, and a line for each entry: see `thalweg verify`. Not with --and; of parts FILE.1, FILE.2 and so on' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l report -d 'Append how each entry ended, and what was deleted, to a file, as JSON lines' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s a -l archive -d 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s r -l recursive -d 'Copy directories. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s H -l hard-links -d 'Keep hard links. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s S -l sparse -d 'Keep holes. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s p -s g -s X -s A -l perms -l links -l times -l owner -l group -l xattrs -l acls -d 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-perms -l no-p -d 'Do not keep modes and ACLs: a new entry gets the source\'s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-owner -l no-o -d 'Do not keep owners and groups: what is written belongs to the user who writes it'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-times -l no-t -d 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-xattrs -d 'Do not keep attributes and ACLs'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l human-readable -d 'Sizes for people. Always on; accepted for your fingers, as is `-h` beside places'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s D -l devices -d 'Also copy FIFOs and device nodes'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s n -l dry-run -d 'Say what would be done, change nothing'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s v -l verbose -d 'Name each entry; twice: also those left alone'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s P -l progress -d 'Show progress even when stderr is no terminal'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-profile -d 'Neither predict the time from what earlier copies of this way took, nor remember what this one took'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s u -l update -d 'Leave alone what is newer at the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l ignore-existing -d 'Leave alone what exists at the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s x -l one-file-system -d 'Do not cross into other file systems'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s L -l copy-links -d 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l remove-source-files -d 'cp: remove each file and link of a source once it is verified and durable at the destination; what was there before only if --check digest finds it the same. Directories stay, and what cannot be kept in full (--no-owner, --no-xattrs). At a daemon only in exports that may be written and deleted in. Not with --and or --copy-links'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s 0 -l from0 -d 'Names and patterns in those files end with NUL, not with a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s z -l compress -d 'Compress where it pays'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-tune -d 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l find-renames -d 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l no-io-uring -d 'Helper threads for requests in flight, even where there is an io_uring'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand cp" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l and -d 'One more copy at the same time: its sources, then its destination (a place that begins with `-` is written `./-`). May be given several times. Copies with the same daemon or ssh host share one link, in both directions; others have links of their own. All options apply to every copy, and the gravest exit code is the command\'s' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l bwlimit -d 'Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it (MiB/s). `thalweg limit` changes it while the copy runs' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l class -d 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there' -r -f -a "normal\t'As fast as the path carries, fair as TCP is'
scavenger\t'What others leave'"
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l dscp -d 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l nice -d 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l ionice -d 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l part -d 'Copy part K of N alone: files are dealt by their names, directories are in all parts. N hosts that see the same trees share a copy so, each with a K of its own (a job array); none knows of another. Not with deletions, --and and several hosts in a place' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l max-delete -d 'sync: refuse to remove more than this many entries' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l filter -d 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l include -d 'Take in names that match, before a later --exclude' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l exclude -d 'Leave out names that match' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l include-from -d 'Patterns to take in, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l exclude-from -d 'Patterns to leave out, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l files-from -d 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l verify -d 'How far to verify' -r -f -a "written\t'Digest compared before each write, everything synced'
readback\t'Then read again from the medium'
paranoid\t'And the source read twice'"
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l check -d 'How to recognise what is there already' -r -f -a "evidence\t'Size, time of change, and what is remembered of the last copy'
digest\t'Compare content'
nothing\t'Send everything again'"
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l io-depth -d 'Requests to a disk in flight for each stream (default: 4)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l direct -d 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l order -d 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l concurrency -d 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l depth -d 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l chunk -d 'Bytes of a chunk: a power of two from 64KiB to 64MiB' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l request -d 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l memory -d 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l window -d 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l stage -d 'Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to end. Both places may be far, also both tw://. See docs/guide/staging.md' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l streams -d 'TCP connections (default: by round trip and cores)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l patience -d 'Give up without progress for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l to-ticket -d 'The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at the source' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l receipt -d 'Write what both sides signed, and a line for each entry: see `thalweg verify`. Not with --and; of parts FILE.1, FILE.2 and so on' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l report -d 'Append how each entry ended, and what was deleted, to a file, as JSON lines' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s a -l archive -d 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s r -l recursive -d 'Copy directories. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s H -l hard-links -d 'Keep hard links. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s S -l sparse -d 'Keep holes. Always on; accepted for your fingers'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s p -s g -s X -s A -l perms -l links -l times -l owner -l group -l xattrs -l acls -d 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-perms -l no-p -d 'Do not keep modes and ACLs: a new entry gets the source\'s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-owner -l no-o -d 'Do not keep owners and groups: what is written belongs to the user who writes it'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-times -l no-t -d 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-xattrs -d 'Do not keep attributes and ACLs'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l human-readable -d 'Sizes for people. Always on; accepted for your fingers, as is `-h` beside places'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s D -l devices -d 'Also copy FIFOs and device nodes'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s n -l dry-run -d 'Say what would be done, change nothing'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s v -l verbose -d 'Name each entry; twice: also those left alone'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s P -l progress -d 'Show progress even when stderr is no terminal'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-profile -d 'Neither predict the time from what earlier copies of this way took, nor remember what this one took'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s u -l update -d 'Leave alone what is newer at the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l ignore-existing -d 'Leave alone what exists at the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s x -l one-file-system -d 'Do not cross into other file systems'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s L -l copy-links -d 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l remove-source-files -d 'cp: remove each file and link of a source once it is verified and durable at the destination; what was there before only if --check digest finds it the same. Directories stay, and what cannot be kept in full (--no-owner, --no-xattrs). At a daemon only in exports that may be written and deleted in. Not with --and or --copy-links'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l delete -d 'sync: remove what the source does not have, and what stands where it has something of another kind'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s 0 -l from0 -d 'Names and patterns in those files end with NUL, not with a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s z -l compress -d 'Compress where it pays'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-tune -d 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l find-renames -d 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l no-io-uring -d 'Helper threads for requests in flight, even where there is an io_uring'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l until-idle -d 'All is complete when nothing grew, and nothing new came, for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l until-size -d 'The file is complete when it has so many bytes' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l until-marker -d 'All is complete when there is something of this name beside the file, or in the directory; it is not sent' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l poll -d 'Look every so often, and do not go by the file system\'s events (which network file systems lack)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l buffer -d 'Bytes that are kept in memory until they are durable at the destination, from 64KiB to 256MiB: a producer that is faster waits' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l memory -d 'Take at most so much memory for buffers here, from 8MiB: at most half of it for --buffer, and fewer streams' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l mark-every -d 'Time between two marks, up to a minute: how late a byte may become durable' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l slot -d 'Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all the time, and are to be durable within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be promised is refused, with by how much it does not fit or what would. Marks are made at least ten times in a deadline' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l bwlimit -d 'Send no faster than this; for instance 500Mbit/s, 50MB/s, or 50M (MiB/s). `thalweg limit` changes it while the stream runs' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l dscp -d 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l nice -d 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l ionice -d 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l streams -d 'TCP connections (default: by round trip and cores)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l patience -d 'Give up without progress for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l receipt -d 'Write what both sides signed, and a line for each file, to a file: see `thalweg verify`' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l report -d 'Write how each file ended, as JSON lines, to a file, behind what is in it' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l until-closed -d 'Files are complete when nobody has them open for writing. This is the default; in a directory each file is complete then in any case'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s f -l follow -d 'Never complete: go on until interrupted'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l wait -d 'Wait for a source that is not there yet'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l recheck -d 'Read each file again as a whole before it is said to be complete: what its writer changed after it was sent is told (exit 5), also where that changed while the file went on growing'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s v -l verbose -d 'Name each file, and tell what the stream goes by and more of the link'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s P -l progress -d 'Show progress even when stderr is no terminal'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -l json -d 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand stream" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand mark" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand mark" -l json -d 'As JSON, one object on a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand mark" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -f -a "push" -d 'Send files, or standard input, as frames'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -f -a "pull" -d 'Take frames, and write them into files as they come'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -f -a "status" -d 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and not __fish_seen_subcommand_from push pull status help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l frame-bytes -d 'Cut what is read into frames of so many bytes. A last one that has fewer is sent as it is, and told (exit 2)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l dtype -d 'Type of an element, as NumPy writes it, for instance <u2' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l shape -d 'Elements along each axis, slowest first, for instance 2048,2048' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l set -d 'All of it is this set, and its consumers are told whether they got the whole' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l set-frames -d 'The set has so many frames, 1 to 1048576 (default: as the sizes of the files say). Say it for a pipe: consumers are told what is missing if this is killed. If there are fewer the exit code is 2, and if there are more, which are not sent' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l producer -d 'Name of this producer: one that comes again under its name goes on with its sequence (default: a random one)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l deadline -d 'Nanoseconds, micro- or milliseconds, ... in which a frame should be with its consumers. Those that come later are counted, not dropped' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l frames-per-s -d 'Send so many frames a second, as far as they can be had. Each counts as made when it was due, also if it goes later' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l slot -d 'Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all the time, and are to be at the hub within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be promised is refused, with by how much it does not fit or what would' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l state -d 'With --detach: where thalweg keeps what it remembers, and the job' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l window -d 'Bytes that are under way and not taken, from 64KiB to 256MiB, or one larger frame. No more than this goes in each round trip; the hub gives a new one at most a quarter of what is left (`thalweg serve --frames-memory`)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l streams -d 'TCP connections (default: by round trip and cores, at most 4)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l memory -d 'If this opens the channel: bytes of frames that the hub holds in memory (default: 256MiB)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l spill-size -d 'If this opens the spill log: the most that it may have (default: 16GiB); beyond, or beyond 1048576 frames, the oldest are forgotten. A recorded log never gets less than it had' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l patience -d 'Give up when there was no link for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l index -d 'The files are indexes that `frames pull` wrote: send the frames that they name, with the times at which these were made; with --frames-per-s as if they were made now'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l framed -d 'What is read has each frame behind a line of JSON, as another program writes it into a pipe: its bytes, and its set, time, deadline, type, shape and metadata as far as it has them'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l resume -d 'Go on where a push of the same files under this --producer ended, also one that was killed: leave out as many frames as the hub has of it. The name has to be of this push alone: if the files have fewer frames, the exit code is 5. A set that was begun is over a minute after a kill, and takes no more. Without this they are sent once more, as further frames'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l durable -d 'A frame counts as sent when it is synced in the spill log of the hub, not when the hub holds it. Implies --record'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l record -d 'Have the hub write every frame to the spill log: late consumers replay it, and a hub that was killed goes on from it'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l unattended -d 'If this opens the channel, or pushes to it: frames that come while nobody consumes go nowhere, rather than wait; nor do those of others wait any more that did'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -l json -d 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from push" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l every -d 'Frames of a file; the end of a set ends one too (default: all in one)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l file-name -d 'What the files are called: NAME-000000.raw, and NAME-000000.jsonl beside it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l policy -d 'When this is slower than the producers: block (they wait), spill (the hub writes what its memory does not hold), drop-oldest, drop-oldest:N (at most N frames behind), latest-only' -r -f -a "block\t''
spill\t''
drop-oldest\t''
latest-only\t''"
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l group -d 'Share the frames with all others of this group: each goes to one' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l from -d 'Begin with everything that is there (start), with what comes (now), or with this sequence of each producer' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l producers -d 'End when so many producers have finished, and all that are known' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l count -d 'End after so many frames' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l name -d 'A name to come back under: a pull that was killed or stopped, or had its --count, goes on behind what it had put away, within --keep' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l keep -d 'For so long the hub keeps the place of a consumer whose link was closed, as by a kill; in an outage as long as its --patience, if that is longer' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l link-rate -d 'What the link could carry, for instance 10Gbit/s: with it the end has a Streaming Speed Score' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l hub -d 'Have the hub in this process, without a daemon: frames are taken out of its memory, with one hop less. It makes DIR/ticket, which producers need, and keeps spill logs in DIR/spill; it ends with this command' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l listen -d 'Where that hub listens (default: 127.0.0.1:0, the kernel chooses the port; the place to push to is told)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l window -d 'Bytes that are under way and not taken, from 64KiB to 256MiB, or one larger frame. No more than this goes in each round trip; the hub gives a new one at most a quarter of what is left (`thalweg serve --frames-memory`)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l streams -d 'TCP connections (default: by round trip and cores, at most 4)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l memory -d 'If this opens the channel: bytes of frames that the hub holds in memory (default: 256MiB)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l spill-size -d 'If this opens the spill log: the most that it may have (default: 16GiB); beyond, or beyond 1048576 frames, the oldest are forgotten. A recorded log never gets less than it had' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l patience -d 'Give up when there was no link for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l framed -d 'To standard output (-): each frame behind a line of JSON, for another program to read; lines of their own say what was lost, and which sets are over'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l record -d 'Have the hub write every frame to the spill log: late consumers replay it, and a hub that was killed goes on from it'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l unattended -d 'If this opens the channel, or pushes to it: frames that come while nobody consumes go nowhere, rather than wait; nor do those of others wait any more that did'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -l json -d 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from pull" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -l json -d 'As JSON, one object'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from help" -f -a "push" -d 'Send files, or standard input, as frames'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from help" -f -a "pull" -d 'Take frames, and write them into files as they come'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from help" -f -a "status" -d 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
complete -c thalweg -n "__fish_thalweg_using_subcommand frames; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand slots" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l sample -d 'Read only so many files, or this share of them (5%, 0.05), drawn by a seed; of all others look at name, kind and size. Says how many damaged files that would have shown' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l seed -d 'Draw them by this seed: with the same receipt it draws the same files. Default: a random one, which is told' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l sender -d 'Who may have signed as the sender: SHA-256 fingerprints of certificates (`thalweg identity`, or `openssl x509 -in CERT -noout -fingerprint -sha256`) or Ed25519 public keys, in hexadecimal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l receiver -d 'Who may have signed as the receiver, in the same form' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l keys -d 'Who may have signed on either side, in the same form. One of them may have signed for both' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l patience -d 'Give up without progress for so long: a link that is lost is dialled again until then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l state -d 'With --detach: where thalweg keeps what it remembers, and the job' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l show -d 'Look at no place: say what the receipt certifies (when, from where, to where, how far it was verified, how much, who signed), if it is what was signed'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l strict -d 'Also report what is there and not in the receipt, or in none of them'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l as-b3sum -d 'Look at no place: print the files of the receipt, if it is what was signed, as `b3sum --check` takes them'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand identity" -l state -d 'Where the keys are. That of the user is made there if there is none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand identity" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand identity" -l server -d 'Print the identity of the server whose state directory this is, not that of the user'
complete -c thalweg -n "__fish_thalweg_using_subcommand identity" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand identity" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand login" -l ticket -d 'The place file that `thalweg serve` wrote: it says whose tokens are taken there, and how one logs in' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand login" -l issuer -d 'Where the place file names several issuers, this one (default: to log in the first that has logins, to log out all)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand login" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand login" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand login" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -l ticket -d 'The place file that `thalweg serve` wrote: it says whose tokens are taken there, and how one logs in' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -l issuer -d 'Where the place file names several issuers, this one (default: to log in the first that has logins, to log out all)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -l all -d 'All logins that are kept, whatever their place files say by now; --ticket is not asked then'
complete -c thalweg -n "__fish_thalweg_using_subcommand logout" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l sums -d 'Compare the files of SRC with this list (`-`: stdin), as `b3sum` or `thalweg verify --as-b3sum` writes it; names in it are relative to SRC. What is not in it is not looked for' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l sample -d 'Compare the content of only so many files, or of this share of them (5%, 0.05), drawn by a seed; of all others name, kind and size. Says how many different files that would have shown' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l seed -d 'Draw them by this seed: of the same names it draws the same files. Default: a random one, which is told' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l part -d 'Compare part K of N alone: names are dealt as those of a copy with --part, so that N hosts that see the same trees share a comparison. Places at several hosts, as cp takes them, are compared so by one command' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l filter -d 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l include -d 'Take in names that match, before a later --exclude' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l exclude -d 'Leave out names that match' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l include-from -d 'Patterns to take in, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l exclude-from -d 'Patterns to leave out, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l files-from -d 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l patience -d 'Give up without progress for so long: a link that is lost is dialled again until then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l state -d 'With --detach: where thalweg keeps what it remembers, and the job' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s D -l devices -d 'FIFOs and device nodes too, which a copy without --devices leaves out'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s L -l copy-links -d 'What symbolic links lead to instead of the links, at both places, as `cp -L` copies it. From a daemon none that leads out of its export. With --sums always so'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s 0 -l from0 -d 'Names and patterns in those files end with NUL, not with a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l patience -d 'Give up without progress for so long: a link that is lost is dialled again until then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s l -l long -d 'With kind, mode, owner, bytes and time'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s R -l recursive -d 'All levels'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s L -l dereference -d 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand ls" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l patience -d 'Give up without progress for so long: a link that is lost is dialled again until then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s s -l summarize -d 'Only the sum. Always on; accepted for your fingers, as is `-h` beside it'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s L -l dereference -d 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand du" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l patience -d 'Give up without progress for so long: a link that is lost is dialled again until then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -s r -l recursive -d 'Directories, with everything in them'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand rm" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -l older-than -d 'Remove only what has not changed for so long, for instance 7d: a copy may still resume from the rest. In a bucket what was begun so long ago, by whatever program; without, only what copies with this state directory left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -l state -d 'Where thalweg keeps its keys and what it remembers: which uploads to a bucket it left' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -l yes -d 'Remove what no copy uses; without it only list. Copies that would resume from it begin anew'
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand gc" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand limit" -l state -d 'Where thalweg keeps its keys and what it remembers; to reach a daemon, its state directory' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand limit" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand limit" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -l state -d 'Where thalweg keeps its keys and what it remembers; that of a daemon shows what it serves' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -s v -l verbose -d 'With a table of all stages of both sides; twice: also streams, processes and disks'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -s q -l quiet -d 'Only the sentence'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -l watch -d 'Look again every second until the transfer is over'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -l list -d 'All transfers that are known, a line each'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -l json -d 'The answer as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand why" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "show" -d 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "log" -d 'Print what a job said'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "wait" -d 'Wait until jobs are over; exit with the gravest of their exit codes'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "stop" -d 'Ask jobs to stop in order, and wait for that'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "resume" -d 'Run jobs again that are over and not done: the same words, in the same directory'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "forget" -d 'Remove the record and the log of jobs that are over'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and not __fish_seen_subcommand_from show log wait stop resume forget help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from show" -l lines -d 'Lines of what it said last' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from show" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from show" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from show" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from log" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from log" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from log" -s f -l follow -d 'Go on until the job is over'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from log" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from log" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from wait" -l timeout -d 'Wait for no longer (default: as long as it takes)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from wait" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from wait" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from wait" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from wait" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from stop" -l timeout -d 'Wait for no longer; the job goes on stopping: what was written becomes durable first' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from stop" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from stop" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from stop" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from stop" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from resume" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from resume" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from resume" -l all -d 'All that were interrupted on this machine, as after it was started anew; not those that failed or were stopped'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from resume" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from resume" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from forget" -l older-than -d 'All that have been over for so long, for instance 30d' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from forget" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from forget" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from forget" -l json -d 'Each job that is told of as JSON, one a line, on stdout; not with log'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from forget" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "log" -d 'Print what a job said'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "wait" -d 'Wait until jobs are over; exit with the gravest of their exit codes'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "stop" -d 'Ask jobs to stop in order, and wait for that'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "resume" -d 'Run jobs again that are over and not done: the same words, in the same directory'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "forget" -d 'Remove the record and the log of jobs that are over'
complete -c thalweg -n "__fish_thalweg_using_subcommand jobs; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l deadline -d 'Will it be done in this time, in 99 of 100 cases?' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l scan -d 'Count what is at SRC for so long, or 1,000 entries in any case; if it is larger, a sample is taken for as long again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l measure -d 'Measure for so long where nothing is known, or only by a probe of more than a day ago; from 4 s to 1 min' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l bwlimit -d 'Of the copy, as in cp; what is measured is not held to it (--no-measure)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l verify -d 'As in cp' -r -f -a "written\t'Digest compared before each write, everything synced'
readback\t'Then read again from the medium'
paranoid\t'And the source read twice'"
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l streams -d 'As in cp' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l check -d 'How to recognise what is there already' -r -f -a "evidence\t'Size, time of change, and what is remembered of the last copy'
digest\t'Compare content'
nothing\t'Send everything again'"
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l io-depth -d 'Requests to a disk in flight for each stream (default: 4)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l direct -d 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l order -d 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l concurrency -d 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l depth -d 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l chunk -d 'Bytes of a chunk: a power of two from 64KiB to 64MiB' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l request -d 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l memory -d 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l window -d 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l class -d 'As in cp' -r -f -a "normal\t'As fast as the path carries, fair as TCP is'
scavenger\t'What others leave'"
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l dscp -d 'As in cp' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l no-measure -d 'Do not measure: only what is remembered counts'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -s z -l compress -d 'Compress where it pays'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l no-tune -d 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l find-renames -d 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l no-io-uring -d 'Helper threads for requests in flight, even where there is an io_uring'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand predict" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l seconds -d 'Take about so long, from 4 s to 1 min: less says less. Over a way of less than some 50 Mbit/s, or with a slow disk, at most half as long again (24 s if less than 16 s was asked for), counted from when the far side was reached, so that transfers come to their ends' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l svg -d 'Draw the basin into a file' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l streams -d 'TCP connections (default: as a copy would choose)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -s v -l verbose -d 'With the accounts of the whole way'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l no-profile -d 'Do not remember the result for `thalweg predict`'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand probe" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l time -d 'Take no longer than this, from 10 s to 1 h: less tries less' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l bytes -d 'Move no more content than this in all trials, at least 64 MiB' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -s n -l dry-run -d 'Say what was found, and do not remember it'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l forget -d 'Measure nothing: forget what was found for this way'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand tune" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l filter -d 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l include -d 'Take in names that match, before a later --exclude' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l exclude -d 'Leave out names that match' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l include-from -d 'Patterns to take in, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l exclude-from -d 'Patterns to leave out, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l files-from -d 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -s 0 -l from0 -d 'Names and patterns in those files end with NUL, not with a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand explain-filter" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l listen -d 'Where to listen, ADDRESS:PORT; port 0 lets the kernel choose. May be given several times' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l export -d 'A directory that clients may use: NAME=DIR, or NAME=DIR:FLAG,... May be given several times. Flags: ro, they may only read; no-delete, they delete nothing; no-replace, what is there is never replaced; setid, files that they leave may have set-id bits and capabilities; min-free=SIZE or min-free=PERCENT%, so much of the file system is kept free; max-spill=SIZE, spill logs there have that instead of --max-spill; bwlimit=RATE, all transfers there together move no faster, with equal parts. A DIR whose own name ends like that is followed by :rw' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l state -d 'Where the server keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l ticket-file -d 'Write what a client needs (addresses, fingerprint, key) here, readable by you only' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l issuers -d 'Let in who shows a token of an identity provider (OpenID Connect): FILE says whose tokens are taken and what they give. A change counts at a reload, and ends what is under way with a token to which it gives something else or nothing' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l place-file -d 'Write what a client with a token needs (addresses, fingerprint, issuers) here, for its --ticket; no secret is in it' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l advertise -d 'Address that the ticket names instead of those of this machine, for --via ticket. May be given several times' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l patience -d 'Keep a session without a link for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l stall-timeout -d 'Without a sign of life for so long, a link counts as lost' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l max-sessions -d 'Serve at most so many sessions at a time; a client beyond them is told that the server is busy' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l max-sessions-per-address -d 'Serve at most so many of these from one address (of IPv6: one network of 64 bits) (default: half of them)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l memory -d 'Take at most so much memory for buffers of all sessions together, from 8MiB; a stream for which there is none is refused' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l bwlimit -d 'Move no faster than this, all sessions and both directions together; for instance 5Gbit/s. Sessions that move data have equal parts, and what one does not use is the others\'. `thalweg limit PID RATE` changes it while the daemon runs, and a reload does. Not with --slots, whose promises it would break' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l slots -d 'Give the way to this server away in slots: streams that ask for one (`thalweg stream --slot`) get windows in which no other has one, or are refused. RATE is what the way carries, for instance 10Gbit/s; measure: four fifths of what this machine takes in, measured for some seconds at the start. What comes without a slot waits while somebody\'s window is open' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l frames-memory -d 'Bytes of frames that all channels together may hold in memory; as much again is for what is under way from producers and to consumers (--window) (default: 1GiB, or in a control group an eighth of what it may have, if that is less)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l max-spill -d 'The most that a client may let the spill log of a channel have (`frames --spill-size`); one that asks for more is refused. A recorded log keeps what it has. max-spill of an export takes precedence' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l block-max -d 'A consumer of frames with --policy block that takes nothing may hold producers up for so long: after that the oldest frames are dropped for it, each is named to it, and producers are told, until it takes something. At least 5s (default: as long as it is there)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l log-format -d 'Write a log to stderr in this form, with a line for each transfer when it is over: what THALWEG_LOG asks for, else as THALWEG_LOG=info. Without it there is a log, for people, where THALWEG_LOG is set' -r -f -a "text\t'Lines for people'
json\t'An object of JSON on each line'"
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l metrics -d 'Answer Prometheus at this address, in clear and without a ticket, for instance 127.0.0.1:9487: what the daemon counts (`GET /metrics`), and whether it accepts (`GET /healthz`). Port 0 lets the kernel choose (default: none)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l errands -d 'Let clients send this daemon to these other daemons, of which each has the port of daemons if it names none: for copies between an export here and one there (`thalweg cp tw://... tw://...`), which it then runs. With any it dials wherever a client says. Not with --slots (default: to none)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -l require-tls -d 'Refuse transfers of clients that do not ask for TLS records (`--cipher tls`)'
complete -c thalweg -n "__fish_thalweg_using_subcommand serve" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -f -a "new" -d 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -f -a "list" -d 'List tickets: what each permits, when it was made, when it ends, when it was used last'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -f -a "revoke" -d 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and not __fish_seen_subcommand_from new list revoke help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l export -d 'Only this export, EXPORT or EXPORT:FLAG,...: ro, its holder may only read; no-delete, deletes nothing; no-replace, replaces nothing. It takes away from what the export permits, and adds nothing. May be given several times (default: all exports, those that come later included)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l below -d 'Of each of these exports only this directory, which is all of it to the holder' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l expires -d 'It ends after so long, for instance 30d, or at the beginning of a day, 2027-01-31, in UTC (default: never). What runs then goes on for at most an hour' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l bwlimit -d 'All transfers with it together move no faster than this, for instance 1Gbit/s. A daemon with --slots does not go by it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -s o -l output -d 'Write the ticket here, readable by you only; no file is replaced (default: NAME.ticket)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l state -d 'The daemon\'s state directory' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from new" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from list" -l state -d 'The daemon\'s state directory' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from list" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from list" -l json -d 'A ticket as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from revoke" -l state -d 'The daemon\'s state directory' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from revoke" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from revoke" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from help" -f -a "new" -d 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from help" -f -a "list" -d 'List tickets: what each permits, when it was made, when it ends, when it was used last'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from help" -f -a "revoke" -d 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand ticket; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l on-arrival -d 'Run this program, on this machine, for each item once it has arrived, is verified and durable. It is told about the item in its environment (THALWEG_ITEM_PATH, _NAME, _DIGEST, _RECEIPT, _KEY, ...); no shell sees any of it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l item -d 'What is one item' -r -f -a "file\t'Each file, at any depth'
directory\t'Each directory at the top, with all that is in it'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l stable -d 'An item is complete when its sizes and times have not changed for so long (default: 2s; a file in a bucket is complete when it is there)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l marker -d 'An item is complete when its marker is there, made or touched after the item\'s last change: for a file NAME the file NAME + MARKER beside it, for a directory the file MARKER in it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l in-order -d 'Run the program strictly one item after another, by name (numbers in names as numbers) or by time of the last change: the next waits until the one before has succeeded. Copies go ahead of it' -r -f -a "name\t'By name'
time\t'By time of the last change, then by name'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l jobs -d 'Runs of the program at the same time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l transfers -d 'Items copied at the same time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l attempts -d 'Runs that fail before an item is given up, until the next start; between them 1 s, doubled each time, at most 60 s. With --in-order the watch ends then' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l results-back -d 'After a run that succeeded, send what it wrote in the directory THALWEG_ITEM_RESULTS to PLACE/NAME' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l receipts -d 'Write what both sides sign of each item into this directory of this machine, which is made: a file NAME.DIGITS.receipt for each version that arrived, with _ for a slash (default: in the state directory)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l look-every -d 'Look at the directory at least so often (default: 10s where the kernel tells of changes, and in a bucket; else 1s)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l idle-exit -d 'End when there was nothing to do for so long, as a look then sees; while the directory cannot be looked at, the watch goes on trying (default: never)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l filter -d 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l include -d 'Take in names that match, before a later --exclude' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l exclude -d 'Leave out names that match' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l include-from -d 'Patterns to take in, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l exclude-from -d 'Patterns to leave out, one a line, from a file (`-`: stdin)' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l verify -d 'How far to verify' -r -f -a "written\t'Digest compared before each write, everything synced'
readback\t'Then read again from the medium'
paranoid\t'And the source read twice'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l bwlimit -d 'Send no faster than this, all items together; for instance 500Mbit/s. `thalweg limit` changes it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l class -d 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there' -r -f -a "normal\t'As fast as the path carries, fair as TCP is'
scavenger\t'What others leave'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l dscp -d 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l nice -d 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l ionice -d 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l streams -d 'TCP connections (default: by round trip and cores)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l cca -d 'Congestion control of the side that sends, for instance cubic or bbr' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l via -d 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l bind -d 'Addresses or network cards of this machine over which data streams are spread' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l cipher -d 'Protection of the data streams' -r -f -a "aes128\t'Sealed frames, AES-128-GCM'
aes256\t'Sealed frames, AES-256-GCM'
chacha20\t'Sealed frames, ChaCha20-Poly1305'
tls\t'Plain TLS 1.3 records'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l ktls -d 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never' -r -f -a "auto\t'Where it was measured to be faster'
on\t'Wherever the kernel can'
off\t'Never'"
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l tls-records -d 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l ticket -d 'What `thalweg serve` wrote: whom to expect and who we are' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s e -l rsh -d 'The ssh to start, with its options; split into words, never given to a shell' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l port -d 'Port of sshd' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l far-path -d 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l far-ports -d 'Ports that the far side may listen at, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l near-ports -d 'Ports that this side may listen at where the far side dials, if a firewall lets only some through' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l stall-timeout -d 'Drop a link that acknowledges nothing for so long, and dial again' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l patience -d 'Give up without progress for so long' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l state -d 'Where thalweg keeps its keys and what it remembers' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l name -d 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l delete -d 'Before an item that is a directory is copied again, remove at the destination what earlier copies brought of it and its source has no more; of results likewise. Without it nothing is removed: of an item it is told how much there is, also to the program (THALWEG_ITEM_STALE)'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s 0 -l from0 -d 'Names and patterns in those files end with NUL, not with a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s z -l compress -d 'Compress where it pays'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l bootstrap -d 'If the far side has no thalweg, place our own static one in its user\'s cache'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l via-ssh -d 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s 4 -l ipv4 -d 'Dial only addresses of IPv4, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s 6 -l ipv6 -d 'Dial only addresses of IPv6, by ssh too'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l detach -d 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s q -l quiet -d 'Only errors'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -l json -d 'Events as JSON, one a line, on stdout'
complete -c thalweg -n "__fish_thalweg_using_subcommand watch" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "up" -d 'Make hosts and join them by an emulated path'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "run" -d 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "set" -d 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "status" -d 'Show the path, what happened to packets, and what the wire costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "check" -d 'Measure how well the path keeps what was asked. Uses it for some seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "list" -d 'Show all testbeds; what dead ones left is removed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "down" -d 'End the programs in it and remove it, also one that was killed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and not __fish_seen_subcommand_from up run set status check list down help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l preset -d 'A path from a paper: round trip time and rate, with `up` the MTU as well; other options change it further' -r -f -a "metro\t'000 Table IV: metro, at its upper end'
interstate\t'000 Table IV: interstate, at its upper end'
continental\t'000 Table IV: continental, at its upper end'
production-74ms\t'000 Figs 4 to 6: the production trial'
petabyte\t'001 section 2: a petabyte in a day'
streaming\t'003 Table 2: congestion experiment'
usn-0.28ms\t'004 Table I: local loop, OC192'
usn-26.8ms\t'004 Table I: loop, OC192'
usn-128ms\t'004 Table I: loop, OC192'
usn-163ms\t'004 Table I: loop, OC192'"
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l rtt -d 'Round trip time, half of it in each direction' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l forward-delay -d 'Delay from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l back-delay -d 'Delay from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l jitter -d 'Delay varies by so much to either side, evenly; packets keep their order. Where one direction has no delay, that of the other' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l forward-jitter -d 'Jitter from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l back-jitter -d 'Jitter from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l rate -d 'Rate of the line in each direction, Ethernet framing counted [default: no limit]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l forward-rate -d 'Rate from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l back-rate -d 'Rate from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l loss -d 'Share of packets that are lost, in each direction' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l forward-loss -d 'Share of packets that are lost from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l back-loss -d 'Share of packets that are lost from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l reorder -d 'Share of packets that come late, so that others pass them' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l late-by -d 'How late [default: 1ms]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l duplicate -d 'Share of packets that come twice' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l queue -d 'Bytes that may wait in front of the line in each direction; what does not fit is dropped [default: rate x round trip time, at least 256KiB]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l forward-queue -d 'Bytes that may wait in front of the line from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l back-queue -d 'Bytes that may wait in front of the line from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l framing -d 'Bytes that the line adds to each packet [default: 38, Ethernet]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l hosts -d 'Hosts on the left and on the right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l mtu -d 'MTU of every device, in bytes [default: the preset\'s, or 1500]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l sysctl -d 'A kernel setting in every host, for instance net.ipv4.tcp_congestion_control=bbr. May be given several times' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l seed -d 'Seed of chance: the same packets at the same times meet the same fate' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l stock -d 'Buffers and congestion control in the hosts as Linux has them where nobody tuned; else they are this machine\'s'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l tuned -d 'Buffers and congestion control in the hosts as in 000 Table III'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from up" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from run" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from run" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from run" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from run" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l preset -d 'A path from a paper: round trip time and rate, with `up` the MTU as well; other options change it further' -r -f -a "metro\t'000 Table IV: metro, at its upper end'
interstate\t'000 Table IV: interstate, at its upper end'
continental\t'000 Table IV: continental, at its upper end'
production-74ms\t'000 Figs 4 to 6: the production trial'
petabyte\t'001 section 2: a petabyte in a day'
streaming\t'003 Table 2: congestion experiment'
usn-0.28ms\t'004 Table I: local loop, OC192'
usn-26.8ms\t'004 Table I: loop, OC192'
usn-128ms\t'004 Table I: loop, OC192'
usn-163ms\t'004 Table I: loop, OC192'"
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l rtt -d 'Round trip time, half of it in each direction' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l forward-delay -d 'Delay from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l back-delay -d 'Delay from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l jitter -d 'Delay varies by so much to either side, evenly; packets keep their order. Where one direction has no delay, that of the other' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l forward-jitter -d 'Jitter from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l back-jitter -d 'Jitter from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l rate -d 'Rate of the line in each direction, Ethernet framing counted [default: no limit]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l forward-rate -d 'Rate from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l back-rate -d 'Rate from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l loss -d 'Share of packets that are lost, in each direction' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l forward-loss -d 'Share of packets that are lost from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l back-loss -d 'Share of packets that are lost from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l reorder -d 'Share of packets that come late, so that others pass them' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l late-by -d 'How late [default: 1ms]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l duplicate -d 'Share of packets that come twice' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l queue -d 'Bytes that may wait in front of the line in each direction; what does not fit is dropped [default: rate x round trip time, at least 256KiB]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l forward-queue -d 'Bytes that may wait in front of the line from left to right' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l back-queue -d 'Bytes that may wait in front of the line from right to left' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l framing -d 'Bytes that the line adds to each packet [default: 38, Ethernet]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l no-rate -d 'Take the limit of the rate away'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from set" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from status" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from status" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from status" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from status" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from status" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from check" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from check" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from check" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from check" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from list" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from list" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from list" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from list" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from down" -l name -d 'Which testbed; several may be up at once' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from down" -l state -d 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from down" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from down" -l all -d 'All of them'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from down" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "up" -d 'Make hosts and join them by an emulated path'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "run" -d 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "set" -d 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "status" -d 'Show the path, what happened to packets, and what the wire costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "check" -d 'Measure how well the path keeps what was asked. Uses it for some seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "list" -d 'Show all testbeds; what dead ones left is removed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "down" -d 'End the programs in it and remove it, also one that was killed'
complete -c thalweg -n "__fish_thalweg_using_subcommand testbed; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l data -d 'Data of one unit: a scan, a snapshot, what comes in a second' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l bandwidth -d 'Bandwidth of the path' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l every -d 'Such a unit comes again and again, every so often' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l deadline -d 'A unit must be done within this time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l local-time -d 'The analysis of a unit takes so long here' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l remote-time -d 'The analysis of a unit takes so long there' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l work -d 'Or: so much work is a unit, for instance 34TFLOP' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l local-speed -d 'So fast is the computer here, for instance 10TFLOP/s' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l remote-speed -d 'So fast is the computer there' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l efficiency -d 'Share of the bandwidth that a transfer gets (alpha) [default: what window and loss leave, or all of it]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l rtt -d 'Round trip time of the path: half of it is in all times over the path. Without it --window, --streams, --cca and --mtu say nothing' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l loss -d 'Share of packets that are lost' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l window -d 'Bytes that each stream has under way at most (the smaller of both sides\' buffers)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l streams -d 'Number of streams [default: 1]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l cca -d 'Congestion control that answers loss' -r -f -a "reno\t'Half the window at each loss'
cubic\t'Linux\'s default'
bbr\t'Version 1: loss up to 5 % does not bind it'"
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l mtu -d 'Bytes of a packet; TCP\'s payload is 52 less' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l io-overhead -d 'With files a unit takes so many times as long as its transfer alone (theta, 1 or more)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l fit -d 'Measured transfers of files, as `thalweg model fit` reads them: how many files, and what they cost' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l files-max -d 'Most files that a unit may be cut into [default: the most that were measured]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l times -d 'Measured times of transfers of a unit, as `thalweg model tail` reads them, at least 299 for P99; of one case: of a file with several --series and --load choose it' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l series -d 'Of measured times only those of this series, for instance "simultaneous, 2 streams"' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l load -d 'Of measured times only those at this load of the line, for instance 0.64 or 64%' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l score -d 'Worst time of a transfer as a multiple of data / bandwidth (Streaming Speed Score)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l starts -d 'Nothing was measured: take the worst from the load, as 003 published it of one testbed (a unit each second over 16 ms; up to twice or half of these), for transfers that begin so [default: simultaneous, with --every]' -r -f -a "simultaneous\t'Together, whenever data are there'
scheduled\t'Each in a slot of its own, with bandwidth reserved for it (`stream --slot`)'"
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand advise" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "fit" -d 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "window" -d 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "loss" -d 'What loss leaves of a stream, by congestion control'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "volume" -d 'Data, time, rate: give two, get the third'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "published" -d 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "tail" -d 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "frames" -d 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "repair" -d 'What damage costs: whole files sent again, or only chunks'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "basin" -d 'What a row of stages carries, which is the narrowest, and what widening one would gain'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and not __fish_seen_subcommand_from fit window loss volume published tail frames repair basin help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l data -d 'The best number of files is for so much data [default: the largest measured]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l predict -d 'Also say how long so many files take' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l points -d 'Fit measurements with these numbers of files only, and compare the prediction with the others' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l files-max -d 'Most files that the data may be cut into [default: the most that were measured]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from fit" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -l rtt -d 'Round trip time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -l window -d 'Bytes that each stream has under way at most' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -l rate -d 'Rate that is wanted' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from window" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l loss -d 'Share of packets that are lost' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l rtt -d 'Round trip time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l rate -d 'Rate that is wanted: how many streams does it take, and what loss would one bear?' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l mtu -d 'Bytes of a packet; TCP\'s payload is 52 less' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from loss" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -l data -d 'Data' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -l rate -d 'Rate; alone: the data of a day' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -l time -d 'Time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from volume" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from published" -l data -d 'Also say how long so much data takes at each rate' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from published" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from published" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from published" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l data -d 'Data of each transfer' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l rate -d 'Rate of the link' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l series -d 'Of measured times only those of this series, for instance "simultaneous, 2 streams"' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l load -d 'Of measured times only those at this load of the line, for instance 0.64 or 64%' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from tail" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l frames -d 'Number of frames' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l frame -d 'Data of a frame' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l every -d 'A frame comes every so often' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l rate -d 'Rate of the path' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l per-file -d 'What each file costs besides its bytes' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l files -d 'Numbers of files to compare with a stream [default: 1, 10, 100, ... and one for each frame]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from frames" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l files -d 'Number of files' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l data -d 'Data in all of them' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l rate -d 'Rate, end to end' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l failures -d 'So many times a verification fails' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l chunk -d 'What is sent again for each, if not the file' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from repair" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from basin" -l stage -d 'A stage, in the order of the byte\'s journey: read=2GB/s, or wan=10Gbit/s,50ms with its latency. Give several' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from basin" -l data -d 'How long so much data takes' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from basin" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from basin" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from basin" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "fit" -d 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "window" -d 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "loss" -d 'What loss leaves of a stream, by congestion control'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "volume" -d 'Data, time, rate: give two, get the third'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "published" -d 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "tail" -d 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "frames" -d 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "repair" -d 'What damage costs: whole files sent again, or only chunks'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "basin" -d 'What a row of stages carries, which is the narrowest, and what widening one would gain'
complete -c thalweg -n "__fish_thalweg_using_subcommand model; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l to -d 'Measure the round trip time and the MTU of the path to an open TCP port of another machine, the MTU by datagrams to its port 33434; buffers are judged by that round trip time' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l loss -d 'With --prove, share of packets that the path loses at random, up to 0.05 [default: what this machine sent again since boot, if that is more than 4.6e-5; else none]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l state -d 'Keep what was there before --apply in DIR/doctor [default: $XDG_STATE_HOME/thalweg], and record the testbed of --prove in DIR/testbed' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -s 4 -l ipv4 -d 'With --to, dial only addresses of IPv4'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -s 6 -l ipv6 -d 'With --to, dial only addresses of IPv6'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l prove -d 'Try what is proposed in a testbed, before against after (at the round trip time of --to, else 50 ms; at the rate of the line up to 4 Gbit/s, 1 Gbit/s where no card says), and recommend only what helps; with --apply, change only that. Needs root and takes up to three minutes for each trial'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l apply -d 'Change kernel settings, also for the next start (a file of sysctl.d), and write a tuned profile; say what was changed'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l undo -d 'Put back what was there before --apply'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -s v -l verbose -d 'Explain what is good as well'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -l json -d 'Tell results as JSON, one object on a line'
complete -c thalweg -n "__fish_thalweg_using_subcommand doctor" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "sweep" -d 'Throughput by size of file'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "path" -d 'Whether the emulated path keeps what it is asked to, and what it costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "latency" -d 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "streams" -d 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "cca" -d 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "order" -d 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "concurrency" -d 'Files at once, streams, depth (001 Figs 4 and 5)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "files" -d 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "whole-files" -d 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "faults" -d 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "layout" -d 'Reading by the place on the medium (002 Table II)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "hop" -d 'From where the data are, or through one more host (002 Table I)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "congest" -d 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "frames" -d 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "lag" -d 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "slots" -d 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "predict" -d 'Copies of several shapes, each predicted before: does it take as long, within the range?'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "storage" -d 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "import" -d 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "show" -d 'Show a result file as a table'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and not __fish_seen_subcommand_from sweep path latency streams cca order concurrency files whole-files faults layout hop congest frames lag slots predict storage import show help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep" -f -a "bulk" -d 'Files at rest (000 section III-B.2, Figs 5 and 8)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep" -f -a "streaming" -d 'Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from path" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from latency" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from streams" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from cca" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from order" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from concurrency" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from files" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from whole-files" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from faults" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from layout" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from hop" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from congest" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from frames" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from lag" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from slots" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from predict" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from storage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from import" -l out -d 'Write the result here [default: FILE with the ending .jsonl]' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from import" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from import" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from import" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from show" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from show" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from show" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "sweep" -d 'Throughput by size of file'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "path" -d 'Whether the emulated path keeps what it is asked to, and what it costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "latency" -d 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "streams" -d 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "cca" -d 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "order" -d 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "concurrency" -d 'Files at once, streams, depth (001 Figs 4 and 5)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "files" -d 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "whole-files" -d 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "faults" -d 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "layout" -d 'Reading by the place on the medium (002 Table II)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "hop" -d 'From where the data are, or through one more host (002 Table I)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "congest" -d 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "frames" -d 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "lag" -d 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "slots" -d 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "predict" -d 'Copies of several shapes, each predicted before: does it take as long, within the range?'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "storage" -d 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "import" -d 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "show" -d 'Show a result file as a table'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and not __fish_seen_subcommand_from make check help" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and not __fish_seen_subcommand_from make check help" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and not __fish_seen_subcommand_from make check help" -f -a "make" -d 'Write files whose names, sizes and bytes come from a seed'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and not __fish_seen_subcommand_from make check help" -f -a "check" -d 'Compare files with the seed that they were made from: no second copy is needed'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and not __fish_seen_subcommand_from make check help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l files -d 'Number of files' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l size -d 'Bytes of each file; or a distribution, SIZE:WEIGHT,SIZE:WEIGHT,...: 1KiB:70,1MiB:25,1GiB:5' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l content -d 'noise (does not compress), frames (of a detector: smooth, 16 bits a pixel), text (lines of words)' -r -f -a "noise\t''
frames\t''
text\t''"
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l sparse -d 'Share of each file\'s mebibytes that are holes' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l seed -d 'Where names, sizes and bytes come from' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from make" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from check" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from check" -l json -d 'Tell it as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from check" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from help" -f -a "make" -d 'Write files whose names, sizes and bytes come from a seed'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from help" -f -a "check" -d 'Compare files with the seed that they were made from: no second copy is needed'
complete -c thalweg -n "__fish_thalweg_using_subcommand dataset; and __fish_seen_subcommand_from help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -s o -l out -d 'FILE.svg or FILE.png for one figure, with its data in FILE.csv; a directory for all of them' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l figure -d 'Which figure, by its name in --list; for a directory all, else the first' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l format -d 'Form of the figures in a directory' -r -f -a "svg\t'Lines and letters: for pages and print'
png\t'Pixels'"
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l width -d 'Pixels from side to side' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l scale -d 'Pixels of a PNG for each of these' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -l list -d 'Only say which figures there are: name and title'
complete -c thalweg -n "__fish_thalweg_using_subcommand plot" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand report" -s o -l out -d 'The page' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand report" -l title -d 'What stands over it' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand report" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r -F
complete -c thalweg -n "__fish_thalweg_using_subcommand report" -s h -l help -d 'Print help'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "cp" -d 'Copy files and trees'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "sync" -d 'Make a destination the same as a source'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "stream" -d 'Move what is still being made: files that grow, directories with such files, pipes (`-`)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "mark" -d 'Say how much of a file that a stream writes is durable'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "frames" -d 'Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "slots" -d 'Show who may send to a daemon, and when: the slots that it gave away'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "verify" -d 'Check that what a receipt says is still there, and undamaged'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "identity" -d 'Say who signs receipts here: fingerprint, public key and certificate'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "login" -d 'Log in at an identity provider whose tokens a daemon takes: approved in a browser, kept for all commands there'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "logout" -d 'Forget such logins, and have their provider give no more tokens by them'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "check" -d 'Compare two places by content, changing nothing'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "ls" -d 'List what is at a place'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "du" -d 'Sum up the bytes below a place'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "cat" -d 'Print files, compared with their digests'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "rm" -d 'Remove files and trees'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "gc" -d 'Find and remove what unfinished copies left behind'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "limit" -d 'Give copies that run another rate'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "why" -d 'Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "jobs" -d 'Show what goes on without a terminal (--detach); wait for it, stop it, resume it'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "predict" -d 'Say how long a transfer would take, with a range, before it begins'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "probe" -d 'Measure each part of a way alone and in company: which stage is the narrowest'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "tune" -d 'Find settings for a way by trial, one knob at a time; later copies start with them'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "explain-filter" -d 'Say which rule takes a path in or leaves it out'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "serve" -d 'Serve directories to other machines'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "ticket" -d 'Let people into a daemon, each with a name, rights and an end; and take that back'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "watch" -d 'Copy what becomes complete in a directory, and run a program on arrival, each item once'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "testbed" -d 'Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "advise" -d 'Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "model" -d 'Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "doctor" -d 'Say what on this machine stands in the way of moving data: what is, what should be, why, how to take it back'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "bench" -d 'Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "dataset" -d 'Files made from a seed, to measure and to try with, and checked by it'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "plot" -d 'Draw the figures of results: SVG or PNG, with their data as CSV'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "report" -d 'One page about results: figures beside the papers\' own, tables, what was measured where; HTML that stands alone'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and not __fish_seen_subcommand_from cp sync stream mark frames slots verify identity login logout check ls du cat rm gc limit why jobs predict probe tune explain-filter serve ticket watch testbed advise model doctor bench dataset plot report help" -f -a "help" -d 'Print this message or the help of the given subcommand(s)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from frames" -f -a "push" -d 'Send files, or standard input, as frames'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from frames" -f -a "pull" -d 'Take frames, and write them into files as they come'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from frames" -f -a "status" -d 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "show" -d 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "log" -d 'Print what a job said'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "wait" -d 'Wait until jobs are over; exit with the gravest of their exit codes'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "stop" -d 'Ask jobs to stop in order, and wait for that'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "resume" -d 'Run jobs again that are over and not done: the same words, in the same directory'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from jobs" -f -a "forget" -d 'Remove the record and the log of jobs that are over'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from ticket" -f -a "new" -d 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from ticket" -f -a "list" -d 'List tickets: what each permits, when it was made, when it ends, when it was used last'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from ticket" -f -a "revoke" -d 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "up" -d 'Make hosts and join them by an emulated path'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "run" -d 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "set" -d 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "status" -d 'Show the path, what happened to packets, and what the wire costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "check" -d 'Measure how well the path keeps what was asked. Uses it for some seconds'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "list" -d 'Show all testbeds; what dead ones left is removed'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from testbed" -f -a "down" -d 'End the programs in it and remove it, also one that was killed'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "fit" -d 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "window" -d 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "loss" -d 'What loss leaves of a stream, by congestion control'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "volume" -d 'Data, time, rate: give two, get the third'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "published" -d 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "tail" -d 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "frames" -d 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "repair" -d 'What damage costs: whole files sent again, or only chunks'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from model" -f -a "basin" -d 'What a row of stages carries, which is the narrowest, and what widening one would gain'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "sweep" -d 'Throughput by size of file'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "path" -d 'Whether the emulated path keeps what it is asked to, and what it costs'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "latency" -d 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "streams" -d 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "cca" -d 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "order" -d 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "concurrency" -d 'Files at once, streams, depth (001 Figs 4 and 5)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "files" -d 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "whole-files" -d 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "faults" -d 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "layout" -d 'Reading by the place on the medium (002 Table II)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "hop" -d 'From where the data are, or through one more host (002 Table I)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "congest" -d 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "frames" -d 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "lag" -d 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "slots" -d 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "predict" -d 'Copies of several shapes, each predicted before: does it take as long, within the range?'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "storage" -d 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "import" -d 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from bench" -f -a "show" -d 'Show a result file as a table'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from dataset" -f -a "make" -d 'Write files whose names, sizes and bytes come from a seed'
complete -c thalweg -n "__fish_thalweg_using_subcommand help; and __fish_seen_subcommand_from dataset" -f -a "check" -d 'Compare files with the seed that they were made from: no second copy is needed'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from bulk" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l budget -d 'Most bytes of one data set [default: the suite\'s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l max-files -d 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l at-once -d '`whole-files`: files under way at once [default: 1,2,4]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l free-check -d '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l runs -d 'Counted runs of each case [default: the suite\'s own, 3 to 5]; five give its median an interval of 94 %' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l seed -d 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l out -d 'Write the result here [default: SUITE-DATE.jsonl in this directory]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l dir -d 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l program -d 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l rtt -d 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l rate -d 'Rate of the emulated line; in `congest` and `slots` it follows from --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l loss -d 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l time -d 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l stall -d '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l target -d '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -s q -l quiet -d 'Only the table, not each sample'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l json -d 'Tell the cases as JSON'
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -l config -d 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml' -r
complete -c thalweg -n "__fish_thalweg_using_subcommand bench; and __fish_seen_subcommand_from sweep; and __fish_seen_subcommand_from streaming" -s h -l help -d 'Print help (see more with \'--help\')'
