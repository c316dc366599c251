//! Transfers as they are opened, and the terms that both sides agree on.

use super::{Sample, failure, frames, one, path, place, signatory, within};
use crate::message::{
    ChannelTerms, Check, Direct, Disk, DiskSide, FilterRule, FlowTerms, Open, Opened, Order, PartOf, Place,
    Preserve, Pull, PullTrial, Push, PushTrial, Request, SourceForm, Terms, TransferNumber, Until,
    VerifyLevel,
};

pub(super) fn opens() -> Vec<Sample<Open>> {
    let requests = each! { Request;
        Request::Push(_) => "push": Request::Push(push());
        Request::Pull(_) => "pull": Request::Pull(pull());
        Request::FlowPush { .. } => "flow push":
            Request::FlowPush { place: place(), source: single(), flow: flow_terms() };
        Request::FlowPull { .. } => "flow pull": Request::FlowPull { place: place(), flow: flow_terms() };
        Request::Frames { .. } => "frames":
            Request::Frames { place: place(), frames: frames::terms().remove(0).value };
    };
    let sources = each! { SourceForm;
        SourceForm::Single { .. } => "single": single();
        SourceForm::Many => "many": SourceForm::Many;
    };
    let levels = each! { VerifyLevel;
        VerifyLevel::Written => "written": VerifyLevel::Written;
        VerifyLevel::Readback => "readback": VerifyLevel::Readback;
        VerifyLevel::Paranoid => "paranoid": VerifyLevel::Paranoid;
    };
    let checks = each! { Check;
        Check::Evidence => "evidence": Check::Evidence;
        Check::Digest => "digest": Check::Digest;
        Check::Nothing => "nothing": Check::Nothing;
    };
    let directs = each! { Direct;
        Direct::Auto => "auto": Direct::Auto;
        Direct::On => "on": Direct::On;
        Direct::Off => "off": Direct::Off;
    };
    let orders = each! { Order;
        Order::Strict => "strict": Order::Strict;
        Order::Serial => "serial": Order::Serial;
        Order::Loose => "loose": Order::Loose;
        Order::None => "none": Order::None;
        Order::Layout => "layout": Order::Layout;
    };
    let push_trials = each! { PushTrial;
        PushTrial::Null => "null": PushTrial::Null;
        PushTrial::Scratch { .. } => "scratch": PushTrial::Scratch { bytes_max: 1 << 33 };
    };
    let pull_trials = each! { PullTrial;
        PullTrial::Source { .. } => "source": PullTrial::Source { bytes_max: 1 << 33 };
        PullTrial::Noise { .. } => "noise": PullTrial::Noise { bytes: 1 << 40, file_bytes: 4096 };
    };
    let asked = |request| Open { request, ..open() };
    let pushed = |push| asked(Request::Push(push));
    let mut all = within(requests, "", asked);
    all.extend(within(push_trials, "push trial", |trial| pushed(Push { trial: Some(trial), ..push() })));
    all.extend(within(pull_trials, "pull trial", |trial| {
        asked(Request::Pull(Pull { trial: Some(trial), ..pull() }))
    }));
    all.extend(within(sources, "source", |source| pushed(Push { source, ..push() })));
    all.extend(within(levels, "verify", |verify| Open { terms: Terms { verify, ..terms() }, ..open() }));
    all.extend(within(checks, "check", |check| Open { terms: Terms { check, ..terms() }, ..open() }));
    let part = PartOf::new(2, 4);
    all.extend(one("part", Open { terms: Terms { part, delete_max: None, ..terms() }, ..open() }));
    all.extend(one("signer", Open { signer: Some(signatory()), ..open() }));
    all.extend(within(frames::terms(), "", |frames| asked(Request::Frames { place: place(), frames })));
    let with = |source| Open { terms: Terms { disk: Disk { source, ..terms().disk }, ..terms() }, ..open() };
    all.extend(within(directs, "direct", |direct| with(DiskSide { direct, order: None })));
    all.extend(within(orders, "order", |order| with(DiskSide { direct: Direct::Auto, order: Some(order) })));
    all
}

/// What a server says to them.
pub(super) fn answers() -> Vec<Sample<Opened>> {
    each! { Opened;
        Opened::Push { .. } => "push": Opened::Push { is_ephemeral: false };
        Opened::Pull { .. } => "pull": Opened::Pull { source: single(), is_ephemeral: true };
        Opened::FlowPush { .. } => "flow push": Opened::FlowPush { is_ephemeral: true, window_bytes: 4 << 20 };
        Opened::FlowPull { .. } => "flow pull":
            Opened::FlowPull { source: single(), is_ephemeral: false, window_bytes: 4 << 20 };
        Opened::Produce { .. } => "produce":
            Opened::Produce { channel: frames::channel(), before: Some(frames::taken_before()) };
        Opened::Consume { .. } => "consume":
            Opened::Consume { instance: 1 << 40, channel: ChannelTerms::default() };
        Opened::Refused(_) => "refused": Opened::Refused(failure());
    }
}

pub(super) fn open() -> Open {
    Open::of(TransferNumber(1), Request::Pull(pull()), terms())
}

fn push() -> Push {
    Push { place: place(), source: SourceForm::Many, filter: filter(), trial: None }
}

fn pull() -> Pull {
    Pull {
        places: vec![place(), Place { export: None, path: b"/home/\xff".to_vec() }],
        filter: filter(),
        only: vec![path(b"dir/only")],
        one_file_system: true,
        follow_links: true,
        removes_at_end: true,
        trial: None,
    }
}

fn filter() -> Vec<FilterRule> {
    vec![
        FilterRule { include: false, pattern: "*.tmp".into() },
        FilterRule { include: true, pattern: "/keep/**".into() },
    ]
}

fn single() -> SourceForm {
    SourceForm::Single { name: b"name\xff".to_vec() }
}

fn terms() -> Terms {
    Terms {
        chunk_bytes: 4 << 20,
        segment_bytes: 1 << 20,
        verify: VerifyLevel::Written,
        check: Check::Evidence,
        preserve: Preserve { mode: true, owner: false, times: true, xattrs: false, devices: false },
        delete_max: Some(1000),
        compress: true,
        rate_bytes_per_s: Some(125_000_000),
        dry_run: false,
        ignore_existing: true,
        update: false,
        concurrency: Some(32),
        depth: Some(8),
        window_bytes: Some(64 << 20),
        congestion: Some("bbr".into()),
        disk: Disk {
            source: DiskSide { direct: Direct::On, order: Some(Order::Loose) },
            destination: DiskSide::default(),
            depth: Some(4),
            no_io_uring: true,
        },
        share_bytes: Some(5 << 20),
        dscp: Some(46),
        yields: true,
        removes_source: true,
        part: None,
        finds_renames: true,
        job_key: [0x70; 16],
    }
}

fn flow_terms() -> FlowTerms {
    FlowTerms {
        until: Until {
            closed: true,
            idle_ms: Some(5000),
            bytes: Some(1 << 33),
            marker: Some(b"done".to_vec()),
            forever: true,
            wait: true,
            poll_ms: Some(200),
            recheck: true,
        },
        window_bytes: 64 << 20,
        mark_every_ms: 100,
    }
}
