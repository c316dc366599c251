//! What is written, read, and asked of it.

use super::*;

pub(crate) fn about() -> About {
    About {
        suite: "latency".into(),
        question: "what does a default buffer cost? (000 Fig 2)".into(),
        date: "2026-11-22T02:40:00Z".into(),
        program: "thalweg 0.1.0".into(),
        commit: Some("33fe18f".into()),
        command: "thalweg bench latency".into(),
        machine: Machine { cpu: "a CPU".into(), cores: 2, ..Machine::default() },
        path: PathKind::Testbed {
            rtt_s: None,
            rate_bits_per_s: Some(1_000_000_000),
            loss: Some(0.0),
            mtu_bytes: 1500,
        },
        iterations: 3,
        encryption: "AES-128-GCM".into(),
        verification: "every segment before it is written".into(),
        scaling: Scaling::default(),
        more: [].into(),
        is_unfinished: false,
    }
}

pub(super) fn sample(run: u32, rtt_s: f64) -> Sample {
    Sample { series: "default".into(), run, bytes: 1_000_000_000, files: 1, wall_s: 2.0, ..Sample::default() }
        .with("rtt", Quantity::number(rtt_s, "s"))
        .with("control", "cubic".into())
        .predicted("rate", 4e9, "bit/s")
}

#[test]
fn what_is_written_is_read_again_in_its_order() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("latency.jsonl");
    let mut log = Log::begin(&path, about()).unwrap();
    log.sample(sample(1, 0.1)).unwrap();
    log.left_out("bbr", "this kernel has none").unwrap();
    log.sample(sample(1, 0.2)).unwrap();
    log.sample(sample(2, 0.1)).unwrap();
    assert!(!path.exists(), "a file that is not whole has no name");
    let written = log.end().unwrap();
    let read = Results::read(&path).unwrap();
    assert_eq!(read, written);
    assert_eq!(read.samples.iter().map(|sample| sample.order).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(read.cases().iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    assert_eq!((read.series(), read.samples[0].parameter("rtt")), (vec!["default"], Some(0.1)));
    assert_eq!((read.samples[0].rate_bits_per_s(), read.samples[0].cpu_s_per_gb()), (4e9, None));
}

#[test]
fn a_result_that_is_not_whole_says_how_much_there_is() {
    let of = |samples: Vec<Sample>| Results { about: about(), samples, left_out: Vec::new(), has_end: false };
    let whole = [1, 2, 3].map(|run| [sample(run, 0.1), sample(run, 0.2)]).concat();
    assert_eq!(of(whole.clone()).counted(), "3");
    assert_eq!(of(whole[..5].to_vec()).counted(), "partial: 2 to 3 of 3");
    assert_eq!(of(whole[..4].to_vec()).counted(), "partial: 2 of 3");
    let by_hand = [&whole[..], &[sample(1, 0.3)]].concat();
    assert_eq!(of(by_hand).counted(), "3", "one more that was written below");
    let mut foreign = of(whole[..5].to_vec());
    foreign.about.path = PathKind::Foreign { to: "there".into(), rtt_s: None };
    assert_eq!(foreign.counted(), "2 to 3");
    assert_eq!(of(Vec::new()).counted(), "3");
}

#[test]
fn a_result_that_was_cut_off_before_its_end_is_partial_however_many_samples_it_has() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("latency.jsonl");
    let counted = |iterations: u32, samples: &[Sample]| {
        let mut log = Log::begin(&path, About { iterations, ..about() }).unwrap();
        samples.iter().for_each(|sample| log.sample(sample.clone()).unwrap());
        let cut = Results::read(&partial(&path)).unwrap().counted();
        log.end().unwrap();
        (cut, Results::read(&path).unwrap().counted())
    };
    let all = [1, 2].map(|run| [sample(run, 0.1), sample(run, 0.2)]).concat();
    assert_eq!(counted(1, &all[..1]), ("partial: 0 to 1 of 1".into(), "1".into()), "one case of some");
    assert_eq!(counted(3, &[]), ("partial: 0 of 3".into(), "3".into()));
    assert_eq!(counted(2, &all), ("partial: 2 of 2".into(), "2".into()), "what was left out came then");
    // One of two runs stands in a series of its own.
    let other = Sample { series: "another".into(), ..sample(2, 0.1) };
    let split = [all[0].clone(), all[1].clone(), other, all[3].clone()];
    assert_eq!(counted(2, &split), ("partial: 1 to 2 of 2".into(), "2".into()), "nothing is missing");
}

/// Three copies that took as long: of two of them the rate without the start was taken to be known.
#[test]
fn older_copies_over_a_distance_are_not_chosen_by_their_rates() {
    let chosen = |run| sample(run, 0.1).measured(RATE, 5e9, "bit/s").measured(RATE_WITH_START, 4e9, "bit/s");
    let other = Sample { series: "default, with the start".into(), ..sample(2, 0.1) };
    let stream = Sample { series: "one TCP stream".into(), ..sample(1, 0.1) }.measured(RATE, 3e9, "bit/s");
    let lines = [chosen(1), other, chosen(3), stream].map(Line::Sample);
    let lines = std::iter::once(Line::About(Box::new(about()))).chain(lines);
    let text: Vec<String> = lines.map(|line| serde_json::to_string(&line).unwrap()).collect();
    let read = Results::parse(text.join("\n").as_bytes()).unwrap();
    let cases = read.cases();
    let rates = |at: usize| cases[at].iter().map(|one| one.shown_rate_bits_per_s()).collect::<Vec<_>>();
    assert_eq!((cases.len(), rates(0), rates(1)), (2, vec![4e9; 3], vec![3e9]));
    assert_eq!(cases[0][1].series, "default");
}

/// Who writes by hand may have copied the last line too; what was to come is in the first.
#[test]
fn an_end_that_was_not_promised_makes_no_result_whole() {
    let about = Line::About(Box::new(about()));
    let lines = [sample(1, 0.1), sample(1, 0.2), sample(2, 0.1), sample(2, 0.2), sample(3, 0.1)];
    let lines = std::iter::once(about).chain(lines.map(Line::Sample)).chain([Line::End(End {})]);
    let text: Vec<String> = lines.map(|line| serde_json::to_string(&line).unwrap()).collect();
    let read = Results::parse(text.join("\n").as_bytes()).unwrap();
    assert_eq!((read.has_end, read.counted().as_str()), (false, "partial: 2 to 3 of 3"));
}

#[test]
fn what_others_measured_is_not_partial_behind_the_about_of_a_file_that_has_an_end() {
    let path = PathKind::Foreign { to: "there".into(), rtt_s: None };
    let about = About { path, is_unfinished: true, ..about() };
    let lines = [Line::About(Box::new(about)), Line::Sample(sample(1, 0.1)), Line::Sample(sample(2, 0.1))];
    let text = lines.map(|line| serde_json::to_string(&line).unwrap()).join("\n");
    assert_eq!(Results::parse(text.as_bytes()).unwrap().counted(), "2");
}

#[test]
fn what_is_not_known_of_others_measurements_need_not_be_written() {
    let text = r#"{"about":{"suite":"GridFTP","question":"over distance?","date":"2026-11-22T02:40:00Z",
        "program":"GridFTP","path":{"kind":"foreign","to":"HOST"}}}"#;
    let text = text.replace('\n', " ");
    let About { command, machine, iterations, encryption, .. } =
        Results::parse(text.as_bytes()).unwrap().about;
    assert_eq!((&*command, &*encryption, iterations, machine), ("", "", 1, Machine::default()));
    // One of our own says all of it.
    let own = text.replace(r#"{"kind":"foreign","to":"HOST"}"#, r#"{"kind":"loopback"}"#);
    let refused = Results::parse(own.as_bytes()).unwrap_err().to_string();
    assert!(refused.contains("missing field `command`"), "{refused}");
}

#[test]
fn runs_that_are_void_or_failed_are_there_and_are_not_counted() {
    let spoilt = |mark: &str, run: u32| sample(run, 0.1).measured(mark, 1.0, "1");
    let mut samples =
        vec![sample(1, 0.1), spoilt(LOST_BY_A_SLOW_MACHINE, 2), spoilt(NOT_ACCOUNTED, 3), sample(4, 0.1)];
    samples.push(sample(1, 0.2).measured(LOST_BY_A_SLOW_MACHINE, 1.0, "1"));
    for (sample, cost) in samples.iter_mut().zip([1.0, 50.0, 60.0, 3.0, 70.0]) {
        sample.wire_cpu_s_per_gb = Some(cost);
    }
    let results = Results { about: about(), samples, left_out: Vec::new(), has_end: false };
    assert_eq!(results.cases().iter().map(Vec::len).collect::<Vec<_>>(), [4, 1]);
    let runs = |case: &[&Sample]| case.iter().map(|sample| sample.run).collect::<Vec<_>>();
    let counted: Vec<Vec<u32>> = results.counting_cases().iter().map(|case| runs(case)).collect();
    assert_eq!((counted, results.counting().count()), (vec![vec![1, 4]], 2));
    assert_eq!(results.path_cpu_s_per_gb(), Some(2.0));
    assert_eq!(results.void().as_deref(), Some("2 of 5 samples are VOID"));
}

#[test]
fn a_path_is_that_of_the_samples_that_are_shown() {
    let near = Sample { series: "the disk of --dir".into(), ..Sample::default() };
    let array = Sample { series: "simulated array".into(), ..Sample::default() };
    let far = near.clone().measured(LOST_BY_A_SLOW_MACHINE, 0.0, "1");
    let told = |path: PathKind, samples: &[&Sample]| {
        let about = About { path, ..about() };
        Results { about, samples: Vec::new(), left_out: Vec::new(), has_end: false }.path_of(samples)
    };
    assert_eq!(told(PathKind::Disk, &[&near]), "disk");
    assert_eq!(told(PathKind::Disk, &[&array]), "simulated disks");
    assert_eq!(told(PathKind::Disk, &[&near, &array]), "disk and simulated disks");
    assert_eq!(told(PathKind::Loopback, &[&near]), "loopback");
    assert_eq!(told(PathKind::Loopback, &[&near, &far]), "loopback and emulated paths");
    let emulated = about().path;
    assert_eq!(told(emulated.clone(), &[&far]), emulated.to_string());
    assert_eq!(told(emulated.clone(), &[&near, &far]), format!("{emulated}, and loopback"));
}

#[test]
fn quantities_are_read_in_the_units_that_people_write() {
    let about = serde_json::to_string(&Line::About(Box::new(about()))).unwrap();
    let with = |rest: &str| {
        let sample = format!(r#"{{"series":"x","run":1,"order":1,"bytes":1,"files":1,"wall_s":1,{rest}}}"#);
        let results = Results::parse(format!("{about}\n{{\"sample\":{sample}}}").as_bytes());
        results.map(|results| results.samples[0].clone()).map_err(|error| error.to_string())
    };
    let parameter = |value: &str, unit: &str| {
        with(&format!(r#""parameters":{{"x":{{"value":{value},"unit":"{unit}"}}}}"#))
            .map(|sample| sample.parameters["x"].clone())
    };
    for (value, unit, expected) in [
        ("10", "ms", Quantity::number(0.01, "s")),
        ("280", "µs", Quantity::number(0.000_28, "s")),
        ("4", "MiB", Quantity::number(4_194_304.0, "B")),
        ("2.5", "Gbit/s", Quantity::number(2.5e9, "bit/s")),
        ("100", "MB/s", Quantity::number(8e8, "bit/s")),
        ("5", "%", Quantity::number(0.05, "1")),
        ("0.3", "s", Quantity::number(0.3, "s")),
    ] {
        assert_eq!(parameter(value, unit), Ok(expected), "{value} {unit}");
    }
    let told = parameter("1", "furlong").unwrap_err();
    assert!(told.starts_with("line 2: `x` is in `furlong`; units of parameters are s, ms"), "{told}");
    let sample = with(concat!(
        r#""parameters":{},"distributions":{"lag":{"unit":"ms","values":[1,20]}},"#,
        r#""measured":{"lag_max":{"value":20,"unit":"ms"},"cost":{"value":2,"unit":"CPU-s/GB"}}"#
    ))
    .unwrap();
    assert_eq!(sample.measured["lag_max"], Quantity::number(0.02, "s"));
    assert_eq!(sample.measured["cost"], Quantity::number(2.0, "CPU-s/GB"));
    assert_eq!(sample.distributions["lag"], Distribution { unit: "s".into(), values: vec![0.001, 0.02] });
}

#[test]
fn of_too_many_values_those_are_kept_that_percentiles_are_made_of_and_their_number_is_told() {
    let few = Sample::default().distributed("lag", "s", vec![3.0, 1.0, 2.0]);
    assert_eq!(few.distributions["lag"].values, [3.0, 1.0, 2.0]);
    assert!(few.measured.is_empty());
    // From the largest to the smallest.
    let count = 1_000_000;
    let many = Sample::default().distributed("lag", "s", (0..count).rev().map(f64::from).collect());
    let kept = &many.distributions["lag"].values;
    assert_eq!(many.measured["lag_values"].value(), Some(f64::from(count)));
    assert_eq!((kept.len(), kept[0], kept[VALUES_MAX - 1]), (VALUES_MAX, 999_999.0, 0.0));
    assert!(kept.is_sorted_by(|a, b| a > b), "in the order in which they came");
    let summary = crate::bench::statistics::Summary::of(kept).unwrap();
    assert!((summary.p50 / 500_000.0 - 1.0).abs() < 1e-3 && (summary.p99 / 990_000.0 - 1.0).abs() < 1e-3);
    let fewer = Sample::default().distributed_in(400, "lag", "s", (0..count).map(f64::from).collect());
    let kept = &fewer.distributions["lag"].values;
    assert_eq!((kept.len(), kept[0], kept[399]), (400, 0.0, 999_999.0));
    assert_eq!(fewer.measured["lag_values"].value(), Some(f64::from(count)));
    let p99 = crate::bench::statistics::Summary::of(kept).unwrap().p99;
    assert!((p99 / 990_000.0 - 1.0).abs() < 2.5e-3, "{p99}");
}

#[test]
fn a_line_that_is_none_is_named() {
    let parse = |text: &str| Results::parse(text.as_bytes()).map_err(|error| error.to_string());
    let about = serde_json::to_string(&Line::About(Box::new(about()))).unwrap();
    assert!(parse("").unwrap_err().contains("nothing"));
    assert!(parse(r#"{"left_out":{"what":"x","why":"y"}}"#).unwrap_err().contains("line 1: the first"));
    assert!(parse(&format!("{about}\n\n{about}")).unwrap_err().contains("line 3: a second"));
    assert!(parse(&format!("{about}\n{{\"wall_s\":1}}")).unwrap_err().starts_with("line 2"));
    let with = |sample: &str| parse(&format!("{about}\n{{\"sample\":{sample}}}"));
    let one = |rest: &str| {
        format!(r#"{{"series":"x","parameters":{{}},"run":1,"order":1,"bytes":1,"files":1{rest}}}"#)
    };
    assert!(with(&one(r#","wall_s":0.1"#)).is_ok());
    for rest in [
        r#","wall_s":0"#,
        r#","wall_s":-1"#,
        r#","wall_s":1e31"#,
        r#","wall_s":5e-324"#,
        r#","wall_s":1,"cpu_s":1e300"#,
        r#","wall_s":1,"cpu_s":-0.5"#,
        r#","wall_s":1,"wire_cpu_s_per_gb":-0.5"#,
        r#","wall_s":1,"measured":{"rate":{"value":-1e99,"unit":"bit/s"}}"#,
        r#","wall_s":1,"distributions":{"lag":{"unit":"s","values":[1,1e-200]}}"#,
    ] {
        assert!(with(&one(rest)).unwrap_err().starts_with("line 2: `"), "{rest}");
    }
    for rest in [r#","wall_s":NaN"#, r#","wall_s":1e999"#, r#","wall_s":1,"wall_s":1"#] {
        assert!(with(&one(rest)).unwrap_err().starts_with("line 2"), "{rest}");
    }
    // An earlier one did not say its commit.
    let earlier = about.replacen("\"commit\":\"33fe18f\",", "", 1);
    assert_ne!(earlier, about);
    let earlier = parse(&earlier).unwrap().about;
    assert_eq!((earlier.commit.as_deref(), earlier.built().as_str()), (None, "thalweg 0.1.0"));
    // A later program may say more.
    let more = about.replacen("\"suite\"", "\"mood\":\"good\",\"suite\"", 1);
    assert_eq!(parse(&more).unwrap().about, super::tests::about());
}
