
use builtin;
use str;

set edit:completion:arg-completer[thalweg] = {|@words|
    fn spaces {|n|
        builtin:repeat $n ' ' | str:join ''
    }
    fn cand {|text desc|
        edit:complex-candidate $text &display=$text' '(spaces (- 14 (wcswidth $text)))$desc
    }
    var command = 'thalweg'
    for word $words[1..-1] {
        if (str:has-prefix $word '-') {
            break
        }
        set command = $command';'$word
    }
    var completions = [
        &'thalweg'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand -V 'Print version'
            cand --version 'Print version'
            cand cp 'Copy files and trees'
            cand sync 'Make a destination the same as a source'
            cand stream 'Move what is still being made: files that grow, directories with such files, pipes (`-`)'
            cand mark 'Say how much of a file that a stream writes is durable'
            cand frames 'Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed'
            cand slots 'Show who may send to a daemon, and when: the slots that it gave away'
            cand verify 'Check that what a receipt says is still there, and undamaged'
            cand identity 'Say who signs receipts here: fingerprint, public key and certificate'
            cand login 'Log in at an identity provider whose tokens a daemon takes: approved in a browser, kept for all commands there'
            cand logout 'Forget such logins, and have their provider give no more tokens by them'
            cand check 'Compare two places by content, changing nothing'
            cand ls 'List what is at a place'
            cand du 'Sum up the bytes below a place'
            cand cat 'Print files, compared with their digests'
            cand rm 'Remove files and trees'
            cand gc 'Find and remove what unfinished copies left behind'
            cand limit 'Give copies that run another rate'
            cand why 'Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn'
            cand jobs 'Show what goes on without a terminal (--detach); wait for it, stop it, resume it'
            cand predict 'Say how long a transfer would take, with a range, before it begins'
            cand probe 'Measure each part of a way alone and in company: which stage is the narrowest'
            cand tune 'Find settings for a way by trial, one knob at a time; later copies start with them'
            cand explain-filter 'Say which rule takes a path in or leaves it out'
            cand serve 'Serve directories to other machines'
            cand ticket 'Let people into a daemon, each with a name, rights and an end; and take that back'
            cand watch 'Copy what becomes complete in a directory, and run a program on arrival, each item once'
            cand testbed 'Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program'
            cand advise 'Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it'
            cand model 'Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files'
            cand doctor 'Say what on this machine stands in the way of moving data: what is, what should be, why, how to take it back'
            cand bench 'Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside'
            cand dataset 'Files made from a seed, to measure and to try with, and checked by it'
            cand plot 'Draw the figures of results: SVG or PNG, with their data as CSV'
            cand report 'One page about results: figures beside the papers'' own, tables, what was measured where; HTML that stands alone'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;cp'= {
            cand --and 'One more copy at the same time: its sources, then its destination (a place that begins with `-` is written `./-`). May be given several times. Copies with the same daemon or ssh host share one link, in both directions; others have links of their own. All options apply to every copy, and the gravest exit code is the command''s'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --bwlimit 'Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it (MiB/s). `thalweg limit` changes it while the copy runs'
            cand --class 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there'
            cand --dscp 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63'
            cand --nice 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side'
            cand --ionice 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does'
            cand --part 'Copy part K of N alone: files are dealt by their names, directories are in all parts. N hosts that see the same trees share a copy so, each with a K of its own (a job array); none knows of another. Not with deletions, --and and several hosts in a place'
            cand --filter 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync'
            cand --include 'Take in names that match, before a later --exclude'
            cand --exclude 'Leave out names that match'
            cand --include-from 'Patterns to take in, one a line, from a file (`-`: stdin)'
            cand --exclude-from 'Patterns to leave out, one a line, from a file (`-`: stdin)'
            cand --files-from 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into'
            cand --verify 'How far to verify'
            cand --check 'How to recognise what is there already'
            cand --io-depth 'Requests to a disk in flight for each stream (default: 4)'
            cand --direct 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off'
            cand --order 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)'
            cand --concurrency 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)'
            cand --depth 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)'
            cand --chunk 'Bytes of a chunk: a power of two from 64KiB to 64MiB'
            cand --request 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)'
            cand --memory 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)'
            cand --window 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)'
            cand --stage 'Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to end. Both places may be far, also both tw://. See docs/guide/staging.md'
            cand --streams 'TCP connections (default: by round trip and cores)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up without progress for so long'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --to-ticket 'The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at the source'
            cand --receipt 'Write what both sides signed, and a line for each entry: see `thalweg verify`. Not with --and; of parts FILE.1, FILE.2 and so on'
            cand --report 'Append how each entry ended, and what was deleted, to a file, as JSON lines'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -a 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
            cand --archive 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
            cand -r 'Copy directories. Always on; accepted for your fingers'
            cand --recursive 'Copy directories. Always on; accepted for your fingers'
            cand -H 'Keep hard links. Always on; accepted for your fingers'
            cand --hard-links 'Keep hard links. Always on; accepted for your fingers'
            cand -S 'Keep holes. Always on; accepted for your fingers'
            cand --sparse 'Keep holes. Always on; accepted for your fingers'
            cand -p 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -g 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -X 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -A 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --perms 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --links 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --times 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --owner 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --group 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --xattrs 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --acls 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --no-perms 'Do not keep modes and ACLs: a new entry gets the source''s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
            cand --no-p 'Do not keep modes and ACLs: a new entry gets the source''s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
            cand --no-owner 'Do not keep owners and groups: what is written belongs to the user who writes it'
            cand --no-o 'Do not keep owners and groups: what is written belongs to the user who writes it'
            cand --no-times 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
            cand --no-t 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
            cand --no-xattrs 'Do not keep attributes and ACLs'
            cand --human-readable 'Sizes for people. Always on; accepted for your fingers, as is `-h` beside places'
            cand -D 'Also copy FIFOs and device nodes'
            cand --devices 'Also copy FIFOs and device nodes'
            cand -n 'Say what would be done, change nothing'
            cand --dry-run 'Say what would be done, change nothing'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand -v 'Name each entry; twice: also those left alone'
            cand --verbose 'Name each entry; twice: also those left alone'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand -P 'Show progress even when stderr is no terminal'
            cand --progress 'Show progress even when stderr is no terminal'
            cand --no-profile 'Neither predict the time from what earlier copies of this way took, nor remember what this one took'
            cand -u 'Leave alone what is newer at the destination'
            cand --update 'Leave alone what is newer at the destination'
            cand --ignore-existing 'Leave alone what exists at the destination'
            cand -x 'Do not cross into other file systems'
            cand --one-file-system 'Do not cross into other file systems'
            cand -L 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
            cand --copy-links 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
            cand --remove-source-files 'cp: remove each file and link of a source once it is verified and durable at the destination; what was there before only if --check digest finds it the same. Directories stay, and what cannot be kept in full (--no-owner, --no-xattrs). At a daemon only in exports that may be written and deleted in. Not with --and or --copy-links'
            cand -0 'Names and patterns in those files end with NUL, not with a line'
            cand --from0 'Names and patterns in those files end with NUL, not with a line'
            cand -z 'Compress where it pays'
            cand --compress 'Compress where it pays'
            cand --no-tune 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
            cand --find-renames 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
            cand --no-io-uring 'Helper threads for requests in flight, even where there is an io_uring'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;sync'= {
            cand --and 'One more copy at the same time: its sources, then its destination (a place that begins with `-` is written `./-`). May be given several times. Copies with the same daemon or ssh host share one link, in both directions; others have links of their own. All options apply to every copy, and the gravest exit code is the command''s'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --bwlimit 'Send no faster than this, each copy for itself; for instance 500Mbit/s, 50MB/s, or 50M as rsync takes it (MiB/s). `thalweg limit` changes it while the copy runs'
            cand --class 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there'
            cand --dscp 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63'
            cand --nice 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side'
            cand --ionice 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does'
            cand --part 'Copy part K of N alone: files are dealt by their names, directories are in all parts. N hosts that see the same trees share a copy so, each with a K of its own (a job array); none knows of another. Not with deletions, --and and several hosts in a place'
            cand --max-delete 'sync: refuse to remove more than this many entries'
            cand --filter 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync'
            cand --include 'Take in names that match, before a later --exclude'
            cand --exclude 'Leave out names that match'
            cand --include-from 'Patterns to take in, one a line, from a file (`-`: stdin)'
            cand --exclude-from 'Patterns to leave out, one a line, from a file (`-`: stdin)'
            cand --files-from 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into'
            cand --verify 'How far to verify'
            cand --check 'How to recognise what is there already'
            cand --io-depth 'Requests to a disk in flight for each stream (default: 4)'
            cand --direct 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off'
            cand --order 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)'
            cand --concurrency 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)'
            cand --depth 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)'
            cand --chunk 'Bytes of a chunk: a power of two from 64KiB to 64MiB'
            cand --request 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)'
            cand --memory 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)'
            cand --window 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)'
            cand --stage 'Through a directory of this machine, in which at most SIZE lies at any moment (from 1MiB; default: four fifths of what is free there now): into it and out of it at the same time, each at its own speed, compared from end to end. Both places may be far, also both tw://. See docs/guide/staging.md'
            cand --streams 'TCP connections (default: by round trip and cores)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up without progress for so long'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --to-ticket 'The ticket for the daemon at the destination, where both places are at daemons: --ticket is that for the one at the source'
            cand --receipt 'Write what both sides signed, and a line for each entry: see `thalweg verify`. Not with --and; of parts FILE.1, FILE.2 and so on'
            cand --report 'Append how each entry ended, and what was deleted, to a file, as JSON lines'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -a 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
            cand --archive 'Archive: keep modes, owners, times, links, holes, attributes. Always on; accepted for your fingers'
            cand -r 'Copy directories. Always on; accepted for your fingers'
            cand --recursive 'Copy directories. Always on; accepted for your fingers'
            cand -H 'Keep hard links. Always on; accepted for your fingers'
            cand --hard-links 'Keep hard links. Always on; accepted for your fingers'
            cand -S 'Keep holes. Always on; accepted for your fingers'
            cand --sparse 'Keep holes. Always on; accepted for your fingers'
            cand -p 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -g 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -X 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand -A 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --perms 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --links 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --times 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --owner 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --group 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --xattrs 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --acls 'Keep modes, links, times, owners, groups, attributes, ACLs. Always on; accepted for your fingers (l, t, o as in `-rlpto`)'
            cand --no-perms 'Do not keep modes and ACLs: a new entry gets the source''s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
            cand --no-p 'Do not keep modes and ACLs: a new entry gets the source''s permissions as far as the umask there leaves them, and no set-id bits; what stands there keeps its own'
            cand --no-owner 'Do not keep owners and groups: what is written belongs to the user who writes it'
            cand --no-o 'Do not keep owners and groups: what is written belongs to the user who writes it'
            cand --no-times 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
            cand --no-t 'Do not keep times. What has the same size is then compared by content, unless an earlier comparison is remembered'
            cand --no-xattrs 'Do not keep attributes and ACLs'
            cand --human-readable 'Sizes for people. Always on; accepted for your fingers, as is `-h` beside places'
            cand -D 'Also copy FIFOs and device nodes'
            cand --devices 'Also copy FIFOs and device nodes'
            cand -n 'Say what would be done, change nothing'
            cand --dry-run 'Say what would be done, change nothing'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand -v 'Name each entry; twice: also those left alone'
            cand --verbose 'Name each entry; twice: also those left alone'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand -P 'Show progress even when stderr is no terminal'
            cand --progress 'Show progress even when stderr is no terminal'
            cand --no-profile 'Neither predict the time from what earlier copies of this way took, nor remember what this one took'
            cand -u 'Leave alone what is newer at the destination'
            cand --update 'Leave alone what is newer at the destination'
            cand --ignore-existing 'Leave alone what exists at the destination'
            cand -x 'Do not cross into other file systems'
            cand --one-file-system 'Do not cross into other file systems'
            cand -L 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
            cand --copy-links 'Copy what symbolic links lead to instead of the links. A daemon follows none that leads out of its export'
            cand --remove-source-files 'cp: remove each file and link of a source once it is verified and durable at the destination; what was there before only if --check digest finds it the same. Directories stay, and what cannot be kept in full (--no-owner, --no-xattrs). At a daemon only in exports that may be written and deleted in. Not with --and or --copy-links'
            cand --delete 'sync: remove what the source does not have, and what stands where it has something of another kind'
            cand -0 'Names and patterns in those files end with NUL, not with a line'
            cand --from0 'Names and patterns in those files end with NUL, not with a line'
            cand -z 'Compress where it pays'
            cand --compress 'Compress where it pays'
            cand --no-tune 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
            cand --find-renames 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
            cand --no-io-uring 'Helper threads for requests in flight, even where there is an io_uring'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;stream'= {
            cand --until-idle 'All is complete when nothing grew, and nothing new came, for so long'
            cand --until-size 'The file is complete when it has so many bytes'
            cand --until-marker 'All is complete when there is something of this name beside the file, or in the directory; it is not sent'
            cand --poll 'Look every so often, and do not go by the file system''s events (which network file systems lack)'
            cand --buffer 'Bytes that are kept in memory until they are durable at the destination, from 64KiB to 256MiB: a producer that is faster waits'
            cand --memory 'Take at most so much memory for buffers here, from 8MiB: at most half of it for --buffer, and fewer streams'
            cand --mark-every 'Time between two marks, up to a minute: how late a byte may become durable'
            cand --slot 'Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all the time, and are to be durable within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be promised is refused, with by how much it does not fit or what would. Marks are made at least ten times in a deadline'
            cand --bwlimit 'Send no faster than this; for instance 500Mbit/s, 50MB/s, or 50M (MiB/s). `thalweg limit` changes it while the stream runs'
            cand --dscp 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63'
            cand --nice 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side'
            cand --ionice 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does'
            cand --streams 'TCP connections (default: by round trip and cores)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up without progress for so long'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --receipt 'Write what both sides signed, and a line for each file, to a file: see `thalweg verify`'
            cand --report 'Write how each file ended, as JSON lines, to a file, behind what is in it'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --until-closed 'Files are complete when nobody has them open for writing. This is the default; in a directory each file is complete then in any case'
            cand -f 'Never complete: go on until interrupted'
            cand --follow 'Never complete: go on until interrupted'
            cand --wait 'Wait for a source that is not there yet'
            cand --recheck 'Read each file again as a whole before it is said to be complete: what its writer changed after it was sent is told (exit 5), also where that changed while the file went on growing'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand -v 'Name each file, and tell what the stream goes by and more of the link'
            cand --verbose 'Name each file, and tell what the stream goes by and more of the link'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand -P 'Show progress even when stderr is no terminal'
            cand --progress 'Show progress even when stderr is no terminal'
            cand --json 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;mark'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'As JSON, one object on a line'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;frames'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand push 'Send files, or standard input, as frames'
            cand pull 'Take frames, and write them into files as they come'
            cand status 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;frames;push'= {
            cand --frame-bytes 'Cut what is read into frames of so many bytes. A last one that has fewer is sent as it is, and told (exit 2)'
            cand --dtype 'Type of an element, as NumPy writes it, for instance <u2'
            cand --shape 'Elements along each axis, slowest first, for instance 2048,2048'
            cand --set 'All of it is this set, and its consumers are told whether they got the whole'
            cand --set-frames 'The set has so many frames, 1 to 1048576 (default: as the sizes of the files say). Say it for a pipe: consumers are told what is missing if this is killed. If there are fewer the exit code is 2, and if there are more, which are not sent'
            cand --producer 'Name of this producer: one that comes again under its name goes on with its sequence (default: a random one)'
            cand --deadline 'Nanoseconds, micro- or milliseconds, ... in which a frame should be with its consumers. Those that come later are counted, not dropped'
            cand --frames-per-s 'Send so many frames a second, as far as they can be had. Each counts as made when it was due, also if it goes later'
            cand --slot 'Send in a slot of the daemon (`thalweg serve --slots`): BYTES become ready every PERIOD, or bytes at RATE all the time, and are to be at the hub within DEADLINE; for instance 1s:20MB:300ms, 100Mbit/s:300ms. What cannot be promised is refused, with by how much it does not fit or what would'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --state 'With --detach: where thalweg keeps what it remembers, and the job'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand --window 'Bytes that are under way and not taken, from 64KiB to 256MiB, or one larger frame. No more than this goes in each round trip; the hub gives a new one at most a quarter of what is left (`thalweg serve --frames-memory`)'
            cand --streams 'TCP connections (default: by round trip and cores, at most 4)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --memory 'If this opens the channel: bytes of frames that the hub holds in memory (default: 256MiB)'
            cand --spill-size 'If this opens the spill log: the most that it may have (default: 16GiB); beyond, or beyond 1048576 frames, the oldest are forgotten. A recorded log never gets less than it had'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up when there was no link for so long'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --index 'The files are indexes that `frames pull` wrote: send the frames that they name, with the times at which these were made; with --frames-per-s as if they were made now'
            cand --framed 'What is read has each frame behind a line of JSON, as another program writes it into a pipe: its bytes, and its set, time, deadline, type, shape and metadata as far as it has them'
            cand --resume 'Go on where a push of the same files under this --producer ended, also one that was killed: leave out as many frames as the hub has of it. The name has to be of this push alone: if the files have fewer frames, the exit code is 5. A set that was begun is over a minute after a kill, and takes no more. Without this they are sent once more, as further frames'
            cand --durable 'A frame counts as sent when it is synced in the spill log of the hub, not when the hub holds it. Implies --record'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --record 'Have the hub write every frame to the spill log: late consumers replay it, and a hub that was killed goes on from it'
            cand --unattended 'If this opens the channel, or pushes to it: frames that come while nobody consumes go nowhere, rather than wait; nor do those of others wait any more that did'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand --json 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;frames;pull'= {
            cand --every 'Frames of a file; the end of a set ends one too (default: all in one)'
            cand --file-name 'What the files are called: NAME-000000.raw, and NAME-000000.jsonl beside it'
            cand --policy 'When this is slower than the producers: block (they wait), spill (the hub writes what its memory does not hold), drop-oldest, drop-oldest:N (at most N frames behind), latest-only'
            cand --group 'Share the frames with all others of this group: each goes to one'
            cand --from 'Begin with everything that is there (start), with what comes (now), or with this sequence of each producer'
            cand --producers 'End when so many producers have finished, and all that are known'
            cand --count 'End after so many frames'
            cand --name 'A name to come back under: a pull that was killed or stopped, or had its --count, goes on behind what it had put away, within --keep'
            cand --keep 'For so long the hub keeps the place of a consumer whose link was closed, as by a kill; in an outage as long as its --patience, if that is longer'
            cand --link-rate 'What the link could carry, for instance 10Gbit/s: with it the end has a Streaming Speed Score'
            cand --hub 'Have the hub in this process, without a daemon: frames are taken out of its memory, with one hop less. It makes DIR/ticket, which producers need, and keeps spill logs in DIR/spill; it ends with this command'
            cand --listen 'Where that hub listens (default: 127.0.0.1:0, the kernel chooses the port; the place to push to is told)'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand --window 'Bytes that are under way and not taken, from 64KiB to 256MiB, or one larger frame. No more than this goes in each round trip; the hub gives a new one at most a quarter of what is left (`thalweg serve --frames-memory`)'
            cand --streams 'TCP connections (default: by round trip and cores, at most 4)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --memory 'If this opens the channel: bytes of frames that the hub holds in memory (default: 256MiB)'
            cand --spill-size 'If this opens the spill log: the most that it may have (default: 16GiB); beyond, or beyond 1048576 frames, the oldest are forgotten. A recorded log never gets less than it had'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up when there was no link for so long'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --framed 'To standard output (-): each frame behind a line of JSON, for another program to read; lines of their own say what was lost, and which sets are over'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --record 'Have the hub write every frame to the spill log: late consumers replay it, and a hub that was killed goes on from it'
            cand --unattended 'If this opens the channel, or pushes to it: frames that come while nobody consumes go nowhere, rather than wait; nor do those of others wait any more that did'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand --json 'Events as JSON, one a line, on stdout; on stderr if stdout is the destination'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;frames;status'= {
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'As JSON, one object'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;frames;help'= {
            cand push 'Send files, or standard input, as frames'
            cand pull 'Take frames, and write them into files as they come'
            cand status 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;frames;help;push'= {
        }
        &'thalweg;frames;help;pull'= {
        }
        &'thalweg;frames;help;status'= {
        }
        &'thalweg;frames;help;help'= {
        }
        &'thalweg;slots'= {
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;verify'= {
            cand --sample 'Read only so many files, or this share of them (5%, 0.05), drawn by a seed; of all others look at name, kind and size. Says how many damaged files that would have shown'
            cand --seed 'Draw them by this seed: with the same receipt it draws the same files. Default: a random one, which is told'
            cand --sender 'Who may have signed as the sender: SHA-256 fingerprints of certificates (`thalweg identity`, or `openssl x509 -in CERT -noout -fingerprint -sha256`) or Ed25519 public keys, in hexadecimal'
            cand --receiver 'Who may have signed as the receiver, in the same form'
            cand --keys 'Who may have signed on either side, in the same form. One of them may have signed for both'
            cand --patience 'Give up without progress for so long: a link that is lost is dialled again until then'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --state 'With --detach: where thalweg keeps what it remembers, and the job'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --show 'Look at no place: say what the receipt certifies (when, from where, to where, how far it was verified, how much, who signed), if it is what was signed'
            cand --strict 'Also report what is there and not in the receipt, or in none of them'
            cand --as-b3sum 'Look at no place: print the files of the receipt, if it is what was signed, as `b3sum --check` takes them'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;identity'= {
            cand --state 'Where the keys are. That of the user is made there if there is none'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --server 'Print the identity of the server whose state directory this is, not that of the user'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;login'= {
            cand --ticket 'The place file that `thalweg serve` wrote: it says whose tokens are taken there, and how one logs in'
            cand --issuer 'Where the place file names several issuers, this one (default: to log in the first that has logins, to log out all)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;logout'= {
            cand --ticket 'The place file that `thalweg serve` wrote: it says whose tokens are taken there, and how one logs in'
            cand --issuer 'Where the place file names several issuers, this one (default: to log in the first that has logins, to log out all)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Events as JSON, one a line, on stdout'
            cand --all 'All logins that are kept, whatever their place files say by now; --ticket is not asked then'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;check'= {
            cand --sums 'Compare the files of SRC with this list (`-`: stdin), as `b3sum` or `thalweg verify --as-b3sum` writes it; names in it are relative to SRC. What is not in it is not looked for'
            cand --sample 'Compare the content of only so many files, or of this share of them (5%, 0.05), drawn by a seed; of all others name, kind and size. Says how many different files that would have shown'
            cand --seed 'Draw them by this seed: of the same names it draws the same files. Default: a random one, which is told'
            cand --part 'Compare part K of N alone: names are dealt as those of a copy with --part, so that N hosts that see the same trees share a comparison. Places at several hosts, as cp takes them, are compared so by one command'
            cand --filter 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync'
            cand --include 'Take in names that match, before a later --exclude'
            cand --exclude 'Leave out names that match'
            cand --include-from 'Patterns to take in, one a line, from a file (`-`: stdin)'
            cand --exclude-from 'Patterns to leave out, one a line, from a file (`-`: stdin)'
            cand --files-from 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into'
            cand --patience 'Give up without progress for so long: a link that is lost is dialled again until then'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --state 'With --detach: where thalweg keeps what it remembers, and the job'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -D 'FIFOs and device nodes too, which a copy without --devices leaves out'
            cand --devices 'FIFOs and device nodes too, which a copy without --devices leaves out'
            cand -L 'What symbolic links lead to instead of the links, at both places, as `cp -L` copies it. From a daemon none that leads out of its export. With --sums always so'
            cand --copy-links 'What symbolic links lead to instead of the links, at both places, as `cp -L` copies it. From a daemon none that leads out of its export. With --sums always so'
            cand -0 'Names and patterns in those files end with NUL, not with a line'
            cand --from0 'Names and patterns in those files end with NUL, not with a line'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;ls'= {
            cand --patience 'Give up without progress for so long: a link that is lost is dialled again until then'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -l 'With kind, mode, owner, bytes and time'
            cand --long 'With kind, mode, owner, bytes and time'
            cand -R 'All levels'
            cand --recursive 'All levels'
            cand -L 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
            cand --dereference 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;du'= {
            cand --patience 'Give up without progress for so long: a link that is lost is dialled again until then'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -s 'Only the sum. Always on; accepted for your fingers, as is `-h` beside it'
            cand --summarize 'Only the sum. Always on; accepted for your fingers, as is `-h` beside it'
            cand -L 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
            cand --dereference 'What symbolic links lead to instead of the links. From a daemon none that leads out of its export'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;cat'= {
            cand --patience 'Give up without progress for so long: a link that is lost is dialled again until then'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;rm'= {
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -r 'Directories, with everything in them'
            cand --recursive 'Directories, with everything in them'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;gc'= {
            cand --older-than 'Remove only what has not changed for so long, for instance 7d: a copy may still resume from the rest. In a bucket what was begun so long ago, by whatever program; without, only what copies with this state directory left'
            cand --state 'Where thalweg keeps its keys and what it remembers: which uploads to a bucket it left'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --yes 'Remove what no copy uses; without it only list. Copies that would resume from it begin anew'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;limit'= {
            cand --state 'Where thalweg keeps its keys and what it remembers; to reach a daemon, its state directory'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;why'= {
            cand --state 'Where thalweg keeps its keys and what it remembers; that of a daemon shows what it serves'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -v 'With a table of all stages of both sides; twice: also streams, processes and disks'
            cand --verbose 'With a table of all stages of both sides; twice: also streams, processes and disks'
            cand -q 'Only the sentence'
            cand --quiet 'Only the sentence'
            cand --watch 'Look again every second until the transfer is over'
            cand --list 'All transfers that are known, a line each'
            cand --json 'The answer as JSON, one a line, on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs'= {
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
            cand show 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
            cand log 'Print what a job said'
            cand wait 'Wait until jobs are over; exit with the gravest of their exit codes'
            cand stop 'Ask jobs to stop in order, and wait for that'
            cand resume 'Run jobs again that are over and not done: the same words, in the same directory'
            cand forget 'Remove the record and the log of jobs that are over'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;jobs;show'= {
            cand --lines 'Lines of what it said last'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;log'= {
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -f 'Go on until the job is over'
            cand --follow 'Go on until the job is over'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;wait'= {
            cand --timeout 'Wait for no longer (default: as long as it takes)'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;stop'= {
            cand --timeout 'Wait for no longer; the job goes on stopping: what was written becomes durable first'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;resume'= {
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --all 'All that were interrupted on this machine, as after it was started anew; not those that failed or were stopped'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;forget'= {
            cand --older-than 'All that have been over for so long, for instance 30d'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Each job that is told of as JSON, one a line, on stdout; not with log'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;jobs;help'= {
            cand show 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
            cand log 'Print what a job said'
            cand wait 'Wait until jobs are over; exit with the gravest of their exit codes'
            cand stop 'Ask jobs to stop in order, and wait for that'
            cand resume 'Run jobs again that are over and not done: the same words, in the same directory'
            cand forget 'Remove the record and the log of jobs that are over'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;jobs;help;show'= {
        }
        &'thalweg;jobs;help;log'= {
        }
        &'thalweg;jobs;help;wait'= {
        }
        &'thalweg;jobs;help;stop'= {
        }
        &'thalweg;jobs;help;resume'= {
        }
        &'thalweg;jobs;help;forget'= {
        }
        &'thalweg;jobs;help;help'= {
        }
        &'thalweg;predict'= {
            cand --deadline 'Will it be done in this time, in 99 of 100 cases?'
            cand --scan 'Count what is at SRC for so long, or 1,000 entries in any case; if it is larger, a sample is taken for as long again'
            cand --measure 'Measure for so long where nothing is known, or only by a probe of more than a day ago; from 4 s to 1 min'
            cand --bwlimit 'Of the copy, as in cp; what is measured is not held to it (--no-measure)'
            cand --verify 'As in cp'
            cand --streams 'As in cp'
            cand --check 'How to recognise what is there already'
            cand --io-depth 'Requests to a disk in flight for each stream (default: 4)'
            cand --direct 'Past the page cache: auto (large files, where it pays; what is in it is read from there), on, off; for one side source=on, for both source=on,destination=off'
            cand --order 'Order of requests: strict, serial, loose, none, layout (by the place on the medium); for one side source=serial, for both source=layout,destination=serial. At the destination serial, loose or none (default: source=loose,destination=none)'
            cand --concurrency 'Files larger than a request in flight at once; smaller ones travel in packs, which this does not bound (default: 256)'
            cand --depth 'Chunks or packs of small files in flight in each stream (default: as many as the window takes)'
            cand --chunk 'Bytes of a chunk: a power of two from 64KiB to 64MiB'
            cand --request 'Bytes of a request to a disk, and of a frame: a power of two from 64KiB to 64MiB, at most a chunk (default: near 1MiB, far 512KiB)'
            cand --memory 'Take at most so much memory for buffers here, from 8MiB: fewer streams, smaller requests, less read ahead (a far side has a bound of its own: serve --memory)'
            cand --window 'Bytes under way in each stream, from 4KiB to 1GiB (default: left to the kernel)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --class 'As in cp'
            cand --dscp 'As in cp'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --no-measure 'Do not measure: only what is remembered counts'
            cand -z 'Compress where it pays'
            cand --compress 'Compress where it pays'
            cand --no-tune 'Hold still: turn no knob while the copy runs, and do not begin with what earlier copies found best on this route'
            cand --find-renames 'Before a file is sent that the destination lacks, look there for its content under other names, by size and time. What the digests of its chunks find is copied there; only the rest is sent. Files from 128 KiB on; not in a bucket or a dry run, nor with `--check nothing`'
            cand --no-io-uring 'Helper threads for requests in flight, even where there is an io_uring'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;probe'= {
            cand --seconds 'Take about so long, from 4 s to 1 min: less says less. Over a way of less than some 50 Mbit/s, or with a slow disk, at most half as long again (24 s if less than 16 s was asked for), counted from when the far side was reached, so that transfers come to their ends'
            cand --svg 'Draw the basin into a file'
            cand --streams 'TCP connections (default: as a copy would choose)'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -v 'With the accounts of the whole way'
            cand --verbose 'With the accounts of the whole way'
            cand --no-profile 'Do not remember the result for `thalweg predict`'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;tune'= {
            cand --time 'Take no longer than this, from 10 s to 1 h: less tries less'
            cand --bytes 'Move no more content than this in all trials, at least 64 MiB'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -n 'Say what was found, and do not remember it'
            cand --dry-run 'Say what was found, and do not remember it'
            cand --forget 'Measure nothing: forget what was found for this way'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;explain-filter'= {
            cand --filter 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync'
            cand --include 'Take in names that match, before a later --exclude'
            cand --exclude 'Leave out names that match'
            cand --include-from 'Patterns to take in, one a line, from a file (`-`: stdin)'
            cand --exclude-from 'Patterns to leave out, one a line, from a file (`-`: stdin)'
            cand --files-from 'Only these names, one a line, relative to the source, from a file (`-`: stdin). Directories are not descended into'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -0 'Names and patterns in those files end with NUL, not with a line'
            cand --from0 'Names and patterns in those files end with NUL, not with a line'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;serve'= {
            cand --listen 'Where to listen, ADDRESS:PORT; port 0 lets the kernel choose. May be given several times'
            cand --export 'A directory that clients may use: NAME=DIR, or NAME=DIR:FLAG,... May be given several times. Flags: ro, they may only read; no-delete, they delete nothing; no-replace, what is there is never replaced; setid, files that they leave may have set-id bits and capabilities; min-free=SIZE or min-free=PERCENT%, so much of the file system is kept free; max-spill=SIZE, spill logs there have that instead of --max-spill; bwlimit=RATE, all transfers there together move no faster, with equal parts. A DIR whose own name ends like that is followed by :rw'
            cand --state 'Where the server keeps its keys and what it remembers'
            cand --ticket-file 'Write what a client needs (addresses, fingerprint, key) here, readable by you only'
            cand --issuers 'Let in who shows a token of an identity provider (OpenID Connect): FILE says whose tokens are taken and what they give. A change counts at a reload, and ends what is under way with a token to which it gives something else or nothing'
            cand --place-file 'Write what a client with a token needs (addresses, fingerprint, issuers) here, for its --ticket; no secret is in it'
            cand --advertise 'Address that the ticket names instead of those of this machine, for --via ticket. May be given several times'
            cand --patience 'Keep a session without a link for so long'
            cand --stall-timeout 'Without a sign of life for so long, a link counts as lost'
            cand --max-sessions 'Serve at most so many sessions at a time; a client beyond them is told that the server is busy'
            cand --max-sessions-per-address 'Serve at most so many of these from one address (of IPv6: one network of 64 bits) (default: half of them)'
            cand --memory 'Take at most so much memory for buffers of all sessions together, from 8MiB; a stream for which there is none is refused'
            cand --bwlimit 'Move no faster than this, all sessions and both directions together; for instance 5Gbit/s. Sessions that move data have equal parts, and what one does not use is the others''. `thalweg limit PID RATE` changes it while the daemon runs, and a reload does. Not with --slots, whose promises it would break'
            cand --slots 'Give the way to this server away in slots: streams that ask for one (`thalweg stream --slot`) get windows in which no other has one, or are refused. RATE is what the way carries, for instance 10Gbit/s; measure: four fifths of what this machine takes in, measured for some seconds at the start. What comes without a slot waits while somebody''s window is open'
            cand --frames-memory 'Bytes of frames that all channels together may hold in memory; as much again is for what is under way from producers and to consumers (--window) (default: 1GiB, or in a control group an eighth of what it may have, if that is less)'
            cand --max-spill 'The most that a client may let the spill log of a channel have (`frames --spill-size`); one that asks for more is refused. A recorded log keeps what it has. max-spill of an export takes precedence'
            cand --block-max 'A consumer of frames with --policy block that takes nothing may hold producers up for so long: after that the oldest frames are dropped for it, each is named to it, and producers are told, until it takes something. At least 5s (default: as long as it is there)'
            cand --log-format 'Write a log to stderr in this form, with a line for each transfer when it is over: what THALWEG_LOG asks for, else as THALWEG_LOG=info. Without it there is a log, for people, where THALWEG_LOG is set'
            cand --metrics 'Answer Prometheus at this address, in clear and without a ticket, for instance 127.0.0.1:9487: what the daemon counts (`GET /metrics`), and whether it accepts (`GET /healthz`). Port 0 lets the kernel choose (default: none)'
            cand --errands 'Let clients send this daemon to these other daemons, of which each has the port of daemons if it names none: for copies between an export here and one there (`thalweg cp tw://... tw://...`), which it then runs. With any it dials wherever a client says. Not with --slots (default: to none)'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --require-tls 'Refuse transfers of clients that do not ask for TLS records (`--cipher tls`)'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;ticket'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand new 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
            cand list 'List tickets: what each permits, when it was made, when it ends, when it was used last'
            cand revoke 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;ticket;new'= {
            cand --export 'Only this export, EXPORT or EXPORT:FLAG,...: ro, its holder may only read; no-delete, deletes nothing; no-replace, replaces nothing. It takes away from what the export permits, and adds nothing. May be given several times (default: all exports, those that come later included)'
            cand --below 'Of each of these exports only this directory, which is all of it to the holder'
            cand --expires 'It ends after so long, for instance 30d, or at the beginning of a day, 2027-01-31, in UTC (default: never). What runs then goes on for at most an hour'
            cand --bwlimit 'All transfers with it together move no faster than this, for instance 1Gbit/s. A daemon with --slots does not go by it'
            cand -o 'Write the ticket here, readable by you only; no file is replaced (default: NAME.ticket)'
            cand --output 'Write the ticket here, readable by you only; no file is replaced (default: NAME.ticket)'
            cand --state 'The daemon''s state directory'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;ticket;list'= {
            cand --state 'The daemon''s state directory'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'A ticket as JSON, one a line, on stdout'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;ticket;revoke'= {
            cand --state 'The daemon''s state directory'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;ticket;help'= {
            cand new 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
            cand list 'List tickets: what each permits, when it was made, when it ends, when it was used last'
            cand revoke 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;ticket;help;new'= {
        }
        &'thalweg;ticket;help;list'= {
        }
        &'thalweg;ticket;help;revoke'= {
        }
        &'thalweg;ticket;help;help'= {
        }
        &'thalweg;watch'= {
            cand --on-arrival 'Run this program, on this machine, for each item once it has arrived, is verified and durable. It is told about the item in its environment (THALWEG_ITEM_PATH, _NAME, _DIGEST, _RECEIPT, _KEY, ...); no shell sees any of it'
            cand --item 'What is one item'
            cand --stable 'An item is complete when its sizes and times have not changed for so long (default: 2s; a file in a bucket is complete when it is there)'
            cand --marker 'An item is complete when its marker is there, made or touched after the item''s last change: for a file NAME the file NAME + MARKER beside it, for a directory the file MARKER in it'
            cand --in-order 'Run the program strictly one item after another, by name (numbers in names as numbers) or by time of the last change: the next waits until the one before has succeeded. Copies go ahead of it'
            cand --jobs 'Runs of the program at the same time'
            cand --transfers 'Items copied at the same time'
            cand --attempts 'Runs that fail before an item is given up, until the next start; between them 1 s, doubled each time, at most 60 s. With --in-order the watch ends then'
            cand --results-back 'After a run that succeeded, send what it wrote in the directory THALWEG_ITEM_RESULTS to PLACE/NAME'
            cand --receipts 'Write what both sides sign of each item into this directory of this machine, which is made: a file NAME.DIGITS.receipt for each version that arrived, with _ for a slash (default: in the state directory)'
            cand --look-every 'Look at the directory at least so often (default: 10s where the kernel tells of changes, and in a bucket; else 1s)'
            cand --idle-exit 'End when there was nothing to do for so long, as a look then sees; while the directory cannot be looked at, the watch goes on trying (default: never)'
            cand --filter 'A rule: `+ PATTERN` takes names in, `- PATTERN` leaves them out; the first that matches decides. All filter options make one list, in the order typed. Patterns mean what they mean to rsync'
            cand --include 'Take in names that match, before a later --exclude'
            cand --exclude 'Leave out names that match'
            cand --include-from 'Patterns to take in, one a line, from a file (`-`: stdin)'
            cand --exclude-from 'Patterns to leave out, one a line, from a file (`-`: stdin)'
            cand --verify 'How far to verify'
            cand --bwlimit 'Send no faster than this, all items together; for instance 500Mbit/s. `thalweg limit` changes it'
            cand --class 'scavenger: yield to everybody else, by the delay of the path (RFC 6817), with packets marked LE (RFC 8622), nice 19 and idle I/O priority on this machine, and where ssh starts the far side there'
            cand --dscp 'Mark all packets, of both sides: EF, AF11, CS1, LE, ... or 0 to 63'
            cand --nice 'Take less of the CPU than others on this machine, up to 19; above 0 also where ssh starts the far side'
            cand --ionice 'Take the disk after others: idle, or best-effort[:0-7]; also where ssh starts the far side. Only some schedulers of disks know of it: bfq does'
            cand --streams 'TCP connections (default: by round trip and cores)'
            cand --cca 'Congestion control of the side that sends, for instance cubic or bbr'
            cand --via 'Addresses of the far side, HOST or HOST:PORT, over which data streams are spread; `ticket` means all that the ticket names'
            cand --bind 'Addresses or network cards of this machine over which data streams are spread'
            cand --cipher 'Protection of the data streams'
            cand --ktls 'With `--cipher tls`, let the kernel seal what this side sends and open what it receives: where that was measured to be faster, wherever the kernel can, or never'
            cand --tls-records 'With `--cipher tls`, replace a stream after this side has sent so many TLS records on it, from 1024 to 15728640, which is short of what a key may seal'
            cand --ticket 'What `thalweg serve` wrote: whom to expect and who we are'
            cand -e 'The ssh to start, with its options; split into words, never given to a shell'
            cand --rsh 'The ssh to start, with its options; split into words, never given to a shell'
            cand --port 'Port of sshd'
            cand --far-path 'The thalweg to start at the far side (default: thalweg in the PATH of the login there, else in ~/.cargo/bin, else in ~/.local/bin)'
            cand --far-ports 'Ports that the far side may listen at, if a firewall lets only some through'
            cand --near-ports 'Ports that this side may listen at where the far side dials, if a firewall lets only some through'
            cand --stall-timeout 'Drop a link that acknowledges nothing for so long, and dial again'
            cand --patience 'Give up without progress for so long'
            cand --state 'Where thalweg keeps its keys and what it remembers'
            cand --name 'With --detach: what the job is called, too: up to 64 letters, digits, `-`, `_` and `.`'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --delete 'Before an item that is a directory is copied again, remove at the destination what earlier copies brought of it and its source has no more; of results likewise. Without it nothing is removed: of an item it is told how much there is, also to the program (THALWEG_ITEM_STALE)'
            cand -0 'Names and patterns in those files end with NUL, not with a line'
            cand --from0 'Names and patterns in those files end with NUL, not with a line'
            cand -z 'Compress where it pays'
            cand --compress 'Compress where it pays'
            cand --bootstrap 'If the far side has no thalweg, place our own static one in its user''s cache'
            cand --via-ssh 'Let data ride in ssh at once, as they do where every port is shut: slow over a distance'
            cand -4 'Dial only addresses of IPv4, by ssh too'
            cand --ipv4 'Dial only addresses of IPv4, by ssh too'
            cand -6 'Dial only addresses of IPv6, by ssh too'
            cand --ipv6 'Dial only addresses of IPv6, by ssh too'
            cand --detach 'Go on without this terminal, as a job. Its number is printed once the command line is checked and ssh has logged in. A job asks for no password and reads no stdin; `thalweg jobs` shows it'
            cand -q 'Only errors'
            cand --quiet 'Only errors'
            cand --json 'Events as JSON, one a line, on stdout'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;testbed'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand up 'Make hosts and join them by an emulated path'
            cand run 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
            cand set 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
            cand status 'Show the path, what happened to packets, and what the wire costs'
            cand check 'Measure how well the path keeps what was asked. Uses it for some seconds'
            cand list 'Show all testbeds; what dead ones left is removed'
            cand down 'End the programs in it and remove it, also one that was killed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;testbed;up'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --preset 'A path from a paper: round trip time and rate, with `up` the MTU as well; other options change it further'
            cand --rtt 'Round trip time, half of it in each direction'
            cand --forward-delay 'Delay from left to right'
            cand --back-delay 'Delay from right to left'
            cand --jitter 'Delay varies by so much to either side, evenly; packets keep their order. Where one direction has no delay, that of the other'
            cand --forward-jitter 'Jitter from left to right'
            cand --back-jitter 'Jitter from right to left'
            cand --rate 'Rate of the line in each direction, Ethernet framing counted [default: no limit]'
            cand --forward-rate 'Rate from left to right'
            cand --back-rate 'Rate from right to left'
            cand --loss 'Share of packets that are lost, in each direction'
            cand --forward-loss 'Share of packets that are lost from left to right'
            cand --back-loss 'Share of packets that are lost from right to left'
            cand --reorder 'Share of packets that come late, so that others pass them'
            cand --late-by 'How late [default: 1ms]'
            cand --duplicate 'Share of packets that come twice'
            cand --queue 'Bytes that may wait in front of the line in each direction; what does not fit is dropped [default: rate x round trip time, at least 256KiB]'
            cand --forward-queue 'Bytes that may wait in front of the line from left to right'
            cand --back-queue 'Bytes that may wait in front of the line from right to left'
            cand --framing 'Bytes that the line adds to each packet [default: 38, Ethernet]'
            cand --hosts 'Hosts on the left and on the right'
            cand --mtu 'MTU of every device, in bytes [default: the preset''s, or 1500]'
            cand --sysctl 'A kernel setting in every host, for instance net.ipv4.tcp_congestion_control=bbr. May be given several times'
            cand --seed 'Seed of chance: the same packets at the same times meet the same fate'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --stock 'Buffers and congestion control in the hosts as Linux has them where nobody tuned; else they are this machine''s'
            cand --tuned 'Buffers and congestion control in the hosts as in 000 Table III'
            cand --json 'Tell it as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;testbed;run'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;testbed;set'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --preset 'A path from a paper: round trip time and rate, with `up` the MTU as well; other options change it further'
            cand --rtt 'Round trip time, half of it in each direction'
            cand --forward-delay 'Delay from left to right'
            cand --back-delay 'Delay from right to left'
            cand --jitter 'Delay varies by so much to either side, evenly; packets keep their order. Where one direction has no delay, that of the other'
            cand --forward-jitter 'Jitter from left to right'
            cand --back-jitter 'Jitter from right to left'
            cand --rate 'Rate of the line in each direction, Ethernet framing counted [default: no limit]'
            cand --forward-rate 'Rate from left to right'
            cand --back-rate 'Rate from right to left'
            cand --loss 'Share of packets that are lost, in each direction'
            cand --forward-loss 'Share of packets that are lost from left to right'
            cand --back-loss 'Share of packets that are lost from right to left'
            cand --reorder 'Share of packets that come late, so that others pass them'
            cand --late-by 'How late [default: 1ms]'
            cand --duplicate 'Share of packets that come twice'
            cand --queue 'Bytes that may wait in front of the line in each direction; what does not fit is dropped [default: rate x round trip time, at least 256KiB]'
            cand --forward-queue 'Bytes that may wait in front of the line from left to right'
            cand --back-queue 'Bytes that may wait in front of the line from right to left'
            cand --framing 'Bytes that the line adds to each packet [default: 38, Ethernet]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --no-rate 'Take the limit of the rate away'
            cand --json 'Tell it as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;testbed;status'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;testbed;check'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;testbed;list'= {
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;testbed;down'= {
            cand --name 'Which testbed; several may be up at once'
            cand --state 'Record testbeds in DIR/testbed [default: /run/thalweg, or $XDG_RUNTIME_DIR/thalweg]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --all 'All of them'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;testbed;help'= {
            cand up 'Make hosts and join them by an emulated path'
            cand run 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
            cand set 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
            cand status 'Show the path, what happened to packets, and what the wire costs'
            cand check 'Measure how well the path keeps what was asked. Uses it for some seconds'
            cand list 'Show all testbeds; what dead ones left is removed'
            cand down 'End the programs in it and remove it, also one that was killed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;testbed;help;up'= {
        }
        &'thalweg;testbed;help;run'= {
        }
        &'thalweg;testbed;help;set'= {
        }
        &'thalweg;testbed;help;status'= {
        }
        &'thalweg;testbed;help;check'= {
        }
        &'thalweg;testbed;help;list'= {
        }
        &'thalweg;testbed;help;down'= {
        }
        &'thalweg;testbed;help;help'= {
        }
        &'thalweg;advise'= {
            cand --data 'Data of one unit: a scan, a snapshot, what comes in a second'
            cand --bandwidth 'Bandwidth of the path'
            cand --every 'Such a unit comes again and again, every so often'
            cand --deadline 'A unit must be done within this time'
            cand --local-time 'The analysis of a unit takes so long here'
            cand --remote-time 'The analysis of a unit takes so long there'
            cand --work 'Or: so much work is a unit, for instance 34TFLOP'
            cand --local-speed 'So fast is the computer here, for instance 10TFLOP/s'
            cand --remote-speed 'So fast is the computer there'
            cand --efficiency 'Share of the bandwidth that a transfer gets (alpha) [default: what window and loss leave, or all of it]'
            cand --rtt 'Round trip time of the path: half of it is in all times over the path. Without it --window, --streams, --cca and --mtu say nothing'
            cand --loss 'Share of packets that are lost'
            cand --window 'Bytes that each stream has under way at most (the smaller of both sides'' buffers)'
            cand --streams 'Number of streams [default: 1]'
            cand --cca 'Congestion control that answers loss'
            cand --mtu 'Bytes of a packet; TCP''s payload is 52 less'
            cand --io-overhead 'With files a unit takes so many times as long as its transfer alone (theta, 1 or more)'
            cand --fit 'Measured transfers of files, as `thalweg model fit` reads them: how many files, and what they cost'
            cand --files-max 'Most files that a unit may be cut into [default: the most that were measured]'
            cand --times 'Measured times of transfers of a unit, as `thalweg model tail` reads them, at least 299 for P99; of one case: of a file with several --series and --load choose it'
            cand --series 'Of measured times only those of this series, for instance "simultaneous, 2 streams"'
            cand --load 'Of measured times only those at this load of the line, for instance 0.64 or 64%'
            cand --score 'Worst time of a transfer as a multiple of data / bandwidth (Streaming Speed Score)'
            cand --starts 'Nothing was measured: take the worst from the load, as 003 published it of one testbed (a unit each second over 16 ms; up to twice or half of these), for transfers that begin so [default: simultaneous, with --every]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;model'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand fit 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
            cand window 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
            cand loss 'What loss leaves of a stream, by congestion control'
            cand volume 'Data, time, rate: give two, get the third'
            cand published 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
            cand tail 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
            cand frames 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
            cand repair 'What damage costs: whole files sent again, or only chunks'
            cand basin 'What a row of stages carries, which is the narrowest, and what widening one would gain'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;model;fit'= {
            cand --data 'The best number of files is for so much data [default: the largest measured]'
            cand --predict 'Also say how long so many files take'
            cand --points 'Fit measurements with these numbers of files only, and compare the prediction with the others'
            cand --files-max 'Most files that the data may be cut into [default: the most that were measured]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;window'= {
            cand --rtt 'Round trip time'
            cand --window 'Bytes that each stream has under way at most'
            cand --rate 'Rate that is wanted'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;loss'= {
            cand --loss 'Share of packets that are lost'
            cand --rtt 'Round trip time'
            cand --rate 'Rate that is wanted: how many streams does it take, and what loss would one bear?'
            cand --mtu 'Bytes of a packet; TCP''s payload is 52 less'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;volume'= {
            cand --data 'Data'
            cand --rate 'Rate; alone: the data of a day'
            cand --time 'Time'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;published'= {
            cand --data 'Also say how long so much data takes at each rate'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;tail'= {
            cand --data 'Data of each transfer'
            cand --rate 'Rate of the link'
            cand --series 'Of measured times only those of this series, for instance "simultaneous, 2 streams"'
            cand --load 'Of measured times only those at this load of the line, for instance 0.64 or 64%'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;frames'= {
            cand --frames 'Number of frames'
            cand --frame 'Data of a frame'
            cand --every 'A frame comes every so often'
            cand --rate 'Rate of the path'
            cand --per-file 'What each file costs besides its bytes'
            cand --files 'Numbers of files to compare with a stream [default: 1, 10, 100, ... and one for each frame]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;repair'= {
            cand --files 'Number of files'
            cand --data 'Data in all of them'
            cand --rate 'Rate, end to end'
            cand --failures 'So many times a verification fails'
            cand --chunk 'What is sent again for each, if not the file'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;basin'= {
            cand --stage 'A stage, in the order of the byte''s journey: read=2GB/s, or wan=10Gbit/s,50ms with its latency. Give several'
            cand --data 'How long so much data takes'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;model;help'= {
            cand fit 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
            cand window 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
            cand loss 'What loss leaves of a stream, by congestion control'
            cand volume 'Data, time, rate: give two, get the third'
            cand published 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
            cand tail 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
            cand frames 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
            cand repair 'What damage costs: whole files sent again, or only chunks'
            cand basin 'What a row of stages carries, which is the narrowest, and what widening one would gain'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;model;help;fit'= {
        }
        &'thalweg;model;help;window'= {
        }
        &'thalweg;model;help;loss'= {
        }
        &'thalweg;model;help;volume'= {
        }
        &'thalweg;model;help;published'= {
        }
        &'thalweg;model;help;tail'= {
        }
        &'thalweg;model;help;frames'= {
        }
        &'thalweg;model;help;repair'= {
        }
        &'thalweg;model;help;basin'= {
        }
        &'thalweg;model;help;help'= {
        }
        &'thalweg;doctor'= {
            cand --to 'Measure the round trip time and the MTU of the path to an open TCP port of another machine, the MTU by datagrams to its port 33434; buffers are judged by that round trip time'
            cand --loss 'With --prove, share of packets that the path loses at random, up to 0.05 [default: what this machine sent again since boot, if that is more than 4.6e-5; else none]'
            cand --state 'Keep what was there before --apply in DIR/doctor [default: $XDG_STATE_HOME/thalweg], and record the testbed of --prove in DIR/testbed'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -4 'With --to, dial only addresses of IPv4'
            cand --ipv4 'With --to, dial only addresses of IPv4'
            cand -6 'With --to, dial only addresses of IPv6'
            cand --ipv6 'With --to, dial only addresses of IPv6'
            cand --prove 'Try what is proposed in a testbed, before against after (at the round trip time of --to, else 50 ms; at the rate of the line up to 4 Gbit/s, 1 Gbit/s where no card says), and recommend only what helps; with --apply, change only that. Needs root and takes up to three minutes for each trial'
            cand --apply 'Change kernel settings, also for the next start (a file of sysctl.d), and write a tuned profile; say what was changed'
            cand --undo 'Put back what was there before --apply'
            cand -v 'Explain what is good as well'
            cand --verbose 'Explain what is good as well'
            cand --json 'Tell results as JSON, one object on a line'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;bench'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand sweep 'Throughput by size of file'
            cand path 'Whether the emulated path keeps what it is asked to, and what it costs'
            cand latency 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
            cand streams 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
            cand cca 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
            cand order 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
            cand concurrency 'Files at once, streams, depth (001 Figs 4 and 5)'
            cand files 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
            cand whole-files 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
            cand faults 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
            cand layout 'Reading by the place on the medium (002 Table II)'
            cand hop 'From where the data are, or through one more host (002 Table I)'
            cand congest 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
            cand frames 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
            cand lag 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
            cand slots 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
            cand predict 'Copies of several shapes, each predicted before: does it take as long, within the range?'
            cand storage 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
            cand import 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
            cand show 'Show a result file as a table'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;bench;sweep'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand bulk 'Files at rest (000 section III-B.2, Figs 5 and 8)'
            cand streaming 'Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;bench;sweep;bulk'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;sweep;streaming'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;sweep;help'= {
            cand bulk 'Files at rest (000 section III-B.2, Figs 5 and 8)'
            cand streaming 'Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;bench;sweep;help;bulk'= {
        }
        &'thalweg;bench;sweep;help;streaming'= {
        }
        &'thalweg;bench;sweep;help;help'= {
        }
        &'thalweg;bench;path'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;latency'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;streams'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;cca'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;order'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;concurrency'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;files'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;whole-files'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;faults'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;layout'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;hop'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;congest'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;frames'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;lag'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;slots'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;predict'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;storage'= {
            cand --budget 'Most bytes of one data set [default: the suite''s own, mostly 64MiB; see docs/guide/bench.md]; not of `path`, `streams`'
            cand --max-files 'Most files of one data set [default: 4096]; only in `sweep`, `concurrency`, `files`, `whole-files`, `faults`, `frames`, `predict`'
            cand --at-once '`whole-files`: files under way at once [default: 1,2,4]'
            cand --runs 'Counted runs of each case [default: the suite''s own, 3 to 5]; five give its median an interval of 94 %'
            cand --seed 'Where chance comes from: content of files, what is damaged, where stripes lie [default: 0]; not of `path`, `streams`, `order`, `congest`, `lag`, `slots`, `storage`'
            cand --out 'Write the result here [default: SUITE-DATE.jsonl in this directory]'
            cand --dir 'Data go into a directory in DIR, on the disk that is to be measured; it is removed at the end'
            cand --program 'Measure another thalweg, for instance another version; not in `path`, `streams`, `congest`, `storage`, which run none'
            cand --rtt 'Round trip times of the emulated path; `sweep` and `frames` go over the loopback without. Several only in `sweep`, `path`, `latency`, `streams`, `cca`; none in `order`, `layout`, `predict`, `storage`'
            cand --rate 'Rate of the emulated line; in `congest` and `slots` it follows from --budget'
            cand --loss 'Shares of packets that the emulated path loses; only `cca` and `path` take more than one, `latency` and `streams` none'
            cand --time 'How long traffic flows, in `latency`, `streams`, `frames`, `lag`; in whole seconds in `congest`, `slots`; how long each of the 150 cases of `storage` asks the disk [default: 2s, which is a quarter of an hour for all runs]'
            cand --stall '`lag`: how long the consumer of `spill` stands still, at most an hour [default: 5s]. The frames that are made meanwhile are 1 GiB at most, or --budget'
            cand --target '`storage`: say which ways of asking the disk past the page cache have this throughput and answer 99 of 100 requests within 10 ms and the time that the others in flight take at it (the storage rule of 000 section III-D)'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --free-check '`whole-files`: check files as fast as this machine digests them, and not at 1.25 times the rate of the line, by which a check is quicker than a transfer whatever the machine'
            cand -q 'Only the table, not each sample'
            cand --quiet 'Only the table, not each sample'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;bench;import'= {
            cand --out 'Write the result here [default: FILE with the ending .jsonl]'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;bench;show'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell the cases as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;bench;help'= {
            cand sweep 'Throughput by size of file'
            cand path 'Whether the emulated path keeps what it is asked to, and what it costs'
            cand latency 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
            cand streams 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
            cand cca 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
            cand order 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
            cand concurrency 'Files at once, streams, depth (001 Figs 4 and 5)'
            cand files 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
            cand whole-files 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
            cand faults 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
            cand layout 'Reading by the place on the medium (002 Table II)'
            cand hop 'From where the data are, or through one more host (002 Table I)'
            cand congest 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
            cand frames 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
            cand lag 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
            cand slots 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
            cand predict 'Copies of several shapes, each predicted before: does it take as long, within the range?'
            cand storage 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
            cand import 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
            cand show 'Show a result file as a table'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;bench;help;sweep'= {
            cand bulk 'Files at rest (000 section III-B.2, Figs 5 and 8)'
            cand streaming 'Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)'
        }
        &'thalweg;bench;help;sweep;bulk'= {
        }
        &'thalweg;bench;help;sweep;streaming'= {
        }
        &'thalweg;bench;help;path'= {
        }
        &'thalweg;bench;help;latency'= {
        }
        &'thalweg;bench;help;streams'= {
        }
        &'thalweg;bench;help;cca'= {
        }
        &'thalweg;bench;help;order'= {
        }
        &'thalweg;bench;help;concurrency'= {
        }
        &'thalweg;bench;help;files'= {
        }
        &'thalweg;bench;help;whole-files'= {
        }
        &'thalweg;bench;help;faults'= {
        }
        &'thalweg;bench;help;layout'= {
        }
        &'thalweg;bench;help;hop'= {
        }
        &'thalweg;bench;help;congest'= {
        }
        &'thalweg;bench;help;frames'= {
        }
        &'thalweg;bench;help;lag'= {
        }
        &'thalweg;bench;help;slots'= {
        }
        &'thalweg;bench;help;predict'= {
        }
        &'thalweg;bench;help;storage'= {
        }
        &'thalweg;bench;help;import'= {
        }
        &'thalweg;bench;help;show'= {
        }
        &'thalweg;bench;help;help'= {
        }
        &'thalweg;dataset'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
            cand make 'Write files whose names, sizes and bytes come from a seed'
            cand check 'Compare files with the seed that they were made from: no second copy is needed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;dataset;make'= {
            cand --files 'Number of files'
            cand --size 'Bytes of each file; or a distribution, SIZE:WEIGHT,SIZE:WEIGHT,...: 1KiB:70,1MiB:25,1GiB:5'
            cand --content 'noise (does not compress), frames (of a detector: smooth, 16 bits a pixel), text (lines of words)'
            cand --sparse 'Share of each file''s mebibytes that are holes'
            cand --seed 'Where names, sizes and bytes come from'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;dataset;check'= {
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --json 'Tell it as JSON'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;dataset;help'= {
            cand make 'Write files whose names, sizes and bytes come from a seed'
            cand check 'Compare files with the seed that they were made from: no second copy is needed'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;dataset;help;make'= {
        }
        &'thalweg;dataset;help;check'= {
        }
        &'thalweg;dataset;help;help'= {
        }
        &'thalweg;plot'= {
            cand -o 'FILE.svg or FILE.png for one figure, with its data in FILE.csv; a directory for all of them'
            cand --out 'FILE.svg or FILE.png for one figure, with its data in FILE.csv; a directory for all of them'
            cand --figure 'Which figure, by its name in --list; for a directory all, else the first'
            cand --format 'Form of the figures in a directory'
            cand --width 'Pixels from side to side'
            cand --scale 'Pixels of a PNG for each of these'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand --list 'Only say which figures there are: name and title'
            cand -h 'Print help (see more with ''--help'')'
            cand --help 'Print help (see more with ''--help'')'
        }
        &'thalweg;report'= {
            cand -o 'The page'
            cand --out 'The page'
            cand --title 'What stands over it'
            cand --config 'Go by this configuration only, not by /etc/thalweg/config.toml and $XDG_CONFIG_HOME/thalweg/config.toml'
            cand -h 'Print help'
            cand --help 'Print help'
        }
        &'thalweg;help'= {
            cand cp 'Copy files and trees'
            cand sync 'Make a destination the same as a source'
            cand stream 'Move what is still being made: files that grow, directories with such files, pipes (`-`)'
            cand mark 'Say how much of a file that a stream writes is durable'
            cand frames 'Frames of detectors, from memory to memory: many producers, many consumers, nothing lost unnamed'
            cand slots 'Show who may send to a daemon, and when: the slots that it gave away'
            cand verify 'Check that what a receipt says is still there, and undamaged'
            cand identity 'Say who signs receipts here: fingerprint, public key and certificate'
            cand login 'Log in at an identity provider whose tokens a daemon takes: approved in a browser, kept for all commands there'
            cand logout 'Forget such logins, and have their provider give no more tokens by them'
            cand check 'Compare two places by content, changing nothing'
            cand ls 'List what is at a place'
            cand du 'Sum up the bytes below a place'
            cand cat 'Print files, compared with their digests'
            cand rm 'Remove files and trees'
            cand gc 'Find and remove what unfinished copies left behind'
            cand limit 'Give copies that run another rate'
            cand why 'Say which stage of a transfer is the narrowest, by what factor, what would be next, and what to turn'
            cand jobs 'Show what goes on without a terminal (--detach); wait for it, stop it, resume it'
            cand predict 'Say how long a transfer would take, with a range, before it begins'
            cand probe 'Measure each part of a way alone and in company: which stage is the narrowest'
            cand tune 'Find settings for a way by trial, one knob at a time; later copies start with them'
            cand explain-filter 'Say which rule takes a path in or leaves it out'
            cand serve 'Serve directories to other machines'
            cand ticket 'Let people into a daemon, each with a name, rights and an end; and take that back'
            cand watch 'Copy what becomes complete in a directory, and run a program on arrival, each item once'
            cand testbed 'Hosts on this machine, joined by an emulated path: delay, rate, loss, for any program'
            cand advise 'Analyse here, stream, or send files? Will the deadline hold? A verdict, its reason, and what would change it'
            cand model 'Ask one law: windows, loss, volume, tails, frames, damage, stages, number of files'
            cand doctor 'Say what on this machine stands in the way of moving data: what is, what should be, why, how to take it back'
            cand bench 'Measure: throughput by size, distance, loss, order, damage, load; raw samples kept, laws beside'
            cand dataset 'Files made from a seed, to measure and to try with, and checked by it'
            cand plot 'Draw the figures of results: SVG or PNG, with their data as CSV'
            cand report 'One page about results: figures beside the papers'' own, tables, what was measured where; HTML that stands alone'
            cand help 'Print this message or the help of the given subcommand(s)'
        }
        &'thalweg;help;cp'= {
        }
        &'thalweg;help;sync'= {
        }
        &'thalweg;help;stream'= {
        }
        &'thalweg;help;mark'= {
        }
        &'thalweg;help;frames'= {
            cand push 'Send files, or standard input, as frames'
            cand pull 'Take frames, and write them into files as they come'
            cand status 'How a channel stands: producers, consumers, how far they are behind, losses, tails'
        }
        &'thalweg;help;frames;push'= {
        }
        &'thalweg;help;frames;pull'= {
        }
        &'thalweg;help;frames;status'= {
        }
        &'thalweg;help;slots'= {
        }
        &'thalweg;help;verify'= {
        }
        &'thalweg;help;identity'= {
        }
        &'thalweg;help;login'= {
        }
        &'thalweg;help;logout'= {
        }
        &'thalweg;help;check'= {
        }
        &'thalweg;help;ls'= {
        }
        &'thalweg;help;du'= {
        }
        &'thalweg;help;cat'= {
        }
        &'thalweg;help;rm'= {
        }
        &'thalweg;help;gc'= {
        }
        &'thalweg;help;limit'= {
        }
        &'thalweg;help;why'= {
        }
        &'thalweg;help;jobs'= {
            cand show 'Show a job: its command, who runs it, how far it is or how it ended, and what it said last'
            cand log 'Print what a job said'
            cand wait 'Wait until jobs are over; exit with the gravest of their exit codes'
            cand stop 'Ask jobs to stop in order, and wait for that'
            cand resume 'Run jobs again that are over and not done: the same words, in the same directory'
            cand forget 'Remove the record and the log of jobs that are over'
        }
        &'thalweg;help;jobs;show'= {
        }
        &'thalweg;help;jobs;log'= {
        }
        &'thalweg;help;jobs;wait'= {
        }
        &'thalweg;help;jobs;stop'= {
        }
        &'thalweg;help;jobs;resume'= {
        }
        &'thalweg;help;jobs;forget'= {
        }
        &'thalweg;help;predict'= {
        }
        &'thalweg;help;probe'= {
        }
        &'thalweg;help;tune'= {
        }
        &'thalweg;help;explain-filter'= {
        }
        &'thalweg;help;serve'= {
        }
        &'thalweg;help;ticket'= {
            cand new 'Make a ticket for somebody, with a name, rights and an end. A daemon that runs takes it at once'
            cand list 'List tickets: what each permits, when it was made, when it ends, when it was used last'
            cand revoke 'Take a ticket back: nobody comes in by it any more, and what runs with it ends within seconds'
        }
        &'thalweg;help;ticket;new'= {
        }
        &'thalweg;help;ticket;list'= {
        }
        &'thalweg;help;ticket;revoke'= {
        }
        &'thalweg;help;watch'= {
        }
        &'thalweg;help;testbed'= {
            cand up 'Make hosts and join them by an emulated path'
            cand run 'Run any program in a host; its exit code and signals are its own, and it ends with the testbed'
            cand set 'Change the path while programs use it. What is not named stays. What waits in the queue leaves when it was to: at a faster rate what comes later waits for that, and comes all at once then'
            cand status 'Show the path, what happened to packets, and what the wire costs'
            cand check 'Measure how well the path keeps what was asked. Uses it for some seconds'
            cand list 'Show all testbeds; what dead ones left is removed'
            cand down 'End the programs in it and remove it, also one that was killed'
        }
        &'thalweg;help;testbed;up'= {
        }
        &'thalweg;help;testbed;run'= {
        }
        &'thalweg;help;testbed;set'= {
        }
        &'thalweg;help;testbed;status'= {
        }
        &'thalweg;help;testbed;check'= {
        }
        &'thalweg;help;testbed;list'= {
        }
        &'thalweg;help;testbed;down'= {
        }
        &'thalweg;help;advise'= {
        }
        &'thalweg;help;model'= {
            cand fit 'How many files, of what size? Fits 001 Eq 6 to measured transfers'
            cand window 'What a window carries over a round trip time; with --rate, the window and the streams that it needs'
            cand loss 'What loss leaves of a stream, by congestion control'
            cand volume 'Data, time, rate: give two, get the third'
            cand published 'Rates that the papers name: what instruments make, what clouds carry at most, with source and year'
            cand tail 'P50, P90, P99 and the worst of measured times, by series and load; with --data and --rate, the Streaming Speed Score'
            cand frames 'Frames of a detector, gathered into files or streamed: when has the last one arrived?'
            cand repair 'What damage costs: whole files sent again, or only chunks'
            cand basin 'What a row of stages carries, which is the narrowest, and what widening one would gain'
        }
        &'thalweg;help;model;fit'= {
        }
        &'thalweg;help;model;window'= {
        }
        &'thalweg;help;model;loss'= {
        }
        &'thalweg;help;model;volume'= {
        }
        &'thalweg;help;model;published'= {
        }
        &'thalweg;help;model;tail'= {
        }
        &'thalweg;help;model;frames'= {
        }
        &'thalweg;help;model;repair'= {
        }
        &'thalweg;help;model;basin'= {
        }
        &'thalweg;help;doctor'= {
        }
        &'thalweg;help;bench'= {
            cand sweep 'Throughput by size of file'
            cand path 'Whether the emulated path keeps what it is asked to, and what it costs'
            cand latency 'What default buffers cost over a distance, beside tuned ones and the window law (000 Fig 2)'
            cand streams 'More and more streams of one window over a distance, beside the window law (004 Fig 2)'
            cand cca 'Congestion controls at steps of loss, beside their laws (000 Figs 4 to 6)'
            cand order 'Orders of requests over threads and sizes, on simulated disks and the real one (004 Figs 3 and 4)'
            cand concurrency 'Files at once, streams, depth (001 Figs 4 and 5)'
            cand files 'The same data in more and more files, for `thalweg model fit` (001 Eq 6)'
            cand whole-files 'The same where whole files are checked after their transfer: the best number of files, for several at once (001 Fig 9)'
            cand faults 'Damage: whole files again, or chunks (001 Eqs 1 and 2, Figs 6 and 7)'
            cand layout 'Reading by the place on the medium (002 Table II)'
            cand hop 'From where the data are, or through one more host (002 Table I)'
            cand congest 'Clients that share a link and connect anew for each transfer, all at once or evenly apart (003 Figs 2 and 3)'
            cand frames 'A scan in files that are copied as each is finished, or streamed (003 Fig 4)'
            cand lag 'How late what was written is readable far away: P50, P90, P99, worst (003 section 2.1)'
            cand slots 'Producers that share a link over streams that stand: all at once, evenly apart, or in slots that a daemon promises (003 Figs 2 and 3)'
            cand predict 'Copies of several shapes, each predicted before: does it take as long, within the range?'
            cand storage 'A disk by request, depth, way, order: throughput and latency (000 section III-D, 004)'
            cand import 'Make a result file of what another program measured: iperf3 --json, fio --output-format=json (3.0 or later), pscheduler --format json (throughput, rtt, latency), ping of iputils; one run or several behind each other. Which it is, is told by what is in it. It reads results of no other program: what GridFTP says may be written as samples, see docs/guide/bench.md'
            cand show 'Show a result file as a table'
        }
        &'thalweg;help;bench;sweep'= {
            cand bulk 'Files at rest (000 section III-B.2, Figs 5 and 8)'
            cand streaming 'Files that grow while they move: how far behind is the copy? (000 section II-B, Figs 6 and 9)'
        }
        &'thalweg;help;bench;sweep;bulk'= {
        }
        &'thalweg;help;bench;sweep;streaming'= {
        }
        &'thalweg;help;bench;path'= {
        }
        &'thalweg;help;bench;latency'= {
        }
        &'thalweg;help;bench;streams'= {
        }
        &'thalweg;help;bench;cca'= {
        }
        &'thalweg;help;bench;order'= {
        }
        &'thalweg;help;bench;concurrency'= {
        }
        &'thalweg;help;bench;files'= {
        }
        &'thalweg;help;bench;whole-files'= {
        }
        &'thalweg;help;bench;faults'= {
        }
        &'thalweg;help;bench;layout'= {
        }
        &'thalweg;help;bench;hop'= {
        }
        &'thalweg;help;bench;congest'= {
        }
        &'thalweg;help;bench;frames'= {
        }
        &'thalweg;help;bench;lag'= {
        }
        &'thalweg;help;bench;slots'= {
        }
        &'thalweg;help;bench;predict'= {
        }
        &'thalweg;help;bench;storage'= {
        }
        &'thalweg;help;bench;import'= {
        }
        &'thalweg;help;bench;show'= {
        }
        &'thalweg;help;dataset'= {
            cand make 'Write files whose names, sizes and bytes come from a seed'
            cand check 'Compare files with the seed that they were made from: no second copy is needed'
        }
        &'thalweg;help;dataset;make'= {
        }
        &'thalweg;help;dataset;check'= {
        }
        &'thalweg;help;plot'= {
        }
        &'thalweg;help;report'= {
        }
        &'thalweg;help;help'= {
        }
    ]
    $completions[$command]
}
