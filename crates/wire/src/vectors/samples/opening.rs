//! Transfers as they are opened, and the terms that both sides agree on.

use super::{Sample, frames, one, path, place, signatory, within};
use crate::message::{
    Check, Direct, Direction, Disk, DiskSide, FilterRule, FlowTerms, Open, Order, Place, Preserve,
    SourceForm, Terms, TransferNumber, Trial, Until, VerifyLevel,
};

pub(super) fn opens() -> Vec<Sample<Open>> {
    let directions = each! { Direction;
        Direction::Push => "push": Direction::Push;
        Direction::Pull => "pull": Direction::Pull;
    };
    let sources = each! { SourceForm;
        SourceForm::Single { .. } => "single": SourceForm::Single { name: b"name\xff".to_vec() };
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
    let trials = each! { Trial;
        Trial::Source { .. } => "source": Trial::Source { bytes_max: 1 << 33 };
        Trial::Noise { .. } => "noise": Trial::Noise { bytes: 1 << 40, file_bytes: 4096 };
        Trial::Null => "null": Trial::Null;
        Trial::Scratch { .. } => "scratch": Trial::Scratch { bytes_max: 1 << 33 };
    };
    let mut all = within(directions, "direction", |direction| Open { direction, ..open() });
    let tried = |trial: Trial| Open { direction: trial.direction(), trial: Some(trial), ..open() };
    all.extend(within(trials, "trial", tried));
    all.extend(within(sources, "source", |source| Open { source, ..open() }));
    all.extend(within(levels, "verify", |verify| Open { terms: Terms { verify, ..terms() }, ..open() }));
    all.extend(within(checks, "check", |check| Open { terms: Terms { check, ..terms() }, ..open() }));
    all.extend(one("signer", Open { signer: Some(signatory()), ..open() }));
    all.extend(one("flow", Open { places: vec![place()], flow: Some(flow_terms()), ..open() }));
    all.extend(within(frames::terms(), "", |frames| Open {
        places: vec![place()],
        frames: Some(frames),
        ..open()
    }));
    let with = |source| Open { terms: Terms { disk: Disk { source, ..terms().disk }, ..terms() }, ..open() };
    all.extend(within(directs, "direct", |direct| with(DiskSide { direct, order: None })));
    all.extend(within(orders, "order", |order| with(DiskSide { direct: Direct::Auto, order: Some(order) })));
    all
}

pub(super) fn open() -> Open {
    Open {
        transfer: TransferNumber(1),
        direction: Direction::Pull,
        places: vec![place(), Place { export: None, path: b"/home/\xff".to_vec() }],
        source: SourceForm::Many,
        terms: terms(),
        filter: vec![
            FilterRule { include: false, pattern: "*.tmp".into() },
            FilterRule { include: true, pattern: "/keep/**".into() },
        ],
        only: vec![path(b"dir/only")],
        one_file_system: true,
        follow_links: true,
        removes_at_end: true,
        trial: None,
        flow: None,
        frames: None,
        signer: None,
    }
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
